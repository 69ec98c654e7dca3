//! What one row of a table says.

use crate::record::{Kind, Record};

/// Most clients that may be named in place of numbered.
pub const CLIENTS_NAMED_MAX: u32 = 1 << 20;

/// Most transaction types that may be named in place of numbered.
pub const TYPES_NAMED_MAX: u32 = 4096;

/// What a row says.
#[derive(Default)]
pub(super) struct Row {
    /// Its request.
    pub(super) record: Record,
    /// How many more requests it stands for.
    pub(super) left: u64,
    /// How its transaction ends with it.
    pub(super) end: Option<Kind>,
    /// It says no operation, which only an end may.
    pub(super) no_operation: bool,
}
