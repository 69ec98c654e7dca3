//! SQLite as a driver's record.

use std::sync::Arc;

use forebay::store::Store;

use super::address;
use super::ready::Ready;
use crate::driver::{self, Checked, Driver, Work};
use crate::error::OpenError;

/// SQLite, built in.
pub static DRIVER: Driver = Driver {
    name: "sqlite",
    schemes: &["sqlite"],
    form: "sqlite:PATH",
    address: address::read,
    prepare: |options| Box::pin(async move { Ok(Box::new(Ready::prepare(options).await?) as Box<dyn driver::Ready>) }),
    catalogue: |_, _, _| todo!(),
    check: |_| Box::pin(async { Ok(Checked::default()) }),
    script: |_, _| Box::pin(async { Err(OpenError::Refused(String::new())) }),
    init: |_, _| Box::pin(async { Err(OpenError::Refused(String::new())) }),
    drop_slot: None,
};

impl driver::Ready for Ready {
    fn take(self: Box<Self>) -> Work<Arc<dyn Store>> {
        Box::pin(async move { Ok(Arc::new(Ready::take(*self).await?) as Arc<dyn Store>) })
    }
}
