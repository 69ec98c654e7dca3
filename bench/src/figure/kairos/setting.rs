//! What is simulated: the machines, what work costs them, the workload, and what each system does.

use forebay::Key;
use forebay::lease::Leases;
use forebay::txn::optimistic::{Level, Rules};

use super::popularity;

/// Work of one core, in microseconds. `kairos-costs` measures them; see `measured.rs`.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// A server or validator takes a packet from the network.
    pub receive: f64,
    /// It hands one to the network.
    pub send: f64,
    /// It reads a key.
    pub read: f64,
    /// It compares or remembers a key of a transaction.
    pub check: f64,
    /// It stages or applies the write of a key.
    pub write: f64,
    /// A client takes a packet from the network, or hands one to it.
    pub client_packet: f64,
    /// A client reads a key from its copies.
    pub client_read: f64,
    /// A client begins and ends a transaction.
    pub client_txn: f64,
}

/// How fresh clients know their copies to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Freshness {
    /// Validators say what is resolved, every so many microseconds.
    Resolved(u64),
    /// Each client says after so many transactions below which stamp it has none: the paper's watermarks.
    Watermarks(u64),
}

/// Which readers are told of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// None.
    Nobody,
    /// Shards tell the readers of the most popular keys.
    ByShards,
    /// Validators do.
    ByValidators,
}

/// One system of a figure.
#[derive(Clone, Copy, Debug)]
pub struct System {
    /// Its name in legends.
    pub name: &'static str,
    /// How long copies are used.
    pub leases: Leases,
    /// What becomes of copies, and how transactions end.
    pub rules: Rules,
    /// Validators are beside clients; else each shard validates.
    pub validators: bool,
    /// Who learns of writes.
    pub told: Told,
    /// How fresh copies are known to be.
    pub freshness: Freshness,
    /// Validators compare as in the paper.
    pub literal: bool,
    /// Which keys may be cached.
    pub cacheable: fn(&Key) -> bool,
    /// What read-only transactions see.
    pub level: Level,
    /// Messages for which nothing waits go with the next packet to their machine, after a millisecond at most.
    pub rides: bool,
}

/// How transactions come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// So many at a time in each client, one after the other.
    Closed(u32),
    /// So many a second, of all clients together, at random.
    Open(f64),
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// What does it.
    pub system: System,
    /// What it costs.
    pub costs: Costs,
    /// Machines that run applications; the first few have a validator beside them where there are any.
    pub clients: u32,
    /// Machines that keep documents.
    pub shards: u16,
    /// Validators, where they are beside clients.
    pub validators: u16,
    /// Keys in all.
    pub keys: u64,
    /// Keys of one transaction.
    pub keys_per_txn: usize,
    /// Share of transactions that only read.
    pub read_only: f64,
    /// Skew of the keys of transactions that only read.
    pub alpha_read: f64,
    /// Skew of those that write.
    pub alpha_write: f64,
    /// Copies of each client, as a share of the keys.
    pub cache: f64,
    /// How transactions come.
    pub load: Load,
    /// About how many transactions commit in a second, where they come one after the other.
    pub expected: f64,
    /// Clocks differ from true time by this at most, in microseconds; see [`Setting::SKEW_US`].
    pub skew_us: u64,
    /// The clock of every second client is ahead by this; negative: it lags.
    pub wrong_us: i64,
    /// Versions that a validator remembers at most.
    pub versions_max: usize,
    /// Clients among which each key is read by one (2: by half of them); 1: all read all.
    pub routed: u32,
    /// Writes are so many times as frequent as shards and clients have counted them before the run.
    pub drifted: f64,
    /// Caches are full when the run begins.
    pub filled: bool,
    /// At reduced scale too, nothing is counted for so many seconds.
    pub warm_min: f64,
    /// Seconds before anything is counted, and seconds that are.
    pub seconds: (f64, f64),
    /// Of all that is drawn.
    pub seed: u64,
}

impl Setting {
    /// Two clocks that are off by up to so much at random differ by 400 us on average (section 5).
    pub const SKEW_US: u64 = 600;

    /// The paper's: 10 clients, 5 shards, 20 M keys, 90 % of the transactions read only.
    pub fn paper(system: System) -> Setting {
        Setting {
            system,
            costs: Costs::MEASURED,
            clients: 10,
            shards: 5,
            validators: 5,
            keys: 20_000_000,
            keys_per_txn: 4,
            read_only: 0.9,
            alpha_read: 0.99,
            alpha_write: 0.5,
            cache: 0.001,
            load: Load::Closed(128),
            expected: 120_000.0,
            skew_us: Setting::SKEW_US,
            wrong_us: 0,
            versions_max: usize::MAX,
            routed: 1,
            drifted: 1.0,
            filled: true,
            warm_min: 0.0,
            seconds: (1.0, 1.0),
            seed: 1,
        }
    }
}

impl Setting {
    /// Writes of keys in a second, about: what shards have counted before the run begins.
    pub fn writes_per_second(&self) -> f64 {
        self.transactions_per_second() * (1.0 - self.read_only) * self.keys_per_txn as f64
    }

    /// Reads in a second by transactions that only read, about.
    pub fn reads_per_second(&self) -> f64 {
        self.transactions_per_second() * self.read_only * self.keys_per_txn as f64
    }

    fn transactions_per_second(&self) -> f64 {
        match self.load {
            Load::Open(rate) => rate,
            Load::Closed(_) => self.expected,
        }
    }
}

impl Costs {
    /// Of forebay's server and client library, by `kairos-costs` on the machine of `docs/papers/kairos.md`.
    pub const MEASURED: Costs = Costs {
        receive: 3.0,
        send: 3.0,
        read: 0.15,
        check: 0.55,
        write: 0.85,
        client_packet: 5.5,
        client_read: 0.25,
        client_txn: 0.25,
    };
}

/// The keys that the paper lets clients cache, and has servers track: the most popular 1 % of 20 M.
pub fn popular(key: &Key) -> bool {
    popularity::rank(key) < 200_000
}

impl System {
    /// Each transaction asks servers for all it reads; they validate it.
    pub const BASELINE: System = System {
        name: "baseline",
        leases: Leases::None,
        rules: Rules::PAPER,
        validators: false,
        told: Told::Nobody,
        freshness: Freshness::Watermarks(10_000),
        literal: true,
        cacheable: popular,
        level: Level::Session,
        rides: false,
    };

    /// Validators beside the clients.
    pub const CV: System = System { name: "CV", validators: true, ..System::BASELINE };

    /// Explicit invalidation by servers.
    pub const EI: System =
        System { name: "EI", leases: Leases::Endless, told: Told::ByShards, rules: EVICTING, ..System::BASELINE };

    /// Explicit invalidation by validators beside the clients.
    pub const EI_CV: System =
        System { name: "EI by validators", told: Told::ByValidators, validators: true, ..System::EI };

    /// Copies until they are found stale.
    pub const NAIVE: System = System { name: "naive", leases: Leases::Endless, rules: EVICTING, ..System::BASELINE };

    /// The paper's leases (algorithm 1).
    pub const IDEAL: System = System { name: "ideal", leases: Leases::Paper, rules: EVICTING, ..System::BASELINE };

    /// Those, and a stale copy is used until its lease ends: the paper's text.
    pub const IDEAL_KEPT: System = System { name: "ideal, stale kept", rules: Rules::PAPER, ..System::IDEAL };

    /// The paper's whole system.
    pub const KAIROS: System = System { name: "KAIROS", validators: true, ..System::IDEAL };

    /// Sundial's rule: copies until they are found stale, and none of what often is.
    pub const SUNDIAL: System =
        System { name: "Sundial's rule", rules: Rules { stale_share_max: 0.1, ..EVICTING }, ..System::NAIVE };

    /// What forebay does, over validators beside clients.
    pub const FOREBAY: System = System {
        name: "forebay",
        leases: Leases::FOREBAY,
        rules: Rules::FOREBAY,
        validators: true,
        told: Told::Nobody,
        freshness: Freshness::Resolved(2_000),
        literal: false,
        cacheable: |_| true,
        level: Level::Session,
        rides: true,
    };

    /// Forebay's leases and comparisons with validation by the shards: caching alone.
    pub const FOREBAY_SERVERS: System = System { name: "forebay, no CV", validators: false, ..System::FOREBAY };

    /// Leases of another kind.
    pub const fn leasing(self, name: &'static str, leases: Leases) -> System {
        System { name, leases, ..self }
    }
}

const EVICTING: Rules = Rules { evict: true, ..Rules::PAPER };
