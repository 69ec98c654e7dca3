//! Buffered transactions on disk: an append-only file of numbered records.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_channel::oneshot;
use thiserror::Error;

use super::disk::Folder;
use super::record::{Description, Epoch, Loss, Pending, Record};
use crate::runtime::Runtime;
use crate::store::embedded::Durability;

/// Bytes that one record takes at most.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

/// How to open a journal.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// When a record is safe on disk.
    pub durability: Durability,
    /// Bytes of pending records beyond which nothing more is buffered. The file takes at most about twice that, and
    /// while it is rewritten once more.
    pub bytes_max: u64,
    /// What a new journal, or one in which nothing is pending, is said to mean.
    pub description: Description,
}

/// What was there when the journal was opened.
pub struct Found {
    /// The epoch that goes on, or begins.
    pub epoch: Epoch,
    /// No journal was there. If the store knows an epoch of this folder, then the journal is lost as a whole.
    pub created: bool,
    /// What the pending transactions were written under. Not the options' if that differs and something is pending:
    /// whoever opens decides, and calls [`Journal::describe`].
    pub description: Description,
    /// The number that the next buffered transaction gets, at least.
    pub next_number: u64,
    /// Transactions pending.
    pub pending_count: u64,
    /// The pending ones, in order of their numbers, read from the file as they are asked for.
    pub pending: PendingRecords,
    /// The file ended in something that was not written to its end, or not all of it reached the disk. It was cut off.
    pub torn: Option<Torn>,
    /// A loss of acknowledged transactions that this opening found; it is the last of `losses`.
    pub lost: Option<Loss>,
    /// All losses known, oldest first; at most [`LOSSES_MAX`].
    pub losses: Vec<Loss>,
}

/// Losses that a journal remembers; the oldest is forgotten first.
pub const LOSSES_MAX: usize = 64;

/// What was cut off at the end of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Which file.
    pub file: String,
    /// Where the last complete record ends.
    pub offset: u64,
    /// How many bytes stood behind it.
    pub bytes: u64,
}

/// Reads pending transactions, one at a time.
pub struct PendingRecords {}

impl Iterator for PendingRecords {
    type Item = Result<Pending, OpenError>;

    fn next(&mut self) -> Option<Result<Pending, OpenError>> {
        unimplemented!("follows")
    }
}

/// Why a journal can't be opened or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder or file can't be read or written.
    #[error("journal {file}: {why}; check that the folder is there, writable, and its disk sound and not full")]
    Io {
        /// Which file.
        file: String,
        /// What the system says.
        why: std::io::Error,
    },
    /// Another process has it.
    #[error("journal {file} is in use by another process; stop that one, or give this one a folder of its own")]
    Locked {
        /// Which file.
        file: String,
    },
    /// What was synced can't be read any more.
    #[error("journal {file} is damaged at byte {offset}: {why}; restore the file, or move it away and accept the loss")]
    Damaged {
        /// Which file.
        file: String,
        /// Where.
        offset: u64,
        /// What is wrong there.
        why: String,
    },
    /// Another format.
    #[error("journal {file} has format {format}, this program reads {known}: drain it with the forebay that wrote it")]
    UnknownFormat {
        /// Which file.
        file: String,
        /// Its format.
        format: u32,
        /// The format of this program.
        known: u32,
    },
    /// It holds more than this program keeps track of.
    #[error(
        "journal {file} holds more than {records_max} pending transactions; drain it with the forebay that wrote it"
    )]
    TooMany {
        /// Which file.
        file: String,
        /// How many are allowed.
        records_max: usize,
    },
}

/// Why a record is not in the journal.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum AppendError {
    /// No room. Surely not written.
    #[error("the journal is full: {what} is at its limit of {limit}; wait for the store, or raise the limit")]
    Full {
        /// Which limit.
        what: &'static str,
        /// The limit itself.
        limit: u64,
    },
    /// Too large a transaction. Surely not written.
    #[error("a transaction of {bytes} bytes can't be buffered, the limit is {RECORD_BYTES_MAX}; make it smaller")]
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// The journal failed before. Surely not written.
    #[error("the journal is closed: {why}; nothing is buffered until the disk is mended and forebay started anew")]
    Closed {
        /// What happened.
        why: String,
    },
    /// The journal failed with this record on its way: the next start may find it, or not.
    #[error("the journal failed: {why}; whether this transaction is in it will be known at the next start")]
    Unknown {
        /// What happened.
        why: String,
    },
    /// The record does not fit those before it. Surely not written.
    #[error("record out of place: {0}; this is an error of forebay, please report it")]
    Misplaced(String),
}

/// What a journal looks like now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalStat {
    /// Transactions pending, quarantined ones included.
    pub pending: u64,
    /// Bytes of their records.
    pub pending_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// The limit on `pending_bytes`.
    pub bytes_max: u64,
    /// The highest number ever given to it.
    pub last_number: u64,
    /// Appended and not known to be on disk.
    pub unsynced_bytes: u64,
    /// Why it is closed, if it is.
    pub closed: Option<String>,
}

/// The journal; cheap to clone.
#[derive(Clone)]
pub struct Journal {}

/// A record on its way to the disk. It gets there whether this is waited for or not.
pub struct Appending(Result<oneshot::Receiver<Result<(), AppendError>>, AppendError>);

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

impl Journal {
    /// Opens the journal in `folder`, or makes it. Blocks while it reads the file through once; what is pending is
    /// then read again, as [`Found::pending`] is asked.
    pub fn open(
        runtime: Runtime,
        folder: Arc<dyn Folder>,
        options: JournalOptions,
    ) -> Result<(Journal, Found), OpenError> {
        let _ = (runtime, folder, options);
        unimplemented!("follows")
    }

    /// The present epoch.
    pub fn epoch(&self) -> Epoch {
        unimplemented!("follows")
    }

    /// Appends `record`, behind all for which this was called before. The answer is done when the record is as safe as
    /// durability wants; all that wait share one sync.
    pub fn append(&self, record: Record) -> Appending {
        let _ = record;
        unimplemented!("follows")
    }

    /// Reads a pending transaction back; none if it is not pending.
    pub async fn read(&self, number: u64) -> Result<Option<Pending>, OpenError> {
        let _ = number;
        unimplemented!("follows")
    }

    /// Says what pending changes mean from now on; durable when done.
    pub async fn describe(&self, description: Description) -> Result<(), AppendError> {
        let _ = description;
        unimplemented!("follows")
    }

    /// Makes all that was appended before durable.
    pub async fn flush(&self) -> Result<(), AppendError> {
        unimplemented!("follows")
    }

    /// Makes all durable, and notes that nothing can have been lost. What is appended later is refused.
    pub async fn close(&self) -> Result<(), AppendError> {
        unimplemented!("follows")
    }

    /// What it looks like now.
    pub fn stat(&self) -> JournalStat {
        unimplemented!("follows")
    }

    /// All losses known, oldest first.
    pub fn losses(&self) -> Vec<Loss> {
        unimplemented!("follows")
    }
}
