//! What happens to a cache and its model: requests with hints, and all else that can.

use proptest::prelude::*;

use super::super::super::bare::{Bare, Served};
use super::super::super::{Access, AccessKind};
use super::SETS;
use crate::hint::HintSet;

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Request { key: u64, hints: u32, size: u32, kind: AccessKind },
    Invalidate(u64),
    Resize(u64, u32),
    Pin(u64, bool),
    Capacity(u64),
}

/// Requests by chance, with keys that are mostly asked for with the same hints, and all else that can happen.
fn chance() -> impl Strategy<Value = Vec<Event>> {
    let kind = prop_oneof![
        6 => Just(AccessKind::Read),
        2 => Just(AccessKind::Write),
        1 => Just(AccessKind::Demote),
        1 => Just(AccessKind::Prefetch),
    ];
    let hints = prop_oneof![5 => Just(None), 1 => (0..SETS).prop_map(Some)];
    let request = (0u64..24, hints, 1u32..200, kind).prop_map(|(key, hints, size, kind)| Event::Request {
        key,
        hints: hints.unwrap_or(key as u32 % 4),
        size,
        kind,
    });
    let event = prop_oneof![
        60 => request,
        1 => (0u64..24).prop_map(Event::Invalidate),
        1 => (0u64..24, 1u32..200).prop_map(|(key, size)| Event::Resize(key, size)),
        2 => (0u64..24, any::<bool>()).prop_map(|(key, pinned)| Event::Pin(key, pinned)),
        1 => (1u64..16).prop_map(Event::Capacity),
    ];
    prop::collection::vec(event, 1..200)
}

/// What there is to learn: some keys are read all the time, others in a loop, and some only written.
fn pattern() -> impl Strategy<Value = Vec<Event>> {
    (1u64..5, 20u64..500, 1u64..6, 50u64..700).prop_map(|(hot, around, every, length)| {
        let request = |at: u64| {
            let (key, hints, kind) = match at % (every + 2) {
                0 => (at % hot, 0, AccessKind::Read),
                1 => (5000 + at % 70, 6, AccessKind::Write),
                _ => (1000 + at % around, 5, AccessKind::Read),
            };
            Event::Request { key, hints, size: 1 + (key % 150) as u32, kind }
        };
        (0..length).map(request).collect()
    })
}

pub(super) fn events() -> impl Strategy<Value = Vec<Event>> {
    let part = prop_oneof![1 => chance(), 2 => pattern()];
    prop::collection::vec(part, 1..6).prop_map(|parts| parts.concat())
}

pub(super) fn apply(cache: &mut Bare, event: Event, unit: u64) -> (Option<Served>, Vec<u64>) {
    match event {
        Event::Request { key, hints, size, kind } => {
            let served = cache.access(Access { kind, hints: HintSet(hints), ..Access::read(key, size) });
            return (Some(served), cache.evicted().to_vec());
        }
        Event::Invalidate(key) => drop(cache.invalidate(key)),
        Event::Resize(key, size) => drop(cache.resize(key, size)),
        Event::Pin(key, pinned) => drop(cache.pin(key, pinned)),
        Event::Capacity(capacity) => cache.set_capacity(capacity * unit),
    }
    (None, Vec::new())
}
