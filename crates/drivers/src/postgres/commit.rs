//! Commits: from a group to one outcome each, and what becomes of those that were not answered.
//!
//! A group is one transaction of the database: all ids, then all changes, in order. One that the database refuses is
//! halved until the commit is alone that can't be; what stands before it is applied, what stands behind it is not.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use forebay::error::Unavailable;
use forebay::store::{Commit, CommitOutcome, ReadError, Resolved, Since, Write};
use forebay::{Change, Key, TxnId, Value};
use tokio::time::{Instant, sleep, timeout_at};

use super::classify::told;
use super::database::{Inner, no_answer_in};
use super::session::Session;
use super::wire::time_to_send;
use super::{documents, mixed, room, sql};
use crate::sql::failure::{Changed, Failed, Failure, below_floor, denied, outcome_of, written};
use crate::sql::ids;

/// Time that each commit of a group adds to the timeout, so that a large group is not taken for a server that hangs.
const TIME_PER_COMMIT: Duration = Duration::from_millis(2);

/// How often an owner asks what became of commits, and the wait between.
const OUTCOME_TRIES: u32 = 3;
const OUTCOME_PAUSE: Duration = Duration::from_millis(20);

/// A group on its way: what is known of its commits, in order. It is sent in parts: all of it at first, and half of a
/// part that the database refuses, until what is refused is one commit.
struct Group<'a> {
    commits: &'a [Commit],
    outcomes: Vec<CommitOutcome>,
    /// What the table of ids says of commits that were sent before.
    known: HashMap<TxnId, bool>,
    part_max: usize,
}

impl<'a> Group<'a> {
    fn new(commits: &'a [Commit]) -> Group<'a> {
        let outcomes = Vec::with_capacity(commits.len());
        Group { commits, outcomes, known: HashMap::new(), part_max: commits.len() }
    }

    /// The commits that may go next, as one: none twice, none whose checks are about what an earlier one writes, for
    /// checks are made before all changes.
    fn part(&self) -> &'a [Commit] {
        let rest = &self.commits[self.outcomes.len()..];
        if rest.len() == 1 {
            return rest;
        }
        let (mut ids, mut written) = (HashSet::new(), HashSet::new());
        let mut fits = |commit: &'a Commit| {
            let checked = commit.checks.iter().any(|(key, _)| written.contains(key));
            written.extend(commit.writes.iter().map(|write| &write.key));
            !checked && !self.known.contains_key(&commit.id) && ids.insert(commit.id)
        };
        let count = rest.iter().take(self.part_max).take_while(|commit| fits(commit)).count();
        &rest[..count.max(1)]
    }

    /// The commits that come next, as far as they were applied earlier.
    fn repeated(&self) -> &'a [Commit] {
        let rest = &self.commits[self.outcomes.len()..];
        let count = rest.iter().take_while(|commit| self.known.get(&commit.id) == Some(&true)).count();
        &rest[..count]
    }

    /// All that stands behind a commit that was not applied may have been built on it.
    fn stop(mut self, outcome: CommitOutcome) -> Vec<CommitOutcome> {
        let id = self.commits[self.outcomes.len()].id;
        let why = format!("commit {id}, ahead in the same group, was not applied; run the transaction again");
        self.outcomes.push(outcome);
        self.outcomes.resize(self.commits.len(), CommitOutcome::Unavailable(why));
        self.outcomes
    }

    /// The same of a part that is not known to be applied.
    fn stop_unknown(mut self, part: usize, why: String) -> Vec<CommitOutcome> {
        let last = self.outcomes.len() + part - 1;
        self.outcomes.resize(last, CommitOutcome::Unknown(why.clone()));
        self.stop(CommitOutcome::Unknown(why))
    }
}

impl Inner {
    /// Commits `commits`, in order, up to the first that is not applied. The database sees as few transactions as it
    /// takes: one, if it refuses nothing.
    pub(super) async fn commit(&self, commits: &[Commit]) -> Vec<CommitOutcome> {
        let mut group = Group::new(commits);
        while group.outcomes.len() < commits.len() {
            let part = group.part();
            let first = &part[0];
            let time = self.time_for(part);
            match group.known.get(&first.id) {
                Some(true) => {
                    let repeated = group.repeated();
                    match self.look_again(repeated).await {
                        Ok(outcomes) => group.outcomes.extend(outcomes),
                        Err(why) => return group.stop_unknown(repeated.len(), why),
                    }
                    continue;
                }
                Some(false) => return group.stop(CommitOutcome::Refused(denied(first.id))),
                None => {}
            }
            let Failed { failure, member } = match self.commit_once(part, time).await {
                Ok(changed) => {
                    group.outcomes.extend(changed.into_iter().map(CommitOutcome::Committed));
                    continue;
                }
                Err(failed) => failed,
            };
            match failure {
                Failure::Unknown(why) => return group.stop_unknown(part.len(), why),
                Failure::Unavailable(why) | Failure::NotOwned(why) => {
                    return group.stop(CommitOutcome::Unavailable(why));
                }
                Failure::Repeated => match self.known(part, time).await {
                    Ok(known) if known.is_empty() => {
                        return group.stop(CommitOutcome::Refused(below_floor(first.id)));
                    }
                    Ok(known) => group.known.extend(known),
                    // One of them is in the table, as applied or as refused.
                    Err(why) => return group.stop_unknown(part.len(), why),
                },
                _ if part.len() > 1 => {
                    group.part_max = match member {
                        // It is alone then, and what stands before it is one part.
                        Some(at) => at.max(1),
                        None => part.len().div_ceil(2),
                    };
                }
                failure => return group.stop(outcome_of(first, failure)),
            }
        }
        group.outcomes
    }

    /// How long one transaction of these commits may take: a large one is to be sent first.
    fn time_for(&self, part: &[Commit]) -> Duration {
        let patience = part.iter().map(|commit| commit.patience).max().unwrap_or(1);
        // A change of a few bytes may have all of its document sent.
        let bytes = |write: &Write| {
            let changes: usize = write.changes.iter().map(Change::memory_bytes).sum();
            changes.max(write.after.as_ref().map_or(0, Value::size))
        };
        let sending = time_to_send(part.iter().flat_map(|commit| &commit.writes).map(bytes).sum());
        self.timeout * patience.max(1) + TIME_PER_COMMIT * (part.len() as u32 - 1) + sending
    }

    /// One transaction of the database: what the documents of each commit are then, where that is not as computed.
    /// Whatever happens before its message is handed to a connection is `Unavailable`; from then on it is what
    /// [`classify`] says, or `Unknown` if no answer comes in time.
    async fn commit_once(&self, group: &[Commit], time: Duration) -> Result<Vec<Changed>, Failed> {
        let bytes = if self.is_mapped { room::written_by(group) } else { room::read_by(group) };
        let _room = self.room.take(bytes).await;
        let deadline = Instant::now() + time;
        let _on_their_way = self.ids.begin(group.iter().map(|commit| commit.id));
        if let Some(at) = group.iter().position(|commit| self.ids.is_forgotten(commit.id)) {
            return Err(Failed { failure: Failure::Refused(below_floor(group[at].id)), member: Some(at) });
        }
        self.settle_clear().await.map_err(Failure::Unavailable)?;
        let patiently = &self.pool.progress;
        let writer = match patiently.within(deadline, self.timeout, self.pool.writer()).await {
            Ok(writer) => writer.map_err(Failure::Unavailable)?,
            Err(()) => return Err(Failure::Unavailable(self.no_connection()).into()),
        };
        // A database that was found in an earlier state: what these commits were built on may be lost.
        let incarnation = self.identity.incarnation();
        if let Some(at) = group.iter().position(|commit| commit.id.0.incarnation > incarnation) {
            let why = format!("commit {} comes from the future", group[at].id);
            return Err(Failed { failure: Failure::Refused(why), member: Some(at) });
        }
        let session = writer.session().map_err(Failure::Unavailable)?;
        let sent = async {
            match session.rows() {
                Some(rows) => mixed::commit(session, rows, (&self.identity, &self.watch), group).await,
                None => documents::commit(session, &self.identity, group).await,
            }
        };
        let result = match patiently.within(deadline, self.timeout, sent).await {
            Ok(result) => result,
            Err(()) => Err(Failure::Unknown(no_answer_in(time)).into()),
        };
        match &result {
            Ok(_) => {
                if let Some(newest) = group.iter().map(|commit| commit.id).max() {
                    self.identity.acknowledge(newest);
                }
                match self.is_mapped && room::rows_of(group) > room::GROWN_BYTES {
                    true => writer.let_go(),
                    false => writer.give_back(),
                }
            }
            Err(failed) if failed.failure.spares_connection() => writer.give_back(),
            Err(failed) => {
                if let Failure::NotOwned(why) = &failed.failure {
                    self.identity.fence(why.clone());
                }
                drop(writer);
            }
        }
        if self.ids.many().is_some() {
            self.keeper_woken.notify_one();
        }
        result
    }

    /// What the documents of commits are that were applied earlier; why not, if the database does not say. Those of our
    /// own table only we write.
    async fn look_again(&self, commits: &[Commit]) -> Result<Vec<CommitOutcome>, String> {
        if !self.is_mapped {
            return Ok(vec![CommitOutcome::Committed(Vec::new()); commits.len()]);
        }
        let written: Vec<(TxnId, Key)> =
            commits.iter().flat_map(|c| written(c).into_iter().map(|key| (c.id, key))).collect();
        let (reads, untouched) = match self.reads_since(self.time_for(commits), &written).await {
            Ok(looked) => looked,
            // Who sends them again is told then.
            Err(ReadError::Unavailable(Unavailable(why))) => return Err(why),
            // That they were applied is known: where their rows can't be read, nothing is said of them.
            Err(_) => return Ok(vec![CommitOutcome::Repeated(Vec::new()); commits.len()]),
        };
        let since = written.into_iter().zip(reads).enumerate();
        let mut since = since.map(|(at, ((_, key), read))| Since { key, read, untouched: untouched.contains(&at) });
        let outcome = |commit: &Commit| CommitOutcome::Repeated(since.by_ref().take(commit.writes.len()).collect());
        Ok(commits.iter().map(outcome).collect())
    }

    /// Which of the commits are in the table, and whether as applied or as refused.
    async fn known(&self, commits: &[Commit], time: Duration) -> Result<Vec<(TxnId, bool)>, String> {
        let ids: Vec<Vec<u8>> = commits.iter().map(|commit| ids::bytes(commit.id)).collect();
        let ask = |session: Arc<Session>| {
            let ids = &ids;
            async move { Ok(session.client.query(sql::KNOWN, &[ids]).await?) }
        };
        let rows = self.read(time, &[], ask).await.map_err(|error| error.to_string())?;
        rows.iter().map(known_id).collect()
    }

    /// What became of `asked`: a tombstone is put in the place of each, unless it is there already. The insert waits
    /// for a commit of this id that is on its way in another backend, and who comes first wins; that commit can't come
    /// later, since its own insert would fail.
    pub(super) async fn outcomes(&self, asked: &[TxnId]) -> Result<Vec<Resolved>, String> {
        if let Some(id) = asked.iter().find(|id| self.ids.is_forgotten(**id)) {
            return Err(below_floor(*id));
        }
        let deadline = Instant::now() + self.timeout + TIME_PER_COMMIT * asked.len() as u32;
        let known = timeout_at(deadline, self.ask_again(asked)).await.unwrap_or_else(|_| Err(self.no_answer()))?;
        asked.iter().zip(known).map(|(id, known)| known.ok_or_else(|| below_floor(*id))).collect()
    }

    /// Asks what became of `asked`, over another connection if one breaks: a new owner of the database ends the
    /// connections that it finds. There is a limit to that until this forebay knows of a new owner.
    async fn ask_again(&self, asked: &[TxnId]) -> Result<Vec<Option<Resolved>>, String> {
        let mut tries = 0;
        loop {
            tries += 1;
            let known = match self.identity.fenced() {
                None => self.ask_as_owner(asked).await,
                Some(_) => self.ask_as_owner_before(asked).await,
            };
            match known {
                Err(why) if tries >= OUTCOME_TRIES && self.identity.fenced().is_none() => return Err(why),
                Err(_) => sleep(OUTCOME_PAUSE).await,
                known => return known,
            }
        }
    }

    async fn ask_as_owner(&self, asked: &[TxnId]) -> Result<Vec<Option<Resolved>>, String> {
        let _on_their_way = self.ids.begin(asked.iter().copied());
        let writer = self.pool.writer().await?;
        let session = writer.session()?;
        self.pool.end_lost(session).await.map_err(|error| told(&error))?;
        // All who enter many enter them in this order.
        let mut sorted = asked.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let sorted: Vec<Vec<u8>> = sorted.into_iter().map(ids::bytes).collect();
        session.client.execute(sql::TOMBSTONES, &[&sorted]).await.map_err(|error| told(&error))?;
        let rows = session.client.query(sql::KNOWN, &[&sorted]).await.map_err(|error| told(&error))?;
        let known: HashMap<TxnId, bool> = rows.iter().map(known_id).collect::<Result<_, _>>()?;
        // One of them: what was entered just now is the newest, if anything was.
        if let Some((id, _)) = known.iter().min_by_key(|(id, applied)| (**applied, Reverse(**id))) {
            self.identity.acknowledge(*id);
        }
        writer.give_back();
        Ok(asked.iter().map(|id| known.get(id).map(|applied| resolved(*applied))).collect())
    }

    /// Asks over a connection that is for nothing else: what this forebay sent may have arrived before the new owner
    /// came. That owner may have forgotten ids, so the floor counts that is there after the insert.
    async fn ask_as_owner_before(&self, asked: &[TxnId]) -> Result<Vec<Option<Resolved>>, String> {
        let ids: Vec<Vec<u8>> = asked.iter().copied().map(ids::bytes).collect();
        let session = self.pool.connect_unowned().await?;
        let ask = async {
            session.client.execute(sql::TOMBSTONES, &[&ids]).await?;
            let floor = session.client.query_one("SELECT floor FROM forebay.meta", &[]).await?;
            Ok((floor.try_get::<_, Vec<u8>>(0)?, session.client.query(sql::KNOWN, &[&ids]).await?))
        };
        let (floor, rows) = ask.await.map_err(|error: tokio_postgres::Error| told(&error))?;
        let known: HashMap<TxnId, bool> = rows.iter().map(known_id).collect::<Result<_, _>>()?;
        let floor = ids::version(&floor);
        let is_kept = |id: &TxnId| floor.is_some_and(|floor| id.0 > floor);
        let known = |id: &TxnId| known.get(id).filter(|applied| **applied || is_kept(id)).map(|a| resolved(*a));
        Ok(asked.iter().map(known).collect())
    }

    /// The same of one.
    pub(super) async fn outcome(&self, id: TxnId) -> Result<Resolved, String> {
        self.outcomes(&[id]).await.and_then(|resolved| resolved.first().copied().ok_or_else(|| self.no_answer()))
    }
}

fn resolved(applied: bool) -> Resolved {
    if applied { Resolved::Applied } else { Resolved::NotApplied }
}

fn known_id(row: &tokio_postgres::Row) -> Result<(TxnId, bool), String> {
    let id = row.try_get(0).map_err(|error| told(&error))?;
    let id = ids::version(id).ok_or("an id in forebay.applied has another length than 16")?;
    Ok((TxnId(id), row.try_get(1).map_err(|error| told(&error))?))
}
