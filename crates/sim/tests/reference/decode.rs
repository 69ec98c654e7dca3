//! The reference traces as requests: `(key hash, size of the key's first request)`.

use std::collections::HashMap;
use std::path::Path;

use forebay_trace::{Record, TraceError, TraceKey};

/// Encodings of the traces that `forebay_trace` does not read.
#[derive(Clone, Copy)]
enum Format {
    /// A number in each line; `*` and empty lines are no requests.
    Lirs,
    /// Text fields: the separator, how many to skip at the front, how many make the key, which is the size.
    Fields { separator: char, key: (usize, usize), size: Option<usize> },
    /// CSV whose key, the second field, may contain commas; the size is the fourth.
    BigCache,
    /// JSON lines with `hash_ids`, each a request.
    Mooncake,
    /// Requests for sectors, as pages of 8: places of volume, first sector and number of sectors.
    Sectors { separator: char, volume: usize, first: usize, count: usize },
}

/// A trace of the reference by its name there: file, and format if `forebay_trace` does not tell it by the file's name.
fn find(trace: &str) -> Option<(String, Option<Format>)> {
    let fields = |separator, key, size| Some(Format::Fields { separator, key, size });
    if let Some(name) = trace.strip_prefix("lirs_") {
        return Some((format!("lirs/{name}.trc.zst"), Some(Format::Lirs)));
    }
    if let Some(name) = trace.strip_prefix("arc_") {
        return Some((format!("arc/{name}.lis.zst"), None));
    }
    if let Some(name) = trace.strip_prefix("cache2k_") {
        return Some((format!("cache2k/{name}.be32.zst"), None));
    }
    let sectors = |separator, volume, first, count| Some(Format::Sectors { separator, volume, first, count });
    let (file, format) = match trace {
        "adaptsize_request" => ("adaptsize/request.tr.zst", fields(' ', (1, 1), Some(2))),
        "cachelib_bigcache" => ("cachelib/short_bigcache_traces.csv.zst", Some(Format::BigCache)),
        "cloudphysics_w92" => ("cloudphysics/w92_cloudPhysicsIO.oracleGeneral.bin.zst", None),
        "cloudphysics_w106" => ("cloudphysics/w106.be32.zst", None),
        "corda_vaultservice" => ("corda/trace_vaultservice.be64.zst", None),
        "mooncake_conversation" => ("mooncake/conversation_trace.jsonl.zst", Some(Format::Mooncake)),
        "mqsim_tpcc" => ("mqsim/tpcc-small.trace.zst", sectors(' ', 1, 2, 3)),
        "mqsim_wsrch" => ("mqsim/wsrch-small.trace.zst", sectors(' ', 1, 2, 3)),
        "spec_gcc_addr" => ("penalties/gcc_address_penalties.trace.zst", fields(' ', (1, 1), None)),
        "tencent_block_sample" => ("snia_samples/tencent_block_cloud_storage-sample.csv.zst", sectors(',', 4, 1, 2)),
        "tencent_photo_sample" => {
            ("snia_samples/tencent_photo_cloud_photos-sample.txt.zst", fields(' ', (1, 3), Some(4)))
        }
        "twitter_cluster52_1m" => ("twitter/twitter_cluster52.csv.zst", fields(',', (1, 1), Some(2))),
        "wikimedia_train" => ("wikimedia/wiki_sampled_train.tsv.zst", fields('\t', (1, 1), Some(2))),
        _ => return None,
    };
    Some((file.to_string(), format))
}

/// The requests of a trace, `None` if its file is not in the folder.
pub fn requests(folder: &Path, trace: &str) -> Option<Vec<(u64, u32)>> {
    let (file, format) = find(trace).unwrap_or_else(|| panic!("no format known for {trace}"));
    let path = folder.join(file);
    let file = std::fs::File::open(&path).ok()?;
    let mut requests = match format {
        None => known(&path),
        Some(format) => decode(&zstd::decode_all(file).expect("an intact file"), format),
    };
    let mut first_sizes = HashMap::new();
    for (hash, size) in &mut requests {
        *size = *first_sizes.entry(*hash).or_insert(*size);
    }
    Some(requests)
}

fn known(path: &Path) -> Vec<(u64, u32)> {
    let request = |record: Result<Record, TraceError>| match record.expect("a sound trace") {
        Record { key: TraceKey::Number(number), size, .. } => (mix(number), size.unwrap_or(1).max(1)),
        other => panic!("{}: {other:?}", path.display()),
    };
    forebay_trace::open(path, None).expect("a trace").map(request).collect()
}

fn decode(bytes: &[u8], format: Format) -> Vec<(u64, u32)> {
    let text = || std::str::from_utf8(bytes).expect("text").lines();
    match format {
        Format::Lirs => text().filter_map(|line| line.trim().parse::<u64>().ok()).map(|n| (mix(n), 1)).collect(),
        Format::Fields { separator, key, size } => {
            text().filter_map(|line| fields(line, separator, key, size)).collect()
        }
        Format::BigCache => text().skip(1).map(big_cache).collect(),
        Format::Mooncake => text().flat_map(mooncake).collect(),
        Format::Sectors { separator, volume, first, count } => {
            text().flat_map(|line| pages(line, separator, [volume, first, count])).collect()
        }
    }
}

fn fields(line: &str, separator: char, key: (usize, usize), size: Option<usize>) -> Option<(u64, u32)> {
    let fields: Vec<&str> = line.split(separator).map(str::trim).collect();
    let size = match size {
        Some(place) => fields.get(place)?.parse::<i64>().ok()?.max(1) as u32,
        None => 1,
    };
    Some((hash(fields.get(key.0..=key.1)?.join(" ").as_bytes()), size))
}

fn big_cache(line: &str) -> (u64, u32) {
    let from_the_end: Vec<&str> = line.rsplitn(9, ',').collect();
    let (_, key) = from_the_end[8].split_once(',').expect("time and key");
    (hash(key.as_bytes()), from_the_end[6].parse::<i64>().expect("a size").max(1) as u32)
}

fn mooncake(line: &str) -> Vec<(u64, u32)> {
    let Some((_, ids)) = line.split_once("\"hash_ids\": [") else { return Vec::new() };
    let ids = ids.split([',', ']']).filter_map(|id| id.trim().parse::<u64>().ok());
    ids.map(|id| (mix(id), 1)).collect()
}

fn pages(line: &str, separator: char, places: [usize; 3]) -> Vec<(u64, u32)> {
    let fields: Vec<u64> = line.split(separator).filter_map(|n| n.trim().parse().ok()).collect();
    let [Some(volume), Some(first), Some(count)] = places.map(|place| fields.get(place).copied()) else {
        return Vec::new();
    };
    (first / 8..=(first + count.max(1) - 1) / 8).map(|page| (mix(mix(volume) ^ page), 1)).collect()
}

fn hash(bytes: &[u8]) -> u64 {
    mix(bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)))
}

/// splitmix64's finalizer: one to one, and spreads consecutive numbers.
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
