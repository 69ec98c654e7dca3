//! A commit under way, from the first question to the last answer.
//!
//! A transaction that writes asks its validators and stages its writes at the same time, but for those of its home. The
//! home gets them with the question that decides, and writes them as it decides; that is the commit. Then the other
//! writes are applied, then the validators are told, then the home may forget the transaction. One that only reads is
//! done when its validators agree.

use std::collections::{BTreeMap, BTreeSet};

use super::Layout;
use super::message::{Message, Node, Parties, Seen, Stage, Stamp, TxnName, Validate, Vote};
use crate::key::Key;
use crate::mutation::{Fault, on};
use crate::value::Value;

/// Why a transaction did not commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// These were read too old. Their copies are gone.
    Stale(Vec<Key>),
    /// Another transaction that may commit writes what this one needs.
    Busy,
    /// Its stamp was too low. The client takes a higher one for its next transaction.
    Later,
    /// Its stamp was too far ahead: the client's clock leads.
    Early,
    /// A validator has begun again.
    Epoch,
    /// Another node asked first what had become of it.
    Overtaken,
    /// No answer came in time.
    TimedOut,
}

/// What follows from a message.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing yet.
    Wait,
    /// There is something to send.
    Send,
    /// It has committed, and goes on if it writes.
    Committed,
    /// It has not, and is over.
    Aborted(Reason, Option<Stamp>),
    /// It is over.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Asking,
    Deciding,
    Applying,
    Settling,
}

/// A commit under way.
#[derive(Debug)]
pub struct Unfinished {
    name: TxnName,
    stamp: Stamp,
    strict: bool,
    /// What it has read that has to be validated.
    seen: Vec<Seen>,
    writes: BTreeMap<Key, Option<Value>>,
    layout: Layout,
    parties: Option<Parties>,
    home: bool,
    /// The validators that are asked, and their epochs.
    epochs: BTreeMap<u16, u64>,
    phase: Phase,
    validators: BTreeSet<u16>,
    shards: BTreeSet<u16>,
    began_us: u64,
    sent_us: u64,
    /// A validator has answered that it has to ask again.
    waits: bool,
}

/// What a commit is made of.
#[derive(Debug)]
pub struct Begun {
    /// Its name.
    pub name: TxnName,
    /// Its place in the order.
    pub stamp: Stamp,
    /// What it has read has to be the newest in real time.
    pub strict: bool,
    /// What it has read that has to be validated.
    pub seen: Vec<Seen>,
    /// What it writes.
    pub writes: BTreeMap<Key, Option<Value>>,
    /// Its home decides it; else this client does.
    pub home: bool,
}

/// What is to be sent.
type Sent = Vec<(Node, Message)>;

impl Unfinished {
    /// A commit that begins at `now_us`. `epoch` knows the validators' epochs.
    pub fn new(begun: Begun, layout: Layout, epoch: impl Fn(u16) -> u64, now_us: u64) -> Unfinished {
        let Begun { name, stamp, strict, seen, writes, home } = begun;
        let read = seen.iter().map(|seen| &seen.key);
        let validators: BTreeSet<u16> = read.chain(writes.keys()).map(|key| layout.validator(key)).collect();
        let epochs: BTreeMap<u16, u64> = validators.iter().map(|number| (*number, epoch(*number))).collect();
        let shards: BTreeSet<u16> = writes.keys().map(|key| layout.shard(key)).collect();
        let parties = writes.keys().next().map(|first| Parties {
            home: layout.shard(first),
            shards: shards.iter().copied().collect(),
            validators: epochs.iter().map(|(number, epoch)| (*number, *epoch)).collect(),
        });
        let shards = parties.iter().flat_map(|parties| Unfinished::staging(parties, home)).collect();
        Unfinished {
            name,
            stamp,
            strict,
            seen,
            writes,
            layout,
            parties,
            home,
            epochs,
            phase: Phase::Asking,
            validators,
            shards,
            began_us: now_us,
            sent_us: now_us,
            waits: false,
        }
    }

    /// Its place in the order.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Whether it writes.
    pub fn writes(&self) -> bool {
        self.parties.is_some()
    }

    /// What it has read that was validated.
    pub fn seen(&self) -> &[Seen] {
        &self.seen
    }

    /// What it has written.
    pub fn written(&self) -> impl Iterator<Item = (&Key, &Option<Value>)> {
        self.writes.iter()
    }

    /// What it still waits for is asked; also again, since each message may be lost.
    pub fn questions(&self) -> Sent {
        match (self.phase, &self.parties) {
            (Phase::Asking, _) => self.asking(),
            (Phase::Deciding, Some(parties)) => {
                let stage = self.stage(parties.home, parties);
                vec![(Node::Shard(parties.home), Message::Commit(stage))]
            }
            (Phase::Applying | Phase::Settling, Some(_)) => {
                let shards = self.shards.iter().map(|shard| (Node::Shard(*shard), Message::Apply(self.stamp)));
                let tell = self.phase == Phase::Settling || !self.home || on(Fault::SettledAtDecision);
                let validators = self.validators.iter().filter(|_| tell);
                let settle = |number: &u16| (Node::Validator(*number), Message::Settle(self.stamp, true));
                shards.chain(validators.map(settle)).collect()
            }
            (_, None) => Sent::new(),
        }
    }

    fn asking(&self) -> Sent {
        let mut sent = Sent::new();
        for number in &self.validators {
            let of_it = |key: &Key| self.layout.validator(key) == *number;
            let asked = Validate {
                name: self.name,
                stamp: self.stamp,
                strict: self.strict,
                epoch: self.epochs.get(number).copied().unwrap_or_default(),
                reads: self.seen.iter().filter(|seen| of_it(&seen.key)).cloned().collect(),
                writes: self.writes.keys().filter(|key| of_it(key)).cloned().collect(),
                parties: self.parties.clone(),
            };
            sent.push((Node::Validator(*number), Message::Validate(asked)));
        }
        for (shard, parties) in self.shards.iter().zip(self.parties.iter().cycle()) {
            sent.push((Node::Shard(*shard), Message::Stage(self.stage(*shard, parties))));
        }
        sent
    }

    /// The writes of one shard.
    fn stage(&self, shard: u16, parties: &Parties) -> Stage {
        let of_it = self.writes.iter().filter(|(key, _)| self.layout.shard(key) == shard);
        let writes = of_it.map(|(key, value)| (key.clone(), value.clone())).collect();
        Stage { stamp: self.stamp, parties: parties.clone(), writes }
    }

    /// The shards that have to be asked: the home gets its writes with the question that decides.
    fn staging(parties: &Parties, home: bool) -> BTreeSet<u16> {
        parties.shards.iter().copied().filter(|shard| !home || *shard != parties.home).collect()
    }

    /// All its nodes are told that it does not commit. Whichever is not told asks its home.
    pub fn undoing(&self) -> Sent {
        let Some(parties) = &self.parties else { return Sent::new() };
        let settle = |(number, _): &(u16, u64)| (Node::Validator(*number), Message::Settle(self.stamp, false));
        let drop = |shard: &u16| (Node::Shard(*shard), Message::Drop(self.stamp));
        parties.validators.iter().map(settle).chain(parties.shards.iter().map(drop)).collect()
    }

    /// Its home may forget it.
    pub fn forgetting(&self) -> Sent {
        let home = self.parties.iter().filter(|_| self.home).map(|parties| Node::Shard(parties.home));
        home.map(|home| (home, Message::Forget(self.stamp))).collect()
    }

    /// A validator has voted.
    pub fn voted(&mut self, validator: u16, epoch: u64, vote: Vote) -> Next {
        if self.phase != Phase::Asking || !self.validators.contains(&validator) {
            return Next::Wait;
        }
        match vote {
            Vote::Yes => {
                self.validators.remove(&validator);
                self.all_asked()
            }
            Vote::Stale(stale) => Next::Aborted(Reason::Stale(stale.into_iter().map(|(key, _)| key).collect()), None),
            Vote::Later(stamp) => Next::Aborted(Reason::Later, Some(stamp)),
            // What only reads holds up nothing: it asks again.
            Vote::Wait(_) | Vote::Early if !self.writes() => {
                self.waits = true;
                Next::Wait
            }
            Vote::Epoch if !self.writes() => {
                self.epochs.insert(validator, epoch);
                Next::Send
            }
            Vote::Wait(_) => Next::Aborted(Reason::Busy, None),
            Vote::Early => Next::Aborted(Reason::Early, None),
            Vote::Epoch => Next::Aborted(Reason::Epoch, None),
            Vote::Over => Next::Aborted(Reason::Overtaken, None),
        }
    }

    /// A shard has staged its writes, or refused to.
    pub fn staged(&mut self, shard: u16, staged: bool) -> Next {
        match self.phase {
            Phase::Asking if staged => {
                self.shards.remove(&shard);
                self.all_asked()
            }
            Phase::Asking => Next::Aborted(Reason::Epoch, None),
            _ => Next::Wait,
        }
    }

    fn all_asked(&mut self) -> Next {
        if !self.validators.is_empty() || !self.shards.is_empty() {
            return Next::Wait;
        }
        if self.writes() && !self.home {
            self.apply();
        } else if self.writes() {
            self.phase = Phase::Deciding;
            return if on(Fault::AnsweredUndecided) { Next::Committed } else { Next::Send };
        }
        // Also of a strict one: what it has read was there when the commit began, and the newest later.
        Next::Committed
    }

    /// Its home has decided.
    pub fn decided(&mut self, commit: bool) -> Next {
        match (self.phase, commit) {
            (Phase::Deciding, true) => {
                self.apply();
                Next::Committed
            }
            (Phase::Deciding, false) => Next::Aborted(Reason::Overtaken, None),
            _ => Next::Wait,
        }
    }

    /// It has committed: its shards and validators are to be told.
    fn apply(&mut self) {
        self.phase = Phase::Applying;
        self.shards = self.parties.iter().flat_map(|parties| Unfinished::staging(parties, self.home)).collect();
        self.validators = self.epochs.keys().copied().collect();
        if self.shards.is_empty() {
            self.phase = Phase::Settling;
        }
    }

    /// A shard has its writes.
    pub fn applied(&mut self, shard: u16) -> Next {
        if self.phase != Phase::Applying || !self.shards.remove(&shard) || !self.shards.is_empty() {
            return Next::Wait;
        }
        self.phase = Phase::Settling;
        if self.validators.is_empty() { Next::Over } else { Next::Send }
    }

    /// A validator knows that it has committed.
    pub fn settled(&mut self, validator: u16) -> Next {
        let told = matches!(self.phase, Phase::Applying | Phase::Settling) && self.validators.remove(&validator);
        let over = told && self.validators.is_empty() && self.shards.is_empty();
        if over { Next::Over } else { Next::Wait }
    }

    /// Whether it is time to ask again, at `now_us`: after `resend_us`, or `wait_us` where a validator had it wait.
    pub fn asks_again(&mut self, now_us: u64, resend_us: u64, wait_us: u64) -> bool {
        let after_us = if self.waits { resend_us.min(wait_us) } else { resend_us };
        let again = now_us.abs_diff(self.sent_us) >= after_us;
        if again {
            self.sent_us = now_us;
            self.waits = false;
        }
        again
    }

    /// For how long it is under way.
    pub fn asked_for_us(&self, now_us: u64) -> u64 {
        now_us.saturating_sub(self.began_us)
    }

    /// It has asked for longer than `give_up_us`, and may still be given up by its client alone.
    pub fn gives_up(&self, now_us: u64, give_up_us: u64) -> bool {
        self.phase == Phase::Asking && now_us.abs_diff(self.began_us) >= give_up_us
    }

    /// It waits for its decision for longer than `unknown_us`.
    pub fn is_unknown(&self, now_us: u64, unknown_us: u64) -> bool {
        self.phase == Phase::Deciding && now_us.abs_diff(self.began_us) >= unknown_us
    }
}
