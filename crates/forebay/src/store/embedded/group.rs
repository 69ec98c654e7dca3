//! A group on its way into the file, as one write transaction.

use std::ops::Range;
use std::sync::Mutex;

use redb::{Database, WriteTransaction};

use super::given;
use super::locked::locked;
use super::rows::{self, Totals};
use super::runs::RUN_ROWS_MIN;
use super::write::{Documents, fits_a_row};
use crate::key::{Key, SPACES};
use crate::mutation::{self, Fault};
use crate::store::applied::{AppliedIds, Known};
use crate::store::tombstones::Tombstones;
use crate::store::{self, Commit, CommitOutcome, GivenId, Write};
use crate::version::{TxnId, Version};

/// What a group meets.
pub(super) struct Scene<'a> {
    pub applied: &'a AppliedIds,
    pub tombstones: &'a Mutex<Tombstones>,
    /// Commits minted under these incarnations are refused: what they read may be lost.
    pub lost: Range<u64>,
    /// The group's number.
    pub group: u64,
    /// Documents per space.
    pub counts: [u64; SPACES as usize],
    pub next_part_id: u64,
}

/// When a group goes to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    /// With a later one; until then its write transaction stays open for more groups, and nobody can read it.
    Later,
    /// With a later one, but it can be read at once.
    Shown,
    /// Before it is acknowledged.
    Now,
    /// The same, and so that opening the file after a crash is quick.
    WithAllocator,
}

/// A group that the file has taken.
pub(super) struct Taken {
    pub outcomes: Vec<CommitOutcome>,
    /// Ids of the commits that were applied.
    pub ids: Vec<TxnId>,
    /// Keys that they deleted.
    pub deleted: Vec<(Key, Version)>,
    pub counts: [u64; SPACES as usize],
    pub next_part_id: u64,
    /// Bytes of rows written.
    pub bytes: u64,
    pub durable: bool,
    /// All that is absent in such a space is so at this version or a later one.
    pub floors: Vec<(u8, Version)>,
}

/// Ends a write transaction.
pub(super) fn finish(mut transaction: WriteTransaction, flush: Flush) -> Result<(), redb::Error> {
    let durable = matches!(flush, Flush::Now | Flush::WithAllocator);
    let synced = durable && !mutation::on(Fault::AcknowledgedBeforeFsync);
    transaction.set_durability(if synced { redb::Durability::Immediate } else { redb::Durability::None })?;
    transaction.set_quick_repair(flush == Flush::WithAllocator);
    Ok(transaction.commit()?)
}

/// Applies a group, in the write transaction that earlier ones left open, if there is one; when it goes to the disk is
/// decided by how many bytes of rows it has. Gives the transaction back if it is to stay open.
pub(super) fn apply(
    database: &Database,
    open: Option<WriteTransaction>,
    scene: &Scene<'_>,
    group: &[Commit],
    flushes: impl FnOnce(u64) -> Flush,
) -> Result<(Taken, Option<WriteTransaction>), redb::Error> {
    let fresh = open.is_none();
    let transaction = match open {
        Some(open) => open,
        None => database.begin_write()?,
    };
    let mut documents = Documents::open(&transaction, scene.next_part_id, scene.counts)?;
    let mut applying = Applying { scene, ids: Vec::with_capacity(group.len()), deleted: Vec::new(), given: Vec::new() };
    let mut failed = None;
    let outcomes = store::in_order(group, |commit| {
        applying.commit(&mut documents, commit).unwrap_or_else(|error| {
            failed = Some(error);
            CommitOutcome::Unknown(String::new())
        })
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let Applying { ids, deleted, given, .. } = applying;
    let (next_part_id, counts, bytes) = (documents.next_part_id, documents.counts, documents.bytes);
    drop(documents);
    let flush = flushes(bytes);
    let durable = matches!(flush, Flush::Now | Flush::WithAllocator);
    let taken = Taken { outcomes, ids, deleted, counts, next_part_id, bytes, durable, floors: Vec::new() };
    if taken.ids.is_empty() {
        if !fresh {
            return Ok((taken, Some(transaction)));
        }
        transaction.abort()?;
        return Ok((taken, None));
    }
    given::write(&transaction, &given)?;
    log_group(&transaction, scene, &taken)?;
    if flush == Flush::Later {
        return Ok((taken, Some(transaction)));
    }
    finish(transaction, flush)?;
    Ok((taken, None))
}

/// Removes all documents of `spaces`, durably.
pub(super) fn clear(
    database: &Database,
    scene: &Scene<'_>,
    spaces: &[u8],
    version: Version,
) -> Result<Taken, redb::Error> {
    let transaction = database.begin_write()?;
    let stays = |(space, count): (usize, &u64)| *count > 0 && !spaces.contains(&(space as u8));
    if !scene.counts.iter().enumerate().any(stays) {
        // Nothing stays: to drop the tables is cheaper than to walk them.
        for table in [rows::DOCUMENTS, rows::PARTS, rows::EXPIRIES] {
            transaction.delete_table(table)?;
        }
    }
    let mut documents = Documents::open(&transaction, scene.next_part_id, scene.counts)?;
    documents.make_tables()?;
    for &space in spaces.iter().filter(|&&space| space < SPACES) {
        documents.clear(space)?;
    }
    let (next_part_id, counts) = (documents.next_part_id, documents.counts);
    drop(documents);
    let (outcomes, ids, deleted) = (Vec::new(), Vec::new(), Vec::new());
    let floors = spaces.iter().map(|space| (*space, version)).collect();
    let taken = Taken { outcomes, ids, deleted, counts, next_part_id, bytes: 0, durable: true, floors };
    log_group(&transaction, scene, &taken)?;
    transaction.commit()?;
    Ok(taken)
}

/// Writes the row of a group, and the totals behind it; forgets groups beyond the limit.
fn log_group(transaction: &WriteTransaction, scene: &Scene<'_>, taken: &Taken) -> Result<(), redb::Error> {
    let group = scene.group;
    let eviction = scene.applied.eviction(taken.ids.len());
    let mut log = transaction.open_table(rows::LOG)?;
    if !taken.ids.is_empty() {
        log.insert(group, rows::ids_row(group, &taken.ids).as_slice())?;
    }
    for old in eviction.groups {
        log.remove(old)?;
    }
    let totals = Totals { group, floor: eviction.floor, counts: taken.counts };
    log.insert(rows::TOTALS, totals.to_row().as_slice())?;
    Ok(())
}

/// A group on its way into a write transaction.
struct Applying<'a> {
    scene: &'a Scene<'a>,
    /// Ids of the commits that were applied, in order.
    ids: Vec<TxnId>,
    deleted: Vec<(Key, Version)>,
    /// Ids that clients gave them.
    given: Vec<(GivenId, Version)>,
}

impl Applying<'_> {
    fn commit(&mut self, documents: &mut Documents<'_>, commit: &Commit) -> Result<CommitOutcome, redb::Error> {
        match self.scene.applied.known(commit.id) {
            Known::Applied => return Ok(CommitOutcome::Committed(Vec::new())),
            Known::Denied => return Ok(CommitOutcome::Refused(store::denied(commit.id))),
            Known::BelowFloor => return Ok(CommitOutcome::Refused(store::below_floor(commit.id))),
            Known::New if self.has(commit.id) => return Ok(CommitOutcome::Committed(Vec::new())),
            Known::New => {}
        }
        let lost = self.scene.lost.contains(&commit.version.incarnation);
        if lost && !mutation::on(Fault::VersionFenceOff) {
            let why = format!("{} was minted before the store lost what was not flushed", commit.version);
            return Ok(CommitOutcome::Refused(format!("{why}; run the transaction again")));
        }
        let mut conflicts = Vec::new();
        for (key, expected) in &commit.checks {
            match documents.header(key)? {
                Ok(header) => {
                    if header.map_or_else(|| self.absence(key), |header| header.version) != *expected {
                        conflicts.push(key.clone());
                    }
                }
                Err(why) => return Ok(damaged(key, &why)),
            }
        }
        if !conflicts.is_empty() {
            return Ok(CommitOutcome::Conflict(conflicts));
        }
        if let [Write { key, after: Some(value), .. }] = commit.writes.as_slice()
            && fits_a_row(value)
        {
            if let Err(why) = documents.overwrite(key, value, commit.version)? {
                return Ok(damaged(key, &why));
            }
            self.took(commit);
            return Ok(CommitOutcome::Committed(Vec::new()));
        }
        // All rows are looked at before one is written: what is refused leaves nothing.
        if commit.writes.len() >= RUN_ROWS_MIN {
            if let Err((key, why)) = documents.write_wide(&commit.writes, commit.version)? {
                return Ok(damaged(key, &why));
            }
            let deleted = commit.writes.iter().filter(|write| write.after.is_none());
            self.deleted.extend(deleted.map(|write| (write.key.clone(), commit.version)));
            self.took(commit);
            return Ok(CommitOutcome::Committed(Vec::new()));
        }
        let mut headers = Vec::with_capacity(commit.writes.len());
        for write in &commit.writes {
            match documents.header(&write.key)? {
                Ok(header) => headers.push(header),
                Err(why) => return Ok(damaged(&write.key, &why)),
            }
        }
        for (write, header) in commit.writes.iter().zip(headers) {
            documents.write(write, commit.version, header)?;
            if write.after.is_none() {
                self.deleted.push((write.key.clone(), commit.version));
            }
        }
        self.took(commit);
        Ok(CommitOutcome::Committed(Vec::new()))
    }

    fn took(&mut self, commit: &Commit) {
        self.ids.push(commit.id);
        self.given.extend(commit.given.iter().map(|given| (given.clone(), commit.version)));
    }

    /// Whether the group has applied `id`. Nearly always it is greater than all before.
    fn has(&self, id: TxnId) -> bool {
        self.ids.last().is_some_and(|last| id <= *last) && self.ids.contains(&id)
    }

    fn absence(&self, key: &Key) -> Version {
        let here = self.deleted.iter().rev().find(|(deleted, _)| deleted == key).map(|(_, version)| *version);
        here.unwrap_or_else(|| locked(self.scene.tombstones).absence(key).version)
    }
}

fn damaged(key: &Key, why: &str) -> CommitOutcome {
    CommitOutcome::Refused(format!("stored document of {key} is damaged: {why}; restore the store from a backup"))
}
