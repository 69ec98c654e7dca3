//! The world: nodes, messages under way, and what happens to them. All of it follows from a seed.

use std::collections::{BTreeMap, BTreeSet};

use forebay::mutation::{Fault, on};
use forebay::runtime::simulated::SplitMix;
use forebay::txn::optimistic::{Client, Event, Level, Message, Node, Resolved, Shard, Stamp};
use forebay::txn::validator::Validator;

use crate::actor::{Actor, Record, Script, Wanted};
use crate::judge::{self, Broken};
use crate::network::{Clock, Network};
use crate::setting::{Ran, Scenario, Setting};

enum Happening {
    Arrives(Node, Node, Message),
    Tick(Node),
    Next(usize, u32),
    GoOn(usize, u32, u64),
    Trouble,
    Begins(u16),
}

/// Real time after which there is no more trouble.
const TROUBLE_US: u64 = 400_000;
/// How long all has to be quiet at the end.
const QUIET_US: u64 = 700_000;
/// Among what goes wrong: a client pauses.
const PAUSES: u64 = 3;
const JUMP_US: i64 = 3_600_000_000;

struct World {
    setting: Setting,
    random: SplitMix,
    network: Network,
    now_us: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    next: u64,
    actors: Vec<Actor>,
    lives: u32,
    validators: Vec<(Option<Validator>, u64, Clock)>,
    shards: Vec<(Shard, Clock)>,
    records: Vec<Record>,
    /// Stamps that a home has said to be committed.
    decided: BTreeSet<Stamp>,
    transactions: u64,
    ending: bool,
    ran: Ran,
}

/// Runs one seed to its end, and judges it.
pub fn run(seed: u64, scenario: Scenario) -> Result<Ran, Broken> {
    let mut world = World::new(seed, scenario);
    world.go(TROUBLE_US)?;
    world.end_trouble();
    world.go(TROUBLE_US + QUIET_US)?;
    world.read_all()?;
    world.is_quiet()?;
    world.judged()
}

impl World {
    fn new(seed: u64, scenario: Scenario) -> World {
        let mut random = SplitMix::new(seed ^ 0x6b61_6972_6f73);
        let setting = Setting::draw(seed, scenario, &mut random);
        let Setting { layout, skew_us, clients, options, keeping, .. } = &setting;
        let mut clock = || Clock::any(&mut random, *skew_us);
        let shards = (0..layout.shards).map(|number| {
            let clock = clock();
            (Shard::new(number, keeping.clone(), clock.now_us(0)), clock)
        });
        let shards = shards.collect();
        let validators = (0..layout.validators).map(|_| (None, 0, clock())).collect();
        let actors = (1..=*clients).map(|life| {
            let mut options = options.clone();
            options.seed ^= u64::from(life);
            Actor::new(Client::new(life, options), life, clock())
        });
        let actors = actors.collect();
        let mut world = World {
            network: setting.network(seed),
            now_us: 0,
            queue: BTreeMap::new(),
            next: 0,
            actors,
            lives: *clients,
            validators,
            shards,
            records: Vec::new(),
            decided: BTreeSet::new(),
            transactions: 0,
            ending: false,
            ran: Ran::default(),
            random,
            setting,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        for number in 0..self.setting.layout.validators {
            self.happen_in(0, Happening::Begins(number));
            self.happen_in(1_000, Happening::Tick(Node::Validator(number)));
        }
        for number in 0..self.setting.layout.shards {
            self.happen_in(5_000, Happening::Tick(Node::Shard(number)));
        }
        for at in 0..self.actors.len() {
            self.happen_in(2_000, Happening::Tick(Node::Client(at as u32)));
            self.happen_in(3_000, Happening::Next(at, self.actors[at].life));
        }
        if self.setting.faulty || self.setting.scenario == Scenario::Watermarks {
            self.happen_in(10_000, Happening::Trouble);
        }
    }

    fn happen_in(&mut self, us: u64, what: Happening) {
        self.next += 1;
        self.queue.insert((self.now_us + us, self.next), what);
    }

    fn send_all(&mut self, from: Node, sent: Vec<(Node, Message)>) {
        for (to, message) in sent {
            if let Message::Decided(stamp, true) = message {
                self.decided.insert(stamp);
            }
            for at_us in self.network.arrivals(from, to, self.now_us) {
                self.next += 1;
                self.queue.insert((at_us, self.next), Happening::Arrives(from, to, message.clone()));
            }
        }
    }

    /// Goes on until `until_us`.
    fn go(&mut self, until_us: u64) -> Result<(), Broken> {
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= until_us) {
            let ((at_us, number), what) = entry.remove_entry();
            self.now_us = at_us;
            self.ran.events += 1;
            self.ran.note(at_us ^ number << 40);
            self.happens(what)?;
        }
        self.now_us = until_us;
        Ok(())
    }

    fn happens(&mut self, what: Happening) -> Result<(), Broken> {
        match what {
            Happening::Arrives(from, to, message) => self.arrives(from, to, message)?,
            Happening::Tick(node) => self.tick(node)?,
            Happening::Begins(number) => self.validator_begins(number),
            Happening::Trouble => self.trouble(),
            Happening::Next(at, life) => {
                if self.actors[at].life != life || self.ending || self.is_paused(at, Happening::Next(at, life)) {
                    return Ok(());
                }
                let script = self.script();
                self.begin_transaction(at, script);
            }
            Happening::GoOn(at, life, txn) => {
                if self.actors[at].life != life || self.is_paused(at, Happening::GoOn(at, life, txn)) {
                    return Ok(());
                }
                let wanted = self.actors[at].go_on(txn, self.now_us, &mut self.records)?;
                self.do_wanted(at, wanted);
            }
        }
        Ok(())
    }

    /// Whether the client pauses; then `what` happens afterwards.
    fn is_paused(&mut self, at: usize, what: Happening) -> bool {
        let until_us = self.actors[at].paused_until_us;
        let paused = until_us > self.now_us;
        if paused {
            self.happen_in(until_us - self.now_us, what);
        }
        paused
    }

    fn begin_transaction(&mut self, at: usize, script: Script) {
        self.transactions += 1;
        let (txn, now_us) = (self.transactions, self.now_us);
        self.actors[at].begin(script, txn, now_us, &mut self.records);
        self.happen_in(0, Happening::GoOn(at, self.actors[at].life, txn));
    }

    fn script(&mut self) -> Script {
        let mut keys = self.setting.keys.clone();
        let mut take = |random: &mut SplitMix| keys.swap_remove(random.below(keys.len() as u64) as usize);
        let first = vec![take(&mut self.random), take(&mut self.random)];
        let second = (self.random.below(2) == 0).then(|| vec![take(&mut self.random)]);
        let level = match self.setting.scenario {
            Scenario::Strict => Level::Strict,
            _ if self.random.below(4) == 0 => Level::Bounded(self.random.below(20_000)),
            _ => Level::Session,
        };
        let mut writes = Vec::new();
        if self.random.below(10) < 4 {
            let of_all = |random: &mut SplitMix| {
                self.setting.keys[random.below(self.setting.keys.len() as u64) as usize].clone()
            };
            writes.push(of_all(&mut self.random));
            if self.random.below(2) == 0 {
                writes.push(of_all(&mut self.random));
            }
        }
        Script { level, reads: std::iter::once(first).chain(second).collect(), writes }
    }

    fn do_wanted(&mut self, at: usize, wanted: Vec<Wanted>) {
        let life = self.actors[at].life;
        for wanted in wanted {
            match wanted {
                Wanted::Send(to, message) => self.send_all(Node::Client(life), vec![(to, message)]),
                Wanted::GoOn(txn) => {
                    let thinks_us = if self.random.below(2) == 0 { 0 } else { self.random.below(1_000) };
                    self.happen_in(thinks_us, Happening::GoOn(at, life, txn));
                }
                Wanted::Next => {
                    let rests_us = self.random.below(1_000);
                    self.happen_in(rests_us, Happening::Next(at, life));
                }
            }
        }
    }

    fn arrives(&mut self, from: Node, to: Node, message: Message) -> Result<(), Broken> {
        let now_us = self.now_us;
        match to {
            Node::Client(life) => {
                let Some(at) = self.actors.iter().position(|actor| actor.life == life) else { return Ok(()) };
                let until_us = self.actors[at].paused_until_us;
                if until_us > now_us {
                    self.happen_in(until_us - now_us, Happening::Arrives(from, to, message));
                    return Ok(());
                }
                if let (Node::Client(of), Message::Resolved(.., low)) = (from, &message) {
                    return self.hears_low(at, of, low.closed);
                }
                let wanted = self.actors[at].step(Event::Message(from, message), now_us, &mut self.records)?;
                self.do_wanted(at, wanted);
            }
            Node::Validator(number) => {
                let (validator, _, clock) = &mut self.validators[usize::from(number)];
                let Some(validator) = validator else { return Ok(()) };
                let sent = validator.step(from, message, clock.now_us(now_us));
                self.send_all(to, sent);
            }
            Node::Shard(number) => {
                let (shard, clock) = &mut self.shards[usize::from(number)];
                let sent = shard.step(from, message, clock.now_us(now_us));
                self.send_all(to, sent);
            }
        }
        Ok(())
    }

    /// A client hears below which stamp another has no transaction. For it that is what all validators have resolved.
    fn hears_low(&mut self, at: usize, of: u32, low: Stamp) -> Result<(), Broken> {
        let (clients, now_us) = (self.actors.len(), self.now_us);
        let Some(closed) = self.actors[at].watermark(of, low, clients, now_us) else { return Ok(()) };
        for number in 0..self.setting.layout.validators {
            let told = Message::Resolved(number, 1, Resolved { closed, held: Vec::new() });
            let event = Event::Message(Node::Validator(number), told);
            let wanted = self.actors[at].step(event, now_us, &mut self.records)?;
            self.do_wanted(at, wanted);
        }
        Ok(())
    }

    /// A client tells the others below which stamp it has no transaction.
    fn tell_low(&mut self, at: usize) {
        let actor = &self.actors[at];
        let closed = actor.core.low_water(actor.clock.now_us(self.now_us));
        let (from, told) = (actor.life, Message::Resolved(0, 1, Resolved { closed, held: Vec::new() }));
        let others = self.actors.iter().map(|other| other.life).filter(|other| *other != from);
        let sent = others.map(|other| (Node::Client(other), told.clone())).collect();
        self.send_all(Node::Client(from), sent);
    }

    fn tick(&mut self, node: Node) -> Result<(), Broken> {
        let now_us = self.now_us;
        match node {
            Node::Client(at) => {
                let at = at as usize;
                self.happen_in(2_000, Happening::Tick(node));
                if self.actors[at].paused_until_us <= now_us {
                    let wanted = self.actors[at].step(Event::Tick, now_us, &mut self.records)?;
                    self.do_wanted(at, wanted);
                    if self.setting.scenario.has_watermarks() {
                        self.tell_low(at);
                    }
                }
            }
            Node::Validator(number) => {
                self.happen_in(self.setting.publish_us, Happening::Tick(node));
                let (validator, epoch, clock) = &mut self.validators[usize::from(number)];
                let (Some(validator), epoch) = (validator, *epoch) else { return Ok(()) };
                let mut sent = validator.tick(clock.now_us(now_us));
                if let Some(resolved) = validator.resolved().filter(|_| !self.setting.scenario.has_watermarks()) {
                    let told = Message::Resolved(number, epoch, resolved);
                    sent.extend(self.actors.iter().map(|actor| (Node::Client(actor.life), told.clone())));
                }
                self.send_all(node, sent);
            }
            Node::Shard(number) => {
                self.happen_in(5_000, Happening::Tick(node));
                let (shard, clock) = &mut self.shards[usize::from(number)];
                let sent = shard.tick(clock.now_us(now_us));
                self.send_all(node, sent);
            }
        }
        Ok(())
    }

    fn validator_begins(&mut self, number: u16) {
        let (validator, epoch, _) = &mut self.validators[usize::from(number)];
        *epoch += 1;
        let (begun, sent) = Validator::new(number, *epoch, self.setting.validating.clone());
        *validator = Some(begun);
        self.send_all(Node::Validator(number), sent);
    }

    /// Something goes wrong.
    fn trouble(&mut self) {
        if self.ending {
            return;
        }
        let restarts = self.setting.scenario == Scenario::Restarts;
        let next_us = self.random.below(if restarts { 12_000 } else { 25_000 });
        self.happen_in(next_us, Happening::Trouble);
        let at = self.random.below(self.actors.len() as u64) as usize;
        let what = match self.setting.scenario {
            Scenario::Watermarks => PAUSES,
            Scenario::Restarts => self.random.below(3),
            _ => self.random.below(8),
        };
        match what {
            0 | 1 => {
                let number = self.random.below(self.validators.len() as u64) as u16;
                if self.validators[usize::from(number)].0.take().is_some() {
                    self.ran.crashes += 1;
                    let away_us = self.random.below(if restarts { 1_000 } else { 5_000 });
                    self.happen_in(away_us, Happening::Begins(number));
                    if restarts {
                        let shard = self.random.below(self.shards.len() as u64) as u16;
                        let until_us = self.now_us + self.random.below(12_000);
                        self.network.cut(Node::Validator(number), Node::Shard(shard), until_us);
                    }
                }
            }
            2 => self.client_vanishes(at),
            PAUSES | 4 => {
                self.ran.pauses += 1;
                self.actors[at].paused_until_us = self.now_us + 10_000 + self.random.below(110_000);
            }
            5 => {
                self.ran.cuts += 1;
                let nodes = self.nodes();
                let any = |random: &mut SplitMix| nodes[random.below(nodes.len() as u64) as usize];
                let (from, to) = (any(&mut self.random), any(&mut self.random));
                self.network.cut(from, to, self.now_us + self.random.below(60_000));
            }
            6 => {
                self.ran.jumps += 1;
                let forward = self.random.below(2) == 0;
                self.actors[at].clock.offset_us += if forward { JUMP_US } else { -JUMP_US };
            }
            _ => {
                self.ran.jumps += 1;
                let by_us = self.random.below(40_000) as i64 - 20_000;
                let number = self.random.below(self.validators.len() as u64) as usize;
                self.validators[number].2.offset_us += by_us;
                let number = self.random.below(self.shards.len() as u64) as usize;
                self.shards[number].1.offset_us += [-JUMP_US, JUMP_US][self.random.below(2) as usize];
            }
        }
    }

    /// Its process ends, and another one begins.
    fn client_vanishes(&mut self, at: usize) {
        self.ran.crashes += 1;
        if !on(Fault::NamesReused) {
            self.lives += 1;
        }
        let life = if on(Fault::NamesReused) { self.actors[at].life } else { self.lives };
        let mut options = self.setting.options.clone();
        options.seed ^= u64::from(self.lives);
        let clock = self.actors[at].clock;
        self.actors[at] = Actor::new(Client::new(life, options), life, clock);
        self.happen_in(1_000, Happening::Next(at, life));
    }

    fn nodes(&self) -> Vec<Node> {
        let clients = self.actors.iter().map(|actor| Node::Client(actor.life));
        let validators = (0..self.validators.len()).map(|number| Node::Validator(number as u16));
        let shards = (0..self.shards.len()).map(|number| Node::Shard(number as u16));
        clients.chain(validators).chain(shards).collect()
    }

    /// From now on all messages arrive, clocks differ by no more than the skew, and no transaction begins.
    fn end_trouble(&mut self) {
        self.ending = true;
        self.network.heal();
        let skew_us = self.setting.skew_us as i64;
        let clocks = self.actors.iter_mut().map(|actor| &mut actor.clock);
        let clocks = clocks.chain(self.shards.iter_mut().map(|(_, clock)| clock));
        let clocks = clocks.chain(self.validators.iter_mut().map(|(_, _, clock)| clock));
        clocks.for_each(|clock| clock.offset_us = clock.offset_us.clamp(-skew_us, skew_us));
    }

    /// Each client reads all, and does so soon.
    fn read_all(&mut self) -> Result<(), Broken> {
        let level = if self.setting.scenario == Scenario::Strict { Level::Strict } else { Level::Session };
        self.actors.iter_mut().for_each(|actor| actor.current = None);
        for _ in 0..600 {
            for at in 0..self.actors.len() {
                if self.actors[at].last != Some(true) && self.actors[at].current.is_none() {
                    self.actors[at].last = Some(false);
                    let script = Script { level, reads: vec![self.setting.keys.clone()], writes: Vec::new() };
                    self.begin_transaction(at, script);
                }
            }
            self.go(self.now_us + 2_000)?;
            if self.actors.iter().all(|actor| actor.last == Some(true)) {
                return Ok(());
            }
        }
        Err("a client cannot read although all is well".to_owned())
    }

    /// Nothing is left of what was under way.
    fn is_quiet(&self) -> Result<(), Broken> {
        let clients: usize = self.actors.iter().map(|actor| actor.core.sizes().1).sum();
        let validators = self.validators.iter().filter_map(|(validator, ..)| validator.as_ref());
        let open: usize = validators.map(|validator| validator.sizes().0).sum();
        let staged: usize = self.shards.iter().map(|(shard, _)| shard.staged()).sum();
        if (clients, open, staged) != (0, 0, 0) {
            return Err(format!("left over: {clients} commits, {open} prepared, {staged} staged"));
        }
        Ok(())
    }

    fn judged(mut self) -> Result<Ran, Broken> {
        let known = |record: &&Record| record.acknowledged || self.decided.contains(&record.committed.stamp);
        let all: Vec<_> = self.records.iter().filter(known).map(|record| record.committed.clone()).collect();
        judge::judge(&all)?;
        if self.setting.scenario == Scenario::Calm {
            // Stamps may be ahead of the validators' clocks, and clocks drift.
            judge::ages(&all, self.setting.validating.ahead_us + 2 * self.setting.skew_us + 500)?;
        }
        for key in &self.setting.keys {
            let last = all.iter().filter(|one| one.writes.contains(key)).map(|one| one.stamp).max();
            let shard = self.setting.layout.shard(key);
            let (version, _) = self.shards[usize::from(shard)].0.document(key);
            if version != last.unwrap_or_default() {
                return Err(format!("a commit is lost: {version:?} is there, not {last:?}"));
            }
        }
        for actor in &self.actors {
            let figures = actor.core.figures();
            self.ran.local += figures.local;
            self.ran.hits += figures.hits;
            self.ran.stale += figures.stale;
            self.ran.aborted += figures.aborted;
        }
        self.ran.committed = all.len() as u64;
        self.ran.unacknowledged = all.iter().filter(|one| one.ended_us.is_none()).count() as u64;
        Ok(self.ran)
    }
}
