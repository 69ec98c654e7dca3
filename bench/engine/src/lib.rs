//! What the programs of this package share.

pub mod machine;
pub mod requests;
pub mod zipf;
