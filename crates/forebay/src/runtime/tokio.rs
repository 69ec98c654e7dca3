//! The server's runtime: tokio's threads, timers and tasks.
//!
//! # What takes long, where there is one thread
//! A runtime of several threads hands a thread's tasks to another thread while one of them takes long. The runtime of
//! one thread can't: so there the task that is about to take long moves to a second thread, and comes back. That thread
//! is made for the first such task.
//!
//! **Invariant.** A task moves only between two polls, and is polled at once where it has arrived. So it is at one
//! place at a time, and no waker is lost.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_channel::oneshot;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::{Backend, Runtime};

/// Where the task that is being polled is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Where it stays.
    #[default]
    Fixed,
    /// On the thread that polls the sockets, of a runtime that has one.
    Home,
    /// On the thread for what takes long.
    Aside,
}

thread_local! {
    /// The place of the task that this thread polls, and whether it has asked to move.
    static POLLED: Cell<(Place, bool)> = const { Cell::new((Place::Fixed, false)) };
}

/// The second thread; it ends when this is dropped.
struct Aside {
    handle: Handle,
    _ends: oneshot::Sender<()>,
}

impl Aside {
    /// `None`: the machine gives no thread.
    fn start() -> Option<Aside> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        let (handle, (ends, ended)) = (runtime.handle().clone(), oneshot::channel::<()>());
        let thread = std::thread::Builder::new().name("forebay-aside".into());
        thread.spawn(move || runtime.block_on(ended)).ok()?;
        Some(Aside { handle, _ends: ends })
    }
}

/// Polls `task` to its end, or to where it asks to move from `place`: then what is left of it.
async fn stay(task: BoxFuture<'static, ()>, place: Place) -> Option<BoxFuture<'static, ()>> {
    let mut task = Some(task);
    let poll = |task: &mut BoxFuture<'static, ()>, context: &mut Context<'_>| {
        let before = POLLED.replace((place, false));
        // A panic ends the task; what its thread polls next must not take its place.
        let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| task.poll_unpin(context)));
        let (_, moves) = POLLED.replace(before);
        (polled.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), moves)
    };
    poll_fn(|context| match task.as_mut().map(|task| poll(task, context)) {
        Some((Poll::Pending, true)) => Poll::Ready(task.take()),
        Some((Poll::Pending, false)) => Poll::Pending,
        Some((Poll::Ready(()), _)) | None => Poll::Ready(None),
    })
    .await
}

/// Ends a task that has moved with the one that waits for it.
struct Moved(tokio::task::JoinHandle<Option<BoxFuture<'static, ()>>>);

impl Drop for Moved {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs `task`, which may move to the thread of `aside` and back.
async fn run_movable(mut task: BoxFuture<'static, ()>, aside: std::sync::Arc<OnceLock<Option<Aside>>>) {
    while let Some(left) = stay(task, Place::Home).await {
        let Some(aside) = aside.get().and_then(Option::as_ref) else {
            debug_assert!(false, "a task asks to move only where it can");
            return;
        };
        let mut moved = Moved(aside.handle.spawn(stay(left, Place::Aside)));
        match (&mut moved.0).await {
            Ok(Some(back)) => task = back,
            Ok(None) => return,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends.
                Err(_) => return,
            },
        }
    }
}

struct Tokio {
    handle: Handle,
    /// The second thread of a runtime that has one.
    aside: std::sync::Arc<OnceLock<Option<Aside>>>,
    start: Instant,
    random: foldhash::quality::RandomState,
    drawn: std::sync::atomic::AtomicU64,
}

/// As [`Runtime::aside`], for a task of tokio's that has no handle.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    // The only flavor whose threads can hand their tasks on.
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// As [`Runtime::in_long_steps`], for a task of tokio's that has no handle.
pub async fn in_long_steps<F: Future + Unpin>(mut future: F) -> F::Output {
    poll_fn(|context| aside(|| future.poll_unpin(context))).await
}

/// The runtime of the tokio runtime that `handle` names.
pub fn runtime(handle: Handle) -> Runtime {
    Runtime::new(Tokio {
        handle,
        aside: Default::default(),
        start: Instant::now(),
        random: foldhash::quality::RandomState::default(),
        drawn: Default::default(),
    })
}

impl Backend for Tokio {
    fn now_us(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
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
        match self.handle.runtime_flavor() {
            RuntimeFlavor::CurrentThread => self.handle.spawn(run_movable(task, self.aside.clone())),
            _ => self.handle.spawn(task),
        };
    }

    fn moves(&self, aside: bool) -> bool {
        let moves = match (POLLED.get().0, aside) {
            (Place::Home, true) => self.aside.get_or_init(Aside::start).is_some(),
            (Place::Aside, false) => true,
            _ => false,
        };
        if moves {
            POLLED.set((POLLED.get().0, true));
        }
        moves
    }

    fn can_move(&self) -> bool {
        POLLED.get().0 == Place::Home
    }

    fn turn(&self) -> BoxFuture<'static, ()> {
        // Woken only after the sockets were looked at, unlike a task that wakes itself.
        Box::pin(tokio::task::yield_now())
    }

    fn aside(&self, work: &mut dyn FnMut()) {
        aside(work);
    }

    fn blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        let mut done = self.handle.spawn_blocking(work);
        Box::pin(async move {
            // On a busy core the thread may be done before anybody looks. But whoever hands work to a thread means to
            // let others run in between; group commit makes much larger groups if they do.
            match (&mut done).now_or_never() {
                Some(_) => super::yield_now().await,
                None => drop(done.await),
            }
        })
    }
}
