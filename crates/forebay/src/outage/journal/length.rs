//! How long the journal is, in a small file beside it. Without that, a file that was cut at its end looks like one
//! that was never longer.
//!
//! ```text
//! file  = place place
//! place = magic:8 check:4 turn:8 marker:8 end:8 synced:8 reserved:8 has-boot:1 boot:16
//! ```
//!
//! It is written about once a second, and where a file is opened, takes another's place or is closed. It is also
//! written whenever a number is to be acknowledged above all that it allows. It is synced only at an orderly end. So
//! it may be older than the journal, never newer. What is above the end that is left and not above `reserved` may
//! have been acknowledged.

use std::io;
use std::sync::Arc;

use crate::outage::disk::{DiskFile, Folder};

const NAME: &str = "length";
const MAGIC: [u8; 8] = *b"forebayL";
/// Apart, so that one that is damaged is not the other.
const PLACE_BYTES: usize = 512;
const BYTES: usize = 69;

/// What stands in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Length {
    /// Of which file: each that takes another's place has one of its own.
    pub(super) marker: u64,
    /// How long it was.
    pub(super) end: u64,
    /// How much of that was safe on disk.
    pub(super) synced: u64,
    /// No number above this one was acknowledged.
    pub(super) reserved: u64,
    /// The boot under which that was written.
    pub(super) boot: Option<u128>,
}

impl Length {
    /// How long the file is at least, if the machine is in its `boot` now.
    pub(super) fn least(&self, boot: Option<u128>) -> u64 {
        if boot.is_some() && boot == self.boot { self.end } else { self.synced }
    }

    fn encode(&self, turn: u64) -> Vec<u8> {
        let mut rest = turn.to_le_bytes().to_vec();
        for number in [self.marker, self.end, self.synced, self.reserved] {
            rest.extend_from_slice(&number.to_le_bytes());
        }
        rest.push(u8::from(self.boot.is_some()));
        rest.extend_from_slice(&self.boot.unwrap_or(0).to_le_bytes());
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&crc32fast::hash(&rest).to_le_bytes());
        out.extend_from_slice(&rest);
        out.resize(PLACE_BYTES, 0);
        out
    }

    fn decode(place: &[u8; PLACE_BYTES]) -> Option<(u64, Length)> {
        let rest = place.strip_prefix(&MAGIC)?;
        let (check, rest) = rest.split_first_chunk::<4>()?;
        let rest = rest.get(..BYTES - 12)?;
        if crc32fast::hash(rest) != u32::from_le_bytes(*check) {
            return None;
        }
        let (numbers, rest) = rest.split_first_chunk::<40>()?;
        let (numbers, _) = numbers.as_chunks::<8>();
        let &[turn, marker, end, synced, reserved] = numbers else { return None };
        let [marker, end, synced, reserved] = [marker, end, synced, reserved].map(u64::from_le_bytes);
        let (has_boot, boot) = rest.split_first()?;
        let boot = u128::from_le_bytes(*boot.first_chunk::<16>()?);
        let boot = (*has_boot != 0).then_some(boot);
        Some((u64::from_le_bytes(turn), Length { marker, end, synced, reserved, boot }))
    }
}

/// The file.
pub(super) struct LengthFile {
    file: Option<Arc<dyn DiskFile>>,
    /// How often it was written.
    turn: u64,
    /// What was written last.
    told: Option<Length>,
}

impl LengthFile {
    /// What stands in it; nothing where it is not there, or can't be read.
    pub(super) fn open(folder: &dyn Folder) -> io::Result<(LengthFile, Option<Length>)> {
        let Some(file) = folder.open(NAME)? else {
            return Ok((LengthFile { file: None, turn: 0, told: None }, None));
        };
        let bytes = file.bytes()?;
        let mut newest: Option<(u64, Length)> = None;
        for place in 0..2 {
            let at = place * PLACE_BYTES as u64;
            let mut found = [0; PLACE_BYTES];
            let there = bytes.saturating_sub(at).min(PLACE_BYTES as u64) as usize;
            if there > 0 {
                file.read(at, &mut found[..there])?;
            }
            let read = Length::decode(&found).filter(|read| newest.is_none_or(|newest| read.0 > newest.0));
            newest = read.or(newest);
        }
        if newest.is_none() {
            let file = folder.show(NAME);
            tracing::warn!(file, "how long the journal was can't be read; it is taken to be as long as it was");
        }
        let (turn, told) = newest.unzip();
        Ok((LengthFile { file: Some(file), turn: turn.unwrap_or(0), told: None }, told))
    }

    /// What was written last since it was opened.
    pub(super) fn told(&self) -> Option<Length> {
        self.told
    }

    /// Has it say what is so `now`, if it does not, where `last` is the last number; when the journal is closed for
    /// good, since no more numbers come. That it can't is no reason to end: it says what was so before.
    pub(super) fn note(&mut self, folder: &dyn Folder, now: Length, last: u64, close: bool) {
        let told = self.told.filter(|_| !close);
        if told.is_some_and(|told| (told.marker, told.end) == (now.marker, now.end)) {
            return;
        }
        let reserved = told.map_or(0, |told| told.reserved).max(last);
        if let Err(error) = self.write(folder, Length { reserved, ..now }, close) {
            tracing::warn!(%error, "how long the journal is can't be noted");
        }
    }

    /// Writes `length` in place of what stood there before the last.
    pub(super) fn write(&mut self, folder: &dyn Folder, length: Length, sync: bool) -> io::Result<()> {
        let file = match &self.file {
            Some(file) => file.clone(),
            None => {
                let file = folder.create(NAME)?;
                file.write(0, &[0; 2 * PLACE_BYTES])?;
                // Once and for all: nothing of it is synced with a commit.
                folder.sync()?;
                self.file.insert(file).clone()
            }
        };
        let turn = self.turn + 1;
        file.write(turn % 2 * PLACE_BYTES as u64, &length.encode(turn))?;
        if sync {
            file.sync()?;
        }
        (self.turn, self.told) = (turn, Some(length));
        Ok(())
    }
}
