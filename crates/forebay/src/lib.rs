//! A transactional cache between an application and its data store.
//!
//! Replacement policies, transaction graphs and hints come from the crate `forebay-cache`, which has no store.
//!
//! The rooms, in the order in which a request walks through them:
//!
//! * [`txn`]: transactions: locks, levels, group commit, publication, recorded histories.
//! * [`graph`]: transaction types as graphs: which of their keys have to be cached together.
//! * [`cache`]: what is kept in memory, within one byte budget; [`policy`] decides what stays.
//! * [`lease`]: for how long a copy that a client keeps is worth using.
//! * [`outage`]: what is kept safe while the store is away.
//! * [`tier`]: where buffered writes live until the store has them.
//! * [`store`]: where the truth lives; drivers of other databases implement [`store::Store`].
//! * [`runtime`]: clock, timers, randomness and tasks: tokio's, or a seeded simulation.
//!
//! Plain data that every room may use: [`Key`], [`Value`], [`Read`], [`Change`], [`Version`].

pub mod cache;
pub mod change;
pub mod error;
pub mod key;
pub mod lease;
#[doc(hidden)]
pub mod mutation;
pub mod outage;
pub mod read;
pub mod runtime;
pub mod store;
mod sync;
pub mod tier;
pub mod txn;
pub mod value;
pub mod version;

pub use change::Change;
/// The cache inside a program, whose builder, lifetimes and snapshots are there.
///
/// ```
/// let cache = forebay::Cache::<String, u64>::new(1_000);
/// cache.insert("one".into(), 1);
/// assert_eq!(cache.get("one"), Some(1));
/// ```
pub use forebay_cache;
pub use forebay_cache::{Cache, Shadow, graph, hint, policy};
pub use key::{Key, KeyRef};
pub use read::Read;
pub use value::{Blob, Bytes, Data, Value};
pub use version::{OwnerId, TxnId, Version};
