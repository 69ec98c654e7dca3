//! Room for large requests that are not complete. There is some for a few of them; the others wait: their sockets are
//! not read until there is room.
//!
//! **No client waits for ever.** The first client, by the moment at which its request became large, always has room for
//! a whole request. Its turn ends when the request is complete; what it takes counts until it is served. Requests that
//! are being served may leave too little room even for the first of the others: that one waits until one of them is
//! done. A wait for a lock of a client that waits here ends as any other wait for a lock does. A client that sends
//! nothing while others wait is closed ([`Room::idle`]). One that sends a byte now and then keeps its turn.
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

/// Bytes that large requests may take.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Those that are complete and the first that is not.
    all: usize,
    /// Those that are not complete, but for the first of them.
    others: usize,
}

impl Limits {
    /// A request that is served is there twice, as it came and as the document that it makes: so half of
    /// `held_bytes_max` is for these and the first. What is left is for MULTI and TXN.
    fn of(limits: &ServerLimits) -> Limits {
        Limits { all: limits.held_bytes_max / 2, others: limits.held_bytes_max / 4 }
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
}

struct Holder {
    client: Arc<Client>,
    bytes: usize,
    /// When it last sent something.
    heard: Duration,
    /// For how many bytes it waits.
    waits: Option<(usize, Waker)>,
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
        self.holders.insert(turn, Holder { client: client.clone(), bytes: 0, heard: now, waits: None });
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
            holder.waits = waker.map(|waker| (bytes, waker.clone()));
            waiting.extend(waker.map(|_| (bytes, turn)));
            return Poll::Pending;
        }
        let before = std::mem::replace(&mut holder.bytes, bytes);
        holder.heard = now;
        state.bytes = state.bytes + bytes - before;
        // What is left may do for another.
        let woken = state.wake();
        drop(state);
        woken.for_each(Waker::wake);
        Poll::Ready(())
    }

    /// The client has sent something within the room that it has.
    fn heard(&self, client: &Client, now: Duration) {
        let mut state = self.lock();
        let turn = state.turns.get(&client.id).copied();
        if let Some(holder) = turn.and_then(|turn| state.holders.get_mut(&turn)) {
            holder.heard = now;
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

    /// Who has room and has not used it for [`IDLE_WAIT`], if others wait.
    fn idle(&self, now: Duration) -> Vec<Arc<Client>> {
        let state = self.lock();
        if state.waiting.is_empty() {
            return Vec::new();
        }
        let unfinished = state.unfinished.iter().filter_map(|turn| state.holders.get(turn));
        let idle = |holder: &&Holder| holder.waits.is_none() && now.saturating_sub(holder.heard) >= IDLE_WAIT;
        unfinished.filter(idle).map(|holder| holder.client.clone()).collect()
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

    /// What came was counted; whether a large request is still unfinished. Behind one that was served that is another,
    /// whose turn is its own.
    pub fn settle(&mut self, large: bool) {
        match large && !self.served {
            true if self.asked => self.shared.room.heard(&self.client, self.shared.engine.runtime().elapsed()),
            true => {}
            false => self.leave(),
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
    pub fn send_idle_away(&self) {
        for other in self.shared.room.idle(self.shared.engine.runtime().elapsed()) {
            let (client, address) = (other.id, &other.address);
            tracing::warn!(
                client,
                address,
                "closing a client that does not go on with a large request: held_bytes_max"
            );
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

    const LIMITS: Limits = Limits { all: 100, others: 40 };

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
        assert!(scene.room.idle(scene.now).is_empty(), "nobody waits");
        assert!(scene.grows(1, 40) && !scene.grows(2, 20));
        let idle = scene.room.idle(scene.now);
        assert_eq!(idle.iter().map(|client| client.id).collect::<Vec<_>>(), [scene.clients[0].id]);
        scene.room.complete(&scene.clients[0]);
        assert!(scene.room.idle(scene.now).is_empty(), "it waits for its answer");
    }
}
