//! What several runs say together.

/// Median and range of some runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
}

impl Summary {
    /// Of at least one figure; all zero for none. What is no number (a run too short for the clock) does not count.
    pub fn of(figures: &[f64]) -> Summary {
        let mut sorted: Vec<f64> = figures.iter().copied().filter(|figure| figure.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (Some(low), Some(high)) = (sorted.first(), sorted.last()) else {
            return Summary { median: 0.0, low: 0.0, high: 0.0 };
        };
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
            _ => sorted[middle],
        };
        Summary { median, low: *low, high: *high }
    }

    /// How far a run is from the median at most.
    pub fn spread(&self) -> f64 {
        (self.high - self.median).max(self.median - self.low)
    }

    /// With `digits` behind the point: `0.91 (0.88-0.95)`.
    pub fn plain(&self, digits: usize) -> String {
        let Summary { median, low, high } = self;
        format!("{median:.digits$} ({low:.digits$}-{high:.digits$})")
    }

    /// In thousands: `512 (498-530)`.
    pub fn thousands(&self) -> String {
        let digits = if self.median < 100_000.0 { 1 } else { 0 };
        let [median, low, high] = [self.median, self.low, self.high].map(|figure| figure / 1000.0);
        Summary { median, low, high }.plain(digits)
    }
}

/// `figure` of each of `runs`, summed up.
pub fn of<T>(runs: &[T], figure: impl Fn(&T) -> f64) -> Summary {
    Summary::of(&runs.iter().map(figure).collect::<Vec<_>>())
}

/// `figure` of each of `ours` over that of the run of `theirs` beside it, summed up.
pub fn ratio<T>(ours: &[T], theirs: &[T], figure: impl Fn(&T) -> f64) -> Summary {
    Summary::of(&ours.iter().zip(theirs).map(|(our, their)| figure(our) / figure(their)).collect::<Vec<_>>())
}

/// The average load of the machine over the last minute, as the kernel tells it.
pub fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(Summary::of(&[3.0, 1.0, 9.0]), Summary { median: 3.0, low: 1.0, high: 9.0 });
        assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 9.0]).median, 3.0);
        assert_eq!(Summary::of(&[f64::NAN, 2.0]).high, 2.0);
        assert_eq!(Summary::of(&[]).median, 0.0);
        assert_eq!(Summary::of(&[1500.0]).thousands(), "1.5 (1.5-1.5)");
    }
}
