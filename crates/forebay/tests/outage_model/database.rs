//! The database: it holds two documents and applies changes to them, as a real one does. Each group that is sent to it
//! waits until the world decides what becomes of it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use forebay::change::apply_all;
use forebay::error::Unavailable;
use forebay::store::forms::{self, RowForm};
use forebay::store::memory::Memory;
use forebay::store::{
    Caps, Commit, CommitOutcome, Form, Outside, ReadError, ReadWithIds, Resolved, Since, Store, Write,
};
use forebay::{Change, Key, Read, TxnId, Value, Version};
use futures_channel::oneshot;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::clients::{children, counts, parents};
use crate::world::POISON;

/// Added to the incarnation of a commit's version where the database made other documents than computed.
const MADE: u64 = 1 << 21;

/// Groups that were sent and are not done with.
struct Call {
    group: Vec<Commit>,
    /// None once it was told that nobody knows.
    answer: Option<oneshot::Sender<Vec<CommitOutcome>>>,
}

struct State {
    up: bool,
    incarnation: u64,
    calls: Vec<Call>,
    /// Ids that were looked for, and answered to be not applied.
    denied: Vec<TxnId>,
    /// Ids in the order in which their commits were applied, each with the hash as it was then.
    landed: Vec<(TxnId, Option<Value>)>,
    mended: bool,
    /// Writes of others.
    outside: u64,
}

/// The database; the truth of it is in a memory store, with its table of ids.
pub struct Database {
    memory: Memory,
    lane: Option<u32>,
    owned: bool,
    rows: bool,
    state: Mutex<State>,
}

/// What may become of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is done and answered; not done, and answered so, while the database is away.
    Answered,
    /// It is done, the answer is lost.
    Unheard,
    /// It is held up, and may be done later; whoever waits is told that nobody knows.
    HeldUp,
}

impl Database {
    pub fn new(lane: Option<u32>, (owned, rows): (bool, bool), documents: Vec<Write>) -> Arc<Database> {
        let state = State {
            up: true,
            incarnation: 1,
            calls: Vec::new(),
            denied: Vec::new(),
            landed: Vec::new(),
            mended: false,
            outside: 0,
        };
        let database = Database { memory: Memory::new(), lane, owned, rows, state: Mutex::new(state) };
        if !documents.is_empty() {
            database.put(Version { incarnation: 0, sequence: 1 }, documents);
        }
        Arc::new(database)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn is_up(&self) -> bool {
        self.state().up
    }

    pub fn set_up(&self, up: bool) {
        self.state().up = up;
    }

    /// What it refused it takes from now on.
    pub fn mend(&self) {
        self.state().mended = true;
    }

    pub fn is_mended(&self) -> bool {
        self.state().mended
    }

    /// The next process, or a backup, opens it under another number.
    pub fn reopen(&self) {
        self.state().incarnation += 1;
    }

    /// Sessions of a process that has ended are ended too.
    pub fn end_sessions(&self) {
        self.state().calls.clear();
    }

    /// Each call: whether anyone waits for it.
    pub fn calls(&self) -> Vec<bool> {
        let state = self.state();
        state.calls.iter().map(|call| call.answer.as_ref().is_some_and(|answer| !answer.is_canceled())).collect()
    }

    /// Ids of each call.
    pub fn ids(&self, call: usize) -> Vec<TxnId> {
        self.state().calls[call].group.iter().map(|commit| commit.id).collect()
    }

    /// The n-th call meets its fate.
    pub fn settle(&self, call: usize, fate: Fate) {
        if fate == Fate::HeldUp {
            let (answer, count) = {
                let call = &mut self.state().calls[call];
                (call.answer.take(), call.group.len())
            };
            return unheard(answer, count);
        }
        let (Call { group, answer }, up) = {
            let mut state = self.state();
            (state.calls.remove(call), state.up)
        };
        let outcomes = match up {
            true => self.apply(&group),
            false => vec![CommitOutcome::Unavailable("down".into()); group.len()],
        };
        match (fate, answer) {
            (Fate::Answered, Some(answer)) => drop(answer.send(outcomes)),
            (_, answer) => unheard(answer, group.len()),
        }
    }

    fn apply(&self, group: &[Commit]) -> Vec<CommitOutcome> {
        let mut stopped = false;
        let answer = |commit: &Commit| match std::mem::replace(&mut stopped, true) {
            true => CommitOutcome::Unavailable("behind one that was not applied".into()),
            false => {
                let outcome = self.apply_one(commit);
                stopped = !outcome.is_applied();
                outcome
            }
        };
        group.iter().map(answer).collect()
    }

    fn apply_one(&self, commit: &Commit) -> CommitOutcome {
        if self.has(commit) {
            let since = commit.writes.iter().map(|write| self.since(commit, write));
            return if self.owned {
                CommitOutcome::Committed(Vec::new())
            } else {
                CommitOutcome::Repeated(since.collect())
            };
        }
        let adds = |element: &str| {
            let pushes = |change: &Change| matches!(change, Change::Push(_, pushed) if **pushed == *element.as_bytes());
            commit.writes.iter().any(|write| write.changes.iter().any(pushes))
        };
        if forms::untaken(commit, |key| self.form(key)).is_some() {
            return CommitOutcome::Refused("it is not taken".into());
        }
        if adds(POISON) && !self.state().mended {
            return CommitOutcome::Refused("poison".into());
        }
        if self.lane.is_some() && commit.writes.iter().any(|write| write.key == children()) {
            let parent = self.read(&parents()).value;
            let written = commit.writes.iter().any(|write| write.key == parents());
            if counts(parent.as_ref()).is_empty() && !written {
                return CommitOutcome::Refused("it has no parent".into());
            }
        }
        let (mut fitted, before) = (commit.clone(), self.read(&children()).value);
        if !self.owned {
            for write in &mut fitted.writes {
                write.after = self.read(&write.key).value;
                if apply_all(&mut write.after, &write.changes).is_err() {
                    return CommitOutcome::Refused("it does not fit".into());
                }
            }
        }
        // What it made otherwise than computed has a version of its own, as rows have.
        let differs = |(made, computed): (&Write, &Write)| computed.unseen || made.after != computed.after;
        if fitted.writes.iter().zip(&commit.writes).any(differs) {
            fitted.version.incarnation += MADE;
        }
        match self.memory.commit_now(&fitted).expect("a memory store commits at once") {
            CommitOutcome::Committed(_) => {
                self.state().landed.push((commit.id, before));
                // What is other than computed, unless others have written since.
                let left = |write: &Write| (write.key.clone(), self.read(&write.key));
                let written = commit.writes.iter().map(|write| (left(write), &write.after));
                let other =
                    written.filter(|((_, read), after)| read.version == fitted.version && read.value != **after);
                CommitOutcome::Committed(other.map(|(left, _)| left).collect())
            }
            outcome => outcome,
        }
    }

    /// Whether its id is in the table.
    fn has(&self, commit: &Commit) -> bool {
        let asked = [(children(), vec![commit.id])];
        let told = self.memory.get_with_ids(&asked).now_or_never().expect("at once").expect("memory answers");
        told.is_some_and(|told| told.iter().any(|(_, applied)| !applied.is_empty()))
    }

    /// What the document of one write of `commit`, which had landed before, is now.
    fn since(&self, commit: &Commit, write: &Write) -> Since {
        let (read, by) = (self.read(&write.key), commit.version);
        let made = Version { incarnation: by.incarnation + MADE, ..by };
        // Of a row that is not there no database knows who has deleted it.
        let untouched = read.value.is_some() && (read.version == by || read.version == made);
        Since { key: write.key.clone(), read, untouched }
    }

    /// Another program writes a field of `key`.
    pub fn write_outside(&self, key: &Key, field: &[u8]) {
        let sequence = {
            let mut state = self.state();
            state.outside += 1;
            state.outside
        };
        let change = Change::SetField(field.into(), b"1"[..].into());
        let mut value = self.read(key).value;
        apply_all(&mut value, std::slice::from_ref(&change)).expect("it is a hash");
        let write = Write {
            key: key.clone(),
            changes: [change].into_iter().collect(),
            after: value,
            unseen: false,
            told: false,
        };
        self.put(Version { incarnation: 1 << 20, sequence }, vec![write]);
    }

    fn put(&self, version: Version, writes: Vec<Write>) {
        let commit = Commit::new(TxnId(version), version, writes);
        let outcome = self.memory.commit_now(&commit);
        assert!(matches!(outcome, Some(CommitOutcome::Committed(_))), "{outcome:?}");
    }

    /// What the hash was when the commit of `id` was applied.
    pub fn hash_at(&self, id: TxnId) -> Option<Option<Value>> {
        self.state().landed.iter().find(|(landed, _)| *landed == id).map(|(_, hash)| hash.clone())
    }

    /// What it holds.
    pub fn read(&self, key: &Key) -> Read {
        let read = self.memory.get(std::slice::from_ref(key)).now_or_never().expect("at once");
        read.expect("memory answers").remove(0)
    }

    /// Writes down what decides what it does next.
    pub fn print(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let state = self.state();
        let mut calls: Vec<String> = state.calls.iter().map(print_call).collect();
        calls.sort_unstable();
        writeln!(out, "{} {} {} {calls:?}", state.up, state.incarnation, state.mended)?;
        let landed: Vec<TxnId> = state.landed.iter().map(|(id, _)| *id).collect();
        writeln!(out, "{:?} {landed:?} {}", state.denied, state.outside)?;
        drop(state);
        writeln!(out, "{:?} {:?}", self.read(&parents()), self.read(&children()))
    }
}

fn unheard(answer: Option<oneshot::Sender<Vec<CommitOutcome>>>, count: usize) {
    if let Some(answer) = answer {
        drop(answer.send(vec![CommitOutcome::Unknown("no answer came".into()); count]));
    }
}

fn print_call(call: &Call) -> String {
    let waits = call.answer.as_ref().is_some_and(|answer| !answer.is_canceled());
    let one = |commit: &Commit| format!("{} {:?} {:?}", commit.id, commit.checks, commit.writes);
    let group: Vec<String> = call.group.iter().map(one).collect();
    format!("{waits} {group:?}")
}

impl Store for Database {
    fn caps(&self) -> Caps {
        Caps { ordered: false, owned: self.owned, applies: !self.owned }
    }

    fn name(&self) -> String {
        "database".into()
    }

    fn incarnation(&self) -> u64 {
        self.state().incarnation
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        match self.is_up() {
            true => self.memory.get_within(keys, bytes_max),
            false => Box::pin(std::future::ready(Err(Unavailable("down".into()).into()))),
        }
    }

    fn get_with_ids<'a>(
        &'a self,
        asked: &'a [(Key, Vec<TxnId>)],
    ) -> BoxFuture<'a, Result<Option<Vec<ReadWithIds>>, ReadError>> {
        match self.is_up() {
            true => self.memory.get_with_ids(asked),
            false => Box::pin(std::future::ready(Err(Unavailable("down".into()).into()))),
        }
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        let (answer, wait) = oneshot::channel();
        let count = group.len();
        self.state().calls.push(Call { group: group.to_vec(), answer: Some(answer) });
        Box::pin(async move { wait.await.unwrap_or_else(|_| vec![CommitOutcome::Unknown("gone".into()); count]) })
    }

    fn outcome(&self, id: TxnId) -> BoxFuture<'_, Result<Resolved, Unavailable>> {
        if !self.is_up() {
            return Box::pin(std::future::ready(Err(Unavailable("down".into()))));
        }
        let resolved = self.memory.outcome(id).now_or_never().expect("at once");
        if resolved == Ok(Resolved::NotApplied) {
            self.state().denied.push(id);
        }
        Box::pin(std::future::ready(resolved))
    }

    fn form(&self, key: &Key) -> Form {
        match (self.rows, *key == parents()) {
            (false, _) => Form::Document,
            (true, true) => Form::List { filled: false },
            (true, false) => Form::Row(RowForm::default()),
        }
    }

    fn lane(&self, _: &Key) -> Option<u32> {
        self.lane
    }

    fn outside(&self) -> BoxFuture<'_, Option<Outside>> {
        Box::pin(std::future::pending())
    }

    fn scan<'a>(
        &'a self,
        space: u8,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        self.memory.scan(space, after, limit)
    }

    fn count(&self, space: u8) -> BoxFuture<'_, Result<u64, ReadError>> {
        self.memory.count(space)
    }

    fn clear<'a>(&'a self, spaces: &'a [u8], version: Version) -> BoxFuture<'a, Result<(), Unavailable>> {
        self.memory.clear(spaces, version)
    }

    fn expired(&self, now_ms: u64, limit: usize) -> BoxFuture<'_, Result<Vec<Key>, ReadError>> {
        self.memory.expired(now_ms, limit)
    }

    fn memory_bytes(&self) -> usize {
        0
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
