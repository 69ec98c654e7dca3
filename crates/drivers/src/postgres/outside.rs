//! What others write to mapped tables: triggers note it in a table, and it is looked at again and again.
//!
//! A transaction may commit after another that has a larger number, so "numbers above the last" would miss it, and
//! "numbers below all that are open" would wait behind any long transaction. Each look asks for what this statement's
//! snapshot sees and the last one's did not: nothing is missed, and nothing waits.

use std::sync::Arc;

use forebay::Key;
use forebay::store::Outside;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_postgres::{Error, Row};

use super::classify::told;
use super::database::{Inner, WHOLE_TABLE_TIME};
use super::session::Session;
use super::sql;
use super::watch::Last;
use crate::sql::mapping::VersionMode;
use crate::sql::watching::{LOOK_AGAIN, OutsideBy, SUSPECT, told_keys};

/// Looks after which old notes are removed.
const REMOVE_EVERY: u32 = 100;

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
    /// Whether triggers note what is written to some table.
    pub(super) fn has_notes(&self) -> bool {
        self.rows().is_some_and(|rows| rows.tables.iter().any(|table| table.mapping.version != VersionMode::None))
    }

    /// Whether something says what others write.
    fn is_watched(&self) -> bool {
        match self.watch.by() {
            OutsideBy::Decoding => self.is_mapped,
            OutsideBy::Triggers | OutsideBy::Auto => self.has_notes(),
            OutsideBy::Off => false,
        }
    }

    /// As [`forebay::store::Store::sync`].
    pub(super) fn sync(&self) -> Option<u64> {
        self.is_watched().then(|| self.watch.asked().one())
    }

    /// Waits for something that others wrote; `None` if nothing says so.
    pub(super) async fn outside(self: &Arc<Self>) -> Option<Outside> {
        match self.watch.by() {
            _ if !self.is_watched() => None,
            OutsideBy::Decoding => Some(self.decoded(&mut *self.watch.decoding.lock().await).await),
            _ => Some(self.noted().await),
        }
    }

    /// Waits for something that triggers have noted.
    async fn noted(self: &Arc<Self>) -> Outside {
        let mut last = self.watch.last.lock().await;
        let asked = &self.watch.asked();
        loop {
            if let Some(told) = asked.told() {
                return told;
            }
            if last.snapshot.is_some() {
                asked.rest(self.watch.pause()).await;
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
            for table in mapped.iter().flat_map(|rows| &rows.tables).filter(|table| table.name == note.table) {
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
