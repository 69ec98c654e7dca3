//! What others write to mapped tables: triggers note it in a table, and it is looked at again and again.
//!
//! A transaction may commit after another that has a larger number, so "numbers above the last" would miss it, and
//! "numbers below all that are open" would wait behind any long transaction. Each look asks for what this statement's
//! snapshot sees and the last one's did not: nothing is missed, and nothing waits.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay::Key;
use forebay::store::Outside;
use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::{Error, Row};

use super::classify::told;
use super::decoding::Decoding;
use super::mapping::VersionMode;
use super::mapping::catalogue::Table;
use super::mapping::rows::Rows;
use super::session::Session;
use super::{Inner, WHOLE_TABLE_TIME, sql};

/// Own transactions that are remembered, so that what they wrote is not taken for another's.
const OWN_MAX: usize = 16_384;

/// How long nobody may know what others write until all that is cached is suspect, again and again until it is known.
pub(super) const SUSPECT: Duration = Duration::from_secs(1);

/// Wait behind a look that failed. A server that stops ends its connections one by one: by then it is known to be away,
/// and what is cached is not dropped when it is about to be all there is.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Reasons of failures in a row that are logged.
const REASONS_MAX: usize = 4;

/// Looks after which old notes are removed.
const REMOVE_EVERY: u32 = 100;

/// How what others write is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutsideBy {
    /// By triggers that note it, in tables that have them (`forebay store init`).
    #[default]
    Triggers,
    /// Out of the server's log, by logical decoding: in all mapped tables, at no cost to the writers.
    Decoding,
    /// By decoding where server, role and tables allow it, else by triggers.
    Auto,
    /// Not at all: it is noticed when a commit checks what it has read.
    Off,
}

/// Where the watching stands.
pub(super) struct Watch {
    by: OutsideBy,
    pause: Duration,
    last: AsyncMutex<Last>,
    decoding: AsyncMutex<Decoding>,
    own: Mutex<Own>,
    seen: Seen,
    asked: Asked,
}

/// Who wants to know that all of before is told. A number is asked for by any number of callers; a look answers the
/// greatest that was asked for when it began, so those that come while it is under way share the next.
#[derive(Default)]
pub(super) struct Asked {
    newest: AtomicU64,
    answered: AtomicU64,
    /// Answered by the last look, and not told yet; 0: none.
    due: AtomicU64,
    woken: Notify,
}

impl Asked {
    /// Has the next look come soon; the number that it will have.
    fn one(&self) -> u64 {
        let number = self.newest.fetch_add(1, Ordering::SeqCst) + 1;
        self.woken.notify_one();
        number
    }

    /// The number that a look which begins now will answer.
    pub(super) fn newest(&self) -> u64 {
        self.newest.load(Ordering::SeqCst)
    }

    /// Whether a look that began with the number `newest` has somebody waiting for it.
    pub(super) fn is_wanted(&self, newest: u64) -> bool {
        newest > self.answered.load(Ordering::SeqCst)
    }

    /// A look that began when `newest` was the newest has ended well.
    pub(super) fn answered(&self, newest: u64) {
        if self.is_wanted(newest) {
            self.answered.store(newest, Ordering::SeqCst);
            self.due.store(newest, Ordering::SeqCst);
        }
    }

    /// What is to be told behind what the last look has found.
    pub(super) fn told(&self) -> Option<Outside> {
        Some(self.due.swap(0, Ordering::SeqCst)).filter(|number| *number > 0).map(Outside::Synced)
    }

    /// Waits until somebody asks, at most so long.
    pub(super) async fn rest(&self, at_most: Duration) {
        let asked = async {
            while !self.is_wanted(self.newest()) {
                self.woken.notified().await;
            }
        };
        let _ = timeout(at_most, asked).await;
    }
}

/// Mapped tables to which others may write and nothing says so.
#[derive(Default)]
pub(super) struct Unwatched {
    /// Each table's once.
    pub(super) names: Vec<String>,
    /// By the number of each mapped table its place among the names.
    pub(super) places: Vec<Option<usize>>,
}

impl Unwatched {
    pub(super) fn of(tables: &[Table], by: OutsideBy) -> Unwatched {
        let mut unwatched = Unwatched::default();
        for table in tables {
            let watched = match by {
                OutsideBy::Decoding => true,
                OutsideBy::Triggers | OutsideBy::Auto => table.mapping.version != VersionMode::None,
                OutsideBy::Off => false,
            };
            let place = (!watched).then(|| {
                let known = unwatched.names.iter().position(|name| *name == table.name);
                known.unwrap_or_else(|| {
                    unwatched.names.push(table.name.clone());
                    unwatched.names.len() - 1
                })
            });
            unwatched.places.push(place);
        }
        unwatched
    }

    /// Says so in the log, unless nobody wanted them to be watched.
    pub(super) fn warn(&self, by: OutsideBy) {
        for table in self.names.iter().filter(|_| by != OutsideBy::Off) {
            tracing::warn!(
                table,
                "nothing tells what other programs write to this table: cached rows are compared with it as often \
                 as --unwatched-ms says; run forebay store init, or give --outside decoding"
            );
        }
    }
}

/// What was counted of looking.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) looks: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) keys: AtomicU64,
    /// See [`OutsideFigures::within_us`](forebay::store::figures::OutsideFigures::within_us).
    pub(super) within_us: AtomicU64,
    /// Bytes of the log that are kept, or rows of notes.
    pub(super) backlog: AtomicU64,
    /// Why looks have failed since one did not; each is said once.
    reasons: Mutex<Vec<String>>,
    began: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Last {
    /// The snapshot of the last look; without one, nothing is known of what was before.
    snapshot: Option<String>,
    looks: u32,
    /// When looks fail: when everything was said to be suspect last.
    suspect: Option<Instant>,
    /// What removes old notes.
    removal: Option<JoinHandle<()>>,
}

/// Our own transactions and what they wrote.
#[derive(Default)]
pub(super) struct Own {
    /// Sorted: a batch of the drain is a transaction that writes a thousand.
    keys: HashMap<u64, Vec<Key>>,
    order: VecDeque<u64>,
}

impl Own {
    pub(super) fn add(&mut self, number: u64, mut keys: Vec<Key>) {
        keys.sort_unstable();
        self.keys.insert(number, keys);
        self.order.push_back(number);
        if self.order.len() > OWN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.keys.remove(&oldest);
        }
    }

    pub(super) fn was_ours(&self, number: u64, key: &Key) -> bool {
        self.keys.get(&number).is_some_and(|keys| keys.binary_search(key).is_ok())
    }
}

/// How many keys are told.
pub(super) fn told_keys(outside: &Outside) -> usize {
    match outside {
        Outside::Keys(keys) => keys.len(),
        _ => 0,
    }
}

impl Watch {
    pub(super) fn new(by: OutsideBy, pause: Duration) -> Watch {
        let (last, decoding) = (AsyncMutex::default(), AsyncMutex::default());
        Watch { by, pause, last, decoding, own: Mutex::default(), seen: Seen::default(), asked: Asked::default() }
    }

    pub(super) fn by(&self) -> OutsideBy {
        self.by
    }

    pub(super) fn asked(&self) -> &Asked {
        &self.asked
    }

    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    pub(super) fn seen(&self) -> &Seen {
        &self.seen
    }

    pub(super) fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers that transaction `number` was ours and wrote `keys`: the cache has what became of them.
    pub(super) fn is_ours(&self, number: u64, keys: Vec<Key>) {
        self.own().add(number, keys);
    }

    /// A look that began then has ended well. What was committed before it has been told; the one before it began
    /// earlier than anything that it did not have.
    pub(super) fn looked(&self, began: Instant, keys: usize) {
        let seen = &self.seen;
        seen.looks.fetch_add(1, Ordering::Relaxed);
        seen.keys.fetch_add(keys as u64, Ordering::Relaxed);
        self.reasons().clear();
        let before = seen.began.lock().unwrap_or_else(PoisonError::into_inner).replace(began).unwrap_or(began);
        let within = u64::try_from(before.elapsed().as_micros()).unwrap_or(u64::MAX);
        seen.within_us.store(within, Ordering::Relaxed);
    }

    /// A look has failed, the first if the last one had not. A reason that is new is logged.
    pub(super) fn failed(&self, why: &str) -> bool {
        self.seen.failures.fetch_add(1, Ordering::Relaxed);
        let mut reasons = self.reasons();
        let first = reasons.is_empty();
        if reasons.len() < REASONS_MAX && !reasons.iter().any(|reason| reason == why) {
            let then = "until it can, what is cached is dropped, or compared behind an outage";
            tracing::warn!(why, "what others write to PostgreSQL can't be seen; {then}");
            reasons.push(why.to_owned());
        }
        first
    }

    fn reasons(&self) -> MutexGuard<'_, Vec<String>> {
        self.seen.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So much is kept in the database for our next look.
    pub(super) fn retains(&self, backlog: u64) {
        self.seen.backlog.store(backlog, Ordering::Relaxed);
    }
}

/// What a trigger has noted.
struct Note<'a> {
    table: &'a str,
    /// The transaction that wrote.
    number: u64,
    /// All rows of the table went.
    truncated: bool,
    /// The row's key before and after, as far as it was a document: a key that is NULL in part names none.
    keys: Vec<Vec<&'a str>>,
}

impl<'a> Note<'a> {
    fn of(row: &'a Row) -> Result<Option<Note<'a>>, Error> {
        let (table, number): (Option<&str>, Option<&str>) = (row.try_get(1)?, row.try_get(2)?);
        let (Some(table), Some(number)) = (table, number.and_then(|number| number.parse().ok())) else {
            return Ok(None);
        };
        let key = |at: usize| row.try_get::<_, Option<Vec<Option<&str>>>>(at);
        let (old, new) = (key(3)?, key(4)?);
        let truncated = old.is_none() && new.is_none();
        let keys = [old, new].into_iter().flatten().filter_map(|key| key.into_iter().collect()).collect();
        Ok(Some(Note { table, number, truncated, keys }))
    }
}

/// The mapped tables.
pub(super) fn tables_of(rows: Option<&Arc<Rows>>) -> &[Table] {
    rows.map_or(&[], |rows| &rows.tables)
}

impl Inner {
    /// Whether triggers note what is written to some table.
    pub(super) fn has_notes(&self) -> bool {
        tables_of(self.rows().as_ref()).iter().any(|table| table.mapping.version != VersionMode::None)
    }

    /// Whether something says what others write.
    fn is_watched(&self) -> bool {
        match self.watch.by {
            OutsideBy::Decoding => self.is_mapped,
            OutsideBy::Triggers | OutsideBy::Auto => self.has_notes(),
            OutsideBy::Off => false,
        }
    }

    /// As [`forebay::store::Store::sync`].
    pub(super) fn sync(&self) -> Option<u64> {
        self.is_watched().then(|| self.watch.asked.one())
    }

    /// Waits for something that others wrote; `None` if nothing says so.
    pub(super) async fn outside(self: &Arc<Self>) -> Option<Outside> {
        match self.watch.by {
            _ if !self.is_watched() => None,
            OutsideBy::Decoding => Some(self.decoded(&mut *self.watch.decoding.lock().await).await),
            _ => Some(self.noted().await),
        }
    }

    /// Waits for something that triggers have noted.
    async fn noted(self: &Arc<Self>) -> Outside {
        let mut last = self.watch.last.lock().await;
        let asked = &self.watch.asked;
        loop {
            if let Some(told) = asked.told() {
                return told;
            }
            if last.snapshot.is_some() {
                asked.rest(self.watch.pause).await;
            }
            let newest = asked.newest();
            let looked = self.look(&mut last).await;
            if looked.is_ok() {
                asked.answered(newest);
            }
            match looked {
                Ok(Outside::Keys(keys)) if keys.is_empty() => {}
                Ok(outside) => return outside,
                Err(why) => {
                    last.snapshot = None;
                    self.watch.failed(&why);
                    sleep(LOOK_AGAIN).await;
                    if last.suspect.is_none_or(|since| since.elapsed() >= SUSPECT) {
                        last.suspect = Some(Instant::now());
                        return Outside::OutOfSight;
                    }
                }
            }
        }
    }

    async fn look(self: &Arc<Self>, last: &mut Last) -> Result<Outside, String> {
        let began = Instant::now();
        let since = &last.snapshot;
        let ask = |session: Arc<Session>| async move { Ok(session.client.query(sql::OUTSIDE, &[since]).await?) };
        let rows = self.read(self.timeout, &[], ask).await.map_err(|error| error.to_string())?;
        let now: Option<String> = rows.first().map(|row| row.try_get(0)).transpose().map_err(|error| told(&error))?;
        let first = last.snapshot.is_none();
        (last.snapshot, last.suspect) = (now, None);
        last.looks += 1;
        if last.looks >= REMOVE_EVERY && last.removal.as_ref().is_none_or(JoinHandle::is_finished) {
            last.looks = 0;
            let (inner, seen) = (self.clone(), last.snapshot.clone());
            last.removal = Some(tokio::spawn(async move { inner.remove_notes(seen).await }));
        }
        let outside = if first { Outside::Everything } else { self.noted_in(&rows)? };
        self.watch.looked(began, told_keys(&outside));
        Ok(outside)
    }

    /// Removes what all looks have seen, beside them: after hours without a forebay that takes a while.
    async fn remove_notes(&self, seen: Option<String>) {
        let seen = &seen;
        let ask = |session: Arc<Session>| async move {
            // Where nothing can be written, what was noted can be read all the same.
            if let Err(error) = session.client.execute(sql::FORGET_OUTSIDE, &[seen]).await {
                tracing::debug!(why = told(&error), "old notes of what others wrote can't be removed");
            }
            let left = session.client.query_one(sql::COUNT_OUTSIDE, &[]).await?;
            self.watch.retains(u64::try_from(left.get::<_, i64>(0)).unwrap_or(0));
            Ok(())
        };
        if let Err(error) = self.read_alone(WHOLE_TABLE_TIME, ask).await {
            tracing::debug!(why = %error, "old notes of what others wrote can't be removed");
        }
    }

    fn noted_in(&self, rows: &[Row]) -> Result<Outside, String> {
        let (mut keys, own, mapped) = (Vec::new(), self.watch.own(), self.rows());
        for row in rows {
            let Some(note) = Note::of(row).map_err(|error| told(&error))? else { continue };
            if note.truncated {
                return Ok(Outside::Everything);
            }
            for table in tables_of(mapped.as_ref()).iter().filter(|table| table.name == note.table) {
                let named = note.keys.iter().filter_map(|key| table.mapping.pattern.join(key));
                let named = named.map(|name| Key::new(0, name.as_bytes()));
                keys.extend(named.filter(|key| !own.was_ours(note.number, key)));
            }
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(Outside::Keys(keys))
    }
}
