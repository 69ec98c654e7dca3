//! How many of some intervals contain a window: how many elements have to be there all through a read.

/// Intervals in which something has to be there: from when, until before when.
pub(super) struct Duty {
    /// By their begin.
    intervals: Vec<(u64, u64)>,
}

impl Duty {
    pub fn new(mut intervals: Vec<(u64, u64)>) -> Duty {
        intervals.sort_unstable();
        Duty { intervals }
    }

    /// Per window (first and last instant), how many intervals contain it. Goes through windows and intervals by their
    /// begin and counts ends in a tree of sums.
    pub fn count(self, windows: Vec<(u64, u64)>) -> Vec<usize> {
        let mut ends: Vec<u64> = self.intervals.iter().map(|(_, end)| *end).collect();
        ends.sort_unstable();
        let mut order: Vec<usize> = (0..windows.len()).collect();
        order.sort_unstable_by_key(|at| windows[*at].0);
        let mut sums = Sums(vec![0; ends.len() + 1]);
        let mut counts = vec![0; windows.len()];
        let mut begun = 0;
        for at in order {
            let (from, to) = windows[at];
            while let Some((begin, end)) = self.intervals.get(begun).filter(|interval| interval.0 <= from) {
                debug_assert!(begin < end);
                sums.add(ends.partition_point(|other| other < end));
                begun += 1;
            }
            counts[at] = begun - sums.upto(ends.partition_point(|end| *end <= to));
        }
        counts
    }
}

/// Counts by place, summed up to a place in logarithmic time (Fenwick's tree).
struct Sums(Vec<usize>);

impl Sums {
    fn add(&mut self, place: usize) {
        let mut at = place + 1;
        while let Some(sum) = self.0.get_mut(at) {
            *sum += 1;
            at += at & at.wrapping_neg();
        }
    }

    /// Of the first `places`.
    fn upto(&self, places: usize) -> usize {
        let (mut at, mut sum) = (places, 0);
        while at > 0 {
            sum += self.0[at];
            at &= at - 1;
        }
        sum
    }
}
