//! What a state of the model is: small enough to be copied.

use std::fmt;

/// Which protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Algorithms 1 to 3, Recon, to the letter.
    Literal,
    /// The same, the lease of algorithm 2 kept through the application's own write.
    LeaseKept,
    /// The same, with algorithm 4.
    Snapshot,
    /// Fences, tokens, atomic commands.
    Corrected,
}

/// Up to 16 numbers below 16.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Numbers {
    len: u8,
    packed: u64,
}

impl Numbers {
    pub fn of(numbers: impl IntoIterator<Item = u8>) -> Numbers {
        numbers.into_iter().fold(Numbers::default(), Numbers::with)
    }

    pub fn with(self, number: u8) -> Numbers {
        assert!(self.len < 16 && number < 16, "the model outgrew its numbers");
        Numbers { len: self.len + 1, packed: self.packed | u64::from(number) << (4 * self.len) }
    }

    pub fn and(self, more: Numbers) -> Numbers {
        assert!(self.len + more.len <= 16, "the model outgrew its numbers");
        match self.len {
            16 => self,
            len => Numbers { len: len + more.len, packed: self.packed | more.packed << (4 * len) },
        }
    }

    pub fn without_first(self, count: u8) -> Numbers {
        match count {
            16 => Numbers::default(),
            _ => Numbers { len: self.len - count, packed: self.packed >> (4 * count) },
        }
    }

    pub fn at(self, index: u8) -> u8 {
        (self.packed >> (4 * index)) as u8 & 15
    }

    pub fn len(self) -> u8 {
        self.len
    }

    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..self.len).map(move |index| self.at(index))
    }

    pub fn count(self, number: u8) -> usize {
        self.iter().filter(|found| *found == number).count()
    }

    pub fn contains(self, number: u8) -> bool {
        self.iter().any(|found| found == number)
    }

    fn place(self, number: u8) -> Option<usize> {
        self.iter().position(|found| found == number)
    }

    /// Every two of them as a pair.
    pub fn pairs(self) -> impl Iterator<Item = (u8, u8)> {
        (0..self.len / 2).map(move |pair| (self.at(2 * pair), self.at(2 * pair + 1)))
    }
}

impl fmt::Debug for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The list of changes to the document in the cache (the paper's delta), with the id that snapshots are told by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Delta {
    pub uid: u8,
    pub ids: Numbers,
}

/// Algorithm 4's snapshot in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Copied {
    pub uid: u8,
    pub data: Numbers,
}

/// A write on its way to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Payload {
    /// Appends these.
    Append(Numbers),
    /// Overwrites the whole document.
    Overwrite(Numbers),
    /// Appends one, if the document's token is below this one.
    Conditional { id: u8, token: u8 },
}

/// Store writes that were answered by a timeout and are still in flight; at most two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flights([Option<Payload>; 2]);

impl Flights {
    pub fn with(mut self, payload: Payload) -> Flights {
        let free = self.0.iter_mut().find(|place| place.is_none());
        *free.expect("no more writes in flight than may be ambiguous") = Some(payload);
        self
    }

    /// Each of them, with the others.
    pub fn landings(self) -> impl Iterator<Item = (Payload, Flights)> {
        let [first, second] = self.0;
        let landing = move |index: usize| {
            let rest = if index == 0 { [second, None] } else { [first, None] };
            self.0[index].map(|payload| (payload, Flights(rest)))
        };
        (0..2).filter_map(landing)
    }
}

/// Which actor holds a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    Writer(u8),
    Worker(u8),
}

/// Where an actor stands. Each step is one command to cache or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    // Writers. Algorithm 2 first, then the own write.
    Start,
    LookUpDirty,
    RecoverReadDelta,
    RecoverApply,
    RecoverDeleteDirty,
    RecoverDeleteDelta,
    OwnWrite,
    Acknowledge,
    // The store failed: the change is buffered, then algorithm 1.
    AppendDelta,
    MarkLease,
    MarkDirty,
    AppendTele,
    BufferedAck,
    Done,
    Crashed,
    // Recovery workers: algorithm 3, or a claim of the corrected protocol.
    Idle,
    SeeDirty,
    TakeLease,
    SeeDirtyAgain,
    ReadDelta,
    ApplyDelta,
    GiveUp,
    DeleteDirty,
    DeleteDelta,
    TeleLease,
    PutTele,
    ClaimApply,
    ClaimDone,
    // Algorithm 4, of either.
    SnapshotGet,
    SnapshotGetDelta,
    SnapshotCompare,
    SnapshotOverwrite,
    SnapshotDeleteOld,
    SnapshotBuild,
    SnapshotStore,
    SnapshotDeleteDelta,
    SnapshotApply,
    SnapshotDelete,
}

/// What an actor remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Local {
    Nothing,
    Ids(Numbers),
    /// TeleW may lose the document.
    Forget(bool),
    Snapshot(Option<Copied>),
    SnapshotAndDelta(Option<Copied>, Option<Delta>),
    Built(Delta, Numbers),
    Token {
        token: u8,
        fence: u8,
    },
    Claim {
        fence: u8,
        queue: Numbers,
        applied: u8,
    },
}

pub type Place = (At, Local);

/// One state of document, cache, store and actors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The document: the ids of writes in the order in which they were applied.
    pub store: Numbers,
    /// The highest token applied.
    pub store_token: u8,
    pub up: bool,
    pub flights: Flights,
    /// Faults left.
    pub ambiguous: u8,
    pub expiries: u8,
    pub crashes: u8,
    /// The cache, under the paper's protocols.
    pub delta: Option<Delta>,
    pub dirty: bool,
    pub tele: bool,
    pub snapshot: Option<Copied>,
    pub uids: u8,
    pub tele_lease: Option<Actor>,
    /// The document's lease.
    pub lease: Option<Actor>,
    /// The cache, under the corrected one: pairs of id and token wait.
    pub queue: Numbers,
    pub fence: u8,
    pub token: u8,
    pub writers: [Place; 3],
    pub workers: [Place; 2],
    pub acknowledged: Numbers,
    pub started: Numbers,
    /// Pairs: the first was acknowledged before the second started.
    pub order: Numbers,
}

pub const START: Place = (At::Start, Local::Nothing);
pub const IDLE: Place = (At::Idle, Local::Nothing);

impl State {
    pub fn writer(mut self, index: u8, at: At, local: Local) -> State {
        self.writers[index as usize] = (at, local);
        self
    }

    pub fn worker(mut self, index: u8, at: At, local: Local) -> State {
        self.workers[index as usize] = (at, local);
        self
    }

    /// Moves `actor` on.
    pub fn put(self, actor: Actor, at: At, local: Local) -> State {
        match actor {
            Actor::Writer(index) => self.writer(index, at, local),
            Actor::Worker(index) => self.worker(index, at, local),
        }
    }

    pub fn place(&self, actor: Actor) -> Place {
        match actor {
            Actor::Writer(index) => self.writers[index as usize],
            Actor::Worker(index) => self.workers[index as usize],
        }
    }

    /// Gives the document's lease back, if `actor` has it.
    pub fn release(mut self, actor: Actor) -> State {
        if self.lease == Some(actor) {
            self.lease = None;
        }
        self
    }

    pub fn acknowledge(mut self, writer: u8) -> State {
        self.acknowledged = self.acknowledged.with(writer);
        self
    }

    /// `writer` starts: later than all that was acknowledged.
    pub fn start(mut self, writer: u8) -> State {
        self.started = self.started.with(writer);
        self.order = self.acknowledged.iter().fold(self.order, |order, before| order.with(before).with(writer));
        self
    }

    pub fn apply(mut self, payload: Payload) -> State {
        match payload {
            Payload::Append(ids) => self.store = self.store.and(ids),
            Payload::Overwrite(data) => self.store = data,
            Payload::Conditional { id, token } if self.store_token < token => {
                self.store = self.store.with(id);
                self.store_token = token;
            }
            Payload::Conditional { .. } => {}
        }
        self
    }

    /// All ways in which a store write can end: what is said of it, the state, and whether it is known to be applied.
    pub fn store_write(self, payload: Payload) -> impl Iterator<Item = (&'static str, State, bool)> {
        let plain = if self.up {
            ("writes to the store", self.apply(payload), true)
        } else {
            ("fails to write to the store", self, false)
        };
        let left = |state: State| State { ambiguous: state.ambiguous - 1, ..state };
        let late = (self.ambiguous > 0).then(|| {
            (
                "has its store write delayed, sees a timeout",
                State { flights: self.flights.with(payload), ..left(self) },
                false,
            )
        });
        let unseen = (self.ambiguous > 0 && self.up)
            .then(|| ("has its store write applied, sees a timeout", left(self.apply(payload)), false));
        [Some(plain), unseen, late].into_iter().flatten()
    }

    /// What would be wrong if nothing happened any more.
    pub fn violations(&self, writers: u8) -> Violations {
        let mut found = Violations::default();
        for id in 0..writers {
            let times = self.store.count(id);
            found.lost += usize::from(times == 0 && self.acknowledged.contains(id));
            found.duplicate += usize::from(times > 1);
        }
        for (before, after) in self.order.pairs() {
            let places = (self.store.place(before), self.store.place(after));
            let swapped = matches!(places, (Some(first), Some(second)) if first > second);
            found.order += usize::from(swapped && self.acknowledged.contains(after));
        }
        found.orphan += usize::from(self.dirty && !self.tele);
        found
    }
}

/// A way in which a protocol breaks its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An acknowledged write is not in the store.
    Lost,
    /// A write was applied more than once.
    Duplicate,
    /// A buffered write that nobody will find.
    Orphan,
    /// A write is behind one that started after it was acknowledged.
    Order,
}

/// How often each kind was found in states where nothing can happen any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Violations {
    pub lost: usize,
    pub duplicate: usize,
    pub orphan: usize,
    pub order: usize,
}

impl Violations {
    pub fn by_kind(&self) -> [(Kind, usize); 4] {
        [
            (Kind::Lost, self.lost),
            (Kind::Duplicate, self.duplicate),
            (Kind::Orphan, self.orphan),
            (Kind::Order, self.order),
        ]
    }

    pub fn add(&mut self, more: Violations) {
        self.lost += more.lost;
        self.duplicate += more.duplicate;
        self.orphan += more.orphan;
        self.order += more.order;
    }
}
