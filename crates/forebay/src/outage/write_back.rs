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
use crate::mutation::{self, Fault};

/// The share of the room, one in so many, at which the drain begins whatever the age, and past which writes are held
/// up. The rest is for an outage.
const ROOM_SHARE: usize = 2;

/// With so few transactions the drain is not behind, nor can be seen how fast it is: its batches are not full.
const FEW: usize = 256;

/// What it is taken to apply until that was seen: so many in so much time.
const CARRIED_FIRST: (u64, Duration) = (500, Duration::from_millis(100));

/// Over how much time it is seen, about.
const SEEN_OVER: Duration = Duration::from_secs(1);

/// How much later than it is due a transaction may go, for the batch before it.
const BATCH_TIME: Duration = Duration::from_millis(50);

/// The shortest time for which a write is held up past the share of the room, and the longest: behind a long outage
/// clients are to go on.
const HOLD_MIN: Duration = Duration::from_millis(1);
const HOLD_MAX: Duration = Duration::from_secs(1);

/// The shortest and the longest pause before one that found no room tries again.
const ROOM_PAUSE_MIN: Duration = Duration::from_millis(5);
const ROOM_PAUSE_MAX: Duration = Duration::from_millis(500);

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
    /// Transactions that were applied in how much time, while more than a few waited.
    carried: (u64, Duration),
    /// Since when something is on its way, or was when it was looked last.
    since: Option<Duration>,
    /// Writes that found no room and wait for it.
    pub(super) roomless: usize,
}

impl WriteBack {
    /// Writes are to be applied when they are `age_ms` old; there is room for `bytes_max`.
    pub(super) fn new(age_ms: u64, bytes_max: usize) -> WriteBack {
        WriteBack { age_ms, bytes_max: bytes_max / ROOM_SHARE, carried: CARRIED_FIRST, since: None, roomless: 0 }
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
    fn carrying(&self, waiting: usize) -> Duration {
        let (count, time) = self.carried;
        time.mul_f64(2.0 * waiting as f64 / count.max(1) as f64)
    }

    /// How long nothing is to be applied, if the oldest that waits was kept at `oldest_ms`.
    pub(super) fn due_in(&self, amount: Amount, oldest_ms: u64, now_ms: u64) -> Duration {
        if amount.bytes >= self.bytes_max {
            return Duration::ZERO;
        }
        let ahead = if amount.waiting > FEW && !mutation::on(Fault::WriteBackUnpaced) {
            self.carrying(amount.waiting)
        } else {
            Duration::ZERO
        };
        due_in(oldest_ms, self.age_ms.saturating_sub(ahead.as_millis() as u64), now_ms)
    }

    /// How far the drain is behind, for a write to lanes of which the oldest that waits was kept at `oldest_ms`: the
    /// longest of how long that is overdue, of how much longer the drain needs for all than it may wait, and of how
    /// long it needs for what is past the share of the room.
    pub(super) fn late(&self, amount: Amount, oldest_ms: Option<u64>, now_ms: u64) -> Duration {
        if mutation::on(Fault::WriteBackUnpaced) {
            return Duration::ZERO;
        }
        let age = Duration::from_millis(self.age_ms);
        let waited = Duration::from_millis(oldest_ms.map_or(0, |oldest| now_ms.saturating_sub(oldest)));
        let overdue = waited.saturating_sub(age + BATCH_TIME);
        let carrying = self.carrying(amount.waiting);
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

    /// How long one that found no room waits before it tries again, with so many before it.
    pub(super) fn room_pause(&self, waiting: usize) -> Duration {
        self.carrying(waiting).clamp(ROOM_PAUSE_MIN, ROOM_PAUSE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 64 << 20;

    /// Clients that write again as soon as they are answered, against a drain of `per_second`: the most bytes that
    /// waited, and the greatest age at which one was applied, ms.
    fn oldest(clients: u64, per_second: u64, age_ms: u64, bytes: usize) -> (usize, u64) {
        let mut write_back = WriteBack::new(age_ms, ROOM);
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
                write_back.is_over(on_way, queue.len(), false, now);
                on_way = 0;
            }
            if let Some(first) = queue.front()
                && write_back.due_in(amount(&queue), *first, now_ms).is_zero()
            {
                on_way = queue.len().min(per_second as usize / 1_000);
                write_back.sets_out(now);
            }
            for next in next.iter_mut().filter(|next| **next <= now_ms) {
                // To keep one takes no time: ten each millisecond.
                for _ in 0..10 {
                    let late = write_back.late(amount(&queue), queue.front().copied(), now_ms);
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
        let write_back = WriteBack::new(1_000, ROOM);
        let amount = Amount { waiting: FEW, bytes: FEW * 1_000, ..Amount::default() };
        assert_eq!(write_back.due_in(amount, 0, 400), Duration::from_millis(600));
        assert_eq!(write_back.late(amount, Some(0), 1_000), Duration::ZERO);
        let full = Amount { bytes: ROOM, ..amount };
        assert_eq!(write_back.due_in(full, 0, 0), Duration::ZERO);
        assert!(!write_back.late(full, None, 0).is_zero());
        assert!(write_back.is_young(1, 500) && !write_back.is_young(0, 500));
    }

    /// What the store does not answer, and a few at a time, do not say that it is slow.
    #[test]
    fn only_a_queue_shows_the_speed() {
        let mut write_back = WriteBack::new(1_000, ROOM);
        let before = write_back.carried;
        for (applied, waiting) in [(0, 10_000), (1, 3)] {
            write_back.sets_out(Duration::ZERO);
            write_back.is_over(applied, waiting, false, Duration::from_secs(60));
        }
        assert_eq!(write_back.carried, before);
        write_back.sets_out(Duration::ZERO);
        write_back.is_over(25_000, 10_000, false, Duration::from_secs(10));
        let carrying = write_back.carrying(5_000).as_millis();
        assert!((3_900..4_100).contains(&carrying), "{carrying} ms");
    }
}
