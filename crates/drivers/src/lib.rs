//! Drivers of databases that forebay stands in front of, each behind a cargo feature of its name. A driver implements
//! [`forebay::store::Store`]: it knows its database, and nothing of caching or locks.
//!
//! A driver is one record, a [`Driver`], in one line of [`DRIVERS`]. Settings, help texts, `forebay store` and the
//! start of the server know the record alone.
//!
//! * `driver`, `options`, `address`, `error`: the record and what it takes and answers.
//! * [`sql`]: what drivers of SQL databases share. It says what a further one has to bring.
//! * `postgres`: PostgreSQL. `sqlite`: SQLite.

// Without a driver there are the settings alone. Of what drivers share, some is called by PostgreSQL's alone.
#![cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "drivers use it"))]

mod address;
mod driver;
mod error;
mod options;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;

use std::str::FromStr;

pub use address::Address;
pub use driver::{Away, Checked, Driver, Ready, Work};
pub use error::{OpenError, OtherDatabase};
pub use options::{Known, Options};
pub use sql::keys::Keys;
pub use sql::mapping::{Mapping, VersionMode};
pub use sql::remembered::Remembered;
pub use sql::watching::OutsideBy;

/// Every driver of this build.
pub static DRIVERS: &[&Driver] = &[
    #[cfg(feature = "postgres")]
    &postgres::DRIVER,
    #[cfg(feature = "sqlite")]
    &sqlite::DRIVER,
];

/// The driver whose addresses begin as `text` does.
pub fn driver_of(text: &str) -> Option<&'static Driver> {
    let (scheme, _) = text.split_once(':')?;
    DRIVERS.iter().copied().find(|driver| driver.schemes.contains(&scheme))
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        match driver_of(text) {
            Some(driver) => (driver.address)(text),
            None => Err(match DRIVERS.iter().map(|driver| driver.form).collect::<Vec<_>>().as_slice() {
                [] => "this build has no driver of a database".into(),
                forms => format!("give {}", forms.join(" or ")),
            }),
        }
    }
}
