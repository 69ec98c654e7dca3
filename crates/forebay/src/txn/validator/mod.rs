//! A validator: knows how its keys were written and read, and says which transactions may commit (KAIROS, section 4.3).
//!
//! What it knows is lost with its process. What it has promised is not: each promise is below a ceiling that a shard
//! keeps, and what may commit is staged at the shards. A validator that begins again promises nothing up to there. So
//! no clock decides whether a transaction is right.
//!
//! Promises, of the keys of one validator:
//!
//! * *Closed*: no transaction whose write it has not seen yet will have a stamp up to this one.
//! * *Resolved*: moreover, all writes of the key up to there are in its shard, or will never be.
//! * *Forgotten*: of writes up to there it may know nothing. What was read must be fresh beyond.

mod keys;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::optimistic::message::{Message, Node, Parties, Prepared, Stamp, TxnName, Validate, Vote};
use super::optimistic::{Layout, Resolved, Sharers};
use crate::key::Key;
use crate::mutation::{Fault, on};
use keys::Keys;

/// What a validator is told when it is made.
#[derive(Clone, Debug)]
pub struct ValidatorOptions {
    /// Which keys are its own.
    pub layout: Layout,
    /// How far what is closed stays behind the clock at least: as far as the slowest writes of late. Transactions that
    /// are slower have to try again.
    pub lag_us: u64,
    /// How far at most: one client whose clock lags holds up no others.
    pub lag_us_max: u64,
    /// How far beyond the clock a stamp may be; more than what clocks differ by.
    pub ahead_us: u64,
    /// How far beyond that a promise reaches. After a crash nothing commits for so long at most.
    pub promise_us: u64,
    /// For how long writes are remembered: the longest lease and the longest transaction.
    pub keep_us: u64,
    /// Most versions that are remembered.
    pub versions_max: usize,
    /// After so long, the home of a transaction is asked how it ended.
    pub recover_us: u64,
    /// As algorithm 3 of the paper has it: what was read has to be the last version, whatever the transaction's stamp.
    pub literal: bool,
    /// Of which keys readers are told that they were written, once they are in the shards.
    pub tells: fn(&Key) -> bool,
}

/// A transaction that may commit.
#[derive(Debug)]
struct Open {
    stamp: Stamp,
    parties: Parties,
    reads: Vec<Key>,
    writes: Vec<Key>,
    /// When it was asked about.
    since_us: u64,
    /// It has committed; the shards that have not said yet that its writes are there.
    unapplied: Option<BTreeSet<u16>>,
}

/// One life of a validator.
#[derive(Debug)]
pub struct Validator {
    number: u16,
    epoch: u64,
    options: ValidatorOptions,
    /// Shards that have not yet answered the `Fence` of this epoch. Until all have, the validator answers no message.
    unfenced: BTreeSet<u16>,
    keys: Keys,
    sharers: Sharers,
    open: BTreeMap<TxnName, Open>,
    /// Transactions that are over: a question that comes late finds them here.
    over: BTreeSet<Stamp>,
    over_names: HashSet<TxnName>,
    closed: Stamp,
    /// How late writes come, by its clock: the greatest of late. It fades.
    late_us: u64,
    /// Its keeper knows that it promises nothing above.
    ceiling: Stamp,
}

/// In each tick, how late writes come fades by this part.
const FADES: u64 = 64;

/// What is to be sent.
type Sent = Vec<(Node, Message)>;

impl Validator {
    /// The validator `number` begins `epoch`, which is greater than all before, and what it sends first.
    pub fn new(number: u16, epoch: u64, options: ValidatorOptions) -> (Validator, Sent) {
        let validator = Validator {
            number,
            epoch,
            unfenced: (0..options.layout.shards).collect(),
            keys: Keys::new(Stamp::ZERO, options.literal),
            sharers: Sharers::new(options.tells),
            open: BTreeMap::new(),
            over: BTreeSet::new(),
            over_names: HashSet::new(),
            closed: Stamp::ZERO,
            late_us: 0,
            ceiling: Stamp::ZERO,
            options,
        };
        let sent = validator.fences();
        (validator, sent)
    }

    /// What it knows to be resolved. `None`: it has not begun.
    pub fn resolved(&self) -> Option<Resolved> {
        let held = || if on(Fault::HeldUnlisted) { Vec::new() } else { self.keys.held(self.closed) };
        self.unfenced.is_empty().then(|| Resolved { closed: self.closed, held: held() })
    }

    /// Its epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Transactions that may commit, keys of which anything is known, and versions.
    pub fn sizes(&self) -> (usize, usize, usize) {
        let (keys, versions) = self.keys.sizes();
        (self.open.len(), keys, versions)
    }

    /// A message has come.
    pub fn step(&mut self, from: Node, message: Message, now_us: u64) -> Sent {
        match message {
            Message::Fenced(shard, epoch, promised, prepared) if epoch == self.epoch => {
                self.fenced(shard, promised, prepared, now_us)
            }
            _ if !self.unfenced.is_empty() => Sent::new(),
            Message::Validate(asked) => {
                let name = asked.name;
                let vote = self.vote(asked, now_us);
                vec![(from, Message::Vote(name, self.number, self.epoch, vote))]
            }
            Message::Settle(stamp, commit) => {
                let mut sent = self.settle(stamp, commit);
                sent.push((from, Message::Settled(stamp, self.number)));
                sent
            }
            Message::Reads(keys) => {
                self.sharers.read(&keys, from);
                Sent::new()
            }
            Message::Raised(epoch, ceiling) if epoch == self.epoch => {
                self.ceiling = self.ceiling.max(ceiling);
                Sent::new()
            }
            Message::Decided(stamp, commit) => self.decided(stamp, commit),
            Message::Applied(stamp, shard) => self.applied(stamp, shard),
            _ => Sent::new(),
        }
    }

    /// Time has passed: promises go on, what is old is forgotten, and transactions without an end are asked after.
    pub fn tick(&mut self, now_us: u64) -> Sent {
        if !self.unfenced.is_empty() {
            return self.fences();
        }
        let closed = Stamp::at(now_us.saturating_sub(self.options.lag_us.max(self.late_us)));
        self.late_us -= self.late_us.div_ceil(FADES);
        self.closed = self.closed.max(closed.min(self.ceiling));
        if on(Fault::ReadsForgotten) {
            self.keys.close(Stamp::at(now_us));
        }
        self.keys.close(self.closed);
        while let Some(stamp) = self.over.first().copied().filter(|stamp| *stamp <= self.closed) {
            self.over.remove(&stamp);
            self.over_names.remove(&stamp.txn());
        }
        let first = self.keys.first_prepared().map_or(self.closed, Stamp::before);
        let kept = self.closed.min(first).us().saturating_sub(self.options.keep_us);
        self.keys.forget(Stamp::at(kept), self.options.versions_max);
        let mut sent = self.asked_after(now_us);
        let ValidatorOptions { ahead_us, promise_us, layout, .. } = &self.options;
        if self.ceiling < Stamp::at(now_us + ahead_us + promise_us / 2) {
            let ceiling = Stamp::at(now_us + ahead_us + promise_us);
            let keeper = Node::Shard(layout.keeper(self.number));
            sent.push((keeper, Message::Raise(self.number, self.epoch, ceiling)));
        }
        sent
    }

    fn fences(&self) -> Sent {
        let fence = |shard: &u16| (Node::Shard(*shard), Message::Fence(self.number, self.epoch));
        self.unfenced.iter().map(fence).collect()
    }

    /// A shard stages nothing any more that counts on an earlier epoch; what it has staged may still commit.
    fn fenced(&mut self, shard: u16, promised: Stamp, prepared: Vec<Prepared>, now_us: u64) -> Sent {
        if !self.unfenced.remove(&shard) {
            return Sent::new();
        }
        self.ceiling = self.ceiling.max(promised);
        for Prepared { stamp, parties, keys } in prepared {
            if on(Fault::StagedNotReloaded) {
                continue;
            }
            let own = keys.into_iter().filter(|key| self.options.layout.validator(key) == self.number);
            let open = self.open.entry(stamp.txn()).or_insert_with(|| Open {
                stamp,
                parties,
                reads: Vec::new(),
                writes: Vec::new(),
                since_us: now_us,
                unapplied: None,
            });
            open.writes.extend(own);
        }
        if self.unfenced.is_empty() {
            // Whatever it promised before was not above that.
            self.closed = if on(Fault::NoFloor) { Stamp::ZERO } else { self.ceiling };
            self.keys = Keys::new(self.closed, self.options.literal);
            for open in self.open.values() {
                open.writes.iter().for_each(|key| self.keys.expect(key, open.stamp));
            }
        }
        self.tick(now_us)
    }

    fn vote(&mut self, asked: Validate, now_us: u64) -> Vote {
        let writes = asked.parties.is_some();
        if self.open.contains_key(&asked.name) {
            return Vote::Yes;
        }
        if self.over_names.contains(&asked.name) {
            return Vote::Over;
        }
        if asked.epoch != self.epoch {
            return Vote::Epoch;
        }
        // Others could not get past a stamp that is far ahead, and bounded reads would not see what it has written.
        let last = self.ceiling.min(Stamp::at(now_us.saturating_add(self.options.ahead_us)));
        if asked.stamp > last && !on(Fault::AboveCeiling) {
            return Vote::Early;
        }
        if writes {
            let late_us = now_us.saturating_sub(asked.stamp.us());
            self.late_us = self.late_us.max(late_us.min(self.options.lag_us_max));
        }
        if writes && asked.stamp <= self.closed && !on(Fault::WritesIntoClosed) {
            return Vote::Later(self.closed);
        }
        let vote = self.keys.judge(&asked);
        if vote == Vote::Yes {
            self.keys.prepare(&asked);
            if let Some(parties) = asked.parties {
                let reads = if asked.strict { asked.reads.into_iter().map(|seen| seen.key).collect() } else { vec![] };
                let (stamp, writes) = (asked.stamp, asked.writes);
                let open = Open { stamp, parties, reads, writes, since_us: now_us, unapplied: None };
                self.open.insert(asked.name, open);
            }
        }
        vote
    }

    /// A transaction has ended; which readers of its writes are told.
    fn settle(&mut self, stamp: Stamp, commit: bool) -> Sent {
        let name = stamp.txn();
        let mut told = Sent::new();
        if let Some(open) = self.open.remove(&name) {
            self.keys.settle(name, open.stamp, &open.reads, &open.writes, commit);
            if commit {
                told = self.sharers.written(&open.writes, stamp);
            }
        }
        if stamp > self.closed && self.over.insert(stamp) {
            self.over_names.insert(name);
        }
        told
    }

    /// Asks homes what became of transactions whose client says nothing.
    fn asked_after(&mut self, now_us: u64) -> Sent {
        let recover_us = self.options.recover_us;
        let mut sent = Sent::new();
        let mut given_up = Vec::new();
        for open in self.open.values_mut().filter(|open| open.since_us.abs_diff(now_us) >= recover_us) {
            open.since_us = now_us;
            given_up.push(open.stamp);
            sent.push((Node::Shard(open.parties.home), Message::GiveUp(open.stamp)));
        }
        if on(Fault::GivenUpAlone) {
            given_up.into_iter().for_each(|stamp| drop(self.settle(stamp, false)));
            return Sent::new();
        }
        sent
    }

    /// A home has said how a transaction ended. If it has committed, its writes must be in the shards first.
    fn decided(&mut self, stamp: Stamp, commit: bool) -> Sent {
        let Some(open) = self.open.get_mut(&stamp.txn()) else { return Sent::new() };
        let shards = open.parties.shards.clone();
        let to_all = |message: Message| shards.iter().map(|shard| (Node::Shard(*shard), message.clone())).collect();
        if !commit {
            self.settle(stamp, false);
            return to_all(Message::Drop(stamp));
        }
        open.unapplied = Some(shards.iter().copied().collect());
        if on(Fault::SettledUnapplied) {
            self.settle(stamp, true);
        }
        to_all(Message::Apply(stamp))
    }

    fn applied(&mut self, stamp: Stamp, shard: u16) -> Sent {
        let Some(open) = self.open.get_mut(&stamp.txn()) else { return Sent::new() };
        let Some(unapplied) = &mut open.unapplied else { return Sent::new() };
        unapplied.remove(&shard);
        if unapplied.is_empty() { self.settle(stamp, true) } else { Sent::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAG_US: u64 = 1_000;
    const LAG_US_MAX: u64 = 16_000;

    fn begun() -> Validator {
        let options = ValidatorOptions {
            layout: Layout { validators: 1, shards: 1, together: false },
            lag_us: LAG_US,
            lag_us_max: LAG_US_MAX,
            ahead_us: 50_000,
            promise_us: 100_000_000,
            keep_us: u64::MAX,
            versions_max: usize::MAX,
            recover_us: u64::MAX,
            literal: false,
            tells: |_| false,
        };
        let (mut validator, _) = Validator::new(0, 1, options);
        validator.step(Node::Shard(0), Message::Fenced(0, 1, Stamp::ZERO, Vec::new()), 0);
        validator.step(Node::Shard(0), Message::Raised(1, Stamp::at(90_000_000)), 0);
        validator
    }

    /// The vote on a transaction that writes one new key. Its stamp is `ago_us` before `now_us`.
    fn written(validator: &mut Validator, number: u32, ago_us: u64, now_us: u64) -> Vote {
        let name = TxnName { client: 1, number };
        let asked = Validate {
            name,
            stamp: Stamp::new(now_us - ago_us, name),
            strict: false,
            epoch: 1,
            reads: Vec::new(),
            writes: vec![Key::new(0, &number.to_be_bytes())],
            parties: Some(Parties { home: 0, shards: vec![0], validators: vec![(0, 1)] }),
        };
        validator.vote(asked, now_us)
    }

    /// Where writes wait for longer than what is closed stays behind, each would be refused, and come again.
    #[test]
    fn what_is_closed_stays_behind_slow_writes() {
        let mut validator = begun();
        let now = 1_000_000;
        validator.tick(now);
        assert_eq!(written(&mut validator, 1, 3 * LAG_US, now), Vote::Later(Stamp::at(now - LAG_US)));
        let later = now + 10 * LAG_US;
        validator.tick(later);
        assert_eq!(written(&mut validator, 2, 2 * LAG_US, later), Vote::Yes);
        // A clock that lags by a second does not hold up what is closed for as long.
        let last = later + 100 * LAG_US;
        assert!(matches!(written(&mut validator, 3, 1_000_000, last), Vote::Later(_)));
        validator.tick(last);
        assert_eq!(validator.closed, Stamp::at(last - LAG_US_MAX));
        // Where writes are fast again, it comes near again.
        (0..1_000).for_each(|tick| drop(validator.tick(last + tick)));
        validator.tick(last + 1_000);
        assert_eq!(validator.closed, Stamp::at(last));
    }
}
