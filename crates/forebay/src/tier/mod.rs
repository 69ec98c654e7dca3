//! Where buffered writes live until the store has them (TARDIS, section 2).
//!
//! A tier keeps entries in the order in which it is given them, as safe as it promises. It gives those that still
//! mean something to the next owner that opens it. It knows what an entry does to those before it ([`Effect`]), not
//! what it says. It has one owner at a time. An owner that opens it ends the one before, whose entries are refused
//! from then on. So no owner that was paused or cut off writes after a successor.
//!
//! * The journal (`outage/journal`) is the tier of one node: a file on its own disk; the lock on its folder is what
//!   ends owners.
//! * [`memory`]: nothing outlives the process. The smallest that keeps the contract.
//!
//! One in a store of values (Redis, memcached) would keep an entry under its number: `Added` is an add or a conditional
//! put, `Known` an append, `Gone` a delete, each in one step with a look at the owner's lease. Who owns nothing
//! (memcached may evict it, Redis may fail over to a copy that lacks it) must not answer that an entry is kept. Cached
//! values are not behind this: they live in `cache`.

mod error;
pub mod memory;

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_channel::oneshot;

pub use self::error::AppendError;
use crate::version::{OwnerId, TxnId};

/// Bytes that one entry takes at most.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

/// Ids that a tier remembers at most.
pub const REMEMBERED_IDS_MAX: usize = 200;

/// Entries that are kept only for saying how others ended; the oldest go first.
pub const ENDED_MAX: usize = 1000;

/// Bytes of these.
pub const ENDED_BYTES_MAX: u64 = 4 << 20;

/// What an entry does to those before it. Numbers are the owner's: each names one thing that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is kept under this number, which is above all before.
    Added(u64),
    /// What is kept under these, if anything, is not needed any more.
    Gone(Vec<u64>),
    /// What is kept under this one, if anything, is not needed any more, but this entry, which says how it ended. Of
    /// such the last [`ENDED_MAX`] are kept, and no more than [`ENDED_BYTES_MAX`].
    Ended(u64),
    /// It says how this one stands with the owner, in place of what said so before.
    Stands(u64),
    /// That is not so any more.
    Retried(u64),
    /// It is kept in place of several.
    Replaced {
        /// Under this number: one of theirs, or above all before.
        into: u64,
        /// All of them are there.
        from: Vec<u64>,
    },
    /// It belongs to what is kept under this number, if anything is.
    Known(u64),
    /// Nothing: it is the tier's own.
    Mark,
}

/// What a tier keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it does.
    pub effect: Effect,
    /// What it says, for its owner alone.
    pub body: Vec<u8>,
}

/// What the numbers of changes in a tier mean: pending ones are applied under this mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// The mapping as it was written by the operator.
    pub mapping: String,
    /// The catalogue of the store as it was seen.
    pub catalogue: String,
}

/// What an owner tells the next one about the store that the entries are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The newest commits that the store has acknowledged, by which it is recognised; the last
    /// [`REMEMBERED_IDS_MAX`] of them.
    pub acknowledged: Vec<TxnId>,
    /// The store was found in an earlier state, and nobody has said yet that entries are to be applied all the
    /// same.
    pub suspended: bool,
    /// As whom all owners of the tier, one after the other, use the store. In the tier before the store is opened so.
    pub owner: Option<OwnerId>,
    /// What entries below this number say of documents was so before the store was found in another state: it is not
    /// believed.
    pub known_from: u64,
}

/// What a tier held when it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// What it means.
    pub description: Description,
    /// What the owner before had remembered.
    pub remembered: Remembered,
    /// The number of the next that is added, at least.
    pub next_number: u64,
    /// In the order of their numbers: the bodies of each, first what added it, then what belongs to it.
    pub entries: Vec<Vec<Vec<u8>>>,
    /// The bodies of entries that say how others ended, oldest first.
    pub ended: Vec<Vec<u8>>,
}

/// Keeps entries for one owner.
pub trait Tier: Send + Sync + 'static {
    /// Keeps `entries` in this order, behind all that this was called for before: all, or none if it is refused. (A
    /// crash may leave the first of them.) The answer is done when they are as safe as the tier makes things; what is
    /// refused is surely not kept, unless the answer is [`AppendError::Unknown`].
    fn append_all(&self, entries: Vec<Entry>) -> Appending;

    /// Likewise one.
    fn append(&self, entry: Entry) -> Appending {
        self.append_all(vec![entry])
    }

    /// Says what it all means from now on; safe when done.
    fn describe(&self, description: Description) -> Appending;

    /// Keeps this for the next owner, in place of what was remembered before.
    fn remember(&self, remembered: Remembered) -> Appending;

    /// Looks whether what is kept is still where the next owner will look for it. If it is not, nothing more is kept.
    fn look(&self) -> Appending;

    /// Why nothing more is kept, if so.
    fn closed(&self) -> Option<AppendError>;

    /// Bytes that can still be added as far as that hangs on what the tier lies on; none if it does not.
    fn room(&self) -> Option<u64> {
        None
    }

    /// Makes all that was appended before as safe as the tier can.
    fn flush(&self) -> Appending;

    /// Likewise for the last time: what is appended later is refused.
    fn close(&self) -> Appending;

    /// Writes down what it is still to do, for tests that tell states apart.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    fn print(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        let _ = out;
        Ok(())
    }
}

/// An entry on its way. It gets there whether this is waited for or not.
pub struct Appending(Result<oneshot::Receiver<Result<(), AppendError>>, AppendError>);

impl Appending {
    /// Refused, or kept already.
    pub fn ready(answer: Result<(), AppendError>) -> Appending {
        match answer {
            Ok(()) => {
                let (sender, receiver) = oneshot::channel();
                let _ = sender.send(Ok(()));
                Appending(Ok(receiver))
            }
            Err(error) => Appending(Err(error)),
        }
    }

    /// Answered later; unknown if it never is.
    pub fn answered(receiver: oneshot::Receiver<Result<(), AppendError>>) -> Appending {
        Appending(Ok(receiver))
    }
}

impl Future for Appending {
    type Output = Result<(), AppendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Ok(receiver) => Pin::new(receiver).poll(context).map(|answer| {
                answer.unwrap_or_else(|_| Err(AppendError::Unknown { why: "its runtime has ended".to_owned() }))
            }),
            Err(error) => Poll::Ready(Err(error.clone())),
        }
    }
}
