//! Room on the disk, taken ahead.
//!
//! **Invariant.** A transaction is added only where room is taken for saying later that it was applied, too. So a
//! disk that is full stops nothing of what is in the journal from being applied, noted, and written directly again.
//! What finds no room is refused and surely not in the file. Nothing else is the matter, and writing goes on as soon
//! as there is room. (A failed sync is another matter: `log` ends the file for that.) Long notes take
//! a part of that room or nothing ([`Kind`]). What is refused so is noted when more is applied (`unnoted`).
//!
//! Where the file system takes no room ahead, what it says is free is all there is to go by. Then a write that fails
//! is cut off again.

use std::io;

use crate::mutation::{self, Fault};
use crate::outage::disk::{DiskFile, Folder, is_full};

/// Room that is kept for saying what became of transactions, whatever their number: for reasons of refusals, marks,
/// and the head of a file that is written again.
const NOTES_BYTES_MIN: u64 = 64 << 10;

/// Room that is kept for each pending transaction: a note that it was applied takes less.
pub(super) const NOTE_BYTES: u64 = 64;

/// Of the room that is kept whatever their number, what verdicts on transactions may take. The rest is for marks, and
/// for the head of a new file.
const VERDICTS_BYTES: u64 = NOTES_BYTES_MIN / 2;

/// Bytes taken ahead of what is needed.
const AHEAD_BYTES: u64 = 256 << 10;

/// Notes by what they may take of the room that is kept for such.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Short ones, of which each transaction has its own at most: all of it.
    Short,
    /// How transactions ended or stand, with a reason. What finds no room is found again by the next start.
    Verdict,
    /// What was learned of documents, as long as these: nothing.
    Learned,
}

impl Kind {
    /// What has to be left for notes about so many transactions.
    fn leaves(self, pending: usize) -> u64 {
        match self {
            _ if mutation::on(Fault::NotesRoomTaken) => 0,
            Kind::Short => 0,
            Kind::Verdict => notes(pending) - VERDICTS_BYTES,
            Kind::Learned => notes(pending),
        }
    }
}

/// Room on the disk for one file.
#[derive(Default)]
pub(super) struct Space {
    /// The file may grow to this length.
    taken: u64,
    /// What is free besides, as of the last look; none if nobody knows.
    free: Option<u64>,
    /// Bytes of what was refused since there was room last.
    refused: Option<u64>,
}

/// What is kept for notes about so many transactions.
fn notes(pending: usize) -> u64 {
    NOTES_BYTES_MIN + pending as u64 * NOTE_BYTES
}

impl Space {
    /// Has the file grow to `to` by transactions of so many bytes; `pending` wait with them.
    pub(super) fn add(
        &mut self,
        folder: &dyn Folder,
        file: &dyn DiskFile,
        to: u64,
        bytes: u64,
        pending: usize,
    ) -> io::Result<()> {
        let taken = self.take(folder, file, to, to + notes(pending));
        self.refused = taken.is_err().then_some(bytes);
        taken
    }

    /// Has the file grow to `to` by notes of this kind, after which `pending` wait for theirs.
    pub(super) fn note(
        &mut self,
        folder: &dyn Folder,
        file: &dyn DiskFile,
        to: u64,
        (kind, pending): (Kind, usize),
    ) -> io::Result<()> {
        let taken = self.take(folder, file, to, to + kind.leaves(pending));
        // That a note finds room does not mean that a transaction would.
        if taken.is_err() {
            self.was_refused(0);
        }
        taken
    }

    /// Takes what notes about `pending` transactions may need behind the `end` of the file, and looks whether what was
    /// refused would find room now. That the notes find it says nothing of that: theirs is kept for them. Where nobody
    /// knows, what comes next has to try.
    pub(super) fn look_again(&mut self, folder: &dyn Folder, file: &dyn DiskFile, end: u64, pending: usize) {
        self.look(folder);
        if let Some(bytes) = self.refused {
            let to = end + bytes;
            let taken = self.take(folder, file, to, to + notes(pending + 1));
            if taken.is_ok() && (self.taken > to || self.free.is_some()) {
                self.refused = None;
            }
        }
        // What finds no room later is refused then.
        let _ = self.take(folder, file, end, end + notes(pending));
    }

    fn take(&mut self, folder: &dyn Folder, file: &dyn DiskFile, to: u64, needed: u64) -> io::Result<()> {
        if needed <= self.taken {
            return Ok(());
        }
        let mut refused = io::Error::from(io::ErrorKind::StorageFull);
        for most in [needed + AHEAD_BYTES, needed] {
            match file.reserve(most) {
                Ok(()) => {
                    self.taken = most;
                    self.look(folder);
                    return Ok(());
                }
                Err(why) if is_full(&why) => refused = why,
                // What else is the matter with the disk, the write will tell.
                Err(_) => {
                    self.look(folder);
                    let grows = needed.saturating_sub(file.bytes().unwrap_or(0).min(to));
                    return if self.free.is_some_and(|free| grows > free) { Err(refused) } else { Ok(()) };
                }
            }
        }
        self.look(folder);
        Err(refused)
    }

    /// Bytes taken ahead of the `end` of the file.
    pub(super) fn ahead(&self, end: u64) -> u64 {
        self.taken.saturating_sub(end)
    }

    /// Whether so many bytes may find room if what is taken ahead of the `end` is given up, or nobody knows.
    pub(super) fn has(&self, bytes: u64, end: u64) -> bool {
        self.free.is_none_or(|free| bytes <= free.max(self.ahead(end)))
    }

    /// A write of so many bytes found no room.
    pub(super) fn was_refused(&mut self, bytes: u64) {
        self.refused = self.refused.max(Some(bytes));
    }

    /// The file was cut, or is another.
    pub(super) fn cut(&mut self, to: u64) {
        self.taken = to;
    }

    /// Looks how much there is.
    pub(super) fn look(&mut self, folder: &dyn Folder) {
        self.free = folder.free().unwrap_or(None);
    }

    /// Bytes that can still be added to the `end` of the file.
    pub(super) fn room(&self, end: u64, pending: usize) -> Option<u64> {
        Some((self.free? + self.ahead(end)).saturating_sub(notes(pending + 1)))
    }

    /// Says when the disk of `file` has become full, or has room again, since it was so or not `before`.
    pub(super) fn tell(&self, before: bool, file: String) {
        match (before, self.is_scarce()) {
            (false, true) => tracing::warn!(
                file,
                "the disk of the journal is full: nothing more is buffered until there is room on it; no restart is \
                 needed then"
            ),
            (true, false) => tracing::info!(file, "there is room on the disk of the journal again"),
            _ => {}
        }
    }

    /// Whether room is so scarce that what means nothing any more is not kept in the file.
    pub(super) fn is_scarce(&self) -> bool {
        self.refused.is_some()
    }
}
