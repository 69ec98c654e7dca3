//! What `scripts/instructions.sh` counts the instructions of: `instructions hit 200000`, or `instructions
//! look:lru 200000` for a look by a policy of the table.
//!
//! A hit is one of 100,000 keys, few of which are asked for often, all marked as hit often before. A miss evicts, as
//! all misses after the start do.

use std::process::ExitCode;

use forebay_cache::policy::{POLICIES, PolicyError};
use forebay_cache::{Cache, Inline};

const KEYS: u64 = 100_000;

/// Keys that are not beside each other.
fn scattered(rank: u64) -> u64 {
    rank.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn draw(count: usize) -> Vec<u64> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let share = (state >> 11) as f64 / (1u64 << 53) as f64;
        scattered((share * share * share * KEYS as f64) as u64)
    };
    (0..count).map(|_| next()).collect()
}

#[inline(never)]
fn hits(cache: &Inline<u64, u64>, requests: &[u64]) -> u64 {
    requests.iter().map(|&key| cache.get(key).unwrap_or_default()).fold(0, u64::wrapping_add)
}

#[inline(never)]
fn misses(cache: &Inline<u64, u64>, requests: &[u64]) -> u64 {
    let fresh = (0u64..).map(|rank| scattered(1 << 40 | rank));
    requests.iter().zip(fresh).map(|(_, key)| cache.get_or_insert_with(key, || key)).fold(0, u64::wrapping_add)
}

/// Hits of the cache whose entries lie apart, a guard for each.
#[inline(never)]
fn looks(cache: &Cache<u64, u64>, requests: &[u64]) -> u64 {
    requests.iter().map(|key| cache.get(key).unwrap_or_default()).fold(0, u64::wrapping_add)
}

fn count_looks(requests: &[u64], cache: &Cache<u64, u64>) -> u64 {
    for rank in 0..KEYS {
        cache.insert(scattered(rank), rank);
        (0..4).for_each(|_| _ = cache.get(&scattered(rank)));
    }
    looks(cache, requests)
}

/// `policy`: its name; empty: the built-in one.
fn cache_by(policy: &str) -> Result<Cache<u64, u64>, PolicyError> {
    let builder = Cache::builder().capacity((KEYS + KEYS / 10) as usize);
    Ok(if policy.is_empty() { builder } else { builder.policy(policy)? }.build())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|kind| kind == "policies") {
        POLICIES.iter().for_each(|policy| println!("{}", policy.name));
        return ExitCode::SUCCESS;
    }
    let (Some(kind), Some(count)) = (arguments.get(1), arguments.get(2).and_then(|count| count.parse().ok())) else {
        eprintln!("usage: instructions hit|miss|look|look:POLICY COUNT, or: instructions policies");
        return ExitCode::FAILURE;
    };
    let (kind, policy) = kind.split_once(':').unwrap_or((kind, ""));
    if kind == "look" {
        let cache = match cache_by(policy) {
            Ok(cache) => cache,
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        };
        println!("{}", std::hint::black_box(count_looks(&draw(count), &cache)));
        return ExitCode::SUCCESS;
    }
    let room = if kind == "miss" { KEYS } else { KEYS + KEYS / 10 };
    let Ok(cache) = Inline::with_shards(room as usize, 8) else { return ExitCode::FAILURE };
    for rank in 0..KEYS {
        cache.insert(scattered(rank), rank);
        (0..if kind == "miss" { 0 } else { 4 }).for_each(|_| _ = cache.get(scattered(rank)));
    }
    let requests = draw(count);
    let answer = if kind == "miss" { misses(&cache, &requests) } else { hits(&cache, &requests) };
    println!("{}", std::hint::black_box(answer));
    ExitCode::SUCCESS
}
