//! Numbers of transactions that run in one go, for whoever follows transactions: a policy that scores them (DeToX), a
//! recorded trace, a count of transactional hits. Where nobody does they are all 0 and cost one relaxed load.

use super::published::Reads;
use super::{Engine, Inner};
use crate::cache::Context;
use crate::key::KeyRef;
use crate::sync::Ordering;

impl Engine {
    /// What is read of each of `keys`: a transaction of its own, unless the caller gave it a number, and ends it.
    pub(super) fn look_and_end(&self, keys: &[KeyRef<'_>], context: &Context) -> Option<Reads> {
        let numbered = self.inner.numbered(context);
        let reads = self.look_at_all(keys, &numbered.context)?;
        numbered.end(&self.inner, true);
        Some(reads)
    }

    /// A number for a transaction that its caller ends with [`Engine::ended`]; 0 where nobody follows transactions.
    pub fn number(&self) -> u64 {
        match self.inner.cache.follows_transactions() {
            true => self.inner.next_owner.fetch_add(1, Ordering::Relaxed),
            false => 0,
        }
    }

    /// All accesses of a transaction whose number the caller has are over.
    pub fn ended(&self, context: &Context, committed: bool) {
        self.inner.cache.ended(context, committed);
    }
}

/// The context of a transaction that runs in one go.
pub(super) struct Numbered {
    pub(super) context: Context,
    /// It has its number from here, so its end is told here.
    ends: bool,
}

impl Inner {
    /// `context` with a transaction's number, where that is wanted and the caller has not given one.
    pub(super) fn numbered(&self, context: &Context) -> Numbered {
        match context.txn == 0 && self.cache.follows_transactions() {
            true => {
                let txn = self.next_owner.fetch_add(1, Ordering::Relaxed);
                Numbered { context: Context { txn, ..*context }, ends: true }
            }
            false => Numbered { context: *context, ends: false },
        }
    }
}

impl Numbered {
    pub(super) fn end(&self, inner: &Inner, committed: bool) {
        if self.ends {
            inner.cache.ended(&self.context, committed);
        }
    }
}
