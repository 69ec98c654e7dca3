//! A disk that takes a while to sync, and counts how often it did.

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay::store::embedded::MakeBackend;
use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

/// What each sync takes beyond what the file's disk takes.
pub const ADDED: Duration = Duration::from_millis(1);

struct SlowSync {
    file: FileBackend,
    syncs: Arc<AtomicU64>,
}

/// Makes such a disk of the file `path`; `syncs` counts.
pub fn make(path: PathBuf, syncs: Arc<AtomicU64>) -> MakeBackend {
    Arc::new(move || {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        let file = FileBackend::new(file).map_err(io::Error::other)?;
        Ok(Box::new(SlowSync { file, syncs: syncs.clone() }) as Box<dyn StorageBackend>)
    })
}

impl fmt::Debug for SlowSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl StorageBackend for SlowSync {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(ADDED);
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
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

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}
