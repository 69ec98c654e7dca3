//! The file that names what is cached, and how it stands: `docs/snapshot-format.md` as code.
//!
//! It holds no values: those are read again from the store. It is written beside the one that it replaces, so there is
//! always a whole one. It is for its owner alone, and never a symbolic link.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use forebay_cache::{BlockReader, BlockWriter, NoBlock, Portable};
use thiserror::Error;

use crate::cache::{Cache, Line, Standing};
use crate::key::{KEY_BYTES_MAX, Key, SPACES};
use crate::runtime::files::{Successor, open_own, open_unchanged};
use crate::sync::Mutex;

/// What the file begins with: that it names what is cached, and in which form.
const MAGIC: [u8; 8] = *b"FOREBAYW";
const VERSION: u32 = 1;

/// What the blocks after the first one hold, by their first byte.
const GHOSTS: u8 = 1;
const KEYS: u8 = 2;
const END: u8 = 3;

/// Of an entry's first byte.
const TOUCHES: u8 = 3;
const ABSENT: u8 = 1 << 2;
const SECTION_SHIFT: u32 = 3;

/// Bytes of keys after which a block is written.
const BLOCK_BYTES: usize = 1 << 16;

/// No block is longer.
const BLOCK_BYTES_MAX: u32 = 1 << 18;

/// Ghosts of a block at most.
const GHOSTS_AT_ONCE: usize = 1 << 14;

/// Keys of a partition that are looked at together, and stand together.
const STEP: usize = 16;

/// Why nothing is known of what was cached.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WarmError {
    /// The machine does not let it be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("it names no cached keys; it is replaced when those of this run are written")]
    Foreign,
    /// Another version of the program wrote it.
    #[error("it is of version {0}, and this program reads version {VERSION}; it is replaced")]
    Version(u32),
    /// Its first block is cut or changed.
    #[error("its head is damaged; it is replaced when the keys of this run are written")]
    Head,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Keys that it names.
    pub keys: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// See the module.
#[derive(Debug)]
pub struct WarmFile {
    path: PathBuf,
    policy: String,
    /// It is written by one at a time.
    saving: Mutex<()>,
}

impl WarmFile {
    /// The file `path` of a cache with this policy, as a user names it. An error if it can't be read, though it is
    /// there, if it is something else, or if no other can be written beside it.
    pub fn new(path: impl Into<PathBuf>, policy: String) -> io::Result<WarmFile> {
        let file = WarmFile { path: path.into(), policy, saving: Mutex::new(()) };
        for path in [file.path.clone(), Successor::temporary(&file.path)?] {
            refuse_others(&path)?;
        }
        drop(Successor::begin(&file.path)?);
        Ok(file)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the keys of `cache` and how they stand, while others use it. For a thread that may wait for the disk.
    pub fn save(&self, cache: &Cache) -> io::Result<Named> {
        let _one = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let successor = Successor::begin(&self.path)?;
        let mut magic = MAGIC.to_vec();
        VERSION.write(&mut magic);
        let mut writer = BlockWriter::new(&successor.file, &magic)?;
        let mut lines: Vec<Line> = (0..cache.partitions()).map(|partition| cache.line(partition)).collect();
        let mut head = Vec::new();
        (writer.file(), lines.len() as u32, lines.iter().map(|line| line.len() as u64).sum::<u64>()).write(&mut head);
        self.policy.write(&mut head);
        writer.block(&head)?;
        for partition in 0..lines.len() {
            for ghosts in cache.ghosts(partition).chunks(GHOSTS_AT_ONCE) {
                let mut block = vec![GHOSTS];
                (partition as u32).write(&mut block);
                <(u32, u32)>::write_all(ghosts, &mut block);
                writer.block(&block)?;
            }
        }
        // In turns, so that a cache that is smaller has of each partition what would stay longest.
        let (mut keys, mut block) = (0, vec![KEYS]);
        while lines.iter().any(|line| !line.is_empty()) {
            for (key, standing) in lines.iter_mut().flat_map(|line| cache.stand(line, STEP)) {
                put(&key, standing, &mut block);
                keys += 1;
                if block.len() >= BLOCK_BYTES {
                    writer.block(&block)?;
                    block.truncate(1);
                }
            }
        }
        if block.len() > 1 {
            writer.block(&block)?;
        }
        let mut end = vec![END];
        u64::write(&keys, &mut end);
        writer.block(&end)?;
        let bytes = writer.finish()?;
        successor.finish()?;
        Ok(Named { keys, bytes })
    }

    /// What it names; `None`: it is not there.
    pub(super) fn read(&self) -> Result<Option<Names>, WarmError> {
        let Some(file) = open(&self.path)? else { return Ok(None) };
        let mut reader = BlockReader::new(file, BLOCK_BYTES_MAX);
        let magic: [u8; 12] = match reader.magic() {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(WarmError::Foreign),
            magic => magic?,
        };
        let (magic, mut version) = magic.split_at(MAGIC.len());
        match u32::read(&mut version).filter(|_| magic == MAGIC) {
            Some(VERSION) => {}
            Some(other) => return Err(WarmError::Version(other)),
            None => return Err(WarmError::Foreign),
        }
        let mut block = Vec::new();
        match reader.block(&mut block) {
            Ok(()) => {}
            Err(NoBlock::Io(error)) => return Err(error.into()),
            Err(_) => return Err(WarmError::Head),
        }
        let head = <(u64, u32, u64, String)>::read(&mut &block[..]);
        let (number, partitions, keys, policy) = head.ok_or(WarmError::Head)?;
        reader.set_file(number);
        let same_policy = policy == self.policy;
        Ok(Some(Names { reader, partitions: partitions as usize, same_policy, keys, told: 0, block }))
    }
}

fn open(path: &Path) -> io::Result<Option<File>> {
    there(open_own(path, OpenOptions::new().read(true)))
}

/// None where there is no such file.
fn there(opened: io::Result<File>) -> io::Result<Option<File>> {
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// An error if `path` is a file of another kind, which would be replaced. One that was cut may be of any length.
fn refuse_others(path: &Path) -> io::Result<()> {
    let Some(file) = there(open_unchanged(path, OpenOptions::new().read(true)))? else { return Ok(()) };
    let mut begin = Vec::new();
    file.take(MAGIC.len() as u64).read_to_end(&mut begin)?;
    match MAGIC.starts_with(&begin) {
        true => Ok(()),
        false => Err(io::Error::other("it is a file of another kind, which would be replaced; name another")),
    }
}

/// Adds a key.
fn put(key: &Key, standing: Standing, to: &mut Vec<u8>) {
    let absent = if standing.absent { ABSENT } else { 0 };
    let section = standing.section.unwrap_or_default() << SECTION_SHIFT;
    to.extend([standing.touches & TOUCHES | absent | section, key.space()]);
    (key.name().len() as u32).write(to);
    to.extend_from_slice(key.name());
}

fn take(from: &mut &[u8]) -> Option<(Key, Standing)> {
    let (head, space, length) = <(u8, u8, u32)>::read(from)?;
    let (name, rest) = from.split_at_checked(length as usize)?;
    *from = rest;
    let standing =
        Standing { section: Some(head >> SECTION_SHIFT), touches: head & TOUCHES, absent: head & ABSENT != 0 };
    (space < SPACES && name.len() <= KEY_BYTES_MAX).then(|| (Key::new(space, name), standing))
}

/// What a file names, one part after the other.
pub(super) struct Names {
    reader: BlockReader<File>,
    /// Partitions of the cache.
    pub partitions: usize,
    /// Its policy was the same.
    pub same_policy: bool,
    /// Keys, by what was cached when it was begun.
    pub keys: u64,
    told: u64,
    block: Vec<u8>,
}

/// A part of a file.
pub(super) enum Part {
    /// What the policy remembered of keys that had left a partition.
    Ghosts(usize, Vec<(u32, u32)>),
    /// Keys, and how they stood; those first that would have stayed longest.
    Keys(Vec<(Key, Standing)>),
    /// All is told.
    End,
}

impl Names {
    /// The next part; or why the rest is lost.
    pub fn next(&mut self) -> Result<Part, String> {
        let what = match self.reader.block(&mut self.block) {
            Ok(()) => match self.part() {
                Some(part) => return Ok(part),
                None => "changed".to_owned(),
            },
            Err(NoBlock::Cut) => "cut".to_owned(),
            Err(NoBlock::Changed) => "changed".to_owned(),
            Err(NoBlock::Io(error)) => format!("unreadable ({error})"),
        };
        let missing = self.keys.saturating_sub(self.told);
        Err(format!("it is {what} from byte {} on: {missing} of {} keys are missing", self.reader.at(), self.keys))
    }

    fn part(&mut self) -> Option<Part> {
        let mut from = &self.block[..];
        match u8::read(&mut from)? {
            GHOSTS => {
                let partition = u32::read(&mut from)? as usize;
                let ghosts = <(u32, u32)>::read_all(from.len() / size_of::<(u32, u32)>(), &mut from)?;
                Some(Part::Ghosts(partition, ghosts))
            }
            KEYS => {
                let mut keys = Vec::new();
                while !from.is_empty() {
                    let (key, standing) = take(&mut from)?;
                    // A policy knows its own sections.
                    keys.push((key, Standing { section: standing.section.filter(|_| self.same_policy), ..standing }));
                }
                self.told += keys.len() as u64;
                Some(Part::Keys(keys))
            }
            END => (u64::read(&mut from)? == self.told).then_some(Part::End),
            _ => None,
        }
    }
}
