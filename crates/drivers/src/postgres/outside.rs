//! What others write to mapped tables: triggers note it in a table, and it is looked at again and again.
//!
//! A transaction may commit after another that has a larger number, so "numbers above the last" would miss it, and
//! "numbers below all that are open" would wait behind any long transaction. Each look asks for what this statement's
//! snapshot sees and the last one's did not: nothing is missed, and nothing waits.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay::Key;
use forebay::store::Outside;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{sleep, timeout};
use tokio_postgres::{Error, Row};

use super::classify::told;
use super::mapping::VersionMode;
use super::{Inner, sql};

/// Own transactions that are remembered, so that what they wrote is not taken for another's.
const OWN_MAX: usize = 16_384;

/// Looks after which old notes are removed.
const REMOVE_EVERY: u32 = 100;

/// Where the watching stands.
pub(super) struct Watch {
    pause: Duration,
    last: AsyncMutex<Last>,
    own: Mutex<Own>,
}

#[derive(Default)]
struct Last {
    /// The snapshot of the last look; without one, nothing is known of what was before.
    snapshot: Option<String>,
    looks: u32,
}

#[derive(Default)]
struct Own {
    keys: HashMap<u64, Vec<Key>>,
    order: VecDeque<u64>,
}

impl Watch {
    pub(super) fn new(pause: Duration) -> Watch {
        Watch { pause, last: AsyncMutex::default(), own: Mutex::default() }
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers that transaction `number` was ours and wrote `keys`: the cache has what became of them.
    pub(super) fn is_ours(&self, number: u64, keys: Vec<Key>) {
        let mut own = self.own();
        own.keys.insert(number, keys);
        own.order.push_back(number);
        if own.order.len() > OWN_MAX
            && let Some(oldest) = own.order.pop_front()
        {
            own.keys.remove(&oldest);
        }
    }

    fn was_ours(&self, number: u64, key: &Key) -> bool {
        self.own().keys.get(&number).is_some_and(|keys| keys.contains(key))
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

impl Inner {
    /// Waits for something that others wrote; `None` if no table notes it.
    pub(super) async fn outside(&self) -> Option<Outside> {
        let rows = self.rows.as_ref()?;
        if rows.tables.iter().all(|table| table.mapping.version == VersionMode::None) {
            return None;
        }
        let mut last = self.watch.last.lock().await;
        loop {
            if last.snapshot.is_some() {
                sleep(self.watch.pause).await;
            }
            match timeout(self.timeout, self.look(&mut last)).await.unwrap_or_else(|_| Err(self.no_answer())) {
                Ok(Outside::Keys(keys)) if keys.is_empty() => {}
                Ok(outside) => return Some(outside),
                Err(why) => {
                    if last.snapshot.take().is_some() {
                        tracing::warn!(why, "what others write to PostgreSQL can't be seen; the cache is dropped then");
                        return Some(Outside::Everything);
                    }
                    sleep(self.timeout).await;
                }
            }
        }
    }

    async fn look(&self, last: &mut Last) -> Result<Outside, String> {
        let session = self.pool.reader().await?;
        let rows = session.client.query(sql::OUTSIDE, &[&last.snapshot]).await.map_err(|error| told(&error))?;
        let now: Option<String> = rows.first().map(|row| row.try_get(0)).transpose().map_err(|error| told(&error))?;
        let first = last.snapshot.is_none();
        last.snapshot = now;
        last.looks += 1;
        if last.looks >= REMOVE_EVERY {
            last.looks = 0;
            session.client.execute(sql::FORGET_OUTSIDE, &[&last.snapshot]).await.map_err(|error| told(&error))?;
        }
        if first {
            return Ok(Outside::Everything);
        }
        let mut keys = Vec::new();
        for row in &rows {
            let Some(note) = Note::of(row).map_err(|error| told(&error))? else { continue };
            if note.truncated {
                return Ok(Outside::Everything);
            }
            let tables = self.rows.iter().flat_map(|rows| &rows.tables);
            for table in tables.filter(|mapped| mapped.name == note.table) {
                let named = note.keys.iter().filter_map(|key| table.mapping.pattern.join(key));
                let named = named.map(|name| Key::new(0, name.as_bytes()));
                keys.extend(named.filter(|key| !self.watch.was_ours(note.number, key)));
            }
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(Outside::Keys(keys))
    }
}
