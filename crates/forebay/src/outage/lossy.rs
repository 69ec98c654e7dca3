//! A folder for crash tests: what was not synced, in files and of names, is kept apart, and a crash forgets some of it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::{DiskFile, FileIdentity, Folder};
use crate::store::survivors::Unsynced;

#[derive(Clone, Debug)]
enum Naming {
    Made(String, usize),
    Renamed(String, String),
    Removed(String),
}

#[derive(Clone, Debug, Default)]
struct Inode {
    synced: Vec<u8>,
    seen: Vec<u8>,
    pending: Vec<Unsynced>,
    /// Room taken ahead: up to this length.
    reserved: usize,
}

impl Inode {
    fn takes(&self) -> usize {
        self.seen.len().max(self.reserved)
    }
}

type Names = BTreeMap<String, usize>;

#[derive(Clone, Debug, Default)]
struct State {
    inodes: Vec<Inode>,
    names: Names,
    synced_names: Names,
    namings: Vec<Naming>,
    /// Handles of an earlier life are dead.
    life: u64,
    boot: u128,
    locked: bool,
    calls: u64,
    syncs: u64,
    fails_in: Option<u64>,
    bytes_max: Option<usize>,
    /// It takes no room ahead, as some file systems.
    reserves_not: bool,
    /// Nor does it tell what is free.
    hides_free: bool,
    /// Writes that found no room.
    refused: u64,
}

/// The folder; clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Lossy(Arc<Mutex<State>>);

struct Handle {
    disk: Lossy,
    life: u64,
}

struct Opened {
    disk: Lossy,
    life: u64,
    inode: usize,
}

struct Locked {
    disk: Lossy,
    life: u64,
}

fn rename(names: &mut Names, naming: &Naming) {
    match naming {
        Naming::Made(name, inode) => drop(names.insert(name.clone(), *inode)),
        Naming::Removed(name) => drop(names.remove(name)),
        Naming::Renamed(from, to) => {
            if let Some(inode) = names.remove(from) {
                names.insert(to.clone(), inode);
            }
        }
    }
}

impl State {
    fn count_down(&mut self) -> io::Result<()> {
        self.calls += 1;
        match &mut self.fails_in {
            Some(0) => Err(io::Error::other("the disk was ordered to fail")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn name(&mut self, naming: Naming) {
        rename(&mut self.names, &naming);
        self.namings.push(naming);
    }

    fn identity(&self, inode: usize) -> FileIdentity {
        let names = self.names.values().filter(|named| **named == inode).count();
        FileIdentity { number: inode as u128, names: names as u64 }
    }

    /// How long `inode` can become; none if there is no limit.
    fn most(&self, inode: usize) -> Option<usize> {
        let others = self.names.values().filter(|other| **other != inode);
        let taken: usize = others.map(|other| self.inodes[*other].takes()).sum();
        // What it has taken it has, whatever others took since.
        self.bytes_max.map(|max| max.saturating_sub(taken).max(self.inodes[inode].takes()))
    }

    /// Of a write of `bytes` to `inode` at `offset`, how many find room.
    fn room(&self, inode: usize, offset: u64, bytes: usize) -> usize {
        self.most(inode).map_or(bytes, |most| bytes.min(most.saturating_sub(offset as usize)))
    }
}

impl Lossy {
    /// An empty folder.
    pub fn new() -> Lossy {
        Lossy::default()
    }

    /// Another folder in the same state, with what it has not synced; handles of this one have nothing to do with it.
    pub fn copy(&self) -> Lossy {
        Lossy(Arc::new(Mutex::new(self.state().clone())))
    }

    /// A handle that works until the next crash or kill.
    pub fn handle(&self) -> Arc<dyn Folder> {
        Arc::new(Handle { disk: self.clone(), life: self.state().life })
    }

    /// What a reader sees of `name` now.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(name).map(|inode| state.inodes[*inode].seen.clone())
    }

    /// Puts `bytes`, synced, in place of what `name` holds.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.state();
        let inode = state.inodes.len();
        state.inodes.push(Inode { synced: bytes.clone(), seen: bytes, ..Inode::default() });
        state.names.insert(name.to_owned(), inode);
        state.synced_names = state.names.clone();
    }

    /// Another process removes `name`.
    pub fn remove(&self, name: &str) {
        self.state().name(Naming::Removed(name.to_owned()));
    }

    /// Another process gives `from` the name `to`.
    pub fn rename(&self, from: &str, to: &str) {
        self.state().name(Naming::Renamed(from.to_owned(), to.to_owned()));
    }

    /// Writes, changes of length and of names that a crash may forget now.
    pub fn unsynced(&self) -> usize {
        let state = self.state();
        state.inodes.iter().map(|inode| inode.pending.len()).sum::<usize>() + state.namings.len()
    }

    /// Calls so far that write or sync anything; and those that sync a file.
    pub fn calls(&self) -> (u64, u64) {
        let state = self.state();
        (state.calls, state.syncs)
    }

    /// Lets every call that writes or syncs fail after so many more, the failing write half done; `None` mends it.
    pub fn fail_in(&self, calls: Option<u64>) {
        self.state().fails_in = calls;
    }

    /// Refuses, from now on, what goes beyond so many bytes of all files together.
    pub fn hold_at_most(&self, bytes_max: Option<usize>) {
        self.state().bytes_max = bytes_max;
    }

    /// Has room taken ahead, or refuses to as some file systems do.
    pub fn reserves(&self, reserves: bool) {
        self.state().reserves_not = !reserves;
    }

    /// Has it tell what is free, or not.
    pub fn tells_free(&self, tells: bool) {
        self.state().hides_free = !tells;
    }

    /// Writes so far that found no room.
    pub fn refused(&self) -> u64 {
        self.state().refused
    }

    /// Bytes that all files together take, with what they have taken ahead.
    pub fn takes(&self) -> usize {
        let state = self.state();
        state.names.values().map(|inode| state.inodes[*inode].takes()).sum()
    }

    /// The process is gone, the machine is not: all handles end, what was written is there.
    pub fn kill(&self) {
        let mut state = self.state();
        state.life += 1;
        state.locked = false;
        state.fails_in = None;
    }

    /// The machine loses power. Of the writes that were not synced those survive for which `survives` (asked in order,
    /// with the length) says so: `Some(bytes)` keeps that much of its front, `None` drops it. Of changes of names a
    /// prefix survives: up to the first for which it (asked with 0) says `None`.
    pub fn crash(&self, mut survives: impl FnMut(usize) -> Option<usize>) {
        let mut state = self.state();
        state.life += 1;
        state.boot += 1;
        state.locked = false;
        state.fails_in = None;
        let namings = std::mem::take(&mut state.namings);
        for naming in &namings {
            if survives(0).is_none() {
                break;
            }
            rename(&mut state.synced_names, naming);
        }
        state.names = state.synced_names.clone();
        for inode in &mut state.inodes {
            for pending in std::mem::take(&mut inode.pending) {
                if let Some(kept) = pending.after_crash(&mut survives) {
                    kept.apply(&mut inode.synced);
                }
            }
            inode.seen = inode.synced.clone();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alive(&self, life: u64) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state();
        match state.life == life {
            true => Ok(state),
            false => Err(io::Error::other("this handle's process is gone")),
        }
    }
}

impl Folder for Handle {
    fn show(&self, name: &str) -> String {
        format!("lossy/{name}")
    }

    fn lock(&self) -> io::Result<Box<dyn Send>> {
        let mut state = self.disk.alive(self.life)?;
        match std::mem::replace(&mut state.locked, true) {
            true => Err(io::ErrorKind::WouldBlock.into()),
            false => Ok(Box::new(Locked { disk: self.disk.clone(), life: self.life })),
        }
    }

    fn open(&self, name: &str) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let state = self.disk.alive(self.life)?;
        let opened = |inode: &usize| Opened { disk: self.disk.clone(), life: self.life, inode: *inode };
        Ok(state.names.get(name).map(opened).map(|opened| Arc::new(opened) as Arc<dyn DiskFile>))
    }

    fn identity(&self, name: &str) -> io::Result<Option<FileIdentity>> {
        let state = self.disk.alive(self.life)?;
        Ok(state.names.get(name).map(|inode| state.identity(*inode)))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.disk.alive(self.life)?;
        state.count_down()?;
        let inode = state.inodes.len();
        state.inodes.push(Inode::default());
        state.name(Naming::Made(name.to_owned(), inode));
        Ok(Arc::new(Opened { disk: self.disk.clone(), life: self.life, inode }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.disk.alive(self.life)?;
        state.count_down()?;
        state.name(Naming::Renamed(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.disk.alive(self.life)?;
        if state.names.contains_key(name) {
            state.count_down()?;
            state.name(Naming::Removed(name.to_owned()));
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.alive(self.life)?;
        state.count_down()?;
        state.namings.clear();
        state.synced_names = state.names.clone();
        Ok(())
    }

    fn free(&self) -> io::Result<Option<u64>> {
        let state = self.disk.alive(self.life)?;
        let taken: usize = state.names.values().map(|inode| state.inodes[*inode].takes()).sum();
        Ok(state.bytes_max.filter(|_| !state.hides_free).map(|max| max.saturating_sub(taken) as u64))
    }

    fn boot(&self) -> Option<u128> {
        Some(self.disk.state().boot)
    }
}

impl DiskFile for Opened {
    fn identity(&self) -> io::Result<FileIdentity> {
        Ok(self.disk.alive(self.life)?.identity(self.inode))
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.disk.alive(self.life)?.inodes[self.inode].seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.disk.alive(self.life)?;
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let found = start.checked_add(out.len()).and_then(|end| state.inodes[self.inode].seen.get(start..end));
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.disk.alive(self.life)?;
        let failed = state.count_down();
        let room = state.room(self.inode, offset, data.len());
        let written = if failed.is_err() { room.min(data.len() / 2) } else { room };
        let pending = Unsynced::Write(offset, data[..written].to_vec());
        let inode = &mut state.inodes[self.inode];
        pending.apply(&mut inode.seen);
        inode.pending.push(pending);
        failed?;
        if written == data.len() {
            return Ok(());
        }
        state.refused += 1;
        Err(io::ErrorKind::StorageFull.into())
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.alive(self.life)?;
        state.count_down()?;
        if state.reserves_not {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        if state.most(self.inode).is_some_and(|most| bytes > most) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let inode = &mut state.inodes[self.inode];
        inode.reserved = inode.reserved.max(bytes);
        Ok(())
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.alive(self.life)?;
        state.count_down()?;
        let inode = &mut state.inodes[self.inode];
        inode.reserved = inode.reserved.min(bytes as usize);
        Unsynced::Length(bytes).apply(&mut inode.seen);
        inode.pending.push(Unsynced::Length(bytes));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.alive(self.life)?;
        state.count_down()?;
        state.syncs += 1;
        let inode = &mut state.inodes[self.inode];
        inode.pending.clear();
        inode.synced = inode.seen.clone();
        Ok(())
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.life == self.life {
            state.locked = false;
        }
    }
}
