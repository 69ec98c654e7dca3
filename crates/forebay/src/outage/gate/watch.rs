//! What others write to a store that may be away.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{Either, select};

use super::Inner;
use crate::error::Unavailable;
use crate::mutation::{self, Fault};
use crate::outage::mode::Mode;
use crate::outage::state::State;
use crate::store::{Doubt, Outside};

/// How long behind an outage a watch may take to begin again until what is cached is given up: decoding has to pass
/// over what was written in between.
const WATCHED_AGAIN_MAX: Duration = Duration::from_secs(60);

impl Inner {
    /// Waits for what others wrote. That a store which went away is out of sight is not news: what is cached is all
    /// there is, until it is too old. When the store can be watched again, perhaps before the breaker has closed, what
    /// is cached is compared in place of being dropped, or a database that has just come back would be read by
    /// everybody at once.
    pub(super) async fn outside(&self) -> Option<Outside> {
        let mut slot = self.outside.lock().await;
        loop {
            let changed = {
                let mut state = self.state();
                if let Some(news) = state.take_news() {
                    return Some(news);
                }
                state.next_change()
            };
            let store = self.store.clone();
            let call = slot.take().unwrap_or_else(|| Box::pin(async move { store.outside().await }));
            match select(call, changed).await {
                Either::Right((_, call)) => *slot = Some(call),
                Either::Left((None, _)) => *slot = Some(Box::pin(std::future::pending())),
                Either::Left((Some(Outside::OutOfSight), _)) if !self.is_up().await || self.still_looks_for_it() => {}
                Either::Left((Some(Outside::Synced(number)), _)) => return Some(Outside::Synced(number)),
                Either::Left((Some(outside), _)) => {
                    let mut state = self.state();
                    match &outside {
                        Outside::Keys(keys) => state.buffer.suspect(keys.iter()),
                        // What is about to be applied shows what others have written when it is: to ask for
                        // each row that a client reads then would hold up that and all other reads.
                        _ if state.mode != Mode::Normal => state.suspects_rest = true,
                        _ => state.buffer.suspect_all(),
                    }
                    return Some(match outside {
                        Outside::Everything => state.doubt(self.runtime.elapsed()),
                        outside => outside,
                    });
                }
            }
        }
    }

    /// What was cached of these documents is dropped: nothing that waits for one, or comes to wait for one by what was
    /// read before, is shown until the store was asked.
    pub(super) fn doubt(&self, what: Doubt<'_>) {
        let mut state = self.state();
        match what {
            Doubt::Keys(keys) => state.buffer.doubt(keys.iter()),
            // What is about to be applied shows what others have written when it is.
            Doubt::All => {
                state.suspects_rest |= state.mode != Mode::Normal;
                let now = state.mode == Mode::Normal;
                state.buffer.doubt_all(now);
            }
            Doubt::Unwatched if mutation::on(Fault::PendingUnsynced) => {}
            Doubt::Unwatched => state.buffer.doubt_those(|key| self.store.unwatched_place(key.borrow()).is_some()),
        }
        self.doubts.store(state.buffer.last_doubt(), Ordering::SeqCst);
    }

    /// Another owner has the store: what is cached is of no use here any more. Those who keep copies elsewhere are told
    /// by that.
    pub(in crate::outage) fn drop_fenced(&self, state: &mut State) {
        if !state.fenced_dropped {
            state.fenced_dropped = true;
            state.invalidate_all();
            self.settle(state);
        }
    }

    /// As [`Inner::fenced`], which is acted on where it is found first. Not for those who have the state.
    pub(super) fn found_fenced(&self) -> Option<Unavailable> {
        let fenced = self.fenced()?;
        self.drop_fenced(&mut self.state());
        Some(fenced)
    }

    /// Has the store look its tables up again, unless something waits for it: that has its place by the tables as they
    /// were.
    pub(super) async fn reload(self: &Arc<Inner>) -> Result<(), String> {
        self.check_up("its tables can't be looked at").map_err(|Unavailable(why)| why)?;
        let waiting = self.state().buffer.amount().transactions;
        if waiting > 0 {
            return Err(format!("{waiting} buffered transactions wait for the tables as they were (CACHE PENDING)"));
        }
        self.store.reload().await?;
        self.describe(&mut self.state());
        Ok(())
    }

    /// Whether the store is back since a moment, and is yet to be watched again.
    fn still_looks_for_it(&self) -> bool {
        let state = self.state();
        state.is_doubted() && self.runtime.elapsed().saturating_sub(state.since) < WATCHED_AGAIN_MAX
    }

    /// Asks the store whether it is there.
    async fn is_up(&self) -> bool {
        if self.state().failing(self.runtime.elapsed()) {
            return false;
        }
        let answer = self.store.ping().await;
        if let Err(Unavailable(why)) = &answer {
            let mut state = self.state();
            state.reads.trip(why);
            state.writes.trip(why);
            self.settle(&mut state);
        }
        answer.is_ok()
    }
}
