//! How fast the drain is, as it was seen: writes that it holds up are held up by that.

use std::time::Duration;

/// With so few transactions the drain is not behind, nor can be seen how fast it is: its batches are not full.
pub(super) const FEW: usize = 256;

/// What it is taken to apply until that was seen: so many in so much time.
const CARRIED_FIRST: (u64, Duration) = (500, Duration::from_millis(100));

/// Over how much time it is seen, about.
const SEEN_OVER: Duration = Duration::from_secs(1);

/// The shortest and the longest pause before one that found no room tries again.
const ROOM_PAUSE_MIN: Duration = Duration::from_millis(5);
const ROOM_PAUSE_MAX: Duration = Duration::from_millis(500);

/// The speed of the drain.
#[derive(Debug)]
pub(super) struct Speed {
    /// Transactions that were applied in how much time, while more than a few waited.
    carried: (u64, Duration),
    /// Since when something is on its way, or was when it was looked last.
    since: Option<Duration>,
}

impl Speed {
    /// Nothing was seen yet.
    pub(super) fn new() -> Speed {
        Speed { carried: CARRIED_FIRST, since: None }
    }

    /// A batch sets out.
    pub(super) fn sets_out(&mut self, now: Duration) {
        self.since.get_or_insert(now);
    }

    /// A batch is over: so many of it were applied, so many transactions wait now, and other batches are on their way
    /// or not.
    pub(super) fn is_over(&mut self, applied: usize, waiting: usize, others: bool, now: Duration) {
        let since = self.since.take().unwrap_or(now);
        self.since = others.then_some(now);
        // What the store did not answer says nothing of how fast it is when it does.
        if applied == 0 || applied + waiting <= FEW {
            return;
        }
        let (count, time) = &mut self.carried;
        (*count, *time) = (*count + applied as u64, *time + now.saturating_sub(since));
        while *time > SEEN_OVER {
            (*count, *time) = (*count / 2, *time / 2);
        }
    }

    /// How long the drain needs until it has come to the last of what waits. Lanes take turns, each with all that waits
    /// in it, so half of them were emptied lately: a whole turn is for twice as many as wait at any time.
    pub(super) fn carrying(&self, waiting: usize) -> Duration {
        let (count, time) = self.carried;
        time.mul_f64(2.0 * waiting as f64 / count.max(1) as f64)
    }

    /// How long one that found no room waits before it tries again, with so many before it.
    pub(super) fn room_pause(&self, waiting: usize) -> Duration {
        self.carrying(waiting).clamp(ROOM_PAUSE_MIN, ROOM_PAUSE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the store does not answer, and a few at a time, do not say that it is slow.
    #[test]
    fn only_a_queue_shows_the_speed() {
        let mut speed = Speed::new();
        let before = speed.carried;
        for (applied, waiting) in [(0, 10_000), (1, 3)] {
            speed.sets_out(Duration::ZERO);
            speed.is_over(applied, waiting, false, Duration::from_secs(60));
        }
        assert_eq!(speed.carried, before);
        speed.sets_out(Duration::ZERO);
        speed.is_over(25_000, 10_000, false, Duration::from_secs(10));
        let carrying = speed.carrying(5_000).as_millis();
        assert!((3_900..4_100).contains(&carrying), "{carrying} ms");
    }
}
