//! PostgreSQL as the store.
//!
//! * `driver`: its record. `store`: the calls of a store; each runs as a task, so that a caller that goes away changes
//!   nothing. `database`: what these tasks share.
//! * [`address`]: where it is; `tls`, `wire`, `session`, `settings`: one connection. `pool`: a small fixed set of them,
//!   reads pipelined on shared ones. `reading`, `locked`: a read that waits for a lock keeps no other read waiting.
//! * `ready`, `open`, `opened`, `raise`, `owners`, `greet`: one forebay per database, in an incarnation that no other
//!   has, taken in the last step of an opening. `keeper`: what is done from time to time.
//! * `documents`, `large`, `room`: the table that forebay owns, and its large documents. `named`, `mixed`: documents
//!   beside rows. `clear`, `listing`, `given`: key spaces, keys in their order, and ids that clients gave.
//! * `rows`: rows of mapped tables. `dialect`: which keys and values there are. `reload`: tables that were altered.
//! * `outside`, `watch`: what others write to these, as triggers note it; `decoding`: as the server's log says it.
//! * `commit`: a commit is one message and one transaction. `classify`, `shown`, `get_error`: what an error
//!   says about it, and what of that is told. `with_ids`: which commits a read has in it.
//! * [`setup`], `install`, `noted`: `forebay store check` and `init`. [`plain`]: a connection as any program has it.
//!
//! One timeout bounds each wait for the server, connecting and handshakes included. What is large has the time that it
//! takes to send: as long as the server acknowledges a part of it, or sends one, the wait goes on (`wire`).

pub mod address;
mod classify;
mod clear;
mod clears;
mod commit;
mod database;
mod decoding;
mod dialect;
mod documents;
mod driver;
mod error;
mod figures;
mod get_error;
mod given;
mod greet;
mod install;
mod keeper;
mod large;
mod listing;
mod locked;
mod mixed;
mod named;
mod noted;
mod open;
mod opened;
mod outside;
mod owners;
pub mod plain;
mod pool;
mod pooled;
mod raise;
mod reading;
mod ready;
mod reload;
mod room;
mod rows;
mod session;
mod settings;
pub mod setup;
mod shown;
mod sql;
mod store;
mod tls;
mod watch;
mod wire;
mod with_ids;

pub use driver::DRIVER;
pub use error::OpenError;
pub use ready::Ready;
pub use store::Postgres;
