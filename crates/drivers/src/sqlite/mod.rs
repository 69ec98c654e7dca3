//! SQLite as the store: one file, which other programs may write too.
//!
//! * `driver`: its record. `store`: the calls of a store; each runs as a task, so that a caller that goes away changes
//!   nothing. `database`: what these tasks share.
//! * `address`, `file`, `lock`: where the file is, whether it is there still, and that one forebay has it.
//! * `connection`, `slot`: one connection. `transaction`: every read and every commit is one, and sees first whose file
//!   it is. `read_failed`: why a read has no answer.
//! * `schema`, `ready`, `owners`: forebay's tables in the file, and how it is opened and taken.
//! * `commit`, `documents`, `given`, `listing`, `names`: commits, the documents that forebay owns, and keys in their
//!   order.
//! * `mapped`, `rows`, `dialect`: mapped tables and their rows. `outside`, `last_look`: what others write to them.
//! * `setup`: `forebay store check` and `init`.
//! * `error`: what an error of SQLite's says of the commit that it answers.
//!
//! SQLite has one writer at a time, in all processes together. So a commit reads, computes and writes under the file's
//! lock, and nothing has to be locked row by row. What it costs is that a program that holds the lock holds everybody
//! up: after `--store-timeout-ms` the file counts as away.

mod address;
mod commit;
mod connection;
mod database;
mod dialect;
mod documents;
mod driver;
mod error;
mod file;
mod given;
mod last_look;
mod listing;
mod lock;
mod mapped;
mod names;
mod outside;
mod owners;
mod read_failed;
mod ready;
mod rows;
mod schema;
mod setup;
mod slot;
mod store;
mod transaction;

pub use driver::DRIVER;
pub use ready::Ready;
pub use store::Sqlite;
