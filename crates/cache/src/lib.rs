//! A cache for many threads whose hits write nothing that threads share.
//!
//! ```
//! use forebay_cache::Inline;
//!
//! let cache: Inline<u64, u64> = Inline::new(10_000)?;
//! cache.insert(1, 100);
//! assert_eq!(cache.get(1), Some(100));
//! assert_eq!(cache.get_or_insert_with(2, || 200), 200);
//! assert_eq!(cache.remove(1), Some(100));
//! assert_eq!(cache.get(1), None);
//! # Ok::<(), forebay_cache::TooLarge>(())
//! ```
//!
//! [`Inline`] is for numbers and what is like them; [`Cache`] is for all other keys and values:
//!
//! ```
//! let cache: forebay_cache::Cache<String, Vec<u8>> = forebay_cache::Cache::new(10_000);
//! cache.insert("key".to_string(), vec![1, 2, 3]);
//! assert_eq!(cache.with("key", |value| value.len()), Some(3));
//! ```
//!
//! Which call takes the place of another cache's is in `docs/migrating.md`.
//!
//! The rooms:
//!
//! * `local`: the cache for programs.
//! * `engine`: tables, the order of eviction and the budget; its head says how they work together.
//! * [`policy`]: the replacement policies by name, for servers, simulators and fuzzers.
//! * [`graph`]: transaction types as graphs, which some policies follow. [`hint`]: what clients say of their requests.

/// What the document shows is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/migrating.md")]
struct Migrating;

mod ahead;
mod engine;
pub mod graph;
pub mod hint;
mod local;
mod mutation;
pub mod policy;
mod sync;

pub use engine::{
    Ahead, Buffers, CAPACITY_MAX, Cause, DEFERRED_SHARE, Found, Full, Guard, Held, HeldGuard, Inline, Item, Keyed,
    NoRoom, PINS_MAX, Packed, Plain, Pointers, Present, Put, Readers, Retired, Seen, Shadow, Sight, Sighted, TooLarge,
    Words, Writer,
};
#[doc(hidden)]
pub use local::{BlockReader, BlockWriter, NoBlock};
pub use local::{
    Builder, COMPUTE_TRIES_MAX, Cache, Clock, Computed, Damage, Guarded, Hashing, Iter, Lifetime, LoadError, Loaded,
    Op, OwnKey, Portable, Saved, SnapshotError, Statistics, StillPinned, TAG_WEIGHT, TAGS_MAX, Tags, memoize,
};
