//! Commits: from a group to one outcome each, and what becomes of those that were not answered.
//!
//! A group is one transaction of the file, with one wait for the disk, and each of its commits a savepoint in it. One
//! that is refused is undone by itself: what stands before it is applied, what stands after it is not. Where SQLite
//! undoes more than that (a trigger's ROLLBACK, a deferred foreign key), the group goes again in parts.

use std::time::Duration;

use forebay::store::{Commit, CommitOutcome, Resolved, Since};
use forebay::{Key, Read, TxnId};
use rusqlite::{Connection, OptionalExtension, params};

use super::database::Database;
use super::error::failure;
use super::read_failed::ReadFailed;
use super::rows::{reading, writing};
use super::slot::Slot;
use super::{documents, given, listing, schema};
use crate::sql::failure::{Failure, below_floor, denied, outcome_of};
use crate::sql::ids;
use crate::sql::tables::Tables;

/// What became of the first commits of a part, and of the one that ended it.
type Made = (Vec<CommitOutcome>, Option<CommitOutcome>);

/// Numbers of writes of rows, and the documents that each changed.
type Own = Vec<(u64, Vec<Key>)>;

/// A part of a group of which nothing is in the file.
struct Undone {
    failure: Failure,
    /// The commit at which it failed; the first if it was COMMIT.
    at: usize,
}

fn sqlite(error: rusqlite::Error) -> Failure {
    failure(&error)
}

/// `outcomes`, then `outcome`, and that all after that one are not applied: they may have been built on it.
fn stop(group: &[Commit], mut outcomes: Vec<CommitOutcome>, outcome: CommitOutcome) -> Vec<CommitOutcome> {
    let id = group[outcomes.len()].id;
    let why = format!("commit {id}, ahead in the same group, was not applied; run the transaction again");
    outcomes.push(outcome);
    outcomes.resize(group.len(), CommitOutcome::Unavailable(why));
    outcomes
}

impl Database {
    /// How long a group may wait for the connection that writes.
    pub(super) fn patience(&self, group: &[Commit]) -> Duration {
        self.timeout * group.iter().map(|commit| commit.patience).max().unwrap_or(1).max(1)
    }

    /// Commits `group`, in order, up to the first that is not applied.
    pub(super) fn commit(&self, slot: &mut Slot, group: &[Commit]) -> Vec<CommitOutcome> {
        let mut outcomes = Vec::with_capacity(group.len());
        let mut most = group.len();
        while outcomes.len() < group.len() {
            let rest = &group[outcomes.len()..];
            let part = &rest[..most.min(rest.len())];
            match self.commit_part(slot, part) {
                Ok((made, stopped)) => {
                    outcomes.extend(made);
                    if let Some(outcome) = stopped {
                        return stop(group, outcomes, outcome);
                    }
                }
                Err(Undone { failure: Failure::Unknown(why), .. }) => {
                    outcomes.resize(outcomes.len() + part.len() - 1, CommitOutcome::Unknown(why.clone()));
                    return stop(group, outcomes, CommitOutcome::Unknown(why));
                }
                Err(Undone { failure, .. }) if part.len() == 1 => {
                    return stop(group, outcomes, outcome_of(&part[0], failure));
                }
                Err(Undone { failure: Failure::Unavailable(why) | Failure::NotOwned(why), .. }) => {
                    return stop(group, outcomes, CommitOutcome::Unavailable(why));
                }
                Err(Undone { at, .. }) => most = at.max(1),
            }
        }
        self.forget_ids(slot);
        outcomes
    }

    /// Commits `part` as one transaction of the file.
    fn commit_part(&self, slot: &mut Slot, part: &[Commit]) -> Result<Made, Undone> {
        let _on_their_way = self.ids.begin(part.iter().map(|commit| commit.id));
        let (mut at, mut own) = (0, Own::new());
        let made = self.write(slot, |connection| {
            let mut made = Vec::with_capacity(part.len());
            let several = part.len() > 1;
            let batch = |text: &str| connection.execute_batch(text).map_err(|error| failure(&error));
            for (place, commit) in part.iter().enumerate() {
                at = place;
                if several {
                    batch("SAVEPOINT member")?;
                }
                let failed = match self.commit_one(connection, commit, &mut own) {
                    Ok(outcome) => {
                        made.push(outcome);
                        if several {
                            batch("RELEASE member")?;
                        }
                        continue;
                    }
                    Err(failed) => failed,
                };
                let away = matches!(failed, Failure::Unavailable(_) | Failure::Unknown(_) | Failure::NotOwned(_));
                if !several || away || connection.is_autocommit() {
                    return Err(failed);
                }
                batch("ROLLBACK TO member; RELEASE member")?;
                at = 0;
                return Ok((made, Some(outcome_of(commit, failed))));
            }
            at = 0;
            Ok((made, None))
        });
        let (made, stopped) = made.map_err(|failure| Undone { failure, at })?;
        if let Some(newest) = part[..made.len()].iter().map(|commit| commit.id).max() {
            self.identity.acknowledge(newest);
        }
        // Only now: numbers of what was undone are given again, to others.
        own.into_iter().for_each(|(number, keys)| self.watch.is_ours(number, keys));
        Ok((made, stopped))
    }

    fn commit_one(&self, connection: &Connection, commit: &Commit, own: &mut Own) -> Result<CommitOutcome, Failure> {
        let id = commit.id;
        if id.0.incarnation > self.identity.incarnation() {
            return Err(Failure::Refused(format!("commit {id} comes from the future")));
        }
        if self.ids.is_forgotten(id) {
            return Err(Failure::Refused(below_floor(id)));
        }
        match known(connection, id).map_err(sqlite)? {
            Some(true) => return self.repeated(connection, commit),
            Some(false) => return Err(Failure::Refused(denied(id))),
            None => {}
        }
        let looked = match &self.mapped {
            Some(mapped) if self.touches_rows(commit) => {
                Some(mapped.current(connection).map_err(sqlite)?.map_err(Failure::Refused)?)
            }
            _ => None,
        };
        let tables = looked.as_ref().map(|looked| &looked.tables);
        self.check(connection, tables, commit)?;
        let first = if tables.is_some() { reading::last_write(connection).map_err(sqlite)? } else { 0 };
        connection
            .prepare_cached(schema::ENTER)
            .and_then(|mut enter| enter.execute([ids::bytes(id)]))
            .map_err(sqlite)?;
        given::note(connection, commit).map_err(sqlite)?;
        let mut changed = Vec::new();
        for write in &commit.writes {
            match tables.filter(|_| !self.is_document(&write.key)) {
                Some(tables) => {
                    let place = tables.place(&write.key).map_err(Failure::Refused)?;
                    writing::write(connection, &tables.tables[place.table], &place.parts, write)?;
                }
                None => {
                    let read = self.write_document(connection, commit, write)?;
                    if self.mapped.is_some() || read.value != write.after {
                        changed.push((write.key.clone(), read));
                    }
                }
            }
        }
        if let Some(tables) = tables {
            self.read_back(connection, tables, commit, (&mut changed, own))?;
            let last = reading::last_write(connection).map_err(sqlite)?;
            let range = params![ids::bytes(id), first.cast_signed(), last.cast_signed()];
            connection
                .prepare_cached(schema::RANGE)
                .and_then(|mut range_of| range_of.execute(range))
                .map_err(sqlite)?;
        }
        Ok(CommitOutcome::Committed(changed))
    }

    fn touches_rows(&self, commit: &Commit) -> bool {
        let checked = commit.checks.iter().map(|(key, _)| key);
        commit.writes.iter().map(|write| &write.key).chain(checked).any(|key| !self.is_document(key))
    }

    /// Fails unless all that `commit` has read is as it was.
    fn check(&self, connection: &Connection, tables: Option<&Tables>, commit: &Commit) -> Result<(), Failure> {
        let mut overtaken = Vec::new();
        for (at, (key, version)) in commit.checks.iter().enumerate() {
            let is_at = match tables.filter(|_| !self.is_document(key)) {
                Some(tables) => {
                    let place = tables.place(key).map_err(Failure::Refused)?;
                    reading::is_at(connection, &tables.tables[place.table], &place.parts, *version)
                }
                None => self.is_document_at(connection, key, *version),
            };
            if !is_at.map_err(sqlite)? {
                overtaken.push(at);
            }
        }
        match overtaken.is_empty() {
            true => Ok(()),
            false => Err(Failure::Overtaken(overtaken)),
        }
    }

    /// Reads what the rows are that `commit` has written.
    fn read_back(
        &self,
        connection: &Connection,
        tables: &Tables,
        commit: &Commit,
        (changed, own): (&mut Vec<(Key, Read)>, &mut Own),
    ) -> Result<(), Failure> {
        for write in commit.writes.iter().filter(|write| !self.is_document(&write.key)) {
            let key = &write.key;
            let place = tables.place(key).map_err(Failure::Refused)?;
            let table = &tables.tables[place.table];
            if let Some(number) = reading::noted(connection, table, &place.parts).map_err(sqlite)? {
                let mut keys = tables.beside(key);
                keys.push(key.clone());
                own.push((number, keys));
            }
            match reading::get(connection, (table, key, &place.parts), self.identity.incarnation()) {
                Ok(read) => changed.push((key.clone(), read)),
                Err(ReadFailed::Sqlite(error)) => return Err(failure(&error)),
                // What can't be read of it is found when it is read next.
                Err(ReadFailed::Read(_)) => {}
            }
        }
        Ok(())
    }

    /// What the documents of a commit are that was applied earlier. Those of a file that forebay owns only it writes.
    fn repeated(&self, connection: &Connection, commit: &Commit) -> Result<CommitOutcome, Failure> {
        let Some(mapped) = &self.mapped else { return Ok(CommitOutcome::Committed(Vec::new())) };
        // That it was applied is known: where its rows can't be read, nothing is said of them.
        let Ok(looked) = mapped.current(connection).map_err(sqlite)? else {
            return Ok(CommitOutcome::Repeated(Vec::new()));
        };
        let id = ids::bytes(commit.id);
        let range = connection.query_row(schema::RANGE_OF, [id], |row| Ok((row.get(0)?, row.get(1)?)));
        let (first, last): (i64, i64) = range.map_err(sqlite)?;
        let mut since = Vec::new();
        for write in &commit.writes {
            let key = &write.key;
            let (read, untouched) = match self.is_document(key) {
                true => {
                    let read = documents::get(connection, key, self.identity.absence(key));
                    let untouched = |read: &Read| read.value.is_some() && read.version == commit.version;
                    (read, Box::new(untouched) as Box<dyn Fn(&Read) -> bool>)
                }
                false => {
                    let place = looked.tables.place(key).map_err(Failure::Refused)?;
                    let table = &looked.tables.tables[place.table];
                    let read = reading::get(connection, (table, key, &place.parts), self.identity.incarnation());
                    let (first, last) = (first.cast_unsigned(), last.cast_unsigned());
                    let untouched = move |read: &Read| {
                        let number = read.version.sequence / 2;
                        read.value.is_some() && first < number && number <= last
                    };
                    (read, Box::new(untouched) as Box<dyn Fn(&Read) -> bool>)
                }
            };
            match read {
                Ok(read) => since.push(Since { key: key.clone(), untouched: untouched(&read), read }),
                Err(ReadFailed::Sqlite(error)) => return Err(failure(&error)),
                Err(ReadFailed::Read(_)) => return Ok(CommitOutcome::Repeated(Vec::new())),
            }
        }
        Ok(CommitOutcome::Repeated(since))
    }

    /// Forgets the oldest ids, if there are many, and what clients gave long ago.
    fn forget_ids(&self, slot: &mut Slot) {
        let Some(entered) = self.ids.many() else { return };
        let oldest = self.ids.oldest_to_come().map(ids::bytes);
        let forgot = self.write(slot, |connection| {
            let forget = || {
                let asked = params![ids::APPLIED_IDS_MAX as i64, oldest];
                let floor: Option<Vec<u8>> =
                    connection.query_row(schema::FORGETTABLE, asked, |row| row.get(0)).optional()?;
                if let Some((floor, id)) = floor.and_then(|floor| ids::version(&floor).map(|id| (floor, TxnId(id)))) {
                    // Said before they are forgotten.
                    if !self.ids.raise_floor(id) {
                        return Ok(());
                    }
                    connection.execute(schema::FORGET, [&floor])?;
                    connection.execute(schema::RAISE_FLOOR, [&floor])?;
                }
                given::forget(connection)
            };
            forget().map_err(|error| failure(&error))
        });
        match forgot {
            Ok(()) => self.ids.forgotten(entered),
            Err(error) => tracing::debug!(?error, "old ids of commits were not forgotten"),
        }
    }

    /// What became of `asked`: a tombstone is put in the place of each, unless it is there already. A commit with a
    /// tombstone is never applied.
    pub(super) fn outcomes(&self, slot: &mut Slot, asked: &[TxnId]) -> Result<Vec<Resolved>, String> {
        if let Some(id) = asked.iter().find(|id| self.ids.is_forgotten(**id)) {
            return Err(below_floor(*id));
        }
        let _on_their_way = self.ids.begin(asked.iter().copied());
        let resolve = |connection: &Connection| {
            let mut resolved = Vec::with_capacity(asked.len());
            for id in asked {
                connection.prepare_cached(schema::TOMBSTONE)?.execute([ids::bytes(*id)])?;
                resolved.push(known(connection, *id)?);
            }
            Ok(resolved)
        };
        let resolved = match self.identity.fenced() {
            None => self.write(slot, |connection| resolve(connection).map_err(sqlite)),
            Some(_) => Err(Failure::NotOwned(String::new())),
        };
        let resolved = match resolved {
            // That owner may have forgotten ids: its floor counts.
            Err(Failure::NotOwned(_)) => self.write_as(slot, |connection| {
                let resolved = resolve(connection).map_err(sqlite)?;
                let floor = connection.query_row("SELECT floor FROM forebay_meta", [], |row| row.get::<_, Vec<u8>>(0));
                let floor = floor.map_err(sqlite)?;
                let kept = |id: &TxnId, applied: bool| applied || ids::bytes(*id) > floor;
                let resolved = asked.iter().zip(resolved).map(|(id, known)| known.filter(|known| kept(id, *known)));
                Ok(resolved.collect())
            }),
            resolved => {
                if let (Ok(_), Some(newest)) = (&resolved, asked.iter().max()) {
                    self.identity.acknowledge(*newest);
                }
                resolved
            }
        };
        let resolved: Vec<Option<bool>> = resolved.map_err(Failure::why)?;
        let answer = |(id, known): (&TxnId, Option<bool>)| match known {
            Some(true) => Ok(Resolved::Applied),
            Some(false) => Ok(Resolved::NotApplied),
            None => Err(below_floor(*id)),
        };
        asked.iter().zip(resolved).map(answer).collect()
    }

    /// Removes all documents of `spaces`; `version` is that of their absence. In front of tables those of the keys that
    /// are documents.
    pub(super) fn clear(&self, slot: &mut Slot, spaces: &[u8], version: forebay::Version) -> Result<(), Failure> {
        let named = match &self.mapped {
            Some(mapped) if mapped.wanted.named.is_none() => {
                let why = "mapped tables are not cleared from here; CACHE RESET empties the cache alone";
                return Err(Failure::Refused(why.into()));
            }
            Some(mapped) => mapped.wanted.named.as_ref(),
            None => None,
        };
        self.write(slot, |connection| {
            for space in spaces {
                self.identity.clearing(*space, version);
                let cleared = match named {
                    None => connection.execute(schema::CLEAR, [space]).map(|_| ()),
                    // What lies there and is not named stays: it is not shown either.
                    Some(named) => listing::remove(connection, *space, |key| named.has(key)),
                };
                cleared.map_err(sqlite)?;
            }
            Ok(())
        })
    }
}

/// Whether `id` is in the table, and whether as applied.
pub(super) fn known(connection: &Connection, id: TxnId) -> Result<Option<bool>, rusqlite::Error> {
    connection.prepare_cached(schema::KNOWN)?.query_row([ids::bytes(id)], |row| row.get(0)).optional()
}
