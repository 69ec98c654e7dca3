//! A look at the whole file: every page against its checksum, every table against the others. The file stays as it is:
//! what redb writes when it opens or mends one goes to memory.
//!
//! redb checks the sums of pages only then and when it opens a file that was not closed properly; a read trusts the
//! page. So this is what tells a file that has rotted in a place that still makes sense.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

use super::file::{self, MakeBackend, OpenError};
use super::place::plain_error;
use super::validate;
use crate::key::SPACES;

/// Memory for pages while a file is checked.
const CACHE_BYTES: usize = 64 * 1024 * 1024;

/// Bytes that a write copies of the file before it changes them.
const BLOCK_BYTES: usize = 4096;

/// What a sound file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Documents per key space, expired ones included.
    pub documents: [u64; SPACES as usize],
}

/// Checks the store in the file `path`, which nobody may have open, and does not change it. Takes memory for the file's
/// large and its expiring documents, about 100 bytes each.
pub fn check(path: impl AsRef<Path>) -> Result<Checked, OpenError> {
    let path = path.as_ref().to_path_buf();
    let name = path.display().to_string();
    let make: MakeBackend = Arc::new(move || {
        // redb's lock on the file needs the right to write, although nothing is written.
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        let backend = FileBackend::new(file).map_err(plain_error)?;
        Ok(Box::new(backend) as Box<dyn StorageBackend>)
    });
    check_named(&name, make)
}

pub(super) fn check_named(name: &str, make: MakeBackend) -> Result<Checked, OpenError> {
    let overlaid: MakeBackend = Arc::new(move || Ok(Box::new(Overlay::new(make()?)?)));
    if overlaid().and_then(|file| file.len()).map_err(|source| file::io_error(name, source))? == 0 {
        return Err(OpenError::Foreign(name.to_owned()));
    }
    let (mut database, loaded) = file::open(name, &overlaid, CACHE_BYTES, |_| false)?;
    let looked = catch_unwind(AssertUnwindSafe(|| -> Result<Option<String>, redb::Error> {
        if !database.check_integrity()? {
            return Ok(Some("pages do not agree with their checksums".to_owned()));
        }
        Ok(validate::validate(&database)?.err())
    }));
    file::let_go(database);
    let why = match looked {
        Ok(Ok(None)) => return Ok(Checked { documents: loaded.totals.counts }),
        Ok(Ok(Some(why))) => why,
        Ok(Err(error)) => error.to_string(),
        Err(panic) => file::panic_text(panic),
    };
    Err(OpenError::Damaged { name: name.to_owned(), why })
}

/// A file whose changes stay in memory.
#[derive(Debug)]
struct Overlay {
    file: Box<dyn StorageBackend>,
    changed: Mutex<Changed>,
}

#[derive(Debug)]
struct Changed {
    length: u64,
    /// Bytes of the file that still count: what lies behind was cut off once.
    file_length: u64,
    /// By their place, in blocks.
    blocks: BTreeMap<u64, Box<[u8]>>,
}

impl Overlay {
    fn new(file: Box<dyn StorageBackend>) -> io::Result<Overlay> {
        let length = file.len()?;
        Ok(Overlay { file, changed: Mutex::new(Changed { length, file_length: length, blocks: BTreeMap::new() }) })
    }

    fn changed(&self) -> MutexGuard<'_, Changed> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of `offset..`, as they stand.
    fn fill(&self, changed: &Changed, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let from_file = changed.file_length.saturating_sub(offset).min(out.len() as u64) as usize;
        let (old, new) = out.split_at_mut(from_file);
        if !old.is_empty() {
            self.file.read(offset, old)?;
        }
        new.fill(0);
        let (first, end) = (offset / BLOCK_BYTES as u64, offset + out.len() as u64);
        for (block, bytes) in changed.blocks.range(first..end.div_ceil(BLOCK_BYTES as u64)) {
            let start = block * BLOCK_BYTES as u64;
            let (from, to) = (start.max(offset), end.min(start + BLOCK_BYTES as u64));
            out[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]);
        }
        Ok(())
    }
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changed().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changed = self.changed();
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > changed.length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.fill(&changed, offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut changed = self.changed();
        if len < changed.length {
            changed.file_length = changed.file_length.min(len);
            let kept = len.div_ceil(BLOCK_BYTES as u64);
            changed.blocks.split_off(&kept);
            if let Some(last) = changed.blocks.get_mut(&(len / BLOCK_BYTES as u64)) {
                last[(len % BLOCK_BYTES as u64) as usize..].fill(0);
            }
        }
        changed.length = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changed = self.changed();
        let end = offset.checked_add(data.len() as u64).ok_or(io::ErrorKind::InvalidInput)?;
        for block in offset / BLOCK_BYTES as u64..end.div_ceil(BLOCK_BYTES as u64) {
            let start = block * BLOCK_BYTES as u64;
            let mut bytes = vec![0; BLOCK_BYTES].into_boxed_slice();
            self.fill(&changed, start, &mut bytes)?;
            let (from, to) = (start.max(offset), end.min(start + BLOCK_BYTES as u64));
            bytes[(from - start) as usize..(to - start) as usize]
                .copy_from_slice(&data[(from - offset) as usize..(to - offset) as usize]);
            changed.blocks.insert(block, bytes);
        }
        changed.length = changed.length.max(end);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}
