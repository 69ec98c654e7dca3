//! What the cache tells, on its way to the shadows: a bounded queue that never makes a client wait.
//!
//! **Invariant.** What is taken out is all that the cache told, in its order, or it is said what is missing. When the
//! queue is full the feed is *torn*: nothing more comes in until all has been taken out, and accesses are counted as
//! missed.
//!
//! A transaction of which something may be missing is known by its number. Numbers rise. So it has one that is no
//! higher than the highest that was met by the end of the tear. If a key that leaves finds no room, all keys are said
//! to have left. A shadow that keeps it would hit where the cache can't. What policies are told always finds room.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay::cache::{AccessKind, Accessed, Context, Sample, Watcher};
use forebay::hint::{HintMeaning, HintSet};
use forebay::mutation::{self, Fault};
use forebay::policy::{Access, Graph};
use futures_channel::oneshot;

use super::figures::Figures;

/// Accesses and ends of transactions that wait for the shadows.
pub const SHADOW_QUEUE_MAX: usize = 65_536;

/// What happened to a key, or to a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// It was read, and was cached.
    Hit,
    /// It was read from the store.
    Miss,
    /// It was read beside the cache, which did not hear of it.
    Beside,
    /// It was fetched ahead of need.
    Prefetch,
    /// It was written.
    Write,
    /// It was written, and what it is now is not known.
    WrittenAway,
    /// It left.
    Gone,
    /// The transaction ended.
    End,
}

/// How a transaction ended with this access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// It did not.
    No,
    Committed,
    Aborted,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    hash: u64,
    pub txn: u64,
    charged: u32,
    pub cost_us: u32,
    client: u32,
    hints: HintSet,
    txn_type: u16,
    pub level: u16,
    vertex: u16,
    pub what: What,
    pub ends: Ends,
}

/// What is seldom told, and never left out.
pub(super) enum Word {
    /// Some or all keys have left, and perhaps policies begin again.
    Cleared {
        begins_again: bool,
    },
    HintsDefined(HintSet, HintMeaning),
    GraphRegistered(u16, Arc<Graph>),
    /// What was counted up to here is asked for; `begins_again`: and it is to be counted from zero.
    Asked {
        begins_again: bool,
        answer: oneshot::Sender<Figures>,
    },
}

/// What was told since it was last taken.
#[derive(Default)]
pub(super) struct Batch {
    pub heard: Vec<Heard>,
    /// Each with its place: it comes before the access that stands there.
    pub words: Vec<(usize, Word)>,
    /// Something is missing behind the last access.
    pub tear: Option<Tear>,
}

impl Batch {
    /// Whether nothing was told.
    pub fn is_empty(&self) -> bool {
        self.heard.is_empty() && self.words.is_empty() && self.tear.is_none()
    }
}

/// What is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tear {
    /// Accesses and ends; not what left.
    pub missed: u64,
    /// Of transactions up to this number something may be missing.
    pub newest_txn: u64,
    /// Keys have left among them.
    pub gone: bool,
}

#[derive(Default)]
struct State {
    batch: Batch,
    newest_txn: u64,
    /// Nothing comes out any more.
    closed: bool,
}

/// The queue.
pub(super) struct Feed {
    state: Mutex<State>,
    queue_max: usize,
    sample: Sample,
}

impl Heard {
    fn new(hash: u64, what: What, context: &Context) -> Heard {
        Heard {
            hash,
            txn: context.txn,
            charged: 0,
            cost_us: context.cost_us,
            client: context.client,
            hints: context.hints,
            txn_type: context.txn_type,
            level: context.level,
            vertex: context.vertex,
            what,
            ends: Ends::No,
        }
    }

    /// What a policy may know of it. The size is that which the cache charges without the policy's part.
    pub fn access(&self) -> Access {
        let kind = match self.what {
            What::Write | What::WrittenAway => AccessKind::Write,
            What::Prefetch => AccessKind::Prefetch,
            What::Hit | What::Miss | What::Beside | What::Gone | What::End => AccessKind::Read,
        };
        let Heard { txn, cost_us, client, hints, txn_type, level, vertex, .. } = *self;
        let plain = Access::read(self.hash, self.charged);
        Access { kind, txn, cost_us, client, hints, txn_type, level, vertex, ..plain }
    }
}

impl Feed {
    pub fn new(queue_max: usize, sample: Sample) -> Feed {
        Feed { state: Mutex::default(), queue_max, sample }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, heard: Heard) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        state.newest_txn = state.newest_txn.max(heard.txn);
        let newest_txn = state.newest_txn;
        let Batch { heard: queue, tear, .. } = &mut state.batch;
        if tear.is_some() || queue.len() >= self.queue_max {
            if mutation::on(Fault::ShadowsTornUnsaid) {
                return;
            }
            let tear = tear.get_or_insert_default();
            // What left is no access: the shadows lose it by being emptied.
            tear.missed += u64::from(heard.what != What::Gone);
            tear.gone |= matches!(heard.what, What::Gone | What::WrittenAway);
            tear.newest_txn = newest_txn;
            return;
        }
        queue.push(heard);
    }

    /// The end of a transaction; with its last access, if that came just before.
    fn end(&self, context: &Context, committed: bool) {
        let ends = if committed { Ends::Committed } else { Ends::Aborted };
        let mut state = self.lock();
        let Batch { heard, tear, .. } = &mut state.batch;
        if let Some(last) = heard.last_mut().filter(|last| last.txn == context.txn && last.ends == Ends::No)
            && tear.is_none()
        {
            last.ends = ends;
            return;
        }
        drop(state);
        self.add(Heard { ends, ..Heard::new(0, What::End, context) });
    }

    /// What is never left out; false if nothing comes out any more.
    pub fn say(&self, word: Word) -> bool {
        let mut state = self.lock();
        if !state.closed {
            let place = state.batch.heard.len();
            state.batch.words.push((place, word));
        }
        !state.closed
    }

    /// All that was told. `emptied` is what was taken before, to be filled again.
    pub fn take(&self, mut emptied: Batch) -> Batch {
        emptied.heard.clear();
        emptied.words.clear();
        emptied.tear = None;
        let mut state = self.lock();
        // What was asked for behind a tear comes with it.
        std::mem::replace(&mut state.batch, emptied)
    }

    /// Nothing is taken any more: what waits is dropped, and those who asked hear so.
    pub fn close(&self) {
        let mut state = self.lock();
        (state.closed, state.batch) = (true, Batch::default());
    }

    /// Bytes that the queue may take, twice as much as it holds, since what was taken out is kept while it is heard.
    pub fn bytes_max(&self) -> usize {
        2 * self.queue_max * size_of::<Heard>()
    }
}

impl Watcher for Feed {
    fn sample(&self) -> Sample {
        self.sample
    }

    fn accessed(&self, accessed: &Accessed<'_>) {
        let what = match accessed.kind {
            Some(AccessKind::Read) if accessed.hit => What::Hit,
            Some(AccessKind::Read) if accessed.beside => What::Beside,
            Some(AccessKind::Read) => What::Miss,
            Some(AccessKind::Prefetch) => What::Prefetch,
            Some(AccessKind::Write) if accessed.charged.is_some() => What::Write,
            Some(AccessKind::Write) => What::WrittenAway,
            // No command makes one.
            Some(AccessKind::Demote) => return,
            None => What::Gone,
        };
        let hash = accessed.key.hash64();
        if !self.sample.has(hash) {
            return;
        }
        if mutation::on(Fault::ShadowsMissAccesses) && hash.is_multiple_of(4) {
            return;
        }
        if mutation::on(Fault::ShadowsKeepGone) && what == What::Gone {
            return;
        }
        let charged = accessed.charged.unwrap_or(0);
        // Of a sample no transaction is whole.
        let txn = if self.sample == Sample::ALL { accessed.context.txn } else { 0 };
        self.add(Heard { charged, txn, ..Heard::new(hash, what, accessed.context) });
    }

    fn ended(&self, context: &Context, committed: bool) {
        if self.sample == Sample::ALL {
            self.end(context, committed);
        }
    }

    fn hints_defined(&self, set: HintSet, meaning: &HintMeaning) {
        self.say(Word::HintsDefined(set, meaning.clone()));
    }

    fn graph_registered(&self, txn_type: u16, graph: &Arc<Graph>) {
        self.say(Word::GraphRegistered(txn_type, graph.clone()));
    }

    fn cleared(&self, begins_again: bool) {
        self.say(Word::Cleared { begins_again });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(feed: &Feed, txn: u64, hash: u64) {
        feed.add(Heard::new(hash, What::Hit, &Context { txn, ..Context::default() }));
    }

    fn end(feed: &Feed, txn: u64) {
        feed.end(&Context { txn, ..Context::default() }, true);
    }

    #[test]
    fn an_end_comes_with_the_last_access_of_its_transaction() {
        let feed = Feed::new(8, Sample::ALL);
        read(&feed, 1, 10);
        end(&feed, 1);
        read(&feed, 2, 20);
        read(&feed, 3, 30);
        end(&feed, 2);
        let batch = feed.take(Batch::default());
        let told: Vec<_> = batch.heard.iter().map(|heard| (heard.txn, heard.what, heard.ends)).collect();
        let expected = [
            (1, What::Hit, Ends::Committed),
            (2, What::Hit, Ends::No),
            (3, What::Hit, Ends::No),
            (2, What::End, Ends::Committed),
        ];
        assert_eq!(told, expected);
        assert!(batch.tear.is_none());
    }

    /// Once something is missing, all is until the queue was taken: what comes later does not pass for complete.
    #[test]
    fn a_full_queue_is_torn_until_it_is_taken() {
        let feed = Feed::new(2, Sample::ALL);
        (1..=5).for_each(|txn| read(&feed, txn, txn));
        feed.say(Word::Cleared { begins_again: false });
        end(&feed, 5);
        let batch = feed.take(Batch::default());
        assert_eq!((batch.heard.len(), batch.words.len()), (2, 1));
        assert_eq!(batch.tear, Some(Tear { missed: 4, newest_txn: 5, gone: false }));
        read(&feed, 6, 6);
        let batch = feed.take(batch);
        assert_eq!((batch.heard.len(), batch.tear), (1, None));
        let none = Context::default();
        (0..2).for_each(|hash| feed.add(Heard::new(hash, What::Hit, &none)));
        feed.add(Heard::new(9, What::Gone, &none));
        assert!(feed.take(Batch::default()).tear.is_some_and(|tear| tear.gone), "a key that left is never forgotten");
    }

    #[test]
    fn a_tear_that_is_not_said_is_found() {
        let _on = mutation::put_back(Some(Fault::ShadowsTornUnsaid));
        assert!(std::panic::catch_unwind(a_full_queue_is_torn_until_it_is_taken).is_err());
    }

    #[test]
    fn a_closed_feed_takes_nothing() {
        let feed = Feed::new(2, Sample::ALL);
        feed.close();
        read(&feed, 1, 1);
        let (answer, asked) = oneshot::channel();
        assert!(!feed.say(Word::Asked { begins_again: false, answer }));
        drop(asked);
        assert!(feed.take(Batch::default()).heard.is_empty());
    }
}
