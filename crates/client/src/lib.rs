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
//! socket.rs      what these travel on              ground.rs      clock, timers and chance
//! options.rs     what a client is to be            statistics.rs  what is counted
//! mutation.rs    rules that tests leave out         flights.rs     one request for all that miss a key
//! reads.rs       what an attempt has read
//! ```

/// What the document shows is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/leases.md")]
struct Document;

mod admission;
#[doc(hidden)] // For the fuzzers.
pub mod answer;
mod attempt;
mod buffer;
mod client;
mod connection;
mod copies;
mod copy;
mod error;
mod fetch;
mod flights;
mod ground;
mod moment;
#[doc(hidden)]
pub mod mutation;
mod options;
mod pool;
mod reads;
mod shared;
mod socket;
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

#[cfg(test)]
mod tests {
    use crate::mutation::Fault;
    use crate::{copies, moment};

    const GATE: &[(Fault, fn())] = &[
        (Fault::MomentsMixed, moment::tests::copies_of_one_moment),
        (Fault::IncarnationsMixed, moment::tests::copies_of_one_moment),
        (Fault::FloorIgnored, moment::tests::each_level_asks_for_its_moment),
        (Fault::BoundIgnored, moment::tests::each_level_asks_for_its_moment),
        (Fault::LateAnswerKept, copies::tests::a_late_answer_replaces_nothing_newer),
        (Fault::LateAnswerKept, copies::tests::a_stale_copy_leaves_a_note),
        (Fault::LeaseFromAnswer, copies::tests::a_lease_counts_from_before_the_request),
        (Fault::LifeFromAnswer, copies::tests::a_document_with_an_expiry_ends_with_it),
        (Fault::LeaseOverIncarnation, copies::tests::leases_end_with_the_incarnation),
        (Fault::StaleServesOn, copies::tests::a_stale_copy_leaves_a_note),
        (Fault::RenewedUnchecked, copies::tests::a_check_begins_the_lease_again),
    ];

    /// Tests that find nothing show nothing.
    #[test]
    fn gate() {
        assert_eq!(crate::mutation::missed(GATE), []);
    }
}
