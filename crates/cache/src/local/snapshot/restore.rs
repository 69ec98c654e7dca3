//! How a cache is built from a file.

use std::fs::File;
use std::hash::{BuildHasher, Hash};
use std::io::Read;
use std::path::Path;

use crate::engine::{Ghosts, Put, Rule};

use super::super::hashing::Hashing;
use super::super::life::{About, Lifetime, Times};
use super::super::{Builder, Cache, Entry, Portable};
use super::blocks::{BlockReader, NoBlock};
use super::form::{Block, Cells, Header, MAGIC, Record, Section, VERSION};
use super::{Damage, Loaded, SnapshotError, io_error, probe};

impl<K: Hash + Eq + Portable + 'static, V: Portable + 'static, S: BuildHasher> Builder<K, V, S> {
    /// Builds the cache and puts in what [`Cache::save`] wrote to a file. The cache is there whatever the file is: a
    /// program starts without a file the first time, and goes on if one is damaged.
    ///
    /// Entries stand in the order that they had, if the policy is the same. Weights are asked again, and entries that
    /// have no room are left out: those that would have gone first. Times went on while the program was away, by the
    /// system's clock ([`Clock::wall`](crate::Clock::wall)); if that went back, then no time has passed.
    ///
    /// ```
    /// use forebay_cache::{Cache, SnapshotError};
    ///
    /// let (cache, loaded) = Cache::<String, u64>::builder().capacity(100).restore("/no/such/file");
    /// assert!(matches!(loaded, Err(SnapshotError::Io { .. })) && cache.is_empty());
    /// ```
    pub fn restore(self, path: impl AsRef<Path>) -> (Cache<K, V, S>, Result<Loaded, SnapshotError>) {
        let path = path.as_ref();
        match File::open(path) {
            Ok(file) => self.restore_from(file, path),
            Err(source) => (self.build(), Err(io_error(path)(source))),
        }
    }

    pub(in crate::local) fn restore_from(
        mut self,
        from: impl Read,
        path: &Path,
    ) -> (Cache<K, V, S>, Result<Loaded, SnapshotError>) {
        let mut reader = BlockReader::new(from, u32::MAX);
        let header = match head::<K, V>(&mut reader, path) {
            Ok(header) => header,
            Err(error) => return (self.build(), Err(error)),
        };
        let knows_tags = Hashing::of(header.seeds).map(|hashing| {
            if let Some(rehash) = self.rehash {
                self.hasher = rehash(&hashing);
            }
            self.hashing = hashing;
        });
        let cache = self.build();
        let loaded = Loading::new(&cache, &header, knows_tags.is_some()).run(&mut reader);
        (cache, Ok(loaded))
    }
}

/// The first block, if it is one of a cache of these keys and values.
fn head<K: Portable, V: Portable>(reader: &mut BlockReader<impl Read>, path: &Path) -> Result<Header, SnapshotError> {
    let foreign = || SnapshotError::Foreign { path: path.to_path_buf() };
    let magic: [u8; 12] = reader.magic().map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => foreign(),
        _ => io_error(path)(error),
    })?;
    let (magic, mut version) = magic.split_at(MAGIC.len());
    let version = u32::read(&mut version).filter(|_| magic == MAGIC).ok_or_else(foreign)?;
    if version != VERSION {
        return Err(SnapshotError::Version { path: path.to_path_buf(), found: version });
    }
    let mut block = Vec::new();
    match reader.block(&mut block) {
        Err(NoBlock::Io(error)) => return Err(io_error(path)(error)),
        Err(_) => return Err(SnapshotError::Head { path: path.to_path_buf() }),
        Ok(()) => {}
    }
    let header = Header::read(&mut &block[..]).ok_or_else(|| SnapshotError::Head { path: path.to_path_buf() })?;
    reader.set_file(header.file);
    let expected = (K::form(), V::form());
    if header.form != expected {
        let name = |(key, value): &(String, String)| format!("keys '{key}' and values '{value}'");
        let (found, expected) = (name(&header.form), name(&expected));
        return Err(SnapshotError::Form { path: path.to_path_buf(), found, expected });
    }
    Ok(header)
}

/// A file that is being loaded.
struct Loading<'c, K, V, S> {
    cache: &'c Cache<K, V, S>,
    header: &'c Header,
    loaded: Loaded,
    knows_tags: bool,
    /// Hashes are what they were.
    same_hashes: bool,
    same_shards: bool,
    now: u64,
    /// In nanoseconds, since it was saved.
    away: u64,
    section: Section,
    /// The weight of the section's entries that are still to be left out, since the cache is smaller.
    skip: u64,
    /// Entries that were read.
    read: u64,
    ghosts: Option<Cells>,
    shards_with_ghosts: u32,
}

impl<'c, K: Hash + Eq + Portable, V: Portable, S: BuildHasher> Loading<'c, K, V, S> {
    fn new(cache: &'c Cache<K, V, S>, header: &'c Header, knows_tags: bool) -> Loading<'c, K, V, S> {
        let same_shards = cache.entries.shards() == header.shards as usize;
        let in_order = header.is_ordered && header.policy == cache.policy && same_shards;
        Loading {
            cache,
            header,
            loaded: Loaded { in_order, ..Loaded::default() },
            knows_tags,
            same_hashes: probe(&cache.hasher) == header.probe,
            same_shards,
            now: cache.time.now(),
            away: cache.time.wall().saturating_sub(header.saved_at),
            section: Section { shard: 0, in_main: false, weight: 0 },
            skip: 0,
            read: 0,
            ghosts: None,
            shards_with_ghosts: 0,
        }
    }

    fn run(mut self, reader: &mut BlockReader<impl Read>) -> Loaded {
        let mut block = Vec::new();
        let what = loop {
            match reader.block(&mut block) {
                Err(NoBlock::Cut) => break Some("cut".to_string()),
                Err(NoBlock::Changed) => break Some("changed".to_string()),
                Err(NoBlock::Io(error)) => break Some(format!("unreadable ({error})")),
                Ok(()) => {}
            }
            match self.block(&block) {
                None => break Some("changed".to_string()),
                Some(true) => break None,
                Some(false) => {}
            }
        };
        let (at, all) = (reader.at(), self.header.entries.max(self.read));
        self.loaded.damage = what.map(|what| Damage { at, missing: all - self.read, all, what });
        self.loaded.with_ghosts = self.shards_with_ghosts > 0;
        self.loaded
    }

    /// Whether it was the last block; `None`: it is none that was written.
    fn block(&mut self, block: &[u8]) -> Option<bool> {
        match Block::read(block)? {
            Block::Section(section) => {
                self.section = section;
                let (all, capacity) = (self.header.weight.max(1), self.cache.capacity() as u64);
                let kept = u128::from(section.weight) * u128::from(capacity.min(all)) / u128::from(all);
                self.skip = section.weight - kept as u64;
            }
            Block::Entries(mut from) => {
                while !from.is_empty() {
                    let record = Record::read(&mut from)?;
                    self.read += 1;
                    self.put(record)?;
                }
            }
            Block::Ghosts(cells) => self.remember(cells),
            Block::End(entries) => return (entries == self.read).then_some(true),
        }
        Some(false)
    }

    fn put(&mut self, record: Record<'_>) -> Option<()> {
        if self.skip > 0 {
            self.skip = self.skip.saturating_sub(record.weight);
            self.loaded.beyond += 1;
            return Some(());
        }
        if record.left.is_some_and(|left| left.until <= self.away) {
            self.loaded.expired += 1;
            return Some(());
        }
        if !record.tags.is_empty() && !self.knows_tags {
            self.loaded.untagged += 1;
            return Some(());
        }
        // One to be kept, and one to find it by.
        let (mut key, mut again, mut value) = (record.key, record.key, record.value);
        let (key_again, entry_key, entry_value) = (K::read(&mut again)?, K::read(&mut key)?, V::read(&mut value)?);
        if !key.is_empty() || !value.is_empty() {
            return None;
        }
        let cache = self.cache;
        let mut newcomer = cache.newcomer(entry_key, entry_value, Some(Lifetime::ENDLESS), &record.tags);
        if let Some(left) = record.left {
            newcomer.entry = self.timed(newcomer.entry, Times::resumed(&left, self.now, self.away));
            newcomer.now = cache.now();
        }
        let (hash, mut due) = (cache.hash(&key_again), Vec::new());
        cache.entries.settle(newcomer.weight);
        let ready = cache.entries.may_defer();
        let guard = cache.entries.pin();
        match cache.put((&guard, ready), hash, newcomer, Rule::Always, &mut due) {
            Ok(Put::Inserted) => self.loaded.entries += 1,
            // It left and came in again while the file was written: the later one is the newer one.
            Ok(Put::Replaced(_)) => {}
            Ok(Put::Kept(_) | Put::Refused) | Err(_) => {
                self.loaded.beyond += 1;
                return Some(());
            }
        }
        if self.loaded.in_order {
            let is = |entry: &Entry<K, V>| entry.key == key_again;
            cache.entries.stand_last(hash, &guard, is, self.section.in_main, record.mark);
        }
        Some(())
    }

    fn timed(&self, entry: Entry<K, V>, times: Times) -> Entry<K, V> {
        self.cache.expects_times();
        let tags = entry.about.map_or(Box::default(), |about| about.tags);
        Entry { about: Some(Box::new(About { times, tags })), ..entry }
    }

    /// Gathers the ghosts of a shard, and has it remember them when they are whole.
    fn remember(&mut self, cells: Cells) {
        if !self.same_hashes || !self.same_shards || self.header.policy != self.cache.policy {
            return;
        }
        let gathered = match self.ghosts.take() {
            Some(mut before) if before.shard == cells.shard && before.cells.len() as u64 == cells.first => {
                before.cells.extend(cells.cells);
                before
            }
            _ if cells.first == 0 => cells,
            _ => return,
        };
        if gathered.cells.len() as u64 == gathered.total {
            let Cells { shard, now, pushes, cells, .. } = gathered;
            let ghosts = Ghosts { cells, now, pushes: pushes as usize };
            self.shards_with_ghosts += u32::from(self.cache.entries.set_ghosts(shard as usize, ghosts));
        } else {
            self.ghosts = Some(gathered);
        }
    }
}
