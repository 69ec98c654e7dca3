//! What drivers of SQL databases share. A driver brings its own words; what a mapping, a row and a change are stands
//! here.
//!
//! * `pattern`, `glob`, `mapping`, `keys`: what `--map` and `--keys` say. `shared`: what mappings have in common.
//! * `table`: a mapped table as data. `tables`: all of them, and what they tell without the database. `foreign`: what
//!   joins them. `written`, `remembered`: what the journal keeps of them for a start without the database.
//! * `row_change`: what a document's changes come to in its row. `as_stored`, `refusals`: how the database shows a
//!   value, and which it surely refuses. `row_size`: how large a row may be. `json`, `text`: values as texts.
//! * `dialect`: the rules of one database, as far as they can be told without asking it.
//! * `identity`, `owners`: whose the database is, and whether it is in the state that it was in. `failure`: why a
//!   commit was not made. `counted`: reads and commits, counted.
//! * `document`: a document of forebay's table as the database has it.
//! * `ids`: how long the ids of commits are remembered. `watching`, `watch`: how what others write is seen.
//! * `described`: what `forebay store check` says of a table.
//!
//! # What a driver brings
//!
//! A driver of a further SQL database brings a [`Driver`](crate::Driver) record, a `Dialect`, a look at the database's
//! catalogue that makes `Table`s, statements that read rows and make `RowChange`s, triggers that keep versions and note
//! what others write, a session, and what each of the database's errors means.

pub(crate) mod as_stored;
pub(crate) mod counted;
pub(crate) mod described;
pub(crate) mod dialect;
pub(crate) mod document;
pub(crate) mod failure;
pub(crate) mod foreign;
pub(crate) mod glob;
pub(crate) mod identity;
pub(crate) mod ids;
mod json;
pub mod keys;
pub mod mapping;
pub(crate) mod owners;
pub(crate) mod pattern;
mod refusals;
pub mod remembered;
pub(crate) mod row_change;
mod row_size;
pub(crate) mod shared;
pub(crate) mod table;
pub(crate) mod tables;
pub(crate) mod text;
pub(crate) mod watch;
pub mod watching;
mod written;
