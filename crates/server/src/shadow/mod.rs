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
mod figures;
mod judged;
mod task;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures_channel::oneshot;

pub use advice::{Waits, advice};
pub use feed::SHADOW_QUEUE_MAX;
use feed::{Feed, Word};
pub use figures::{Figures, Row};
pub use judged::{SHADOW_POLICIES_MAX, ShadowOptions};
pub use task::start;

/// The shadows of a server; none as long as they were not started.
#[derive(Default)]
pub struct Shadows {
    feed: OnceLock<Arc<Feed>>,
    latest: Arc<Mutex<Option<Figures>>>,
}

impl Shadows {
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
