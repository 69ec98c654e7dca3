//! The servers that are compared, set up alike.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use clap::Args;

use crate::program::{Program, free_port};
use crate::replies::Protocol;

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// This project's.
    Forebay,
    /// redis-server.
    Redis,
    /// valkey-server.
    Valkey,
    /// memcached.
    Memcached,
}

const PEERS: [Peer; 4] = [Peer::Forebay, Peer::Redis, Peer::Valkey, Peer::Memcached];

impl Peer {
    /// As options and tables name it.
    pub fn name(self) -> &'static str {
        match self {
            Peer::Forebay => "forebay",
            Peer::Redis => "redis",
            Peer::Valkey => "valkey",
            Peer::Memcached => "memcached",
        }
    }

    /// How it is spoken to.
    pub fn protocol(self) -> Protocol {
        if self == Peer::Memcached { Protocol::Memcached } else { Protocol::Resp }
    }
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(name: &str) -> Result<Peer, String> {
        PEERS.into_iter().find(|peer| peer.name() == name).ok_or_else(|| PEERS.map(Peer::name).join(", "))
    }
}

/// When a write is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Never: forebay's store in memory, redis-server without persistence, memcached.
    Memory,
    /// Within a second: `interval`, and an append-only file with everysec.
    Interval,
    /// Before it is acknowledged: `always`, and an append-only file with always.
    Always,
}

impl Durability {
    /// As options name it.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Memory => "memory",
            Durability::Interval => "interval",
            Durability::Always => "always",
        }
    }

    /// As tables are headed.
    pub fn heading(self) -> &'static str {
        match self {
            Durability::Memory => "memory, redis-server without persistence",
            Durability::Interval => "interval, AOF everysec",
            Durability::Always => "always, AOF always",
        }
    }
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(name: &str) -> Result<Durability, String> {
        let all = [Durability::Memory, Durability::Interval, Durability::Always];
        all.into_iter().find(|durability| durability.name() == name).ok_or("memory, interval or always".to_owned())
    }
}

/// The programs.
#[derive(Args, Debug)]
pub struct Programs {
    /// The program to measure.
    #[arg(long, default_value = "target/dist/forebay")]
    pub forebay: PathBuf,
    /// What it is compared with.
    #[arg(long, default_value = "redis-server")]
    pub redis: PathBuf,
    /// What it is compared with, if asked: no package of Debian 12 has it.
    #[arg(long, default_value = "valkey-server")]
    pub valkey: PathBuf,
    /// What it is compared with, too.
    #[arg(long, default_value = "memcached")]
    pub memcached: PathBuf,
}

/// How a server is started.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// When its writes are safe.
    pub durability: Durability,
    /// Threads that serve.
    pub threads: usize,
    /// The cores that all of it runs on, as `taskset` writes them; `None`: all.
    pub cores: Option<&'a str>,
    /// How much it may keep.
    pub memory_mib: u64,
    /// Of connections.
    pub connections: usize,
    /// For its files.
    pub folder: &'a Path,
}

impl Programs {
    /// Where the program of `peer` is.
    pub fn path(&self, peer: Peer) -> &Path {
        match peer {
            Peer::Forebay => &self.forebay,
            Peer::Redis => &self.redis,
            Peer::Valkey => &self.valkey,
            Peer::Memcached => &self.memcached,
        }
    }

    /// Says which program is not there, and how to get it.
    pub fn missing(&self, peer: Peer) -> Option<String> {
        let mut asked = Command::new(self.path(peer));
        asked.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let error = asked.status().err()?;
        let shown = self.path(peer).display();
        Some(match peer {
            Peer::Forebay => format!("{shown}: {error}; cargo build --profile dist -p forebay-cli"),
            Peer::Redis => format!("{shown}: {error}; make setup installs it (apt-get install redis-server)"),
            Peer::Valkey => format!("{shown}: {error}; install valkey and name its program by --valkey"),
            Peer::Memcached => format!("{shown}: {error}; make setup-bench installs it (apt-get install memcached)"),
        })
    }

    /// Starts a server and waits until it answers.
    pub fn start(&self, peer: Peer, setup: &Setup<'_>) -> Result<Program, Box<dyn Error>> {
        let port = free_port()?;
        let args = match peer {
            Peer::Forebay => forebay_args(setup, port),
            Peer::Redis | Peer::Valkey => redis_args(peer, setup, port),
            Peer::Memcached => memcached_args(setup, port),
        };
        Ok(Program::start(self.path(peer), &args, setup.cores, port, peer.protocol())?)
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(String::from).collect()
}

fn forebay_args(setup: &Setup<'_>, port: u16) -> Vec<String> {
    let Setup { threads, memory_mib, .. } = setup;
    let mut args =
        words(&format!("serve --listen 127.0.0.1:{port} --http off --threads {threads} --memory {memory_mib}MiB"));
    args.push("--store".into());
    match setup.durability {
        Durability::Memory => args.push("memory".into()),
        durability => {
            args.push(format!("embedded:{}/forebay.redb", setup.folder.display()));
            args.extend(["--durability".into(), durability.name().into()]);
        }
    }
    args
}

fn redis_args(peer: Peer, setup: &Setup<'_>, port: u16) -> Vec<String> {
    let mut args = words(&format!("--port {port} --bind 127.0.0.1 --io-threads {}", setup.threads));
    // valkey-server reads in threads always, and says that this is deprecated.
    if setup.threads > 1 && peer == Peer::Redis {
        args.extend(words("--io-threads-do-reads yes"));
    }
    args.extend(["--save".into(), String::new(), "--dir".into(), setup.folder.display().to_string()]);
    args.extend(words(match setup.durability {
        Durability::Memory => "--appendonly no",
        Durability::Interval => "--appendonly yes --appendfsync everysec",
        Durability::Always => "--appendonly yes --appendfsync always",
    }));
    args
}

fn memcached_args(setup: &Setup<'_>, port: u16) -> Vec<String> {
    let connections = setup.connections.max(64) * 2;
    let mut args = words(&format!("-l 127.0.0.1 -p {port} -U 0 -t {} -c {connections}", setup.threads));
    args.extend(words(&format!("-m {}", setup.memory_mib)));
    // It refuses to run as the superuser unless told whom to become.
    if nix::unistd::geteuid().is_root() {
        args.extend(words("-u root"));
    }
    args
}
