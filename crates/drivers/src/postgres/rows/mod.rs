//! Rows of mapped tables: what PostgreSQL is asked of them.
//!
//! * `catalogue`: what the database says about the tables; `foreign`: their foreign keys; `found`: all of it.
//! * `sql`: statements that read rows. `changes`: a document's changes as SQL; `lists`: those of an array.
//!   `statement`: those of one row, and of many at once; `checked`: those that check their rows, too.
//! * `value_refused`: which texts are no values; `canonical`, `moments`: how the database shows a value.
//! * `mapped`: the tables; `texts`: answers; `commits`: reading and committing; `one`: a commit of one row; `many`:
//!   one statement for many rows; `batch`: what a group comes to; `absent`: rows that were read as absent; `large`: a
//!   commit of large rows. `beside`: one that writes documents, too; `reading`, `listing`: reads, and keys in their
//!   order; `since`: rows since a commit.
//! * `size`: how large a row may be. `versions`: what keeps the versions of rows.

mod absent;
mod batch;
pub(super) mod beside;
pub(super) mod canonical;
pub(super) mod catalogue;
pub(super) mod changes;
pub(super) mod checked;
mod commits;
pub(super) mod foreign;
pub(super) mod found;
mod large;
mod listing;
mod lists;
mod many;
pub(super) mod mapped;
mod moments;
mod one;
mod reading;
mod since;
pub(super) mod size;
pub(super) mod sql;
pub(super) mod statement;
pub(super) mod texts;
pub(super) mod value_refused;
pub(super) mod versions;
