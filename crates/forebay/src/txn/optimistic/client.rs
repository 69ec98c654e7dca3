//! A client: runs transactions over leased copies, and coordinates their commits (KAIROS, section 4.2).
//!
//! A read-only transaction whose copies show one moment commits without a message. All others are validated.

use std::collections::{BTreeMap, BTreeSet};

use super::Layout;
use super::commit::{Begun, Next, Unfinished};
use super::copies::{Copies, Served};
use super::message::{Document, Message, Node, Seen, Stamp, TxnName, Vote};
use crate::key::Key;
use crate::lease::Leases;
use crate::mutation::{Fault, on};
use crate::value::Value;

pub use super::commit::Reason;

/// What a transaction sees of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// All that it reads was there together, at most so many microseconds ago.
    Bounded(u64),
    /// Nothing before the last commit that its client was told of.
    Session,
    /// All that was committed before it began. Holds among strict transactions, where all are strict.
    Strict,
}

/// What a client is told when it is made.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Where keys are.
    pub layout: Layout,
    /// For how long copies are used.
    pub leases: Leases,
    /// Most copies.
    pub copies_max: usize,
    /// A read-only transaction that is validated is so for the latest moment that one of its copies knows of. Else for
    /// the earliest that it can have: it aborts more rarely, and its copies are renewed for less.
    pub freshest: bool,
    /// What is not answered for so long is asked again.
    pub resend_us: u64,
    /// After so long, a transaction that is not decided is given up.
    pub give_up_us: u64,
    /// After so long, the application is told that the outcome is unknown.
    pub unknown_us: u64,
    /// Leases that begin together end apart by this.
    pub seed: u64,
}

/// What a client is asked for. Transactions are named by numbers that the caller chooses.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A transaction begins.
    Begin(u64, Level),
    /// It reads these, as one level.
    Read(u64, Vec<Key>),
    /// It writes this; `None` removes.
    Write(u64, Key, Option<Value>),
    /// It is to commit.
    Commit(u64),
    /// It is given up.
    Abort(u64),
    /// A message has come.
    Message(Node, Message),
    /// Time has passed.
    Tick,
}

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It has committed, at this place in the order.
    Committed(Stamp),
    /// It has not.
    Aborted(Reason),
    /// It has committed, or it will not: no answer came.
    Unknown(Stamp),
}

/// What a client wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send this.
    Send(Node, Message),
    /// Tell the transaction what it has read.
    Read(u64, Vec<(Key, Served)>),
    /// Tell it how it ended.
    Ended(u64, End),
}

/// What a client has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Reads that a copy served.
    pub hits: u64,
    /// Reads that a shard served.
    pub fetched: u64,
    /// Transactions that committed without a message.
    pub local: u64,
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that did not, for what they had read.
    pub stale: u64,
    /// Transactions that did not, for another reason.
    pub aborted: u64,
}

/// A transaction that reads and writes.
#[derive(Debug)]
struct Running {
    level: Level,
    reads: BTreeMap<Key, Served>,
    writes: BTreeMap<Key, Option<Value>>,
    /// The level that is being read.
    wanted: Vec<Key>,
    waits_for: BTreeSet<Key>,
    began_us: u64,
}

/// A request to a shard.
#[derive(Debug)]
struct Fetch {
    txn: u64,
    shard: u16,
    /// Each key, and up to where all its writes were in the shard before the request was sent.
    keys: Vec<(Key, Stamp)>,
    sent_us: u64,
}

/// What is known of a validator.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    epoch: u64,
    resolved: Stamp,
}

/// One life of a client.
#[derive(Debug)]
pub struct Client {
    number: u32,
    options: ClientOptions,
    validators: Vec<Known>,
    copies: Copies,
    /// Nothing that this client reads or writes comes before.
    session: Stamp,
    /// The next transaction takes a stamp above this one.
    above: Stamp,
    running: BTreeMap<u64, Running>,
    fetches: BTreeMap<u64, Fetch>,
    unfinished: BTreeMap<TxnName, (Option<u64>, Unfinished)>,
    next_fetch: u64,
    next_name: u32,
    figures: Figures,
}

impl Client {
    /// The life `number`, which no client had before.
    pub fn new(number: u32, options: ClientOptions) -> Client {
        let copies = Copies::new(options.leases, options.copies_max, options.seed);
        let validators = vec![Known::default(); usize::from(options.layout.validators.max(1))];
        Client {
            number,
            options,
            validators,
            copies,
            session: Stamp::ZERO,
            above: Stamp::ZERO,
            running: BTreeMap::new(),
            fetches: BTreeMap::new(),
            unfinished: BTreeMap::new(),
            next_fetch: 0,
            next_name: 1,
            figures: Figures::default(),
        }
    }

    /// What it has counted.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// Transactions and commits under way, and copies.
    pub fn sizes(&self) -> (usize, usize, usize) {
        (self.running.len(), self.unfinished.len(), self.copies.len())
    }

    /// Something has happened, at `now_us` by this client's clock.
    pub fn step(&mut self, event: Event, now_us: u64) -> Vec<Effect> {
        match event {
            Event::Begin(txn, level) => {
                let running = Running {
                    level,
                    reads: BTreeMap::new(),
                    writes: BTreeMap::new(),
                    wanted: Vec::new(),
                    waits_for: BTreeSet::new(),
                    began_us: now_us,
                };
                self.running.insert(txn, running);
                Vec::new()
            }
            Event::Read(txn, keys) => self.read(txn, keys, now_us),
            Event::Write(txn, key, value) => {
                if let Some(running) = self.running.get_mut(&txn) {
                    running.writes.insert(key, value);
                }
                Vec::new()
            }
            Event::Commit(txn) => self.commit(txn, now_us),
            Event::Abort(txn) => {
                self.running.remove(&txn);
                Vec::new()
            }
            Event::Message(_, message) => self.message(message, now_us),
            Event::Tick => self.tick(now_us),
        }
    }

    /// Each key from the transaction's writes, what it has read, a copy, or else from its shard.
    fn read(&mut self, txn: u64, keys: Vec<Key>, now_us: u64) -> Vec<Effect> {
        let layout = self.options.layout;
        let Some(running) = self.running.get_mut(&txn) else { return Vec::new() };
        let mut missing: BTreeMap<u16, Vec<(Key, Stamp)>> = BTreeMap::new();
        for key in &keys {
            if running.writes.contains_key(key) || running.reads.contains_key(key) {
                continue;
            }
            if let Some(served) = self.copies.serve(key, now_us) {
                self.figures.hits += 1;
                running.reads.insert(key.clone(), served);
            } else if running.waits_for.insert(key.clone()) {
                self.figures.fetched += 1;
                // Asked for later, it could cover a write that the reply has missed.
                let resolved = self.validators[usize::from(layout.validator(key))].resolved;
                missing.entry(layout.shard(key)).or_default().push((key.clone(), resolved));
            }
        }
        running.wanted = keys;
        let mut effects = Vec::new();
        for (shard, keys) in missing {
            self.next_fetch += 1;
            let asked = keys.iter().map(|(key, _)| key.clone()).collect();
            effects.push(Effect::Send(Node::Shard(shard), Message::Get(self.next_fetch, asked)));
            self.fetches.insert(self.next_fetch, Fetch { txn, shard, keys, sent_us: now_us });
        }
        effects.extend(self.read_if_there(txn));
        effects
    }

    /// Tells the transaction what it has read, once all of the level is there.
    fn read_if_there(&mut self, txn: u64) -> Option<Effect> {
        let running = self.running.get_mut(&txn).filter(|running| running.waits_for.is_empty())?;
        let own = |value: &Option<Value>| Served {
            version: Stamp::ZERO,
            fresh: Stamp::ZERO,
            value: value.clone(),
            cached: false,
        };
        let read = |key: Key| {
            let served = running.writes.get(&key).map(own).or_else(|| running.reads.get(&key).cloned());
            served.map(|served| (key, served))
        };
        let served = std::mem::take(&mut running.wanted).into_iter().filter_map(read).collect();
        Some(Effect::Read(txn, served))
    }

    fn got(&mut self, number: u64, documents: Vec<Document>, now_us: u64) -> Vec<Effect> {
        let Some(fetch) = self.fetches.remove(&number) else { return Vec::new() };
        for document in documents {
            let Some((key, resolved)) = fetch.keys.iter().find(|(key, _)| *key == document.key) else { continue };
            let now_resolved = self.validators[usize::from(self.options.layout.validator(key))].resolved;
            let fresh = document.version.max(if on(Fault::FreshWhenRead) { now_resolved } else { *resolved });
            self.copies.keep(&document, fresh, now_us);
            if let Some(running) = self.running.get_mut(&fetch.txn) {
                running.waits_for.remove(key);
                let Document { version, value, .. } = document;
                running.reads.insert(key.clone(), Served { version, fresh, value, cached: false });
            }
        }
        self.read_if_there(fetch.txn).into_iter().collect()
    }

    fn commit(&mut self, txn: u64, now_us: u64) -> Vec<Effect> {
        let Some(running) = self.running.remove(&txn) else { return Vec::new() };
        if running.reads.is_empty() && running.writes.is_empty() {
            return vec![self.ended(txn, false, End::Committed(self.session))];
        }
        let written = running.reads.values().map(|served| served.version).max().unwrap_or_default();
        let fresh = running.reads.values().map(|served| served.fresh);
        let (least, most) = (fresh.clone().min().unwrap_or_default(), fresh.max().unwrap_or_default());
        let name = TxnName { client: self.number, number: self.next_name };
        let above = std::mem::take(&mut self.above);
        // Below it, a transaction that compares what it has read would compare too little.
        let mut compared = None;
        let stamp = if running.writes.is_empty() {
            let session = if let Level::Bounded(_) = running.level { Stamp::ZERO } else { self.session };
            let from = written.max(session);
            let aged = |age_us: u64| least < Stamp::at(now_us.saturating_sub(age_us)) && !on(Fault::AgeIgnored);
            let local = match running.level {
                Level::Bounded(age_us) => from <= least && !aged(age_us),
                Level::Session => from <= least || on(Fault::LocalUnchecked),
                Level::Strict => false,
            };
            if local {
                self.figures.local += 1;
                let remember = running.level == Level::Session && !on(Fault::SessionForgetsReads);
                return vec![self.ended(txn, remember, End::Committed(least))];
            }
            let from = match running.level {
                Level::Bounded(age_us) if aged(age_us) => from.max(Stamp::at(now_us.saturating_sub(age_us))),
                _ => from,
            };
            compared = on(Fault::ValidatedBelow).then_some(written);
            if self.options.freshest { from.max(most) } else { from }
        } else {
            let after = written.max(self.session).max(above);
            Stamp::new(now_us.max(after.us().saturating_add(1)), name)
        };
        self.next_name += 1;
        let strict = running.level == Level::Strict;
        let compared = compared.unwrap_or(stamp);
        let compare = |(_, served): &(&Key, &Served)| strict || served.fresh < compared;
        let seen = |(key, served): (&Key, &Served)| {
            let Served { version, fresh, .. } = served;
            Seen { key: key.clone(), version: *version, fresh: *fresh }
        };
        let seen = running.reads.iter().filter(compare).map(seen).collect();
        let begun = Begun { name, stamp, strict, seen, writes: running.writes };
        let epoch = |validator: u16| self.validators[usize::from(validator)].epoch;
        let unfinished = Unfinished::new(begun, self.options.layout, epoch, now_us);
        let questions = unfinished.questions();
        if questions.is_empty() {
            return vec![self.ended(txn, true, End::Committed(stamp))];
        }
        self.unfinished.insert(name, (Some(txn), unfinished));
        questions.into_iter().map(|(to, message)| Effect::Send(to, message)).collect()
    }

    /// The application is told how a transaction ended.
    fn ended(&mut self, txn: u64, remember: bool, end: End) -> Effect {
        match &end {
            End::Committed(stamp) => {
                self.figures.committed += 1;
                if remember {
                    self.session = self.session.max(*stamp);
                }
            }
            End::Aborted(Reason::Stale(_)) => self.figures.stale += 1,
            End::Aborted(_) | End::Unknown(_) => self.figures.aborted += 1,
        }
        Effect::Ended(txn, end)
    }

    fn message(&mut self, message: Message, now_us: u64) -> Vec<Effect> {
        let (name, next) = match message {
            Message::Got(number, documents) => return self.got(number, documents, now_us),
            Message::Resolved(validator, epoch, resolved) => {
                if let Some(known) = self.validators.get_mut(usize::from(validator)) {
                    known.epoch = known.epoch.max(epoch);
                    known.resolved = known.resolved.max(resolved);
                }
                return Vec::new();
            }
            Message::Vote(name, validator, epoch, vote) => {
                if let Some(known) = self.validators.get_mut(usize::from(validator)) {
                    known.epoch = known.epoch.max(epoch);
                }
                if let (Vote::Stale(stale), false) = (&vote, self.unfinished.contains_key(&name)) {
                    // It was aborted by the first such vote.
                    stale.iter().for_each(|(key, newest)| self.copies.evict_below(key, newest.unwrap_or(Stamp::MAX)));
                }
                (name, self.with(name, |unfinished| unfinished.voted(validator, epoch, vote)))
            }
            Message::Staged(stamp, shard, staged) => {
                (stamp.txn(), self.with(stamp.txn(), |unfinished| unfinished.staged(shard, staged)))
            }
            Message::Decided(stamp, commit) => {
                (stamp.txn(), self.with(stamp.txn(), |unfinished| unfinished.decided(commit)))
            }
            Message::Applied(stamp, shard) => {
                (stamp.txn(), self.with(stamp.txn(), |unfinished| unfinished.applied(shard)))
            }
            Message::Settled(stamp, validator) => {
                (stamp.txn(), self.with(stamp.txn(), |unfinished| unfinished.settled(validator)))
            }
            _ => return Vec::new(),
        };
        self.follow(name, next, now_us)
    }

    fn with(&mut self, name: TxnName, work: impl FnOnce(&mut Unfinished) -> Next) -> Next {
        self.unfinished.get_mut(&name).map_or(Next::Wait, |(_, unfinished)| work(unfinished))
    }

    /// Does what follows for a commit.
    fn follow(&mut self, name: TxnName, next: Next, now_us: u64) -> Vec<Effect> {
        let send = |sent: Vec<(Node, Message)>| sent.into_iter().map(|(to, message)| Effect::Send(to, message));
        let Some((txn, unfinished)) = self.unfinished.get_mut(&name) else { return Vec::new() };
        match next {
            Next::Wait => Vec::new(),
            Next::Send => send(unfinished.questions()).collect(),
            Next::Over => {
                let sent = unfinished.forgetting();
                self.unfinished.remove(&name);
                send(sent).collect()
            }
            Next::Committed => {
                let (stamp, writes) = (unfinished.stamp(), unfinished.writes());
                let forgotten = if writes { Fault::SessionForgetsWrites } else { Fault::SessionForgetsReads };
                let mut effects: Vec<Effect> = send(unfinished.questions()).filter(|_| writes).collect();
                let txn = txn.take();
                self.renew(name, now_us);
                if !writes {
                    self.unfinished.remove(&name);
                }
                effects.extend(txn.map(|txn| self.ended(txn, !on(forgotten), End::Committed(stamp))));
                effects
            }
            Next::Aborted(reason, above) => {
                let sent = unfinished.undoing();
                let txn = txn.take();
                if let Some(above) = above {
                    // What is closed goes on while the next question is on its way.
                    let ahead_us = 2 * unfinished.asked_for_us(now_us);
                    self.above = self.above.max(Stamp::at(above.us().saturating_add(1 + ahead_us)));
                }
                if on(Fault::RenewedByFailure) {
                    self.renew_seen(name, now_us);
                }
                let Some((_, over)) = self.unfinished.remove(&name) else { return Vec::new() };
                if let Reason::Stale(keys) = &reason {
                    let stale = over.seen().iter().filter(|seen| keys.contains(&seen.key) && !on(Fault::StaleKept));
                    stale.for_each(|seen| self.copies.evict(&seen.key, seen.version));
                }
                let mut effects: Vec<Effect> = send(sent).collect();
                effects.extend(txn.map(|txn| self.ended(txn, false, End::Aborted(reason))));
                effects
            }
        }
    }

    /// What a commit has read is fresh up to its stamp, and what it has written is known.
    fn renew(&mut self, name: TxnName, now_us: u64) {
        self.renew_seen(name, now_us);
        let Some((_, unfinished)) = self.unfinished.get(&name) else { return };
        let stamp = unfinished.stamp();
        for (key, value) in unfinished.written() {
            self.copies.keep_own(key, value.clone(), stamp, now_us);
        }
    }

    fn renew_seen(&mut self, name: TxnName, now_us: u64) {
        let Some((_, unfinished)) = self.unfinished.get(&name) else { return };
        for seen in unfinished.seen() {
            self.copies.renew(&seen.key, seen.version, unfinished.stamp(), now_us);
        }
    }

    /// What is not answered is asked again, or given up.
    fn tick(&mut self, now_us: u64) -> Vec<Effect> {
        let ClientOptions { resend_us, give_up_us, unknown_us, .. } = self.options;
        let mut effects = Vec::new();
        let late = |running: &Running| now_us.abs_diff(running.began_us) >= give_up_us && !running.waits_for.is_empty();
        let given_up: Vec<u64> =
            self.running.iter().filter(|(_, running)| late(running)).map(|(txn, _)| *txn).collect();
        for txn in given_up {
            self.running.remove(&txn);
            effects.push(self.ended(txn, false, End::Aborted(Reason::TimedOut)));
        }
        self.fetches.retain(|_, fetch| self.running.contains_key(&fetch.txn));
        for (number, fetch) in &mut self.fetches {
            if now_us.abs_diff(fetch.sent_us) >= resend_us {
                fetch.sent_us = now_us;
                let keys = fetch.keys.iter().map(|(key, _)| key.clone()).collect();
                effects.push(Effect::Send(Node::Shard(fetch.shard), Message::Get(*number, keys)));
            }
        }
        let names: Vec<TxnName> = self.unfinished.keys().copied().collect();
        for name in names {
            let Some((txn, unfinished)) = self.unfinished.get_mut(&name) else { continue };
            if unfinished.gives_up(now_us, give_up_us) {
                effects.extend(self.follow(name, Next::Aborted(Reason::TimedOut, None), now_us));
                continue;
            }
            let stamp = unfinished.stamp();
            let untold = unfinished.is_unknown(now_us, unknown_us).then(|| txn.take()).flatten();
            if unfinished.asks_again(now_us, resend_us) {
                let questions = unfinished.questions().into_iter();
                effects.extend(questions.map(|(to, message)| Effect::Send(to, message)));
            }
            effects.extend(untold.map(|txn| self.ended(txn, false, End::Unknown(stamp))));
        }
        effects
    }
}
