//! Up to which version all is published: as of when a document holds that a client keeps (`txn/leasing.rs`).

use super::Committer;
use crate::mutation::{self, Fault};
use crate::sync::Ordering;
use crate::version::Version;

impl Committer {
    /// The version of a clearing, whose spaces are locked and quiet. It is at work until [`Committer::end_clearing`].
    pub(in crate::txn) fn begin_clearing(&self) -> Version {
        let mut queue = self.queue();
        let version = self.mint.next();
        if !mutation::on(Fault::LeaseForgetsClearing) {
            queue.at_work.insert(version);
        }
        version
    }

    /// The clearing of this version has emptied store and cache, or has failed.
    pub(in crate::txn) fn end_clearing(&self, version: Version) {
        self.queue().at_work.remove(&version);
    }

    /// A version up to which all is published, and at or below which nothing will be; `None` where that is not known.
    ///
    /// A commit with a place got its version under the queue's lock, so it is among those that are at work, or is over.
    /// Over a store that never waits a commit gets it while it holds the shards of its keys, and publishes before it
    /// gives them up: it is over when each shard has been free once.
    pub(in crate::txn) fn as_of(&self) -> Option<Version> {
        let caps = self.store.caps();
        if !caps.owned || !caps.ordered {
            return None;
        }
        let (newest, least) = {
            let queue = self.queue();
            (self.mint.newest(), queue.least_at_work())
        };
        if mutation::on(Fault::LeaseAheadOfPlaced) {
            return Some(newest);
        }
        if self.store.commits_now()
            && self.passed.load(Ordering::Acquire) < newest.sequence
            && !mutation::on(Fault::LeaseOverlooksAtOnce)
        {
            self.locks.pass();
            self.passed.fetch_max(newest.sequence, Ordering::AcqRel);
        }
        Some(least.map_or(newest, |least| least.before().min(newest)))
    }
}
