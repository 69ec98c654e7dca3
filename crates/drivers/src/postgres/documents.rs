//! The generic table: one row per document, its value in forebay's own encoding. What replaces a document is written as
//! it is. Any other change is made to what the row holds by then, under its lock: a change may have been kept for a
//! while, over a document that nobody knew whole, or that somebody has written since.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use forebay::change::{Change, apply};
use forebay::store::portion::Portion;
use forebay::store::{Commit, ReadError, Write};
use forebay::value::codec::encode_value;
use forebay::{Key, Read, Value, Version};
use futures_util::TryStreamExt;
use futures_util::future::{join, join5};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::classify::{self, told};
use super::database::Inner;
use super::get_error::GetError;
use super::given;
use super::large;
use super::locked::DOCUMENTS;
use super::room;
use super::session::Session;
use super::sql::{LARGE_BYTES, Prepared};
use crate::sql::document::{decode, is_blind};
use crate::sql::failure::Failure;
use crate::sql::failure::{Changed, Failed};
use crate::sql::identity::Identity;
use crate::sql::ids;

impl Inner {
    /// Reads `keys` as far as they are within `bytes_max`: in one round trip, but for those that are large. These wait
    /// for room, which is no time without an answer, and are read one after the other.
    pub(super) async fn documents(&self, keys: &[Key], bytes_max: usize) -> Result<Vec<Read>, ReadError> {
        // Before the question: a document that is deleted behind it has a later one.
        let absences: Vec<Version> = keys.iter().map(|key| self.identity.absence(key)).collect();
        let asked = (keys, &*absences, bytes_max);
        let ask = |session: Arc<Session>| async move { get(&session, asked).await };
        let found = self.read(self.timeout, &[DOCUMENTS], ask).await?;
        let (mut reads, mut portion) = (Vec::with_capacity(found.len()), Portion::new(bytes_max));
        for ((key, absence), found) in keys.iter().zip(&absences).zip(found) {
            if !portion.goes_on() {
                break;
            }
            let read = match found {
                Found::Read(read) => read,
                Found::Large(bytes) => {
                    let _room = self.room.take(bytes.saturating_mul(room::READ_COPIES)).await;
                    let ask = |session: Arc<Session>| async move { large::get(&session, key, *absence, &[]).await };
                    self.read(self.timeout, &[DOCUMENTS], ask).await?.0
                }
            };
            portion.count(&read);
            reads.push(read);
        }
        Ok(reads)
    }
}

/// What the table says of a document.
enum Found {
    Read(Read),
    /// It has so many bytes, and is to be read by itself.
    Large(usize),
}

/// Reads keys in one round trip, of as many as are within a number of bytes.
async fn get(session: &Session, asked: (&[Key], &[Version], usize)) -> Result<Vec<Found>, GetError> {
    let (keys, absences, bytes_max) = asked;
    if let [key] = keys {
        let parameters = [&i16::from(key.space()) as &(dyn ToSql + Sync), &key.name()];
        let row = session.client.query_opt(session.statement(Prepared::GetOne), &parameters).await?;
        let absent = || Ok(Found::Read(Read { value: None, version: absences[0] }));
        return Ok(vec![row.map_or_else(absent, |row| found(key, absences[0], &row))?]);
    }
    let spaces: Vec<i16> = keys.iter().map(|key| i16::from(key.space())).collect();
    let names: Vec<&[u8]> = keys.iter().map(Key::name).collect();
    let within = i64::try_from(bytes_max).unwrap_or(i64::MAX);
    let rows = session.client.query(session.statement(Prepared::Get), &[&spaces, &names, &within]).await?;
    keys.iter().zip(absences).zip(rows).map(|((key, absence), row)| found(key, *absence, &row)).collect()
}

/// What `row` says of `key`: its version, none if it is absent, its value, none if it is large, and the bytes of that.
fn found(key: &Key, absence: Version, row: &Row) -> Result<Found, GetError> {
    let Some(version) = row.try_get::<_, Option<&[u8]>>(0)? else {
        return Ok(Found::Read(Read { value: None, version: absence }));
    };
    match row.try_get::<_, Option<&[u8]>>(1)? {
        Some(value) => Ok(Found::Read(decode(key, version, value)?)),
        None => Ok(Found::Large(usize::try_from(row.try_get::<_, i32>(2)?).unwrap_or_default())),
    }
}

/// One document of a group: what becomes of it, change by change.
pub(super) struct Target<'a> {
    key: &'a Key,
    /// The commit that writes it last, and its write there.
    last: usize,
    write: &'a Write,
    /// All changes in order, with the commit that each is of.
    changes: Vec<(usize, &'a Change)>,
    /// What it is in the end.
    becomes: Option<Value>,
}

impl<'a> Target<'a> {
    /// The documents that `group` writes. All writers take row locks in this order.
    pub(super) fn all(group: &'a [Commit]) -> Vec<Target<'a>> {
        let mut index: HashMap<&Key, usize> = HashMap::new();
        let mut targets: Vec<Target<'a>> = Vec::new();
        for (member, commit) in group.iter().enumerate() {
            for write in &commit.writes {
                let mut add = || {
                    let changes = Vec::with_capacity(write.changes.len());
                    targets.push(Target { key: &write.key, last: member, write, changes, becomes: None });
                    targets.len() - 1
                };
                // One commit has each key once.
                let at = if group.len() == 1 { add() } else { *index.entry(&write.key).or_insert_with(add) };
                (targets[at].last, targets[at].write) = (member, write);
                targets[at].changes.extend(write.changes.iter().map(|change| (member, change)));
            }
        }
        targets.sort_unstable_by_key(|target| target.key);
        targets
    }

    /// Whether it does not matter what was there.
    fn is_blind(&self) -> bool {
        self.changes.first().is_some_and(|(_, change)| is_blind(std::slice::from_ref(*change)))
    }

    /// Makes the changes to what was there. A change that does not fit is told with its commit. What comes to the same
    /// as was computed is that: of a large document there are not two.
    fn apply(&mut self, before: Option<Value>) -> Result<(), Failed> {
        self.becomes = before;
        self.share();
        for at in 0..self.changes.len() {
            let (member, change) = self.changes[at];
            apply(&mut self.becomes, change).map_err(|error| Failed {
                failure: Failure::Refused(format!("{}: {error}", self.key)),
                member: Some(member),
            })?;
            self.share();
        }
        if self.becomes == self.write.after {
            self.becomes.clone_from(&self.write.after);
        }
        Ok(())
    }
}

impl Target<'_> {
    /// Holds what it is by now in the memory of what was computed, as far as it is the same.
    fn share(&mut self) {
        if let (Some(becomes), Some(computed)) = (&mut self.becomes, &self.write.after)
            && computed.size() > LARGE_BYTES
        {
            becomes.share(computed);
        }
    }
}

/// Documents as the arrays of one statement.
#[derive(Default)]
struct Arrays<'a> {
    removed: (Vec<i16>, Vec<&'a [u8]>),
    spaces: Vec<i16>,
    names: Vec<&'a [u8]>,
    versions: Vec<Vec<u8>>,
    expiries: Vec<Option<i64>>,
    values: Vec<Vec<u8>>,
}

impl<'a> Arrays<'a> {
    fn of(group: &[Commit], targets: &'a [Target<'_>]) -> Arrays<'a> {
        let mut arrays = Arrays::default();
        for target in targets {
            let Some(value) = &target.becomes else {
                arrays.removed.0.push(i16::from(target.key.space()));
                arrays.removed.1.push(target.key.name());
                continue;
            };
            let mut encoded = Vec::new();
            encode_value(value, &mut encoded);
            arrays.spaces.push(i16::from(target.key.space()));
            arrays.names.push(target.key.name());
            arrays.versions.push(group[target.last].version.to_bytes().to_vec());
            arrays.expiries.push(value.expires_at_ms.map(|at_ms| i64::try_from(at_ms).unwrap_or(i64::MAX)));
            arrays.values.push(encoded);
        }
        arrays
    }
}

/// What must still be as it was read, as arrays.
#[derive(Default)]
pub(super) struct Checks<'a> {
    spaces: Vec<i16>,
    names: Vec<&'a [u8]>,
    versions: Vec<Option<Vec<u8>>>,
    /// The commit that each is of, and its place among that one's.
    places: Vec<(usize, usize)>,
}

impl<'a> Checks<'a> {
    pub(super) fn of(identity: &Identity, group: &'a [Commit]) -> Checks<'a> {
        let mut checks = Checks::default();
        for (member, commit) in group.iter().enumerate() {
            for (place, (key, version)) in commit.checks.iter().enumerate() {
                checks.spaces.push(i16::from(key.space()));
                checks.names.push(key.name());
                // An absent row has no version: what is expected of it is none.
                let absent = identity.is_absence(key, *version);
                checks.versions.push((!absent).then(|| version.to_bytes().to_vec()));
                checks.places.push((member, place));
            }
        }
        checks
    }

    /// What the server's error says, the commit included that it is about.
    fn failed(&self, error: &Error) -> Failed {
        Failed::at_check(classify::of_commit(error), &self.places)
    }
}

/// Commits `group` as one transaction: in one message, if all that it writes replaces what was there. Else the
/// documents are locked and read first, and the changes made to what they are by then: so an increment is one, and what
/// a hash or a list got from elsewhere stays.
pub(super) async fn commit(session: &Session, identity: &Identity, group: &[Commit]) -> Result<Vec<Changed>, Failed> {
    let ids: Vec<Vec<u8>> = group.iter().map(|commit| ids::bytes(commit.id)).collect();
    let mut targets = Target::all(group);
    let checks = Checks::of(identity, group);
    let blind = targets.iter().all(Target::is_blind) && !given::any(group);
    if blind {
        targets.iter_mut().try_for_each(|target| target.apply(None))?;
    }
    if blind && !are_large(&targets) {
        put(session, identity, group, &ids, &targets, &checks).await.map_err(|error| checks.failed(&error))?;
    } else {
        let done = read_and_put(session, identity, group, &ids, &mut targets, &checks).await;
        if let Err(failed) = done {
            return Err(roll_back(session, failed).await);
        }
    }
    let mut changed: Vec<Changed> = vec![Vec::new(); group.len()];
    tell(identity, group, targets, session.rows().is_some(), &mut changed);
    Ok(changed)
}

/// Says what became of the documents that were written: of those that are not as computed, or, beside rows, of `all`,
/// and to each commit that wrote them.
pub(super) fn tell(
    identity: &Identity,
    group: &[Commit],
    targets: Vec<Target<'_>>,
    all: bool,
    changed: &mut [Changed],
) {
    for target in targets.into_iter().filter(|target| all || target.becomes != target.write.after) {
        let version = match &target.becomes {
            Some(_) => group[target.last].version,
            None => identity.absence(target.key),
        };
        let read = Read { value: target.becomes, version };
        let mut members: Vec<usize> = target.changes.iter().map(|(member, _)| *member).collect();
        members.dedup();
        for member in members.into_iter().filter(|member| all && *member != target.last) {
            changed[member].push((target.key.clone(), read.clone()));
        }
        changed[target.last].push((target.key.clone(), read));
    }
}

/// Ends a transaction that has `failed`: nothing of it may stay open. What was sent behind an error was not executed.
pub(super) async fn roll_back(session: &Session, failed: Failed) -> Failed {
    if failed.failure.spares_connection()
        && let Err(error) = session.client.batch_execute("ROLLBACK").await
    {
        tracing::debug!(error = told(&error), "a transaction was not rolled back");
        session.give_up();
    }
    failed
}

/// Whether what is written is sent in pieces.
pub(super) fn are_large(targets: &[Target<'_>]) -> bool {
    targets.iter().filter_map(|target| target.becomes.as_ref()).map(Value::size).sum::<usize>() > LARGE_BYTES
}

/// Writes `targets` in an open transaction: a piece at a time.
pub(super) async fn put_large(
    session: &Session,
    identity: &Identity,
    group: &[Commit],
    targets: &[Target<'_>],
) -> Result<(), Error> {
    note_deleted(identity, group, targets);
    let spaces: Vec<i16> = targets.iter().map(|target| i16::from(target.key.space())).collect();
    let names: Vec<&[u8]> = targets.iter().map(|target| target.key.name()).collect();
    let rows = targets.iter().filter_map(|target| {
        let version = group[target.last].version;
        target.becomes.as_ref().map(|value| large::Row { key: target.key, version, value })
    });
    large::put(session, (&spaces, &names), rows).await
}

fn note_deleted(identity: &Identity, group: &[Commit], targets: &[Target<'_>]) {
    for target in targets.iter().filter(|target| target.becomes.is_none()) {
        identity.deleting(target.key, group[target.last].version);
    }
}

pub(super) async fn put(
    session: &Session,
    identity: &Identity,
    group: &[Commit],
    ids: &[Vec<u8>],
    targets: &[Target<'_>],
    checks: &Checks<'_>,
) -> Result<(), Error> {
    note_deleted(identity, group, targets);
    let Arrays { removed, spaces, names, versions, expiries, values } = Arrays::of(group, targets);
    let mut parameters: Vec<&(dyn ToSql + Sync)> =
        vec![&ids, &removed.0, &removed.1, &spaces, &names, &versions, &expiries, &values];
    let statement = match checks.places.is_empty() {
        true => Prepared::Commit,
        false => {
            parameters.extend([&checks.spaces as &(dyn ToSql + Sync), &checks.names, &checks.versions]);
            Prepared::CommitChecked
        }
    };
    session.client.execute(session.statement(statement), &parameters).await.map(|_| ())
}

/// In two messages: what is to be changed is locked and read, then written; in more where documents are large.
async fn read_and_put(
    session: &Session,
    identity: &Identity,
    group: &[Commit],
    ids: &[Vec<u8>],
    targets: &mut [Target<'_>],
    checks: &Checks<'_>,
) -> Result<(), Failed> {
    begin(session, group, ids, targets, checks).await?;
    let client = &session.client;
    if are_large(targets) {
        let put = put_large(session, identity, group, targets).await;
        put.map_err(|error| Failed::from(unsent(classify::of_commit(&error))))?;
        return client.batch_execute("COMMIT").await.map_err(|error| Failed::from(classify::of_commit(&error)));
    }
    let nothing = Checks::default();
    let (put, committed) =
        join(put(session, identity, group, &[], targets, &nothing), client.batch_execute("COMMIT")).await;
    put.map_err(|error| Failed::from(classify::of_commit(&error)))?;
    committed.map_err(|error| Failed::from(classify::of_commit(&error)))
}

/// Begins a transaction: enters the ids, locks what is to be changed, and makes the changes to what was there. Nothing
/// is written yet.
pub(super) async fn begin(
    session: &Session,
    group: &[Commit],
    ids: &[Vec<u8>],
    targets: &mut [Target<'_>],
    checks: &Checks<'_>,
) -> Result<(), Failed> {
    let client = &session.client;
    let enter: [&(dyn ToSql + Sync); 1] = [&ids];
    let require: [&(dyn ToSql + Sync); 3] = [&checks.spaces, &checks.names, &checks.versions];
    let required = async {
        match checks.places.is_empty() {
            true => Ok(0),
            false => client.execute(session.statement(Prepared::Require), &require).await,
        }
    };
    // Sent together; behind an error nothing is executed.
    let (begun, entered, noted, read, required) = join5(
        client.batch_execute("BEGIN"),
        client.execute(session.statement(Prepared::Enter), &enter),
        given::note(session, group),
        lock_and_apply(session, targets),
        required,
    )
    .await;
    begun.and(entered.map(|_| ())).and(noted).map_err(|error| Failed::from(unsent(classify::of_commit(&error))))?;
    let applied = read?;
    required.map_err(|error| checks.failed(&error))?;
    for at in applied? {
        let target = &mut targets[at];
        let before = large::get(session, target.key, Version::ZERO, &[]).await.map_err(|error| match error {
            GetError::Database(error) | GetError::Locked(_, error) => Failed::from(unsent(classify::of_commit(&error))),
            GetError::Read(error) => Failed::from(Failure::Refused(error.to_string())),
        })?;
        target.apply(before.0.value)?;
    }
    Ok(())
}

/// Locks those of `targets` that are changed, and makes the changes, one after the other: whether they fit, and the
/// places of those that are still to be read, for they are large.
async fn lock_and_apply(session: &Session, targets: &mut [Target<'_>]) -> Result<Result<Vec<usize>, Failed>, Failed> {
    let wanted: Vec<usize> = (0..targets.len()).filter(|at| !targets[*at].is_blind()).collect();
    let spaces: Vec<i16> = wanted.iter().map(|at| i16::from(targets[*at].key.space())).collect();
    let names: Vec<&[u8]> = wanted.iter().map(|at| targets[*at].key.name()).collect();
    let lock: [&(dyn ToSql + Sync); 2] = [&spaces, &names];
    let failed = |error: Error| Failed::from(unsent(classify::of_commit(&error)));
    let rows = session.client.query_raw(session.statement(Prepared::Lock), lock).await.map_err(failed)?;
    let mut rows = pin!(rows);
    let (mut large, mut absent) = (Vec::new(), vec![true; wanted.len()]);
    // All rows are taken: what was asked behind them is answered behind them.
    let mut applied = Ok(());
    while let Some(row) = rows.try_next().await.map_err(failed)? {
        let mut apply = || {
            let refused = |why: String| Failed::from(Failure::Refused(why));
            let place = row.try_get::<_, i64>(0).map_err(|error| refused(told(&error)))? as usize - 1;
            let target = &mut targets[wanted[place]];
            absent[place] = false;
            let stored = row.try_get(1).and_then(|version| Ok((version, row.try_get::<_, Option<&[u8]>>(2)?)));
            let (version, value) = stored.map_err(|error| refused(told(&error)))?;
            let Some(value) = value else {
                large.push(wanted[place]);
                return Ok(());
            };
            let before = decode(target.key, version, value).map_err(|error| refused(error.to_string()))?;
            target.apply(before.value)
        };
        if applied.is_ok() {
            applied = apply();
        }
    }
    let absent = wanted.iter().zip(absent).filter(|(_, absent)| *absent).map(|(at, _)| *at);
    for at in absent {
        applied = applied.and_then(|()| targets[at].apply(None));
    }
    for blind in targets.iter_mut().filter(|target| target.is_blind()) {
        applied = applied.and_then(|()| blind.apply(None));
    }
    Ok(applied.map(|()| large))
}

/// Before COMMIT is sent a transaction whose connection ends is surely not applied.
pub(super) fn unsent(failure: Failure) -> Failure {
    match failure {
        Failure::Unknown(why) => Failure::Unavailable(why),
        failure => failure,
    }
}
