//! The simulation: machines, packets between them, and the cores of `txn/optimistic` and `txn/validator` on them.
//!
//! A packet arrives, waits for a core of its machine, and is worked off. What the protocol's core wants sent goes out
//! in one packet for each machine. Only what is told of here takes time. Documents have no size; those that were never
//! written are nowhere.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use forebay::lease::Leases;
use forebay::txn::optimistic::{Client, Effect, Event, Layout, Message, Node, Resolved, Shard, Stamp};
use forebay::txn::validator::Validator;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::application::{Application, Follows};
use super::machine::{CLOCK_BEGAN_US, Machine, Nanos};
use super::nodes;
use super::outcome::Outcome;
use super::popularity::{self, Popularity};
use super::setting::{Freshness, Load, Setting, Told, popular};
use super::sizes;

/// One way through the network, in microseconds (section 5): at least and at most.
const ONE_WAY_US: (f64, f64) = (450.0, 550.0);
/// Cores of a machine that runs applications.
const CLIENT_CORES: usize = 4;
/// Transactions at a time in a client, at most, where they come by chance.
const THREADS_MAX: u32 = 1000;
/// After a validator's start.
const BEGIN_NANOS: Nanos = 5_000_000;

/// Messages between two machines.
type Packet = Vec<(Node, Node, Message)>;

enum Happening {
    Arrives(usize, Packet),
    Served(usize, Packet),
    Begins(u32, u32),
    Comes(u32),
    ClientTick(u32),
    ValidatorTick(u16),
    ShardTick(u16),
}

/// In the order of time.
struct Entry {
    at: (Nanos, u64),
    what: Happening,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.at == other.at
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

struct World {
    setting: Setting,
    layout: Layout,
    now: Nanos,
    queue: BinaryHeap<Reverse<Entry>>,
    next: u64,
    machines: Vec<Machine>,
    applications: Vec<Application>,
    idle: Vec<Vec<u32>>,
    validators: Vec<Validator>,
    shards: Vec<Shard>,
    /// By machine and target: what goes with the next packet, or with the next tick.
    riding: Vec<BTreeMap<usize, Packet>>,
    random: SmallRng,
    counted: Outcome,
}

/// Runs a setting.
pub fn run(setting: &Setting) -> Outcome {
    let mut world = World::new(*setting);
    let (warm_s, counted_s) = setting.seconds;
    let nanos = |seconds: f64| (seconds * 1e9) as Nanos;
    world.go(BEGIN_NANOS + nanos(warm_s));
    world.counted = Outcome::default();
    let local = |world: &World| world.applications.iter().map(|one| one.core.figures().local).sum::<u64>();
    let before = local(&world);
    world.go(BEGIN_NANOS + nanos(warm_s + counted_s));
    let after = local(&world);
    Outcome { seconds: counted_s, local: after - before, ..world.counted }
}

impl World {
    fn new(setting: Setting) -> World {
        let together = !setting.system.validators;
        let validators = if together { setting.shards } else { setting.validators };
        let layout = Layout { validators, shards: setting.shards, together };
        let mut random = SmallRng::seed_from_u64(setting.seed);
        let machines = (0..setting.clients + u32::from(setting.shards)).map(|number| {
            let off = setting.skew_us as f64 * (2.0 * random.random::<f64>() - 1.0);
            let wrong = if number < setting.clients && number % 2 == 0 { setting.wrong_us } else { 0 };
            Machine::new(if number < setting.clients { CLIENT_CORES } else { 1 }, off as i64 + wrong)
        });
        let machines: Vec<Machine> = machines.collect();
        let client =
            |number: u32| Application::new(Client::new(number, nodes::client(&setting, layout)), number, &setting);
        let mut world = World {
            layout,
            now: 0,
            queue: BinaryHeap::new(),
            next: 0,
            machines,
            applications: (0..setting.clients).map(client).collect(),
            idle: vec![(0..THREADS_MAX).rev().collect(); setting.clients as usize],
            validators: Vec::new(),
            shards: nodes::shards(&setting, layout),
            random,
            counted: Outcome::default(),
            riding: vec![BTreeMap::new(); setting.clients as usize + usize::from(setting.shards)],
            setting,
        };
        world.begin(validators);
        if setting.system.leases != Leases::None && setting.filled {
            (0..setting.clients).for_each(|client| world.fill(client));
        }
        world
    }

    /// A client has read the most popular keys for long: it knows how often it reads them, and has copies.
    fn fill(&mut self, client: u32) {
        let setting = self.setting;
        let reads = Popularity::new(setting.keys, setting.alpha_read);
        let per_second = setting.reads_per_second() / f64::from(setting.clients);
        let copies = (setting.keys as f64 * setting.cache) as u64;
        let core = &mut self.applications[client as usize].core;
        // Nothing was written that is not in the shards.
        for number in 0..self.layout.validators {
            let resolved = Resolved { closed: Stamp::at(CLOCK_BEGAN_US - 1), held: Vec::new() };
            let told = Message::Resolved(number, 1, resolved);
            core.step(Event::Message(Node::Validator(number), told), CLOCK_BEGAN_US);
        }
        for rank in (0..copies).filter(|rank| rank % u64::from(setting.routed) == u64::from(client % setting.routed)) {
            let key = popularity::key(rank);
            let gap_us = 1e6 / (per_second * reads.share(rank) * f64::from(setting.routed));
            for (txn, us) in [(0, CLOCK_BEGAN_US - gap_us as u64), (1, CLOCK_BEGAN_US)] {
                core.step(Event::Begin(txn, 0, setting.system.level), us);
                for effect in core.step(Event::Read(txn, vec![key.clone()]), us) {
                    let Effect::Send(shard, question) = effect else { continue };
                    let Node::Shard(number) = shard else { continue };
                    for (_, answer) in self.shards[usize::from(number)].step(Node::Client(client), question, us) {
                        core.step(Event::Message(shard, answer), us);
                    }
                }
                core.step(Event::Abort(txn), us);
            }
        }
    }

    fn begin(&mut self, validators: u16) {
        for number in 0..validators {
            let (validator, sent) = Validator::new(number, 1, nodes::validator(&self.setting, self.layout));
            self.validators.push(validator);
            let from = Node::Validator(number);
            self.send(self.machine(from), 0, from, sent);
            self.happen(1_000_000 + u64::from(number) * 100_000, Happening::ValidatorTick(number));
        }
        for number in 0..self.setting.shards {
            self.happen(2_000_000, Happening::ShardTick(number));
        }
        for client in 0..self.setting.clients {
            self.happen(2_000_000 + u64::from(client) * 100_000, Happening::ClientTick(client));
            match self.setting.load {
                Load::Closed(threads) => {
                    for thread in 0..threads {
                        // Not all at once.
                        let at = BEGIN_NANOS + u64::from(thread) * 50_000 + u64::from(client) * 5_000;
                        self.happen(at, Happening::Begins(client, thread));
                    }
                }
                Load::Open(_) => self.happen(BEGIN_NANOS, Happening::Comes(client)),
            }
        }
    }

    fn happen(&mut self, at: Nanos, what: Happening) {
        self.next += 1;
        self.queue.push(Reverse(Entry { at: (at.max(self.now), self.next), what }));
    }

    fn go(&mut self, until: Nanos) {
        while self.queue.peek().is_some_and(|Reverse(entry)| entry.at.0 <= until) {
            let Some(Reverse(entry)) = self.queue.pop() else { break };
            self.now = entry.at.0;
            self.happens(entry.what);
        }
        self.now = until;
    }

    fn happens(&mut self, what: Happening) {
        match what {
            Happening::Arrives(machine, packet) => {
                let receives =
                    if self.is_client(machine) { self.setting.costs.client_packet } else { self.setting.costs.receive };
                self.serve(machine, receives, packet);
            }
            Happening::Served(machine, packet) => self.served(machine, packet),
            Happening::Begins(client, thread) => {
                let (now, clock_us) = (self.now, self.machines[client as usize].clock_us(self.now));
                let follows = self.applications[client as usize].begin(thread, now, clock_us, &mut self.counted);
                self.follow(client, follows);
            }
            Happening::Comes(client) => self.comes(client),
            Happening::ClientTick(client) => {
                self.happen(self.now + 1_000_000, Happening::ClientTick(client));
                let riding = std::mem::take(&mut self.riding[client as usize]);
                for (target, packet) in riding.into_iter().filter(|(_, packet)| !packet.is_empty()) {
                    self.leave(client as usize, target, self.now, packet);
                }
                let (now, clock_us) = (self.now, self.machines[client as usize].clock_us(self.now));
                let follows = self.applications[client as usize].step(Event::Tick, now, clock_us, &mut self.counted);
                self.follow(client, follows);
            }
            Happening::ValidatorTick(number) => self.validator_tick(number),
            Happening::ShardTick(number) => {
                self.happen(self.now + 100_000_000, Happening::ShardTick(number));
                let from = Node::Shard(number);
                let machine = self.machine(from);
                let sent = self.shards[usize::from(number)].tick(self.machines[machine].clock_us(self.now));
                self.send(machine, self.now, from, sent);
            }
        }
    }

    /// A transaction comes, and the time of the next one is drawn.
    fn comes(&mut self, client: u32) {
        let Load::Open(rate) = self.setting.load else { return };
        let mean_s = f64::from(self.setting.clients) / rate;
        let gap_s = -mean_s * (1.0 - self.random.random::<f64>()).ln();
        self.happen(self.now + (gap_s * 1e9) as Nanos, Happening::Comes(client));
        // Without a free thread, the application does not take it.
        if let Some(thread) = self.idle[client as usize].pop() {
            self.happens(Happening::Begins(client, thread));
        }
    }

    fn validator_tick(&mut self, number: u16) {
        let every_us = if let Freshness::Resolved(us) = self.setting.system.freshness { us } else { 5_000 };
        self.happen(self.now + every_us * 1000, Happening::ValidatorTick(number));
        let from = Node::Validator(number);
        let machine = self.machine(from);
        let mut sent = self.validators[usize::from(number)].tick(self.machines[machine].clock_us(self.now));
        if matches!(self.setting.system.freshness, Freshness::Resolved(_)) {
            let told = self.resolved(number);
            sent.extend((0..self.setting.clients).filter_map(|client| Some((Node::Client(client), told.clone()?))));
        }
        self.send(machine, self.now, from, sent);
    }

    fn resolved(&self, number: u16) -> Option<Message> {
        let validator = &self.validators[usize::from(number)];
        Some(Message::Resolved(number, validator.epoch(), validator.resolved()?))
    }

    /// The machine of a node: applications first, then shards. Validators are beside shards, or beside applications.
    fn machine(&self, node: Node) -> usize {
        let clients = self.setting.clients as usize;
        match node {
            Node::Client(number) => number as usize,
            Node::Shard(number) => clients + usize::from(number),
            Node::Validator(number) if self.layout.together => clients + usize::from(number),
            Node::Validator(number) => usize::from(number) % clients,
        }
    }

    fn is_client(&self, machine: usize) -> bool {
        machine < self.setting.clients as usize
    }

    /// A machine has a packet to work off.
    fn serve(&mut self, machine: usize, receives: f64, packet: Packet) {
        let us = receives + packet.iter().map(|(_, to, message)| self.work(*to, message)).sum::<f64>();
        self.counted.server_us += if self.is_client(machine) { 0.0 } else { us };
        let done = self.machines[machine].work(self.now, us);
        self.happen(done, Happening::Served(machine, packet));
    }

    /// What a message costs where it goes to, in microseconds.
    fn work(&self, to: Node, message: &Message) -> f64 {
        let costs = &self.setting.costs;
        match (to, message) {
            (Node::Client(_), Message::Invalidate(keys, _)) => costs.client_read * keys.len() as f64,
            (Node::Client(_), _) => 0.0,
            (_, Message::Get(_, keys)) => costs.read * keys.len() as f64,
            (_, Message::Validate(asked)) => costs.check * (asked.reads.len() + asked.writes.len()) as f64,
            (_, Message::Reads(keys)) => costs.check * keys.len() as f64,
            // Both backups are told, and answer.
            (_, Message::Stage(stage) | Message::Commit(stage)) => {
                costs.write * stage.writes.len() as f64 + 2.0 * (costs.send + costs.receive)
            }
            (_, Message::Apply(_)) => costs.write,
            (_, Message::Settle(..)) => costs.check,
            _ => 0.0,
        }
    }

    fn served(&mut self, machine: usize, packet: Packet) {
        self.counted.bytes += packet.iter().map(|(_, _, message)| sizes::copied(message)).sum::<u64>();
        let clock_us = self.machines[machine].clock_us(self.now);
        let (mut sent, mut told): (Packet, Option<u16>) = (Vec::new(), None);
        for (from, to, message) in packet {
            match to {
                Node::Client(client) => self.client_step(client, from, message),
                Node::Shard(number) => {
                    let answers = self.shards[usize::from(number)].step(from, message, clock_us);
                    sent.extend(answers.into_iter().map(|(target, message)| (to, target, message)));
                    told = told.or(self.layout.together.then_some(number));
                }
                Node::Validator(number) => {
                    let answers = self.validators[usize::from(number)].step(from, message, clock_us);
                    sent.extend(answers.into_iter().map(|(target, message)| (to, target, message)));
                    told = Some(number);
                }
            }
        }
        // An answer says what is resolved by now.
        let resolves = matches!(self.setting.system.freshness, Freshness::Resolved(_));
        if let Some(resolved) = told.filter(|_| resolves).and_then(|number| self.resolved(number)) {
            let clients: Vec<Node> =
                sent.iter().map(|(_, to, _)| *to).filter(|to| matches!(to, Node::Client(_))).collect();
            sent.extend(
                clients.into_iter().map(|to| (Node::Validator(told.unwrap_or_default()), to, resolved.clone())),
            );
        }
        self.send_all(machine, self.now, sent);
    }

    fn client_step(&mut self, client: u32, from: Node, message: Message) {
        let now = self.now;
        let clock_us = self.machines[client as usize].clock_us(now);
        let application = &mut self.applications[client as usize];
        // Another client's watermark holds for the keys of all validators.
        let messages = match (from, message) {
            (Node::Client(of), Message::Resolved(_, epoch, low)) => {
                let low = application.watermark(of, low.closed, self.setting.clients, clock_us);
                let resolved = low.map(|closed| Resolved { closed, held: Vec::new() });
                let told = |v: u16, resolved| (Node::Validator(v), Message::Resolved(v, epoch, resolved));
                let of_each = |of_all: Resolved| (0..self.layout.validators).map(move |v| told(v, of_all.clone()));
                resolved.into_iter().flat_map(of_each).collect()
            }
            (_, message) => vec![(from, message)],
        };
        for (from, message) in messages {
            let event = Event::Message(from, message);
            let follows = self.applications[client as usize].step(event, now, clock_us, &mut self.counted);
            self.follow(client, follows);
        }
    }

    /// What a client does after a step.
    fn follow(&mut self, client: u32, follows: Follows) {
        let Follows { mut sent, free, us } = follows;
        let machine = client as usize;
        let done = if us > 0.0 { self.machines[machine].work(self.now, us) } else { self.now };
        if self.setting.system.told == Told::ByValidators {
            let layout = self.layout;
            let reads: Vec<(Node, Message)> = sent
                .iter()
                .filter_map(|(_, message)| if let Message::Get(_, keys) = message { Some(keys.clone()) } else { None })
                .flatten()
                .filter(popular)
                .map(|key| (Node::Validator(layout.validator(&key)), Message::Reads(vec![key])))
                .collect();
            sent.extend(reads);
        }
        self.send(machine, done, Node::Client(client), sent);
        for thread in free {
            self.told_low(client);
            let again = self.applications[machine].tries_again_in(thread);
            match (self.setting.load, again) {
                (Load::Open(_), None) => self.idle[machine].push(thread),
                (_, wait) => self.happen(done + wait.unwrap_or_default(), Happening::Begins(client, thread)),
            }
        }
    }

    /// After so many transactions, a client tells the others below which stamp it has none.
    fn told_low(&mut self, client: u32) {
        let Freshness::Watermarks(every) = self.setting.system.freshness else { return };
        let application = &self.applications[client as usize];
        if !application.ended.is_multiple_of(every) {
            return;
        }
        let low = application.core.low_water(self.machines[client as usize].clock_us(self.now));
        let others = (0..self.setting.clients).filter(|other| *other != client);
        let sent = others
            .map(|other| (Node::Client(other), Message::Resolved(0, 1, Resolved { closed: low, held: Vec::new() })))
            .collect();
        self.send(client as usize, self.now, Node::Client(client), sent);
    }

    fn send(&mut self, machine: usize, at: Nanos, from: Node, sent: Vec<(Node, Message)>) {
        self.send_all(machine, at, sent.into_iter().map(|(to, message)| (from, to, message)).collect());
    }

    /// What a machine has to say to another goes in one packet.
    fn send_all(&mut self, machine: usize, at: Nanos, sent: Packet) {
        let mut packets: Vec<(usize, Packet)> = Vec::new();
        for (from, to, message) in sent {
            let target = self.machine(to);
            if self.setting.system.rides && target != machine && rides(&message) {
                self.riding[machine].entry(target).or_default().push((from, to, message));
                continue;
            }
            match packets.iter_mut().find(|(other, _)| *other == target) {
                Some((_, packet)) => packet.push((from, to, message)),
                None => packets.push((target, vec![(from, to, message)])),
            }
        }
        for (target, mut packet) in packets {
            if let Some(riding) = self.riding[machine].get_mut(&target).filter(|_| target != machine) {
                packet.append(riding);
            }
            if target == machine {
                let us = packet.iter().map(|(_, to, message)| self.work(*to, message)).sum::<f64>();
                let done = self.machines[machine].work(at, us);
                self.happen(done, Happening::Served(machine, packet));
                continue;
            }
            self.leave(machine, target, at, packet);
        }
    }

    /// A packet leaves its machine.
    fn leave(&mut self, machine: usize, target: usize, at: Nanos, packet: Packet) {
        let costs = &self.setting.costs;
        let sends = if self.is_client(machine) { costs.client_packet } else { costs.send };
        // What the backups have to have first.
        let stored = |message: &Message| matches!(message, Message::Staged(..) | Message::Decided(_, true));
        let trips = if packet.iter().any(|(_, _, message)| stored(message)) { 3 } else { 1 };
        self.counted.packets += trips;
        self.counted.bytes += sizes::PACKET + packet.iter().map(|(_, _, message)| sizes::bytes(message)).sum::<u64>();
        self.counted.server_us += if self.is_client(machine) { 0.0 } else { sends };
        let leaves = self.machines[machine].work(at, sends);
        let way: f64 = (0..trips).map(|_| self.random.random_range(ONE_WAY_US.0..ONE_WAY_US.1)).sum();
        self.happen(leaves + (way * 1000.0) as Nanos, Happening::Arrives(target, packet));
    }
}

/// Whether nothing waits for the message: its transaction has been answered.
fn rides(message: &Message) -> bool {
    matches!(message, Message::Apply(_) | Message::Settle(_, true) | Message::Forget(_))
}
