//! Rows of mapped tables.
//!
//! * `catalogue`: what the file says of its tables. `triggers`: what keeps versions of rows and notes what others
//!   write. `keys`: a row's key as one text.
//! * `values`: values as texts, and texts as values. `reading`, `writing`: rows as documents.

pub(super) mod catalogue;
pub(super) mod keys;
pub(super) mod reading;
pub(super) mod triggers;
pub(super) mod values;
pub(super) mod writing;
