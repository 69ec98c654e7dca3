//! The generic table: one row per document, its value in forebay's own encoding. What replaces a document is written as
//! it is. Any other change is made to what the row holds by then, under its lock: a change may have been kept for a
//! while, over a document that nobody knew whole, or that somebody has written since.

use std::collections::HashMap;

use forebay::change::{Change, apply};
use forebay::runtime::tokio::aside;
use forebay::store::portion::Portion;
use forebay::store::{Commit, ReadError, Write};
use forebay::value::codec::{decode_value, encode_value};
use forebay::{Key, Read, Value, Version};
use futures_util::future::{join, join5};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::classify::{self, Failure, told};
use super::commit::{Changed, Failed};
use super::given;
use super::identity::Identity;
use super::ids;
use super::session::Session;
use super::sql::Prepared;

/// Reads `keys` in one round trip, as far as they are within `bytes_max`.
pub(super) async fn get(
    session: &Session,
    identity: &Identity,
    keys: &[Key],
    bytes_max: usize,
) -> Result<Vec<Read>, GetError> {
    // Before the question: a document that is deleted behind it has a later one.
    let absences: Vec<Version> = keys.iter().map(|key| identity.absence(key)).collect();
    let read = |key: &Key, absence: Version, row: &Row| match row.try_get::<_, Option<&[u8]>>(1)? {
        Some(value) => Ok(decode(key, row.try_get(0)?, value)?),
        None => Ok::<_, GetError>(Read { value: None, version: absence }),
    };
    if let ([key], [absence]) = (keys, &*absences) {
        let parameters = [&i16::from(key.space()) as &(dyn ToSql + Sync), &key.name()];
        let found = session.client.query_opt(session.statement(Prepared::GetOne), &parameters).await?;
        let found = found.map(|row| read(key, *absence, &row));
        return Ok(vec![found.unwrap_or(Ok(Read { value: None, version: *absence }))?]);
    }
    let spaces: Vec<i16> = keys.iter().map(|key| i16::from(key.space())).collect();
    let names: Vec<&[u8]> = keys.iter().map(Key::name).collect();
    let within = i64::try_from(bytes_max).unwrap_or(i64::MAX);
    let rows = session.client.query(session.statement(Prepared::Get), &[&spaces, &names, &within]).await?;
    // A document is more in memory than in the table.
    let (mut reads, mut portion) = (Vec::with_capacity(rows.len()), Portion::new(bytes_max));
    for ((key, absence), row) in keys.iter().zip(absences).zip(rows) {
        if !portion.goes_on() {
            break;
        }
        let read = read(key, absence, &row)?;
        portion.count(&read);
        reads.push(read);
    }
    Ok(reads)
}

/// Why documents could not be read.
pub(super) enum GetError {
    Database(Error),
    Read(ReadError),
    /// The same as `Database`, of the table with this number, which somebody has locked.
    Locked(u32, Error),
}

impl GetError {
    /// Whether somebody else's lock on a table is all that was in the way.
    pub(super) fn is_locked(&self) -> bool {
        match self {
            GetError::Database(error) => classify::is_locked(error),
            GetError::Read(_) => false,
            GetError::Locked(..) => true,
        }
    }
}

impl From<Error> for GetError {
    fn from(error: Error) -> GetError {
        GetError::Database(error)
    }
}

impl From<ReadError> for GetError {
    fn from(error: ReadError) -> GetError {
        GetError::Read(error)
    }
}

/// Bytes of documents above which to encode or decode them takes long.
const LARGE_BYTES: usize = 256 << 10;

/// Does `work` where the thread's other tasks do not wait for it, if it is `long`.
fn aside_if<T>(long: bool, work: impl FnOnce() -> T) -> T {
    if long { aside(work) } else { work() }
}

pub(super) fn decode(key: &Key, version: &[u8], value: &[u8]) -> Result<Read, ReadError> {
    let damaged = |why: String| ReadError::Damaged { key: key.clone(), why };
    let version = ids::version(version).ok_or_else(|| damaged("its version has another length than 16".into()))?;
    let decoded = aside_if(value.len() > LARGE_BYTES, || decode_value(value));
    let value = decoded.map_err(|error| damaged(error.to_string()))?;
    Ok(Read { value: Some(value), version })
}

/// One document of a group: what becomes of it, change by change.
struct Target<'a> {
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
    fn all(group: &'a [Commit]) -> Vec<Target<'a>> {
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
        matches!(self.changes.first(), Some((_, Change::Put(_) | Change::Delete)))
    }

    /// Makes the changes to what was there. A change that does not fit is told with its commit.
    fn apply(&mut self, before: Option<Value>) -> Result<(), Failed> {
        self.becomes = before;
        for (member, change) in &self.changes {
            apply(&mut self.becomes, change).map_err(|error| Failed {
                failure: Failure::Refused(format!("{}: {error}", self.key)),
                member: Some(*member),
            })?;
        }
        Ok(())
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
struct Checks<'a> {
    spaces: Vec<i16>,
    names: Vec<&'a [u8]>,
    versions: Vec<Option<Vec<u8>>>,
    /// The commit that each is of, and its place among that one's.
    places: Vec<(usize, usize)>,
}

impl<'a> Checks<'a> {
    fn of(identity: &Identity, group: &'a [Commit]) -> Checks<'a> {
        let mut checks = Checks::default();
        for (member, commit) in group.iter().enumerate() {
            for (place, (key, version)) in commit.checks.iter().enumerate() {
                checks.spaces.push(i16::from(key.space()));
                checks.names.push(key.name());
                // An absent row has no version: what is expected of it is none.
                let absent = identity.absence(key) == *version;
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
    if targets.iter().all(Target::is_blind) && !given::any(group) {
        targets.iter_mut().try_for_each(|target| target.apply(None))?;
        put(session, identity, group, &ids, &targets, &checks).await.map_err(|error| checks.failed(&error))?;
    } else {
        let done = read_and_put(session, identity, group, &ids, &mut targets, &checks).await;
        // Nothing of it may stay open; what was sent behind an error was not executed.
        if let Err(failed) = &done
            && failed.failure.spares_connection()
            && let Err(error) = session.client.batch_execute("ROLLBACK").await
        {
            tracing::debug!(error = told(&error), "a transaction was not rolled back");
            session.give_up();
        }
        done?;
    }
    let mut changed: Vec<Changed> = vec![Vec::new(); group.len()];
    for target in targets.into_iter().filter(|target| target.becomes != target.write.after) {
        let version = match &target.becomes {
            Some(_) => group[target.last].version,
            None => identity.absence(target.key),
        };
        changed[target.last].push((target.key.clone(), Read { value: target.becomes, version }));
    }
    Ok(changed)
}

async fn put(
    session: &Session,
    identity: &Identity,
    group: &[Commit],
    ids: &[Vec<u8>],
    targets: &[Target<'_>],
    checks: &Checks<'_>,
) -> Result<(), Error> {
    for target in targets.iter().filter(|target| target.becomes.is_none()) {
        identity.deleting(target.key, group[target.last].version);
    }
    let bytes = targets.iter().filter_map(|target| target.becomes.as_ref()).map(Value::size).sum::<usize>();
    let Arrays { removed, spaces, names, versions, expiries, values } =
        aside_if(bytes > LARGE_BYTES, || Arrays::of(group, targets));
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

/// In two messages: what is to be changed is locked and read, then written.
async fn read_and_put(
    session: &Session,
    identity: &Identity,
    group: &[Commit],
    ids: &[Vec<u8>],
    targets: &mut [Target<'_>],
    checks: &Checks<'_>,
) -> Result<(), Failed> {
    let client = &session.client;
    let wanted: Vec<usize> = (0..targets.len()).filter(|at| !targets[*at].is_blind()).collect();
    let spaces: Vec<i16> = wanted.iter().map(|at| i16::from(targets[*at].key.space())).collect();
    let names: Vec<&[u8]> = wanted.iter().map(|at| targets[*at].key.name()).collect();
    let enter: [&(dyn ToSql + Sync); 1] = [&ids];
    let lock: [&(dyn ToSql + Sync); 2] = [&spaces, &names];
    let require: [&(dyn ToSql + Sync); 3] = [&checks.spaces, &checks.names, &checks.versions];
    let required = async {
        match checks.places.is_empty() {
            true => Ok(0),
            false => client.execute(session.statement(Prepared::Require), &require).await,
        }
    };
    // Sent together; behind an error nothing is executed.
    let (begun, entered, noted, rows, required) = join5(
        client.batch_execute("BEGIN"),
        client.execute(session.statement(Prepared::Enter), &enter),
        given::note(session, group),
        client.query(session.statement(Prepared::Lock), &lock),
        required,
    )
    .await;
    begun.and(entered.map(|_| ())).and(noted).map_err(|error| Failed::from(unsent(classify::of_commit(&error))))?;
    let rows = rows.map_err(|error| Failed::from(unsent(classify::of_commit(&error))))?;
    required.map_err(|error| checks.failed(&error))?;
    let mut before: Vec<Option<Value>> = vec![None; wanted.len()];
    for row in &rows {
        let refused = |why: String| Failed::from(Failure::Refused(why));
        let place: i64 = row.try_get(0).map_err(|error| refused(told(&error)))?;
        let key = targets[wanted[place as usize - 1]].key;
        let stored = row.try_get(1).and_then(|version| Ok((version, row.try_get(2)?)));
        let (version, value) = stored.map_err(|error| refused(told(&error)))?;
        before[place as usize - 1] = decode(key, version, value).map_err(|error| refused(error.to_string()))?.value;
    }
    for target in targets.iter_mut().filter(|target| target.is_blind()) {
        target.apply(None)?;
    }
    for (at, before) in wanted.into_iter().zip(before) {
        targets[at].apply(before)?;
    }
    let nothing = Checks::default();
    let (put, committed) =
        join(put(session, identity, group, &[], targets, &nothing), client.batch_execute("COMMIT")).await;
    put.map_err(|error| Failed::from(classify::of_commit(&error)))?;
    committed.map_err(|error| Failed::from(classify::of_commit(&error)))
}

/// Before COMMIT is sent a transaction whose connection ends is surely not applied.
fn unsent(failure: Failure) -> Failure {
    match failure {
        Failure::Unknown(why) => Failure::Unavailable(why),
        failure => failure,
    }
}
