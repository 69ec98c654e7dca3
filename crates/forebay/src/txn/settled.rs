//! What became of a commit, told once to any number of those who wait for it or ask.

use std::sync::{Arc, PoisonError};

use futures_channel::oneshot;

use crate::mutation::{self, Fault};
use crate::sync::{Mutex, MutexGuard};
use crate::version::{TxnId, Version};

/// What became of a commit, as those who wait for it are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// Applied and published under this version.
    Published(Version),
    /// Not applied, for this reason.
    Failed(Failure),
    /// The store can't say.
    Unknown(TxnId),
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
}

#[derive(Debug, Default)]
struct Inside {
    told: Option<Settlement>,
    /// Nothing more will be told.
    closed: bool,
    waiting: Vec<oneshot::Sender<()>>,
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
        for waiting in waiting {
            let _ = waiting.send(());
        }
    }
}

impl Settled {
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
                let waiting = &self.0.lock().waiting;
                !waiting.is_empty() && waiting.iter().all(oneshot::Sender::is_canceled)
            };
            if deserted { std::task::Poll::Ready(()) } else { work.as_mut().poll(context) }
        })
        .await;
    }

    /// Waits until it is told; `None` if nobody is left to tell.
    pub async fn wait(&self) -> Option<Settlement> {
        let woken = {
            let mut inside = self.0.lock();
            if inside.closed {
                return inside.told.clone();
            }
            let (sender, woken) = oneshot::channel();
            inside.waiting.push(sender);
            woken
        };
        let _ = woken.await;
        self.told()
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
        teller.tell(Settlement::Published(Version::ZERO));
        assert_eq!(waits.now_or_never(), Some(Some(Settlement::Published(Version::ZERO))));
        assert_eq!(settled.wait().now_or_never(), Some(settled.told()));
        assert!(!settled.has_failed());
    }

    #[test]
    fn a_teller_that_gives_up_lets_them_go() {
        let (teller, settled) = pair();
        drop(teller);
        assert_eq!(settled.wait().now_or_never(), Some(None));
        assert!(settled.has_failed());
    }
}
