//! Look-ahead over a pipelined batch. What its commands will miss is fetched in one store round trip before the first
//! of them runs, as far as it is not much. What was fetched waits in open fills. Cache and policy see it when its
//! command runs, in command order. If a commit ends the fill before that, the command reads the store again.

use std::collections::BTreeMap;

use super::Inner;
use super::long::Long;
use crate::cache::{AccessKind, Begin, Context, Fill};
use crate::key::Key;
use crate::read::Read;
use crate::store::portion::PORTION_BYTES_MAX;

/// Documents that were fetched before their commands run.
#[derive(Default)]
pub struct Ahead {
    /// In order, so that what is left of it ends in one order in every run of a seed.
    fetched: BTreeMap<Key, (Fill, Read)>,
    cost_us: u32,
    /// There was no more than is fetched at a time.
    whole: bool,
}

impl Ahead {
    /// Fetches those of `keys` that are not cached and that nobody fetches, from the first on and a portion at most:
    /// what was fetched is held until its command runs. A store that fails here fails again for the command, which then
    /// answers for it.
    pub(super) async fn fetch(inner: &Inner, keys: &[Key]) -> Ahead {
        let mut wanted = Vec::new();
        let mut fills = Vec::new();
        for key in keys {
            // A long one is fetched by its command, which waits for its turn first.
            let long = inner.long.bytes_of(std::slice::from_ref(key)) > 0;
            if long || inner.cache.peek(key.borrow()).is_some() {
                continue;
            }
            if let Begin::Lead(fill) = inner.cache.begin_fill(key) {
                wanted.push(key.clone());
                fills.push(fill);
            }
        }
        let mut ahead = Ahead::of_nothing();
        if wanted.is_empty() {
            return ahead;
        }
        let asked = inner.runtime.elapsed();
        let Ok(reads) = inner.store.get_within(&wanted, PORTION_BYTES_MAX).await else { return ahead };
        let long = |read: &Read| Long::is_long(read.value.as_ref());
        ahead.whole = reads.len() == wanted.len() || reads.first().is_some_and(long);
        inner.committer.follow_incarnation();
        ahead.cost_us = (inner.runtime.elapsed() - asked).as_micros().min(u128::from(u32::MAX)) as u32;
        for ((key, fill), read) in wanted.into_iter().zip(fills).zip(reads) {
            inner.long.note(key.borrow(), read.value.as_ref());
            // Were one that is long kept here, it would be while its command waits for locks.
            if !long(&read) && fill.fetched(&read) {
                inner.was_current(&key, asked);
                ahead.fetched.insert(key, (fill, read));
            }
        }
        ahead
    }

    /// Where there is nothing to be fetched.
    pub fn of_nothing() -> Ahead {
        Ahead { whole: true, ..Ahead::default() }
    }

    /// Whether all that was fetched is used up, and there may be more to fetch.
    pub fn is_used_up(&self) -> bool {
        !self.whole && self.fetched.is_empty()
    }

    /// Gives up what is not used: its command has to wait for others, which may want it.
    pub(super) fn give_up(&mut self) {
        if !self.fetched.is_empty() {
            (self.fetched, self.whole) = (BTreeMap::new(), false);
        }
    }

    /// What was fetched for `key`, which is locked now, if nothing was committed to it since before the fetch; it goes
    /// into the cache.
    pub(super) fn take(&mut self, key: &Key, context: &Context) -> Option<Read> {
        let (fill, read) = self.fetched.remove(key)?;
        let context = Context { cost_us: self.cost_us, ..*context };
        fill.complete(&read, &context, AccessKind::Read).then_some(read)
    }
}
