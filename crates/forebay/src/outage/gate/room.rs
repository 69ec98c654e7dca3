//! Commits that found no room in the buffer, and wait until the drain has made some.
//!
//! **Invariant.** A write that waits for room is answered once. It waits while the store takes what is buffered, and no
//! longer. It is refused at once where nothing makes room. The store is away, an operator has to decide, or the drain
//! stands still. No other write takes the room for which it waits: what has to queue waits longer, and what is free
//! goes directly. So the room grows until it is enough, or until nothing waits for the store and the write goes there.
//!
//! A drain behind an outage may take minutes. There others wait for it for a second at most, and it waits for 10 s.

use std::time::Duration;

use super::Inner;
use crate::mutation::{self, Fault};
use crate::store::{Commit, CommitOutcome};

/// Time in which a store that is there carries something over: after it, one that found no room is told so.
const PROGRESS_MAX: Duration = Duration::from_secs(10);

/// Without write-back, time in which no other takes the room that a write waits for.
const KEPT_MAX: Duration = Duration::from_secs(1);

/// Keeps others from the room that a write waits for, as long as it lives.
struct Roomless<'a>(&'a Inner);

impl<'a> Roomless<'a> {
    fn new(inner: &'a Inner) -> Roomless<'a> {
        inner.state().roomless += 1;
        Roomless(inner)
    }
}

impl Drop for Roomless<'_> {
    fn drop(&mut self) {
        self.0.state().roomless -= 1;
    }
}

impl Inner {
    pub(super) async fn commit(&self, group: &[Commit]) -> Vec<CommitOutcome> {
        let mut outcomes = self.commit_once(group, false).await;
        for (commit, outcome) in group.iter().zip(&mut outcomes) {
            if matches!(outcome, CommitOutcome::Full(_)) {
                self.commit_in_room(commit, outcome).await;
                self.state().counts.full += u64::from(matches!(outcome, CommitOutcome::Full(_)));
            }
        }
        outcomes
    }

    /// Tries what found no room again while the store makes some.
    async fn commit_in_room(&self, commit: &Commit, outcome: &mut CommitOutcome) {
        let began = self.runtime.elapsed();
        if self.until_room(began).is_none() || !self.may_fit(commit) {
            return;
        }
        let mut roomless = Some(Roomless::new(self));
        let has_ended = |most: Duration| {
            let waited = self.runtime.elapsed().saturating_sub(began);
            self.state().write_back.is_none() && waited > most && !mutation::on(Fault::RoomKept)
        };
        loop {
            if let Some(other) = self.commit_once(std::slice::from_ref(commit), true).await.pop() {
                *outcome = other;
            }
            roomless = roomless.filter(|_| !has_ended(KEPT_MAX));
            let pause = self.until_room(began).filter(|_| !has_ended(PROGRESS_MAX));
            match (&outcome, pause) {
                (CommitOutcome::Full(_), Some(_)) if mutation::on(Fault::RoomForgotten) => std::future::pending().await,
                (CommitOutcome::Full(_), Some(pause)) => self.runtime.sleep(pause).await,
                _ => return,
            }
        }
    }

    /// Whether room can be enough for `commit`. With write-back one for which it never is goes past the buffer.
    fn may_fit(&self, commit: &Commit) -> bool {
        let state = self.state();
        state.write_back.is_some() || state.buffer.may_fit(commit, &self.ties(commit))
    }

    /// How long to wait for room, for a write that found none since `began`; none if there is nothing to wait for.
    fn until_room(&self, began: Duration) -> Option<Duration> {
        let (state, now) = (self.state(), self.runtime.elapsed());
        let waiting = state.buffer.amount().waiting;
        let idle = state.failing(now) || state.suspended.is_some() || waiting == 0;
        if idle || mutation::on(Fault::WriteBackUnpaced) {
            return None;
        }
        // What is kept on purpose may not have been due before.
        let due = if state.write_back.is_some() { began } else { state.since };
        let still = now.saturating_sub(due.max(state.progressed));
        (still <= PROGRESS_MAX).then(|| state.speed.room_pause(waiting))
    }
}
