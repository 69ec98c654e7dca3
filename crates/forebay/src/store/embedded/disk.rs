//! The disk under redb. It notices what another program does to the file while it is open, and refuses to go on. A
//! write after a cut would make the file long again. One over an older copy would make one file of two.
//!
//! **Invariant.** No sync succeeds over a file that is shorter than redb has made it. None does over one whose head is
//! not what redb wrote last. redb writes the head with each sync.

use std::fmt;
use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::{BackendError, StorageBackend};

/// Bytes at the beginning that are compared; redb's own head has as many.
const HEAD_BYTES: usize = 320;

/// A boxed disk, as redb wants it.
pub(super) struct Disk {
    disk: Box<dyn StorageBackend>,
    /// Bytes that the disk has, as far as redb knows.
    length: AtomicU64,
    /// What the disk begins with, as far as redb knows; less if it is shorter.
    head: Mutex<Vec<u8>>,
}

impl Disk {
    pub fn open(disk: Box<dyn StorageBackend>) -> io::Result<Disk> {
        let length = disk.len()?;
        let mut head = vec![0; head_bytes(length)];
        disk.read(0, &mut head)?;
        Ok(Disk { disk, length: AtomicU64::new(length), head: Mutex::new(head) })
    }

    fn check_length(&self) -> io::Result<()> {
        let (known, found) = (self.length.load(Ordering::Acquire), self.disk.len()?);
        match found < known {
            true => Err(touched(&format!("the file was cut from {known} to {found} bytes"))),
            false => Ok(()),
        }
    }

    fn check_head(&self, head: &[u8]) -> io::Result<()> {
        let mut found = [0; HEAD_BYTES];
        let found = &mut found[..head.len()];
        self.disk.read(0, found)?;
        match found == head {
            true => Ok(()),
            false => Err(touched("the file was written by another program")),
        }
    }

    fn head(&self) -> MutexGuard<'_, Vec<u8>> {
        self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn touched(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, format!("{what} while it is open"))
}

fn head_bytes(length: u64) -> usize {
    usize::try_from(length).unwrap_or(HEAD_BYTES).min(HEAD_BYTES)
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disk.fmt(f)
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_length()?;
        // A shorter one is known before it is cut.
        self.length.fetch_min(len, Ordering::AcqRel);
        self.disk.set_len(len)?;
        self.length.store(len, Ordering::Release);
        self.head().resize(head_bytes(len), 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check_length()?;
        self.check_head(&self.head())?;
        self.disk.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check_length()?;
        if offset >= HEAD_BYTES as u64 {
            return self.disk.write(offset, data);
        }
        let mut head = self.head();
        self.check_head(&head)?;
        self.disk.write(offset, data)?;
        for (known, written) in head.iter_mut().skip(offset as usize).zip(data) {
            *known = *written;
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.disk.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.disk.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.disk.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.disk.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.disk.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.disk.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.disk.query_lock_range(start, end)
    }
}
