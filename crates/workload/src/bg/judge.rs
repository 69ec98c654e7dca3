//! Which reads can't be true (BG's *unpredictable data*). It is found from a log of all reads and updates with the
//! intervals in which they took place, by one clock.
//!
//! A number that was read (of friends, of invitations, of comments) is right if it was right at any instant of the
//! read's interval. There it is at first so many, plus and minus what had been acknowledged by then. Any of what was
//! under way may count or not. That is BG's judgement. A list that was read tells more. Each of its elements is a
//! separate register, which was added and removed. So a wrong element shows even where the size is right, or a
//! missing one where another is too many.
//!
//! The set of right numbers over an interval has no holes. One update's end moves the bounds by one, within what they
//! were while it was under way. So the least lower and the greatest upper bound over the interval decide, which
//! `levels` has in tables of minima. Elements that have to be there are counted by the intervals in which they have
//! to be (`duty`). Altogether O((n + m) log n) for n updates and m reads, a list counting as its elements.
//!
//! A wrong read is *stale* if it was true once, and then its age is how long ago. Otherwise it is *foreign*: nothing
//! that was ever done explains it.

mod duty;
mod levels;
mod update;

use std::collections::HashMap;

use duty::Duty;
use levels::Levels;
use serde::Serialize;
pub use update::{Kind, Object, Update};

/// Ages are looked up for so many wrong reads, and the first are told.
const AGES_MAX: usize = 10_000;
const EXAMPLES_MAX: usize = 5;

/// Upper ends of the buckets of freshness confidence: ms since the list's latest update had ended.
pub const BUCKETS_MS: [u64; 7] = [1, 10, 100, 1000, 10_000, 60_000, u64::MAX];

/// What a read has seen of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Its size.
    Count(u32),
    /// All its elements, in any order.
    Elements(Box<[u32]>),
}

/// A read of one list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Which list.
    pub object: Object,
    /// When it was sent, in ns on the run's clock.
    pub start_ns: u64,
    /// When it was answered.
    pub end_ns: u64,
    /// What it has seen.
    pub seen: Seen,
}

/// Why a read can't be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Whether the size alone shows it, as BG looks at it.
    pub by_size: bool,
    /// How long ago it was true, in ns; `None` if it never was.
    pub age_ns: Option<u64>,
}

/// How many reads, and how many of them can't be true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Reads judged.
    pub reads: u64,
    /// Of these, those that can't be true.
    pub wrong: u64,
}

/// What a log shows. An element is added only where it is not, and removed only where it is:
/// [`super::Graph`] sees to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// All reads.
    pub all: Count,
    /// By kind: friends, invitations, comments.
    pub by_kind: [Count; 3],
    /// Wrong reads whose size alone shows it: what BG itself would count.
    pub wrong_by_size: u64,
    /// Wrong reads that no earlier state explains, of those whose age was looked up.
    pub foreign: u64,
    /// Ages of the stale reads in ms, median and oldest; of the first 10,000 at most.
    pub age_ms: Option<(f64, f64)>,
    /// By [`BUCKETS_MS`]: reads that began so long after their list's latest update had ended.
    pub freshness: [Count; 7],
    /// Some wrong reads in words.
    pub examples: Vec<String>,
}

impl Verdict {
    /// Wrong reads in percent of all.
    pub fn wrong_percent(&self) -> f64 {
        100.0 * self.all.wrong as f64 / self.all.reads.max(1) as f64
    }
}

/// Judges reads. `first` tells what a list held before all updates.
pub fn judge(first: &dyn Fn(Object) -> Vec<u32>, mut updates: Vec<Update>, mut reads: Vec<Read>) -> Verdict {
    updates.sort_unstable_by_key(|update| update.object);
    reads.sort_unstable_by_key(|read| read.object);
    let (mut verdict, mut ages_ns) = (Verdict::default(), Vec::new());
    let mut left = &updates[..];
    for reads in reads.chunk_by(|a, b| a.object == b.object) {
        let object = reads[0].object;
        left = &left[left.partition_point(|update| update.object < object)..];
        let of_object = &left[..left.partition_point(|update| update.object == object)];
        let list = List::new(first(object), of_object);
        let mut ends: Vec<u64> = of_object.iter().map(|update| update.end_ns).collect();
        ends.sort_unstable();
        for (read, missing) in reads.iter().zip(list.missing(reads)) {
            let fault = list.fault(read, missing, ages_ns.len() < AGES_MAX);
            verdict.count(read, &ends, fault);
            let Some(fault) = fault else { continue };
            match fault.age_ns {
                Some(age) => ages_ns.push(age),
                None => verdict.foreign += u64::from(ages_ns.len() < AGES_MAX),
            }
            if verdict.examples.len() < EXAMPLES_MAX {
                verdict.examples.push(list.describe(read, &fault));
            }
        }
    }
    ages_ns.sort_unstable();
    let ms = |ns: &u64| *ns as f64 / 1e6;
    verdict.age_ms = ages_ns.get(ages_ns.len() / 2).map(ms).zip(ages_ns.last().map(ms));
    verdict
}

impl Verdict {
    fn count(&mut self, read: &Read, ends: &[u64], fault: Option<Fault>) {
        let before = ends.partition_point(|end| *end <= read.start_ns);
        // Without an earlier update all time has passed since.
        let since_ns = before.checked_sub(1).map_or(u64::MAX, |latest| read.start_ns - ends[latest]);
        let bucket = BUCKETS_MS.iter().position(|upto| since_ns < upto.saturating_mul(1_000_000)).unwrap_or(6);
        let counts = [&mut self.all, &mut self.by_kind[read.object.kind as usize], &mut self.freshness[bucket]];
        for count in counts {
            count.reads += 1;
            count.wrong += u64::from(fault.is_some());
        }
        self.wrong_by_size += u64::from(fault.is_some_and(|fault| fault.by_size));
    }
}

/// All that is known of one list.
struct List {
    size: Levels,
    /// Of elements that were added or removed: how often each may be there.
    touched: HashMap<u32, Levels, foldhash::fast::FixedState>,
    /// Elements that are there all the time.
    untouched: HashMap<u32, (), foldhash::fast::FixedState>,
}

impl List {
    fn new(first: Vec<u32>, updates: &[Update]) -> List {
        let mut untouched: HashMap<u32, (), _> = first.iter().map(|element| (*element, ())).collect();
        let mut by_element: HashMap<u32, Vec<Update>, foldhash::fast::FixedState> = HashMap::default();
        for update in updates {
            by_element.entry(update.element).or_default().push(*update);
        }
        let size = Levels::new(first.len() as i64, updates);
        let level = |(element, updates): (u32, Vec<Update>)| {
            let there = untouched.remove(&element).is_some();
            (element, Levels::new(i64::from(there), &updates))
        };
        let touched = by_element.into_iter().map(level).collect();
        List { size, touched, untouched }
    }

    /// How many elements each read lacks that had to be there all through it; 0 for a read of the size.
    fn missing(&self, reads: &[Read]) -> Vec<usize> {
        let duty = Duty::new(self.touched.values().flat_map(Levels::always_there).collect());
        let have_to = duty.count(reads.iter().map(|read| (read.start_ns, read.end_ns)).collect());
        let lacks = |(read, have_to): (&Read, usize)| match &read.seen {
            Seen::Count(_) => 0,
            Seen::Elements(elements) => {
                let mut seen = elements.to_vec();
                seen.sort_unstable();
                seen.dedup();
                let has_to = |element: &&u32| match self.touched.get(*element) {
                    Some(level) => level.range(read.start_ns, read.end_ns).0 > 0,
                    None => self.untouched.contains_key(*element),
                };
                self.untouched.len() + have_to - seen.iter().filter(has_to).count()
            }
        };
        reads.iter().zip(have_to).map(lacks).collect()
    }

    fn fault(&self, read: &Read, missing: usize, wants_age: bool) -> Option<Fault> {
        let size = match &read.seen {
            Seen::Count(count) => i64::from(*count),
            Seen::Elements(elements) => elements.len() as i64,
        };
        let (least, most) = self.size.range(read.start_ns, read.end_ns);
        let by_size = !(least..=most).contains(&size);
        let wrong = match &read.seen {
            Seen::Count(_) => by_size,
            Seen::Elements(elements) => by_size || missing > 0 || self.too_many(read, elements).next().is_some(),
        };
        let age_ns = || match &read.seen {
            Seen::Count(_) => self.size.age_of(size, read.start_ns),
            Seen::Elements(elements) => self.age_of(read, elements),
        };
        wrong.then(|| Fault { by_size, age_ns: if wants_age { age_ns() } else { None } })
    }

    /// Elements that are there more often than they can be, with how often they are.
    fn too_many<'a>(&'a self, read: &'a Read, elements: &[u32]) -> impl Iterator<Item = (u32, i64)> + use<'a> {
        let mut sorted = elements.to_vec();
        sorted.sort_unstable();
        let runs: Vec<(u32, i64)> = sorted.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as i64)).collect();
        runs.into_iter().filter(|(element, count)| *count > self.most(*element, read))
    }

    fn most(&self, element: u32, read: &Read) -> i64 {
        match self.touched.get(&element) {
            Some(level) => level.range(read.start_ns, read.end_ns).1,
            None => i64::from(self.untouched.contains_key(&element)),
        }
    }

    /// Elements that had to be there and are not.
    fn lacking<'a>(&'a self, read: &'a Read, elements: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
        let touched = self.touched.iter().filter(|(_, level)| level.range(read.start_ns, read.end_ns).0 > 0);
        let have_to = touched.map(|(element, _)| element).chain(self.untouched.keys());
        have_to.copied().filter(|element| !elements.contains(element))
    }

    /// How old what was read is, by its oldest wrong element; `None` if one of them never was so.
    fn age_of(&self, read: &Read, elements: &[u32]) -> Option<u64> {
        let lacking = self.lacking(read, elements).map(|element| (element, 0));
        let mut oldest = Some(0);
        for (element, count) in self.too_many(read, elements).chain(lacking) {
            let age = self.touched.get(&element).and_then(|level| level.age_of(count, read.start_ns));
            oldest = oldest.zip(age).map(|(oldest, age)| oldest.max(age));
        }
        oldest
    }

    fn describe(&self, read: &Read, fault: &Fault) -> String {
        let Object { kind, id } = read.object;
        let (least, most) = self.size.range(read.start_ns, read.end_ns);
        let age = match fault.age_ns {
            Some(age) => format!("true {:.1} ms before", age as f64 / 1e6),
            None => "never true before".to_owned(),
        };
        let at = format!("at {:.3} s", read.start_ns as f64 / 1e9);
        match &read.seen {
            Seen::Count(count) => format!("{kind:?} of {id} {at}: {count}, not {least}..={most}; {age}"),
            Seen::Elements(elements) => {
                let mut lacking: Vec<u32> = self.lacking(read, elements).take(EXAMPLES_MAX).collect();
                lacking.sort_unstable();
                let wrong: Vec<u32> = self.too_many(read, elements).map(|(element, _)| element).collect();
                let size = elements.len();
                format!("{kind:?} of {id} {at}: {size} of {least}..={most}, without {lacking:?}, with {wrong:?}; {age}")
            }
        }
    }
}

#[cfg(test)]
mod tests;
