//! A cache for many threads whose hits write nothing.
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
//! `engine` holds the table, the order of eviction and the budget; its head says how they work together.

mod engine;
mod mutation;
mod sync;

pub use engine::{CAPACITY_MAX, Inline, NoRoom, Plain, TooLarge, Words};
