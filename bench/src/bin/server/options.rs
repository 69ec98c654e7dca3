//! What is measured.

use std::path::PathBuf;

use clap::Parser;
use forebay_bench::peers::{Durability, Peer, Programs};
use forebay_bench::workload::Kind;

/// A name in `--workload`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Requests in a closed loop.
    Closed(Kind),
    /// GET in an open loop.
    Latency,
}

/// In the order in which they are measured; each leaves the documents as it found them, but for their values.
pub const WORKLOADS: [Workload; 8] = [
    Workload::Closed(Kind::Get),
    Workload::Closed(Kind::GetMiss),
    Workload::Closed(Kind::Mget),
    Workload::Closed(Kind::Hgetall),
    Workload::Latency,
    Workload::Closed(Kind::Set),
    Workload::Closed(Kind::Hset),
    Workload::Closed(Kind::Exec),
];

impl Workload {
    fn name(self) -> &'static str {
        match self {
            Workload::Closed(kind) => kind.name(),
            Workload::Latency => "latency",
        }
    }
}

impl std::str::FromStr for Workload {
    type Err = String;

    fn from_str(name: &str) -> Result<Workload, String> {
        let found = WORKLOADS.into_iter().find(|workload| workload.name() == name);
        found.ok_or_else(|| WORKLOADS.map(Workload::name).join(", "))
    }
}

/// The command line. A list that is left out is the default subset's; `--full` makes it all that there is.
#[derive(Parser)]
#[command(
    about = "Compares forebay with redis-server and memcached: requests per CPU second of the server, and latency"
)]
pub struct Options {
    #[command(flatten)]
    pub programs: Programs,
    /// Which of forebay, redis, valkey, memcached.
    #[arg(long, value_delimiter = ',', default_values = ["forebay", "redis", "memcached"])]
    pub peers: Vec<Peer>,
    /// Which of get, get-miss, mget, hgetall, set, hset, exec, latency. With a disk only those that write are run, and
    /// by default only set.
    #[arg(long, value_delimiter = ',')]
    pub workload: Vec<Workload>,
    /// Which of memory, interval, always.
    #[arg(long, value_delimiter = ',', default_values = ["memory", "interval", "always"])]
    pub durability: Vec<Durability>,
    /// Bytes of a value; a hash has as many in its 8 fields together. Default 64, all: 64,1024.
    #[arg(long, value_delimiter = ',')]
    pub value_bytes: Vec<usize>,
    /// Threads of the server. One: the whole process on one core. Default 1, all: 1,2.
    #[arg(long, value_delimiter = ',')]
    pub threads: Vec<usize>,
    /// Connections.
    #[arg(long, value_delimiter = ',', default_values = ["1", "50"])]
    pub connections: Vec<usize>,
    /// Requests of one connection that are sent together.
    #[arg(long, value_delimiter = ',', default_values = ["1", "16"])]
    pub pipeline: Vec<usize>,
    /// All that there is, where nothing else is said.
    #[arg(long)]
    pub full: bool,
    /// Runs of each server at each point, in turns.
    #[arg(long, default_value_t = 7)]
    pub runs: usize,
    /// Length of one run.
    #[arg(long, default_value_t = 400)]
    pub run_ms: u64,
    /// Length of one run in an open loop.
    #[arg(long, default_value_t = 1000)]
    pub latency_ms: u64,
    /// Documents of each kind, all loaded before the first run.
    #[arg(long, default_value_t = 100_000)]
    pub keys: u64,
    /// Core of a server with one thread.
    #[arg(long, default_value_t = 0)]
    pub server_core: usize,
    /// Core of the generator.
    #[arg(long, default_value_t = 1)]
    pub generator_core: usize,
    /// Folder for files of the servers; a temporary one by default.
    #[arg(long)]
    pub folder: Option<PathBuf>,
    /// Also write the block of Markdown to this file.
    #[arg(long)]
    pub markdown: Option<PathBuf>,
}

impl Options {
    /// With the lists that were left out.
    pub fn completed(mut self) -> Options {
        let pick = |list: &mut Vec<usize>, few: &[usize], all: &[usize]| {
            if list.is_empty() {
                *list = if self.full { all } else { few }.to_vec();
            }
        };
        pick(&mut self.value_bytes, &[64], &[64, 1024]);
        pick(&mut self.threads, &[1], &[1, 2]);
        self
    }

    /// What is run at `durability`, in order.
    pub fn workloads(&self, durability: Durability) -> Vec<Workload> {
        let disk = durability != Durability::Memory;
        let by_default = |workload| !disk || self.full || workload == Workload::Closed(Kind::Set);
        let asked = |workload| match self.workload.is_empty() {
            true => by_default(workload),
            false => self.workload.contains(&workload),
        };
        let writes = |workload| matches!(workload, Workload::Closed(kind) if kind.writes());
        WORKLOADS.into_iter().filter(|workload| asked(*workload) && (!disk || writes(*workload))).collect()
    }
}
