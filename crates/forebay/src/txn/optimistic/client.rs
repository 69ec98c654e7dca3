//! A client: runs transactions over leased copies, and coordinates their commits (KAIROS, section 4.2).
//!
//! A read-only transaction whose copies show one moment commits without a message. All others are validated.

use std::collections::{BTreeMap, BTreeSet};

use super::commit::{Begun, Next, Reason, Unfinished};
use super::copies::{Copies, Served};
use super::message::{Document, Message, Node, Resolved, Seen, Stamp, TxnName, Vote};
use super::options::{ClientOptions, Effect, End, Event, Figures, Level};
use crate::key::Key;
use crate::mutation::{Fault, on};
use crate::value::Value;

/// A transaction that reads and writes.
#[derive(Debug)]
struct Running {
    session: u32,
    level: Level,
    reads: BTreeMap<Key, Served>,
    writes: BTreeMap<Key, Option<Value>>,
    /// The level that is being read.
    wanted: Vec<Key>,
    waits_for: BTreeSet<Key>,
    began_us: u64,
}

/// Who waits for a commit: a transaction, and its session.
type Waiting = (u64, u32);

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
#[derive(Clone, Debug, Default)]
struct Known {
    epoch: u64,
    resolved: Resolved,
}

/// One life of a client.
#[derive(Debug)]
pub struct Client {
    number: u32,
    options: ClientOptions,
    validators: Vec<Known>,
    copies: Copies,
    /// Of each session, where it has come to: nothing that it reads or writes later comes before.
    sessions: BTreeMap<u32, Stamp>,
    /// The next transaction takes a stamp above this one.
    above: Stamp,
    running: BTreeMap<u64, Running>,
    fetches: BTreeMap<u64, Fetch>,
    unfinished: BTreeMap<TxnName, (Option<Waiting>, Unfinished)>,
    next_fetch: u64,
    next_name: u32,
    figures: Figures,
}

impl Client {
    /// The life `number`, which no client had before.
    pub fn new(number: u32, options: ClientOptions) -> Client {
        let copies = Copies::new(&options);
        let validators = vec![Known::default(); usize::from(options.layout.validators.max(1))];
        Client {
            number,
            options,
            validators,
            copies,
            sessions: BTreeMap::new(),
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

    /// No transaction of this client that has not ended has a stamp up to this one, nor will one have: what the paper's
    /// clients tell each other (section 4.4).
    pub fn low_water(&self, now_us: u64) -> Stamp {
        let under_way = self.unfinished.values().filter(|(_, unfinished)| unfinished.writes());
        let first = under_way.map(|(_, unfinished)| unfinished.stamp().before()).min();
        first.unwrap_or(Stamp::MAX).min(Stamp::at(now_us))
    }

    /// Something has happened, at `now_us` by this client's clock.
    pub fn step(&mut self, event: Event, now_us: u64) -> Vec<Effect> {
        match event {
            Event::Begin(txn, session, level) => {
                let running = Running {
                    session,
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
                let resolved = self.validators[usize::from(layout.validator(key))].resolved.of(key);
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
            let now_resolved = self.validators[usize::from(self.options.layout.validator(key))].resolved.of(key);
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

    /// Nothing that the session reads or writes comes before.
    fn session(&self, number: u32) -> Stamp {
        self.sessions.get(&number).copied().unwrap_or_default()
    }

    fn commit(&mut self, txn: u64, now_us: u64) -> Vec<Effect> {
        let Some(running) = self.running.remove(&txn) else { return Vec::new() };
        if running.reads.is_empty() && running.writes.is_empty() {
            let stamp = self.session(running.session);
            return vec![self.ended((txn, running.session), false, End::Committed(stamp))];
        }
        let (waiting, rules) = ((txn, running.session), self.options.rules);
        let written = running.reads.values().map(|served| served.version).max().unwrap_or_default();
        let fresh = running.reads.values().map(|served| served.fresh);
        let (least, most) = (fresh.clone().min().unwrap_or_default(), fresh.max().unwrap_or_default());
        let name = TxnName { client: self.number, number: self.next_name };
        let above = std::mem::take(&mut self.above);
        // Below it, a transaction that compares what it has read would compare too little.
        let mut compared = None;
        let stamp = if running.writes.is_empty() {
            let session = match running.level {
                Level::Bounded(_) => Stamp::ZERO,
                _ => self.session(running.session),
            };
            let from = written.max(session);
            let aged = |age_us: u64| least < Stamp::at(now_us.saturating_sub(age_us)) && !on(Fault::AgeIgnored);
            let local = match running.level {
                Level::Bounded(age_us) => from <= least && !aged(age_us),
                Level::Session => from <= least || on(Fault::LocalUnchecked),
                Level::Strict => false,
            };
            if local && rules.local {
                self.figures.local += 1;
                let remember = running.level == Level::Session && !on(Fault::SessionForgetsReads);
                return vec![self.ended(waiting, remember, End::Committed(least))];
            }
            let from = match running.level {
                Level::Bounded(age_us) if aged(age_us) => from.max(Stamp::at(now_us.saturating_sub(age_us))),
                _ => from,
            };
            compared = on(Fault::ValidatedBelow).then_some(written);
            if self.options.freshest { from.max(most) } else { from }
        } else {
            let after = written.max(self.session(running.session)).max(above);
            Stamp::new(now_us.max(after.us().saturating_add(1)), name)
        };
        self.next_name += 1;
        let strict = running.level == Level::Strict;
        let compared = compared.unwrap_or(stamp);
        let compare = |(_, served): &(&Key, &Served)| strict || !rules.known_fresh || served.fresh < compared;
        let seen = |(key, served): (&Key, &Served)| {
            let Served { version, fresh, .. } = served;
            Seen { key: key.clone(), version: *version, fresh: *fresh }
        };
        let seen = running.reads.iter().filter(compare).map(seen).collect();
        let begun = Begun { name, stamp, strict, seen, writes: running.writes, home: rules.home };
        let epoch = |validator: u16| self.validators[usize::from(validator)].epoch;
        let unfinished = Unfinished::new(begun, self.options.layout, epoch, now_us);
        let questions = unfinished.questions();
        if questions.is_empty() {
            return vec![self.ended(waiting, true, End::Committed(stamp))];
        }
        self.unfinished.insert(name, (Some(waiting), unfinished));
        questions.into_iter().map(|(to, message)| Effect::Send(to, message)).collect()
    }

    /// The application is told how a transaction ended.
    fn ended(&mut self, (txn, session): Waiting, remember: bool, end: End) -> Effect {
        match &end {
            End::Committed(stamp) => {
                self.figures.committed += 1;
                if remember {
                    let floor = self.sessions.entry(session).or_default();
                    *floor = stamp.max(floor).to_owned();
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
            Message::Invalidate(keys, stamp) => {
                keys.iter().for_each(|key| self.copies.evict_below(key, stamp));
                return Vec::new();
            }
            Message::Resolved(validator, epoch, resolved) => {
                if let Some(known) = self.validators.get_mut(usize::from(validator)) {
                    known.epoch = known.epoch.max(epoch);
                    if resolved.closed > known.resolved.closed {
                        known.resolved = resolved;
                    }
                }
                return Vec::new();
            }
            Message::Vote(name, validator, epoch, vote) => {
                if let Some(known) = self.validators.get_mut(usize::from(validator)) {
                    known.epoch = known.epoch.max(epoch);
                }
                let evict = self.options.rules.evict && !self.unfinished.contains_key(&name);
                if let (Vote::Stale(stale), true) = (&vote, evict) {
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
                    let evict = self.options.rules.evict && !on(Fault::StaleKept);
                    let stale = over.seen().iter().filter(|seen| keys.contains(&seen.key));
                    stale.for_each(|seen| self.copies.stale(&seen.key, seen.version, evict));
                }
                let mut effects: Vec<Effect> = send(sent).collect();
                effects.extend(txn.map(|txn| self.ended(txn, false, End::Aborted(reason))));
                effects
            }
        }
    }

    /// What a commit has read is fresh up to its stamp, and what it has written is known.
    fn renew(&mut self, name: TxnName, now_us: u64) {
        if self.options.rules.renew {
            self.renew_seen(name, now_us);
        }
        let Some((_, unfinished)) = self.unfinished.get(&name).filter(|_| self.options.rules.own) else { return };
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
        let ClientOptions { resend_us, wait_us, give_up_us, unknown_us, .. } = self.options;
        let mut effects = Vec::new();
        let late = |running: &Running| now_us.abs_diff(running.began_us) >= give_up_us && !running.waits_for.is_empty();
        let given_up = self.running.iter().filter(|(_, running)| late(running));
        let given_up: Vec<Waiting> = given_up.map(|(txn, running)| (*txn, running.session)).collect();
        for waiting in given_up {
            self.running.remove(&waiting.0);
            effects.push(self.ended(waiting, false, End::Aborted(Reason::TimedOut)));
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
            if unfinished.asks_again(now_us, resend_us, wait_us) {
                let questions = unfinished.questions().into_iter();
                effects.extend(questions.map(|(to, message)| Effect::Send(to, message)));
            }
            effects.extend(untold.map(|txn| self.ended(txn, false, End::Unknown(stamp))));
        }
        effects
    }
}
