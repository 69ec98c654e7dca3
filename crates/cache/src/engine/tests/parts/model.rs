//! One thread against a map: whatever is done, what is kept is what was put in, and all of it is dropped once.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::super::super::numbers::{CHUNK, Numbers};
use super::super::super::parts::{Readers, Writer};
use super::super::super::places::{Held, Item, Keyed};
use crate::mutation::{Fault, put_back};

/// Is counted as long as it is there.
pub(super) struct Counted {
    key: u64,
    value: u64,
    _there: Arc<()>,
}

/// Key and value, of either form.
pub(super) fn pair(item: Item<'_, Counted>) -> (u64, u64) {
    match item {
        Item::Apart(counted) => (counted.key, counted.value),
        Item::Packed(bytes) => {
            let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            (word(0), word(8))
        }
    }
}

/// Keys from 1000 on share the bits that tell segments apart.
pub(super) fn hash(key: u64) -> u64 {
    if key >= 1000 { key & 0xffff } else { key.wrapping_mul(0x9e37_79b9_7f4a_7c15) }
}

impl Keyed for Counted {
    fn hash(item: Item<'_, Self>) -> u64 {
        hash(pair(item).0)
    }
}

/// An item: bytes of some length, or one that is counted.
pub(super) fn held(key: u64, value: u64, len: usize, there: &Arc<()>) -> Held<Counted> {
    if len < 16 {
        return Held::Apart(Box::new(Counted { key, value, _there: there.clone() }));
    }
    let mut bytes = vec![7; len];
    bytes[..8].copy_from_slice(&key.to_le_bytes());
    bytes[8..16].copy_from_slice(&value.to_le_bytes());
    Held::Packed(bytes.into())
}

pub(super) fn retire(readers: &Readers<Counted>, writer: &mut Writer<Counted>) {
    if let Some(due) = writer.due() {
        readers.retire(due, drop);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put { key: u64, len: usize, marked: bool },
    Remove(u64),
    Mark(u64, bool),
    Touch(u64),
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || prop_oneof![8 => 0..400u64, 1 => 1000..1300u64];
    // Those whose length does not fit into a word among them.
    let len = prop_oneof![8 => 0..200usize, 1 => 0xfffe..0x1_0002usize];
    let step = prop_oneof![
        600 => (key(), len, any::<bool>()).prop_map(|(key, len, marked)| Step::Put { key, len, marked }),
        300 => key().prop_map(Step::Remove),
        50 => (key(), any::<bool>()).prop_map(|(key, marked)| Step::Mark(key, marked)),
        50 => key().prop_map(Step::Touch),
        1 => Just(Step::Clear),
    ];
    prop::collection::vec(step, 0..if cfg!(miri) { 60 } else { 1500 })
}

/// What the map knows of an entry.
#[derive(Clone, Copy)]
struct Known {
    slot: u32,
    value: u64,
    marked: bool,
    touches: u8,
}

/// A part and the map that it is compared with.
struct Both {
    readers: Readers<Counted>,
    writer: Writer<Counted>,
    model: BTreeMap<u64, Known>,
    /// Entries that have left: slots with generations.
    left: Vec<(u32, u32)>,
    there: Arc<()>,
}

impl Both {
    fn new() -> Both {
        let (readers, mut writers) = Readers::new(1);
        let (model, left) = (BTreeMap::new(), Vec::new());
        Both { readers, writer: writers.remove(0), model, left, there: Arc::new(()) }
    }

    /// What a reader may say later of an entry that is there.
    fn entry(readers: &Readers<Counted>, key: u64) -> Option<(u32, u32)> {
        let guard = readers.pin();
        readers.look((0, hash(key)), &guard, |item| pair(item).0 == key)?.sight.entry()
    }

    fn step(&mut self, value: u64, step: Step) {
        let Both { readers, writer, model, left, there } = self;
        match step {
            Step::Put { key, len, marked } => {
                let held = held(key, value, len, there);
                match model.get_mut(&key) {
                    Some(known) => {
                        assert!(writer.replace(known.slot, held, marked, 1).is_ok());
                        (known.value, known.marked) = (value, known.marked || marked);
                    }
                    None => match writer.insert(hash(key), held, marked) {
                        Ok(slot) => {
                            assert!(model.values().all(|known| known.slot != slot), "it was free");
                            model.insert(key, Known { slot, value, marked, touches: 0 });
                        }
                        // More of one hash than a segment has words.
                        Err(_) => assert!(model.range(1000..).count() >= 200),
                    },
                }
            }
            Step::Remove(key) => {
                if let Some(Known { slot, .. }) = model.remove(&key) {
                    left.extend(Both::entry(readers, key));
                    assert!(writer.remove(slot, hash(key), 1));
                    assert!(!writer.remove(slot, hash(key), 1), "once");
                }
            }
            Step::Mark(key, marked) => {
                if let Some(known) = model.get_mut(&key) {
                    writer.set_marked(known.slot, marked);
                    known.marked = marked;
                }
            }
            Step::Touch(key) => {
                if let Some(Known { slot, touches, .. }) = model.get_mut(&key) {
                    if key % 2 == 0 {
                        writer.touch(*slot);
                    } else {
                        let guard = readers.pin();
                        let found = readers.look((0, hash(key)), &guard, |item| pair(item).0 == key);
                        found.into_iter().for_each(|found| found.sight.touch());
                    }
                    *touches = (*touches + 1).min(3);
                    if value.is_multiple_of(3) {
                        assert_eq!(writer.take_touches(*slot), std::mem::take(touches));
                    }
                }
            }
            Step::Clear => {
                for (key, known) in std::mem::take(model) {
                    left.extend(Both::entry(readers, key));
                    assert!(writer.remove(known.slot, hash(key), 1));
                }
                writer.begin_anew();
                assert_eq!((writer.len(), writer.bound()), (0, 0));
            }
        }
        retire(readers, writer);
    }

    fn compare(self) {
        let Both { readers, mut writer, model, left, there } = self;
        writer.validate();
        assert!(left.iter().all(|&(slot, generation)| !writer.has(slot, generation)), "what has left is no other");
        let guard = readers.pin();
        let look = |key| readers.look((0, hash(key)), &guard, |item| pair(item).0 == key);
        for (&key, &Known { slot, value, marked, touches }) in &model {
            let found = look(key).expect("it is in");
            assert_eq!((pair(found.item), found.sight.is_marked()), ((key, value), marked));
            assert_eq!((found.sight.slot(), found.sight.holds()), (slot, !marked));
            assert!(found.sight.entry().is_some_and(|(of, generation)| of == slot && writer.has(slot, generation)));
            assert_eq!(writer.get(slot).map(pair), Some((key, value)));
            assert_eq!(writer.take_touches(slot), touches);
        }
        assert!(look(77_777).is_none());
        let slots: BTreeMap<u32, u64> = model.iter().map(|(key, known)| (known.slot, *key)).collect();
        assert!(writer.iter().map(|(slot, item)| (slot, pair(item).0)).eq(slots));
        // A writer may end before its readers.
        drop(writer);
        assert!(model.iter().all(|(&key, known)| look(key).is_some_and(|found| pair(found.item).1 == known.value)));
        drop(guard);
        drop(readers);
        assert_eq!(Arc::strong_count(&there), 1, "all is dropped");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 64 }))]

    #[test]
    fn equals_a_map(steps in steps()) {
        let mut both = Both::new();
        for (value, step) in (1..).zip(steps) {
            both.step(value, step);
            if value % 100 == 0 {
                both.writer.validate();
            }
        }
        both.compare();
    }

    /// Against a set: any run of numbers taken and given back; at the end few are left, and after as many have come and
    /// gone as there were, no more chunks have memory than those need.
    #[test]
    fn numbers_equal_a_set_and_give_back(
        steps in prop::collection::vec((1usize..1500, 0u8..4, any::<u32>()), 1..12),
        left in 1usize..40,
    ) {
        let (mut numbers, mut model) = (Numbers::new(), std::collections::BTreeSet::<u32>::new());
        let mut memory = std::collections::BTreeSet::<usize>::new();
        let give = |numbers: &mut Numbers, memory: &mut std::collections::BTreeSet<usize>, number| {
            if let Some(chunk) = numbers.give_back(number) {
                assert!(memory.remove(&chunk), "it had memory");
            }
        };
        for (count, kind, seed) in steps {
            for round in 0..count {
                let number = match kind {
                    0 | 1 => None,
                    2 => model.first().copied(),
                    _ => model.range(seed.wrapping_mul(round as u32 * 2 + 1) % 8192..).next().copied(),
                };
                match number {
                    Some(number) => {
                        model.remove(&number);
                        give(&mut numbers, &mut memory, number);
                    }
                    None => {
                        let number = numbers.take();
                        prop_assert!(model.insert(number), "it was free");
                        memory.insert(number as usize / CHUNK);
                    }
                }
            }
            numbers.validate();
            prop_assert!(model.iter().all(|number| (*number as usize) < numbers.bound()));
            prop_assert!(model.iter().all(|number| memory.contains(&(*number as usize / CHUNK))));
        }
        let mut gone = false;
        while model.len() > left {
            gone = true;
            let number = model.pop_first().expect("more are there");
            give(&mut numbers, &mut memory, number);
        }
        // What is left is replaced, one by one: the highest number goes first.
        while model.last().is_some_and(|number| *number as usize >= CHUNK) {
            let number = model.pop_last().expect("some are there");
            give(&mut numbers, &mut memory, number);
            let number = numbers.take();
            model.insert(number);
            memory.insert(number as usize / CHUNK);
        }
        numbers.validate();
        prop_assert!(!gone || memory.len() <= 2, "{memory:?} have memory");
    }
}

/// An item whose hash is another each time it is asked: it is not found, but nothing is dropped that a word names.
#[test]
fn an_item_that_contradicts_itself_breaks_nothing() {
    struct Fickle(std::sync::atomic::AtomicU64);
    impl Keyed for Fickle {
        fn hash(item: Item<'_, Self>) -> u64 {
            let Item::Apart(fickle) = item else { return 0 };
            fickle.0.fetch_add(1 << 60 | 7, std::sync::atomic::Ordering::Relaxed)
        }
    }
    let (readers, mut writers) = Readers::new(1);
    let mut writer = writers.remove(0);
    let mut kept = Vec::new();
    for key in 0..if cfg!(miri) { 300 } else { 3000 } {
        let held = Held::Apart(Box::new(Fickle(key.into())));
        kept.extend(writer.insert(hash(key), held, false).ok());
        if let Some(slot) = kept.pop_if(|_| key % 3 == 0) {
            // By its hash it has no word, as a rule; tests end at that.
            let gone = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| writer.remove(slot, key << 7, 1)));
            assert!(gone.is_err() || gone.is_ok_and(|removed| removed));
        }
        let guard = readers.pin();
        readers.look((0, hash(key)), &guard, |item| matches!(item, Item::Apart(_)));
        drop(guard);
        if let Some(due) = writer.due() {
            readers.retire(due, drop);
        }
    }
}

#[test]
fn an_address_that_does_not_fit_is_refused() {
    let there = Arc::new(());
    let (_readers, mut writers) = Readers::new(1);
    let mut writer = writers.remove(0);
    put_back(Some(Fault::AddressTooWide));
    let refused = [0, 40].map(|len| writer.insert(hash(1), held(1, 1, len, &there), false).is_err());
    put_back(None);
    assert_eq!(refused, [true; 2]);
    assert_eq!(writer.len(), 0);
    writer.validate();
    assert_eq!(Arc::strong_count(&there), 1, "it came back");
    assert!(writer.insert(hash(1), held(1, 1, 40, &there), false).is_ok());
}
