//! Commits: from a group to one outcome each, and what becomes of those that were not answered.

use forebay::store::{Commit, CommitOutcome, Resolved};
use forebay::{Key, Read, TxnId};
use tokio::time::{Instant, timeout_at};

use super::classify::{self, Failure, told};
use super::{Inner, documents, ids, sql};

impl Inner {
    /// Commits `group`, in order, up to the first commit that is not applied.
    pub(super) async fn commit(&self, group: &[Commit]) -> Vec<CommitOutcome> {
        let deadline = Instant::now() + self.timeout;
        let mut ids: Vec<TxnId> = group.iter().map(|commit| commit.id).collect();
        ids.sort_unstable();
        let distinct = ids.windows(2).all(|pair| pair[0] != pair[1]);
        if self.rows.is_none() && group.len() > 1 && distinct && group.iter().all(|commit| commit.checks.is_empty()) {
            match self.commit_once(group, deadline).await {
                Ok(_) => return vec![CommitOutcome::Committed(Vec::new()); group.len()],
                Err(Failure::Unknown(why)) => return vec![CommitOutcome::Unknown(why); group.len()],
                Err(Failure::Unavailable(why)) => return vec![CommitOutcome::Unavailable(why); group.len()],
                // One of them stands in the way of the others: each for itself shows which.
                Err(_) => {}
            }
        }
        let mut outcomes = Vec::with_capacity(group.len());
        let mut stopped_by = None;
        for commit in group {
            if let Some(id) = stopped_by {
                let why = format!("commit {id}, ahead in the same group, was not applied; run the transaction again");
                outcomes.push(CommitOutcome::Unavailable(why));
                continue;
            }
            let outcome = self.commit_one(commit).await;
            if !matches!(outcome, CommitOutcome::Committed(_)) {
                stopped_by = Some(commit.id);
            }
            outcomes.push(outcome);
        }
        outcomes
    }

    async fn commit_one(&self, commit: &Commit) -> CommitOutcome {
        let deadline = Instant::now() + self.timeout;
        match self.commit_once(std::slice::from_ref(commit), deadline).await {
            Ok(changed) => CommitOutcome::Committed(changed),
            Err(Failure::Repeated) => match self.known(commit.id, deadline).await {
                Ok(Some(true)) => CommitOutcome::Committed(self.read_again(commit, deadline).await),
                Ok(Some(false)) => CommitOutcome::Refused(denied(commit.id)),
                Ok(None) => CommitOutcome::Refused(below_floor(commit.id)),
                // It is in the table, as applied or as refused.
                Err(why) => CommitOutcome::Unknown(why),
            },
            Err(Failure::Overtaken(places)) => {
                let keys = places.into_iter().filter_map(|at| commit.checks.get(at));
                CommitOutcome::Conflict(keys.map(|(key, _)| key.clone()).collect())
            }
            Err(Failure::Conflict(why)) => {
                tracing::debug!(id = %commit.id, %why, "PostgreSQL gave up a transaction for another");
                CommitOutcome::Conflict(written(commit))
            }
            Err(Failure::Refused(why)) => CommitOutcome::Refused(why),
            Err(Failure::Unavailable(why)) => CommitOutcome::Unavailable(why),
            Err(Failure::Unknown(why)) => CommitOutcome::Unknown(why),
        }
    }

    /// One transaction of the database. Whatever happens before its message is handed to a connection is
    /// `Unavailable`; from then on it is what [`classify`] says, or `Unknown` if no answer comes in time.
    async fn commit_once(&self, group: &[Commit], deadline: Instant) -> Result<Vec<(Key, Read)>, Failure> {
        let _on_their_way = self.ids.begin(group.iter().map(|commit| commit.id));
        if let Some(commit) = group.iter().find(|commit| self.ids.is_forgotten(commit.id)) {
            return Err(Failure::Refused(below_floor(commit.id)));
        }
        self.settle_clear().await.map_err(Failure::Unavailable)?;
        let writer = match timeout_at(deadline, self.pool.writer()).await {
            Ok(writer) => writer.map_err(Failure::Unavailable)?,
            Err(_) => return Err(Failure::Unavailable(self.no_connection())),
        };
        // A database that was found in an earlier state: what these commits were built on may be lost.
        let incarnation = self.identity.incarnation();
        if let Some(commit) = group.iter().find(|commit| commit.id.0.incarnation > incarnation) {
            return Err(Failure::Refused(format!("commit {} comes from the future", commit.id)));
        }
        let checks = match group {
            [only] => only.checks.as_slice(),
            _ => &[],
        };
        let session = writer.session().map_err(Failure::Unavailable)?;
        let sent = async {
            match (&self.rows, group) {
                (Some(rows), [only]) => rows.commit(session, &self.identity, &self.watch, only).await,
                _ => documents::commit(session, &self.identity, group, checks).await.map(|()| Vec::new()),
            }
        };
        let result = match timeout_at(deadline, sent).await {
            Ok(result) => result,
            Err(_) => Err(Failure::Unknown(self.no_answer())),
        };
        match &result {
            Ok(_) => {
                if let Some(newest) = group.iter().map(|commit| commit.id).max() {
                    self.identity.acknowledge(newest);
                }
                writer.give_back();
            }
            Err(failure) if failure.spares_connection() => writer.give_back(),
            Err(_) => drop(writer),
        }
        if self.ids.many().is_some() {
            self.wake_keeper();
        }
        result
    }

    /// What the rows of a commit that was applied earlier are now; nothing where they can't be read.
    async fn read_again(&self, commit: &Commit, deadline: Instant) -> Vec<(Key, Read)> {
        let Some(rows) = &self.rows else { return Vec::new() };
        let keys = written(commit);
        let asked = async {
            let session = self.pool.reader().await.ok()?;
            rows.get(&session, &self.identity, &keys).await.ok()
        };
        let reads = timeout_at(deadline, asked).await.ok().flatten().unwrap_or_default();
        keys.iter().cloned().zip(reads).collect()
    }

    /// Whether `id` is in the table, and for what it stands.
    async fn known(&self, id: TxnId, deadline: Instant) -> Result<Option<bool>, String> {
        let asked = async {
            let session = self.pool.reader().await?;
            let row = session.client.query_opt(sql::KNOWN, &[&ids::bytes(id)]).await;
            row.and_then(|row| row.map(|row| row.try_get(0)).transpose()).map_err(|error| told(&error))
        };
        timeout_at(deadline, asked).await.unwrap_or_else(|_| Err(self.no_answer()))
    }

    /// What became of `id`: a tombstone is put in its place, unless it is there already. The insert waits for a commit
    /// of this id that is on its way in another backend, and who comes first wins; that commit can't come later, since
    /// its own insert would fail.
    pub(super) async fn outcome(&self, id: TxnId) -> Result<Resolved, String> {
        if self.ids.is_forgotten(id) {
            return Err(below_floor(id));
        }
        let deadline = Instant::now() + self.timeout;
        let asked = async {
            let _on_its_way = self.ids.begin([id]);
            let writer = self.pool.writer().await?;
            let session = writer.session()?;
            self.pool.end_lost(session).await.map_err(|error| told(&error))?;
            match session.client.execute(sql::TOMBSTONE, &[&ids::bytes(id)]).await {
                Ok(_) => {
                    writer.give_back();
                    Ok(Resolved::NotApplied)
                }
                Err(error) if classify::of_commit(&error) == Failure::Repeated => {
                    let row = session.client.query_opt(sql::KNOWN, &[&ids::bytes(id)]).await;
                    let known =
                        row.and_then(|row| row.map(|row| row.try_get(0)).transpose()).map_err(|error| told(&error))?;
                    writer.give_back();
                    match known {
                        Some(true) => {
                            self.identity.acknowledge(id);
                            Ok(Resolved::Applied)
                        }
                        Some(false) => Ok(Resolved::NotApplied),
                        None => Err(below_floor(id)),
                    }
                }
                Err(error) => Err(told(&error)),
            }
        };
        timeout_at(deadline, asked).await.unwrap_or_else(|_| Err(self.no_answer()))
    }
}

fn written(commit: &Commit) -> Vec<Key> {
    commit.writes.iter().map(|write| write.key.clone()).collect()
}

fn denied(id: TxnId) -> String {
    format!("commit {id} was reported as not applied; run the transaction again under a new id")
}

fn below_floor(id: TxnId) -> String {
    let remembered = ids::APPLIED_IDS_MAX;
    format!("commit {id} is older than the last {remembered}, so whether it was applied is no longer known")
}
