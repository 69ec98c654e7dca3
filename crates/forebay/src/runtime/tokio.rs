//! The server's runtime: tokio's threads, timers and tasks.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::{Backend, Runtime};

struct Tokio {
    handle: tokio::runtime::Handle,
    start: Instant,
    random: foldhash::quality::RandomState,
    drawn: std::sync::atomic::AtomicU64,
}

/// The runtime of the tokio runtime that `handle` names.
pub fn runtime(handle: tokio::runtime::Handle) -> Runtime {
    Runtime::new(Tokio {
        handle,
        start: Instant::now(),
        random: foldhash::quality::RandomState::default(),
        drawn: Default::default(),
    })
}

impl Backend for Tokio {
    fn now_ms(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn random(&self) -> u64 {
        use std::hash::BuildHasher;
        let drawn = self.drawn.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.random.hash_one((drawn, self.start.elapsed().subsec_nanos()))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let _guard = self.handle.enter();
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.handle.spawn(task);
    }

    fn turn(&self) -> BoxFuture<'static, ()> {
        // Woken only after the sockets were looked at, unlike a task that wakes itself.
        Box::pin(tokio::task::yield_now())
    }

    fn aside(&self, work: &mut dyn FnMut()) {
        use tokio::runtime::{Handle, RuntimeFlavor};
        // The only flavor whose threads can hand their tasks on.
        match Handle::try_current().map(|handle| handle.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
            _ => work(),
        }
    }

    fn blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        let mut done = self.handle.spawn_blocking(work);
        Box::pin(async move {
            // On a busy core the thread may be done before anybody looks. But whoever hands work to a thread means to
            // let others run meanwhile; group commit makes much larger groups if they do.
            match (&mut done).now_or_never() {
                Some(_) => super::yield_now().await,
                None => drop(done.await),
            }
        })
    }
}
