//! Hits that wait until the policy hears of them.
//!
//! A policy that does not go by marks is told of hits in order, under the lock of the key's partition. A reader takes
//! no lock. It leaves a note in a buffer of the partition ([`Buffers`]) and goes on. What holds:
//!
//! * **The policy hears first, and decides then.** An operation that takes the lock of a partition has its notes told
//!   before anything else (`Guarded::lock`). So with one thread the policy decides as if each hit took the lock.
//! * **A hit is told of the entry that was hit.** A note has the entry's slot and a generation of that. If another
//!   generation is there now, the note is dropped (`Partition::hear`).
//! * **A policy that learns from each hit loses none** ([`PolicyHits::Accesses`]). A reader that finds no room waits
//!   for the lock. Under a policy that samples it goes on if another thread has the lock, and the hit is left out.
//!   Where another value is put in, or the entry leaves, before the note is there, the policy hears of that alone.
//! * **A client's hits are told in its order**, whatever threads it runs on. Threads have different buffers, and a
//!   client goes from one to another. Each note has a *turn*. A client that leaves a note in another thread than its
//!   last one begins a turn ([`Turns`]). What is taken out is told by turns, in each of them thread by thread. The
//!   exception: threads beyond the number of buffers share these. If one is stopped while it leaves a note, later notes
//!   of others may be told late.
//! * **Memory is bounded**: of each partition a buffer for each thread that hits, at most 24, of 64 notes. It is not
//!   charged to the budget, since what a policy decides must not hang on how many processors there are.
//!   `Cache::hits_waiting_bytes` names it.
//!
//! A note has no room for a transaction or a cost. Such a hit takes the lock, and so does every hit while a watcher
//! is there. For transactions go over several keys, and a trace has the accesses in the order in which they are told.
//!
//! A policy may share what it learns between partitions (`clic`). It hears of a partition's hits when that partition
//! drains, so the order between partitions is another one than that of the hits.

use forebay_cache::{Buffers, Full};
use smallvec::SmallVec;

use super::{Alone, Context};
use crate::hint::HintSet;
use crate::mutation::{self, Fault};
use crate::policy::{Hits as PolicyHits, Learned, Policy, Slot};
use crate::sync::{AtomicU64, Ordering};

/// Notes of a buffer.
const NOTES: usize = 64;

/// Words of a note.
const WORDS: usize = 4;

type Note = [u64; WORDS];

/// Clients whose last threads are remembered; of more, some begin a turn more often than they need to.
const CLIENTS: usize = 1024;

/// A hit of which the policy hears later.
#[derive(Clone, Copy)]
pub(super) struct Hit {
    pub slot: Slot,
    pub generation: u32,
    /// Of the key.
    pub hash: u64,
    client: u32,
    hints: HintSet,
}

impl Hit {
    /// Of the entry with this slot and generation. `None`: there is no room for all that its context says.
    #[inline]
    pub fn new((slot, generation): (Slot, u32), hash: u64, context: &Context) -> Option<Hit> {
        let Context { client, hints, txn, cost_us, .. } = *context;
        (txn == 0 && cost_us == 0).then_some(Hit { slot, generation, hash, client, hints })
    }

    /// What the policy is told of its request. Of no transaction it has no level or vertex to hear of.
    pub fn context(&self) -> Context {
        Context { client: self.client, hints: self.hints, ..Context::default() }
    }

    #[inline]
    fn note(self, turn: u64) -> Note {
        let pair = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        [pair(self.slot + 1, self.generation), self.hash, pair(self.client, self.hints.0), turn]
    }
}

impl From<Note> for Hit {
    fn from([entry, hash, request, _]: Note) -> Hit {
        let (low, high) = (|word: u64| word as u32, |word: u64| (word >> 32) as u32);
        let (slot, generation) = (low(entry) - 1, high(entry));
        Hit { slot, generation, hash, client: low(request), hints: HintSet(high(request)) }
    }
}

/// What orders the notes of all partitions.
pub(super) struct Turns {
    now: Alone<AtomicU64>,
    /// Which client left a note last, and in which thread, by the lowest bits of its number.
    last: Box<[AtomicU64]>,
}

impl Turns {
    pub fn new() -> Turns {
        let last = (0..CLIENTS).map(|_| AtomicU64::new(u64::MAX)).collect();
        Turns { now: Alone(AtomicU64::new(0)), last }
    }

    /// The turn of a note that the client leaves in this thread. It is no earlier one than those of the client's notes
    /// before, since threads hand clients over; and a later one, if those are another thread's.
    #[inline]
    fn of(&self, client: u32, thread: usize) -> u64 {
        let (last, this) = (&self.last[client as usize % CLIENTS], u64::from(client) << 32 | thread as u64);
        if last.load(Ordering::Relaxed) != this {
            last.store(this, Ordering::Relaxed);
            self.now.fetch_add(1, Ordering::Relaxed);
        }
        self.now.load(Ordering::Relaxed)
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.last)
    }
}

/// The hits of one partition that wait.
pub(super) struct Hits {
    buffers: Buffers<WORDS>,
    /// None is left out.
    pub every: bool,
}

/// Whether a policy hears of hits, and later than they are. One that follows transactions hears of each at once.
pub(super) fn wait(policy: &Policy, learned: &dyn Learned) -> bool {
    policy.hits != PolicyHits::Marks && !learned.follows_transactions()
}

impl Hits {
    /// No hit yet.
    pub fn of(policy: &Policy) -> Hits {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let every = policy.hits == PolicyHits::Accesses && !mutation::on(Fault::HitsLeftOut);
        Hits { buffers: Buffers::new(cpus, NOTES), every }
    }

    /// Leaves a note, as the thread with this number.
    #[inline]
    pub fn leave(&self, hit: Hit, turns: &Turns, thread: usize) -> Result<(), Full> {
        self.buffers.push(thread, hit.note(turns.of(hit.client, thread)))
    }

    /// Takes all out, in order. The caller holds the partition's lock.
    pub fn drain(&self, mut tell: impl FnMut(Hit)) {
        let mut notes = SmallVec::<[Note; 64]>::new();
        self.buffers.drain(|batch| notes.extend_from_slice(batch));
        let turn = |note: &Note| note[WORDS - 1];
        // Threads that share a buffer may leave notes of two turns in either order.
        if !notes.is_sorted_by_key(turn) && !mutation::on(Fault::ClientsOutOfTurn) {
            notes.sort_by_key(turn);
        }
        notes.iter().for_each(|&note| tell(note.into()));
    }

    pub fn bytes(&self) -> usize {
        self.buffers.bytes()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hit(slot: Slot, client: u32) -> Hit {
        let context = Context { client, hints: HintSet(!client), ..Context::default() };
        Hit::new((slot, slot.wrapping_mul(7)), u64::from(slot) << 20, &context).expect("it has room")
    }

    fn waiting() -> Hits {
        Hits { buffers: Buffers::new(4, NOTES), every: true }
    }

    /// Clients and threads in the order of their hits; for each hit its client and number.
    fn told(hits: &[(u32, usize)]) -> Vec<(u32, Slot)> {
        let (waiting, turns) = (waiting(), Turns::new());
        for (number, &(client, thread)) in hits.iter().enumerate() {
            waiting.leave(hit(number as Slot, client), &turns, thread).expect("there is room");
        }
        let mut told = Vec::new();
        waiting.drain(|hit| told.push((hit.client, hit.slot)));
        assert_eq!(told.len(), hits.len());
        told
    }

    /// Those of client 1, which goes from a thread to another and back.
    fn in_order() -> bool {
        let told = told(&[(1, 1), (1, 0), (2, 0), (1, 2), (1, 1), (2, 3)]);
        told.iter().filter(|one| one.0 == 1).is_sorted()
    }

    #[test]
    fn a_client_that_goes_from_thread_to_thread_keeps_its_order() {
        assert!(in_order());
        let _on = mutation::put_back(Some(Fault::ClientsOutOfTurn));
        assert!(!in_order(), "the fault is found");
    }

    proptest! {
        /// Some clients have the same place among those that are remembered.
        #[test]
        fn all_of_a_client_and_all_of_a_thread_are_in_order(
            hits in prop::collection::vec((prop_oneof![0..4u32, Just(CLIENTS as u32 + 1)], 0..4usize), 0..60),
        ) {
            let told = told(&hits);
            for client in hits.iter().map(|hit| hit.0) {
                prop_assert!(told.iter().filter(|one| one.0 == client).is_sorted());
            }
            for thread in 0..4 {
                let of = told.iter().map(|one| one.1).filter(|number| hits[*number as usize].1 == thread);
                prop_assert!(of.is_sorted());
            }
        }

        #[test]
        fn a_note_says_all(slot in 0..Slot::MAX, generation: u32, hash: u64, client: u32, hints: u32, turn: u64) {
            let context = Context { client, hints: HintSet(hints), ..Context::default() };
            let hit = Hit::new((slot, generation), hash, &context).expect("it has room");
            let note = hit.note(turn);
            prop_assert!(note[0] != 0 && note[3] == turn);
            let back = Hit::from(note);
            prop_assert_eq!((back.slot, back.generation, back.hash), (slot, generation, hash));
            prop_assert_eq!((back.context().client, back.context().hints), (client, HintSet(hints)));
        }
    }

    #[test]
    fn a_transaction_and_a_cost_have_no_room() {
        let of = |context: &Context| Hit::new((0, 0), 0, context).is_some();
        assert!(of(&Context { level: 3, vertex: 4, ..Context::default() }), "of no transaction");
        assert!(!of(&Context { txn: 1, ..Context::default() }) && !of(&Context { cost_us: 1, ..Context::default() }));
    }
}
