//! The one writer of the file, and what becomes of it when it fails: closed, reopened, and the applied ids decide.
//!
//! Locks are taken in this order: `writer`, `database`, `tombstones`.

mod reading;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use redb::{Database, WriteTransaction};

use super::file::{self, Loaded, MakeBackend, OpenError};
use super::group::{self, Flush, Scene, Taken};
use super::locked::locked;
use super::{Durability, EmbeddedOptions, UNFLUSHED_BYTES_MAX};
use crate::error::Unavailable;
use crate::key::SPACES;
use crate::mutation::{self, Fault};
use crate::runtime::Runtime;
use crate::store::applied::{AppliedIds, Known};
use crate::store::tombstones::Tombstones;
use crate::store::{self, Commit, CommitOutcome, Resolved};
use crate::version::{TxnId, Version};

/// A closed store that owes nobody an answer is reopened by whoever asks for it, but not more often than this.
const REOPEN_PAUSE_MS: u64 = 1_000;

/// After the disk was found full, how many times longer than the reopening took no commit is tried: each that fails
/// costs a reopening, which may walk the whole file, and readers wait for it.
const FULL_PAUSE_FACTOR: u32 = 10;

/// After the disk was last found full, how long nothing is acknowledged without a flush.
const FULL_CAREFUL_MS: u64 = 60_000;

/// Snapshots that a read takes before it waits for the writer, if each is overtaken by a delete of one of its keys.
const SNAPSHOTS_MAX: usize = 8;

/// Another program has written an older copy over the open file. What was flushed since then is not in it.
const OLDER: &str = "it holds an older state than forebay has flushed; stop forebay, then restore it from a backup, or \
                     start forebay to go on with this state";

pub(super) struct Engine {
    pub runtime: Runtime,
    pub name: String,
    pub options: EmbeddedOptions,
    make: MakeBackend,
    writer: Mutex<Writer>,
    database: RwLock<Option<Database>>,
    tombstones: Mutex<Tombstones>,
    counts: [AtomicU64; SPACES as usize],
    incarnation: AtomicU64,
    /// [`Writer::open`] holds something that was acknowledged. Set before the acknowledgement, so that who reads after
    /// it finds it set.
    hidden: AtomicBool,
    /// Somebody has read since the last group.
    read_lately: AtomicBool,
}

/// What only the writer needs to know.
struct Writer {
    applied: AppliedIds,
    /// Number of the newest group that was acknowledged.
    group: u64,
    /// Number of the newest group that is safe on disk.
    flushed_group: u64,
    next_part_id: u64,
    /// Bytes of rows written since the last durable commit.
    unflushed_bytes: u64,
    unflushed: bool,
    /// Commits of this and later incarnations, up to the present one, are refused: what they read may be lost.
    first_incarnation: u64,
    /// The greatest version that a group carried.
    version: Version,
    closed: Option<Closed>,
    full: Option<Full>,
    /// Where a group needs no flush of its own: the write transaction of all groups since the last commit of the file.
    /// A page that many of them touch is copied and summed up once. A reader commits it first ([`Engine::show`]).
    open: Option<WriteTransaction>,
}

/// The disk had no room for a group.
struct Full {
    why: String,
    /// No commit is tried before.
    until: Duration,
    /// Until then each group is flushed: a group that finds a place in the file does not say that there is room again.
    careful_until: Duration,
}

/// Why the file is closed, and which call is to open it.
struct Closed {
    why: String,
    /// Somebody has to ask for an outcome first.
    unknown: bool,
    tried: Option<Duration>,
    ended: bool,
}

impl Engine {
    pub fn open(
        runtime: Runtime,
        name: String,
        make: MakeBackend,
        options: EmbeddedOptions,
    ) -> Result<Engine, OpenError> {
        let (database, loaded) = file::open(&name, &make, options.page_cache_bytes, |_| true)?;
        let incarnation = loaded.incarnation;
        let writer = Writer {
            applied: loaded.applied,
            group: loaded.totals.group,
            flushed_group: loaded.totals.group,
            next_part_id: loaded.next_part_id,
            unflushed_bytes: 0,
            unflushed: false,
            first_incarnation: incarnation,
            version: Version::ZERO,
            closed: None,
            full: None,
            open: None,
        };
        let mut tombstones = Tombstones::new(incarnation);
        tombstones.reach(loaded.totals.group);
        Ok(Engine {
            runtime,
            name,
            options,
            make,
            writer: Mutex::new(writer),
            database: RwLock::new(Some(database)),
            tombstones: Mutex::new(tombstones),
            counts: loaded.totals.counts.map(AtomicU64::new),
            incarnation: AtomicU64::new(incarnation),
            hidden: AtomicBool::new(false),
            read_lately: AtomicBool::new(false),
        })
    }

    pub fn incarnation(&self) -> u64 {
        self.incarnation.load(Ordering::Acquire)
    }

    pub fn count(&self, space: u8) -> u64 {
        self.counts.get(usize::from(space)).map_or(0, |count| count.load(Ordering::Acquire))
    }

    pub fn memory_bytes(&self) -> usize {
        // One after the other: a commit takes the table of tombstones under the writer's lock.
        let applied = locked(&self.writer).applied.bytes();
        let tombstones = locked(&self.tombstones).bytes();
        self.options.page_cache_bytes + tombstones + applied
    }

    fn database(&self) -> RwLockReadGuard<'_, Option<Database>> {
        self.database.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the file after a failure. What redb does when it lets go of a file may fail again.
    fn close(&self, writer: &mut Writer, why: String, unknown: bool) {
        tracing::error!(store = self.name, why, "the store failed and is closed");
        file::let_go(writer.open.take());
        if mutation::on(Fault::NothingHiddenTooEarly) {
            self.hidden.store(false, Ordering::Release);
            mutation::meanwhile();
        }
        file::let_go(self.database.write().unwrap_or_else(PoisonError::into_inner).take());
        mutation::meanwhile();
        // Only now: a reader that finds nothing hidden must not find the file without what was.
        self.hidden.store(false, Ordering::Release);
        writer.closed = Some(Closed { why, unknown, tried: None, ended: false });
    }

    /// Ends the use of the file: what is pending is made durable, nobody reopens it.
    pub fn end(&self) {
        let mut writer = locked(&self.writer);
        if writer.closed.is_none() {
            let _ = self.flush_with(&mut writer);
        }
        file::let_go(self.database.write().unwrap_or_else(PoisonError::into_inner).take());
        writer.closed = Some(Closed { why: "it was shut down".to_owned(), unknown: false, tried: None, ended: true });
    }

    /// Makes sure that the file is open. Only a request for an outcome opens it while outcomes are unknown.
    fn ensure_open(&self, writer: &mut Writer, asks_outcome: bool) -> Result<(), Unavailable> {
        let Some(closed) = &mut writer.closed else { return Ok(()) };
        let now = self.runtime.elapsed();
        let pause = Duration::from_millis(REOPEN_PAUSE_MS);
        let too_soon = closed.tried.is_some_and(|tried| now.saturating_sub(tried) < pause);
        if closed.ended || !asks_outcome && (closed.unknown || too_soon) {
            return Err(Unavailable(format!("the store {} is closed: {}", self.name, closed.why)));
        }
        closed.tried = Some(now);
        let reopened = self.reopen(writer);
        let ended = self.runtime.elapsed();
        if let Some(full) = writer.full.as_mut().filter(|full| now < full.careful_until) {
            full.until = ended + pause.max(ended.saturating_sub(now) * FULL_PAUSE_FACTOR);
        }
        reopened.map_err(|why| {
            if let Some(closed) = &mut writer.closed {
                closed.why = format!("it failed and can't be reopened: {why}");
            }
            Unavailable(format!("the store failed and can't be reopened: {why}"))
        })
    }

    fn reopen(&self, writer: &mut Writer) -> Result<(), String> {
        let loses = |loaded: &Loaded| loaded.totals.group < writer.group;
        let opened = file::open(&self.name, &self.make, self.options.page_cache_bytes, loses);
        let (database, loaded) = opened.map_err(|error| error.to_string())?;
        if loaded.totals.group < writer.flushed_group {
            file::let_go(database);
            return Err(OLDER.to_owned());
        }
        let lost = loses(&loaded);
        let mut tombstones = locked(&self.tombstones);
        if lost {
            *tombstones = Tombstones::new(loaded.incarnation);
            self.incarnation.store(loaded.incarnation, Ordering::Release);
            tracing::error!(store = self.name, "what was acknowledged but not flushed is lost");
        } else {
            // The last group may have landed, and with it deletes that left no tombstone.
            for space in 0..SPACES {
                tombstones.raise_floor(space, writer.version, loaded.totals.group);
            }
        }
        tombstones.reach(loaded.totals.group);
        drop(tombstones);
        let mut applied = loaded.applied;
        writer.applied.denied().for_each(|id| applied.deny(id));
        writer.applied = applied;
        writer.group = loaded.totals.group;
        writer.flushed_group = loaded.totals.group;
        writer.next_part_id = loaded.next_part_id;
        (writer.unflushed, writer.unflushed_bytes) = (false, 0);
        self.set_counts(&loaded.totals.counts);
        *self.database.write().unwrap_or_else(PoisonError::into_inner) = Some(database);
        writer.closed = None;
        tracing::warn!(store = self.name, "the store is open again");
        Ok(())
    }

    fn set_counts(&self, counts: &[u64; SPACES as usize]) {
        for (shown, count) in self.counts.iter().zip(counts) {
            shown.store(*count, Ordering::Release);
        }
    }

    /// Runs `work` on the open file as its only writer; a failure closes it.
    fn write<T>(
        &self,
        writer: &mut Writer,
        work: impl FnOnce(&Database, &Writer) -> Result<T, redb::Error>,
    ) -> Result<T, String> {
        let guard = self.database();
        let Some(database) = &*guard else { return Err("the store is closed".to_owned()) };
        let result = file::caught(|| work(database, writer));
        drop(guard);
        result.map_err(|caught| {
            let why = caught.told(&self.name);
            if caught.is_full() {
                let now = self.runtime.elapsed();
                let careful_until = now + Duration::from_millis(FULL_CAREFUL_MS);
                writer.full = Some(Full { why: why.clone(), until: now, careful_until });
            }
            self.close(writer, why.clone(), true);
            why
        })
    }

    /// Makes sure that a group has a chance.
    fn ensure_room(&self, writer: &Writer) -> Result<(), Unavailable> {
        match &writer.full {
            Some(full) if self.runtime.elapsed() < full.until => {
                Err(Unavailable(format!("the store {} takes no writes: {}", self.name, full.why)))
            }
            _ => Ok(()),
        }
    }

    /// Applies a group in one write transaction.
    pub fn commit(&self, group: &[Commit]) -> Vec<CommitOutcome> {
        let mut writer = locked(&self.writer);
        let ready = self.ensure_open(&mut writer, false).and_then(|()| self.ensure_room(&writer));
        if let Err(Unavailable(why)) = ready {
            return vec![CommitOutcome::Unavailable(why); group.len()];
        }
        let newest = group.iter().map(|commit| commit.version).max().unwrap_or_default();
        writer.version = writer.version.max(newest);
        let open = writer.open.take();
        match self.write(&mut writer, |database, writer| self.apply(database, open, writer, group)) {
            Ok((mut taken, open)) => {
                self.hidden.store(open.is_some(), Ordering::Release);
                writer.open = open;
                if !taken.ids.is_empty() {
                    self.accept(&mut writer, &mut taken);
                }
                taken.outcomes
            }
            Err(why) => {
                let why = format!("the store failed while it committed: {why}");
                vec![CommitOutcome::Unknown(why); group.len()]
            }
        }
    }

    /// What the next group meets.
    fn scene<'a>(&'a self, writer: &'a Writer) -> Scene<'a> {
        Scene {
            applied: &writer.applied,
            tombstones: &self.tombstones,
            lost: writer.first_incarnation..self.incarnation(),
            group: writer.group + 1,
            counts: std::array::from_fn(|space| self.count(space as u8)),
            next_part_id: writer.next_part_id,
        }
    }

    fn apply(
        &self,
        database: &Database,
        open: Option<WriteTransaction>,
        writer: &Writer,
        group: &[Commit],
    ) -> Result<(Taken, Option<WriteTransaction>), redb::Error> {
        let flushes = |bytes| match self.options.durability {
            Durability::Always => Flush::Now,
            // Whether there is room again only a flush tells; what is acknowledged without one would be lost again.
            _ if writer.full.as_ref().is_some_and(|full| self.runtime.elapsed() < full.careful_until) => Flush::Now,
            _ if writer.unflushed_bytes + bytes >= UNFLUSHED_BYTES_MAX => Flush::WithAllocator,
            // The next reader would wait for it.
            _ if self.read_lately.swap(false, Ordering::Relaxed) => Flush::Shown,
            _ => Flush::Later,
        };
        group::apply(database, open, &self.scene(writer), group, flushes)
    }

    /// Takes over what a group changed, now that the file has it.
    fn accept(&self, writer: &mut Writer, taken: &mut Taken) {
        writer.group += 1;
        let mut tombstones = locked(&self.tombstones);
        for (key, version) in &taken.deleted {
            tombstones.insert(key.clone(), *version, writer.group);
        }
        for (space, version) in &taken.floors {
            tombstones.raise_floor(*space, *version, writer.group);
        }
        tombstones.reach(writer.group);
        drop(tombstones);
        writer.applied.add(writer.group, &std::mem::take(&mut taken.ids));
        writer.next_part_id = taken.next_part_id;
        writer.unflushed = !taken.durable;
        if taken.durable {
            writer.flushed_group = writer.group;
        }
        writer.unflushed_bytes = if taken.durable { 0 } else { writer.unflushed_bytes + taken.bytes };
        self.set_counts(&taken.counts);
    }

    pub fn outcome(&self, id: TxnId) -> Result<Resolved, Unavailable> {
        let mut writer = locked(&self.writer);
        self.ensure_open(&mut writer, true)?;
        match writer.applied.known(id) {
            Known::Applied => Ok(Resolved::Applied),
            Known::Denied => Ok(Resolved::NotApplied),
            Known::BelowFloor => Err(Unavailable(store::below_floor(id))),
            Known::New => {
                writer.applied.deny(id);
                Ok(Resolved::NotApplied)
            }
        }
    }

    /// Makes durable what is not yet.
    pub fn flush(&self) -> Result<(), Unavailable> {
        let mut writer = locked(&self.writer);
        self.ensure_open(&mut writer, false)?;
        self.flush_with(&mut writer)
    }

    /// The same, but leaves a closed file alone.
    pub fn flush_if_open(&self) {
        let mut writer = locked(&self.writer);
        if writer.closed.is_none() {
            let _ = self.flush_with(&mut writer);
        }
    }

    fn flush_with(&self, writer: &mut Writer) -> Result<(), Unavailable> {
        if !writer.unflushed {
            return Ok(());
        }
        // Readers see it from here on, and need not wait for the disk.
        self.show_with(writer);
        if let Some(Closed { why, .. }) = &writer.closed {
            return Err(Unavailable(format!("the store {} failed while it flushed: {why}", self.name)));
        }
        let flushed = self.write(writer, |database, _| {
            let mut transaction = database.begin_write()?;
            transaction.set_quick_repair(true);
            Ok(transaction.commit()?)
        });
        match flushed {
            Ok(()) => {
                (writer.unflushed, writer.unflushed_bytes) = (false, 0);
                writer.flushed_group = writer.group;
                Ok(())
            }
            Err(why) => {
                // Nobody waits for an outcome.
                if let Some(closed) = &mut writer.closed {
                    closed.unknown = false;
                }
                Err(Unavailable(format!("the store {} failed while it flushed: {why}", self.name)))
            }
        }
    }

    /// Lets readers see all that was acknowledged.
    fn show(&self) {
        self.read_lately.store(true, Ordering::Relaxed);
        if self.hidden.load(Ordering::Acquire) {
            self.show_with(&mut locked(&self.writer));
        }
    }

    fn show_with(&self, writer: &mut Writer) {
        let Some(open) = writer.open.take() else { return };
        let flush = if mutation::on(Fault::ShownByFlushing) { Flush::WithAllocator } else { Flush::Shown };
        match self.write(writer, |_, _| group::finish(open, flush)) {
            Ok(()) => self.hidden.store(false, Ordering::Release),
            Err(_) => {
                // Nobody waits for an outcome.
                if let Some(closed) = &mut writer.closed {
                    closed.unknown = false;
                }
            }
        }
    }

    pub fn clear(&self, spaces: &[u8], version: Version) -> Result<(), Unavailable> {
        let mut writer = locked(&self.writer);
        self.ensure_open(&mut writer, false)?;
        writer.version = writer.version.max(version);
        self.show_with(&mut writer);
        let cleared =
            self.write(&mut writer, |database, writer| group::clear(database, &self.scene(writer), spaces, version));
        match cleared {
            Ok(mut taken) => {
                self.accept(&mut writer, &mut taken);
                Ok(())
            }
            Err(why) => {
                // Repeating it is harmless, so nobody has to ask what became of it.
                if let Some(closed) = &mut writer.closed {
                    closed.unknown = false;
                }
                Err(Unavailable(format!("the store {} failed while it was cleared: {why}", self.name)))
            }
        }
    }
}
