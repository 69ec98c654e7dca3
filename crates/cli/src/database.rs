//! A database as the store: from the settings to the driver.

use std::sync::Arc;
use std::time::Duration;

use forebay::runtime::files::{self, NAMED_FILE_BYTES_MAX};
use forebay::store::Store;
use forebay_drivers::{DRIVERS, Driver, Known, Options, Ready, driver_of};

use crate::error::CommandError;
use crate::settings::{Settings, StoreChoice};

/// Finds out whether the database that `settings` name can be taken, of which an earlier run has left `known`.
pub async fn prepare(settings: &Settings, known: Known) -> Result<Box<dyn Ready>, CommandError> {
    let (driver, options) = named(settings)?;
    Ok((driver.prepare)(Options { known, ..options }).await?)
}

/// Opens the database for a program that serves already: the first connection gets no more time than any other.
pub async fn open_again(settings: &Settings, known: Known) -> Result<Arc<dyn Store>, CommandError> {
    let (driver, options) = named(settings)?;
    let ready = (driver.prepare)(Options { known, first: options.timeout, ..options }).await?;
    Ok(ready.take().await?)
}

/// The driver of the database that `settings` name, and how that is to be used.
pub fn named(settings: &Settings) -> Result<(&'static Driver, Options), CommandError> {
    let address = match &settings.store {
        StoreChoice::Database(address) => (**address).clone(),
        _ => {
            let forms: Vec<&str> = DRIVERS.iter().map(|driver| driver.form).collect();
            return Err(CommandError::Usage(format!("--store names no database; give {}", forms.join(" or "))));
        }
    };
    let unknown = || CommandError::Usage(format!("no driver of this build knows {}", address.text()));
    let driver = driver_of(address.text()).ok_or_else(unknown)?;
    let options = Options {
        password: password(settings)?,
        timeout: Duration::from_millis(settings.store_timeout_ms),
        writers: settings.store_writers,
        row_bytes_max: settings.row_bytes_max,
        mappings: settings.maps.clone(),
        keys: settings.keys.clone(),
        outside: settings.outside,
        outside_pause: Duration::from_millis(settings.outside_ms),
        ..Options::new(address)
    };
    Ok((driver, options))
}

/// The first line of the password's file.
fn password(settings: &Settings) -> Result<Option<Vec<u8>>, CommandError> {
    let Some(file) = &settings.store_password_file else { return Ok(None) };
    let wrong = |error| CommandError::StorePassword { file: file.clone(), error };
    let text = files::read_text(file, NAMED_FILE_BYTES_MAX).map_err(wrong)?;
    match text.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(Some(line.as_bytes().to_vec())),
        None => Err(wrong(std::io::Error::other("its first line is empty"))),
    }
}
