//! A database as the store: from the settings to the driver.

use std::time::Duration;

use forebay::runtime::files::{self, NAMED_FILE_BYTES_MAX};
use forebay_drivers::postgres::address::Address;
use forebay_drivers::postgres::{Known, Postgres, PostgresOptions, Ready};

use crate::error::CommandError;
use crate::settings::{Settings, StoreChoice};

/// Finds out whether the database that `settings` name can be taken, of which an earlier run has left `known`.
pub async fn prepare(settings: &Settings, known: Known) -> Result<Ready, CommandError> {
    Ok(Ready::prepare(PostgresOptions { known, ..options(settings)? }).await?)
}

/// Opens the database for a program that serves already: the first connection gets no more time than any other.
pub async fn open_again(settings: &Settings, known: Known) -> Result<Postgres, CommandError> {
    let options = options(settings)?;
    Ok(Postgres::open(PostgresOptions { known, first: options.timeout, ..options }).await?)
}

/// How the database is to be used.
pub fn options(settings: &Settings) -> Result<PostgresOptions, CommandError> {
    let StoreChoice::Postgres(address) = &settings.store else {
        return Err(CommandError::Usage("--store names no database; give postgres://USER@HOST/DATABASE".into()));
    };
    let address: Address = (**address).clone();
    Ok(PostgresOptions {
        password: password(settings)?,
        timeout: Duration::from_millis(settings.store_timeout_ms),
        writers: settings.store_writers,
        row_bytes_max: settings.row_bytes_max,
        mappings: settings.maps.clone(),
        keys: settings.keys.clone(),
        outside: settings.outside,
        outside_pause: Duration::from_millis(settings.outside_ms),
        ..PostgresOptions::new(address)
    })
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
