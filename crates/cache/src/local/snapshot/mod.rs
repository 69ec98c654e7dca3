//! A file with all entries and their order, from which a cache starts warm.
//!
//! [`Cache::save`] writes the file beside the one that it replaces, and no lock is held while it writes.
//! [`Builder::restore`](crate::Builder::restore) builds a cache and puts in what the file holds.
//!
//! * **No wrong value.** Each block of the file has a checksum (`blocks.rs`). At the first one that is not right,
//!   loading ends, and says how much came in.
//! * **Time goes on.** The file says what was left of each entry's times, and when that was. An entry that expired
//!   meanwhile does not come in.
//! * **The order is kept**, and hits that count. So are the ghosts, which are prints of hashes: the new cache takes
//!   over the hasher's seeds for them.
//!
//! `form.rs` says what stands in the blocks, and `docs/snapshot-format.md` says it to others.

mod beside;
mod blocks;
mod form;
mod restore;

use std::hash::{BuildHasher, Hash};
use std::io::Write;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::mutation::{Fault, on};

use super::{Cache, Portable};
use beside::Beside;
pub use blocks::{BlockReader, BlockWriter, NoBlock};
use form::{ENTRIES, Header, MAGIC, Record, Section, VERSION};

/// Bytes of entries after which a block is written.
const BLOCK_BYTES: usize = 1 << 16;

/// Entries that are looked at together.
const STEP: usize = 64;

/// What was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Saved {
    /// Entries.
    pub entries: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// What came out of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loaded {
    /// Entries that came in.
    pub entries: u64,
    /// Entries whose time was over.
    pub expired: u64,
    /// Entries for which the cache is too small: those that would have gone first.
    pub beyond: u64,
    /// Entries that were left out because they have tags, which the process knows no more seeds for.
    pub untagged: u64,
    /// The entries stand in the order that they had. Else the policy is another one, or has no such order, or the
    /// shards are not as many; those of one shard then stand behind those of another.
    pub in_order: bool,
    /// The cache remembers the keys that had left before.
    pub with_ghosts: bool,
    /// Something of the file is missing.
    pub damage: Option<Damage>,
}

/// Why the rest of a file was not loaded.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the file is {what} from byte {at} on: {missing} of {all} entries are missing. What was loaded is right")]
#[non_exhaustive]
pub struct Damage {
    /// The first byte of what is not right.
    pub at: u64,
    /// Entries that did not come to be read, as far as the file tells.
    pub missing: u64,
    /// Entries that the file tells of.
    pub all: u64,
    /// `cut`, `changed`, or an error of the disk.
    pub what: String,
}

/// Why there is no snapshot, or nothing of one was loaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The file can't be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It is something else.
    #[error("{path} is no snapshot of a cache; name the file that Cache::save wrote")]
    Foreign {
        /// Which file.
        path: PathBuf,
    },
    /// Another version of the program wrote it.
    #[error("{path} is a snapshot of version {found}, and this program reads version {VERSION}; start without it")]
    Version {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// Its first block is cut or changed.
    #[error("{path}: the head of the snapshot is damaged; start without it")]
    Head {
        /// Which file.
        path: PathBuf,
    },
    /// It holds other keys or values.
    #[error("{path} holds {found}, and the cache {expected}; load it into a cache of its types, or start without it")]
    Form {
        /// Which file.
        path: PathBuf,
        /// Its keys and values.
        found: String,
        /// Those of the cache.
        expected: String,
    },
}

fn io_error(path: &Path) -> impl Fn(std::io::Error) -> SnapshotError {
    move |source| SnapshotError::Io { path: path.to_path_buf(), source }
}

/// What tells a hasher from others.
fn probe(hasher: &impl BuildHasher) -> u64 {
    hasher.hash_one("forebay").rotate_left(1) ^ hasher.hash_one(0x5eed_u64)
}

impl<K: Hash + Eq + Portable, V: Portable, S: BuildHasher> Cache<K, V, S> {
    /// Writes all entries, their order and their times to a file, which is whole or not there. It replaces one of
    /// that name. Others use the cache meanwhile: of what they change, the file holds the old or the new. Pins are
    /// not kept.
    ///
    /// What is invalidated after it was written comes back with the file. A program whose values may not be older
    /// than its last invalidation saves at its end, and removes the file when it starts.
    ///
    /// The file holds the seeds of the hasher. Who can read it can choose keys that collide, and so it is made for
    /// its owner alone.
    ///
    /// ```
    /// use forebay_cache::Cache;
    ///
    /// let path = std::env::temp_dir().join(format!("doc-{}.snapshot", std::process::id()));
    /// let cache: Cache<String, u64> = Cache::new(100);
    /// cache.insert("answer".to_string(), 42);
    /// assert_eq!(cache.save(&path)?.entries, 1);
    ///
    /// let (warm, loaded) = Cache::<String, u64>::builder().capacity(100).restore(&path);
    /// assert_eq!((loaded?.entries, warm.get("answer")), (1, Some(42)));
    /// # std::fs::remove_file(&path).ok();
    /// # Ok::<(), forebay_cache::SnapshotError>(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Saved, SnapshotError> {
        let path = path.as_ref();
        self.write(path).map_err(io_error(path))
    }

    fn write(&self, path: &Path) -> std::io::Result<Saved> {
        let mut magic = MAGIC.to_vec();
        VERSION.write(&mut magic);
        let beside = Beside::new(path)?;
        let mut writer = BlockWriter::new(beside.file(), &magic)?;
        let (now, shards) = (self.time.now(), self.entries.shards());
        let header = Header {
            file: writer.file(),
            saved_at: self.time.wall(),
            form: (K::form(), V::form()),
            policy: self.policy.clone(),
            is_ordered: self.entries.line(0).1,
            seeds: self.hashing.seeds(),
            probe: probe(&self.hasher),
            shards: shards as u32,
            entries: self.len() as u64,
            weight: self.weight() as u64,
        };
        writer.block(&header.write())?;
        let mut entries = 0;
        for shard in 0..shards {
            let (queues, _) = self.entries.line(shard);
            for (slots, in_main) in queues.into_iter().zip([false, true]) {
                entries += self.write_section(&mut writer, (shard, in_main), &slots, now)?;
            }
        }
        for shard in 0..shards {
            if let Some(ghosts) = self.entries.ghosts(shard) {
                form::ghosts(shard as u32, &ghosts).try_for_each(|block| writer.block(&block))?;
            }
        }
        writer.block(&form::end(entries))?;
        let bytes = writer.finish()?;
        beside.finish()?;
        Ok(Saved { entries, bytes })
    }

    fn write_section(
        &self,
        writer: &mut BlockWriter<impl Write>,
        (shard, in_main): (usize, bool),
        slots: &[u32],
        now: u64,
    ) -> std::io::Result<u64> {
        let all = slots.chunks(STEP).map(|slots| {
            let guard = self.entries.pin();
            self.entries.standing(shard, slots, &guard).iter().map(|entry| entry.weight as u64).sum::<u64>()
        });
        writer.block(&Section { shard: shard as u32, in_main, weight: all.sum() }.write())?;
        let (mut block, mut entries) = (vec![ENTRIES], 0);
        for slots in slots.chunks(STEP) {
            let guard = self.entries.pin();
            let mut before = None;
            for standing in self.entries.standing(shard, slots, &guard) {
                let entry = standing.item;
                if !self.lives(entry) {
                    continue;
                }
                let record = Record {
                    mark: standing.mark,
                    weight: standing.weight as u64,
                    left: entry.about.as_ref().map(|about| about.times.left(now)),
                    tags: entry.about.as_ref().map_or(Vec::new(), |about| about.tags.to_vec()),
                    key: &[],
                    value: &[],
                };
                let of = before.replace(entry).filter(|_| on(Fault::ValueUnderAnother)).unwrap_or(entry);
                record.write(|to| entry.key.write(to), |to| of.value.write(to), &mut block);
                entries += 1;
            }
            // Nothing waits for the disk.
            drop(guard);
            if block.len() >= BLOCK_BYTES {
                writer.block(&block)?;
                block.truncate(1);
            }
        }
        if block.len() > 1 {
            writer.block(&block)?;
        }
        Ok(entries)
    }
}
