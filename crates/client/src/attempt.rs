//! One attempt of a transaction: what it has read, what it is going to write, and its end.
//!
//! It reads from copies, fetches what is missing, and keeps its writes until the end. Then there are three ways:
//!
//! 1. It only reads, and [`crate::moment`] says that it may end there: no message.
//! 2. It only reads otherwise: one LEASE GET names all that it read. If all of it is current, it was there together.
//!    Where the server tells no version as of which it read, LEASE CHECK has it compared.
//! 3. It writes: LEASE CHECK, MULTI, the commands and EXEC, in one message.
//!
//! A request for what is missing also names what was read from copies before. So their end needs no message of it. One
//! that has changed dooms the attempt: the body runs again, over what the answer has brought.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use forebay::key::Key;
use forebay::value::Value;
use forebay::version::Version;
use forebay_protocol::Reply;

use crate::answer::{Executed, Stale};
use crate::buffer::{Buffer, Ends};
use crate::copy::{Copy, Span, Wanted};
use crate::error::{CommitId, Error, shown};
use crate::moment::{self, Floor, Level};
use crate::mutation::{Fault, on};
use crate::reads::{Read, Reads};
use crate::shared::{Commit, KEYS_MAX, Shared};
use crate::write::Write;

/// One attempt.
#[derive(Default)]
pub struct Attempt {
    level: Level,
    reads: Reads,
    buffer: Buffer,
    before: Before,
    /// The version that its session had come to when it began.
    floor: Version,
    /// When it looked for a copy first.
    began: Option<Instant>,
    /// What has taken the place of what it has read.
    overtaken: BTreeMap<Key, Arc<Copy>>,
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
    /// These have, here is what there is now, and nothing was written.
    Overtaken(BTreeMap<Key, Arc<Copy>>),
    /// Another transaction was in the way, and nothing was written.
    Conflict,
}

/// What an attempt has found of some keys.
#[derive(Default)]
pub struct Looked {
    /// They have to be fetched.
    pub missing: Vec<Key>,
    /// Copies of others, where some are missing. The body does not see them before those are there.
    held: Vec<(Key, Arc<Copy>)>,
}

impl Attempt {
    /// One that has done nothing yet, of a session that has come to `floor`.
    pub fn new(level: Level, floor: Version, before: Before) -> Attempt {
        Attempt { level, floor, before, ..Attempt::default() }
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

    /// Takes what there is of `keys`, if none is missing.
    pub fn look(&mut self, shared: &Shared, keys: &[Key]) -> Result<Looked, Error> {
        if self.is_over {
            return Err(Error::Over);
        }
        let now = shared.ground().now();
        self.began.get_or_insert(now);
        let wanted = Wanted { now, since: self.since(now) };
        let mut looked = Looked::default();
        for key in keys {
            if self.reads.get(key).is_some() && !on(Fault::ReadTwice) || self.buffer.known(key).is_some() {
                continue;
            }
            if let Some(copy) = self.before.fetched.remove(key) {
                self.note(key, copy, false)?;
            } else if let Some(copy) = shared.copies.get(key, wanted) {
                looked.held.push((key.clone(), copy));
            } else {
                looked.missing.push(key.clone());
            }
        }
        if looked.missing.is_empty() {
            self.take_all(std::mem::take(&mut looked), BTreeMap::new())?;
        }
        looked.missing.sort_unstable();
        looked.missing.dedup();
        looked.held.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        looked.held.dedup_by(|one, other| one.0 == other.0);
        Ok(looked)
    }

    /// What a request for what is missing is to name as well: copies that the end may need to be newer than they are.
    /// What writes is compared at its end in any case, and so is what is strict.
    pub fn have(&self, shared: &Shared, looked: &Looked) -> Vec<(Key, Arc<Copy>)> {
        if !self.buffer.is_empty() || self.level == Level::Strict {
            return Vec::new();
        }
        let read = self.reads.iter().map(|read| (&read.key, &read.copy));
        let read = read.chain(looked.held.iter().map(|(key, copy)| (key, copy)));
        let floor = if self.level == Level::Session { self.floor } else { Version::ZERO };
        let newest = read.clone().map(|(_, copy)| copy.version).max().unwrap_or_default().max(floor);
        let is_old = |copy: &Copy| self.began.is_some_and(|began| copy.asked < began) || copy.as_of < Some(newest);
        let have = read.filter(|(_, copy)| is_old(copy) && shared.copies.is_nameable(copy));
        let room = KEYS_MAX.saturating_sub(looked.missing.len());
        have.take(room).map(|(key, copy)| (key.clone(), copy.clone())).collect()
    }

    /// It has read what was held, and what was fetched: of a key that was both, the latter.
    pub fn take_all(&mut self, looked: Looked, mut fetched: BTreeMap<Key, Arc<Copy>>) -> Result<(), Error> {
        for (key, copy) in looked.held {
            match fetched.remove(&key) {
                Some(now) => {
                    let is_hit = now.is_of(&copy);
                    self.take(&key, now, is_hit)?;
                }
                None => self.take(&key, copy, true)?,
            }
        }
        fetched.into_iter().try_for_each(|(key, copy)| self.take(&key, copy, false))
    }

    /// It has read `key` so. If it has read it before, that is known to be current now, or not to be.
    fn take(&mut self, key: &Key, copy: Arc<Copy>, is_hit: bool) -> Result<(), Error> {
        if self.is_over {
            return Err(Error::Over);
        }
        match self.reads.get(key).filter(|_| !on(Fault::ReadTwice)) {
            None => return self.note(key, copy, is_hit),
            Some(known) if copy.is_of(known) => {
                if copy.as_of >= known.as_of && copy.asked >= known.asked {
                    self.reads.renew(key, copy);
                }
            }
            Some(known) if on(Fault::ChangedTakenForSame) => {
                let known = known.clone();
                self.reads.renew(key, known.as_of_answer(&copy));
            }
            Some(known) if copy.follows(known) => drop(self.overtaken.insert(key.clone(), copy)),
            // A late answer.
            Some(_) => {}
        }
        Ok(())
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
        if !self.overtaken.is_empty() {
            return Ok(self.overtaken(shared));
        }
        if self.buffer.is_empty() {
            return self.end_reading(shared, floor).await;
        }
        if let (true, Some(write)) = (self.reads.is_empty(), self.buffer.writes().first()) {
            // A commit names a version at least: only then has it an id, and is told its version.
            let key = write.key.clone();
            let missing = self.look(shared, std::slice::from_ref(&key))?.missing;
            // What it replaces whole is known without a read.
            let missing = if missing.is_empty() && self.reads.is_empty() { vec![key] } else { missing };
            if !missing.is_empty() {
                self.take_all(Looked::default(), shared.fetch(&missing, &[]).await?)?;
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

    /// Ends what only reads: alone, by a request that names it all, or by a check.
    async fn end_reading(mut self, shared: &Shared, floor: &Floor) -> Result<Ended, Error> {
        if let Some(moment) = self.alone(shared, floor) {
            if !on(Fault::ReadOnlyForgotten) {
                floor.raise(moment);
            }
            shared.counts.alone.add(1);
        } else {
            let named = self.end_named(shared).await?;
            if !self.overtaken.is_empty() {
                return Ok(self.overtaken(shared));
            }
            let as_of = match named {
                Some(as_of) => Some(as_of),
                None => {
                    let (executed, span) = shared.commit(&Commit { reads: &self.reads, writes: &[], id: None }).await?;
                    let Executed::Done { as_of, .. } = executed else { return self.failed(shared, executed, span) };
                    shared.copies.heard(span.asked, as_of);
                    for Read { key, copy, .. } in self.reads.iter() {
                        shared.copies.renew(key, copy, as_of, span);
                    }
                    as_of
                }
            };
            floor.raise(self.newest().max(as_of).unwrap_or_default());
            shared.counts.validated.add(1);
        }
        shared.counts.fresh.add(self.reads.hits().count() as u64);
        Ok(Ended::Well)
    }

    /// The moment at which all that it has read was there, if its level is content with that.
    fn alone(&self, shared: &Shared, floor: &Floor) -> Option<Version> {
        if self.reads.is_empty() {
            return Some(Version::ZERO);
        }
        let reads = self.reads.iter().map(|read| &*read.copy);
        let moment = moment::moment(reads.clone()).filter(|moment| shared.copies.is_present(*moment))?;
        let now = shared.ground().now();
        moment::is_late_enough(self.level, moment, floor.version(), reads, now).then_some(moment)
    }

    /// Has all that it read named by one request. If all of it is current, as of when; `None`: that is not known.
    async fn end_named(&mut self, shared: &Shared) -> Result<Option<Version>, Error> {
        let is_nameable = |copy: &Copy| shared.copies.is_nameable(copy);
        if self.reads.len() > KEYS_MAX || !self.reads.iter().all(|read| is_nameable(&read.copy)) {
            return Ok(None);
        }
        let is_old = |read: &&Read| !on(Fault::ValidatedInParts) || self.began.is_none_or(|at| read.copy.asked < at);
        let have = self.reads.iter().filter(is_old).map(|read| (read.key.clone(), read.copy.clone()));
        let have: Vec<(Key, Arc<Copy>)> = have.collect();
        let mut as_of = self.reads.iter().map(|read| read.copy.as_of).min().flatten();
        if !have.is_empty() {
            let fetched = shared.fetch(&[], &have).await?;
            as_of = fetched.values().next().and_then(|copy| copy.as_of);
            self.take_all(Looked::default(), fetched)?;
        }
        Ok(as_of)
    }

    /// Some of what it has read was found changed.
    fn overtaken(&mut self, shared: &Shared) -> Ended {
        if on(Fault::StaleTakenForDone) {
            return Ended::Well;
        }
        let served = self.reads.hits().filter(|hit| self.overtaken.contains_key(hit)).count();
        shared.counts.stale.add(served as u64);
        shared.counts.stale_aborts.add(1);
        Ended::Overtaken(std::mem::take(&mut self.overtaken))
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
        // The locks were held until the commit had its place: what was current then is so as of its version. Not where
        // the server names no version, as what had expired was there at some of them.
        let as_of = as_of.map(|as_of| version.map_or(as_of, |version| as_of.max(version)));
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
