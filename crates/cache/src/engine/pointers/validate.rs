//! Whether all that must be true is true, and what else tests ask for.

use crate::sync::Ordering;

use super::super::boxed::Record;
use super::super::wheel::NEVER;
use super::guarded::Guarded;
use super::limbo::Retired;
use super::{Pointers, Shard};

/// Panics if anything is not as the modules say; answers the entries. Takes all locks: nothing changes meanwhile.
pub fn validate<T, R>(cache: &Pointers<T>, of: impl Fn(&T) -> R) -> Vec<R> {
    let mut guards: Vec<_> = cache.shards.iter().map(Shard::lock).collect();
    let credit: usize = guards.iter().map(|guarded| guarded.credit).sum();
    assert_eq!(credit + cache.budget.left(), cache.budget.capacity(), "all credit is the budget");
    let mut found = Vec::new();
    for (number, guarded) in guards.iter_mut().enumerate() {
        assert!(guarded.used <= guarded.credit, "a shard keeps within its credit");
        let named = guarded.index.validate();
        assert_eq!(named.len(), guarded.records.len(), "what has an owner is named once");
        for record in named {
            let own = guarded.records.get(record.slot.load(Ordering::Relaxed));
            assert!(own.is_some_and(|own| std::ptr::eq(&**own, record)), "a record knows its owner");
            assert!(std::ptr::eq(cache.shard(record.hash), &cache.shards[number]), "an entry is in its shard");
            found.push(of(record.item()));
        }
        let slots: Vec<(u32, usize)> = guarded.records.iter().map(|(slot, record)| (slot, record.weight)).collect();
        let is_pinned = |slot: u32| guarded.records.get(slot).is_some_and(|record| record.is_pinned());
        guarded.ranks.validate(slots.iter().copied().filter(|slot| !is_pinned(slot.0)));
        let pinned = slots.iter().filter(|slot| is_pinned(slot.0)).map(|slot| slot.1).sum::<usize>();
        assert_eq!(pinned, guarded.pinned, "what is pinned is counted");
        let tags = |record: &Record<T>| (guarded.life.tags)(record.item()).to_vec();
        let mut expected: Vec<(u64, u32)> = guarded
            .records
            .iter()
            .flat_map(|(slot, record)| tags(record).into_iter().map(move |tag| (tag, slot)))
            .collect();
        expected.sort_unstable();
        let found_tags = guarded.tagged.as_ref().map_or(Vec::new(), |tagged| tagged.validate());
        assert_eq!(found_tags, expected, "what has tags is found by them, and nothing else is");
        assert_eq!(slots.iter().map(|slot| slot.1).sum::<usize>(), guarded.used, "the weight is that of all");
        let limbo = guarded.limbo.contents.iter().map(|retired| match retired {
            Retired::Record(record, _) => record.weight,
            _ => 0,
        });
        assert_eq!(limbo.sum::<usize>(), guarded.limbo.weight, "limbo knows its weight");
        let Guarded { records, wheel, life, .. } = &mut **guarded;
        let until = |slot| records.get(slot).map_or(NEVER, |record| (life.until)(record.item()));
        let timed = slots.iter().map(|(slot, _)| slot).filter(|&&slot| until(slot) != NEVER);
        let mut on_wheel = wheel.as_mut().map_or(Vec::new(), |wheel| wheel.validate(until));
        on_wheel.sort_unstable();
        assert!(on_wheel.iter().eq(timed), "what expires stands on the wheel");
    }
    found
}

impl<T> Pointers<T> {
    /// The same, for those who do not know the parts.
    pub(crate) fn validate_all(&self) {
        validate(self, |_| ());
    }

    /// Whether a shard is locked.
    pub(crate) fn is_locked(&self) -> bool {
        self.shards.iter().any(|shard| shard.writers.0.guarded.try_lock().is_err())
    }
}

pub fn inside<T>(cache: &Pointers<T>) -> Inside {
    let guards: Vec<_> = cache.shards.iter().map(Shard::lock).collect();
    Inside {
        copied: guards.iter().map(|guarded| guarded.index.copied).sum(),
        segments: guards.iter().map(|guarded| guarded.index.segments()).sum(),
        in_limbo: guards.iter().map(|guarded| guarded.limbo.weight).sum(),
    }
}

/// Retires what is in the shards' hands, and drops what can be dropped.
pub fn flush<T>(cache: &Pointers<T>) {
    for shard in &cache.shards {
        let due = shard.lock().limbo.all(cache);
        drop(due);
    }
    cache.collector.collect_with(drop);
}

/// What tests ask about.
#[derive(Clone, Copy, Debug)]
pub struct Inside {
    /// Words and names that were copied, ever.
    pub copied: usize,
    pub segments: usize,
    pub in_limbo: usize,
}
