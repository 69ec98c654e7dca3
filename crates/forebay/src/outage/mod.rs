//! What is done while the store is away, and what is kept for when it is back (TARDIS; `docs/papers/tardis.md`).
//!
//! * [`gate`]: the store that the transactions see. It sends writes on, or keeps them; `state` is what it knows.
//! * [`mode`]: whether the store is up: normal, failed, recovery.
//! * [`pending`]: what is kept, and in which order it goes to the store; [`lanes`]: what needs an order at all.
//! * `pace`, `speed`, `write_back`: how writes are held up so that the drain keeps up with them.
//! * `recovery` probes the store and applies what is pending. `unnoted` is what of that the journal can't say yet,
//!   `tickets` what became of it, `news` what waits for that.
//! * [`record`]: plain data: a buffered transaction, and what the journal says of it later; [`fingerprint`]: by what it
//!   knows again what it has read.
//! * [`journal`]: records on disk; what was acknowledged outlives the process. [`disk`]: the folder that it lies in.

pub mod disk;
pub mod fingerprint;
pub mod gate;
pub mod journal;
pub mod lanes;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod lossy;
pub mod mode;
mod news;
mod pace;
pub mod pending;
pub mod record;
mod recovery;
mod speed;
mod state;
mod tickets;
mod unnoted;
mod write_back;

pub use crate::tier::Remembered;
pub use disk::{DiskFile, FileIdentity, Folder, RealFolder};
pub use fingerprint::Fingerprint;
pub use gate::{
    ApplyError, DropError, Gate, GateOptions, GateSettings, GateState, GivenUp, OnConflict, ResumeError, catalogue_of,
    incarnation_of, seen_incarnation_of,
};
pub use journal::{AppendError, Cut, Found, Journal, JournalOptions, OpenError};
pub use lanes::LaneRule;
pub use mode::{BreakerSettings, Mode};
pub use news::ModeChanges;
pub use pending::{Drift, Meets};
pub use record::{Buffered, Description, Dropped, Epoch, Loss, Pending, Record, Standing, Written};
pub use state::Counts;
pub use tickets::TicketState;
