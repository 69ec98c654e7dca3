//! A shard: documents, writes that wait for their transaction's end, and the decisions of the transactions whose home
//! it is. What it holds outlives its process; how, is not its business.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::message::{Document, Message, Node, Prepared, Stage, Stamp, TxnName};
use super::sharers::Sharers;
use crate::key::Key;
use crate::lease::WriteRates;
use crate::mutation::{Fault, on};
use crate::value::Value;

/// What a shard is told when it is made.
#[derive(Clone, Debug)]
pub struct ShardOptions {
    /// What is staged for so long is asked after, at the home of its transaction.
    pub recover_us: u64,
    /// A transaction that is to commit after so long does not: that it was aborted may be forgotten by then.
    pub decide_us_max: u64,
    /// Documents whose writes are counted apart.
    pub rates_max: usize,
    /// Of which keys readers are told that they were written.
    pub tells: fn(&Key) -> bool,
}

/// Writes that wait.
#[derive(Debug)]
struct Staged {
    stage: Stage,
    /// When it came, or was last asked after.
    since_us: u64,
}

/// One shard.
#[derive(Debug)]
pub struct Shard {
    number: u16,
    options: ShardOptions,
    documents: HashMap<Key, (Stamp, Option<Value>)>,
    staged: BTreeMap<TxnName, Staged>,
    decisions: HashMap<TxnName, bool>,
    /// Of the decisions those against, oldest first.
    aborted: BTreeSet<Stamp>,
    /// Up to here it is not known any more what was aborted.
    forgotten: Stamp,
    /// The epoch of each validator; 0 before its first.
    epochs: HashMap<u16, u64>,
    /// What validators have promised at most.
    ceilings: HashMap<u16, Stamp>,
    rates: WriteRates,
    sharers: Sharers,
}

/// What is to be sent.
type Sent = Vec<(Node, Message)>;

impl Shard {
    /// The empty shard `number` at `now_us`.
    pub fn new(number: u16, options: ShardOptions, now_us: u64) -> Shard {
        let rates = WriteRates::new(options.rates_max, seconds(now_us));
        let sharers = Sharers::new(options.tells);
        Shard {
            number,
            options,
            documents: HashMap::new(),
            staged: BTreeMap::new(),
            decisions: HashMap::new(),
            aborted: BTreeSet::new(),
            forgotten: Stamp::ZERO,
            epochs: HashMap::new(),
            ceilings: HashMap::new(),
            rates,
            sharers,
        }
    }

    /// For long now, `key` was written so often, per second: where a shard begins with what was counted before.
    pub fn assume_writes(&mut self, key: &Key, per_second: f64, now_us: u64) {
        self.rates.assume(key.borrow().hash64(), per_second, seconds(now_us));
    }

    /// Transactions whose writes are staged.
    pub fn staged(&self) -> usize {
        self.staged.len()
    }

    /// Decisions that are remembered.
    pub fn decisions(&self) -> usize {
        self.decisions.len()
    }

    /// What it has of `key`.
    pub fn document(&self, key: &Key) -> (Stamp, Option<&Value>) {
        self.documents.get(key).map_or((Stamp::ZERO, None), |(version, value)| (*version, value.as_ref()))
    }

    /// A message has come.
    pub fn step(&mut self, from: Node, message: Message, now_us: u64) -> Sent {
        let answer = match message {
            Message::Get(number, keys) => {
                self.sharers.read(&keys, from);
                Message::Got(number, self.read(&keys, from, now_us))
            }
            Message::Stage(stage) => {
                let stamp = stage.stamp;
                Message::Staged(stamp, self.number, self.stage(stage, now_us))
            }
            Message::Commit(stage) => {
                let stamp = stage.stamp;
                let (commit, mut sent) = self.commit(stage, now_us);
                sent.push((from, Message::Decided(stamp, commit)));
                return sent;
            }
            Message::GiveUp(stamp) => Message::Decided(stamp, self.decide(stamp, false)),
            Message::Apply(stamp) => {
                let mut sent = self.apply(stamp, now_us);
                sent.push((from, Message::Applied(stamp, self.number)));
                return sent;
            }
            Message::Drop(stamp) | Message::Decided(stamp, false) => {
                self.staged.remove(&stamp.txn());
                return Sent::new();
            }
            Message::Decided(stamp, true) => return self.apply(stamp, now_us),
            Message::Forget(stamp) => {
                self.decisions.remove(&stamp.txn());
                return Sent::new();
            }
            Message::Fence(validator, epoch) => match self.fence(validator, epoch) {
                Some(prepared) => {
                    let promised = self.ceilings.get(&validator).copied().unwrap_or_default();
                    Message::Fenced(self.number, epoch, promised, prepared)
                }
                None => return Sent::new(),
            },
            Message::Raise(validator, epoch, ceiling) => {
                if self.epoch(validator) != epoch {
                    return Sent::new();
                }
                let known = self.ceilings.entry(validator).or_default();
                *known = ceiling.max(*known);
                Message::Raised(epoch, *known)
            }
            _ => return Sent::new(),
        };
        vec![(from, answer)]
    }

    /// Time has passed: what is staged for long is asked after, and old decisions are forgotten.
    pub fn tick(&mut self, now_us: u64) -> Sent {
        let recover_us = self.options.recover_us;
        let mut sent = Sent::new();
        // A clock may be set back.
        for staged in self.staged.values_mut().filter(|staged| staged.since_us.abs_diff(now_us) >= recover_us) {
            staged.since_us = now_us;
            let home = Node::Shard(staged.stage.parties.home);
            sent.push((home, Message::GiveUp(staged.stage.stamp)));
        }
        let old = Stamp::at(now_us.saturating_sub(self.options.decide_us_max));
        while let Some(stamp) = self.aborted.first().copied().filter(|stamp| *stamp < old) {
            self.aborted.remove(&stamp);
            self.decisions.remove(&stamp.txn());
            if !on(Fault::AbortForgotten) {
                self.forgotten = self.forgotten.max(stamp);
            }
        }
        sent
    }

    fn read(&self, keys: &[Key], from: Node, now_us: u64) -> Vec<Document> {
        let client = if let Node::Client(client) = from { client } else { u32::MAX };
        let read = |key: &Key| {
            let (version, value) = self.document(key);
            let writes = self.rates.rate(key.borrow().hash64(), client, seconds(now_us));
            Document { key: key.clone(), version, value: value.cloned(), writes }
        };
        keys.iter().map(read).collect()
    }

    fn epoch(&self, validator: u16) -> u64 {
        self.epochs.get(&validator).copied().unwrap_or_default()
    }

    /// Whether one of the votes is of an epoch that has ended: its validator may have lost what it promised.
    fn outdated(&self, votes: &[(u16, u64)]) -> bool {
        votes.iter().any(|(validator, epoch)| *epoch < self.epoch(*validator))
    }

    /// Keeps the writes, so that a validator that begins again is told of them: unless it has done so already.
    fn stage(&mut self, stage: Stage, now_us: u64) -> bool {
        if self.outdated(&stage.parties.validators) && !on(Fault::StagedUnfenced) {
            return false;
        }
        self.staged.entry(stage.stamp.txn()).or_insert(Staged { stage, since_us: now_us });
        true
    }

    /// All have agreed: the transaction commits if nothing was decided before, and no vote is outdated. Then this
    /// shard's writes of it are there at once. Whether it commits, and which readers are told.
    fn commit(&mut self, stage: Stage, now_us: u64) -> (bool, Sent) {
        let known = self.decisions.contains_key(&stage.stamp.txn());
        let outdated = self.outdated(&stage.parties.validators) && !on(Fault::OldVotesCommit);
        let commit = self.decide(stage.stamp, !outdated);
        let sent = if commit && !known { self.write(stage, now_us) } else { Sent::new() };
        (commit, sent)
    }

    /// The one place where a transaction is decided. The first to ask decides it.
    fn decide(&mut self, stamp: Stamp, commit: bool) -> bool {
        let name = stamp.txn();
        match self.decisions.get(&name) {
            Some(commit) if !on(Fault::DecidedTwice) => return *commit,
            _ => {}
        }
        if stamp <= self.forgotten {
            return false;
        }
        self.decisions.insert(name, commit);
        if !commit {
            self.aborted.insert(stamp);
        }
        commit
    }

    /// The staged writes become documents; which readers of theirs are told.
    fn apply(&mut self, stamp: Stamp, now_us: u64) -> Sent {
        self.staged.remove(&stamp.txn()).map_or_else(Sent::new, |staged| self.write(staged.stage, now_us))
    }

    fn write(&mut self, stage: Stage, now_us: u64) -> Sent {
        let Stage { stamp, writes, .. } = stage;
        let keys: Vec<Key> = writes.iter().map(|(key, _)| key.clone()).collect();
        for (key, value) in writes {
            self.rates.write(key.borrow().hash64(), stamp.txn().client, seconds(now_us));
            let document = self.documents.entry(key).or_default();
            // Of two blind writes the later may come first.
            if stamp > document.0 || on(Fault::OlderOverNewer) {
                *document = (stamp, value);
            }
        }
        self.sharers.written(&keys, stamp)
    }

    /// The validator begins an epoch; what is staged of it. `None`: it has begun a later one.
    fn fence(&mut self, validator: u16, epoch: u64) -> Option<Vec<Prepared>> {
        if self.epoch(validator) > epoch {
            return None;
        }
        self.epochs.insert(validator, epoch);
        let of_it = |staged: &&Staged| staged.stage.parties.validators.iter().any(|(of, _)| *of == validator);
        let prepared = |staged: &Staged| Prepared {
            stamp: staged.stage.stamp,
            parties: staged.stage.parties.clone(),
            keys: staged.stage.writes.iter().map(|(key, _)| key.clone()).collect(),
        };
        Some(self.staged.values().filter(of_it).map(prepared).collect())
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
