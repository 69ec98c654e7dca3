//! The simulator: real traces over the same policy code as the live cache, without a server.
//!
//! * [`bare`]: a policy alone over `(key hash, size)` requests; what the reference hit counts are checked with.

pub mod bare;
