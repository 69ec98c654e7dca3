//! What is done while the store is away, and what is kept for when it is back (TARDIS; `docs/papers/tardis.md`).
//!
//! * [`record`]: plain data: a buffered transaction, and what the journal says of it later.
//! * [`journal`]: records on disk; what was acknowledged outlives the process.
//! * [`disk`]: the folder that the journal lies in.

pub mod disk;
pub mod journal;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod lossy;
pub mod record;

pub use disk::{DiskFile, Folder, RealFolder};
pub use journal::{AppendError, Found, Journal, JournalOptions, OpenError};
pub use record::{Buffered, Description, Epoch, GivenId, Loss, Pending, Record, Standing, Written};
