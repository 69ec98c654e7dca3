//! What became of a commit, told once to any number of those who wait for it or ask.

use std::pin::Pin;
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use smallvec::SmallVec;

use crate::mutation::{self, Fault};
use crate::store::Store;
use crate::sync::{Mutex, MutexGuard};
use crate::version::{TxnId, Version};

/// What became of a commit, as those who wait for it are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// Applied, or kept safe for later, and published.
    Published(Landed),
    /// Not applied, for this reason.
    Failed(Failure),
    /// The store can't say.
    Unknown(TxnId),
}

/// Where a commit landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landed {
    /// The version of what it wrote.
    pub version: Version,
    /// The store was away: it is buffered under this number.
    pub ticket: Option<u64>,
}

/// Why a commit was not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It built on a commit that failed, or on versions that others have overtaken.
    Conflict(String),
    /// The store refuses it.
    Refused(String),
    /// The store could not be asked.
    Unavailable(String),
    /// Another owner has the store.
    NotOwner(String),
    /// The store could not be asked, and there is no room to keep it.
    BufferFull(String),
}

impl Failure {
    /// Where another owner has the store, whatever could not be asked is for that one.
    pub(super) fn seen_by(self, store: &dyn Store) -> Failure {
        match (self, store.fenced()) {
            (Failure::Unavailable(_), Some(why)) => Failure::NotOwner(why.to_owned()),
            (failure, _) => failure,
        }
    }
}

/// The side that waits and asks; cheap to clone.
#[derive(Clone, Debug)]
pub struct Settled(Arc<State>);

/// The side that tells. Dropped untold, it lets those who wait go with nothing.
#[derive(Debug)]
pub(super) struct Teller(Option<Arc<State>>);

#[derive(Debug, Default)]
struct State {
    inside: Mutex<Inside>,
    /// Of what it writes, once it has a place.
    version: OnceLock<Version>,
}

#[derive(Debug, Default)]
struct Inside {
    told: Option<Settlement>,
    /// Nothing more will be told.
    closed: bool,
    /// Each under a number of its own. Nearly always there is one: the client.
    waiting: SmallVec<[(u32, Waker); 1]>,
    /// The number for who comes next.
    next_number: u32,
}

/// Waits for one [`State`]; known to it from the first look on.
struct Waiting<'a> {
    state: &'a State,
    number: Option<u32>,
}

/// Both sides.
pub(super) fn pair() -> (Teller, Settled) {
    let state = Arc::new(State::default());
    (Teller(Some(state.clone())), Settled(state))
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self, told: Option<Settlement>) {
        let waiting = {
            let mut inside = self.lock();
            (inside.told, inside.closed) = (told, true);
            std::mem::take(&mut inside.waiting)
        };
        for (_, waker) in waiting {
            waker.wake();
        }
    }
}

impl Future for Waiting<'_> {
    type Output = Option<Settlement>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Settlement>> {
        let mut inside = self.state.lock();
        if inside.closed {
            return Poll::Ready(inside.told.clone());
        }
        let known = self.number.and_then(|number| inside.waiting.iter_mut().find(|(other, _)| *other == number));
        match known {
            Some((_, waker)) => waker.clone_from(context.waker()),
            None => {
                let number = inside.next_number;
                inside.next_number += 1;
                inside.waiting.push((number, context.waker().clone()));
                drop(inside);
                self.number = Some(number);
            }
        }
        Poll::Pending
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut inside = self.state.lock();
        let position = inside.waiting.iter().position(|(other, _)| *other == number);
        let gone = position.map(|at| inside.waiting.swap_remove(at));
        // Outside the lock: what a waker lets go of is not known here.
        drop(inside);
        drop(gone);
    }
}

impl Settled {
    /// The version of what the commit writes; `None` as long as it has no place.
    pub fn version(&self) -> Option<Version> {
        self.0.version.get().copied()
    }

    /// The commit has its place, and with it this version.
    pub(super) fn placed(&self, version: Version) {
        let placed = self.0.version.set(version);
        debug_assert!(placed.is_ok(), "a commit has two places");
    }

    /// What was told, if anything was by now.
    pub fn told(&self) -> Option<Settlement> {
        self.0.lock().told.clone()
    }

    /// Whether [`Settled::wait`] would answer at once.
    pub fn is_closed(&self) -> bool {
        self.0.lock().closed
    }

    /// Whether it was told, and that the commit is not published: what it wrote must not be built on.
    pub fn has_failed(&self) -> bool {
        let inside = self.0.lock();
        let failed = inside.closed && !matches!(inside.told, Some(Settlement::Published(_)));
        failed && !mutation::on(Fault::OrphanCommitted)
    }

    /// Does `work` until all who waited have gone; for [`Fault::CommitDiesWithConnection`].
    pub(super) async fn while_wanted(self, work: impl Future<Output = ()>) {
        let mut work = std::pin::pin!(work);
        std::future::poll_fn(|context| {
            let deserted = {
                let inside = self.0.lock();
                inside.next_number > 0 && inside.waiting.is_empty()
            };
            if deserted { std::task::Poll::Ready(()) } else { work.as_mut().poll(context) }
        })
        .await;
    }

    /// Waits until it is told; `None` if nobody is left to tell.
    pub async fn wait(&self) -> Option<Settlement> {
        Waiting { state: &self.0, number: None }.await
    }
}

impl Teller {
    /// The side that waits; `None` once it was told.
    pub(super) fn client(&self) -> Option<Settled> {
        self.0.clone().map(Settled)
    }

    pub(super) fn tell(mut self, settlement: Settlement) {
        if let Some(state) = self.0.take() {
            state.close(Some(settlement));
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        if let Some(state) = self.0.take() {
            state.close(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn all_who_wait_are_told_and_later_askers_too() {
        let (teller, settled) = pair();
        let other = settled.clone();
        let mut waits = Box::pin(other.wait());
        assert_eq!((&mut waits).now_or_never(), None);
        assert!(settled.told().is_none() && !settled.is_closed() && !settled.has_failed());
        let landed = Settlement::Published(Landed { version: Version::ZERO, ticket: None });
        teller.tell(landed.clone());
        assert_eq!(waits.now_or_never(), Some(Some(landed)));
        assert_eq!(settled.wait().now_or_never(), Some(settled.told()));
        assert!(!settled.has_failed());
    }

    #[test]
    fn who_gives_up_waiting_is_forgotten_and_the_others_are_woken() {
        let (teller, settled) = pair();
        let (mut stays, mut goes) = (Box::pin(settled.wait()), Box::pin(settled.wait()));
        assert_eq!(((&mut goes).now_or_never(), (&mut stays).now_or_never()), (None, None));
        assert_eq!((&mut stays).now_or_never(), None, "a second look takes no second place");
        assert_eq!(settled.0.lock().waiting.len(), 2);
        drop(goes);
        assert_eq!(settled.0.lock().waiting.len(), 1);
        drop(teller);
        assert_eq!(stays.now_or_never(), Some(None));
        assert!(settled.0.lock().waiting.is_empty());
    }

    #[test]
    fn a_teller_that_gives_up_lets_them_go() {
        let (teller, settled) = pair();
        drop(teller);
        assert_eq!(settled.wait().now_or_never(), Some(None));
        assert!(settled.has_failed());
    }
}
