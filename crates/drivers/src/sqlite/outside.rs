//! What others write to mapped tables: triggers note it in `forebay_rows`, and that is looked at again and again.
//! SQLite has one writer at a time, so notes have the order of the commits that made them. The numbers above the last
//! one that was seen are all that is new.

use std::sync::Arc;

use forebay::Key;
use forebay::store::Outside;
use rusqlite::Connection;
use tokio::time::{Instant, sleep};

use super::database::Database;
use super::error::failure;
use super::last_look::Last;
use super::mapped::Mapped;
use super::read_failed::ReadFailed;
use super::rows::{keys, reading};
use crate::sql::failure::Failure;
use crate::sql::table::quoted;
use crate::sql::watch::Watch;
use crate::sql::watching::{LOOK_AGAIN, OutsideBy, SUSPECT, told_keys};

/// Looks after which notes of rows that are gone are removed.
const REMOVE_EVERY: u32 = 1_200;

const NOTED: &str = "SELECT version, tab, key FROM forebay_rows WHERE version > ?1 ORDER BY version";

/// Not those that a later look has to tell of.
const FORGET: &str = "DELETE FROM forebay_rows WHERE gone AND version <= ?1";

impl Database {
    /// How what others write is seen, if it is.
    pub(super) fn watch(&self) -> Option<(&Mapped, &Watch)> {
        let mapped = self.mapped.as_ref()?;
        (mapped.wanted.outside != OutsideBy::Off).then_some((mapped, &self.watch))
    }

    /// Waits for something that others wrote; `None` if nothing says so.
    pub(super) async fn outside(self: &Arc<Self>) -> Option<Outside> {
        let (_, watch) = self.watch()?;
        let mut last = self.last_look.lock().await;
        let asked = watch.asked();
        loop {
            if let Some(told) = asked.told() {
                return Some(told);
            }
            if last.seen.is_some() {
                asked.rest(watch.pause()).await;
            }
            let newest = asked.newest();
            match self.look(&mut last).await {
                Ok(outside) => {
                    asked.answered(newest);
                    match outside {
                        Outside::Keys(keys) if keys.is_empty() => {}
                        outside => return Some(outside),
                    }
                }
                Err(why) => {
                    last.seen = None;
                    watch.failed(&why);
                    sleep(LOOK_AGAIN).await;
                    if last.suspect.is_none_or(|since| since.elapsed() >= SUSPECT) {
                        last.suspect = Some(Instant::now());
                        return Some(Outside::OutOfSight);
                    }
                }
            }
        }
    }

    async fn look(self: &Arc<Self>, last: &mut Last) -> Result<Outside, String> {
        let (began, seen) = (Instant::now(), last.seen);
        let looked = self.reading(move |database, connection| database.looked(connection, seen)).await;
        let (now, outside) = looked.map_err(|error| error.to_string())?;
        (last.seen, last.suspect) = (Some(now), None);
        last.looks += 1;
        if last.looks >= REMOVE_EVERY {
            last.looks = 0;
            let forgot = self.writing(self.timeout, move |database, slot| {
                database.write(slot, |connection| {
                    connection.execute(FORGET, [now.0.cast_signed()]).map_err(|error| failure(&error))
                })
            });
            if let Err(why) | Ok(Err(why)) = forgot.await.map(|forgot| forgot.map_err(Failure::why)) {
                tracing::debug!(why, "notes of rows that are gone can't be removed");
            }
        }
        self.watch.looked(began, told_keys(&outside));
        Ok(outside)
    }

    /// What was noted since `seen`, and what is seen by now.
    fn looked(&self, connection: &Connection, seen: Option<(u64, i64)>) -> Result<((u64, i64), Outside), ReadFailed> {
        let now = (reading::last_write(connection)?, super::rows::catalogue::schema(connection)?);
        let Some(mapped) = &self.mapped else { return Ok((now, Outside::Everything)) };
        // A mapping that does not fit is told to who asks for its rows.
        let _ = mapped.current(connection)?;
        let Some((before, _)) = seen.filter(|(before, schema)| *before <= now.0 && *schema == now.1) else {
            return Ok((now, Outside::Everything));
        };
        if before == now.0 {
            return Ok((now, Outside::Keys(Vec::new())));
        }
        let (looked, own) = (mapped.looked(), self.watch.own());
        let mut asked = connection.prepare_cached(NOTED)?;
        let mut rows = asked.query([before.cast_signed()])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let (version, tab, key): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            if key.is_empty() {
                return Ok((now, Outside::Everything));
            }
            let Some(parts) = keys::parts(&key) else { continue };
            let name = quoted(&tab);
            for table in looked.tables.tables.iter().filter(|table| table.name == name) {
                let named = table.mapping.join_name(&parts).map(|name| Key::new(0, name.as_bytes()));
                found.extend(named.filter(|key| !own.was_ours(version.cast_unsigned(), key)));
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok((now, Outside::Keys(found)))
    }
}
