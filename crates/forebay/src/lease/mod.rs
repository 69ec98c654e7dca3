//! For how long a copy that a client keeps is worth using (KAIROS, section 4).
//!
//! A copy is right as long as nobody writes its document; whether it was is found when the transaction commits. So a
//! lease is a guess, and never decides whether a transaction is right. Too short a lease fetches what would have done.
//! Too long a one has transactions abort for what they have read. [`term`] says which lease costs least, from the mean
//! times between reads and between writes. [`rates`] estimates those, and [`admission`] reads of documents that a cache
//! does not keep.
//!
//! Nothing here has a clock: each moment is an argument.

pub mod admission;
mod leases;
pub mod rates;
pub mod term;

pub use admission::{Popular, ReadRates};
pub use leases::{Bounds, Leases};
pub use rates::{ReadGap, WriteRates};
pub use term::{Gaps, Term};
