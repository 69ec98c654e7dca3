//! A disk for crash tests: writes are kept apart until they are synced, and a crash forgets some of those.

use std::io;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{BackendError, StorageBackend};

use super::survivors::Unsynced;

#[derive(Clone, Debug, Default)]
struct State {
    /// What a crash leaves for sure.
    synced: Vec<u8>,
    /// What a reader sees.
    seen: Vec<u8>,
    pending: Vec<Unsynced>,
    /// Handles of an earlier life are dead: after a crash nothing of theirs reaches the disk.
    life: u64,
    writes: u64,
    bytes_written: u64,
    syncs: u64,
    /// Writes and syncs until everything fails; none: never.
    fails_in: Option<u64>,
    /// Bytes that have room; none: any number.
    bytes_max: Option<usize>,
}

/// What went to the disk so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Number of writes.
    pub writes: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Number of syncs.
    pub syncs: u64,
}

/// The disk; clones share it. Open handles with [`Forgetful::handle`].
#[derive(Clone, Debug, Default)]
pub struct Forgetful(Arc<Mutex<State>>);

#[derive(Debug)]
struct Handle {
    disk: Forgetful,
    life: u64,
}

impl State {
    fn write(&mut self, pending: Unsynced) {
        pending.apply(&mut self.seen);
        self.pending.push(pending);
    }

    fn count_down(&mut self) -> io::Result<()> {
        match &mut self.fails_in {
            Some(0) => Err(io::Error::other("the disk was ordered to fail")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn room(&self, end: u64) -> io::Result<()> {
        match self.bytes_max.is_some_and(|max| end > max as u64) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

impl Forgetful {
    /// An empty disk.
    pub fn new() -> Forgetful {
        Forgetful::default()
    }

    /// A disk that holds `bytes`, synced.
    pub fn holding(bytes: Vec<u8>) -> Forgetful {
        let disk = Forgetful::new();
        let mut state = disk.state();
        state.synced = bytes.clone();
        state.seen = bytes;
        drop(state);
        disk
    }

    /// Another disk in the same state, with what it has not synced; handles of this one have nothing to do with it.
    pub fn copy(&self) -> Forgetful {
        Forgetful(Arc::new(Mutex::new(self.state().clone())))
    }

    /// Writes and changes of length that a crash may forget now.
    pub fn unsynced(&self) -> usize {
        self.state().pending.len()
    }

    /// What a reader sees now.
    pub fn bytes(&self) -> Vec<u8> {
        self.state().seen.clone()
    }

    /// A handle that works until the next crash.
    pub fn handle(&self) -> Box<dyn StorageBackend> {
        Box::new(Handle { disk: self.clone(), life: self.state().life })
    }

    /// What went to the disk so far.
    pub fn written(&self) -> Written {
        let state = self.state();
        Written { writes: state.writes, bytes: state.bytes_written, syncs: state.syncs }
    }

    /// Lets every write and sync fail after so many more; `None` mends the disk.
    pub fn fail_in(&self, calls: Option<u64>) {
        self.state().fails_in = calls;
    }

    /// Refuses, from now on, writes beyond so many bytes, as a full disk does: to lengthen a file takes no room, to
    /// write there does. `None` gives it room.
    pub fn hold_at_most(&self, bytes_max: Option<usize>) {
        self.state().bytes_max = bytes_max;
    }

    /// Ends all handles. Of the writes not synced, those survive for which `survives` (asked in order) says so; a
    /// write may survive in part: `Some(bytes)` keeps that much of its front, `None` drops it.
    pub fn crash(&self, mut survives: impl FnMut(usize) -> Option<usize>) {
        let mut state = self.state();
        state.life += 1;
        let mut disk = std::mem::take(&mut state.synced);
        for pending in std::mem::take(&mut state.pending) {
            if let Some(kept) = pending.after_crash(&mut survives) {
                kept.apply(&mut disk);
            }
        }
        state.seen = disk.clone();
        state.synced = disk;
        state.fails_in = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.disk.state();
        match state.life == self.life {
            true => Ok(state),
            false => Err(io::Error::other("the machine has crashed")),
        }
    }
}

impl StorageBackend for Handle {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state()?.seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state()?;
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let found = start.checked_add(out.len()).and_then(|end| state.seen.get(start..end));
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state()?;
        state.count_down()?;
        state.write(Unsynced::Length(len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state()?;
        state.count_down()?;
        state.syncs += 1;
        let state = &mut *state;
        for pending in state.pending.drain(..) {
            pending.apply(&mut state.synced);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state()?;
        state.count_down()?;
        state.room(offset + data.len() as u64)?;
        state.writes += 1;
        state.bytes_written += data.len() as u64;
        state.write(Unsynced::Write(offset, data.to_vec()));
        Ok(())
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        whole(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        whole(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        whole(start, end).map(|_| ())
    }
}

/// Only the whole disk can be locked, and only one database at a time uses it.
fn whole(start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
    match (start, end) {
        (Bound::Unbounded | Bound::Included(0), Bound::Unbounded) => Ok(true),
        _ => Err(BackendError::Unsupported),
    }
}
