//! Room for large requests that are not complete. There is some for a few of them; the others wait: their sockets are
//! not read until there is room.
//!
//! **No client waits for ever.** The first client, by the moment at which its request became large, always has room for
//! a whole request. Its turn ends when the request is complete; what it takes counts until it is served. Requests that
//! are being served may leave too little room even for the first of the others: that one waits until one of them is
//! done. A wait for a lock of a client that waits here ends as any other wait for a lock does. A client that sends
//! nothing while others wait is closed, and so is one that is slow ([`Room::slow`]): it has to send
//! `large_request_bytes_per_s_min`, and a [`ROOM_S_MAX`]th of its room, in a second. So what it needs to keep its room
//! grows with the room, and a request of 256 MiB is complete after at most six minutes.
//!
//! **Bound.** Those that are not first have together [`Limits::others`], the first one request, and those that are
//! being served no more than [`Limits::all`] with it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::limits::ServerLimits;
use crate::state::{Client, Shared};

/// A client that sends nothing for so long is sent away if others wait for the room that it has.
pub const IDLE_WAIT: Duration = Duration::from_secs(2);

/// Over so long a time it is judged whether a client is slow, while others wait.
const PACE_WAIT: Duration = Duration::from_secs(4);

/// A client that has room sends as much as it has room for in so many seconds, while others wait.
const ROOM_S_MAX: usize = 60;

/// Bytes that large requests may take.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Those that are complete and the first that is not.
    all: usize,
    /// Those that are not complete, but for the first of them.
    others: usize,
    /// What a client sends in a second, at least.
    per_s_min: usize,
}

impl Limits {
    /// A request that is served is there twice, as it came and as the document that it makes: so half of
    /// `held_bytes_max` is for these and the first. What is left is for MULTI and TXN.
    fn of(limits: &ServerLimits) -> Limits {
        let (held, per_s_min) = (limits.held_bytes_max, limits.large_request_bytes_per_s_min);
        Limits { all: held / 2, others: held / 4, per_s_min }
    }
}

/// The room.
#[derive(Default)]
pub struct Room {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By turn: in the order in which their requests became large.
    holders: HashMap<u64, Holder>,
    /// The turns of clients.
    turns: HashMap<u64, u64>,
    next_turn: u64,
    /// Turns whose requests are not complete.
    unfinished: BTreeSet<u64>,
    /// Those that wait, by the bytes that they wait for.
    waiting: BTreeSet<(usize, u64)>,
    /// Bytes of all, and of those that are complete.
    bytes: usize,
    served_bytes: usize,
    /// When one of those that wait last looked for who is slow.
    looked: Duration,
}

struct Holder {
    client: Arc<Client>,
    bytes: usize,
    /// When it last sent something.
    heard: Duration,
    /// What it has sent.
    received: usize,
    /// A moment, and what it had sent by then: its pace is that since.
    pace: (Duration, usize),
    /// It was told to wait: until it has room nothing is read from it.
    held_up: bool,
    /// For how many bytes it waits.
    waits: Option<(usize, Waker)>,
}

impl Holder {
    fn new(client: Arc<Client>, now: Duration) -> Holder {
        Holder { client, bytes: 0, heard: now, received: 0, pace: (now, 0), held_up: false, waits: None }
    }

    /// Its pace counts from `now`.
    fn begin_pace(&mut self, now: Duration) {
        self.pace = (now, self.received);
    }

    /// Whether it does not send as it has to.
    fn is_slow(&mut self, now: Duration, per_s_min: usize) -> bool {
        if self.held_up {
            return false;
        }
        let (since, before) = self.pace;
        let (time, idle) = (now.saturating_sub(since), now.saturating_sub(self.heard) >= IDLE_WAIT);
        if time < PACE_WAIT {
            return idle;
        }
        let least = per_s_min.max(self.bytes / ROOM_S_MAX).saturating_mul(time.as_secs() as usize);
        let slow = self.received.saturating_sub(before) < least;
        self.begin_pace(now);
        idle || slow
    }
}

impl State {
    /// The turn of the request of `client` that is not complete.
    fn turn_of(&mut self, client: &Arc<Client>, now: Duration) -> u64 {
        match self.turns.get(&client.id).copied() {
            Some(turn) if self.unfinished.contains(&turn) => return turn,
            // Its next request has a turn of its own.
            Some(_) => self.remove(client.id),
            None => {}
        }
        let turn = self.next_turn;
        self.next_turn += 1;
        self.turns.insert(client.id, turn);
        self.unfinished.insert(turn);
        self.holders.insert(turn, Holder::new(client.clone(), now));
        turn
    }

    fn remove(&mut self, client: u64) {
        let Some(turn) = self.turns.remove(&client) else { return };
        self.stop_waiting(turn);
        let bytes = self.holders.remove(&turn).map_or(0, |holder| holder.bytes);
        self.bytes -= bytes;
        self.served_bytes -= if self.unfinished.remove(&turn) { 0 } else { bytes };
    }

    fn stop_waiting(&mut self, turn: u64) -> Option<Waker> {
        let (bytes, waker) = self.holders.get_mut(&turn)?.waits.take()?;
        self.waiting.remove(&(bytes, turn));
        Some(waker)
    }

    fn has_room(&self, turn: u64, bytes: usize, limits: Limits) -> bool {
        let bytes_of = |turn: u64| self.holders.get(&turn).map_or(0, |holder| holder.bytes);
        match self.unfinished.first() {
            Some(first) if *first != turn => {
                let others = self.bytes - bytes_of(*first) - bytes_of(turn);
                others.saturating_add(bytes) <= limits.others
            }
            _ => self.served_bytes == 0 || self.served_bytes.saturating_add(bytes) <= limits.all,
        }
    }

    /// Has those look again of whom one has room if any of those that wait has: the first, and who wants least.
    fn wake(&mut self) -> impl Iterator<Item = Waker> + use<> {
        let first = self.unfinished.first().copied();
        let least = self.waiting.first().map(|(_, turn)| *turn);
        let wakers = [first, least].map(|turn| turn.and_then(|turn| self.stop_waiting(turn)));
        wakers.into_iter().flatten()
    }
}

impl Room {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ready if there is room for `bytes` of the unfinished request of `client`; else `waker` is told when to ask.
    fn poll(
        &self,
        client: &Arc<Client>,
        bytes: usize,
        limits: Limits,
        now: Duration,
        waker: Option<&Waker>,
    ) -> Poll<()> {
        let mut state = self.lock();
        let turn = state.turn_of(client, now);
        state.stop_waiting(turn);
        let has_room = state.has_room(turn, bytes, limits);
        let State { holders, waiting, .. } = &mut *state;
        let Some(holder) = holders.get_mut(&turn) else {
            debug_assert!(false, "who has a turn is there");
            return Poll::Ready(());
        };
        if !has_room {
            holder.held_up = true;
            holder.waits = waker.map(|waker| (bytes, waker.clone()));
            waiting.extend(waker.map(|_| (bytes, turn)));
            return Poll::Pending;
        }
        let before = std::mem::replace(&mut holder.bytes, bytes);
        holder.heard = now;
        if std::mem::take(&mut holder.held_up) {
            holder.begin_pace(now);
        }
        state.bytes = state.bytes + bytes - before;
        // What is left may do for another.
        let woken = state.wake();
        drop(state);
        woken.for_each(Waker::wake);
        Poll::Ready(())
    }

    /// The client has sent so many bytes of its unfinished request by now, within the room that it has.
    fn heard(&self, client: &Client, received: usize, now: Duration) {
        let mut state = self.lock();
        let turn = state.turns.get(&client.id).copied();
        if let Some(holder) = turn.and_then(|turn| state.holders.get_mut(&turn)) {
            (holder.heard, holder.received) = (now, received);
        }
    }

    /// The request of `client` is complete: it is another's turn.
    fn complete(&self, client: &Client) {
        let mut state = self.lock();
        let Some(turn) = state.turns.get(&client.id).copied() else { return };
        if state.unfinished.remove(&turn) {
            state.served_bytes += state.holders.get(&turn).map_or(0, |holder| holder.bytes);
        }
        let woken = state.wake();
        drop(state);
        woken.for_each(Waker::wake);
    }

    /// The client has no large request any more.
    fn leave(&self, client: &Client) {
        let mut state = self.lock();
        state.remove(client.id);
        let woken = state.wake();
        drop(state);
        woken.for_each(Waker::wake);
    }

    /// Who has room and does not use it while others wait. Those that wait ask every [`IDLE_WAIT`].
    fn slow(&self, now: Duration, limits: Limits) -> Vec<Arc<Client>> {
        let state = &mut *self.lock();
        if state.waiting.is_empty() {
            return Vec::new();
        }
        let nobody_waited = now.saturating_sub(std::mem::replace(&mut state.looked, now)) > PACE_WAIT;
        let mut slow = Vec::new();
        for turn in &state.unfinished {
            let Some(holder) = state.holders.get_mut(turn) else {
                debug_assert!(false, "who has a turn is there");
                continue;
            };
            if nobody_waited {
                holder.begin_pace(now);
            }
            if holder.is_slow(now, limits.per_s_min) {
                slow.push(holder.client.clone());
            }
        }
        slow
    }

    /// What all have room for now.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.lock().bytes
    }
}

/// The place of one connection in the room.
pub struct Place {
    shared: Arc<Shared>,
    client: Arc<Client>,
    /// It has asked for room.
    asked: bool,
    /// Bytes that there is room for.
    bytes: usize,
    /// The request was complete, and is served.
    served: bool,
}

impl Place {
    /// Of a connection without a large request.
    pub fn new(shared: Arc<Shared>, client: Arc<Client>) -> Place {
        Place { shared, client, asked: false, bytes: 0, served: false }
    }

    fn poll(&mut self, bytes: usize, waker: Option<&Waker>) -> Poll<()> {
        let (shared, now) = (&self.shared, self.shared.engine.runtime().elapsed());
        self.asked = true;
        let polled = shared.room.poll(&self.client, bytes, Limits::of(&shared.limits), now, waker);
        if polled.is_ready() {
            self.bytes = bytes;
        }
        polled
    }

    /// Whether there is room for so many bytes of its unfinished request.
    pub fn grow(&mut self, bytes: usize) -> bool {
        bytes <= self.bytes || self.poll(bytes, None).is_ready()
    }

    /// Waits for that room.
    pub async fn wait(&mut self, bytes: usize) {
        std::future::poll_fn(|context| self.poll(bytes, Some(context.waker()))).await;
    }

    /// The requests at hand are complete, and served now.
    pub fn complete(&mut self) {
        if self.asked {
            self.shared.room.complete(&self.client);
            self.served = true;
        }
    }

    /// What came was counted: so many bytes of a large request that is unfinished, or `None`. Behind one that was served
    /// that is another, whose turn is its own.
    pub fn settle(&mut self, received: Option<usize>) {
        match received.filter(|_| !self.served) {
            Some(received) if self.asked => {
                self.shared.room.heard(&self.client, received, self.shared.engine.runtime().elapsed());
            }
            Some(_) => {}
            None => self.leave(),
        }
    }

    /// There is no large request any more.
    pub fn leave(&mut self) {
        if std::mem::take(&mut self.asked) {
            (self.bytes, self.served) = (0, false);
            self.shared.room.leave(&self.client);
        }
    }

    /// Others wait, this one among them: who has room and does not use it is sent away.
    pub fn send_slow_away(&self) {
        let (shared, now) = (&self.shared, self.shared.engine.runtime().elapsed());
        for other in shared.room.slow(now, Limits::of(&shared.limits)) {
            let (client, address) = (other.id, &other.address);
            let why = "closing a client that sends a large request slowly: held_bytes_max, \
                       large_request_bytes_per_s_min";
            tracing::warn!(client, address, "{why}");
            other.kill();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Clients;

    const LIMITS: Limits = Limits { all: 100, others: 40, per_s_min: 5 };

    struct Scene {
        room: Room,
        clients: Vec<Arc<Client>>,
        now: Duration,
    }

    impl Scene {
        fn new(count: usize) -> Scene {
            let list = Clients::default();
            let come = |_| list.add(String::new(), String::new(), 0, 100).expect("there is room");
            Scene { room: Room::default(), clients: (0..count).map(come).collect(), now: Duration::ZERO }
        }

        /// Whether `client` gets room for so many bytes; if not it waits.
        fn grows(&self, client: usize, bytes: usize) -> bool {
            self.room.poll(&self.clients[client], bytes, LIMITS, self.now, Some(Waker::noop())).is_ready()
        }
    }

    impl Scene {
        /// Who is slow.
        fn slow(&self) -> Vec<usize> {
            let slow = self.room.slow(self.now, LIMITS);
            let of = |client: Arc<Client>| self.clients.iter().position(|other| other.id == client.id);
            slow.into_iter().filter_map(of).collect()
        }
    }

    #[test]
    fn the_first_always_has_room_and_the_others_share() {
        let scene = Scene::new(4);
        assert!(scene.grows(0, 90) && scene.grows(1, 30) && scene.grows(2, 10));
        assert!(!scene.grows(3, 1) && !scene.grows(2, 11) && scene.grows(0, 100));
        assert_eq!(scene.room.bytes(), 140);
        // Complete, it is no longer first, and still there: the second is the first of those that are not.
        scene.room.complete(&scene.clients[0]);
        assert!(!scene.grows(1, 31), "what is being served fills all of the room");
        scene.room.leave(&scene.clients[0]);
        assert!(scene.grows(1, 95) && scene.grows(3, 30) && !scene.grows(2, 11));
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
            most = most.max(scene.room.bytes());
            let done: Vec<usize> = left.iter().copied().filter(|&client| held[client] >= 90).collect();
            for client in done {
                scene.room.complete(&scene.clients[client]);
                scene.room.leave(&scene.clients[client]);
                (held[client], _) = (0, left.retain(|&other| other != client));
            }
            assert_ne!(before, (left.len(), held.iter().sum()), "somebody goes on");
        }
        assert!(most <= 90 + LIMITS.others, "{most} bytes at a time");
        assert_eq!(scene.room.bytes(), 0);
    }

    #[test]
    fn who_sends_nothing_goes_if_others_wait() {
        let mut scene = Scene::new(3);
        assert!(scene.grows(0, 90) && scene.grows(1, 40));
        scene.now = IDLE_WAIT;
        assert!(scene.slow().is_empty(), "nobody waits");
        assert!(scene.grows(1, 40) && !scene.grows(2, 20));
        assert_eq!(scene.slow(), [0]);
        scene.room.complete(&scene.clients[0]);
        assert!(scene.slow().is_empty(), "it waits for its answer");
    }

    /// Runs for so many seconds in which `client` sends so many bytes each, and others wait; how long it keeps its room.
    fn lasts(scene: &mut Scene, client: usize, seconds: u64, per_s: usize) -> u64 {
        let received = |scene: &Scene| scene.room.lock().holders[&(client as u64)].received;
        for second in 0..seconds {
            scene.now += Duration::from_secs(1);
            let received = received(scene) + per_s;
            scene.room.heard(&scene.clients[client], received, scene.now);
            if scene.now.as_secs().is_multiple_of(2) && scene.slow().contains(&client) {
                return second + 1;
            }
        }
        seconds
    }

    #[test]
    fn who_is_slow_goes_if_others_wait() {
        for (per_s, wanted) in [(5, 1000), (4, 6)] {
            let mut scene = Scene::new(2);
            assert!(scene.grows(0, 100));
            assert_eq!(lasts(&mut scene, 0, 100, 0), 100, "nobody waits");
            assert!(!scene.grows(1, 50));
            // The first look finds that nobody waited before: what was before does not count.
            assert_eq!(lasts(&mut scene, 0, 1000, per_s), wanted, "{per_s} bytes a second");
        }
    }

    /// What is enough for a small request is not for a large one.
    #[test]
    fn who_has_much_room_has_to_send_more() {
        for (bytes, goes) in [(300, false), (600, true)] {
            let mut scene = Scene::new(2);
            assert!(scene.grows(0, bytes) && !scene.grows(1, 50));
            assert_eq!(lasts(&mut scene, 0, 100, 7) < 100, goes, "{bytes}");
        }
    }

    /// A client that is not read from can't send.
    #[test]
    fn who_was_held_up_has_time_again() {
        let mut scene = Scene::new(3);
        assert!(scene.grows(0, 100) && scene.grows(1, 20) && !scene.grows(1, 50) && !scene.grows(2, 50));
        for _ in 0..10 {
            scene.now += IDLE_WAIT;
            assert_eq!(scene.slow(), [0]);
        }
        scene.room.complete(&scene.clients[0]);
        scene.room.leave(&scene.clients[0]);
        scene.now += IDLE_WAIT;
        assert!(!scene.grows(2, 50) && scene.slow().is_empty(), "it was held up, and has not looked yet");
        assert!(scene.grows(1, 50) && !scene.grows(2, 50));
        assert!(scene.slow().is_empty(), "it has just got room");
        scene.now += IDLE_WAIT;
        assert_eq!(scene.slow(), [1]);
    }
}
