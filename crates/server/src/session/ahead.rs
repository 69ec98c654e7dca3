//! What a session does for the requests behind the one at hand. It looks their commands up, and has the processor fetch
//! what is cached of their keys. The store is asked once for all that is not.

use std::sync::atomic::Ordering;

use forebay::key::{Key, KeyRef};
use forebay::txn::Ahead;
use forebay_protocol::Batch;
use smallvec::SmallVec;

use super::{Session, WIDE_ARGS};
use crate::command::{Command, Effect, Flag};

/// Keys that one look ahead fetches together.
const LOOK_AHEAD_KEYS_MAX: usize = 1024;

/// Bytes of their names: they are copied before there is room for them.
const LOOK_AHEAD_BYTES_MAX: usize = 64 << 10;

/// Requests whose commands are looked up together, and their keys' entries fetched from memory: more would no longer
/// all be in the processor's cache when the first is served.
pub(super) const LOOK_UP_FRAMES: usize = 16;

/// Keys whose entries are fetched from memory together.
const PREFETCH_KEYS_MAX: usize = 32;

/// Commands with their numbers in the table; `None` where there is none of that name.
pub(super) type LookedUp = SmallVec<[Option<(usize, &'static Command)>; LOOK_UP_FRAMES]>;

impl Session {
    /// Looks the next commands up, and has the memory of their keys' entries fetched meanwhile.
    pub(super) fn look_up<'a>(&self, batch: &'a Batch, start: usize, found: &mut LookedUp) {
        let end = batch.len().min(start + LOOK_UP_FRAMES);
        found.clear();
        // What a client may not read leaves no trace, not even in the time that its next request takes.
        let fetches = !self.identity.is_guarded(&self.shared.access);
        let mut hashes = SmallVec::<[u64; PREFETCH_KEYS_MAX]>::new();
        let mut written = SmallVec::<[KeyRef<'_>; PREFETCH_KEYS_MAX]>::new();
        let mut last: (&[u8], _) = (b"", None);
        for at in start..end {
            let frame = batch.frame(at);
            let name = frame.arg(0);
            if name != last.0 {
                last = (name, self.shared.table.find_numbered(name));
            }
            found.push(last.1);
            let Some((_, command)) = last.1.filter(|_| fetches) else { continue };
            if !command.arity_fits(frame.len()) || frame.len() > WIDE_ARGS {
                continue;
            }
            let Some(effect) = command.effect(frame) else { continue };
            let mut take = |key: KeyRef<'a>| {
                if hashes.len() < PREFETCH_KEYS_MAX {
                    hashes.push(key.hash64());
                    if effect != Effect::Read {
                        written.push(key);
                    }
                }
            };
            match command.only_key(frame, self.space) {
                Some(key) => take(key),
                // A read of several has them fetched for itself.
                None if effect == Effect::Read => {}
                None => command.each_key(frame, self.space, &mut take),
            }
        }
        if hashes.len() > 1 {
            self.shared.engine.prefetch(&hashes, &written);
        }
    }

    /// The client has spoken. A batch of reads only counts as one transaction of one level, for policies that follow
    /// transactions; hints between them do not count.
    pub(super) fn begin_batch(&mut self, batch: &Batch) {
        let now_ms = self.shared.engine.runtime().now_ms();
        self.client.active_ms.store(now_ms, Ordering::Relaxed);
        let alone = batch.len() < 2 || self.open.is_open() || self.multi.queue.is_some();
        if alone || !self.shared.engine.cache().follows_transactions() {
            return;
        }
        let mut reads = 0;
        for at in 0..batch.len() {
            let frame = batch.frame(at);
            let Some((_, command)) = self.shared.table.find_numbered(frame.arg(0)) else { return };
            match command.effect(frame) {
                Some(Effect::Read) if command.arity_fits(frame.len()) => reads += 1,
                None if command.is(Flag::LeavesReads) => {}
                _ => return,
            }
        }
        if reads > 1 {
            self.batch_txn = self.shared.engine.number();
        }
    }

    /// The batch is served.
    pub(super) fn end_reads(&mut self) {
        self.parts.ahead = None;
        if self.batch_txn != 0 {
            let context = self.context();
            self.batch_txn = 0;
            self.shared.engine.ended(&context, true);
        }
    }

    /// Has fetched what the rest of the batch, from `start`, will miss.
    pub(super) async fn look_ahead(&mut self, batch: &Batch, start: usize, ahead: &mut Ahead) {
        let mut keys = self.missing_ahead(batch, start);
        *ahead = Ahead::of_nothing();
        self.take_ahead(&mut keys);
        *ahead = match keys.len() > 1 {
            true => {
                self.replies.lend();
                self.shared.engine.fetch_ahead(&keys).await
            }
            false => Ahead::of_nothing(),
        };
    }

    /// The keys that the rest of the batch, from `start`, will miss: of plain commands, up to the first that changes
    /// how others are to be read. Wide ones ask for themselves.
    fn missing_ahead(&self, batch: &Batch, start: usize) -> Vec<Key> {
        let mut keys: Vec<Key> = Vec::new();
        let mut bytes_left = LOOK_AHEAD_BYTES_MAX;
        for at in start..batch.len() {
            let frame = batch.frame(at);
            let Some((number, command)) = self.shared.table.find_numbered(frame.arg(0)) else { continue };
            let wide = frame.len() > WIDE_ARGS;
            let refused = || {
                !wide && self.identity.is_guarded(&self.shared.access) && self.denied(number, command, frame).is_some()
            };
            if !command.arity_fits(frame.len()) || refused() {
                continue;
            }
            match command.effect(frame) {
                Some(Effect::Blind) => {}
                Some(_) if wide => {}
                Some(Effect::Read | Effect::ReadWrite) => {
                    command.each_key(frame, self.space, &mut |key| {
                        if keys.len() < LOOK_AHEAD_KEYS_MAX && key.name.len() <= bytes_left {
                            bytes_left -= key.name.len();
                            keys.push(key.to_key());
                        }
                    });
                }
                None if command.is(Flag::LeavesReads) => {}
                None if command.is(Flag::NotQueued) || command.name == "select" => break,
                None => {}
            }
        }
        keys
    }
}
