//! Write-back: all writes are kept at first, on purpose, while the store is there (TARDIS, future research).
//!
//! To keep a write is many times cheaper than to carry one over. So clients at full speed would fill the room
//! although the store lacks nothing, and what waits would become ever older. Both bounds, age and room, are kept by
//! one measure. It is how long the drain needs for what waits, at the speed that it was seen to have.
//!
//! **Invariant.** While a store takes what it is given, no client hears that there is no room. What waits is about as
//! old as was asked for, at most. For that
//! * the drain begins as long before the oldest is due as it needs for all that waits, or at half of the room;
//! * a write that has to queue is held up for as long as the drain is behind ([`WriteBack::late`]). Then clients that
//!   wait for their replies write as fast as it applies, whatever their number, and the queue stays where it is.
//! * a write that does not find room all the same (many that do not wait for replies, large ones) waits until there
//!   is some. No other takes that room before it.
//!
//! A document that is written all the time is replaced where it waits for half its time at most. So it has its turn
//! too.

use std::time::Duration;

use super::pending::Amount;
use super::speed::{FEW, Speed};
use crate::mutation::{self, Fault};

/// The share of the room, one in so many, at which the drain begins whatever the age, and past which writes are held
/// up. The rest is for an outage.
const ROOM_SHARE: usize = 2;

/// How much later than it is due a transaction may go, for the batch before it.
const BATCH_TIME: Duration = Duration::from_millis(50);

/// The shortest time for which a write is held up past the share of the room, and the longest: behind a long outage
/// clients are to go on.
const HOLD_MIN: Duration = Duration::from_millis(1);
const HOLD_MAX: Duration = Duration::from_secs(1);

/// How long until what was buffered at `oldest_ms` is `age_ms` old. What seems to come from the future is due: the
/// clock was set back since, and must not put that off for as long.
fn due_in(oldest_ms: u64, age_ms: u64, now_ms: u64) -> Duration {
    let due_ms = if oldest_ms > now_ms { now_ms } else { oldest_ms.saturating_add(age_ms) };
    Duration::from_millis(due_ms.saturating_sub(now_ms))
}

/// What is known of writes that are kept on purpose.
#[derive(Debug)]
pub(super) struct WriteBack {
    age_ms: u64,
    bytes_max: usize,
}

impl WriteBack {
    /// Writes are to be applied when they are `age_ms` old; there is room for `bytes_max`.
    pub(super) fn new(age_ms: u64, bytes_max: usize) -> WriteBack {
        WriteBack { age_ms, bytes_max: bytes_max / ROOM_SHARE }
    }

    /// How long nothing is to be applied, if the oldest that waits was kept at `oldest_ms`.
    pub(super) fn due_in(&self, speed: &Speed, amount: Amount, oldest_ms: u64, now_ms: u64) -> Duration {
        if amount.bytes >= self.bytes_max {
            return Duration::ZERO;
        }
        let ahead = if amount.waiting > FEW && !mutation::on(Fault::WriteBackUnpaced) {
            speed.carrying(amount.waiting)
        } else {
            Duration::ZERO
        };
        due_in(oldest_ms, self.age_ms.saturating_sub(ahead.as_millis() as u64), now_ms)
    }

    /// How far the drain is behind, for a write to lanes of which the oldest that waits was kept at `oldest_ms`: the
    /// longest of how long that is overdue, of how much longer the drain needs for all than it may wait, and of how
    /// long it needs for what is past the share of the room.
    pub(super) fn late(&self, speed: &Speed, amount: Amount, oldest_ms: Option<u64>, now_ms: u64) -> Duration {
        if mutation::on(Fault::WriteBackUnpaced) {
            return Duration::ZERO;
        }
        let age = Duration::from_millis(self.age_ms);
        let waited = Duration::from_millis(oldest_ms.map_or(0, |oldest| now_ms.saturating_sub(oldest)));
        let overdue = waited.saturating_sub(age + BATCH_TIME);
        let carrying = speed.carrying(amount.waiting);
        let queue = if amount.waiting > FEW { carrying.saturating_sub(age) } else { Duration::ZERO };
        let past = amount.bytes.saturating_sub(self.bytes_max);
        let room = match past {
            0 => Duration::ZERO,
            _ => carrying.mul_f64(past as f64 / amount.bytes as f64).max(HOLD_MIN),
        };
        overdue.max(queue).max(room).min(HOLD_MAX)
    }

    /// Whether what waits since `kept_ms` may still be replaced.
    pub(super) fn is_young(&self, kept_ms: u64, now_ms: u64) -> bool {
        !due_in(kept_ms, self.age_ms / 2, now_ms).is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 64 << 20;

    /// Clients that write again as soon as they are answered, against a drain of `per_second`: the most bytes that
    /// waited, and the greatest age at which one was applied, ms.
    fn oldest(clients: u64, per_second: u64, age_ms: u64, bytes: usize) -> (usize, u64) {
        let (write_back, mut speed) = (WriteBack::new(age_ms, ROOM), Speed::new());
        let mut queue = std::collections::VecDeque::new();
        // When each client comes next.
        let mut next: Vec<u64> = vec![0; clients as usize];
        let (mut most, mut oldest_ms, mut on_way) = (0, 0, 0);
        for now_ms in 0..20_000u64 {
            let amount = |queue: &std::collections::VecDeque<u64>| Amount {
                waiting: queue.len(),
                bytes: queue.len() * bytes,
                ..Amount::default()
            };
            let now = Duration::from_millis(now_ms);
            if on_way > 0 {
                oldest_ms = oldest_ms.max(now_ms - queue.front().expect("it is on its way"));
                queue.drain(..on_way);
                speed.is_over(on_way, queue.len(), false, now);
                on_way = 0;
            }
            if let Some(first) = queue.front()
                && write_back.due_in(&speed, amount(&queue), *first, now_ms).is_zero()
            {
                on_way = queue.len().min(per_second as usize / 1_000);
                speed.sets_out(now);
            }
            for next in next.iter_mut().filter(|next| **next <= now_ms) {
                // To keep one takes no time: ten each millisecond.
                for _ in 0..10 {
                    let late = write_back.late(&speed, amount(&queue), queue.front().copied(), now_ms);
                    if !late.is_zero() {
                        *next = now_ms + late.as_millis().max(1) as u64;
                        queue.push_back(now_ms);
                        break;
                    }
                    queue.push_back(now_ms);
                }
            }
            most = most.max(queue.len() * bytes);
        }
        (most, oldest_ms)
    }

    #[test]
    fn what_waits_stays_within_age_and_room() {
        for (clients, per_second, age_ms) in [(16, 5_000, 1_000), (256, 10_000, 1_000), (1_000, 20_000, 300)] {
            let (bytes, oldest_ms) = oldest(clients, per_second, age_ms, 1_200);
            let bound = age_ms * 5 / 4 + 2 * clients * 1_000 / per_second + BATCH_TIME.as_millis() as u64;
            assert!(oldest_ms <= bound, "{oldest_ms} ms with {clients} clients, {per_second} a second, {age_ms} ms");
            assert!(bytes < ROOM, "{bytes} bytes");
        }
        // An hour is more than there is room for.
        let (bytes, oldest_ms) = oldest(256, 10_000, 3_600_000, 1_200);
        assert!(bytes < ROOM * 5 / 8 && oldest_ms < 10_000, "{bytes} bytes, {oldest_ms} ms");
    }

    #[test]
    fn few_are_kept_as_long_as_was_asked_for() {
        let (write_back, speed) = (WriteBack::new(1_000, ROOM), Speed::new());
        let amount = Amount { waiting: FEW, bytes: FEW * 1_000, ..Amount::default() };
        assert_eq!(write_back.due_in(&speed, amount, 0, 400), Duration::from_millis(600));
        assert_eq!(write_back.late(&speed, amount, Some(0), 1_000), Duration::ZERO);
        let full = Amount { bytes: ROOM, ..amount };
        assert_eq!(write_back.due_in(&speed, full, 0, 0), Duration::ZERO);
        assert!(!write_back.late(&speed, full, None, 0).is_zero());
        assert!(write_back.is_young(1, 500) && !write_back.is_young(0, 500));
    }
}
