//! A driver, as a record: all that the program knows of a database.

use std::fmt;
use std::sync::Arc;

use forebay::store::Store;
use forebay::store::late::Catalogue;
use futures_util::future::BoxFuture;

use crate::address::Address;
use crate::error::OpenError;
use crate::options::Options;
use crate::sql::keys::Keys;
use crate::sql::mapping::{Mapping, VersionMode};
use crate::sql::remembered::Remembered;

/// What opening, checking or preparing a database comes to.
pub type Work<T> = BoxFuture<'static, Result<T, OpenError>>;

/// What tells of keys and changes by what is remembered of the database, if anything is, and by `--map` and `--keys`.
pub type Away = fn(Option<Remembered>, &[Mapping], &[Keys]) -> Box<dyn Catalogue>;

/// A database that forebay stands in front of.
pub struct Driver {
    /// The word for it: `postgres`.
    pub name: &'static str,
    /// What `--store` begins with before the first colon.
    pub schemes: &'static [&'static str],
    /// How `--store` names one: `postgres://USER@HOST/DATABASE`.
    pub form: &'static str,
    /// Reads what `--store` says; the error says what to give instead, and quotes nothing that may be a password.
    pub address: fn(&str) -> Result<Address, String>,
    /// Finds out all that may stand in the way of an opening, and takes nothing from the owner that is there.
    pub prepare: fn(Options) -> Work<Box<dyn Ready>>,
    /// What can be said of keys and changes while the database can't be asked.
    pub catalogue: Away,
    /// Looks at the database and changes nothing: `forebay store check`.
    pub check: fn(Options) -> Work<Checked>,
    /// The statements of `forebay store init`. A table that keeps no versions yet, and whose mapping does not say how,
    /// gets the mode that is named last.
    pub script: fn(Options, VersionMode) -> Work<String>,
    /// Runs them, all or nothing.
    pub init: fn(Options, VersionMode) -> Work<()>,
    /// Drops what keeps the database's log for `--outside decoding`; whether it was there. None where nothing does.
    pub drop_slot: Option<fn(Options) -> Work<bool>>,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A database that can be taken. Its owner still has it.
pub trait Ready: Send {
    /// Takes it.
    fn take(self: Box<Self>) -> Work<Arc<dyn Store>>;
}

/// What was found in a database, a line each.
#[derive(Debug, Default)]
pub struct Checked {
    /// What is well, and what is worth knowing.
    pub notes: Vec<String>,
    /// What is better mended, though `forebay serve` starts with it.
    pub warnings: Vec<String>,
    /// What stands in the way of `forebay serve`, each with the fix.
    pub problems: Vec<String>,
}
