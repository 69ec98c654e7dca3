//! CLIENT KILL and CLIENT PAUSE: what must hold of a connection that was killed, and of requests that wait.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay::runtime::Runtime;

use crate::book::{Book, expect};
use crate::connection::Request;

/// Longest pause, in ms.
pub const PAUSE_MS_MAX: u64 = 8_000;

/// All that anyone waits for is over within this time, unless clients are paused: locks, and a store that fails.
const SOON: Duration = Duration::from_secs(2);

/// What was ordered in one life, as its clients know it; clones share it.
#[derive(Clone)]
pub struct Orders {
    state: Arc<Mutex<State>>,
    book: Book,
}

#[derive(Default)]
struct State {
    /// When which connection was killed.
    killed: BTreeMap<u64, Duration>,
    pause: Paused,
    /// Pauses that were ended before their time, and when the last was.
    unpaused: (u64, Duration),
}

/// A pause.
#[derive(Clone, Copy, Default)]
struct Paused {
    /// Its end.
    until: Duration,
    /// Reads go on.
    writes_only: bool,
}

/// Requests on their way.
pub struct Asked {
    at: Duration,
    /// The pause that they met, and which of them must wait for its end; all behind that one do, too.
    held: Option<(Paused, usize)>,
    unpaused: u64,
    text: String,
}

/// Whether a pause of writes holds it.
fn may_write(name: &str) -> bool {
    !matches!(name, "GET" | "MGET" | "LEASE" | "HELLO" | "PING" | "MULTI" | "WATCH" | "UNWATCH" | "SELECT")
}

impl Orders {
    pub fn new(book: &Book) -> Orders {
        Orders { state: Arc::default(), book: book.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server has said that it kills a connection.
    pub fn kill(&self, id: u64, runtime: &Runtime) {
        self.lock().killed.entry(id).or_insert(runtime.elapsed());
    }

    /// A connection was closed by the server.
    pub fn gone(&self, id: u64, runtime: &Runtime) {
        let at = self.lock().killed.get(&id).copied();
        let after = at.map(|at| runtime.elapsed().saturating_sub(at));
        expect(after.is_some_and(|after| after <= SOON), "a kill", || format!("connection {id} ended {after:?} after"));
        self.book.pages().marks.killed += 1;
    }

    /// The server has said that it pauses clients for `ms`: a pause that is on is not shortened, one of all requests
    /// stays one.
    pub fn pause(&self, ms: u64, writes_only: bool, runtime: &Runtime) {
        // The server counts whole ms.
        let now = Duration::from_millis(runtime.elapsed().as_millis() as u64);
        let mut state = self.lock();
        let all = state.pause.until > now && !state.pause.writes_only;
        let until = state.pause.until.max(now + Duration::from_millis(ms));
        state.pause = Paused { until, writes_only: writes_only && !all };
    }

    /// The server has said that the pause is over.
    pub fn unpause(&self, runtime: &Runtime) {
        let mut state = self.lock();
        state.pause = Paused::default();
        state.unpaused = (state.unpaused.0 + 1, runtime.elapsed());
    }

    /// Requests are sent, inside MULTI if `queued`.
    pub fn asked(&self, runtime: &Runtime, requests: &[Request], mut queued: bool) -> Asked {
        let (at, state) = (runtime.elapsed(), self.lock());
        let is_held = |request: &Request| {
            let name = request[0].as_str();
            let ends = matches!(name, "EXEC" | "DISCARD");
            let waits = (ends || !queued) && name != "CLIENT" && (may_write(name) || !state.pause.writes_only);
            queued = (queued || name == "MULTI") && !ends;
            waits
        };
        let first = requests.iter().position(is_held).filter(|_| at < state.pause.until);
        let held = first.map(|first| (state.pause, first));
        Asked { at, held, unpaused: state.unpaused.0, text: format!("{requests:?}") }
    }

    /// So many of them were answered.
    pub fn answered(&self, runtime: &Runtime, asked: &Asked, replies: usize) {
        let (now, state) = (runtime.elapsed(), self.lock());
        if let Some((pause, first)) = asked.held {
            let still = now < pause.until && asked.unpaused == state.unpaused.0;
            expect(!still || replies <= first, "a pause", || {
                format!("{replies} of {} were answered at {now:?}, paused until {:?}", asked.text, pause.until)
            });
            self.book.pages().marks.paused += 1;
        }
        let began = asked.at.max(state.pause.until).max(state.unpaused.1);
        expect(now <= began + SOON, "those who were paused go on", || {
            format!("{} waited until {now:?}, and nobody was paused since {began:?}", asked.text)
        });
    }
}
