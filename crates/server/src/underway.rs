//! What requests with many keys or elements take while they run, of all clients. A wide request takes its part before
//! anything is made of its keys, and waits until there is room for it.
//!
//! **Invariant.** The parts that are taken come to no more than the room, unless one alone is more.
//!
//! **The line.** First come, first served, so a very wide request has its turn. A short request takes no part and
//! never waits here.
//!
//! **A wait ends with its client.** Clients that send a wide request and go away would keep others waiting until all of
//! these have run. So a client that has ended has its request refused if that would wait, or would keep others waiting.
//!
//! **Each wait ends.** A request takes its part before it has a lock, a fill, a turn or room for a commit. So what
//! waits here keeps no other waiting. What was fetched ahead of it was told to those that follow its fills. A request
//! inside TXN has locks, so it takes no part: what it keeps is counted with its transaction. A part is given back when
//! what its request has written is published, and before the request waits for its client to read.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay::mutation::{self, Fault};
use futures_channel::oneshot;

/// The room, and what waits for a part of it.
#[derive(Clone, Debug, Default)]
pub struct Underway(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    taken: usize,
    waiting: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    bytes: usize,
    most: usize,
    told: oneshot::Sender<Part>,
}

/// What one request has taken; given back when dropped.
#[derive(Debug)]
pub struct Part {
    of: Underway,
    bytes: usize,
}

impl State {
    fn fits(&self, bytes: usize, most: usize) -> bool {
        self.taken == 0 || self.taken.saturating_add(bytes) <= most
    }
}

impl Underway {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `bytes` of a room of `most`, if they are free and nothing waits.
    pub fn try_take(&self, bytes: usize, most: usize) -> Option<Part> {
        let mut state = self.lock();
        (state.waiting.is_empty() && state.fits(bytes, most)).then(|| self.part(&mut state, bytes))
    }

    /// Whether a request has a part of it.
    pub fn is_taken(&self) -> bool {
        self.lock().taken > 0
    }

    /// Takes them in its turn.
    pub async fn take(&self, bytes: usize, most: usize) -> Part {
        loop {
            let told = {
                let mut state = self.lock();
                if state.waiting.is_empty() && state.fits(bytes, most) {
                    return self.part(&mut state, bytes);
                }
                let (told, wait) = oneshot::channel();
                state.waiting.push_back(Waiter { bytes, most, told });
                wait
            };
            // A waiter in front may be gone.
            self.serve();
            if let Ok(part) = told.await {
                return part;
            }
            debug_assert!(false, "what waits is told");
        }
    }

    fn part(&self, state: &mut State, bytes: usize) -> Part {
        let bytes = if mutation::on(Fault::UnderwayUncounted) { 0 } else { bytes };
        state.taken += bytes;
        Part { of: self.clone(), bytes }
    }

    /// Gives those at the head of the line their parts. They are told once nothing is locked: a part that is not
    /// wanted any more locks it.
    fn serve(&self) {
        let mut served = Vec::new();
        let mut state = self.lock();
        while let Some(head) = state.waiting.pop_front() {
            if head.told.is_canceled() {
                continue;
            }
            if !state.fits(head.bytes, head.most) {
                state.waiting.push_front(head);
                break;
            }
            let part = self.part(&mut state, head.bytes);
            served.push((head.told, part));
        }
        drop(state);
        for (told, part) in served {
            drop(told.send(part));
        }
    }

    /// Bytes that are taken.
    #[cfg(test)]
    fn taken(&self) -> usize {
        self.lock().taken
    }
}

impl Part {
    /// Makes it a part of `bytes`, which is more, if that is free. What waits comes after it: this one holds what they
    /// wait for.
    #[cfg(any(feature = "lua", test))]
    pub fn try_grow(&mut self, bytes: usize, most: usize) -> bool {
        let mut state = self.of.lock();
        let beside = state.taken - self.bytes;
        let fits = beside == 0 || beside.saturating_add(bytes) <= most;
        if fits {
            state.taken = beside + bytes;
            self.bytes = bytes;
        }
        fits
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        {
            let mut state = self.of.lock();
            debug_assert!(state.taken >= self.bytes, "more is given back than was taken");
            state.taken = state.taken.saturating_sub(self.bytes);
        }
        self.of.serve();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;

    use futures_util::FutureExt;

    use super::*;

    type Wait = Pin<Box<dyn Future<Output = Part>>>;

    fn ask(room: &Underway, bytes: usize) -> Wait {
        let room = room.clone();
        Box::pin(async move { room.take(bytes, 100).await })
    }

    /// Those of `waits` that have their part by now.
    fn granted(waits: &mut [Wait]) -> Vec<Option<Part>> {
        waits.iter_mut().map(|wait| wait.now_or_never()).collect()
    }

    /// A part grows where the room is free, past those that wait, and without bound where it is alone.
    #[test]
    fn a_part_grows_into_what_is_free() {
        let room = Underway::default();
        let mut first = room.try_take(40, 100).unwrap();
        let second = room.try_take(40, 100).unwrap();
        let mut waits = [ask(&room, 30)];
        assert!(granted(&mut waits)[0].is_none());
        assert!(!first.try_grow(61, 100) && first.try_grow(60, 100));
        assert_eq!(room.taken(), 100);
        drop(second);
        assert_eq!(room.taken(), 90, "what waited has its part");
        let third = granted(&mut waits);
        assert!(!first.try_grow(71, 100));
        drop(third);
        assert!(first.try_grow(1000, 100));
        drop(first);
        assert_eq!(room.taken(), 0);
    }

    #[test]
    fn parts_are_taken_in_order() {
        let room = Underway::default();
        let first = ask(&room, 60).now_or_never().expect("there is room");
        let mut waits = vec![ask(&room, 70), ask(&room, 10)];
        assert!(granted(&mut waits).iter().all(Option::is_none), "the second would fit, and stands behind the first");
        drop(first);
        assert!(granted(&mut waits).iter().all(Option::is_some), "both fit now");
        assert_eq!(room.taken(), 0);
    }

    #[test]
    fn one_that_is_wider_than_the_room_has_it_alone() {
        let room = Underway::default();
        let short = ask(&room, 1).now_or_never().expect("there is room");
        let mut wide = ask(&room, 1_000);
        assert!((&mut wide).now_or_never().is_none());
        drop(short);
        let wide = wide.now_or_never().expect("nothing else is under way");
        assert!(ask(&room, 1).now_or_never().is_none());
        drop(wide);
        assert!(ask(&room, 1).now_or_never().is_some());
    }

    #[test]
    fn those_that_wait_no_more_stand_in_no_way() {
        let room = Underway::default();
        let first = ask(&room, 90).now_or_never().expect("there is room");
        let mut waits: Vec<Wait> = (0..20_000).map(|_| ask(&room, 100)).collect();
        waits.push(ask(&room, 10));
        assert!(granted(&mut waits).iter().all(Option::is_none));
        let mut last = waits.split_off(20_000);
        drop(waits);
        let mut next = vec![ask(&room, 1)];
        assert!(granted(&mut next)[0].is_none(), "it comes after the one before it");
        assert!(granted(&mut last)[0].is_some(), "to ask moves the line past those that are gone");
        drop(first);
        assert!(granted(&mut next)[0].is_some());
        assert_eq!(room.taken(), 0);
    }

    #[test]
    fn a_part_that_came_too_late_is_given_back() {
        let room = Underway::default();
        let first = ask(&room, 100).now_or_never().expect("there is room");
        let mut wait = ask(&room, 100);
        assert!((&mut wait).now_or_never().is_none());
        drop(first);
        assert_eq!(room.taken(), 100, "it is on its way");
        drop(wait);
        assert_eq!(room.taken(), 0);
    }

    /// Any order of asking, getting, giving up and giving back, drawn by a fixed generator. The room is kept, and in
    /// the end all have had their part.
    fn storm() -> Result<(), String> {
        let (room, mut drawn) = (Underway::default(), 7_u64);
        let mut draw = move |below: u64| {
            drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (drawn >> 33) % below
        };
        let mut waits: Vec<(usize, Wait)> = Vec::new();
        let mut parts: Vec<(usize, Part)> = Vec::new();
        for _ in 0..5_000 {
            match draw(4) {
                0 | 1 => {
                    let bytes = 1 + draw(130) as usize;
                    waits.push((bytes, ask(&room, bytes)));
                }
                2 if !parts.is_empty() => drop(parts.swap_remove(draw(parts.len() as u64) as usize)),
                3 if waits.len() > 20 => drop(waits.swap_remove(draw(waits.len() as u64) as usize)),
                _ => {}
            }
            waits.retain_mut(|(bytes, wait)| match wait.now_or_never() {
                Some(part) => {
                    parts.push((*bytes, part));
                    false
                }
                None => true,
            });
            let held: usize = parts.iter().map(|(bytes, _)| bytes).sum();
            if held > 100 && parts.len() > 1 {
                return Err(format!("{held} bytes of 100, by {}", parts.len()));
            }
            if parts.is_empty() && !waits.is_empty() {
                return Err("all wait, and nothing is under way".into());
            }
        }
        while !waits.is_empty() {
            parts.clear();
            waits.retain_mut(|(_, wait)| match wait.now_or_never() {
                Some(part) => {
                    parts.push((0, part));
                    false
                }
                None => true,
            });
            if parts.is_empty() {
                return Err("a wait does not end".into());
            }
        }
        parts.clear();
        match room.taken() {
            0 => Ok(()),
            taken => Err(format!("{taken} bytes were not given back")),
        }
    }

    #[test]
    fn the_room_is_kept_and_each_wait_ends() {
        assert_eq!(storm(), Ok(()));
        let _fault = mutation::put_back(Some(Fault::UnderwayUncounted));
        assert!(storm().is_err(), "the fault is found");
    }
}
