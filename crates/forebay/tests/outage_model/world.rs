//! The real gate and its real journal over a disk that forgets, before a database that the world decides on. Its
//! clients keep the rules of transactions: locks to the end, changes computed from what was read.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard};

use forebay::Read;
use forebay::change::apply_all;
use forebay::mutation::{self, Fault};
use forebay::outage::lossy::Lossy;
use forebay::outage::{
    BreakerSettings, Description, Gate, GateOptions, GateSettings, GivenUp, Journal, JournalOptions, LaneRule,
};
use forebay::store::embedded::Durability;
use forebay::store::{Store, Write};

use crate::book::{Book, Told};
use crate::clients::{Client, children, forget, key_of, work};
use crate::database::{Database, Fate};
use crate::machine::{Machine, Order};

/// What the database refuses before it is mended.
pub const POISON: &str = "poison";

/// The field that another program writes.
pub const OUTSIDE: &str = "outside";

/// What takes part, and what may go wrong.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub clients: &'static [Client],
    /// The documents' tables are joined: a write to the hash is refused while the list is absent.
    pub joined: bool,
    /// The hash is a row of a table, the list a column: they take what such do.
    pub rows: bool,
    /// Nobody else writes: the database takes documents as they were computed.
    pub owned: bool,
    /// Neighbours are merged while the database is away.
    pub merge: bool,
    /// Room for what is buffered, bytes.
    pub bytes_max: usize,
    /// Batches at a time.
    pub workers: usize,
    /// Outages.
    pub outages: u8,
    /// Calls whose answer is lost, or that are held up and land later.
    pub unheard: u8,
    /// Losses of power.
    pub crashes: u8,
    /// Writes by another program.
    pub outside: u8,
    /// Times that the database comes back from a backup (of just now).
    pub backups: u8,
    /// Times that a timer ends before what it waits for.
    pub timeouts: u8,
    /// Records reach the disk at once.
    pub swift_disk: bool,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Begin(u8),
    Call(u8, Fate),
    Disk,
    Timer,
    GoesDown,
    ComesUp,
    FromBackup,
    WrittenOutside,
    /// The client asks again what became of its commit.
    Asks(u8),
    Mended,
    GivenUp,
    Resumed,
    /// Power is lost; of the disk's work at hand all is done, or nothing.
    Crash {
        written: bool,
    },
    Restart,
}

/// The world; what it is now follows from the events so far.
pub struct World {
    pub setup: Setup,
    machine: Machine,
    disk: Lossy,
    pub database: Arc<Database>,
    pub gate: Option<Gate>,
    pub book: Arc<Mutex<Book>>,
    spent: Spent,
    given_up: bool,
    pub broken: Option<String>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    outages: u8,
    unheard: u8,
    crashes: u8,
    outside: u8,
    backups: u8,
    timeouts: u8,
}

impl World {
    pub fn new(setup: Setup) -> World {
        let first = |document: usize| {
            let client = Client { name: "first", a: true, b: true, reads_b: false, blind: false, remakes: false };
            let change = client.change(document);
            let mut after = None;
            apply_all(&mut after, std::slice::from_ref(&change)).expect("it fits");
            Write { key: key_of(document), changes: [change].into_iter().collect(), after, unseen: false, told: false }
        };
        let documents = if setup.joined { Vec::new() } else { vec![first(0), first(1)] };
        let database = Database::new(setup.joined.then_some(7), (setup.owned, setup.rows), documents);
        let count = setup.clients.len();
        let book = Book {
            told: vec![Told::Waits; count],
            before: vec![0; count],
            ids: vec![None; count],
            read_b: vec![None; count],
            tickets: vec![None; count],
            cached: [0, 1].map(|document| Some(database.read(&key_of(document)))),
            asks: (0..count).map(|_| None).collect(),
            minted: 0,
            held: Vec::new(),
            full: 0,
        };
        let (machine, disk) = (Machine::new(), Lossy::new());
        let mut world = World {
            setup,
            machine,
            disk,
            database,
            gate: None,
            book: Arc::new(Mutex::new(book)),
            spent: Spent::default(),
            given_up: false,
            broken: None,
        };
        world.start();
        world
    }

    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }

    /// A process begins: it reads its journal and opens its gate.
    fn start(&mut self) {
        self.machine = Machine::new();
        let runtime = self.machine.runtime();
        let opened = Journal::open(runtime.clone(), self.disk.handle(), journal_options());
        let (journal, found) = opened.unwrap_or_else(|error| panic!("the journal opens: {error}"));
        // The pause is longer than a write waits, so that the two do not count each other down.
        let pause_ms = 1000;
        let settings = GateSettings {
            breaker: BreakerSettings { failures_to_open: 1, successes_to_close: 1, pause_ms, pause_ms_max: pause_ms },
            bytes_max: self.setup.bytes_max,
            lanes: LaneRule { serial: false },
            workers: self.setup.workers,
            per_second_max: 0,
            merge: self.setup.merge,
            ..GateSettings::default()
        };
        let store = self.database.clone();
        let (mapping, opens_late) = (String::new(), false);
        let gate = Gate::open(GateOptions { runtime, store, journal, found, settings, mapping, opens_late });
        let gate = gate.unwrap_or_else(|error| panic!("the gate opens: {error}"));
        self.machine.spawn(forget(gate.clone(), self.book.clone()));
        self.gate = Some(gate);
        self.machine.run(Order::First);
        while self.machine.jobs() > 0 {
            self.machine.work(false);
            self.machine.run(Order::First);
        }
    }

    /// What may happen now.
    pub fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        let (setup, spent) = (&self.setup, &self.spent);
        for (at, waits) in self.database.calls().into_iter().enumerate() {
            let at = at as u8;
            if waits {
                events.push(Event::Call(at, Fate::Answered));
                if spent.unheard < setup.unheard {
                    events.push(Event::Call(at, Fate::HeldUp));
                    if self.database.is_up() {
                        events.push(Event::Call(at, Fate::Unheard));
                    }
                }
            } else if self.database.is_up() {
                events.push(Event::Call(at, Fate::Unheard));
            }
        }
        match self.database.is_up() {
            true if spent.outages < setup.outages => events.push(Event::GoesDown),
            true => {}
            false => {
                events.push(Event::ComesUp);
                if spent.backups < setup.backups {
                    events.push(Event::FromBackup);
                }
            }
        }
        if spent.outside < setup.outside && self.database.is_up() {
            events.push(Event::WrittenOutside);
        }
        match &self.gate {
            Some(gate) => self.events_of(gate, &mut events),
            None => events.push(Event::Restart),
        }
        events
    }

    /// A client that adds a child has seen its parent.
    fn has_parent(&self, book: &Book, client: &Client) -> bool {
        let is_parent = |(told, other): (&Told, &Client)| other.a && *told == Told::Acknowledged;
        !self.setup.joined || client.a || book.told.iter().zip(self.setup.clients).any(is_parent)
    }

    fn events_of(&self, gate: &Gate, events: &mut Vec<Event>) {
        let book = self.book();
        let locked = |document: usize| {
            let holds = |told: &Told| matches!(told, Told::AtWork | Told::InDoubt);
            let locks = |client: &Client| client.locks().any(|other| other == document);
            book.told.iter().zip(self.setup.clients).any(|(told, client)| holds(told) && locks(client))
        };
        for (at, (told, client)) in book.told.iter().zip(self.setup.clients).enumerate() {
            match told {
                Told::Waits if !client.locks().any(locked) && self.has_parent(&book, client) => {
                    events.push(Event::Begin(at as u8))
                }
                Told::InDoubt if book.asks[at].is_some() => events.push(Event::Asks(at as u8)),
                _ => {}
            }
        }
        if self.machine.jobs() > 0 {
            events.push(Event::Disk);
        }
        // A probe costs nothing; what a write waits for may take longer. Where nothing else can happen, time passes.
        let may = |next: &u64| *next > 250_000 || self.spent.timeouts < self.setup.timeouts;
        events.extend(self.machine.timers().first().is_some_and(may).then_some(Event::Timer));
        if self.spent.crashes < self.setup.crashes {
            events.push(Event::Crash { written: false });
            if self.machine.jobs() > 0 {
                events.push(Event::Crash { written: true });
            }
        }
        if gate.state().amount.quarantined > 0 {
            events.push(Event::Mended);
            let first = gate.with_buffer(|buffer| buffer.quarantine_list()).into_iter().next();
            // What the database will take once it is mended is given up once at most; what was overtaken, always.
            if !self.given_up || first.is_some_and(|(_, why)| why.starts_with("it read")) {
                events.push(Event::GivenUp);
            }
        } else if self.given_up && !self.database.is_mended() && !self.database.calls().is_empty() {
            events.push(Event::Mended);
        }
        if gate.state().suspended.is_some() {
            events.push(Event::Resumed);
        }
        events.extend((events.is_empty() && !self.machine.timers().is_empty()).then_some(Event::Timer));
    }

    /// It happens, and all that follows by itself. Whether tasks could have run in another order.
    pub fn happen(&mut self, event: Event, order: Order) -> bool {
        match event {
            Event::Begin(client) => self.begin(client as usize),
            Event::Call(call, fate) => {
                let call = call as usize;
                let waits = self.database.calls()[call];
                self.spent.unheard += u8::from(waits && fate != Fate::Answered);
                self.look_for_held(call, fate);
                self.database.settle(call, fate);
            }
            Event::Disk => self.machine.work(false),
            Event::Timer => {
                let next = self.machine.timers().first().copied().unwrap_or(0);
                self.spent.timeouts += u8::from(next <= 250_000);
                self.machine.pass();
            }
            Event::GoesDown => {
                self.spent.outages += 1;
                self.database.set_up(false);
            }
            Event::ComesUp => self.database.set_up(true),
            Event::FromBackup => self.restore(),
            Event::WrittenOutside => {
                self.spent.outside += 1;
                self.database.write_outside(&children(), OUTSIDE.as_bytes());
            }
            Event::Asks(client) => drop(self.book().asks[client as usize].take().map(|asks| asks.send(()))),
            Event::Mended | Event::GivenUp | Event::Resumed => self.operator(event),
            Event::Crash { written } => self.crash(written),
            Event::Restart => {
                self.database.end_sessions();
                self.database.reopen();
                self.start();
            }
        }
        let mut chose = self.machine.run(order);
        while self.setup.swift_disk && self.machine.jobs() > 0 {
            self.machine.work(false);
            chose |= self.machine.run(order);
        }
        chose
    }

    fn begin(&mut self, at: usize) {
        let client = self.setup.clients[at];
        let Some(gate) = self.gate.clone() else { return };
        {
            let mut book = self.book();
            book.told[at] = Told::AtWork;
            let bits = book.told.iter().enumerate().filter(|(_, told)| **told == Told::Acknowledged);
            book.before[at] = bits.fold(0, |mask, (other, _)| mask | 1 << other);
        }
        let (book, owned) = (self.book.clone(), self.setup.owned);
        self.machine.spawn(async move { work(gate, book, at, client, owned).await });
    }

    /// Notes what is pending: it must not be applied before the operator says so.
    fn restore(&mut self) {
        self.spent.backups += 1;
        self.database.reopen();
        self.database.end_sessions();
        if let Some(gate) = &self.gate {
            let pending = gate.with_buffer(|buffer| {
                let numbers = buffer.numbers(None, 0, usize::MAX).into_iter();
                numbers.filter_map(|number| Some(buffer.buffered(number)?.id)).collect()
            });
            self.book().held = pending;
        }
        self.database.set_up(true);
    }

    fn look_for_held(&mut self, call: usize, fate: Fate) {
        if fate == Fate::HeldUp || !self.database.is_up() {
            return;
        }
        let held = self.book().held.clone();
        if self.database.ids(call).iter().any(|id| held.contains(id)) {
            self.broken = Some("carried over to a restored database without the operator's word".to_owned());
        }
    }

    fn operator(&mut self, event: Event) {
        let Some(gate) = self.gate.clone() else { return };
        match event {
            Event::Resumed => {
                self.book().held.clear();
                self.machine.spawn(async move { drop(gate.resume().await) });
            }
            Event::Mended => {
                self.database.mend();
                self.machine.spawn(async move {
                    let _ = gate.retry(None).await;
                });
            }
            _ => {
                let Some((number, _)) = gate.with_buffer(|buffer| buffer.quarantine_list()).into_iter().next() else {
                    return;
                };
                let id = gate.with_buffer(|buffer| buffer.buffered(number).map(|buffered| buffered.id));
                let whose = self.book().ids.iter().position(|one| *one == id && id.is_some());
                self.given_up = true;
                let book = self.book.clone();
                let tell = move |told| whose.into_iter().for_each(|at| book.lock().unwrap().told[at] = told);
                tell(Told::Nothing);
                self.machine.spawn(async move {
                    let gone = gate.give_up(number, "drill").await;
                    tell(if gone == Ok(GivenUp::Dropped) { Told::GivenUp } else { Told::Acknowledged });
                });
            }
        }
    }

    fn crash(&mut self, written: bool) {
        self.spent.crashes += 1;
        if written {
            self.machine.work(true);
        }
        self.gate = None;
        self.machine = Machine::new();
        self.disk.crash(|_| None);
        let mut book = self.book();
        book.cached = [None, None];
        book.asks.iter_mut().for_each(|ask| *ask = None);
        for told in &mut book.told {
            if matches!(told, Told::AtWork | Told::InDoubt) {
                *told = Told::Nothing;
            }
        }
    }

    /// A reader that holds shared locks looks at a document now. None if a client has locked it, or nobody can tell.
    pub fn look(&self, document: usize) -> Option<Result<Read, String>> {
        let gate = self.gate.clone()?;
        let holds = |(told, client): (&Told, &Client)| {
            matches!(told, Told::AtWork | Told::InDoubt) && client.locks().any(|other| other == document)
        };
        if self.book().told.iter().zip(self.setup.clients).any(holds) {
            return None;
        }
        let found = Arc::new(Mutex::new(None));
        let answer = found.clone();
        self.machine.spawn(async move {
            let read = gate.get(&[key_of(document)]).await.map(|mut reads| reads.remove(0));
            *answer.lock().unwrap() = Some(read.map_err(|error| error.to_string()));
        });
        self.machine.run(Order::First);
        let found = found.lock().unwrap().take();
        Some(found.unwrap_or_else(|| Err("a read hangs".to_owned())))
    }

    /// Whether an operator gave something up.
    pub fn given_up(&self) -> bool {
        self.given_up
    }

    /// Whether another program has written.
    pub fn written_outside(&self) -> bool {
        self.spent.outside > 0
    }

    /// Writes down all that decides what can happen from here on.
    pub fn print(&self) -> String {
        let mut out = String::new();
        self.print_to(&mut out).expect("text takes text");
        out
    }

    fn print_to(&self, out: &mut String) -> fmt::Result {
        let book = self.book();
        writeln!(out, "{:?} {:?} {:?} {}", book.told, book.before, book.held, book.minted)?;
        let asks: Vec<bool> = book.asks.iter().map(Option::is_some).collect();
        writeln!(out, "{:?} {asks:?} {:?} {:?} {:?}", book.ids, book.cached, self.spent, self.given_up)?;
        for (read, id) in book.read_b.iter().zip(&book.ids).filter(|(read, _)| read.is_some()) {
            writeln!(out, "{read:?} {:?}", id.map(|id| self.database.hash_at(id)))?;
        }
        drop(book);
        self.database.print(out)?;
        writeln!(out, "{:?} {}", self.machine.timers(), self.machine.jobs())?;
        if let Some(gate) = &self.gate {
            gate.print(out)?;
        }
        if self.spent.crashes == self.setup.crashes && self.gate.is_some() {
            // Nobody will read the journal again.
            return Ok(());
        }
        let disk = self.disk.copy();
        disk.crash(|_| None);
        let (_, found) = Journal::open(Machine::new().runtime(), disk.handle(), journal_options()).expect("it opens");
        writeln!(out, "{} {:?}", found.next_number, found.pending.collect::<Vec<_>>())
    }
}

fn journal_options() -> JournalOptions {
    let description = Description { mapping: String::new(), catalogue: String::new() };
    JournalOptions { durability: Durability::Always, bytes_max: 1 << 20, description }
}

/// Has `look` done with `fault` put back.
pub fn with_fault<T>(fault: Option<Fault>, look: impl FnOnce() -> T) -> T {
    let _on = mutation::put_back(fault);
    look()
}
