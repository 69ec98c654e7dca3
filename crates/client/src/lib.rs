//! Forebay's client library: transactions over a leased cache inside the application (`docs/leases.md`).
//!
//! ```no_run
//! use forebay_client::{Error, Options};
//!
//! # async fn run() -> Result<(), Error> {
//! let client = Options::new("127.0.0.1:6379").cache_bytes(256 << 20).connect().await?;
//! let left = client
//!     .transaction(async |tx| {
//!         let left = tx.get_integer("stock:7").await?.unwrap_or(0);
//!         if left > 0 {
//!             tx.add("stock:7", -1)?;
//!         }
//!         Ok::<i64, Error>(left)
//!     })
//!     .await?;
//! # drop(left);
//! # Ok(())
//! # }
//! ```
//!
//! Transactions are serializable at each [`Level`]. One that only reads ends without a message where the versions of
//! its copies allow it. Else it is validated, and one that writes commits, by one message.
//!
//! ```text
//! client.rs      sessions, and transactions that run until they end well
//! transaction.rs what a body reads and writes with attempt.rs     one attempt, and its end
//! buffer.rs      what it is going to write         write.rs       commands, and the changes that they make
//! copies.rs      the leased cache                  moment.rs      whether reads were there at one moment
//! shared.rs      messages: LEASE GET, commits      answer.rs      what is said in reply
//! pool.rs        connections                       connection.rs  one of them; wire.rs: its bytes
//! options.rs     what a client is to be            statistics.rs  what is counted
//! ```

/// What the document shows is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/leases.md")]
struct Document;

#[doc(hidden)] // For the fuzzers.
pub mod answer;
mod attempt;
mod buffer;
mod client;
mod connection;
mod copies;
mod error;
mod moment;
mod options;
mod pool;
mod shared;
mod statistics;
mod transaction;
mod wire;
mod write;

pub use answer::Outcome;
pub use client::Client;
pub use error::{CommitId, Error};
pub use forebay::change::End;
pub use forebay::value::{Blob, Hash, List, Set, Value};
pub use forebay::version::Version;
pub use moment::Level;
pub use options::Options;
pub use rustls;
pub use statistics::Statistics;
pub use transaction::Transaction;

/// How the lengths of leases are found.
pub use forebay::lease::Leases;
