//! When entries expire: a hierarchical timer wheel over the slots of one shard.
//!
//! A level has 64 lists, and a list of level `l` holds what expires within 64^l ticks. Each level stands for six bits
//! of a tick. An entry stands in the level of the highest bits in which its tick differs from the present one. These
//! bits of its tick are the number of its list. When time comes to a list, the whole list becomes *due* in one step.
//! The shard takes due entries one by one: each has expired, or is set again and then stands in a lower level. So an
//! entry is moved eight times at most, whatever its time is, and a step of a writer is bounded.
//!
//! * **A list is due when its time has come, not before and not later.** All bits above its level are those of the
//!   present tick, and its number is larger than the present one. An advance that changes the bits above takes the
//!   list, as does one that comes to its number.
//! * **A due entry that is set again is not due again.** A tick counts as reached when it is over, so an entry of the
//!   lowest level has expired when it is due.
//!
//! Lists are linked through eight bytes for each slot, in chunks as those of `queues.rs`.

use super::slab::CHUNK;

/// The time of what does not expire.
pub(crate) const NEVER: u64 = u64::MAX;

/// A tick has 2^20 nanoseconds, about a millisecond.
const TICK_SHIFT: u32 = 20;

const LEVEL_BITS: u32 = 6;

/// Lists of a level.
const SPOKES: usize = 1 << LEVEL_BITS;

/// So that there is a level for every tick of 64 bits of nanoseconds.
const LEVELS: usize = (64 - TICK_SHIFT).div_ceil(LEVEL_BITS) as usize;

/// The list of what is due.
const DUE: usize = LEVELS * SPOKES;

/// Set in the number of a list's head; slots have numbers of 31 bits.
const HEAD: u32 = 1 << 31;

/// A slot that stands in no list.
const NOWHERE: Link = Link { before: u32::MAX, after: u32::MAX };

#[derive(Clone, Copy, PartialEq, Eq)]
struct Link {
    before: u32,
    after: u32,
}

/// See the module. A shard's lock guards it.
pub(super) struct Wheel {
    links: Vec<Box<[Link]>>,
    heads: Box<[Link]>,
    /// Lists of each level that may have an entry.
    occupied: [u64; LEVELS],
    /// In nanoseconds; it only grows.
    now: u64,
}

impl Wheel {
    pub fn new(now: u64) -> Wheel {
        let heads = (0..=DUE as u32).map(|list| Link { before: HEAD | list, after: HEAD | list }).collect();
        Wheel { links: Vec::new(), heads, occupied: [0; LEVELS], now }
    }

    /// The latest time that the wheel was told.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The slot's entry expires at `until`, whatever was said of it before.
    pub fn set(&mut self, slot: u32, until: u64) {
        self.unset(slot);
        if until == NEVER {
            return;
        }
        while slot as usize >= self.links.len() * CHUNK {
            self.links.push(vec![NOWHERE; CHUNK].into_boxed_slice());
        }
        let list = self.list_for(until);
        if list != DUE {
            self.occupied[list / SPOKES] |= 1 << (list % SPOKES);
        }
        let head = HEAD | list as u32;
        let last = self.link(head).before;
        *self.link(slot) = Link { before: last, after: head };
        self.link(last).after = slot;
        self.link(head).before = slot;
    }

    /// The slot's entry left, or does not expire.
    pub fn unset(&mut self, slot: u32) {
        if slot as usize >= self.links.len() * CHUNK {
            return;
        }
        let Link { before, after } = std::mem::replace(self.link(slot), NOWHERE);
        if (Link { before, after }) != NOWHERE {
            self.link(before).after = after;
            self.link(after).before = before;
        }
    }

    /// It is so late now. A time that is earlier than the one before says nothing.
    pub fn advance(&mut self, now: u64) {
        let (old, new) = (self.now >> TICK_SHIFT, now >> TICK_SHIFT);
        self.now = self.now.max(now);
        if new <= old {
            return;
        }
        let highest = level_of(old ^ new);
        for level in 0..highest {
            self.make_due(level, u64::MAX);
        }
        let place = |tick: u64| (tick >> (highest as u32 * LEVEL_BITS)) % SPOKES as u64;
        self.make_due(highest, u64::MAX >> (SPOKES as u64 - 1 - place(new)));
    }

    /// A slot whose entry is to be looked at; the caller sets or unsets it.
    pub fn due(&mut self) -> Option<u32> {
        let first = self.link(HEAD | DUE as u32).after;
        (first & HEAD == 0).then_some(first)
    }

    /// No slot from this one on is taken any more.
    pub fn fits(&mut self, slots: usize) {
        self.links.truncate(slots.div_ceil(CHUNK));
    }

    pub fn bytes(&self) -> usize {
        self.links.len() * CHUNK * size_of::<Link>() + size_of_val(&*self.heads)
    }

    fn list_for(&self, until: u64) -> usize {
        let (tick, now) = (until.div_ceil(1 << TICK_SHIFT), self.now >> TICK_SHIFT);
        if tick <= now {
            return DUE;
        }
        let level = level_of(tick ^ now);
        level * SPOKES + (tick >> (level as u32 * LEVEL_BITS)) as usize % SPOKES
    }

    /// Moves these lists of a level to what is due, as they are.
    fn make_due(&mut self, level: usize, lists: u64) {
        let mut left = self.occupied[level] & lists;
        self.occupied[level] &= !lists;
        while left != 0 {
            let head = HEAD | (level * SPOKES + left.trailing_zeros() as usize) as u32;
            left &= left - 1;
            let Link { before: last, after: first } = *self.link(head);
            if first == head {
                continue;
            }
            *self.link(head) = Link { before: head, after: head };
            let due = HEAD | DUE as u32;
            let end = self.link(due).before;
            self.link(end).after = first;
            self.link(first).before = end;
            self.link(last).after = due;
            self.link(due).before = last;
        }
    }

    fn link(&mut self, at: u32) -> &mut Link {
        if at & HEAD == 0 {
            &mut self.links[at as usize / CHUNK][at as usize % CHUNK]
        } else {
            &mut self.heads[(at & !HEAD) as usize]
        }
    }

    /// Panics if a slot stands where it must not; answers all that stand somewhere.
    #[cfg(all(test, not(feature = "loom")))]
    pub fn validate(&mut self, until: impl Fn(u32) -> u64) -> Vec<u32> {
        let mut slots = Vec::new();
        for list in 0..=DUE {
            let head = HEAD | list as u32;
            let (mut before, mut at) = (head, self.link(head).after);
            while at != head {
                assert!(self.link(at).before == before, "neighbours know each other");
                // What is used on may expire later than its list says, not earlier.
                let now = self.now >> TICK_SHIFT;
                let tick = until(at).div_ceil(1 << TICK_SHIFT);
                let (level, spoke) = (list / SPOKES, (list % SPOKES) as u64);
                let above = now >> (level as u32 * LEVEL_BITS);
                let comes = (above / SPOKES as u64 * SPOKES as u64 + spoke) << (level as u32 * LEVEL_BITS);
                assert!(list == DUE || (comes > now && comes <= tick), "its time comes before it has to go");
                assert!(list == DUE || self.occupied[level] >> spoke & 1 == 1, "its list is not overlooked");
                slots.push(at);
                (before, at) = (at, self.link(at).after);
            }
            assert!(self.link(head).before == before, "the last is the last");
        }
        slots
    }
}

/// The level of the highest bit.
fn level_of(differing: u64) -> usize {
    (differing.max(1).ilog2() / LEVEL_BITS) as usize
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Set(u32, u64),
        Unset(u32),
        Advance(u64),
        /// The entry is used, and expires later than its list says.
        Use(u32, u64),
    }

    /// Times of all orders of magnitude.
    fn span() -> impl Strategy<Value = u64> {
        (0..64u32, any::<u64>()).prop_map(|(bits, by)| by >> bits)
    }

    fn step() -> impl Strategy<Value = Step> {
        let slot = prop_oneof![0..40u32, 1020..1030u32];
        prop_oneof![
            4 => (slot.clone(), span()).prop_map(|(slot, by)| Step::Set(slot, by)),
            1 => slot.clone().prop_map(Step::Unset),
            3 => (span(), 0..20u32).prop_map(|(by, less)| Step::Advance(by >> less)),
            1 => (slot, span()).prop_map(|(slot, by)| Step::Use(slot, by)),
        ]
    }

    /// What has expired; it is taken out.
    fn turn(wheel: &mut Wheel, untils: &mut BTreeMap<u32, u64>) -> Vec<u32> {
        let (mut expired, mut moves, most) = (Vec::new(), 0, untils.len());
        while let Some(slot) = wheel.due() {
            moves += 1;
            assert!(moves <= most, "nothing is due again and again");
            if untils[&slot] <= wheel.now() {
                wheel.unset(slot);
                untils.remove(&slot);
                expired.push(slot);
            } else {
                wheel.set(slot, untils[&slot]);
            }
        }
        expired.sort_unstable();
        expired
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 3 } else { 400 }, ..ProptestConfig::default() })]

        #[test]
        fn takes_what_a_list_of_times_would(steps in vec(step(), 1..if cfg!(miri) { 30 } else { 200 })) {
            let mut wheel = Wheel::new(0);
            let mut untils = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Set(slot, by) => {
                        let until = wheel.now().saturating_add(by).min(NEVER - 1);
                        wheel.set(slot, until);
                        untils.insert(slot, until);
                    }
                    Step::Unset(slot) => {
                        wheel.unset(slot);
                        untils.remove(&slot);
                    }
                    Step::Use(slot, by) => {
                        untils.entry(slot).and_modify(|until| *until = until.saturating_add(by).min(NEVER - 1));
                    }
                    Step::Advance(by) => wheel.advance(wheel.now().saturating_add(by)),
                }
                // A tick that is not over may keep an entry a little longer.
                let (tick, now) = (1u64 << TICK_SHIFT, wheel.now());
                let late = |until: &u64| until.div_ceil(tick) <= now >> TICK_SHIFT;
                let must: Vec<u32> = untils.iter().filter(|(_, until)| late(until)).map(|(slot, _)| *slot).collect();
                let may: Vec<u32> = untils.iter().filter(|(_, until)| **until <= now).map(|(slot, _)| *slot).collect();
                let expired = turn(&mut wheel, &mut untils);
                prop_assert!(must.iter().all(|slot| expired.contains(slot)), "{must:?} of {expired:?}");
                prop_assert!(expired.iter().all(|slot| may.contains(slot)), "{expired:?} of {may:?}");
                let mut there = wheel.validate(|slot| untils[&slot]);
                there.sort_unstable();
                prop_assert!(there.iter().eq(untils.keys()));
            }
        }
    }

    #[test]
    fn an_earlier_time_says_nothing() {
        let mut wheel = Wheel::new(1 << 40);
        wheel.set(3, (1 << 40) + (1 << 30));
        wheel.advance(5);
        assert_eq!((wheel.now(), wheel.due()), (1 << 40, None));
        wheel.advance((1 << 40) + (1 << 31));
        assert_eq!(wheel.due(), Some(3));
        wheel.set(3, NEVER);
        assert_eq!(wheel.due(), None);
        wheel.fits(0);
        wheel.unset(3);
    }
}
