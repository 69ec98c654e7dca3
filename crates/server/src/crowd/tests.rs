use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use forebay::mutation::{self, Fault};
use proptest::prelude::*;

use super::state::*;
use crate::clients::{Client, Clients};

const MIB: usize = 1 << 20;

/// 8 MiB are ordinary, 8 the lane's, 4 of these for trials.
const LIMITS: Limits = Limits { all: 16 * MIB, lane: 8 * MIB, share: 4096 };

struct Scene {
    state: State,
    clients: Vec<Arc<Client>>,
    /// What waits for each.
    bytes: Vec<usize>,
    places: Vec<Option<u64>>,
    now: Duration,
}

impl Scene {
    fn new(count: usize) -> Scene {
        let list = Clients::default();
        let come = |_| list.add(String::new(), String::new(), 0, 100_000).expect("there is room");
        let clients = (0..count).map(come).collect();
        let (state, now) = (State::default(), Duration::from_secs(100));
        Scene { state, clients, bytes: vec![0; count], places: vec![None; count], now }
    }

    /// Whether `client` gets room for a reply of so many bytes; if not it waits. The reply is encoded at once.
    fn asks_with(&mut self, client: usize, bytes: usize, waker: &Waker) -> bool {
        let (who, ask) = (self.clients[client].clone(), Ask { own: self.bytes[client], bytes });
        let granted = self.state.grant(&who, ask, self.places[client], self.now, LIMITS);
        if granted {
            if let Some(place) = self.places[client].take() {
                self.state.leave(place);
            }
            self.holds(client, self.bytes[client] + bytes);
        } else {
            let place = *self.places[client].get_or_insert_with(|| self.state.stand());
            self.state.wait(&who, ask, place, waker, LIMITS);
        }
        let within = self.state.all() <= LIMITS.all || self.bytes.contains(&self.state.all());
        assert!(within, "{} bytes are granted", self.state.all());
        granted
    }

    fn asks(&mut self, client: usize, bytes: usize) -> bool {
        self.asks_with(client, bytes, Waker::noop())
    }

    fn holds(&mut self, client: usize, bytes: usize) {
        self.bytes[client] = bytes;
        self.state.put(&self.clients[client], bytes, 0, self.now, LIMITS);
    }

    fn takes(&mut self, client: usize, bytes: usize) {
        self.holds(client, self.bytes[client].saturating_sub(bytes));
    }

    fn takes_all(&mut self, client: usize) {
        self.holds(client, 0);
    }

    fn part(&self, client: usize) -> Part {
        self.state.part(self.clients[client].id)
    }

    /// Those that are to be closed when so much time has passed.
    fn look(&mut self, after: Duration) -> Vec<usize> {
        let until = self.now + after;
        let mut closed = Vec::new();
        while self.now < until {
            self.now += LOOK_WAIT.min(until - self.now);
            let stalled = self.state.look(self.now, LIMITS, None);
            closed.extend(stalled.iter().filter_map(|one| self.clients.iter().position(|other| other.id == one.id)));
        }
        closed
    }

    /// `client` shows that it takes quickly.
    fn is_quick(&mut self, client: usize) {
        assert!(self.asks(client, 4 * MIB));
        self.takes_all(client);
    }

    /// `client` shows that it does not.
    fn is_slow(&mut self, client: usize) {
        assert!(self.asks(client, MIB));
        self.look(20 * LANE_WAIT);
        self.takes_all(client);
    }
}

#[test]
fn a_quick_client_waits_for_no_slow_one() {
    let mut scene = Scene::new(17);
    (0..16).for_each(|client| scene.is_slow(client));
    scene.is_quick(16);
    let granted = (0..16).filter(|&client| scene.asks(client, 4 * MIB)).count();
    assert_eq!(granted, 2, "slow ones have the ordinary part");
    for _ in 0..100 {
        assert!(scene.asks(16, 4 * MIB) && scene.part(16) == Part::Lane);
        scene.now += Duration::from_millis(100);
        scene.takes_all(16);
    }
    // Those that wait have room in the order in which they came.
    for next in 2..16 {
        scene.takes_all(next - 2);
        assert!((next + 1..16).all(|later| !scene.asks(later, 4 * MIB)) && scene.asks(next, 4 * MIB));
    }
}

#[test]
fn a_client_has_the_lane_by_the_pace_that_it_last_showed() {
    let mut scene = Scene::new(3);
    scene.is_slow(0);
    scene.is_slow(1);
    assert!(scene.asks(0, 8 * MIB) && !scene.asks(1, MIB), "a slow one waits");
    scene.takes(0, 2 * MIB);
    assert!(scene.asks(1, MIB) && scene.part(1) == Part::Ordinary);
    // It has become quick: 1 MiB in 100 ms is 20 in the time that the lane allows.
    scene.now += Duration::from_millis(100);
    scene.takes_all(1);
    assert!(scene.asks(1, 8 * MIB) && scene.part(1) == Part::Lane);
    // And slow again.
    scene.look(LANE_WAIT);
    scene.takes(1, MIB);
    scene.takes_all(0);
    scene.look(20 * LANE_WAIT);
    scene.takes_all(1);
    assert!(scene.asks(0, 8 * MIB) && !scene.asks(1, MIB), "it is quick no more");
    // What is taken quickly and little tells nothing of a large reply.
    scene.is_quick(2);
    assert!(scene.asks(2, 2 * STALL_BYTES));
    scene.now += LANE_WAIT / 2;
    scene.takes_all(2);
    assert!(!scene.asks(2, MIB) && scene.asks(2, 4 * STALL_BYTES));
}

/// However many come that have shown nothing: half of the lane stays for those that have.
#[test]
fn new_clients_have_half_of_the_lane_and_leave_it() {
    let mut scene = Scene::new(40);
    scene.is_quick(0);
    let granted: Vec<_> = (1..40).filter(|&client| scene.asks(client, 2 * MIB)).collect();
    assert_eq!(granted.len(), 6, "4 in the ordinary part, 2 on trial");
    assert!(scene.asks(0, 4 * MIB) && !scene.asks(39, 2 * MIB));
    scene.takes_all(0);
    scene.look(LANE_WAIT);
    assert!(scene.asks(0, 4 * MIB), "that they are slow takes nothing from quick ones");
    scene.takes_all(0);
    // A trial that is done is the next one's, and who took it quickly has the lane then.
    scene.takes_all(5);
    assert!(!scene.asks(7, 2 * MIB) && scene.asks(39, 2 * MIB) && scene.part(39) == Part::Trial, "the newest is next");
    scene.takes_all(39);
    assert!(scene.asks(39, 4 * MIB) && scene.part(39) == Part::Lane);
}

/// Slow newcomers come without end, and go to the ordinary part. Those that wait for that have it in turns with them.
#[test]
fn each_line_goes_on() {
    let mut scene = Scene::new(1000);
    (0..4).for_each(|client| scene.is_slow(client));
    assert!(scene.asks(0, 4 * MIB) && scene.asks(1, 4 * MIB) && !scene.asks(2, 6 * MIB) && !scene.asks(3, 8 * MIB));
    let (mut new, mut on_trial) = (4, 0);
    let mut waits = vec![(2, 6 * MIB), (3, 8 * MIB)];
    for round in 0..10 {
        let ordinary: Vec<_> = (0..new).filter(|&client| scene.part(client) == Part::Ordinary).collect();
        ordinary.into_iter().for_each(|client| scene.takes_all(client));
        while scene.asks(new, 2 * MIB) {
            (new, on_trial) = (new + 1, on_trial + 1);
        }
        new += 1;
        scene.look(LANE_WAIT);
        let (first, bytes) = waits[0];
        if scene.asks(first, bytes) {
            waits.remove(0);
        }
        if waits.is_empty() {
            return assert!(on_trial > 3 && round < 5, "{on_trial} in {round} rounds");
        }
    }
    panic!("{waits:?} wait for ever");
}

/// A reply of the whole room waits for those that came before it, and no quick or new one comes before it for ever.
#[test]
fn the_widest_reply_has_room() {
    let mut scene = Scene::new(4);
    (0..2).for_each(|client| scene.is_slow(client));
    scene.is_quick(2);
    assert!(scene.asks(0, MIB) && !scene.asks(1, LIMITS.all));
    assert!(scene.asks(2, 4 * MIB), "the lane is not kept while others have the ordinary part");
    assert!(!scene.asks(3, MIB), "but there is no trial");
    scene.takes_all(0);
    assert!(!scene.asks(1, LIMITS.all));
    scene.takes_all(2);
    assert!(!scene.asks(2, MIB) && scene.asks(1, LIMITS.all));
    // As it is taken, others have what it leaves.
    assert!(!scene.asks(2, MIB));
    scene.takes(1, 2 * MIB);
    assert!(scene.asks(2, MIB));
    scene.takes_all(1);
    scene.takes_all(2);
    assert!(scene.asks(3, MIB) && !scene.asks(0, 3 * LIMITS.all));
    scene.takes_all(3);
    assert!(scene.asks(0, 3 * LIMITS.all), "one that is larger than all there is comes alone");
}

/// Of a client with 8 MiB and one with 4, who are closed if each takes so many bytes in a second, and others wait.
fn closed_of_8_and_4(bytes: usize) -> Vec<usize> {
    let mut scene = Scene::new(2);
    scene.is_slow(0);
    scene.is_quick(1);
    assert!(scene.asks(0, 8 * MIB) && scene.asks(1, 4 * MIB));
    let mut closed = Vec::new();
    for _ in 0..80 {
        closed.extend(scene.look(LOOK_WAIT));
        (0..2).for_each(|client| scene.takes(client, bytes));
    }
    closed.sort_unstable();
    closed.dedup();
    closed
}

#[test]
fn a_client_takes_what_it_holds_within_a_minute() {
    let minute = |bytes: usize| bytes / DRAIN_WAIT.as_secs() as usize;
    assert!(closed_of_8_and_4(minute(8 * MIB)).is_empty());
    assert_eq!(closed_of_8_and_4(minute(4 * MIB)), [0], "it holds twice as much");
    assert_eq!(closed_of_8_and_4(minute(2 * MIB)), [0, 1]);
    // In jerks, as sockets take: nothing for three seconds, then what the pace asks for.
    let mut scene = Scene::new(1);
    assert!(scene.asks(0, 4 * MIB));
    while scene.bytes[0] > 0 {
        assert!(scene.look(3 * LOOK_WAIT).is_empty());
        scene.takes(0, 3 * minute(4 * MIB));
    }
    // What it took while none waited was its own affair.
    assert!(scene.asks(0, 4 * MIB));
    scene.now += 10 * DRAIN_WAIT;
    scene.takes(0, STALL_BYTES);
    assert!(scene.look(LATE_WAIT).is_empty());
    assert_eq!(scene.look(LATE_WAIT)[0], 0);
}

/// Three clients hold all the room, or wait for it, and take 8 KB a second of it. How long one that comes later waits.
fn waits_beside_slow(slow: usize, bytes: usize) -> Duration {
    let mut scene = Scene::new(4);
    (0..3).for_each(|client| _ = scene.asks(client, slow));
    let (begins, mut closed) = (scene.now, [false; 3]);
    while !scene.asks(3, bytes) && scene.now < begins + 10 * DRAIN_WAIT {
        for (client, is_closed) in closed.iter().enumerate() {
            _ = !is_closed && scene.bytes[client] == 0 && scene.asks(client, slow);
            _ = !is_closed && scene.bytes[client] > 0 && {
                scene.takes(client, 8 << 10);
                true
            };
        }
        for one in scene.look(LOOK_WAIT) {
            assert!(one < 3, "only those that are slow are closed");
            closed[one] = true;
            scene.bytes[one] = 0;
            scene.places[one].take().into_iter().for_each(|place| scene.state.leave(place));
            scene.state.remove(scene.clients[one].id);
        }
    }
    scene.now - begins
}

#[test]
fn those_that_are_slow_hold_up_a_newcomer_for_seconds() {
    for slow in [MIB, 4 * MIB, 8 * MIB, 12 * MIB, 16 * MIB] {
        for bytes in [MIB, 3 * MIB, 8 * MIB] {
            let waited = waits_beside_slow(slow, bytes);
            assert!(waited <= 2 * STALL_WAIT, "{bytes} beside {slow}: {waited:?}");
        }
    }
    let _fault = mutation::put_back(Some(Fault::StalledGoFirst));
    assert!(waits_beside_slow(16 * MIB, 3 * MIB) > 5 * DRAIN_WAIT, "the fault is found");
}

/// Eight clients ask for a reply of so many bytes each and take nothing. How long one that comes later waits for its
/// own, which it takes at once.
fn waits_beside_stalled(stalled: usize, bytes: usize, comes: Duration) -> Duration {
    let mut scene = Scene::new(9);
    let (begins, mut closed) = (scene.now, [false; 8]);
    loop {
        for (client, is_closed) in closed.iter().enumerate() {
            _ = !is_closed && scene.bytes[client] == 0 && scene.asks(client, stalled);
        }
        let waited = (scene.now - begins).checked_sub(comes);
        if let Some(waited) = waited.filter(|_| scene.asks(8, bytes)) {
            return waited;
        }
        for one in scene.look(LOOK_WAIT) {
            assert!(one < 8, "only those that take nothing are closed");
            closed[one] = true;
            scene.bytes[one] = 0;
            scene.places[one].take().into_iter().for_each(|place| scene.state.leave(place));
            scene.state.remove(scene.clients[one].id);
        }
    }
}

/// However many came before: they hold it up for as long as one of them does, and a short reply not at all.
#[test]
fn those_that_take_nothing_hold_up_a_newcomer_for_one_of_them() {
    let worst_of = |stalled, bytes, comes: std::ops::Range<u64>| {
        let waits = comes.map(|comes| waits_beside_stalled(stalled, bytes, Duration::from_secs(comes)));
        waits.max().expect("there are some")
    };
    let worst = |stalled, bytes| worst_of(stalled, bytes, 1..9);
    let wide = 8 * MIB + 20;
    for stalled in [6 * MIB, wide, 10 * MIB] {
        assert!(worst(stalled, stalled) < STALL_WAIT, "{stalled}: {:?}", worst(stalled, stalled));
        // The fourth room is for the oldest of them.
        assert!(worst_of(stalled, stalled, 9..60) <= 2 * STALL_WAIT, "{stalled}");
        assert_eq!(worst(stalled, 3 * MIB), Duration::ZERO, "{stalled}");
    }
    // They have taken nothing for long when it comes.
    let mut scene = Scene::new(2);
    assert!(scene.asks(0, wide));
    scene.now += 2 * STALL_WAIT;
    assert!(!scene.asks(1, wide) && scene.look(LOOK_WAIT).is_empty() && scene.look(LANE_WAIT).contains(&0));
    let _fault = mutation::put_back(Some(Fault::StalledGoFirst));
    assert!(worst(wide, wide) > 7 * STALL_WAIT, "the fault is found: {:?}", worst(wide, wide));
    assert!(worst(wide, 3 * MIB) > STALL_WAIT / 2, "the fault is found: {:?}", worst(wide, 3 * MIB));
}

struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

proptest! {
    /// The room is never exceeded, parts add up, and whoever waits has room in the end if all take.
    #[test]
    fn whatever_they_do(steps in prop::collection::vec((0usize..12, 0u8..6, 1usize..20, 0u64..3000), 1..200)) {
        let mut scene = Scene::new(12);
        let mut wants: Vec<Option<(usize, Arc<Woken>)>> = (0..12).map(|_| None).collect();
        for (client, what, size, ms) in steps {
            scene.now += Duration::from_millis(ms);
            match what {
                0..3 if wants[client].is_none() => {
                    let (bytes, woken) = (size * MIB, Arc::new(Woken(AtomicUsize::new(0))));
                    if !scene.asks_with(client, bytes, &woken.clone().into()) {
                        wants[client] = Some((bytes, woken));
                    }
                }
                3 => scene.takes_all(client),
                4 => scene.takes(client, size * MIB / 4),
                _ => _ = scene.look(LOOK_WAIT),
            }
        }
        let mut rounds = 0;
        while wants.iter().any(Option::is_some) {
            rounds += 1;
            prop_assert!(rounds < 100, "some wait for ever");
            (0..12).for_each(|client| scene.takes_all(client));
            for (client, want) in wants.iter_mut().enumerate() {
                // Only those that are woken ask again.
                let Some((bytes, woken)) = want else { continue };
                if woken.0.swap(0, Ordering::Relaxed) > 0 && scene.asks_with(client, *bytes, &woken.clone().into()) {
                    *want = None;
                }
            }
        }
        (0..12).for_each(|client| scene.takes_all(client));
        prop_assert_eq!(scene.state.all(), 0);
    }
}
