//! Traces as both programs get them: one file in libCacheSim's own format, not compressed, and the same in memory.

use std::collections::HashSet;
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use forebay_trace::TraceKey;

/// What is measured if nobody says otherwise: block I/O, a database, pages of a web shop, a key-value cache.
pub const FILES: [&str; 5] = [
    "cloudphysics/w106.be32.zst",
    "arc/OLTP.lis.zst",
    "cache2k/orm-busy.be32.zst",
    "twitter/twitter_cluster52.csv.zst",
    "arc/P6.lis.zst",
];

/// A trace.
pub struct Trace {
    /// The name of its file, without folder and endings.
    pub name: String,
    /// The file that both read.
    pub path: PathBuf,
    /// Hashes of its requests' keys.
    pub requests: Vec<u64>,
    /// Distinct keys.
    pub keys: usize,
}

impl Trace {
    /// Reads a trace of any format and writes it to `folder`, every access as a request.
    pub fn load(traces: &Path, name: &str, folder: &Path) -> Result<Trace, Box<dyn Error>> {
        let source = traces.join(name);
        let mut keys = Vec::new();
        for record in forebay_trace::open(&source, None).map_err(|error| format!("{}: {error}", source.display()))? {
            let record = record?;
            if record.kind.is_access() {
                keys.push(match record.key {
                    TraceKey::Number(number) => number,
                    _ => record.key_hash(),
                });
            }
        }
        let file = Path::new(name).file_name().and_then(|name| name.to_str()).unwrap_or(name);
        Trace::write(file.split('.').next().unwrap_or(file), &keys, folder)
    }

    /// Twice as many keys as `objects`, none of them twice.
    pub fn of_new_keys(objects: u32, folder: &Path) -> Result<Trace, Box<dyn Error>> {
        let keys: Vec<u64> = (1..=2 * u64::from(objects)).collect();
        Trace::write("new-keys", &keys, folder)
    }

    fn write(name: &str, keys: &[u64], folder: &Path) -> Result<Trace, Box<dyn Error>> {
        let path = folder.join(format!("{name}.oracleGeneral.bin"));
        let mut file = BufWriter::new(File::create(&path)?);
        for (second, key) in keys.iter().enumerate() {
            file.write_all(&(second as u32).to_le_bytes())?;
            file.write_all(&key.to_le_bytes())?;
            file.write_all(&1_u32.to_le_bytes())?;
            // When the key comes again; of the policies here none asks.
            file.write_all(&(-1_i64).to_le_bytes())?;
        }
        file.flush()?;
        let requests = forebay_trace::open(&path, None)?.map(|record| record.map(|record| record.key_hash()));
        Ok(Trace {
            name: name.to_owned(),
            requests: requests.collect::<Result<_, _>>()?,
            keys: keys.iter().collect::<HashSet<_>>().len(),
            path,
        })
    }
}
