//! Room for the documents that scripts hold: what they have read and what they have written.
//!
//! A script learns what it needs only as it runs, with locks. So it must not wait for room in the middle. It begins
//! with [`FREE_BYTES`]. Where it needs more it takes that, if it is free. If not, the script is undone and runs again:
//! it gives up all that it has, waits for four times as much, and then begins.
//!
//! **Invariants.**
//! * A script that waits for room holds no lock and no place. So the scripts that have room never wait for it.
//! * The parts come to no more than a quarter of `held_bytes_max`, unless one alone is more. A script holds at most
//!   one command's documents beyond its part.
//! * Each script ends: its part grows fourfold with each run, up to `txn_bytes_max`, which it has alone.

use std::sync::Arc;

use forebay::cache::Lent;
use forebay::mutation::{self, Fault};
use forebay::txn::{Plan, PlannedLock, Transaction};

use super::Session;
use super::underway::{KEPT_KEY_BYTES, NAME_COPIES};
use crate::room::Beside;
use crate::state::Shared;
use crate::underway::Part;

/// What a script holds without room.
const FREE_BYTES: usize = 1 << 20;

/// So many times more a script is given than it has come to need.
const GROWTH: usize = 4;

/// What a script has taken: its part, what the cache lends for that, and what large requests leave to it.
pub type Taken = (Part, Lent, Beside);

/// The room of one script, or of EXEC with scripts in it.
pub(super) struct ScriptRoom {
    /// What it may hold.
    bytes: usize,
    /// More than this it never holds.
    most: usize,
    /// Bytes of the names of keys that it has locked.
    names: usize,
    /// What it has taken of the room, and the cache lends for it.
    taken: Option<Taken>,
}

impl ScriptRoom {
    /// What it may hold now.
    pub(super) fn bytes(&self) -> usize {
        if mutation::on(Fault::ScriptsUncounted) { self.most } else { self.bytes }
    }

    /// A run begins, with the locks that are known: it loads no more than it has room for.
    pub(super) fn begin(&mut self, plan: &mut Plan) {
        self.names = 0;
        self.note(plan.locks.iter());
        plan.bytes_max = Some(self.bytes());
    }

    /// Whether it may come to hold more.
    pub(super) fn can_grow(&self) -> bool {
        self.bytes() < self.most
    }

    /// It is about to lock these keys.
    pub(super) fn note<'a>(&mut self, locks: impl Iterator<Item = &'a PlannedLock>) {
        self.names += locks.map(|lock| lock.key.heap_bytes()).sum::<usize>();
    }

    /// What a transaction holds in it.
    pub(super) fn held_by(&self, transaction: &Transaction) -> usize {
        let locked = transaction.locked_keys() * KEPT_KEY_BYTES + self.names * NAME_COPIES;
        transaction.documents().held_bytes().saturating_add(locked)
    }

    /// Whether a transaction may hold what it holds; takes more if that is free.
    pub(super) fn fits(&mut self, transaction: &Transaction, shared: &Arc<Shared>) -> bool {
        let held = self.held_by(transaction);
        if held > self.bytes / 2 && self.can_grow() {
            self.grow(held.saturating_mul(GROWTH).min(self.most), shared);
        }
        held <= self.bytes || !self.can_grow()
    }

    fn grow(&mut self, bytes: usize, shared: &Arc<Shared>) {
        let room_max = room_max(shared);
        let part = match self.taken.take() {
            None => shared.room.documents.try_take(bytes, room_max),
            Some((mut part, lent, beside)) => match part.try_grow(bytes, room_max) {
                true => Some(part),
                false => {
                    self.taken = Some((part, lent, beside));
                    None
                }
            },
        };
        if let Some(part) = part {
            self.bytes = bytes;
            self.taken = Some(taken(part, bytes, shared));
        }
    }

    /// What it has taken, to be kept until what it has written is published.
    pub(super) fn into_parts(self) -> Option<Taken> {
        self.taken
    }

    /// What to wait for before the next run, since this one came to need more.
    pub(super) fn next(&self, held: usize) -> usize {
        held.max(self.bytes).saturating_mul(GROWTH).min(self.most)
    }
}

fn taken(part: Part, bytes: usize, shared: &Arc<Shared>) -> Taken {
    (part, shared.engine.cache().lend_while(bytes), Beside::new(shared.clone(), bytes))
}

/// Bytes of documents, of all scripts that hold much.
fn room_max(shared: &Arc<Shared>) -> usize {
    shared.limits.held_bytes_max / 4
}

impl Session {
    /// Room for a script that is going to need `bytes`, in its turn; none if its client has ended before.
    pub(super) async fn take_script_room(&self, bytes: usize) -> Option<ScriptRoom> {
        let most = self.shared.limits.txn_bytes_max.max(FREE_BYTES);
        let mut room = ScriptRoom { bytes: FREE_BYTES, most, names: 0, taken: None };
        if bytes > FREE_BYTES {
            let part = self.wait_for_part(&self.shared.room.documents, bytes, room_max(&self.shared)).await?;
            (room.bytes, room.taken) = (bytes, Some(taken(part, bytes, &self.shared)));
        }
        Some(room)
    }
}
