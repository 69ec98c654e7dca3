//! One attempt of a transaction: what it has read, what it is going to write, and its end.
//!
//! It reads from copies, fetches what is missing, and keeps its writes until the end. Then there are three ways:
//!
//! 1. It only reads, and [`crate::moment`] says that it may end there: no message.
//! 2. It only reads otherwise: LEASE CHECK has all that it read compared.
//! 3. It writes: LEASE CHECK, MULTI, the commands and EXEC, in one message.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use forebay::key::Key;
use forebay::value::Value;
use forebay::version::Version;
use forebay_protocol::Reply;

use crate::answer::{Executed, Stale};
use crate::buffer::{Buffer, Ends};
use crate::copies::{Copy, Span, Wanted};
use crate::error::{CommitId, Error, shown};
use crate::moment::{self, Floor, Level};
use crate::mutation::{Fault, on};
use crate::reads::{Read, Reads};
use crate::shared::{Commit, Shared};
use crate::write::Write;

/// One attempt.
#[derive(Default)]
pub struct Attempt {
    level: Level,
    reads: Reads,
    buffer: Buffer,
    before: Before,
    /// A read had no answer: the body may have ended for that.
    pub is_broken: bool,
    /// It has ended: nothing is read or written by it any more.
    is_over: bool,
}

/// What is known from the attempts before.
#[derive(Default)]
pub struct Before {
    /// What was fetched since the last one.
    pub fetched: BTreeMap<Key, Arc<Copy>>,
    /// Copies that were asked for before are not used.
    pub since: Option<Instant>,
}

/// How an attempt has ended.
pub enum Ended {
    /// What it has read was there at one moment, and what it wrote is committed.
    Well,
    /// These keys have changed, and nothing was written.
    Stale(Vec<Key>),
    /// Another transaction was in the way, and nothing was written.
    Conflict,
}

impl Attempt {
    /// One that has done nothing yet.
    pub fn new(level: Level, before: Before) -> Attempt {
        Attempt { level, before, ..Attempt::default() }
    }

    /// What stands in the place of one that is over.
    pub fn over() -> Attempt {
        Attempt { is_over: true, ..Attempt::default() }
    }

    /// Drops what it was going to write.
    pub fn write_nothing(&mut self) {
        self.buffer = Buffer::default();
    }

    /// From which moment on a copy that is used at `now` was asked for.
    pub fn since(&self, now: Instant) -> Option<Instant> {
        let bound = match self.level {
            Level::Bounded(most) => now.checked_sub(most),
            _ => None,
        };
        self.before.since.max(bound)
    }

    /// Takes what there is of `keys`; those that are missing.
    pub fn look(&mut self, shared: &Shared, keys: &[Key]) -> Result<Vec<Key>, Error> {
        if self.is_over {
            return Err(Error::Over);
        }
        let now = shared.ground().now();
        let wanted = Wanted { now, since: self.since(now) };
        let mut missing = Vec::new();
        for key in keys {
            if self.reads.get(key).is_some() && !on(Fault::ReadTwice) || self.buffer.known(key).is_some() {
                continue;
            }
            if let Some(copy) = self.before.fetched.remove(key) {
                self.note(key, copy, false)?;
            } else if let Some(copy) = shared.copies.get(key, wanted) {
                self.note(key, copy, true)?;
            } else {
                missing.push(key.clone());
            }
        }
        missing.sort_unstable();
        missing.dedup();
        Ok(missing)
    }

    /// It has read `key` so, unless it has read it before.
    pub fn take(&mut self, key: &Key, copy: Arc<Copy>) -> Result<(), Error> {
        if self.is_over {
            return Err(Error::Over);
        }
        if self.reads.get(key).is_some() && !on(Fault::ReadTwice) {
            return Ok(());
        }
        self.note(key, copy, false)
    }

    fn note(&mut self, key: &Key, copy: Arc<Copy>, is_hit: bool) -> Result<(), Error> {
        self.reads.insert(Read { key: key.clone(), copy: copy.clone(), is_hit });
        self.buffer.read(key, &copy)
    }

    /// What it sees of a key: its own writes included.
    pub fn seen(&self, key: &Key) -> Option<&Value> {
        match self.buffer.known(key) {
            Some(value) => value.as_ref(),
            None => self.reads.get(key)?.value.as_ref(),
        }
    }

    /// Adds a write.
    pub fn write(&mut self, write: Write) -> Result<(), Error> {
        if self.is_over {
            return Err(Error::Over);
        }
        let read = self.reads.get(&write.key).map(|copy| &**copy);
        self.buffer.add(write, read)
    }

    /// Ends the attempt.
    pub async fn end(mut self, shared: &Shared, floor: &Floor) -> Result<Ended, Error> {
        if self.buffer.is_empty() {
            return self.end_reading(shared, floor).await;
        }
        if let (true, Some(write)) = (self.reads.is_empty(), self.buffer.writes().first()) {
            // A commit names a version at least: only then has it an id, and is told its version.
            let key = write.key.clone();
            let missing = self.look(shared, std::slice::from_ref(&key))?;
            // What it replaces whole is known without a read.
            let missing = if missing.is_empty() && self.reads.is_empty() { vec![key] } else { missing };
            for (key, copy) in shared.fetch(&missing).await? {
                self.take(&key, copy)?;
            }
        }
        let id = Some(CommitId(new_id(shared)?));
        let commit = Commit { reads: &self.reads, writes: self.buffer.writes(), id };
        let committed = shared.commit(&commit).await.inspect_err(|error| {
            if matches!(error, Error::Unknown { .. }) {
                shared.counts.unknown.add(1);
                self.buffer.documents().for_each(|(key, _)| shared.copies.forget(key));
            }
        });
        let (executed, span) = committed?;
        let Executed::Done { replies, version, as_of } = executed else { return self.failed(shared, executed, span) };
        shared.copies.heard(span.asked, version.or(as_of));
        self.wrote(shared, &replies, version, as_of, span);
        if !on(Fault::OwnCommitForgotten) {
            floor.raise(self.newest().max(version).max(as_of).unwrap_or_default());
        }
        shared.counts.committed.add(1);
        shared.counts.fresh.add(self.reads.hits().count() as u64);
        Ok(Ended::Well)
    }

    /// Ends what only reads: alone, or by a check.
    async fn end_reading(&self, shared: &Shared, floor: &Floor) -> Result<Ended, Error> {
        let reads = self.reads.iter().map(|read| &*read.copy);
        let present = |moment: &Version| shared.copies.is_present(*moment);
        let moment = moment::moment(reads.clone()).filter(present);
        let now = shared.ground().now();
        let late = |moment: &Version| moment::is_late_enough(self.level, *moment, floor.version(), reads.clone(), now);
        if self.reads.is_empty() || moment.as_ref().is_some_and(late) {
            if !on(Fault::ReadOnlyForgotten) {
                floor.raise(moment.unwrap_or_default());
            }
            shared.counts.alone.add(1);
        } else {
            let (executed, span) = shared.commit(&Commit { reads: &self.reads, writes: &[], id: None }).await?;
            let Executed::Done { as_of, .. } = executed else { return self.failed(shared, executed, span) };
            shared.copies.heard(span.asked, as_of);
            for Read { key, copy, .. } in self.reads.iter() {
                shared.copies.renew(key, copy, as_of, span);
            }
            floor.raise(self.newest().max(as_of).unwrap_or_default());
            shared.counts.validated.add(1);
        }
        shared.counts.fresh.add(self.reads.hits().count() as u64);
        Ok(Ended::Well)
    }

    /// The greatest version that was read.
    fn newest(&self) -> Option<Version> {
        self.reads.iter().map(|read| read.copy.version).max()
    }

    /// Keeps what a commit has made, at its version, and what it has found current.
    fn wrote(&self, shared: &Shared, replies: &[Reply], version: Option<Version>, as_of: Option<Version>, span: Span) {
        let copies = &shared.copies;
        let changed = |key: &Key| {
            let mut writes = self.buffer.writes().iter().zip(replies);
            writes.any(|(write, reply)| write.key == *key && write.has_changed(reply))
        };
        let mut written = BTreeMap::new();
        for (key, known) in self.buffer.documents() {
            if !changed(key) {
                continue;
            }
            written.insert(key, ());
            let expires = self.reads.get(key).and_then(|copy| copy.expires);
            match (version, known) {
                (Some(version), Some((value, Ends::Never))) => copies.take_own(key, value, version, None, span),
                (Some(version), Some((value, Ends::AsBefore))) => copies.take_own(key, value, version, expires, span),
                (Some(version), _) => copies.stale(key, version, true, span.learned),
                (None, _) => copies.forget(key),
            }
        }
        // The locks were held until the commit had its place: what was current then is so as of its version.
        let as_of = as_of.max(version);
        for Read { key, copy, .. } in self.reads.iter().filter(|read| !written.contains_key(&read.key)) {
            copies.renew(key, copy, as_of, span);
        }
    }

    /// What an EXEC that did not run comes to.
    fn failed(&self, shared: &Shared, executed: Executed, span: Span) -> Result<Ended, Error> {
        match executed {
            Executed::Stale(_) if on(Fault::StaleTakenForDone) => Ok(Ended::Well),
            Executed::Stale(stale) => Ok(Ended::Stale(self.stale(shared, stale, span)?)),
            Executed::Conflict => {
                shared.counts.conflict_aborts.add(1);
                Ok(Ended::Conflict)
            }
            Executed::Refused(reply) => Err(Error::Refused { what: "EXEC", reply }),
            Executed::Unknown(reply) => Err(Error::Refused { what: "EXEC of what only reads", reply }),
            Executed::Done { .. } => Err(Error::Malformed { what: "EXEC", why: "it is done and is not".into() }),
        }
    }

    /// Gives up the copies that were found stale, and only those.
    fn stale(&self, shared: &Shared, stale: Vec<Stale>, span: Span) -> Result<Vec<Key>, Error> {
        let mut keys = Vec::with_capacity(stale.len());
        for Stale { name, version, present } in stale {
            let key = Key::new(shared.options.space, &name);
            if self.reads.get(&key).is_none() {
                return Err(Error::Malformed { what: "EXEC", why: format!("{} was not checked", shown(key.name())) });
            }
            shared.copies.stale(&key, version, present, span.learned);
            keys.push(key);
        }
        let served = self.reads.hits().filter(|hit| keys.contains(hit)).count();
        shared.counts.stale.add(served as u64);
        shared.counts.stale_aborts.add(1);
        Ok(keys)
    }
}

fn new_id(shared: &Shared) -> Result<u128, Error> {
    if on(Fault::IdReused) {
        return Ok(7);
    }
    let failed = |error: getrandom::Error| Error::Option { name: "randomness", why: error.to_string() };
    shared.ground().id().map_err(failed)
}
