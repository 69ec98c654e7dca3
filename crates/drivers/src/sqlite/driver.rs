//! SQLite as a driver's record.

use std::sync::Arc;

use forebay::store::Store;

use super::dialect::SqliteDialect;
use super::ready::Ready;
use super::store::Sqlite;
use super::{address, setup};
use crate::driver::{self, Driver, Work};
use crate::sql::remembered;

/// SQLite, built in.
pub static DRIVER: Driver = Driver {
    name: "sqlite",
    schemes: &["sqlite"],
    form: "sqlite:PATH",
    address: address::read,
    prepare: |options| Box::pin(async move { Ok(Box::new(Ready::prepare(options).await?) as Box<dyn driver::Ready>) }),
    catalogue: |remembered, mappings, keys| remembered::catalogue(&SqliteDialect, remembered, mappings, keys),
    check: |options| Box::pin(setup::check(options)),
    // There is one way to keep versions.
    script: |options, _| Box::pin(setup::script(options)),
    init: |options, _| Box::pin(setup::init(options)),
    drop_slot: None,
};

impl driver::Ready for Ready {
    fn take(self: Box<Self>) -> Work<Arc<dyn Store>> {
        Box::pin(async move { Ok(Arc::new(Sqlite::take(*self).await?) as Arc<dyn Store>) })
    }
}
