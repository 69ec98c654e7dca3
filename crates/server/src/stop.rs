//! The one request to stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A request to stop, which any number may wait for.
#[derive(Default)]
pub struct Stop {
    stopping: AtomicBool,
    wakers: Mutex<Vec<futures_channel::oneshot::Sender<()>>>,
}

impl Stop {
    /// Asks everyone to stop.
    pub fn set(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        let wakers = std::mem::take(&mut *self.wakers.lock().unwrap_or_else(PoisonError::into_inner));
        for waker in wakers {
            let _ = waker.send(());
        }
    }

    /// Whether it was asked for.
    pub fn is_set(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Done when it is asked for.
    pub async fn wait(&self) {
        let (sender, receiver) = futures_channel::oneshot::channel();
        {
            let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
            if self.is_set() {
                return;
            }
            // Those that no longer wait make room.
            wakers.retain(|waker| !waker.is_canceled());
            wakers.push(sender);
        }
        let _ = receiver.await;
    }
}
