//! A command or script over a store that never waits, while nothing stands in its way: from its reads to its
//! publication in one go.
//!
//! It holds the shards of the lock table in which its keys lie instead of locks in them. Nobody else gets a lock of its
//! keys meanwhile, and it begins only when none of them is locked, wanted or has a result beside it: so it is as if it
//! had locked them all at once, and nobody can tell the difference but by the time it takes. Whatever else is the case
//! is [`Engine::execute`]'s.

use smallvec::SmallVec;

use super::documents::Documents;
use super::group::Now;
use super::history::Record;
use super::placed::Caching;
use super::{Engine, Inner, OnWrite, TxnError, Wanted};
use crate::cache::{Context, Look};
use crate::key::KEY_BYTES_MAX;
use crate::store::Commit;
use crate::value::Value;
use crate::version::{TxnId, Version};

/// Keys above which a transaction takes locks: others wait while the shards of its keys are held.
pub(super) const AT_ONCE_KEYS_MAX: usize = 32;

/// Bytes of documents above which it does, all together.
const AT_ONCE_BYTES_MAX: usize = 64 << 10;

impl Engine {
    /// Whether [`Engine::execute_at_once`] ever does anything.
    pub fn commits_at_once(&self) -> bool {
        self.inner.at_once
    }

    /// Runs `body` as one transaction that has all of `wanted`, loads what they say, and commits, all at once: its
    /// answer, and its version if it wrote. With `Err` the body changes nothing and still answers. `None`: it can't be
    /// done at once, and nothing has happened; `body` may have run, so it must change nothing but its documents.
    pub fn execute_at_once<T>(
        &self,
        wanted: &[Wanted<'_>],
        context: &Context,
        body: impl FnOnce(&mut Documents) -> Result<T, T>,
    ) -> Option<Result<(T, Option<Version>), TxnError>> {
        let inner = &*self.inner;
        let too_long = |wanted: &Wanted<'_>| wanted.key.name.len() > KEY_BYTES_MAX;
        let too_many = wanted.len() > AT_ONCE_KEYS_MAX;
        if !inner.at_once || too_many || wanted.iter().any(too_long) || !inner.committer.is_idle() {
            return None;
        }
        let began = inner.history.as_ref().map(|history| history.tick());
        // Dropped after the table: the committer's lock is never taken under the table's.
        let guard = inner.committer.watch_for_panic(false);
        let mut table = inner.locks.elide(wanted)?;
        let mut documents = Documents::with_clock(&inner.runtime);
        documents.reserve(wanted.len());
        let numbered = inner.numbered(context);
        // What is written is a level of its own behind what is read.
        let reads = u16::from(wanted.iter().any(|wanted| wanted.load));
        let writing = Context { level: numbered.context.level + reads, ..numbered.context };
        inner.load_cached(wanted, &numbered.context, &mut documents)?;
        let version = inner.mint.next();
        documents.will_have(version);
        let answer = match body(&mut documents) {
            Ok(answer) => answer,
            Err(answer) => {
                numbered.end(inner, false);
                return Some(Ok((answer, None)));
            }
        };
        let record = began.map(|began| Record {
            name: format!("t@{began}"),
            began,
            ended: u64::MAX,
            reads: documents.reads().map(|(key, version, present)| (key.clone(), version, present)).collect(),
            writes: documents.written().map(|key| (key.clone(), version)).collect(),
        });
        let writes = documents.take_writes();
        let wrote = (!writes.is_empty()).then_some(version);
        let now = if writes.is_empty() {
            Now::Published(version)
        } else {
            table.half_done = true;
            guard.armed.set(true);
            let commit = Commit::new(TxnId(version), version, writes);
            let uncached = inner.on_write == OnWrite::Invalidate;
            let now = inner.committer.apply_now(commit, &Caching { uncached, context: writing, vertices: None });
            table.half_done = matches!(now, Now::Unknown(_));
            now
        };
        drop(table);
        numbered.end(inner, matches!(now, Now::Published(_)));
        let done = match now {
            Now::Published(_) => Ok((answer, wrote)),
            Now::Failed(failure) => Err(failure.into()),
            Now::Unknown(id) => {
                inner.committer.stop_for_good();
                Err(TxnError::Unknown(id))
            }
            Now::Later(_) => return None,
        };
        inner.record_at_once(record, &done);
        Some(done)
    }
}

impl Inner {
    /// Loads what `wanted` say from the cache; `None` if something is not there, or it is much. Counts the hits only if
    /// all is loaded.
    fn load_cached(&self, wanted: &[Wanted<'_>], context: &Context, documents: &mut Documents) -> Option<()> {
        if wanted.iter().all(|wanted| !wanted.load) {
            return Some(());
        }
        let (mut bytes, reading) = (0, self.cache.reading());
        let mut seen = SmallVec::<[_; 4]>::new();
        for Wanted { key, .. } in wanted.iter().filter(|wanted| wanted.load) {
            let hash = key.hash64();
            let Look::Hit(read, word) = self.cache.look(hash, *key, &reading) else { return None };
            seen.push((hash, word));
            bytes += read.value.as_ref().map_or(0, Value::size);
            if bytes > AT_ONCE_BYTES_MAX {
                return None;
            }
            documents.load(key.to_key(), read);
        }
        for (hash, word) in seen {
            self.cache.touch(hash, word, context, &reading);
        }
        Some(())
    }

    fn record_at_once<T>(&self, record: Option<Record>, done: &Result<T, TxnError>) {
        let (Some(history), Some(mut record)) = (&self.history, record) else { return };
        match done {
            Ok(_) => {
                record.ended = history.tick();
                history.push(record);
            }
            Err(TxnError::Unknown(_)) => history.push(record),
            Err(_) => {}
        }
    }
}
