//! Shadows: caches without values that hear what the live cache hears, of other policies and sizes. CACHE ADVISE says
//! what they would have saved.
//!
//! ```text
//! cache -> feed.rs, under a partition's lock: a bounded queue -> judged.rs, on a thread that no client waits for
//! CACHE ADVISE -> a word in the same queue -> Figures, as of all that was told before -> advice.rs: lines
//! ```
//!
//! As a rule nothing is sampled. A sample of keys has no whole transactions. A sample of transactions has the popular
//! keys of all, and some of the others. So no size stands for the size of the whole. What shadows take is bounded
//! otherwise: while it is too much, those of the largest size go, and are said to have gone. Where an operator wants a
//! sample of keys, hits of reads are told, and nothing of transactions. Hits of other keys then cost nothing.

mod advice;
mod feed;
mod judged;

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use forebay::cache::{Cache, Sample, Watcher};
use forebay::policy::Choice;
use forebay::runtime::Runtime;
use futures_channel::oneshot;

use crate::state::Shared;
pub use advice::{Waits, advice};
pub use feed::SHADOW_QUEUE_MAX;
use feed::{Batch, Feed, Word};
use judged::Judged;
pub use judged::{Figures, Row, SHADOW_POLICIES_MAX};

/// How often what was told is taken out.
const DRAIN_PAUSE: Duration = Duration::from_millis(20);

/// How often figures are made that no client has asked for.
const FIGURES_PAUSE: Duration = Duration::from_secs(1);

/// One so-manyth of what shadows may take is the queue's, if that is less than [`SHADOW_QUEUE_MAX`] accesses take.
const QUEUE_SHARE: usize = 4;

/// The queue holds so many accesses in any case.
const QUEUE_MIN: usize = 4_096;

/// What shadows are made with.
#[derive(Clone, Debug)]
pub struct ShadowOptions {
    /// The policies to compare, at most [`SHADOW_POLICIES_MAX`].
    pub policies: Vec<Choice>,
    /// What the server runs.
    pub present: Choice,
    /// The server's `--memory`, in bytes: sizes are told as multiples of it.
    pub memory: u64,
    /// What shadows and their queue may take, in bytes.
    pub bytes_max: usize,
    /// Of which keys they hear; policies that follow transactions need all.
    pub sample: Sample,
}

/// The shadows of a server; none as long as they were not started.
#[derive(Default)]
pub struct Shadows {
    feed: OnceLock<Arc<Feed>>,
    latest: Arc<Mutex<Option<Figures>>>,
}

impl Shadows {
    /// Has shadows follow the cache of `shared` from now on. To be called once, before clients are served: labels and
    /// graphs that the cache knows by then are not known to them.
    pub fn start(shared: &Arc<Shared>, options: &ShadowOptions) {
        let queue_max = options.bytes_max / QUEUE_SHARE / 2 / size_of::<feed::Heard>();
        let feed = Arc::new(Feed::new(queue_max.clamp(QUEUE_MIN, SHADOW_QUEUE_MAX), options.sample));
        if shared.shadows.feed.set(feed.clone()).is_err() {
            return;
        }
        let (cache, runtime) = (shared.engine.cache().clone(), shared.engine.runtime().clone());
        let bytes_max = options.bytes_max.saturating_sub(feed.bytes_max());
        let judged = Judged::new(&ShadowOptions { bytes_max, ..options.clone() }, &cache, runtime.elapsed());
        let watcher: Arc<dyn Watcher> = feed.clone();
        cache.watch(watcher.clone());
        let (weak, latest) = (Arc::downgrade(shared), shared.shadows.latest.clone());
        let task = Task { shared: weak, feed, watcher, cache, runtime: runtime.clone(), latest };
        runtime.spawn(task.run(judged));
    }

    /// Counts from zero, with the other figures of the server.
    pub fn begin_again(&self) {
        if let Some(feed) = self.feed.get() {
            feed.say(Word::Asked { begins_again: true, answer: oneshot::channel().0 });
        }
    }

    /// What they knew about a second ago, or when clients were last at work; `None`: nothing yet.
    pub fn latest(&self) -> Option<Figures> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What they know of all that was told so far; `None`: there are none. With `begins_again` it is counted from zero
    /// from here on.
    pub async fn figures(&self, begins_again: bool) -> Option<Figures> {
        let (answer, asked) = oneshot::channel();
        self.feed.get()?.say(Word::Asked { begins_again, answer });
        asked.await.ok()
    }
}

/// Has the shadows hear.
struct Task {
    shared: Weak<Shared>,
    feed: Arc<Feed>,
    watcher: Arc<dyn Watcher>,
    cache: Cache,
    runtime: Runtime,
    latest: Arc<Mutex<Option<Figures>>>,
}

impl Task {
    /// As long as the server is there.
    async fn run(self, mut judged: Judged) {
        let (mut batch, mut made) = (Batch::default(), Duration::ZERO);
        // At its end, or should it panic, those who ask hear that there are no shadows.
        while self.shared.strong_count() > 0 {
            self.runtime.sleep(DRAIN_PAUSE).await;
            batch = self.feed.take(batch);
            if batch.is_empty() {
                continue;
            }
            let (cache, now) = (self.cache.clone(), self.runtime.elapsed());
            let latest = (now.saturating_sub(made) >= FIGURES_PAUSE).then(|| self.latest.clone());
            if latest.is_some() {
                made = now;
            }
            let heard = self.runtime.blocking(move || {
                judged.hear(&mut batch, &cache, now);
                if let Some(latest) = latest {
                    *latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(judged.figures(&cache, now));
                }
                (judged, batch)
            });
            (judged, batch) = heard.await;
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.cache.unwatch(&self.watcher);
        self.feed.close();
    }
}
