//! A recovery has to come to an end. To buffer a write is cheaper than to apply one. So clients that go on at full
//! speed, each write behind what waits in its lane, could keep the drain busy for ever. While more than half as many
//! come as go, a write that has to queue is held up before it is taken. The delay doubles after each look, and halves
//! once fewer come.

use std::time::Duration;

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The shortest and the longest time for which a write is held up: with a thousand clients, ten thousand writes a
/// second are left.
const HOLD_MIN: Duration = Duration::from_millis(1);
const HOLD_MAX: Duration = Duration::from_millis(100);

/// How long writes are held up in this recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    hold: Duration,
    /// When it was looked last, and what waited and was applied by then.
    looked: Option<(Duration, usize, u64)>,
}

impl Pace {
    /// For how long a write that queues at `now` is held up. `waiting` transactions wait; `applied` were applied
    /// since the start.
    pub(super) fn hold(&mut self, now: Duration, waiting: usize, applied: u64) -> Duration {
        let Some((then, waited, before)) = self.looked else {
            self.looked = Some((now, waiting, applied));
            return self.hold;
        };
        if now < then + LOOK_EVERY {
            return self.hold;
        }
        let went = applied.saturating_sub(before);
        let came = (waiting as u64 + went).saturating_sub(waited as u64);
        self.hold = match came > went / 2 {
            true => (self.hold * 2).clamp(HOLD_MIN, HOLD_MAX),
            false if self.hold <= HOLD_MIN => Duration::ZERO,
            false => self.hold / 2,
        };
        self.looked = Some((now, waiting, applied));
        self.hold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients that write again as soon as they are answered, against a drain of `per_second`: what waits in the end.
    fn recovery(clients: u64, per_second: u64, seconds: u64) -> u64 {
        let (mut pace, mut waiting, mut applied) = (Pace::default(), 50_000u64, 0u64);
        for step in 0..seconds * 100 {
            let hold = pace.hold(Duration::from_millis(step * 10), waiting as usize, applied);
            let answer = hold.max(Duration::from_micros(50));
            waiting += clients * 10_000 / answer.as_micros() as u64;
            let goes = (per_second / 100).min(waiting);
            (waiting, applied) = (waiting - goes, applied + goes);
        }
        waiting
    }

    #[test]
    fn a_recovery_ends_although_clients_go_on() {
        // Unhindered, 20 clients bring 400,000 writes a second.
        assert_eq!(recovery(20, 20_000, 30), 0);
        assert_eq!(recovery(20, 2_000, 240), 0);
        assert_eq!(recovery(100, 8_000, 240), 0);
    }

    #[test]
    fn nobody_is_held_up_while_few_come() {
        let mut pace = Pace::default();
        for second in 0..10u64 {
            // 1,000 go each second, 400 come.
            let waiting = 10_000 - 600 * second as usize;
            assert_eq!(pace.hold(Duration::from_secs(second), waiting, second * 1000), Duration::ZERO, "{second}");
        }
    }
}
