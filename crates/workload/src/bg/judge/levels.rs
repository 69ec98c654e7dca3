//! Between which bounds a number lies, instant by instant, and over an interval.

use super::update::Update;

/// A number that updates raise and lower by one, as bounds that change with time.
pub(super) struct Levels {
    /// When each state begins; the first at 0, before all updates.
    times: Vec<u64>,
    /// Per state, lower and upper bound.
    bounds: Vec<(i64, i64)>,
    /// `tables[k][i]`: least lower and greatest upper bound of the 2^(k+1) states from i on.
    tables: Vec<Vec<(i64, i64)>>,
}

fn join(a: (i64, i64), b: (i64, i64)) -> (i64, i64) {
    (a.0.min(b.0), a.1.max(b.1))
}

impl Levels {
    /// A number that is `first` before these updates.
    pub fn new(first: i64, updates: &[Update]) -> Levels {
        // What is under way may have happened: an addition raises the upper bound when it begins and the lower one when
        // it is over; a removal the other way round.
        let mut events: Vec<(u64, (i64, i64))> = Vec::with_capacity(2 * updates.len());
        for update in updates {
            let (begin, end) = if update.added { ((0, 1), (1, 0)) } else { ((-1, 0), (0, -1)) };
            events.push((update.start_ns, begin));
            if update.end_ns < u64::MAX {
                events.push((update.end_ns, end));
            }
        }
        events.sort_unstable();
        let (mut times, mut bounds, mut now) = (vec![0], vec![(first, first)], (first, first));
        for at in events.chunk_by(|a, b| a.0 == b.0) {
            now = at.iter().fold(now, |now, (_, by)| (now.0 + by.0, now.1 + by.1));
            if at[0].0 == 0 {
                // There is no instant before the first.
                bounds.clear();
                times.clear();
            }
            times.push(at[0].0);
            bounds.push(now);
        }
        let mut tables: Vec<Vec<(i64, i64)>> = Vec::new();
        let mut half = 1;
        while 2 * half <= bounds.len() {
            let below = tables.last().unwrap_or(&bounds);
            let joined = (0..=bounds.len() - 2 * half).map(|at| join(below[at], below[at + half])).collect();
            tables.push(joined);
            half *= 2;
        }
        Levels { times, bounds, tables }
    }

    /// The state at an instant. Of several that begin at once the last, which has seen them all.
    fn at(&self, time: u64) -> usize {
        self.times.partition_point(|begin| *begin <= time).saturating_sub(1)
    }

    /// The least lower and the greatest upper bound from `from` to `to`, both included.
    pub fn range(&self, from: u64, to: u64) -> (i64, i64) {
        let (from, to) = (self.at(from), self.at(to));
        let width = to.saturating_sub(from) + 1;
        match width.ilog2() {
            0 => self.bounds[from],
            power => {
                let table = &self.tables[power as usize - 1];
                join(table[from], table[to + 1 - (1 << power)])
            }
        }
    }

    /// How long before `time` the number may last have been `value`; `None` if never.
    pub fn age_of(&self, value: i64, time: u64) -> Option<u64> {
        let now = self.at(time);
        let state = (0..=now).rev().find(|state| (self.bounds[*state].0..=self.bounds[*state].1).contains(&value))?;
        Some(self.times.get(state + 1).map_or(0, |end| time.saturating_sub(*end)))
    }

    /// The times from when until before when the number is at least 1.
    pub fn always_there(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let begin = at + self.bounds[at..].iter().position(|bounds| bounds.0 > 0)?;
            let end = self.bounds[begin..].iter().position(|bounds| bounds.0 < 1).map(|after| begin + after);
            at = end.unwrap_or(self.bounds.len());
            Some((self.times[begin], end.map_or(u64::MAX, |end| self.times[end])))
        })
    }
}
