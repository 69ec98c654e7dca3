//! Timers that are finer than a millisecond: a store's distance of 1 ms must not become two by rounding.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use forebay::runtime::{Backend, Runtime};
use futures_channel::oneshot;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

/// When, and which is to be woken, by a number into those that wait.
type Sleeper = (Instant, oneshot::Sender<()>);

/// A runtime like `inner`, whose timers a thread of its own looks after.
pub fn runtime(inner: Runtime) -> Runtime {
    let (sleepers, asleep) = channel();
    std::thread::spawn(move || wake(&asleep));
    Runtime::new(Precise { inner, sleepers })
}

struct Precise {
    inner: Runtime,
    sleepers: Sender<Sleeper>,
}

fn wake(asleep: &Receiver<Sleeper>) {
    let mut due: BinaryHeap<Reverse<(Instant, u64)>> = BinaryHeap::new();
    let mut wakers = std::collections::HashMap::new();
    for number in 0.. {
        let next = due.peek().map(|Reverse((at, _))| at.saturating_duration_since(Instant::now()));
        let sleeper = match next {
            None => asleep.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(pause) => asleep.recv_timeout(pause),
        };
        match sleeper {
            Ok((at, waker)) => {
                due.push(Reverse((at, number)));
                wakers.insert(number, waker);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        while let Some(Reverse((at, number))) = due.peek().copied() {
            if at > Instant::now() {
                break;
            }
            due.pop();
            // One that has gone need not be woken.
            let _ = wakers.remove(&number).map(|waker: oneshot::Sender<()>| waker.send(()));
        }
    }
}

impl Backend for Precise {
    fn now_us(&self) -> u64 {
        self.inner.now_us()
    }

    fn elapsed(&self) -> Duration {
        self.inner.elapsed()
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let (waker, woken) = oneshot::channel();
        // The thread ends with this runtime, not before.
        let _ = self.sleepers.send((Instant::now() + duration, waker));
        Box::pin(woken.map(|_| ()))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.inner.spawn(task);
    }

    fn blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        let inner = self.inner.clone();
        Box::pin(async move { inner.blocking(work).await })
    }
}
