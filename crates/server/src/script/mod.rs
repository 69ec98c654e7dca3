//! Scripts: EVAL and its kind, in Lua 5.1.
//!
//! A script runs on a thread for what may block, off those that poll sockets; its session serves it meanwhile. Each
//! `redis.call` is a message to the session and waits for the answer, so only the session touches the transaction:
//!
//! ```text
//! session (session/scripted.rs)                thread (work.rs, lua.rs)
//!   locks and loads KEYS
//!   starts the script            -- program ->   a new state of Lua
//!   runs a command in the        <- request --   redis.call
//!   script's transaction         --- reply -->
//!   commits, or runs it again    <- its end --   return
//! ```
//!
//! **Invariants.**
//! * A script is one transaction: what it wrote is committed as a whole when it has ended well, and else none of it.
//! * No session waits for a place to run a script while it holds a lock. So scripts never wait for each other in a
//!   circle through the places.
//! * What scripts hold of documents takes room (`session/script_room.rs`).
//! * At most `scripts_max` scripts run, each in at most `script_bytes_max`. One that was told to stop keeps its place
//!   until its thread has left it.
//! * A script that is told to stop, or whose session is gone, changes nothing from then on: its next call is not
//!   served.

mod bits;
mod cache;
mod halt;
mod json;
mod lua;
mod values;
mod work;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay::runtime::Runtime;
use forebay_protocol::Reply;
use futures_channel::oneshot;
use futures_util::lock::Mutex as AsyncMutex;

pub use cache::Script;
use cache::Sources;
pub(crate) use halt::{Halt, Limit};
pub(crate) use work::{Asked, start};

use crate::limits::ServerLimits;

/// Scripts that are kept by their hash; the one used longest ago goes for another.
pub const SCRIPT_CACHE_MAX: usize = 500;

/// The scripts of one server.
pub struct Scripts {
    sources: Mutex<Sources>,
    places: Arc<Mutex<Places>>,
    running: Arc<Mutex<Started>>,
    /// One text is compiled at a time, to find out whether it can be run.
    compiling: Arc<AsyncMutex<()>>,
    bytes_max: usize,
}

struct Places {
    free: usize,
    /// How many were given back.
    left: u64,
    waiting: VecDeque<oneshot::Sender<Place>>,
}

/// A place to run one script, until it is dropped.
pub(crate) struct Place(Option<Arc<Mutex<Places>>>);

impl Drop for Place {
    fn drop(&mut self) {
        let Some(places) = self.0.take() else { return };
        let mut handed = places.lock().unwrap_or_else(PoisonError::into_inner);
        handed.left += 1;
        let mut place = Place(Some(places.clone()));
        while let Some(waiting) = handed.waiting.pop_front() {
            match waiting.send(place) {
                Ok(()) => return,
                // Who waited is gone.
                Err(back) => place = back,
            }
        }
        place.0 = None;
        handed.free += 1;
    }
}

/// The scripts whose threads have not ended.
#[derive(Default)]
struct Started {
    next: u64,
    halts: BTreeMap<u64, Arc<Halt>>,
}

/// A script that runs; its thread drops this at its end.
pub(crate) struct Running {
    of: Arc<Mutex<Started>>,
    number: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.of.lock().unwrap_or_else(PoisonError::into_inner).halts.remove(&self.number);
    }
}

/// What SCRIPT KILL has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kills {
    /// Scripts that it has told to stop.
    pub stopped: usize,
    /// Scripts that were told before, and are in a call of Lua's that can't be stopped.
    pub stuck: usize,
}

impl Scripts {
    /// None yet.
    pub fn new(limits: &ServerLimits) -> Scripts {
        Scripts {
            sources: Mutex::new(Sources::new(SCRIPT_CACHE_MAX, limits.script_cache_bytes_max)),
            places: Arc::new(Mutex::new(Places { free: limits.scripts_max.max(1), left: 0, waiting: VecDeque::new() })),
            running: Arc::default(),
            compiling: Arc::default(),
            bytes_max: limits.script_bytes_max,
        }
    }

    fn sources(&self) -> MutexGuard<'_, Sources> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, Started> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The script with this text, which is kept from now on. Nothing of it is checked.
    pub fn keep(&self, body: &[u8]) -> Arc<Script> {
        self.sources().keep(body)
    }

    /// The script whose SHA-1 has these hex digits, in any case of letters.
    pub fn find(&self, sha: &[u8]) -> Option<Arc<Script>> {
        self.sources().find(sha)
    }

    /// Whether that is kept; it counts as no use of it.
    pub fn has(&self, sha: &[u8]) -> bool {
        self.sources().has(sha)
    }

    /// Forgets all scripts. Those that run go on.
    pub fn flush(&self) {
        self.sources().flush();
    }

    /// Why this text can't be run, if it can't. It is compiled where it holds up no task.
    pub async fn refused(&self, runtime: &Runtime, body: &[u8]) -> Option<Reply> {
        let (script, bytes_max) = (Script::new(body), self.bytes_max);
        let turn = self.compiling.clone().lock_owned().await;
        let compile = move || {
            let flags = script.only_reads().err().map(Reply::error);
            let refused = flags.or_else(|| lua::refused(script.code(), bytes_max));
            drop(turn);
            refused
        };
        runtime.blocking(compile).await
    }

    /// Is over when no script has left its place for so long.
    pub(crate) async fn stand_still(&self, runtime: &Runtime, patience: Duration) {
        let left = || self.places.lock().unwrap_or_else(PoisonError::into_inner).left;
        loop {
            let before = left();
            runtime.sleep(patience).await;
            if left() == before {
                return;
            }
        }
    }

    /// Waits for a place to run a script. Who waits must hold no lock.
    pub(crate) async fn place(&self) -> Option<Place> {
        let waits = {
            let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            if places.free > 0 {
                places.free -= 1;
                return Some(Place(Some(self.places.clone())));
            }
            let (sender, receiver) = oneshot::channel();
            places.waiting.retain(|waiting| !waiting.is_canceled());
            places.waiting.push_back(sender);
            receiver
        };
        waits.await.ok()
    }

    /// Notes that a script runs: SCRIPT KILL finds it.
    pub(crate) fn note(&self, halt: &Arc<Halt>) -> Running {
        let mut started = self.running();
        started.next += 1;
        let number = started.next;
        started.halts.insert(number, halt.clone());
        Running { of: self.running.clone(), number }
    }

    /// Has all scripts stop that run.
    pub fn kill(&self) -> Kills {
        let mut kills = Kills::default();
        for halt in self.running().halts.values() {
            match halt.reason() {
                None => {
                    halt.stop(Limit::Killed);
                    kills.stopped += 1;
                }
                Some(_) => kills.stuck += 1,
            }
        }
        kills
    }
}
