//! Who waits for the answer to a transaction.

use std::future::poll_fn;
use std::task::Poll;

use futures_util::task::AtomicWaker;

use crate::sync::{AtomicU64, Ordering};

/// Who waits for the answer to a transaction. When it has gone, a wait for locks or for room ends at once: others want
/// them.
#[derive(Default)]
pub struct Caller {
    /// 1 if it has gone.
    gone: AtomicU64,
    waker: AtomicWaker,
}

impl Caller {
    /// It has gone. What it asked for ends if it waits for a lock or for room, and else goes on to its end.
    pub fn leave(&self) {
        self.gone.store(1, Ordering::SeqCst);
        self.waker.wake();
    }

    /// Done when it has gone. One at a time may wait for that: it asks for one thing at a time.
    pub async fn gone(&self) {
        poll_fn(|context| {
            self.waker.register(context.waker());
            if self.gone.load(Ordering::SeqCst) == 1 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
