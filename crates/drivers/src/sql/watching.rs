//! How what other programs write to a database is seen.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay::Key;
use forebay::store::Outside;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::mapping::VersionMode;
use super::table::Table;

/// How what others write is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutsideBy {
    /// By triggers that note it, in tables that have them (`forebay store init`).
    #[default]
    Triggers,
    /// Out of the server's log, by logical decoding: in all mapped tables, at no cost to the writers.
    Decoding,
    /// By decoding where server, role and tables allow it, else by triggers.
    Auto,
    /// Not at all: it is noticed when a commit checks what it has read.
    Off,
}

/// How long nobody may know what others write until all that is cached is suspect, again and again until it is known.
pub(crate) const SUSPECT: Duration = Duration::from_secs(1);

/// Wait behind a look that failed. A server that stops ends its connections one by one: by then it is known to be away,
/// and what is cached is not dropped when it is about to be all there is.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Own transactions that are remembered, so that what they wrote is not taken for another's.
const OWN_MAX: usize = 16_384;

/// Who wants to know that all of before is told. A number is asked for by any number of callers; a look answers the
/// greatest that was asked for when it began, so those that come while it is under way share the next.
#[derive(Default)]
pub(crate) struct Asked {
    newest: AtomicU64,
    answered: AtomicU64,
    /// Answered by the last look, and not told yet; 0: none.
    due: AtomicU64,
    woken: Notify,
}

impl Asked {
    /// Has the next look come soon; the number that it will have.
    pub(crate) fn one(&self) -> u64 {
        let number = self.newest.fetch_add(1, Ordering::SeqCst) + 1;
        self.woken.notify_one();
        number
    }

    /// The number that a look which begins now will answer.
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Ordering::SeqCst)
    }

    /// Whether a look that began with the number `newest` has somebody waiting for it.
    pub(crate) fn is_wanted(&self, newest: u64) -> bool {
        newest > self.answered.load(Ordering::SeqCst)
    }

    /// A look that began when `newest` was the newest has ended well.
    pub(crate) fn answered(&self, newest: u64) {
        if self.is_wanted(newest) {
            self.answered.store(newest, Ordering::SeqCst);
            self.due.store(newest, Ordering::SeqCst);
        }
    }

    /// What is to be told behind what the last look has found.
    pub(crate) fn told(&self) -> Option<Outside> {
        Some(self.due.swap(0, Ordering::SeqCst)).filter(|number| *number > 0).map(Outside::Synced)
    }

    /// Waits until somebody asks, at most so long.
    pub(crate) async fn rest(&self, at_most: Duration) {
        let asked = async {
            while !self.is_wanted(self.newest()) {
                self.woken.notified().await;
            }
        };
        let _ = timeout(at_most, asked).await;
    }
}

/// Mapped tables to which others may write and nothing says so.
#[derive(Default)]
pub(crate) struct Unwatched {
    /// Each table's once.
    pub(crate) names: Vec<String>,
    /// By the number of each mapped table its place among the names.
    pub(crate) places: Vec<Option<usize>>,
}

impl Unwatched {
    pub(crate) fn of(tables: &[Table], by: OutsideBy) -> Unwatched {
        let mut unwatched = Unwatched::default();
        for table in tables {
            let watched = match by {
                OutsideBy::Decoding => true,
                OutsideBy::Triggers | OutsideBy::Auto => table.mapping.version != VersionMode::None,
                OutsideBy::Off => false,
            };
            let place = (!watched).then(|| {
                let known = unwatched.names.iter().position(|name| *name == table.name);
                known.unwrap_or_else(|| {
                    unwatched.names.push(table.name.clone());
                    unwatched.names.len() - 1
                })
            });
            unwatched.places.push(place);
        }
        unwatched
    }

    /// Says so in the log, unless nobody wanted them to be watched.
    pub(crate) fn warn(&self, by: OutsideBy) {
        for table in self.names.iter().filter(|_| by != OutsideBy::Off) {
            tracing::warn!(
                table,
                "nothing tells what other programs write to this table: cached rows are compared with it as often \
                 as --unwatched-ms says; run forebay store init, or give --outside decoding"
            );
        }
    }
}

/// Our own transactions and what they wrote.
#[derive(Default)]
pub(crate) struct Own {
    /// Sorted: a batch of the drain is a transaction that writes a thousand.
    keys: HashMap<u64, Vec<Key>>,
    order: VecDeque<u64>,
}

impl Own {
    pub(crate) fn add(&mut self, number: u64, mut keys: Vec<Key>) {
        keys.sort_unstable();
        self.keys.insert(number, keys);
        self.order.push_back(number);
        if self.order.len() > OWN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.keys.remove(&oldest);
        }
    }

    pub(crate) fn was_ours(&self, number: u64, key: &Key) -> bool {
        self.keys.get(&number).is_some_and(|keys| keys.binary_search(key).is_ok())
    }
}

/// How many keys are told.
pub(crate) fn told_keys(outside: &Outside) -> usize {
    match outside {
        Outside::Keys(keys) => keys.len(),
        _ => 0,
    }
}
