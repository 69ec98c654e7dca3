//! Drivers of databases that forebay stands in front of, each behind a cargo feature of its name. A driver implements
//! [`forebay::store::Store`]: it knows its database, and nothing of caching or locks.
//!
//! * [`postgres`] is PostgreSQL.

#[cfg(feature = "postgres")]
pub mod postgres;
