//! Commits: from a group to one outcome each, and what becomes of those that were not answered.
//!
//! A group is one transaction of the file, with one wait for the disk, and each of its commits a savepoint in it. One
//! that is refused is undone by itself: what stands before it is applied, what stands after it is not. Where SQLite
//! undoes more than that (a trigger's ROLLBACK, a deferred foreign key), the group goes again in parts.

use std::time::Duration;

use forebay::TxnId;
use forebay::store::{Commit, CommitOutcome, Resolved};
use rusqlite::{Connection, OptionalExtension, params};

use super::database::Database;
use super::error::failure;
use super::transaction::Slot;
use super::{given, schema};
use crate::sql::failure::{Failure, below_floor, denied, outcome_of};
use crate::sql::ids;

/// What became of the first commits of a part, and of the one that ended it.
type Made = (Vec<CommitOutcome>, Option<CommitOutcome>);

/// A part of a group of which nothing is in the file.
struct Undone {
    failure: Failure,
    /// The commit at which it failed; the first if it was COMMIT.
    at: usize,
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
        let mut at = 0;
        let made = self.write(slot, |connection| {
            let mut made = Vec::with_capacity(part.len());
            let several = part.len() > 1;
            let batch = |text: &str| connection.execute_batch(text).map_err(|error| failure(&error));
            for (place, commit) in part.iter().enumerate() {
                at = place;
                if several {
                    batch("SAVEPOINT member")?;
                }
                let failed = match self.commit_one(connection, commit) {
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
        Ok((made, stopped))
    }

    fn commit_one(&self, connection: &Connection, commit: &Commit) -> Result<CommitOutcome, Failure> {
        let id = commit.id;
        let sqlite = |error: rusqlite::Error| failure(&error);
        if id.0.incarnation > self.identity.incarnation() {
            return Err(Failure::Refused(format!("commit {id} comes from the future")));
        }
        if self.ids.is_forgotten(id) {
            return Err(Failure::Refused(below_floor(id)));
        }
        match known(connection, id).map_err(sqlite)? {
            Some(true) => return Ok(CommitOutcome::Committed(Vec::new())),
            Some(false) => return Err(Failure::Refused(denied(id))),
            None => {}
        }
        let mut overtaken = Vec::new();
        for (at, (key, version)) in commit.checks.iter().enumerate() {
            if !self.is_document_at(connection, key, *version).map_err(sqlite)? {
                overtaken.push(at);
            }
        }
        if !overtaken.is_empty() {
            return Err(Failure::Overtaken(overtaken));
        }
        connection
            .prepare_cached(schema::ENTER)
            .and_then(|mut enter| enter.execute([ids::bytes(id)]))
            .map_err(sqlite)?;
        given::note(connection, commit).map_err(sqlite)?;
        let mut changed = Vec::new();
        for write in &commit.writes {
            let read = self.write_document(connection, commit, write)?;
            if read.value != write.after {
                changed.push((write.key.clone(), read));
            }
        }
        Ok(CommitOutcome::Committed(changed))
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
        let sqlite = |error: rusqlite::Error| failure(&error);
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
        let resolved: Vec<Option<bool>> = resolved.map_err(|failure| match failure {
            Failure::Refused(why) | Failure::Unavailable(why) | Failure::Unknown(why) | Failure::NotOwned(why) => why,
            failure => format!("{failure:?}"),
        })?;
        let answer = |(id, known): (&TxnId, Option<bool>)| match known {
            Some(true) => Ok(Resolved::Applied),
            Some(false) => Ok(Resolved::NotApplied),
            None => Err(below_floor(*id)),
        };
        asked.iter().zip(resolved).map(answer).collect()
    }

    /// Removes all documents of `spaces`; `version` is that of their absence.
    pub(super) fn clear(&self, slot: &mut Slot, spaces: &[u8], version: forebay::Version) -> Result<(), Failure> {
        self.write(slot, |connection| {
            for space in spaces {
                self.identity.clearing(*space, version);
                connection.execute(schema::CLEAR, [space]).map_err(|error| failure(&error))?;
            }
            Ok(())
        })
    }
}

/// Whether `id` is in the table, and whether as applied.
pub(super) fn known(connection: &Connection, id: TxnId) -> Result<Option<bool>, rusqlite::Error> {
    connection.prepare_cached(schema::KNOWN)?.query_row([ids::bytes(id)], |row| row.get(0)).optional()
}
