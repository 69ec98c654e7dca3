//! Clock, timers, randomness and tasks, through one small handle: tokio's in the server, a seeded single-threaded
//! executor with virtual time in the simulation. Nothing on a request's path asks the machine for any of these itself.
//! [`files`] are those that an operator names.

pub mod files;
pub mod simulated;
#[cfg(feature = "tokio")]
pub mod tokio;

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::BoxFuture;

/// A handle to the runtime; cheap to clone.
#[derive(Clone)]
pub struct Runtime(Arc<dyn Backend>);

/// What a runtime has to offer.
pub trait Backend: Send + Sync + 'static {
    /// Wall clock, us since the Unix epoch. It may jump, and go back.
    fn now_us(&self) -> u64;
    /// Time since some fixed moment; never goes back.
    fn elapsed(&self) -> Duration;
    /// 64 random bits.
    fn random(&self) -> u64;
    /// Done after `duration`.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
    /// Runs `task` beside the caller, to its end, even if the caller is gone.
    fn spawn(&self, task: BoxFuture<'static, ()>);
    /// Lets all others run that can, and those whose sockets have something for them.
    fn turn(&self) -> BoxFuture<'static, ()> {
        Box::pin(yield_now())
    }
    /// Does `work`, which takes long, now; other tasks go on where there is another thread for them.
    fn aside(&self, work: &mut dyn FnMut()) {
        work();
    }
    /// Has the task that is being polled go on where no other waits for it, or back from there, once it is pending;
    /// false if it is there, or stays where it is.
    fn moves(&self, _aside: bool) -> bool {
        false
    }
    /// Whether the task that is being polled would have others wait, and can leave.
    fn can_move(&self) -> bool {
        false
    }
    /// Runs `work`, which may block, where it holds up no task; done when it is done.
    fn blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()>;
}

/// Lets the tasks run that can run now, each once; waits for nothing else. On any runtime whose tasks take turns.
pub async fn yield_now() {
    let mut given = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        // A task that wakes itself goes to the end of the line.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Runtime {
    /// A handle to `backend`.
    pub fn new(backend: impl Backend) -> Runtime {
        Runtime(Arc::new(backend))
    }

    /// Wall clock, ms since the Unix epoch.
    pub fn now_ms(&self) -> u64 {
        self.0.now_us() / 1000
    }

    /// Wall clock, us since the Unix epoch. It may jump, and go back.
    pub fn now_us(&self) -> u64 {
        self.0.now_us()
    }

    /// Time since some fixed moment; never goes back.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// 64 random bits.
    pub fn random(&self) -> u64 {
        self.0.random()
    }

    /// Done after `duration`.
    pub fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(duration)
    }

    /// Runs `task` beside the caller, to its end, even if the caller is gone.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(Box::pin(task));
    }

    /// Lets others have their turn in the middle of what takes long: all that can run, and those whose sockets have
    /// something for them.
    pub async fn turn(&self) {
        self.0.turn().await;
    }

    /// Does `work`, which takes long and can't be interrupted, now. The thread's other tasks go on on another thread,
    /// if the runtime has several.
    pub fn aside<T>(&self, work: impl FnOnce() -> T) -> T {
        let (mut work, mut done) = (Some(work), None);
        self.0.aside(&mut || done = work.take().map(|work| work()));
        match done {
            Some(done) => done,
            None => unreachable!("a backend does the work, once"),
        }
    }

    /// What the task does from here on takes long: where the runtime has one thread, it goes on on another, until
    /// [`Runtime::come_back`]. Where there are several, [`Runtime::aside`] does what is needed.
    pub async fn leave(&self) {
        std::future::poll_fn(|_| if self.0.moves(true) { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    /// The end of what takes long.
    pub async fn come_back(&self) {
        std::future::poll_fn(|_| if self.0.moves(false) { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    /// Whether [`Runtime::leave`] would do anything now.
    pub fn can_leave(&self) -> bool {
        self.0.can_move()
    }

    /// As `future`, each step of which takes long: its steps are done where no other task waits for them.
    pub async fn in_long_steps<F: Future + Unpin>(&self, mut future: F) -> F::Output {
        self.leave().await;
        let done = std::future::poll_fn(|context| self.aside(|| std::pin::Pin::new(&mut future).poll(context))).await;
        self.come_back().await;
        done
    }

    /// Drops `what`, which takes long, where it holds up no task; at some moment.
    pub fn drop_elsewhere<T: Send + 'static>(&self, what: T) {
        drop(self.0.blocking(Box::new(move || drop(what))));
    }

    /// Runs `work`, which may block, where it holds up no task. A runtime that has ended begins no work: then this is
    /// never done, as a wait of a task that ends with it.
    ///
    /// # Panics
    /// Resumes a panic of `work` in the caller.
    pub async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, receiver) = futures_channel::oneshot::channel();
        let run = move || {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            let _ = sender.send(result);
        };
        self.0.blocking(Box::new(run)).await;
        match receiver.await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // The work was dropped before it began.
            Err(_) => std::future::pending().await,
        }
    }
}
