//! What is remembered of a run, to be judged after it; bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::bg::{Read, Seen, Update};

/// Memory for the logs of all clients together.
pub const LOG_BYTES_MAX: i64 = 512 << 20;

/// Room that is left for all logs of a run.
#[derive(Clone)]
pub(super) struct Room(Arc<AtomicI64>);

impl Default for Room {
    fn default() -> Room {
        Room(Arc::new(AtomicI64::new(LOG_BYTES_MAX)))
    }
}

impl Room {
    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_sub(bytes as i64, Ordering::Relaxed) >= bytes as i64
    }
}

/// What one client has done and seen, or all of them.
pub(super) struct Log {
    pub reads: Vec<Read>,
    pub updates: Vec<Update>,
    /// Reads that there was no room for.
    pub dropped: u64,
    /// From when on an update may be missing.
    pub complete_until_ns: u64,
    room: Room,
}

impl Log {
    pub fn new(room: Room) -> Log {
        Log { reads: Vec::new(), updates: Vec::new(), dropped: 0, complete_until_ns: u64::MAX, room }
    }

    pub fn read(&mut self, read: Read) {
        let elements = match &read.seen {
            Seen::Count(_) => 0,
            Seen::Elements(elements) => size_of_val(&elements[..]),
        };
        match self.room.take(size_of::<Read>() + elements) {
            true => self.reads.push(read),
            false => self.dropped += 1,
        }
    }

    pub fn update(&mut self, update: Update) {
        match self.room.take(size_of::<Update>()) {
            true => self.updates.push(update),
            false => self.complete_until_ns = self.complete_until_ns.min(update.start_ns),
        }
    }

    /// Adds another client's.
    pub fn add(&mut self, other: Log) {
        self.reads.extend(other.reads);
        self.updates.extend(other.updates);
        self.dropped += other.dropped;
        self.complete_until_ns = self.complete_until_ns.min(other.complete_until_ns);
    }

    /// Leaves out reads that an update may have been made before which is not here.
    pub fn cut(&mut self) {
        let (until, before) = (self.complete_until_ns, self.reads.len());
        self.reads.retain(|read| read.end_ns < until);
        self.dropped += (before - self.reads.len()) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bg::{Kind, Object};

    #[test]
    fn is_bounded_and_judges_nothing_that_it_has_forgotten() {
        let object = Object { kind: Kind::Friends, id: 1 };
        let read = |at| Read { object, start_ns: at, end_ns: at + 1, seen: Seen::Elements([1, 2].into()) };
        let update = |at| Update { object, element: 1, added: true, start_ns: at, end_ns: at + 1 };
        let bytes = 2 * (size_of::<Read>() + 8) + size_of::<Update>();
        let room = Room(Arc::new(AtomicI64::new(bytes as i64)));
        let (mut one, mut other) = (Log::new(room.clone()), Log::new(room));
        one.update(update(1));
        one.read(read(5));
        other.read(read(90));
        other.update(update(80));
        other.read(read(5));
        one.add(other);
        one.cut();
        assert_eq!((one.reads, one.dropped), (vec![read(5)], 2));
        assert_eq!(one.updates, [update(1)]);
    }
}
