//! The simulator: real traces over the same policy code as the live cache, without a server.
//!
//! * [`bare`]: a policy alone over `(key hash, size)` requests; what the reference hit counts are checked with.
//! * [`replay`]: a trace through the live cache, with its keys, values and fills; what a server's hit ratio is compared
//!   with.

pub mod bare;
pub mod replay;
