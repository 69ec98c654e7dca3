//! The server of a world: engine, sessions and connections on one node, over what its store keeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay::cache::CacheOptions;
use forebay::policy::choose;
use forebay::runtime::simulated::SplitMix;
use forebay::runtime::simulated::network::{Host, Network, Told};
use forebay::runtime::simulated::node::Node;
use forebay::store::Store;
use forebay::store::delayed::{Delay, Delayed};
use forebay::store::embedded::{Durability, Embedded, EmbeddedOptions};
use forebay::store::forgetful::Forgetful;
use forebay::store::memory::Memory;
use forebay::txn::{Engine, EngineOptions, TxnLimits};
use forebay_server::{ServerOptions, Shared, simulated};

/// Where it listens.
pub const ADDRESS: &str = "server:6379";

/// What outlives a life of the server.
pub enum Kept {
    /// Nothing.
    Nothing,
    /// Nothing, and its clock is set back between two lives: the number of each incarnation is below those before.
    NothingClockBack,
    /// A disk.
    Disk(Forgetful, Durability),
}

/// The server's node.
pub struct Server {
    pub node: Node,
    pub host: Host,
    kept: Kept,
    /// Counted from its start.
    pub life: Arc<AtomicU64>,
    /// What a life is made with.
    random: SplitMix,
}

impl Server {
    pub fn new(node: Node, network: &Network, kept: Kept, random: SplitMix) -> Server {
        Server { host: network.host(&node), node, kept, life: Arc::default(), random }
    }

    /// Begins a life.
    pub fn start(&mut self) {
        let life = self.life.fetch_add(1, Ordering::SeqCst) + 1;
        let runtime = self.node.runtime();
        let store: Arc<dyn Store> = match &self.kept {
            Kept::Nothing => Arc::new(Memory::in_incarnation(life)),
            Kept::NothingClockBack => Arc::new(Memory::in_incarnation(u64::from(u32::MAX) - life)),
            Kept::Disk(disk, durability) => {
                let handles = disk.clone();
                let options = EmbeddedOptions { durability: *durability, page_cache_bytes: 1 << 20 };
                let make = Arc::new(move || Ok(handles.handle()));
                Arc::new(Embedded::open_with_backend(runtime.clone(), make, options).expect("the store opens"))
            }
        };
        let jitter = Duration::from_micros(self.random.below(1000));
        let delay = Delay { fixed: Duration::from_micros(self.random.below(200)), jitter };
        let store: Arc<dyn Store> = match self.random.below(3) {
            0 => store,
            _ => Arc::new(Delayed::new(runtime.clone(), store, delay)),
        };
        let name = ["lru", "s3-fifo", "w-tinylfu"][self.random.below(3) as usize];
        let choice = choose(name).expect("a policy of the table");
        let cache = CacheOptions {
            // Room for a few documents, or for all.
            budget_bytes: [600 + self.random.below(1000) as usize, 20_000][self.random.below(2) as usize],
            partitions: 1 + self.random.below(3) as usize,
            policy: choice.policy,
            policy_values: choice.values,
        };
        let limits = TxnLimits { lock_wait_ms_min: 5, lock_wait_ms_max: 20, ..TxnLimits::default() };
        let engine = Engine::new(EngineOptions { limits, ..EngineOptions::new(runtime.clone(), store, cache) });
        let shared = Arc::new(Shared::new(ServerOptions::new(engine)));
        runtime.spawn(simulated::serve(self.host.listen(ADDRESS), shared));
    }

    /// Ends its process, and with `told` its machine too: then others are told so of their connections, and what the
    /// disk has not flushed is lost.
    pub fn kill(&mut self, network: &Network, told: Option<&mut dyn FnMut() -> Told>) {
        let crashes = told.is_some();
        if let Some(told) = told {
            network.crash(&self.host, told);
        }
        if let Kept::Disk(disk, _) = &self.kept {
            // Its handles are of no use from here on: what ends with the process writes nothing more.
            disk.crash(|length| if crashes && self.random.below(2) == 0 { None } else { Some(length) });
        }
        self.node.kill();
    }
}
