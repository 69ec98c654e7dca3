//! What a cache tells of transactions: to its policy, if that follows them, and to who watches.
//!
//! A policy for single objects is told nothing. Where nothing watches either, no transaction gets a number for its
//! sake, and all that it costs is one relaxed load.

use std::sync::{Arc, OnceLock, PoisonError};

use super::partition::Partition;
use super::{AccessKind, Accessed, Cache, Context, ENTRY_OVERHEAD_BYTES, Sample, Watcher, forced};
use crate::error::there;
use crate::hint::{HintMeaning, HintSet};
use crate::key::KeyRef;
use crate::policy::{Access, Graph, Meter, Slot};
use crate::read::Read;
use crate::read::record::Record;
use crate::sync::{AtomicUsize, Mutex, Ordering};

/// Partitions whose bits stand in one word; of more, all are told of an end.
const PARTITIONS_TOLD_MAX: usize = 64;

/// 2^64 over the golden ratio: spreads numbers over partitions.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Counted for each that follows transactions: more than the word of any sample.
const FOLLOWED: usize = 256;

/// What follows transactions.
#[derive(Default)]
pub(super) struct Following {
    /// Times [`FOLLOWED`]: watchers of all keys, and one more for a policy that follows transactions. And beside that,
    /// of which keys others want to hear: the word of a [`Sample`].
    count: AtomicUsize,
    watchers: Mutex<Vec<Arc<dyn Watcher>>>,
    meter: OnceLock<Arc<Meter>>,
}

impl Following {
    #[inline]
    pub(super) fn anybody(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= FOLLOWED
    }

    /// Whether anybody wants to hear of the key with this hash.
    #[inline]
    pub(super) fn hears(&self, hash: u64) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        count != 0 && (count >= FOLLOWED || Sample::of_word(count).is_some_and(|sample| sample.has(hash)))
    }

    /// Says so again, for these watchers.
    fn count(&self, watchers: &[Arc<dyn Watcher>], policy_follows: bool) {
        let (of_all, of_some): (Vec<Sample>, Vec<Sample>) =
            watchers.iter().map(|watcher| watcher.sample()).partition(|sample| *sample == Sample::ALL);
        let largest = of_some.iter().map(|sample| sample.word()).min().unwrap_or(0);
        let count = (of_all.len() + usize::from(policy_follows)) * FOLLOWED + largest;
        self.count.store(count, Ordering::Relaxed);
    }
}

/// Has transactional hits counted.
struct Metering(Arc<Meter>);

impl Watcher for Metering {
    fn accessed(&self, accessed: &Accessed<'_>) {
        let Some(kind) = accessed.kind else { return };
        let Context { client, hints, txn, txn_type, level, vertex, cost_us } = *accessed.context;
        let access = Access { kind, client, hints, txn, txn_type, level, vertex, cost_us, ..Access::read(0, 0) };
        self.0.access(&access, accessed.hit);
    }

    fn ended(&self, context: &Context, committed: bool) {
        self.0.ended(context.txn, committed);
    }
}

impl Cache {
    /// Whether anybody wants to know which accesses belong together: contexts then need a transaction's number, and
    /// [`Cache::ended`] is to be called.
    pub fn follows_transactions(&self) -> bool {
        self.inner.following.anybody()
    }

    pub(super) fn follow_policy(&self) {
        if self.inner.learned.follows_transactions() {
            self.inner.following.count(&self.watchers(), true);
            self.measure_transactions();
        }
    }

    /// Counts transactional hits from now on; done already where the policy follows transactions.
    pub fn measure_transactions(&self) -> &Arc<Meter> {
        self.inner.following.meter.get_or_init(|| {
            let meter = Arc::new(Meter::default());
            self.watch(Arc::new(Metering(meter.clone())));
            meter
        })
    }

    /// What counts transactional hits, if anything does.
    pub fn meter(&self) -> Option<&Arc<Meter>> {
        self.inner.following.meter.get()
    }

    /// Has `watcher` told of all that follows.
    pub fn watch(&self, watcher: Arc<dyn Watcher>) {
        let mut watchers = self.watchers();
        watchers.push(watcher.clone());
        self.inner.following.count(&watchers, self.inner.learned.follows_transactions());
        drop(watchers);
        self.inner.all().for_each(|mut partition| partition.add_watcher(watcher.clone()));
    }

    /// Has it told no more.
    pub fn unwatch(&self, watcher: &Arc<dyn Watcher>) {
        let mut watchers = self.watchers();
        watchers.retain(|other| !Arc::ptr_eq(other, watcher));
        self.inner.following.count(&watchers, self.inner.learned.follows_transactions());
        drop(watchers);
        self.inner.all().for_each(|mut partition| partition.remove_watcher(watcher));
    }

    fn watchers(&self) -> crate::sync::MutexGuard<'_, Vec<Arc<dyn Watcher>>> {
        self.inner.following.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell_hints(&self, set: HintSet, meaning: &HintMeaning) {
        self.watchers().iter().for_each(|watcher| watcher.hints_defined(set, meaning));
    }

    pub(super) fn tell_cleared(&self, begins_again: bool) {
        self.watchers().iter().for_each(|watcher| watcher.cleared(begins_again));
    }

    /// A transaction has ended: of all that it asked for and wrote the cache has heard. A rerun keeps its number, and
    /// each of its runs ends.
    pub fn ended(&self, context: &Context, committed: bool) {
        if context.txn == 0 || !self.follows_transactions() {
            return;
        }
        let inner = &*self.inner;
        if inner.learned.follows_transactions() {
            let mut told = 0u64;
            let wide = inner.partitions.len() > PARTITIONS_TOLD_MAX;
            inner.learned.asked_by(context.txn, &mut |hash| told |= 1 << (inner.index(hash) % PARTITIONS_TOLD_MAX));
            for (at, partition) in inner.partitions.iter().enumerate() {
                if told >> (at % PARTITIONS_TOLD_MAX) & 1 == 1 || wide && told != 0 {
                    partition.lock(&inner.beside).ended(context.txn, committed);
                }
            }
            self.make_room_for_learned(context.txn);
        }
        self.watchers().iter().for_each(|watcher| watcher.ended(context, committed));
    }

    /// Charges what was learned, and makes room if it grew: in the partition that `chance` names, then in others.
    fn make_room_for_learned(&self, chance: u64) {
        if self.charge_learned() && !self.is_within_budget() {
            let hash = chance.wrapping_mul(SPREAD);
            let forced = forced(&Access::read(hash, 0));
            self.make_room(&mut self.inner.partition_of(hash), &forced, 0);
        }
    }

    /// Tells the policy, and what counts transactional hits, what a transaction type looks like.
    pub fn register_graph(&self, txn_type: u16, graph: &Arc<Graph>) {
        self.inner.learned.register_graph(txn_type, graph);
        self.make_room_for_learned(u64::from(txn_type));
        if let Some(meter) = self.meter() {
            meter.register_graph(txn_type, graph);
        }
        self.watchers().iter().for_each(|watcher| watcher.graph_registered(txn_type, graph));
    }

    /// Bytes that the policy takes, for entries and beyond.
    pub fn metadata_bytes(&self) -> usize {
        self.inner.all().map(|partition| partition.metadata_bytes()).sum::<usize>() + self.inner.learned.bytes()
    }

    /// A read was answered that no fill stands for: beside a commit on its way, or by another's fetch.
    pub(crate) fn read_beside(&self, key: KeyRef<'_>, read: &Read, context: &Context) {
        if self.inner.following.hears(key.hash64()) {
            let access = Told { kind: AccessKind::Read, beside: true };
            self.inner.partition(key).tell(key, read, access, context);
        }
    }
}

/// What was done in an access that is no hit.
#[derive(Clone, Copy)]
pub(super) struct Told {
    pub kind: AccessKind,
    /// The policy does not hear of it.
    pub beside: bool,
}

impl Told {
    /// Of an access that comes to the policy.
    pub fn of(kind: AccessKind) -> Told {
        Told { kind, beside: false }
    }
}

impl Partition {
    pub(super) fn add_watcher(&mut self, watcher: Arc<dyn Watcher>) {
        self.watchers.push(watcher);
    }

    pub(super) fn remove_watcher(&mut self, watcher: &Arc<dyn Watcher>) {
        self.watchers.retain(|other| !Arc::ptr_eq(other, watcher));
    }

    fn metadata_bytes(&self) -> usize {
        self.entries.len() * self.policy.entry_bytes + self.order.ghost_bytes()
    }

    pub(super) fn ended(&mut self, txn: u64, committed: bool) {
        self.order.ended(txn, committed);
    }

    /// Tells of an access that is no hit, to a document in the state `read`.
    pub(super) fn tell(&self, key: KeyRef<'_>, read: &Read, access: Told, context: &Context) {
        if self.watchers.is_empty() {
            return;
        }
        let charged = ENTRY_OVERHEAD_BYTES + Record::heap_bytes(key.name.len(), read);
        self.tell_all(&Accessed {
            key,
            kind: Some(access.kind),
            hit: false,
            beside: access.beside,
            size: size(key, read),
            charged: Some(charged.min(u32::MAX as usize) as u32),
            value: read.value.as_ref(),
            context,
        });
    }

    /// Tells of a hit.
    #[cold]
    pub(super) fn tell_hit(&self, slot: Slot, context: &Context) {
        let Some(view) = there(self.view(slot)) else { return };
        let (key, read) = (view.key(), view.read());
        let charged = ENTRY_OVERHEAD_BYTES + view.charged_bytes();
        self.tell_all(&Accessed {
            key,
            kind: Some(AccessKind::Read),
            hit: true,
            beside: false,
            size: size(key, &read),
            charged: Some(charged.min(u32::MAX as usize) as u32),
            value: read.value.as_ref(),
            context,
        });
    }

    /// Tells of a key that leaves: written by a transaction, with its context, or changed elsewhere.
    pub(super) fn tell_gone(&self, key: KeyRef<'_>, written: Option<&Context>) {
        if !self.watchers.is_empty() {
            let (kind, none) = (written.map(|_| AccessKind::Write), Context::default());
            let context = written.unwrap_or(&none);
            let (hit, beside, size, charged, value) = (false, false, None, None, None);
            self.tell_all(&Accessed { key, kind, hit, beside, size, charged, value, context });
        }
    }

    fn tell_all(&self, accessed: &Accessed<'_>) {
        self.watchers.iter().for_each(|watcher| watcher.accessed(accessed));
    }
}

/// Bytes of key and value, if there is a value.
fn size(key: KeyRef<'_>, read: &Read) -> Option<u32> {
    let value = read.value.as_ref()?;
    Some((key.name.len() + value.size()).min(u32::MAX as usize) as u32)
}
