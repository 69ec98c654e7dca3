use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use forebay::mutation::{self, Fault};
use proptest::prelude::*;

use super::state::{PACE_WAIT, WIDE_WAIT};
use super::*;
use crate::clients::Clients;

const LIMITS: Limits = Limits { all: 100, others: 40, lane: 30, short: 0, short_each: 0, per_s_min: 5 };

struct Scene {
    room: Room,
    clients: Vec<Arc<Client>>,
    now: Duration,
}

impl Scene {
    fn new(count: usize) -> Scene {
        let list = Clients::default();
        let come = |_| list.add(String::new(), String::new(), 0, 1000).expect("there is room");
        Scene { room: Room::default(), clients: (0..count).map(come).collect(), now: Duration::ZERO }
    }

    /// Whether `client` gets room for so many bytes of a request that is larger than the lane; if not it waits.
    fn grows(&self, client: usize, bytes: usize) -> bool {
        self.claims(client, bytes, 1000)
    }

    /// The same for a request of `least` bytes.
    fn claims(&self, client: usize, bytes: usize, least: usize) -> bool {
        let claim = Claim { bytes, least, known: true, arrived: Arrived::Little };
        self.room.poll(&self.clients[client], claim, (LIMITS, self.now), Some(Waker::noop())).is_ready()
    }

    fn complete(&self, client: usize) {
        self.room.change(|state| state.complete(&self.clients[client]), LIMITS, self.now);
    }

    fn leave(&self, client: usize) {
        self.room.change(|state| state.remove(self.clients[client].id), LIMITS, self.now);
    }

    /// The clients that are slow.
    fn slow(&self) -> Vec<usize> {
        let slow = self.room.look(self.now, LIMITS);
        let of = |client: Arc<Client>| self.clients.iter().position(|other| other.id == client.id);
        slow.into_iter().filter_map(of).collect()
    }

    fn bytes(&self) -> usize {
        self.room.lock().bytes()
    }
}

#[test]
fn the_first_always_has_room_and_the_others_share() {
    let scene = Scene::new(4);
    assert!(scene.grows(0, 90) && scene.grows(1, 8) && scene.grows(2, 2));
    assert!(!scene.grows(3, 1) && !scene.grows(2, 3) && scene.grows(0, 100), "a part is for the lane");
    assert_eq!(scene.bytes(), 110);
    // Complete, it is no longer first, and still there: the second is the first of those that are not.
    scene.complete(0);
    assert!(!scene.grows(1, 9), "what is being served fills all of the room");
    scene.leave(0);
    assert!(scene.grows(1, 95) && scene.grows(3, 8) && !scene.grows(2, 3));
}

#[test]
fn a_request_that_fits_the_lane_passes_those_that_do_not() {
    let scene = Scene::new(4);
    assert!(scene.grows(0, 90) && scene.grows(1, 10) && !scene.grows(1, 20) && !scene.grows(2, 1));
    assert!(scene.claims(3, 15, 30) && scene.claims(3, 30, 30), "the lane is its");
    assert!(!scene.claims(3, 31, 31), "and nothing more");
    scene.complete(3);
    scene.leave(3);
    assert_eq!(scene.bytes(), 100);
}

#[test]
fn a_short_request_waits_for_short_ones_only() {
    let most = || {
        let limits = Limits { short: 20, short_each: 10, ..LIMITS };
        let scene = Scene::new(6);
        let claims = |client: usize, bytes, least| {
            let at = (limits, scene.now);
            scene
                .room
                .poll(
                    &scene.clients[client],
                    Claim { bytes, least, known: true, arrived: Arrived::Little },
                    at,
                    Some(Waker::noop()),
                )
                .is_ready()
        };
        scene.room.lock().widen(1000);
        assert!(claims(0, 20, 1000), "nothing else is served, so the first has room");
        assert!(!claims(1, 90, 1000) && !claims(2, 31, 31), "others wait for the wide one");
        assert!(claims(3, 2, 10) && claims(4, 10, 4), "short ones do not");
        assert!(claims(5, 1, 1), "where the short ones have no room it is one of the others");
        let most = scene.room.lock().short_bytes();
        scene.leave(5);
        scene.complete(3);
        assert_eq!(scene.room.lock().short_bytes(), 20, "one that is served is still there");
        scene.leave(3);
        let at = (limits, scene.now);
        let unknown = Claim { bytes: 1, least: 1, known: false, arrived: Arrived::Little };
        assert!(scene.room.poll(&scene.clients[5], unknown, at, None).is_ready(), "one of the others");
        scene.leave(5);
        assert!(claims(4, 10, 10) && scene.room.lock().short_bytes() == 10);
        // It turns out to be longer: it is one of the others, and keeps what it has until it has room there.
        assert!(!claims(4, 31, 31) && scene.bytes() == 30);
        scene.leave(4);
        assert_eq!(scene.bytes(), 20);
        most
    };
    assert_eq!(most(), 20);
    let _fault = mutation::put_back(Some(Fault::ShortUncounted));
    assert_eq!(most(), 21, "the fault is found");
}

#[test]
fn a_wide_request_that_runs_leaves_the_others_little() {
    let leaves = || {
        let mut scene = Scene::new(3);
        scene.room.lock().widen(1000);
        assert!(scene.grows(0, 20), "nothing else is served, so the first has room");
        scene.complete(0);
        let leaves = scene.grows(1, 10) && !scene.grows(1, 11) && !scene.claims(2, 1, 1);
        scene.now += WIDE_WAIT;
        assert!(scene.grows(1, 80) && scene.claims(2, 5, 5), "it has waited for long enough");
        leaves
    };
    assert!(leaves());
    let _fault = mutation::put_back(Some(Fault::UnderwayUncounted));
    assert!(!leaves(), "the fault is found");
}

/// A request that does not use its turn keeps what it has, and others have their turn.
#[test]
fn the_turn_of_the_lane_ends() {
    let mut scene = Scene::new(4);
    assert!(scene.grows(0, 90) && scene.grows(1, 10));
    assert!(scene.claims(2, 5, 20) && !scene.claims(3, 1, 20));
    scene.now += LANE_TURN / 2;
    assert!(scene.claims(2, 6, 20) && !scene.claims(3, 1, 20));
    scene.now += LANE_TURN / 2;
    scene.slow();
    assert!(scene.claims(3, 20, 20) && !scene.claims(2, 7, 20));
    scene.now += 2 * LANE_TURN;
    scene.slow();
    assert!(!scene.claims(2, 20, 20), "it does not fit: the rest of the lane is taken");
    scene.complete(3);
    scene.leave(3);
    assert!(scene.claims(2, 20, 20));
}

/// However many want to grow: each that is first finishes, so all do.
#[test]
fn all_finish_in_turn() {
    let scene = Scene::new(20);
    let mut held = [0; 20];
    let mut left: Vec<usize> = (0..20).collect();
    let mut most = 0;
    while !left.is_empty() {
        let before = (left.len(), held.iter().sum::<usize>());
        for &client in &left {
            if scene.grows(client, held[client] + 10) {
                held[client] += 10;
            }
        }
        most = most.max(scene.bytes());
        let done: Vec<usize> = left.iter().copied().filter(|&client| held[client] >= 90).collect();
        for client in done {
            scene.complete(client);
            scene.leave(client);
            (held[client], _) = (0, left.retain(|&other| other != client));
        }
        assert_ne!(before, (left.len(), held.iter().sum()), "one of them goes on");
    }
    assert!(most <= 90 + LIMITS.others, "{most} bytes at a time");
    assert_eq!(scene.bytes(), 0);
}

/// Runs for so many seconds in which `client` sends so many bytes each, and others wait; how long it keeps its room.
fn lasts(scene: &mut Scene, client: usize, seconds: u64, per_s: usize) -> u64 {
    for second in 0..seconds {
        scene.now += Duration::from_secs(1);
        let received = scene.room.lock().received(&scene.clients[client]) + per_s;
        scene.room.lock().heard(&scene.clients[client], received);
        if scene.slow().contains(&client) {
            return second + 1;
        }
    }
    seconds
}

#[test]
fn a_slow_client_goes_if_others_wait() {
    for (per_s, wanted) in [(5, 1000), (4, 1000), (3, 5), (0, 5)] {
        let mut scene = Scene::new(2);
        assert!(scene.grows(0, 100));
        assert_eq!(lasts(&mut scene, 0, 100, 0), 100, "none waits");
        assert!(!scene.grows(1, 50));
        // The first look finds that none waited before: what was before does not count.
        assert_eq!(lasts(&mut scene, 0, 1000, per_s), wanted, "{per_s} bytes a second");
    }
    let mut scene = Scene::new(2);
    assert!(scene.grows(0, 600) && !scene.grows(1, 50));
    assert_eq!(lasts(&mut scene, 0, 100, 5), 100, "however much room it has");
    scene.complete(0);
    assert_eq!(lasts(&mut scene, 0, 100, 0), 100, "it waits for its answer");
}

/// A client that is not read from can't send.
#[test]
fn a_client_that_was_held_up_has_time_again() {
    let mut scene = Scene::new(3);
    assert!(scene.grows(0, 100) && scene.grows(1, 10) && !scene.grows(1, 50) && !scene.grows(2, 50));
    scene.slow();
    for _ in 0..10 {
        scene.now += PACE_WAIT;
        assert_eq!(scene.slow(), [0]);
    }
    scene.complete(0);
    scene.leave(0);
    scene.now += PACE_WAIT;
    assert!(!scene.grows(2, 50) && scene.slow().is_empty(), "it was held up, and has not looked yet");
    assert!(scene.grows(1, 50) && !scene.grows(2, 50));
    assert!(scene.slow().is_empty(), "it has just got room");
    scene.now += PACE_WAIT;
    assert_eq!(scene.slow(), [1]);
}

/// A client that looks again only when it was told to.
struct Sender {
    begins: Duration,
    /// Bytes of its request, and of that announced.
    total: usize,
    announced: bool,
    /// It sends no more than this.
    stops: usize,
    /// What it takes beside that while it is served.
    wide: usize,
    per_s: usize,
    /// What it has sent, as far as it was read and as far as its socket takes.
    received: usize,
    sent: usize,
    room: usize,
    woken: Arc<Woken>,
    waits: bool,
    looks: Duration,
    /// When it was complete, and when it was served.
    complete: Option<Duration>,
    served: Option<Duration>,
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

const TICK: Duration = Duration::from_millis(50);
const SERVED: Duration = Duration::from_millis(200);
const SOCKET: usize = 400;

/// A thousandth of a server with 16 MiB of memory; a byte of it is a KiB.
const KIB: Limits = Limits { all: 17_000, others: 8_500, lane: 6_375, short: 2_000, short_each: 500, per_s_min: 128 };

impl Sender {
    fn new(begins_ms: u64, total: usize, announced: bool, per_s: usize) -> Sender {
        let (begins, woken) = (Duration::from_millis(begins_ms), Arc::default());
        let (received, sent, room, waits, looks) = (0, 0, 0, false, Duration::ZERO);
        let (complete, served) = (None, None);
        let (stops, wide) = (total, 0);
        Sender {
            begins,
            total,
            announced,
            stops,
            wide,
            per_s,
            received,
            sent,
            room,
            woken,
            waits,
            looks,
            complete,
            served,
        }
    }

    fn arrived(&self) -> Arrived {
        match self.sent - self.received {
            _ if self.announced && self.sent == self.total => Arrived::Whole,
            waiting if waiting >= 32 => Arrived::Step,
            _ => Arrived::Little,
        }
    }

    /// One tick of its client and its connection; whether it was found slow.
    fn tick(&mut self, at: usize, scene: &Scene) -> Vec<usize> {
        let (now, client) = (scene.now, &scene.clients[at]);
        if now < self.begins || self.served.is_some() {
            return Vec::new();
        }
        if let Some(complete) = self.complete {
            if now >= complete + SERVED {
                scene.room.change(|state| state.narrow(self.wide), KIB, now);
                scene.room.change(|state| state.remove(client.id), KIB, now);
                self.served = Some(now);
            }
            return Vec::new();
        }
        let sends = self.per_s * TICK.as_millis() as usize / 1000;
        self.sent = (self.sent + sends).min(self.stops).min(self.received + SOCKET.max(sends));
        let mut slow = Vec::new();
        if self.waits && now >= self.looks + LANE_TURN {
            self.looks = now;
            slow = scene.room.look(now, KIB).iter().map(|one| index(scene, one)).collect();
        }
        while self.received < self.sent {
            if self.received == self.room {
                if self.waits && !self.woken.0.swap(false, Ordering::Relaxed) {
                    break;
                }
                let least = if self.announced { self.total } else { self.received };
                let claim = Claim { bytes: self.received + 256, least, known: self.announced, arrived: self.arrived() };
                let waker = Waker::from(self.woken.clone());
                let has_room = scene.room.poll(client, claim, (KIB, now), Some(&waker)).is_ready();
                self.looks = if self.waits { self.looks } else { now };
                self.waits = !has_room;
                if !has_room {
                    break;
                }
                self.room = claim.bytes;
            }
            self.received = self.sent.min(self.room);
            scene.room.lock().heard(client, self.received);
        }
        if self.received == self.total {
            scene.room.change(|state| state.complete(client), KIB, now);
            scene.room.lock().widen(self.wide);
            self.complete = Some(now);
        }
        slow
    }
}

fn index(scene: &Scene, client: &Arc<Client>) -> usize {
    scene.clients.iter().position(|other| other.id == client.id).expect("it is one of them")
}

/// Has all of them send, until all are served or the time is up; those that were found slow.
fn send(senders: &mut [Sender], until: Duration) -> Vec<usize> {
    let (mut scene, mut slow) = (Scene::new(senders.len()), Vec::new());
    while scene.now < until && senders.iter().any(|sender| sender.served.is_none()) {
        for (at, sender) in senders.iter_mut().enumerate() {
            slow.extend(sender.tick(at, &scene));
        }
        let bytes = scene.bytes();
        assert!(bytes <= KIB.all + KIB.others + KIB.short, "{bytes} bytes at {:?}", scene.now);
        scene.now += TICK;
    }
    slow
}

/// How long each was on its way.
fn took(senders: &[Sender]) -> Vec<Duration> {
    senders.iter().map(|sender| sender.served.expect("it is served") - sender.begins).collect()
}

/// Five slow clients with 12 MB each hold up none that sends 3 MB at once, and are not closed.
#[test]
fn slow_senders_do_not_hold_up_a_small_one() {
    let slow = (0..5).map(|_| Sender::new(0, 12_000, true, 240));
    let quick = (0..100).map(|number| Sender::new(2_000 + 500 * number, 3_000, number % 2 == 0, 100_000));
    let mut senders: Vec<Sender> = slow.chain(quick).collect();
    assert_eq!(send(&mut senders, Duration::from_secs(600)), [0; 0], "all send fast enough");
    let took = took(&senders);
    let worst = took[5..].iter().max().expect("there are some");
    // One second each for slow requests whose size is known later, if they come to the lane at all.
    assert!(*worst <= Duration::from_secs(1), "{worst:?}");
}

/// Those that are small and slow have one turn each before a quick one that came later.
#[test]
fn slow_small_ones_hold_up_a_quick_one_for_a_turn_each() {
    let first = [Sender::new(0, 16_000, true, 140), Sender::new(0, 16_000, true, 140)];
    let slow = (0..4).map(|number| Sender::new(20_000 + number, 3_000, true, 140));
    let quick = [Sender::new(21_000, 3_000, true, 100_000)];
    let mut senders: Vec<Sender> = first.into_iter().chain(slow).chain(quick).collect();
    assert_eq!(send(&mut senders, Duration::from_secs(600)), [0; 0]);
    let took = took(&senders);
    assert!(took[6] <= Duration::from_secs(2 * 4 + 1), "{:?}", took[6]);
    assert!(took[6] < *took[2..6].iter().min().expect("there are some"), "{took:?}");
}

/// Hundreds send a part of their requests and no more. Requests that are there hardly wait for them.
#[test]
fn what_does_not_come_holds_up_little() {
    let worst = || {
        let stalled = |number| Sender { stops: 60, ..Sender::new(number, 200, true, 100_000) };
        let quick = [100, 300, 1_000].map(|total| Sender::new(1_000 + total, total as usize, true, 100_000));
        let mut senders: Vec<Sender> = (0..200).map(stalled).chain(quick).collect();
        let slow = send(&mut senders, Duration::from_secs(20));
        assert!(slow.iter().all(|slow| *slow < 200), "only the stalled are closed");
        let took = senders[200..].iter().map(|quick| quick.served.map_or(Duration::MAX, |at| at - quick.begins));
        took.max().expect("there are some")
    };
    assert!(worst() <= Duration::from_secs(2), "{:?}", worst());
    let _fault = mutation::put_back(Some(Fault::StalledKeepRoom));
    assert!(worst() >= Duration::from_secs(8), "the fault is found: {:?}", worst());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// All of them are served, in however many ways they come, and none that sends fast enough is closed.
    #[test]
    fn all_are_served(
        drawn in prop::collection::vec((0u64..20_000, 65usize..16_000, any::<bool>(), 0usize..5), 2..14),
        wide in prop::collection::vec(prop_oneof![Just(0), 1_000usize..40_000], 14),
    ) {
        let rates = [128, 160, 240, 1_000, 20_000];
        let sender = |&(begins, total, announced, rate): &(u64, usize, bool, usize)| {
            Sender::new(begins, total, announced, rates[rate])
        };
        let mut senders: Vec<Sender> = drawn.iter().map(sender).collect();
        senders.iter_mut().zip(wide).for_each(|(sender, wide)| sender.wide = wide);
        // One after the other, and a little for each.
        let alone = |sender: &Sender| Duration::from_secs((sender.total / sender.per_s) as u64 + 4);
        let until = Duration::from_secs(20) + senders.iter().map(alone).sum::<Duration>();
        let slow = send(&mut senders, until);
        prop_assert!(slow.is_empty(), "{slow:?} are found slow");
        prop_assert!(senders.iter().all(|sender| sender.served.is_some()), "some wait for ever");
    }
}
