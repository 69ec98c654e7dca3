//! Room for commits on their way: bytes of those that are placed, or about to be, bounded by
//! [`crate::txn::TxnLimits::placed_bytes_max`]. Without it a pipeline of short commands that make long documents
//! has all of them in memory at once, since each command goes on as soon as the one before has its place.
//!
//! A commit is admitted before it takes its place. Small commits and the others wait in two lines, each first come,
//! first served, so that a small one does not wait for the room of a wide one. An eighth of the room is for small
//! commits alone. While a large one waits, small ones take no more than that eighth, so none of the two lines keeps
//! the other waiting for ever. A commit that is larger than what is left is admitted when no other large one is on
//! its way.
//!
//! **Wide commits**, as `group.rs` calls those that go to the store alone, are few at a time: one over a store that
//! takes one group after the other, so that what is placed meanwhile waits for one of them at most; and so many
//! over any other that connections are left. One that waits has no place, so small ones that overtake it need no
//! argument.
//!
//! **A long byte string counts once.** Commits that are on their way and change one share its chunks
//! ([`Footprint`]): each was made to the result of the one before. For a key's lock comes with the result of the
//! commit that is on its way to it, and is kept until its owner has room. So all of them together hold the longest
//! of the string's states, which counts as long as there is one of them, and what each has copied, which counts as
//! its own.
//!
//! **No wait is endless.** A commit that waits for room may hold locks, key spaces and fills' answers, so one that has
//! room must never wait for these. It does not: room is asked for when all locks of the commit are held, and between
//! the answer and the place there is nothing to wait for but the store's reads. What is placed is the committer's,
//! which takes no lock and no space, asks for no room, and gives the room back whatever becomes of the commit. A
//! commit whose outcome the store can't tell gives it back when its client is told so. While commits are refused
//! everyone is admitted, to be refused. So: while one waits another has room ([`Room::validate`]), and will give it
//! back.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_channel::oneshot;
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::{Committer, GROUP_COMMITS_MAX, Queue};
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::store::{Footprint, Write};

/// A commit up to this size is small, unless half of the part for small ones is less. A wide commit is never small.
const SMALL_BYTES_MAX: usize = 256 << 10;

/// Wide commits that are on their way at a time, over a store that takes several groups at a time.
const WIDE_MAX: usize = 2;

/// One of so many parts of the room is for small commits.
const SMALL_PART: usize = 8;

/// The room, and who waits for it.
pub(super) struct Room {
    bytes_max: usize,
    /// Wide commits on their way, and how many there may be.
    wide: usize,
    wide_max: usize,
    /// The long byte strings that commits on their way change; their bytes are in `large`.
    shared: HashMap<Key, Shared, foldhash::quality::RandomState>,
    small: Line,
    large: Line,
}

/// Commits of one kind: what those on their way take, and those that wait.
#[derive(Default)]
struct Line {
    used: usize,
    waiting: VecDeque<Waiter>,
}

/// A long byte string.
struct Shared {
    /// Those on their way that change it, or are about to be.
    commits: usize,
    /// The most that it takes behind one of them.
    bytes: usize,
}

struct Waiter {
    footprint: Footprint,
    admitted: oneshot::Sender<Admitted>,
    /// What the cache is to make way for; set when it is admitted.
    lent: usize,
}

/// Commits from so many bytes on have the cache make way for them; to count the others costs more than they do.
const LENT_BYTES_MIN: usize = 16 << 10;

/// Whether the commit goes to the store alone.
fn is_wide(footprint: &Footprint) -> bool {
    footprint.writes > GROUP_COMMITS_MAX && !mutation::on(Fault::WideTogether)
}

/// What the cache makes way for of what a commit has for itself.
fn lent(own: usize) -> usize {
    if own < LENT_BYTES_MIN { 0 } else { own }
}

/// The right to place a commit that takes so much; given up when dropped.
pub(in crate::txn) struct Admitted {
    committer: Arc<Committer>,
    footprint: Footprint,
}

/// Those who are admitted now, to be told once the queue is not locked: who has given up waiting drops what it is told
/// with, which locks the queue.
#[must_use]
pub(super) struct Told(SmallVec<[Waiter; 1]>);

impl Told {
    pub(super) fn tell(self, committer: &Arc<Committer>) {
        for Waiter { footprint, admitted, lent } in self.0 {
            drop(admitted.send(Admitted::new(committer, footprint, lent)));
        }
    }
}

impl Room {
    /// Of so many bytes, before a store that is `ordered` or not.
    pub(super) fn new(bytes_max: usize, ordered: bool) -> Room {
        let (wide_max, shared) = (if ordered { 1 } else { WIDE_MAX }, HashMap::default());
        Room { bytes_max, wide: 0, wide_max, shared, small: Line::default(), large: Line::default() }
    }

    /// What is kept for small commits.
    fn reserve(&self) -> usize {
        self.bytes_max / SMALL_PART
    }

    fn is_small(&self, footprint: &Footprint) -> bool {
        let small = footprint.own <= (self.reserve() / 2).min(SMALL_BYTES_MAX) && footprint.shared.is_empty();
        small && !is_wide(footprint) && !mutation::on(Fault::RoomInOneLine)
    }

    fn line(&mut self, small: bool) -> &mut Line {
        if small { &mut self.small } else { &mut self.large }
    }

    /// Takes room if there is some, and nobody of its kind waits: what the cache has to make way for.
    fn take(&mut self, footprint: &Footprint) -> Option<usize> {
        let small = self.is_small(footprint);
        (self.line(small).waiting.is_empty() && self.fits(footprint)).then(|| self.add(footprint))
    }

    /// **Invariant.** Where a small commit does not fit, small ones are on their way. Where a large one does not, large
    /// ones are, or small ones beyond their part, and no small one is admitted until these have gone.
    fn fits(&self, footprint: &Footprint) -> bool {
        let (reserve, own) = (self.reserve(), footprint.own);
        if self.is_small(footprint) {
            let used = self.small.used.saturating_add(own);
            let free = self.large.waiting.is_empty() && used.saturating_add(self.large.used) <= self.bytes_max;
            return used <= reserve || free;
        }
        if is_wide(footprint) && self.wide >= self.wide_max {
            return false;
        }
        let more = footprint.shared.iter().map(|(key, bytes)| self.more(key, *bytes)).sum::<usize>();
        let used = self.large.used.saturating_add(self.small.used.max(reserve));
        let alone = self.large.used == 0 && self.small.used <= reserve;
        alone || used.saturating_add(own).saturating_add(more) <= self.bytes_max
    }

    /// What the long byte string of `key` takes beside what it takes already.
    fn more(&self, key: &Key, bytes: usize) -> usize {
        bytes.saturating_sub(self.shared.get(key).map_or(0, |shared| shared.bytes))
    }

    fn add(&mut self, footprint: &Footprint) -> usize {
        let mut more = 0;
        for (key, bytes) in &footprint.shared {
            let shared = self.shared.entry(key.compact()).or_insert(Shared { commits: 0, bytes: 0 });
            shared.commits += 1;
            more += bytes.saturating_sub(shared.bytes);
            shared.bytes = shared.bytes.max(*bytes);
        }
        let small = self.is_small(footprint);
        self.wide += usize::from(is_wide(footprint));
        self.line(small).used += footprint.own + more;
        lent(footprint.own) + more
    }

    /// Takes back what a commit took; what the cache had made way for.
    fn remove(&mut self, footprint: &Footprint) -> usize {
        let mut less = 0;
        for (key, _) in &footprint.shared {
            let Some(shared) = self.shared.get_mut(key) else {
                debug_assert!(false, "{key} was not counted");
                continue;
            };
            shared.commits -= 1;
            if shared.commits == 0 {
                less += shared.bytes;
                self.shared.remove(key);
            }
        }
        let small = self.is_small(footprint);
        self.wide = self.wide.saturating_sub(usize::from(is_wide(footprint)));
        let line = self.line(small);
        debug_assert!(footprint.own + less <= line.used, "more is given back than was taken");
        line.used = line.used.saturating_sub(footprint.own + less);
        lent(footprint.own) + less
    }

    fn wait(&mut self, footprint: Footprint, admitted: oneshot::Sender<Admitted>) {
        let small = self.is_small(&footprint);
        self.line(small).waiting.push_back(Waiter { footprint, admitted, lent: 0 });
        self.validate();
    }

    /// The large ones first: as long as one of them waits the small ones have only their part.
    fn serve(&mut self, all: bool) -> Told {
        let mut told = SmallVec::new();
        for small in [false, true] {
            while let Some(head) = self.line(small).waiting.pop_front() {
                let gone = head.admitted.is_canceled();
                if !gone && !all && !self.fits(&head.footprint) {
                    self.line(small).waiting.push_front(head);
                    break;
                }
                if !gone {
                    let lent = self.add(&head.footprint);
                    told.push(Waiter { lent, ..head });
                }
            }
        }
        self.validate();
        Told(told)
    }

    /// Admits everyone.
    pub(super) fn open(&mut self) -> Told {
        self.serve(true)
    }

    fn validate(&self) {
        let Room { small, large, .. } = self;
        debug_assert!(small.waiting.is_empty() || small.used > 0, "a small commit waits for room that none has");
        let taken = large.used > 0 || small.used > self.reserve();
        debug_assert!(large.waiting.is_empty() || taken, "a commit waits for room that none has");
        debug_assert!(large.used > 0 || self.shared.is_empty(), "a string counts that nobody changes");
    }
}

impl Admitted {
    /// For who has taken the room. Not to be called while the queue is locked.
    fn new(committer: &Arc<Committer>, footprint: Footprint, lent: usize) -> Admitted {
        if lent > 0 {
            committer.cache.lend(lent);
        }
        Admitted { committer: committer.clone(), footprint }
    }

    /// The right to be told why nothing is placed.
    fn refused(committer: &Arc<Committer>) -> Admitted {
        Admitted::new(committer, Footprint::default(), 0)
    }

    /// The room is the placed commit's from now on.
    pub(super) fn hand_over(mut self) -> Footprint {
        std::mem::take(&mut self.footprint)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.committer.free_room_of(std::iter::once(std::mem::take(&mut self.footprint)));
    }
}

impl Committer {
    /// Whether whoever asks is admitted, to be told why nothing is placed.
    fn refuses_all(&self, queue: &Queue) -> bool {
        match self.store.caps().ordered {
            true => queue.refuses().is_some(),
            false => queue.refuses_unordered().is_some(),
        }
    }

    /// Gives back the room of commits, and what the cache has lent to them.
    pub(super) fn free_room_of(self: &Arc<Committer>, rooms: impl Iterator<Item = Footprint>) {
        let mut rooms = rooms.filter(|footprint| footprint.own > 0).peekable();
        if rooms.peek().is_none() {
            return;
        }
        let (lent, told) = {
            let mut queue = self.queue();
            let lent = rooms.map(|footprint| queue.room.remove(&footprint)).sum();
            (lent, queue.room.serve(false))
        };
        if lent > 0 {
            self.cache.give_back(lent);
        }
        told.tell(self);
    }

    /// Room for a commit that takes so much, if there is some now.
    pub(in crate::txn) fn try_admit(self: &Arc<Committer>, footprint: Footprint) -> Option<Admitted> {
        let mut queue = self.queue();
        let taken = queue.room.take(&footprint);
        if taken.is_none() && self.refuses_all(&queue) {
            return Some(Admitted::refused(self));
        }
        drop(queue);
        taken.map(|lent| Admitted::new(self, footprint, lent))
    }

    /// Waits for that room.
    pub(in crate::txn) async fn admit(self: &Arc<Committer>, footprint: Footprint) -> Admitted {
        let told = {
            let mut queue = self.queue();
            if let Some(lent) = queue.room.take(&footprint) {
                drop(queue);
                return Admitted::new(self, footprint, lent);
            }
            if self.refuses_all(&queue) {
                drop(queue);
                return Admitted::refused(self);
            }
            let (admitted, told) = oneshot::channel();
            queue.room.wait(footprint, admitted);
            told
        };
        // The sender stays in the queue until it has sent.
        told.await.unwrap_or_else(|_| Admitted::refused(self))
    }

    /// Waits until the smallest commit would be admitted, or of the large ones if so many `keys` make it one: what is
    /// about to read long documents, and to make longer ones, has no use for them before. To be called by who holds
    /// nothing.
    pub(in crate::txn) async fn has_room(self: &Arc<Committer>, keys: usize) {
        let (least, full) = {
            let room = &self.queue().room;
            let least = Footprint { writes: keys, own: keys * size_of::<Write>(), shared: Vec::new() };
            let full = !room.fits(&least);
            (least, full)
        };
        if full {
            drop(self.admit(least).await);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Strings that commits change.
    const STRINGS: usize = 3;

    fn name(number: usize) -> Key {
        Key::new(0, &[number as u8])
    }

    fn changes(commit: &Footprint, number: usize) -> bool {
        commit.shared.iter().any(|(key, _)| *key == name(number))
    }

    /// A commit's own bytes, and the size of each string that it changes; 0: it does not.
    fn commit() -> impl Strategy<Value = (usize, Vec<usize>)> {
        let strings = prop::collection::vec(prop_oneof![2 => Just(0), 1 => 1..100_000usize], STRINGS);
        (1..40_000usize, strings)
    }

    fn footprint(own: usize, strings: &[usize]) -> Footprint {
        let changed = strings.iter().enumerate().filter(|(_, bytes)| **bytes > 0);
        Footprint { writes: 1, own, shared: changed.map(|(number, bytes)| (name(number), *bytes)).collect() }
    }

    proptest! {
        #[test]
        fn a_string_counts_as_long_as_a_commit_changes_it(
            steps in prop::collection::vec((prop::option::of(commit()), any::<prop::sample::Index>()), 1..60),
        ) {
            let mut room = Room::new(usize::MAX, true);
            let (mut on_their_way, mut all_lent): (Vec<Footprint>, usize) = (Vec::new(), 0);
            // Of each string, the most since it began to count.
            let mut most = [0; STRINGS];
            for (added, gone) in steps {
                match added {
                    Some((own, strings)) => {
                        for (most, bytes) in most.iter_mut().zip(&strings) {
                            *most = bytes.max(most).to_owned();
                        }
                        all_lent += room.take(&footprint(own, &strings)).expect("there is room");
                        on_their_way.push(footprint(own, &strings));
                    }
                    None if on_their_way.is_empty() => {}
                    None => all_lent -= room.remove(&on_their_way.swap_remove(gone.index(on_their_way.len()))),
                }
                for (number, most) in most.iter_mut().enumerate() {
                    *most *= usize::from(on_their_way.iter().any(|commit| changes(commit, number)));
                }
                room.validate();
                let own = on_their_way.iter().map(|commit| commit.own);
                let strings: usize = most.iter().sum();
                prop_assert_eq!(room.small.used + room.large.used, own.clone().sum::<usize>() + strings);
                prop_assert_eq!(all_lent, own.map(lent).sum::<usize>() + strings);
            }
            on_their_way.iter().for_each(|commit| all_lent -= room.remove(commit));
            prop_assert_eq!((room.small.used, room.large.used, all_lent, room.shared.len()), (0, 0, 0, 0));
        }

        /// Whoever waits is admitted once others have gone, and all together keep to the room.
        #[test]
        fn two_lines_keep_to_the_room_and_neither_waits_for_ever(
            (bytes_max, steps) in (64..1_000_000usize, prop::collection::vec(
                (prop::option::of((1..600_000usize, any::<bool>())), any::<prop::sample::Index>()), 1..80)),
        ) {
            let mut room = Room::new(bytes_max, true);
            let mut on_their_way: Vec<Footprint> = Vec::new();
            let (mut largest, mut told) = (0, Vec::new());
            for (added, gone) in steps {
                match added {
                    Some((own, short)) => {
                        let mut footprint = footprint(if short { own % 200 + 1 } else { own }, &[]);
                        footprint.writes = footprint.own / 200;
                        largest = largest.max(footprint.own);
                        match room.take(&footprint) {
                            Some(_) => on_their_way.push(footprint),
                            None => {
                                let (admitted, waits) = oneshot::channel();
                                told.push(waits);
                                room.wait(footprint, admitted);
                            }
                        }
                    }
                    None if on_their_way.is_empty() => {}
                    None => {
                        room.remove(&on_their_way.swap_remove(gone.index(on_their_way.len())));
                        on_their_way.extend(room.serve(false).0.into_iter().map(|waiter| waiter.footprint));
                    }
                }
                room.validate();
                prop_assert!(room.small.used + room.large.used <= bytes_max.max(largest + room.reserve()));
            }
            while let Some(gone) = on_their_way.pop() {
                room.remove(&gone);
                on_their_way.extend(room.serve(false).0.into_iter().map(|waiter| waiter.footprint));
            }
            prop_assert!(room.small.waiting.is_empty() && room.large.waiting.is_empty());
        }
    }
}
