//! Documents beside rows ([`super::keys`]): what is asked of either goes where it lies, and a commit of both is one
//! transaction.
//!
//! A group of commits that has both goes in this order. First the ids, then locks on the documents and their checks,
//! then the documents, and last all that happens to rows. So locks on documents are taken before those on rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay::store::portion::Portion;
use forebay::store::{Commit, ReadError, ReadWithIds};
use forebay::{Key, Read, TxnId, Version};
use futures_util::future::{join, join3};
use tokio_postgres::Error;

use super::classify;
use super::database::Inner;
use super::documents::{self, Checks, Target, roll_back, unsent};
use super::get_error::GetError;
use super::locked::DOCUMENTS;
use super::rows::beside::Beside;
use super::rows::mapped::Rows;
use super::session::Session;
use super::watch::Watch;
use super::{sql, with_ids};
use crate::sql::failure::Failure;
use crate::sql::failure::{Changed, Failed};
use crate::sql::identity::Identity;
use crate::sql::ids;

/// Which of some keys are documents: the places of those, and of the others.
type Places = (Vec<usize>, Vec<usize>);

impl Inner {
    fn places<'a>(&self, keys: impl Iterator<Item = &'a Key>) -> Places {
        keys.enumerate().map(|(at, key)| (at, self.is_document(key))).fold(Places::default(), |mut places, of| {
            let (at, is_document) = of;
            if is_document { &mut places.0 } else { &mut places.1 }.push(at);
            places
        })
    }

    /// Reads `keys` as far as they are within `bytes_max`.
    pub(super) async fn reads(&self, keys: &[Key], bytes_max: usize) -> Result<Vec<Read>, ReadError> {
        if self.named().is_none() && self.is_mapped {
            return self.rows_of(keys, bytes_max).await;
        }
        let (documents, rows) = self.places(keys.iter());
        if rows.is_empty() {
            return self.documents(keys, bytes_max).await;
        }
        if documents.is_empty() {
            return self.rows_of(keys, bytes_max).await;
        }
        let (of_documents, of_rows) = (picked(keys, &documents), picked(keys, &rows));
        let found = join(self.documents(&of_documents, bytes_max), self.rows_of(&of_rows, bytes_max)).await;
        let (mut of_documents, mut of_rows) = (found.0?.into_iter(), found.1?.into_iter());
        let (mut reads, mut portion) = (Vec::with_capacity(keys.len()), Portion::new(bytes_max));
        for at in 0..keys.len() {
            let next = if documents.binary_search(&at).is_ok() { of_documents.next() } else { of_rows.next() };
            // Each has as many as are within all of the bytes, so one that is missing is behind the end.
            let Some(read) = next.filter(|_| portion.goes_on()) else { break };
            portion.count(&read);
            reads.push(read);
        }
        Ok(reads)
    }

    /// Reads documents and rows that commits wait for, each with those of their ids that are applied.
    pub(super) async fn reads_with_ids(&self, asked: &[(Key, Vec<TxnId>)]) -> Result<Vec<ReadWithIds>, ReadError> {
        let (documents, rows) = self.places(asked.iter().map(|(key, _)| key));
        let (of_documents, of_rows) = (&picked(asked, &documents), &picked(asked, &rows));
        let identity = &*self.identity;
        let ask_documents =
            |session: Arc<Session>| async move { with_ids::documents(&session, identity, of_documents).await };
        let ask_rows = |session: Arc<Session>| async move {
            match session.rows() {
                Some(rows) => with_ids::rows(&session, identity, rows, of_rows).await,
                None => Ok(Vec::new()),
            }
        };
        let tables = self.tables_of(of_rows.iter().map(|(key, _)| key));
        let found = join(
            asked_if(!documents.is_empty(), self.read(self.timeout, &[DOCUMENTS], ask_documents)),
            asked_if(!rows.is_empty(), self.read(self.timeout, &tables, ask_rows)),
        );
        let (of_documents, of_rows) = found.await;
        let mut found: Vec<(usize, ReadWithIds)> = documents.into_iter().zip(of_documents?).collect();
        found.extend(rows.into_iter().zip(of_rows?));
        found.sort_unstable_by_key(|(at, _)| *at);
        Ok(found.into_iter().map(|(_, read)| read).collect())
    }

    /// Which of `checks` are overtaken.
    pub(super) async fn overtaken(&self, checks: &[(Key, Version)]) -> Result<Vec<Key>, ReadError> {
        let (documents, rows) = self.places(checks.iter().map(|(key, _)| key));
        let (of_documents, of_rows) = (&picked(checks, &documents), &picked(checks, &rows));
        let identity = &*self.identity;
        let ask_documents =
            |session: Arc<Session>| async move { check_documents(&session, identity, of_documents).await };
        let ask_rows = |session: Arc<Session>| async move {
            match session.rows() {
                Some(rows) => rows.check(&session, of_rows).await,
                None => Ok(Vec::new()),
            }
        };
        let tables = self.tables_of(of_rows.iter().map(|(key, _)| key));
        let mut overtaken =
            asked_if(!documents.is_empty(), self.read(self.timeout, &[DOCUMENTS], ask_documents)).await?;
        overtaken.extend(asked_if(!rows.is_empty(), self.read(self.timeout, &tables, ask_rows)).await?);
        Ok(overtaken)
    }

    /// What the documents and rows of `written` are, each of a commit that was applied earlier, and the places of those
    /// that were not written since.
    pub(super) async fn reads_since(
        &self,
        time: std::time::Duration,
        written: &[(TxnId, Key)],
    ) -> Result<(Vec<Read>, BTreeSet<usize>), ReadError> {
        let (documents, rows) = self.places(written.iter().map(|(_, key)| key));
        let (of_documents, of_rows) = (&picked(written, &documents), &picked(written, &rows));
        let keys: Vec<Key> = of_rows.iter().map(|(_, key)| key.clone()).collect();
        let ask_rows = |session: Arc<Session>| {
            let keys = &keys;
            async move {
                let Some(rows) = session.rows() else { return Ok((Vec::new(), BTreeSet::new())) };
                let reads = rows.get_whole(&session, &self.identity, keys).await?;
                // In this order: what was read is older than the answer that it was not written.
                Ok((reads, rows.untouched(&session, of_rows).await?))
            }
        };
        let tables = self.tables_of(keys.iter());
        let (row_reads, row_untouched) = asked_if(!rows.is_empty(), self.read(time, &tables, ask_rows)).await?;
        let document_keys: Vec<Key> = of_documents.iter().map(|(_, key)| key.clone()).collect();
        let document_reads = match documents.is_empty() {
            true => Vec::new(),
            false => self.documents(&document_keys, usize::MAX).await?,
        };
        let ask_documents = |session: Arc<Session>| async move { untouched(&session, of_documents).await };
        let document_untouched: BTreeSet<usize> =
            asked_if(!documents.is_empty(), self.read(time, &[DOCUMENTS], ask_documents)).await?;
        let mut reads: Vec<(usize, Read)> = documents.iter().copied().zip(document_reads).collect();
        reads.extend(rows.iter().copied().zip(row_reads));
        reads.sort_unstable_by_key(|(at, _)| *at);
        let untouched = document_untouched.into_iter().filter_map(|at| documents.get(at));
        let untouched = untouched.chain(row_untouched.into_iter().filter_map(|at| rows.get(at))).copied().collect();
        Ok((reads.into_iter().map(|(_, read)| read).collect(), untouched))
    }
}

fn picked<T: Clone>(all: &[T], places: &[usize]) -> Vec<T> {
    places.iter().filter_map(|at| all.get(*at)).cloned().collect()
}

/// What `question` is answered with, or nothing where there is nothing to ask.
async fn asked_if<T: Default>(
    asks: bool,
    question: impl Future<Output = Result<T, ReadError>>,
) -> Result<T, ReadError> {
    if asks { question.await } else { Ok(T::default()) }
}

/// The places of those of `written` whose documents were last written by the transaction that entered their ids.
async fn untouched(session: &Session, written: &[(TxnId, Key)]) -> Result<BTreeSet<usize>, GetError> {
    let spaces: Vec<i16> = written.iter().map(|(_, key)| i16::from(key.space())).collect();
    let names: Vec<&[u8]> = written.iter().map(|(_, key)| key.name()).collect();
    let ids: Vec<Vec<u8>> = written.iter().map(|(id, _)| ids::bytes(*id)).collect();
    let rows = session.client.query(sql::UNTOUCHED, &[&spaces, &names, &ids]).await?;
    let places: Result<Vec<i64>, Error> = rows.iter().map(|row| row.try_get(0)).collect();
    Ok(places?.into_iter().filter_map(|place| usize::try_from(place - 1).ok()).collect())
}

/// Which of `checks` are overtaken.
async fn check_documents(
    session: &Session,
    identity: &Identity,
    checks: &[(Key, Version)],
) -> Result<Vec<Key>, GetError> {
    let absences: Vec<bool> = checks.iter().map(|(key, version)| identity.is_absence(key, *version)).collect();
    let spaces: Vec<i16> = checks.iter().map(|(key, _)| i16::from(key.space())).collect();
    let names: Vec<&[u8]> = checks.iter().map(|(key, _)| key.name()).collect();
    let rows = session.client.query(sql::VERSIONS, &[&spaces, &names]).await?;
    let mut overtaken = Vec::new();
    for (((key, version), absence), row) in checks.iter().zip(absences).zip(rows) {
        let same = match row.try_get::<_, Option<&[u8]>>(0)? {
            Some(stored) => ids::version(stored) == Some(*version),
            None => absence,
        };
        if !same {
            overtaken.push(key.clone());
        }
    }
    Ok(overtaken)
}

/// A group in two: what it does to documents, and what to rows. Each half has all of its commits, and for each of them
/// the places of the half's checks among all of the commit's.
struct Halves {
    documents: Vec<Commit>,
    rows: Vec<Commit>,
    places: [Vec<Vec<usize>>; 2],
}

impl Halves {
    fn of(rows: &Rows, group: &[Commit]) -> Halves {
        let half = |documents: bool| -> (Vec<Commit>, Vec<Vec<usize>>) {
            let of_commit = |commit: &Commit| {
                let is_of = |key: &Key| rows.is_document(key) == documents;
                let checks = commit.checks.iter().enumerate().filter(|(_, (key, _))| is_of(key));
                let (places, checks) = checks.map(|(at, check)| (at, check.clone())).unzip();
                let writes = commit.writes.iter().filter(|write| is_of(&write.key)).cloned().collect();
                let given = if documents { commit.given.clone() } else { Vec::new() };
                let half = Commit { checks, given, ..Commit::new(commit.id, commit.version, writes) };
                (half, places)
            };
            group.iter().map(of_commit).unzip()
        };
        let ((documents, of_documents), (rows, of_rows)) = (half(true), half(false));
        Halves { documents, rows, places: [of_documents, of_rows] }
    }

    /// `failed`, which is of one half, as it is of the group.
    fn whole(&self, failed: Failed, is_of_rows: bool) -> Failed {
        let (Failure::Overtaken(overtaken), Some(member)) = (&failed.failure, failed.member) else { return failed };
        let places = self.places[usize::from(is_of_rows)].get(member);
        let overtaken = overtaken.iter().filter_map(|at| places?.get(*at).copied()).collect();
        Failed { failure: Failure::Overtaken(overtaken), ..failed }
    }
}

/// Commits `group`, which may have documents, rows, or both, as one transaction.
pub(super) async fn commit(
    session: &Session,
    rows: &Rows,
    (identity, watch): (&Identity, &Watch),
    group: &[Commit],
) -> Result<Vec<Changed>, Failed> {
    let keys = || group.iter().flat_map(|commit| commit.writes.iter().map(|write| &write.key).chain(checked(commit)));
    let (any_document, any_row) = (keys().any(|key| rows.is_document(key)), keys().any(|key| !rows.is_document(key)));
    match (any_document, any_row) {
        (false, _) => rows.commit(session, identity, watch, group).await,
        (true, false) => documents::commit(session, identity, group).await,
        (true, true) => {
            let halves = Halves::of(rows, group);
            match commit_both(session, rows, (identity, watch), &halves).await {
                Ok(changed) => Ok(changed),
                Err(failed) => Err(roll_back(session, failed).await),
            }
        }
    }
}

fn checked(commit: &Commit) -> impl Iterator<Item = &Key> {
    commit.checks.iter().map(|(key, _)| key)
}

async fn commit_both(
    session: &Session,
    rows: &Rows,
    seen: (&Identity, &Watch),
    halves: &Halves,
) -> Result<Vec<Changed>, Failed> {
    let (identity, group) = (seen.0, &halves.documents[..]);
    let of_rows = |failed: Failed| halves.whole(failed, true);
    let of_documents = |failed: Failed| halves.whole(failed, false);
    let beside = rows.of_group(&halves.rows).map_err(of_rows)?;
    let ids: Vec<Vec<u8>> = group.iter().map(|commit| ids::bytes(commit.id)).collect();
    let (mut targets, checks) = (Target::all(group), Checks::of(identity, group));
    documents::begin(session, group, &ids, &mut targets, &checks).await.map_err(of_documents)?;
    let mut changed: Vec<Changed> = vec![Vec::new(); group.len()];
    if beside.is_large() || documents::are_large(&targets) {
        put_large(session, &targets, (identity, group), &beside, (seen, &mut changed)).await.map_err(of_rows)?;
        let committed = session.client.batch_execute("COMMIT").await;
        committed.map_err(|error| of_rows(beside.failed(&error)))?;
    } else {
        let (text, nothing) = (beside.text().map_err(of_rows)?, Checks::default());
        // Sent together: behind an error COMMIT undoes all.
        let (put, answer, committed) = join3(
            documents::put(session, identity, group, &[], &targets, &nothing),
            session.client.simple_query(&text),
            session.client.batch_execute("COMMIT"),
        )
        .await;
        put.map_err(|error| Failed::from(classify::of_commit(&error)))?;
        let answer = answer.map_err(|error| of_rows(beside.failed(&error)))?;
        committed.map_err(|error| of_rows(beside.failed(&error)))?;
        beside.take(&answer, seen, &mut changed);
    }
    beside.end(&mut changed);
    documents::tell(identity, group, targets, true, &mut changed);
    Ok(changed)
}

/// Writes all of a group, one large document or row after the other, in an open transaction.
async fn put_large(
    session: &Session,
    targets: &[Target<'_>],
    (identity, group): (&Identity, &[Commit]),
    beside: &Beside<'_>,
    (seen, changed): ((&Identity, &Watch), &mut [Changed]),
) -> Result<(), Failed> {
    let put = documents::put_large(session, identity, group, targets).await;
    put.map_err(|error| Failed::from(unsent(classify::of_commit(&error))))?;
    for statement in beside.statements()? {
        let answer = session.client.simple_query(&statement?).await;
        let answer = answer.map_err(|error| beside.at_check(unsent(beside.failure(&error))))?;
        beside.take(&answer, seen, changed);
    }
    Ok(())
}
