//! CLIENT PAUSE: requests wait until a moment, or until CLIENT UNPAUSE.

use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay::mutation::{self, Fault};
use forebay::runtime::Runtime;
use futures_channel::oneshot;
use futures_util::future::{Either, select};

use crate::attention::{Attention, PAUSED};

/// The longest pause, in ms.
pub const PAUSE_MS_MAX: u64 = 600_000;

/// Whether and for how long requests wait.
#[derive(Default)]
pub struct Pause {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// End of the pause, ms on the runtime's steady clock.
    until_ms: u64,
    /// Reads go on.
    writes_only: bool,
    waiting: Vec<oneshot::Sender<()>>,
}

fn steady_ms(runtime: &Runtime) -> u64 {
    runtime.elapsed().as_millis() as u64
}

impl Pause {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pauses for `ms`. As in Redis, a pause that is on is never shortened, and a pause of all stays one.
    pub fn begin(&self, ms: u64, writes_only: bool, runtime: &Runtime, attention: &Attention) {
        let now_ms = steady_ms(runtime);
        let mut state = self.lock();
        let all_paused = state.until_ms > now_ms && !state.writes_only;
        state.writes_only = writes_only && !all_paused;
        state.until_ms = state.until_ms.max(now_ms + ms);
        attention.set(PAUSED, true);
    }

    /// Ends the pause.
    pub fn end(&self, attention: &Attention) {
        let mut state = self.lock();
        state.until_ms = 0;
        if !mutation::on(Fault::UnpauseWakesNobody) {
            state.waiting.clear();
        }
        attention.set(PAUSED, false);
    }

    /// Whether a request has to wait now; `writes`: whether it may write.
    pub fn holds(&self, writes: bool, runtime: &Runtime) -> bool {
        let state = self.lock();
        state.until_ms > steady_ms(runtime) && (writes || !state.writes_only)
    }

    /// Done when a request may go on; `writes`: whether it may write.
    pub async fn wait(&self, writes: bool, runtime: &Runtime, attention: &Attention) {
        loop {
            let (receiver, sleep) = {
                let mut state = self.lock();
                let left_ms = state.until_ms.saturating_sub(steady_ms(runtime));
                if left_ms == 0 {
                    state.waiting.clear();
                    attention.set(PAUSED, false);
                    return;
                }
                if state.writes_only && !writes {
                    return;
                }
                // Those whose clients are gone make room.
                state.waiting.retain(|waiting| !waiting.is_canceled());
                let (sender, receiver) = oneshot::channel();
                state.waiting.push(sender);
                (receiver, runtime.sleep(std::time::Duration::from_millis(left_ms)))
            };
            match select(receiver, sleep).await {
                Either::Left(_) | Either::Right(_) => {}
            }
        }
    }
}
