//! What the next owner is to know of the store, in a small file beside the journal. It has two places that are
//! written in turn. So whatever becomes of one writing, the other says what was known before.
//!
//! ```text
//! file  = place place
//! place = magic:8 check:4 turn:8 suspended:1 count:2 (id:16)* check:4 owner:16 check:4 known_from:8
//! ```
//!
//! The owner has a separate check, and so has the number from which on documents are known. So a place without them is
//! what an older forebay has written, and can read.
//!
//! It may be older than what the store has acknowledged since, never newer. A start that recognises the store by it
//! misses at most one loss. That is the loss of what was acknowledged between the last writing and an end that was
//! not orderly.

use std::io;
use std::sync::Arc;

use crate::outage::disk::{DiskFile, Folder};
use crate::tier::{REMEMBERED_IDS_MAX, Remembered};
use crate::version::{OwnerId, TxnId, Version};

const NAME: &str = "store";
const MAGIC: [u8; 8] = *b"forebayS";
const PLACE_BYTES: usize = 4096;
const HEAD_BYTES: usize = 23;
const ID_BYTES: usize = 16;

/// Of the owner, with its check.
const OWNER_BYTES: usize = 20;

/// Of the number from which on documents are known, with its check.
const KNOWN_BYTES: usize = 12;

const _: () = assert!(HEAD_BYTES + REMEMBERED_IDS_MAX * ID_BYTES + OWNER_BYTES + KNOWN_BYTES <= PLACE_BYTES);

/// The file.
pub(super) struct Memo {
    file: Option<Arc<dyn DiskFile>>,
    /// How often it was written.
    turn: u64,
    /// As whom the store is used, as it says.
    owner: Option<OwnerId>,
}

impl Memo {
    /// What stands in it; nothing where neither place can be read.
    pub(super) fn open(folder: &dyn Folder) -> io::Result<(Memo, Remembered)> {
        let Some(file) = folder.open(NAME)? else {
            return Ok((Memo { file: None, turn: 0, owner: None }, Remembered::default()));
        };
        let mut newest = (0, Remembered::default());
        let bytes = file.bytes()?;
        for place in 0..2 {
            // Also of a file that was cut short: a later writing may make what stands here readable again.
            let at = place * PLACE_BYTES as u64;
            let mut found = [0; PLACE_BYTES];
            let there = bytes.saturating_sub(at).min(PLACE_BYTES as u64) as usize;
            if there > 0 {
                file.read(at, &mut found[..there])?;
            }
            if let Some(read) = decode(&found).filter(|read| read.0 > newest.0) {
                newest = read;
            }
        }
        if newest.0 == 0 {
            tracing::warn!(
                file = folder.show(NAME),
                "by what the database is recognised can't be read; it is taken for the one that it was"
            );
        }
        Ok((Memo { file: Some(file), turn: newest.0, owner: newest.1.owner }, newest.1))
    }

    /// Writes `remembered` in place of what stood there before the last. A new owner is always synced: as whom the
    /// store is opened has to be known to the next start, whatever else is lost.
    pub(super) fn write(&mut self, folder: &dyn Folder, remembered: &Remembered, sync: bool) -> io::Result<()> {
        let sync = sync || remembered.owner != self.owner;
        let file = match &self.file {
            Some(file) => file.clone(),
            None => {
                let file = folder.create(NAME)?;
                file.write(0, &[0; 2 * PLACE_BYTES])?;
                if sync {
                    folder.sync()?;
                }
                self.file = Some(file.clone());
                file
            }
        };
        let turn = self.turn + 1;
        file.write(turn % 2 * PLACE_BYTES as u64, &encode(turn, remembered))?;
        if sync {
            file.sync()?;
        }
        (self.turn, self.owner) = (turn, remembered.owner);
        Ok(())
    }
}

fn encode(turn: u64, remembered: &Remembered) -> Vec<u8> {
    let ids = &remembered.acknowledged;
    let ids = &ids[ids.len().saturating_sub(REMEMBERED_IDS_MAX)..];
    let mut rest = turn.to_le_bytes().to_vec();
    rest.push(u8::from(remembered.suspended));
    rest.extend_from_slice(&(ids.len() as u16).to_le_bytes());
    ids.iter().for_each(|id| rest.extend_from_slice(&id.0.to_bytes()));
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&crc32fast::hash(&rest).to_le_bytes());
    out.extend_from_slice(&rest);
    match remembered.owner {
        Some(OwnerId(owner)) => write_checked(turn, &owner.to_le_bytes(), &mut out),
        None => out.extend_from_slice(&[0; OWNER_BYTES]),
    }
    write_checked(turn, &remembered.known_from.to_le_bytes(), &mut out);
    // Of one length: a file that a crash has cut short is whole again when both places were written.
    out.resize(PLACE_BYTES, 0);
    out
}

/// Over the turn too: what an earlier writing has left there is not read.
fn check(turn: u64, bytes: &[u8]) -> u32 {
    crc32fast::hash(&[&turn.to_le_bytes(), bytes].concat())
}

fn write_checked(turn: u64, bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&check(turn, bytes).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn read_checked<const BYTES: usize>(turn: u64, rest: &[u8]) -> Option<[u8; BYTES]> {
    let (expected, rest) = rest.split_first_chunk::<4>()?;
    let bytes = rest.first_chunk::<BYTES>()?;
    (check(turn, bytes) == u32::from_le_bytes(*expected)).then_some(*bytes)
}

fn decode(place: &[u8]) -> Option<(u64, Remembered)> {
    let rest = place.strip_prefix(&MAGIC)?;
    let (check, rest) = rest.split_first_chunk::<4>()?;
    let (turn, after) = rest.split_first_chunk::<8>()?;
    let (suspended, after) = after.split_first()?;
    let (count, after) = after.split_first_chunk::<2>()?;
    let ids = after.get(..usize::from(u16::from_le_bytes(*count)) * ID_BYTES)?;
    let checked = rest.get(..rest.len() - after.len() + ids.len())?;
    if crc32fast::hash(checked) != u32::from_le_bytes(*check) {
        return None;
    }
    let (turn, behind) = (u64::from_le_bytes(*turn), after.get(ids.len()..)?);
    let owner = read_checked(turn, behind).map(|owner| OwnerId(u128::from_le_bytes(owner)));
    let known_from = behind.get(OWNER_BYTES..).and_then(|rest| read_checked(turn, rest)).map_or(0, u64::from_le_bytes);
    let (ids, _) = ids.as_chunks::<ID_BYTES>();
    let acknowledged = ids.iter().map(|id| TxnId(Version::from_bytes(*id))).collect();
    Some((turn, Remembered { acknowledged, suspended: *suspended != 0, owner, known_from }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::outage::lossy::Lossy;

    fn remembered(ids: &[u64], suspended: bool) -> Remembered {
        let id = |sequence: &u64| TxnId(Version { incarnation: 7, sequence: *sequence });
        let owner = ids.first().filter(|first| **first % 2 == 0).map(|first| OwnerId(u128::from(*first) + 1));
        let known_from = ids.last().copied().unwrap_or_default();
        Remembered { acknowledged: ids.iter().map(id).collect(), suspended, owner, known_from }
    }

    fn read(disk: &Lossy) -> Remembered {
        Memo::open(&*disk.handle()).expect("it can be opened").1
    }

    #[test]
    fn the_last_ids_are_kept() {
        let disk = Lossy::new();
        assert_eq!(read(&disk), Remembered::default());
        let many: Vec<u64> = (0..REMEMBERED_IDS_MAX as u64 + 50).collect();
        let (mut memo, _) = Memo::open(&*disk.handle()).expect("it can be opened");
        memo.write(&*disk.handle(), &remembered(&many, true), true).expect("it can be written");
        let told = Remembered { owner: Some(OwnerId(1)), ..remembered(&many[50..], true) };
        assert_eq!(read(&disk), told, "the owner too");
    }

    proptest! {
        /// Whatever a loss of power takes, what is read is what was synced last, or what was on its way; without syncs
        /// anything that was written, or nothing.
        #[test]
        fn a_crash_leaves_something_that_was_remembered(
            rounds in prop::collection::vec((prop::collection::vec(any::<u64>(), 0..5), any::<bool>()), 1..8),
            syncs in any::<bool>(),
            on_its_way in any::<bool>(),
            cuts in prop::collection::vec(0..6usize, 0..40),
        ) {
            let disk = Lossy::new();
            let (mut memo, _) = Memo::open(&*disk.handle()).expect("it can be opened");
            let mut may_be = vec![Remembered::default()];
            for (nth, (ids, suspended)) in rounds.iter().enumerate() {
                let told = remembered(ids, *suspended);
                let sync = syncs && !(on_its_way && nth + 1 == rounds.len());
                memo.write(&*disk.handle(), &told, sync).expect("it can be written");
                if sync {
                    may_be.clear();
                }
                may_be.push(told);
            }
            prop_assert_eq!(read(&disk), may_be.last().cloned().expect("one"));
            let mut cuts = cuts.into_iter();
            disk.crash(|length| match cuts.next() {
                None | Some(0) => None,
                Some(1) => Some(length / 2),
                Some(2) => Some(length.min(30)),
                _ => Some(length),
            });
            let found = read(&disk);
            prop_assert!(may_be.contains(&found), "{:?} of {:?}", found, may_be);
            // It goes on from there.
            let (mut memo, _) = Memo::open(&*disk.handle()).expect("it can be opened");
            for sequence in 0..3 {
                memo.write(&*disk.handle(), &remembered(&[sequence], false), true).expect("it can be written");
                prop_assert_eq!(read(&disk), remembered(&[sequence], false));
            }
        }
    }
}
