//! PostgreSQL as a driver's record.

use std::sync::Arc;

use forebay::store::Store;

use super::address::Address;
use super::dialect::PostgresDialect;
use super::error::OpenError;
use super::ready::Ready;
use super::setup;
use crate::driver::{self, Driver, Work};
use crate::error::OpenError as Refused;
use crate::options::Options;
use crate::sql::remembered;

/// PostgreSQL 13 or newer.
pub static DRIVER: Driver = Driver {
    name: "postgres",
    schemes: &["postgres", "postgresql"],
    form: "postgres://USER@HOST/DATABASE",
    address: |text| {
        let address: Address = text.parse()?;
        Ok(crate::Address::new(text, address.place(), address.database().to_owned()))
    },
    prepare: |options| Box::pin(async move { Ok(Box::new(Ready::prepare(options).await?) as Box<dyn driver::Ready>) }),
    catalogue: |remembered, mappings, keys| remembered::catalogue(&PostgresDialect, remembered, mappings, keys),
    check: |options| Box::pin(async move { Ok(setup::check(&options).await?) }),
    script: |options, unsaid| Box::pin(async move { Ok(setup::script(&options, unsaid).await?) }),
    init: |options, unsaid| Box::pin(async move { Ok(setup::init(&options, unsaid).await?) }),
    drop_slot: Some(|options: Options| Box::pin(async move { Ok(setup::drop_slot(&options).await?) })),
};

impl driver::Ready for Ready {
    fn take(self: Box<Self>) -> Work<Arc<dyn Store>> {
        Box::pin(async move { Ok(Arc::new(Ready::take(*self).await?) as Arc<dyn Store>) })
    }
}

impl From<OpenError> for Refused {
    fn from(error: OpenError) -> Refused {
        let why = error.to_string();
        match error {
            OpenError::Unreachable { .. } | OpenError::Hangs { .. } => Refused::Unreachable(why),
            OpenError::Denied { .. } => Refused::Denied(why),
            OpenError::Mapping(_) => Refused::Mapping(why),
            OpenError::Taken { over, .. } => Refused::Taken { why, over },
            OpenError::OtherDatabase(other) => other.into(),
            _ => Refused::Refused(why),
        }
    }
}
