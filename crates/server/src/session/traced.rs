//! CACHE TRACE: what a session records of its commands. As the policy sees it: a transaction reads what it loads when a
//! command needs it, and writes what it changed when it commits. A plain command is a transaction of one level.

use forebay::cache::Context;
use forebay::key::{Key, KeyRef};
use forebay::txn::{Documents, Plan, PlannedLock};
use forebay_trace::Kind;

use super::Session;
use crate::recorder::Event;
use crate::state::Shared;

/// What was recorded of the open transaction.
#[derive(Debug, Default)]
pub struct Traced {
    /// As its accesses were recorded; `None` while nothing was.
    context: Option<Context>,
}

/// What a plain command or a script has accessed, noted by its last run.
#[derive(Debug, Default)]
pub struct Accessed {
    traced: bool,
    accesses: Vec<(Kind, Key, Option<u32>)>,
    committed: bool,
}

/// Bytes of key and value, if there is a value.
fn size(key: KeyRef<'_>, documents: &Documents) -> Option<u32> {
    let value = documents.value(key).ok()??;
    Some((key.name.len() + value.size()).min(u32::MAX as usize) as u32)
}

fn read<'a>(key: KeyRef<'a>, documents: &Documents) -> Event<'a> {
    Event { kind: Kind::Read, key: Some(key), size: size(key, documents) }
}

fn write<'a>(key: KeyRef<'a>, documents: &Documents) -> Event<'a> {
    let size = size(key, documents);
    Event { kind: if size.is_some() { Kind::Write } else { Kind::Delete }, key: Some(key), size }
}

fn end(committed: bool) -> Event<'static> {
    Event { kind: if committed { Kind::Committed } else { Kind::Aborted }, key: None, size: None }
}

impl Accessed {
    /// A run has ended.
    pub fn note(&mut self, plan: &Plan, documents: &Documents, committed: bool) {
        if !self.traced {
            return;
        }
        let loaded = plan.locks.iter().filter(|lock| lock.load).map(|lock| read(lock.key.borrow(), documents));
        let changed = documents.written().map(|key| write(key.borrow(), documents));
        let kept = |event: Event<'_>| event.key.map(|key| (event.kind, key.to_key(), event.size));
        self.accesses = loaded.filter_map(kept).collect();
        if committed {
            self.accesses.extend(changed.filter_map(kept));
        }
        self.committed = committed;
    }
}

impl Traced {
    fn context(&mut self, shared: &Shared, context: &Context) -> Context {
        let txn = self.context.map_or_else(|| shared.recorder.txn(), |known| known.txn);
        let context = Context { txn, ..*context };
        self.context = Some(context);
        context
    }

    /// A command of the transaction has run.
    pub(super) fn reads(&mut self, shared: &Shared, locks: &[PlannedLock], documents: &Documents, context: &Context) {
        let context = self.context(shared, context);
        let loaded = locks.iter().filter(|lock| lock.load);
        let events: Vec<_> = loaded.map(|lock| read(lock.key.borrow(), documents)).collect();
        shared.recorder.add(shared.engine.runtime(), &context, &events);
    }

    /// The transaction is about to commit.
    pub fn writes(&mut self, shared: &Shared, documents: &Documents) {
        let Some(context) = &self.context else { return };
        let events: Vec<_> = documents.written().map(|key| write(key.borrow(), documents)).collect();
        shared.recorder.add(shared.engine.runtime(), context, &events);
    }

    /// The transaction has ended; nothing happens if none was open.
    pub fn ended(&mut self, shared: &Shared, committed: bool) {
        if let Some(context) = self.context.take() {
            shared.recorder.add(shared.engine.runtime(), &context, &[end(committed)]);
        }
    }
}

impl Session {
    /// For a plain command or a script that is about to run.
    pub fn accessed(&self) -> Accessed {
        Accessed { traced: self.is_traced(), ..Accessed::default() }
    }

    /// Records what a plain command or a script has accessed.
    pub fn trace_accessed(&self, accessed: Accessed, context: &Context) {
        if !accessed.traced || accessed.accesses.is_empty() {
            return;
        }
        let kept = accessed.accesses.iter();
        let mut events: Vec<_> =
            kept.map(|(kind, key, size)| Event { kind: *kind, key: Some(key.borrow()), size: *size }).collect();
        events.push(end(accessed.committed));
        let context = Context { txn: self.shared.recorder.txn(), ..*context };
        self.shared.recorder.add(self.shared.engine.runtime(), &context, &events);
    }

    /// Records reads that the cache served at once: a transaction of its own.
    pub fn trace_reads_alone(&self, keys: &[KeyRef<'_>], documents: &Documents, context: &Context) {
        let mut events: Vec<_> = keys.iter().map(|key| read(*key, documents)).collect();
        events.push(end(true));
        let context = Context { txn: self.shared.recorder.txn(), ..*context };
        self.shared.recorder.add(self.shared.engine.runtime(), &context, &events);
    }
}
