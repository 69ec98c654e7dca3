//! Buffered transactions on disk: an append-only file of numbered records, so that what was acknowledged outlives the
//! process.
//!
//! * `codec`: the binary form of records.
//! * `frame`: how they stand in the file; how a torn tail is told from damage.
//! * `index`: which of them still mean something.
//! * `scan`: reading it; `reader`: reading one of them. `log`: the file itself; `work`: what is asked of it.
//! * `rewrite`: a new one in its place; `place`: whether it is still there. `tier`: its face to the gate.
//! * `remembered`: by what the store is recognised; `length`: how long the file is. Each is a separate file.
//! * `space`: room on the disk.
//!
//! **Groups.** [`Journal::append`] takes a record's place in the order at once. One task at a time takes what waits,
//! writes it with one write and, as durability says, one sync, and answers.
//!
//! **A failed write or sync ends it.** What such a file holds afterwards can't be known, so it is closed and never
//! written again, and what comes later is refused. The next start reads what is really there. But a disk that is full
//! is no failure. Room is taken ahead, and what finds none is refused, or cut off again where it was written in part.
//!
//! **What a loss of power costs.** With `always` nothing acknowledged. With `interval` and `never` what was
//! acknowledged after the last sync may be gone, and the file can't know how much that was. So it knows a bound: no
//! number is acknowledged above one that a *mark* has reserved, and a mark is synced before it counts. A start may
//! find another boot of the machine, and no mark of an orderly end. Then it reports all numbers between the last one
//! there and the bound as perhaps lost, and a new epoch begins. Tickets of the old one can be judged one by one.
//! While nothing is appended, a mark notes that nothing can be lost. A process that is killed loses nothing: what it
//! has written, the system has. One thing can't be known: whether the last group of records under `always` was
//! acknowledged. The disk may lie about its sync, or the group may be damaged before another one follows. Then it
//! looks like a tail that was never written.
//!
//! **It is removed or moved.** Before each group, and every second, it is asked whether the file still has its name.
//! If not, it is closed: what is written to it no start would find.
//!
//! **Rewriting.** When records that mean nothing any more are more than three quarters of the file, what is pending
//! is written to a new one. That is synced, and renamed over the old.

mod codec;
mod error;
mod frame;
mod index;
mod length;
mod log;
mod place;
mod reader;
mod remembered;
mod rewrite;
mod scan;
mod space;
mod tier;
mod work;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_channel::oneshot;

pub use self::error::OpenError;
pub(super) use self::tier::entry;
pub use crate::tier::{AppendError, RECORD_BYTES_MAX};

use self::index::Live;
use self::log::{Log, Opened};
use self::work::Work;
use super::disk::{DiskFile, Folder};
use super::record::{Description, Dropped, Epoch, Loss, Pending, Record};
use crate::runtime::Runtime;
use crate::store::embedded::Durability;
use crate::tier::{Appending, Remembered, Tier};

/// Transactions pending at most.
pub const PENDING_MAX: usize = 1 << 22;

/// Transactions that one record names at most.
pub const NUMBERS_MAX: usize = 1 << 16;

/// Bytes of records on their way to the disk at most.
pub const WAITING_BYTES_MAX: usize = 256 << 20;

/// Bytes that are written at a time, unless one record is longer.
const GROUP_BYTES_MAX: usize = 8 << 20;

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
    /// By what the store is to be recognised.
    pub remembered: Remembered,
    /// The number that the next buffered transaction gets, at least.
    pub next_number: u64,
    /// Transactions pending.
    pub pending_count: u64,
    /// The pending ones, in order of their numbers, read from the file as they are asked for.
    pub pending: PendingRecords,
    /// The last that operators gave up, oldest first.
    pub dropped: Vec<Dropped>,
    /// The file ended in something that was not written to its end, or not all of it reached the disk. It was cut off.
    pub torn: Option<Torn>,
    /// The file is shorter than it was left.
    pub cut: Option<Cut>,
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

/// What is missing at the end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// How long it was, at least.
    pub bytes: u64,
    /// Where the last complete record ends that is left.
    pub left: u64,
}

/// Reads pending transactions, one at a time, as they were when the journal was opened.
pub struct PendingRecords(Source);

enum Source {
    File { file: Option<Arc<dyn DiskFile>>, name: String, marker: u64, live: std::vec::IntoIter<Live> },
    Bodies(std::vec::IntoIter<Vec<Vec<u8>>>),
    Read(std::vec::IntoIter<Pending>),
}

impl Found {
    /// Likewise with all that is pending in memory: nothing of it can fail to be read later.
    pub fn read(self) -> Result<Found, OpenError> {
        let pending = self.pending.collect::<Result<Vec<_>, _>>()?;
        Ok(Found { pending: PendingRecords(Source::Read(pending.into_iter())), ..self })
    }
}

impl Iterator for PendingRecords {
    type Item = Result<Pending, OpenError>;

    fn next(&mut self) -> Option<Result<Pending, OpenError>> {
        match &mut self.0 {
            Source::File { file, name, marker, live } => {
                let file = file.as_deref()?;
                Some(scan::read_live(file, name, *marker, &live.next()?))
            }
            Source::Bodies(bodies) => Some(tier::read_bodies(&bodies.next()?)),
            Source::Read(pending) => pending.next().map(Ok),
        }
    }
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
    /// Bytes that can still be added as far as the disk goes; none if that is not known.
    pub room_bytes: Option<u64>,
    /// Appended and not known to be on disk.
    pub unsynced_bytes: u64,
    /// Why it is closed, if it is.
    pub closed: Option<AppendError>,
}

/// The journal; cheap to clone.
#[derive(Clone)]
pub struct Journal(Arc<Shared>);

struct Shared {
    runtime: Runtime,
    bytes_max: u64,
    durability: Durability,
    front: Mutex<Front>,
    log: Mutex<Log>,
}

/// What is asked of the file, and what is known of it without asking.
struct Front {
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// A task is at work, and will look again before it ends.
    at_work: bool,
    epoch: Epoch,
    losses: Vec<Loss>,
    /// As of the last group.
    stat: JournalStat,
}

struct Waiting {
    work: Work,
    answer: Answer,
}

type Answer = oneshot::Sender<Result<(), AppendError>>;

impl Journal {
    /// Opens the journal in `folder`, or makes it. Blocks while it reads the file through once; what is pending is
    /// then read again, as [`Found::pending`] is asked.
    pub fn open(
        runtime: Runtime,
        folder: Arc<dyn Folder>,
        options: JournalOptions,
    ) -> Result<(Journal, Found), OpenError> {
        let Opened { log, created, torn, cut, lost, floor, remembered } = Log::open(&runtime, folder, &options)?;
        let (header, index) = log.known();
        let found = Found {
            epoch: header.epoch,
            created,
            description: header.description.clone(),
            remembered,
            next_number: floor.saturating_add(1),
            pending_count: index.count() as u64,
            pending: log.reader().pending(),
            dropped: log.reader().dropped()?,
            torn,
            cut,
            lost,
            losses: header.losses.clone(),
        };
        let front = Front {
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            at_work: false,
            epoch: header.epoch,
            losses: header.losses.clone(),
            stat: stat(&log, options.bytes_max),
        };
        let JournalOptions { bytes_max, durability, .. } = options;
        let (front, log) = (Mutex::new(front), Mutex::new(log));
        let shared = Arc::new(Shared { runtime: runtime.clone(), bytes_max, durability, front, log });
        if let Some(pause) = durability.flush_every() {
            let journal = Arc::downgrade(&shared);
            runtime.clone().spawn(async move {
                loop {
                    runtime.sleep(pause).await;
                    let Some(shared) = Weak::upgrade(&journal) else { return };
                    if shared.ask(Work::Tick, 0).await.is_err() {
                        return;
                    }
                }
            });
        }
        Ok((Journal(shared), found))
    }

    /// The present epoch.
    pub fn epoch(&self) -> Epoch {
        self.0.front().epoch
    }

    /// When a record is safe on disk.
    pub fn durability(&self) -> Durability {
        self.0.durability
    }

    /// Appends `record`, behind all for which this was called before. The answer is done when the record is as safe as
    /// durability wants; all that wait share one sync.
    pub fn append(&self, record: Record) -> Appending {
        match tier::entry(&record) {
            Ok(entry) => Tier::append(self, entry),
            Err(error) => Appending::ready(Err(error)),
        }
    }

    /// Reads a pending transaction back; none if it is not pending.
    pub async fn read(&self, number: u64) -> Result<Option<Pending>, OpenError> {
        let shared = Arc::clone(&self.0);
        self.0.runtime.blocking(move || shared.log().reader().pending_at(number)).await
    }

    /// Says what pending changes mean from now on; durable when done.
    pub async fn describe(&self, description: Description) -> Result<(), AppendError> {
        self.0.ask(Work::Describe(description), 0).await
    }

    /// Makes all that was appended before durable.
    pub async fn flush(&self) -> Result<(), AppendError> {
        self.0.ask(Work::Sync, 0).await
    }

    /// Makes all durable, and notes that nothing can have been lost. What is appended later is refused.
    pub async fn close(&self) -> Result<(), AppendError> {
        self.0.ask(Work::Close, 0).await
    }

    /// What it looks like now; as of the last group that was written.
    pub fn stat(&self) -> JournalStat {
        self.0.front().stat.clone()
    }

    /// Writes down, for tests that tell states apart, how much waits for the file.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub fn print(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        let front = self.0.front();
        writeln!(out, "{} {} {}", front.waiting.len(), front.waiting_bytes, front.at_work)
    }

    /// All losses known, oldest first.
    pub fn losses(&self) -> Vec<Loss> {
        self.0.front().losses.clone()
    }
}

impl Shared {
    fn front(&self) -> MutexGuard<'_, Front> {
        self.front.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts `work` behind what waits, if there is room for `room` more bytes of pending records.
    fn ask(self: &Arc<Shared>, work: Work, room: u64) -> Appending {
        let bytes = work.bytes();
        let (answer, answered) = oneshot::channel();
        let mut front = self.front();
        if let Err(refused) = front.admits(bytes, room, self.bytes_max) {
            return Appending::ready(Err(refused));
        }
        front.waiting_bytes += bytes;
        front.waiting.push_back(Waiting { work, answer });
        if !std::mem::replace(&mut front.at_work, true) {
            drop(front);
            self.runtime.spawn(Arc::clone(self).work());
        }
        Appending::answered(answered)
    }

    /// Does what waits, group after group, until nothing does.
    async fn work(self: Arc<Shared>) {
        loop {
            let group = self.front().group();
            if group.is_empty() {
                return;
            }
            let shared = Arc::clone(&self);
            let done = move || shared.write(group);
            for (answer, result) in self.runtime.blocking(done).await {
                // Nobody may wait any more.
                let _ = answer.send(result);
            }
        }
    }

    fn write(&self, group: Vec<Waiting>) -> Vec<(Answer, Result<(), AppendError>)> {
        let (work, answers): (Vec<Work>, Vec<_>) =
            group.into_iter().map(|waiting| (waiting.work, waiting.answer)).unzip();
        let mut log = self.log();
        let results = log.run(&work);
        let (epoch, losses) = (log.known().0.epoch, log.known().0.losses.clone());
        let stat = stat(&log, self.bytes_max);
        drop(log);
        let mut front = self.front();
        front.waiting_bytes -= work.iter().map(Work::bytes).sum::<usize>();
        (front.stat, front.epoch, front.losses) = (stat, epoch, losses);
        answers.into_iter().zip(results).collect()
    }
}

impl Front {
    fn admits(&self, bytes: usize, room: u64, bytes_max: u64) -> Result<(), AppendError> {
        if let Some(why) = &self.stat.closed {
            return Err(why.clone());
        }
        let full = |what, limit| Err(AppendError::Full { what, limit });
        if self.waiting_bytes + bytes > WAITING_BYTES_MAX {
            return full("bytes on their way to the disk", WAITING_BYTES_MAX as u64);
        }
        if room > 0 && self.stat.pending_bytes + self.waiting_bytes as u64 + room > bytes_max {
            return full("bytes of buffered transactions", bytes_max);
        }
        if room > 0 && self.stat.pending + self.waiting.len() as u64 >= PENDING_MAX as u64 {
            return full("number of buffered transactions", PENDING_MAX as u64);
        }
        Ok(())
    }

    /// What is written next; empty if nothing waits, and then nobody is at work any more.
    fn group(&mut self) -> Vec<Waiting> {
        let mut bytes = 0;
        let mut group = Vec::new();
        while let Some(waiting) = self.waiting.pop_front() {
            let length = waiting.work.bytes();
            if !group.is_empty() && bytes + length > GROUP_BYTES_MAX {
                self.waiting.push_front(waiting);
                break;
            }
            bytes += length;
            group.push(waiting);
        }
        self.at_work = !group.is_empty();
        group
    }
}

/// A file that holds `bodies` as records, as if they had been written and synced, for tests of what comes from disks.
#[cfg(feature = "testing")]
#[doc(hidden)]
pub fn file_of(bodies: &[&[u8]]) -> Vec<u8> {
    let (epoch, description) = (Epoch(1), Description::default());
    let header = codec::Header { epoch, marker: 2, safe_bytes: 0, last_number: 0, description, losses: Vec::new() };
    let mut file = frame::prelude(&header);
    for body in bodies {
        let offset = file.len() as u64;
        frame::write(header.marker, offset, offset, body, &mut file);
    }
    file
}

/// What `record` looks like in a file.
#[cfg(feature = "testing")]
#[doc(hidden)]
pub fn body_of(record: &Record) -> Vec<u8> {
    codec::encode_record(record)
}

/// What a tier is given for `record`.
#[cfg(feature = "testing")]
#[doc(hidden)]
pub fn entry_of(record: &Record) -> Result<crate::tier::Entry, AppendError> {
    tier::entry(record)
}

fn stat(log: &Log, bytes_max: u64) -> JournalStat {
    let ((_, index), (file_bytes, unsynced_bytes)) = (log.known(), log.bytes());
    JournalStat {
        pending: index.count() as u64,
        pending_bytes: index.bytes(),
        file_bytes,
        bytes_max,
        last_number: index.last_number(),
        room_bytes: log.room(),
        unsynced_bytes,
        closed: log.closed().cloned(),
    }
}
