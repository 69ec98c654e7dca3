//! Has the shadows hear, on a thread that no client waits for.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use forebay::cache::{Cache, Watcher};
use forebay::runtime::Runtime;

use super::feed::{Batch, Feed, Heard, SHADOW_QUEUE_MAX};
use super::figures::Figures;
use super::judged::{Judged, ShadowOptions};
use crate::state::Shared;

/// How often what was told is taken out.
const DRAIN_PAUSE: Duration = Duration::from_millis(20);

/// How often figures are made that no client has asked for.
const FIGURES_PAUSE: Duration = Duration::from_secs(1);

/// One so-manyth of what shadows may take is the queue's, if that is less than [`SHADOW_QUEUE_MAX`] accesses take.
const QUEUE_SHARE: usize = 4;

/// The queue holds so many accesses in any case.
const QUEUE_MIN: usize = 4_096;

/// Has shadows follow the cache of `shared` from now on. To be called once, before clients are served: labels and
/// graphs that the cache knows by then are not known to them.
pub fn start(shared: &Arc<Shared>, options: &ShadowOptions) {
    let queue_max = options.bytes_max / QUEUE_SHARE / 2 / size_of::<Heard>();
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
