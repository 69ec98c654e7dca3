//! Reads. They take no lock, unless each hit has to be told at once: to a policy that follows transactions, or to a
//! watcher. The proof is in `docs/guarantees.md`, D. To a policy that hears of hits later they leave notes (`hits.rs`).

use forebay_cache::{Sight, Sighted};
use smallvec::SmallVec;

use super::guard::Guard;
use super::hits::{Hit, Turns};
use super::{Cache, Context, Inner};
use crate::key::KeyRef;
use crate::mutation::{self, Fault};
use crate::read::Read;
use crate::read::record::{Apart, View};
use crate::sync::{Ordering, fence};

/// What a look finds stays as long as this does. Whoever holds it goes on without waiting for anything.
pub struct Reading<'c>(forebay_cache::Guard<'c>);

impl Reading<'_> {
    /// Stands between the first looks at several keys and the second ones: the moment of which the read is.
    pub fn looks_again(&self) {
        fence(Ordering::SeqCst);
    }
}

/// Where a look without locks has found a key, and which state of it. As long as the look's guard is there, another
/// state is another word.
#[derive(Clone, Copy)]
pub struct Word<'g>(Sight<'g, Apart>);

/// What a look without locks found.
pub enum Look<'g> {
    /// The last published value, and the word by which a later change is seen.
    Hit(Read, Word<'g>),
    /// The key is being published: look again.
    Marked,
    /// Not cached.
    Miss,
}

impl Cache {
    /// Has what is found from now on stay until the answer is dropped.
    #[inline]
    pub fn reading(&self) -> Reading<'_> {
        Reading(self.inner.beside.readers.pin())
    }

    /// The value of `key`, counted as a hit or a miss. For a reader that holds a lock on the key and found no pending
    /// result beside it.
    pub fn get(&self, key: KeyRef<'_>, context: &Context) -> Option<Read> {
        let hash = key.hash64();
        let Some(read) = self.inner.get(hash, key, context, |found| Some(View::from(found.item).read())) else {
            self.inner.beside.readers.count(false, &self.reading().0);
            return None;
        };
        Some(read)
    }

    /// The last published value without counting a hit; for `CACHE EXPLAIN`, watches and checks.
    pub fn peek(&self, key: KeyRef<'_>) -> Option<Read> {
        let reading = self.reading();
        self.inner.find(key.hash64(), key, &reading).map(|found| View::from(found.item).read())
    }

    /// First look of a reader without locks; a single key needs no second. `hash` is the key's [`KeyRef::hash64`], here
    /// as in what follows. Counts nothing: see [`Cache::touch`].
    pub fn look<'g>(&'g self, hash: u64, key: KeyRef<'_>, reading: &'g Reading<'_>) -> Look<'g> {
        match self.inner.find(hash, key, reading) {
            Some(found) if !found.sight.is_marked() => Look::Hit(View::from(found.item).read(), Word(found.sight)),
            Some(_) => Look::Marked,
            None => Look::Miss,
        }
    }

    /// Second look, of the same reading: whether the key is still as the first look found it, and not being published.
    pub fn unchanged<'g>(&'g self, key: KeyRef<'_>, word: Word<'g>, reading: &'g Reading<'_>) -> bool {
        if mutation::on(Fault::WrongSequence) {
            let now = word.0.now(&reading.0).filter(|now| !now.sight.is_marked());
            return now.is_some_and(|now| View::from(now.item).key() == key);
        }
        word.0.holds()
    }

    /// Counts the hit of a look that held.
    pub fn touch(&self, hash: u64, word: Word<'_>, context: &Context, reading: &Reading<'_>) {
        let partition = self.inner.following.hears(hash).then(|| self.inner.partition_of(hash));
        match partition {
            // Replaced since: a hit all the same, but nothing that the order should hear of.
            Some(_) if !word.0.holds() => self.inner.beside.readers.count(true, &reading.0),
            partition => self.inner.hit(partition, hash, word.0, context, reading),
        }
    }

    /// One look at a single key that counts the hit at once. `None`: not cached or being published.
    pub fn get_published(&self, key: KeyRef<'_>, context: &Context) -> Option<Read> {
        self.show_published(key, context, |view| Some(view.read()))
    }

    /// As [`Cache::get_published`], for a reader that takes what it wants while it looks: `show` may copy from what it
    /// sees, and counts no reference. It must wait for nothing. What it takes nothing of is no hit.
    #[inline]
    pub(crate) fn show_published<T>(
        &self,
        key: KeyRef<'_>,
        context: &Context,
        show: impl FnOnce(View<'_>) -> Option<T>,
    ) -> Option<T> {
        self.inner.get(key.hash64(), key, context, |found| match found.sight.is_marked() {
            true => None,
            false => show(View::from(found.item)),
        })
    }

    /// Counts hits that a cache elsewhere has had of `key` with a copy from here, if it is still cached.
    pub fn hit_elsewhere(&self, key: KeyRef<'_>, hits: u64, context: &Context) {
        (0..hits).for_each(|_| drop(self.get_published(key, context)));
    }

    /// Has the processor fetch what look-ups of several keys with these hashes will need, all at the same time: one
    /// reference further in each pass, since the look-ups do not depend on each other.
    pub fn prefetch(&self, hashes: &[u64]) {
        let (readers, reading) = (&self.inner.beside.readers, self.reading());
        let each = || hashes.iter().map(|hash| (self.inner.index(*hash), *hash));
        each().for_each(|hash| readers.ahead(hash, &reading.0));
        let mut places = SmallVec::<[_; 32]>::new();
        each().filter_map(|hash| readers.place_ahead(hash, &reading.0)).for_each(|place| places.push(place));
        places.iter().for_each(|place| place.item(&reading.0));
    }
}

impl Inner {
    #[inline]
    fn find<'g>(&'g self, hash: u64, key: KeyRef<'_>, reading: &'g Reading<'_>) -> Option<Sighted<'g, Apart>> {
        self.beside.readers.look((self.index(hash), hash), &reading.0, |item| View::from(item).key() == key)
    }

    /// What `take` makes of what is cached of `key`; a hit, if that is something.
    #[inline]
    fn get<T>(
        &self,
        hash: u64,
        key: KeyRef<'_>,
        context: &Context,
        take: impl FnOnce(Sighted<'_, Apart>) -> Option<T>,
    ) -> Option<T> {
        let partition = self.following.hears(hash).then(|| self.partition_of(hash));
        let reading = Reading(self.beside.readers.pin());
        let found = self.find(hash, key, &reading)?;
        let sight = found.sight;
        let taken = take(found)?;
        self.hit(partition, hash, sight, context, &reading);
        Some(taken)
    }

    /// Counts a hit. `partition` is given if the policy or a watcher hears of the hit at once.
    #[inline]
    fn hit(
        &self,
        partition: Option<Guard<'_>>,
        hash: u64,
        sight: Sight<'_, Apart>,
        context: &Context,
        reading: &Reading<'_>,
    ) {
        self.beside.readers.count(true, &reading.0);
        match (partition, &self.turns) {
            (Some(mut partition), _) => partition.touch(sight.slot(), hash, context),
            (None, Some(turns)) => self.hear(turns, hash, sight, context, reading),
            (None, None) => sight.touch(),
        }
    }

    /// Has the policy told of a hit: later, if its note has room for the context.
    fn hear(&self, turns: &Turns, hash: u64, sight: Sight<'_, Apart>, context: &Context, reading: &Reading<'_>) {
        let partition = &self.partitions[self.index(hash)];
        // Another value is there by now, or nothing: the policy hears of that.
        let Some((slot, generation)) = sight.entry() else { return };
        mutation::meanwhile();
        if let Some(hit) = Hit::new((slot, generation), hash, context) {
            return partition.tell_later(hit, turns, reading.0.place(), &self.beside);
        }
        let mut partition = partition.lock(&self.beside);
        if partition.entries.has(slot, generation) {
            partition.touch(slot, hash, context);
        }
    }
}
