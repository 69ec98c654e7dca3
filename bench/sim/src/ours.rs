//! The simulator under measurement.

use std::error::Error;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;

use forebay::policy::bare::Bare;
use forebay::policy::{Choice, Unit, choose};
use forebay_sim::bare::{replay, replay_trace};
use forebay_sim::catalog::Sample;
use forebay_sim::contender::Contender;
use forebay_sim::lab::{Lab, LabOptions, Silent, Size};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::trace::Trace;

/// One replay.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Requests that were cached.
    pub hits: u64,
    /// Of all threads.
    pub cpu_seconds: f64,
}

/// What a full cache occupies.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// In it.
    pub objects: u64,
    /// Of the process' own memory.
    pub bytes: f64,
    /// Bytes that the policy says its metadata are.
    pub charged: f64,
}

impl std::fmt::Display for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.objects, self.bytes, self.charged)
    }
}

/// The policy that does as libCacheSim's of this name.
pub fn choice(policy: &str) -> Result<Choice, Box<dyn Error>> {
    Ok(choose(match policy {
        // The reference lets in nothing as large as its small queue.
        "s3-fifo" => "s3-fifo:bypass=1",
        name => name,
    })?)
}

/// Requests are in memory.
pub fn memory_form(policy: &str, objects: u64, trace: &Trace) -> Result<Run, Box<dyn Error>> {
    let choice = choice(policy)?;
    timed(|| Ok(replay(choice.policy, &choice.settings(Unit::Entries, objects), requests(trace)).hits))
}

fn requests(trace: &Trace) -> impl Iterator<Item = (u64, u32)> + '_ {
    black_box(&trace.requests).iter().map(|&hash| (hash, 1))
}

/// A file is read and replayed in one pass.
pub fn file_form(policy: &str, objects: u64, trace: &Trace) -> Result<Run, Box<dyn Error>> {
    let choice = choice(policy)?;
    timed(|| {
        let mut records = forebay_trace::open(&trace.path, None)?;
        Ok(replay_trace(choice.policy, &choice.settings(Unit::Entries, objects), &mut *records)?.hits)
    })
}

/// As `forebay sim FILE --policy POLICY --size OBJECTS,..`: all sizes at once. Hits are those of all sizes.
pub fn curve_form(policy: &str, sizes: &[u64], trace: &Trace) -> Result<Run, Box<dyn Error>> {
    let options = LabOptions {
        contenders: vec![Contender::Online(choice(policy)?)],
        sizes: sizes.iter().map(|size| Size::parse(&size.to_string(), Unit::Entries)).collect::<Result<_, _>>()?,
        unit: Unit::Entries,
        reads_only: false,
        warmup: 0.0,
        sample: Sample { rate: 1.0, seed: 0 },
        adjust: true,
        per_client: false,
        writes_allocate: true,
        prefetch: forebay_sim::ahead::Prefetch::None,
        graphs: Vec::new(),
        division: forebay_sim::machine::Division::Shared,
        hint_types: forebay_sim::hints::HintTypes::ALL,
        trace: forebay_trace::TraceOptions::default(),
        threads: NonZeroUsize::MIN,
    };
    timed(|| {
        let rows = Lab::open(&trace.path, &options, &Silent)?.curves()?;
        Ok(rows.iter().map(|row| row.hits).sum())
    })
}

fn timed(run: impl FnOnce() -> Result<u64, Box<dyn Error>>) -> Result<Run, Box<dyn Error>> {
    let cpu = cpu_seconds()?;
    let hits = black_box(run()?);
    Ok(Run { hits, cpu_seconds: cpu_seconds()? - cpu })
}

/// Of this process so far, user and system.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok((usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e6)
}

/// Fills a cache in a process of its own.
pub fn memory_of_a_child(policy: &str, objects: u64, file: &Path) -> Result<Memory, Box<dyn Error>> {
    let child = Command::new(std::env::current_exe()?)
        .args(["--child", policy, &objects.to_string()])
        .arg(file)
        .env_remove("FOREBAY_TRACES")
        .output()?;
    let answer = String::from_utf8(child.stdout)?;
    let numbers = answer.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
    let [objects, bytes, charged] = numbers[..] else {
        return Err(String::from_utf8_lossy(&child.stderr).into_owned().into());
    };
    Ok(Memory { objects: objects as u64, bytes, charged })
}

/// Fills a cache in this process.
pub fn memory(policy: &str, objects: u64, file: &Path) -> Result<Memory, Box<dyn Error>> {
    let choice = choice(policy)?;
    let records = forebay_trace::open(file, None)?;
    let before = anonymous_bytes()?;
    let mut cache = Bare::new(choice.policy, &choice.settings(Unit::Entries, objects));
    for record in records {
        cache.request(record?.key_hash(), 1);
    }
    let bytes = anonymous_bytes()? - before;
    let metadata = cache.len() * choice.policy.entry_bytes + cache.ghost_bytes() + cache.learned_bytes();
    Ok(Memory { objects: cache.len() as u64, bytes: bytes as f64, charged: metadata as f64 })
}

/// What this process itself occupies, without what is mapped from files.
fn anonymous_bytes() -> Result<i64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let kib = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    Ok(kib.and_then(|kib| kib.trim().trim_end_matches(" kB").parse::<i64>().ok()).ok_or("no RssAnon")? * 1024)
}
