//! Commands that are served without a wait: reads whose keys are all cached, without a lock; and over a store that
//! never waits, whatever has its keys for itself.

use std::time::Duration;

use forebay::key::KeyRef;
use forebay::txn::{LARGE_BYTES, Landed, Wanted};
use forebay_protocol::Frame;
use forebay_protocol::reply::{BESIDE_CONTENT_BYTES, write_bulk};
use smallvec::SmallVec;

use super::{ReplyMode, Session, WIDE_ARGS};
use crate::command::{Call, Command, Effect, Known, Run, refused};

/// Bytes of a request above which a command takes locks: all others wait while one is served at once.
const ARGS_BYTES_MAX: usize = 64 << 10;

/// Bytes that the items of an answer may take without room.
pub(super) const ITEMS_BYTES_UNCOUNTED: usize = 256 << 10;

/// How a read whose keys are to be cached was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hit {
    /// It is answered.
    Served,
    /// It takes long: it is to be asked again with room for so many bytes, and from another thread if there is one.
    Long(usize),
    /// It can't be served so.
    No,
}

impl Session {
    /// As [`Session::serve_published`], where no other task waits for it, and with room for the items of its answer
    /// until they are encoded; whether it is answered.
    ///
    /// The wait for that room ends: what has it waits for nothing, and gives it back before it waits for its client.
    pub(super) async fn serve_long(&mut self, command: &'static Command, frame: Frame<'_>, bytes: usize) -> bool {
        let shared = self.shared.clone();
        let (runtime, mut bytes) = (shared.engine.runtime(), bytes);
        loop {
            let part = match bytes {
                0 => None,
                bytes => {
                    self.replies.lend();
                    Some(shared.room.answers.take(bytes, shared.limits.underway_bytes_max).await)
                }
            };
            runtime.leave().await;
            let hit = self.serve_published(command, frame, bytes.max(ITEMS_BYTES_UNCOUNTED));
            runtime.come_back().await;
            drop(part);
            match hit {
                // It has become longer.
                Hit::Long(more) if more > bytes => bytes = more,
                hit => return hit == Hit::Served,
            }
        }
    }

    /// Serves a read whose keys are all cached, without a lock and without a wait, if there is room for the items of
    /// its answer.
    pub(super) fn serve_published(&mut self, command: &'static Command, frame: Frame<'_>, room: usize) -> Hit {
        if self.open.is_open() || self.unsettled() || self.runs_aside(command, frame) {
            return Hit::No;
        }
        if command.name == "get" && self.serve_short(frame) {
            return Hit::Served;
        }
        let Some(body) = command.body() else { return Hit::No };
        let (space, chance, context) = (self.space, self.chance_for(command), self.context());
        let engine = &self.shared.engine;
        let mut several = SmallVec::<[KeyRef<'_>; 16]>::new();
        let only = command.only_key(frame, space);
        let keys = match &only {
            Some(key) => std::slice::from_ref(key),
            None => {
                command.each_key(frame, space, &mut |key| several.push(key));
                &several
            }
        };
        let Some(published) = engine.published(keys, &context) else { return Hit::No };
        let large = published.bytes() > LARGE_BYTES;
        if large && engine.runtime().can_leave() {
            return Hit::Long(0);
        }
        let known = Known::Published(&published);
        let mut call = Call { chance, items_bytes_max: room, ..Call::new(frame, space, known) };
        let answer = if large { engine.runtime().aside(|| body(&mut call)) } else { body(&mut call) };
        // To compare it others must have their turn, and that is no way to do it.
        if call.uncompared {
            return Hit::No;
        }
        if call.items_bytes.get() > 0 {
            return Hit::Long(call.items_bytes.get());
        }
        let reply = answer.unwrap_or_else(|error| error);
        if !self.has_room_for(&reply) {
            return Hit::No;
        }
        self.hints.used();
        self.took_long = large;
        match large {
            true => self.shared.clone().engine.runtime().aside(|| self.answer(&reply)),
            false => self.answer(&reply),
        }
        Hit::Served
    }

    /// Serves a GET of a short byte string: its bytes go from the cache to the replies, and no reference is counted.
    /// Whether it is answered.
    fn serve_short(&mut self, frame: Frame<'_>) -> bool {
        if self.reply_mode != ReplyMode::On || self.parts.over.is_some() {
            return false;
        }
        let context = self.context();
        let bytes_max = self.replies.large_bytes.min(self.shared.limits.client_reply_bytes_max);
        let (protocol, out) = (self.protocol, &mut self.replies);
        let key = KeyRef { space: self.space, name: frame.arg(1) };
        let shown = self.shared.engine.show_published(key, &context, |bytes| {
            let bytes_needed = bytes.map_or(0, <[u8]>::len) + BESIDE_CONTENT_BYTES;
            (bytes_needed <= bytes_max).then(|| {
                out.write(|out| match bytes {
                    Some(bytes) => write_bulk(out, bytes),
                    None => out.extend_from_slice(protocol.nil()),
                });
            })
        });
        if shown.is_some() {
            self.hints.used();
        }
        shown.is_some()
    }

    /// Serves what only reads, of documents that are all cached.
    #[inline]
    pub(super) fn serve_cached(&mut self, command: &'static Command, effect: Option<Effect>, frame: Frame<'_>) -> Hit {
        match effect {
            Some(Effect::Read) => self.serve_noted(command, frame),
            None if self.serve_other(command, frame) => Hit::Served,
            _ => Hit::No,
        }
    }

    /// Whether a command that is served of the cache where it can be was.
    fn serve_other(&mut self, command: &'static Command, frame: Frame<'_>) -> bool {
        let Run::Cached(serve, _) = command.run else { return false };
        frame.len() <= WIDE_ARGS && !self.open.is_open() && !self.unsettled() && serve(self, frame)
    }

    /// Serves a command on documents whose keys nobody else uses over a store that never waits; `None` if it can't be.
    /// `began` is the present moment, if it is known; the answer is the one at which the command was done.
    pub(super) fn serve_at_once(
        &mut self,
        command: &'static Command,
        effect: Effect,
        frame: Frame<'_>,
        began: Option<Duration>,
    ) -> Option<Duration> {
        let body = command.body()?;
        let large = frame.len() > WIDE_ARGS || frame.extent_bytes() > ARGS_BYTES_MAX;
        if large || self.open.is_open() || !self.shared.engine.commits_at_once() {
            return None;
        }
        let began = began.unwrap_or_else(|| self.shared.engine.runtime().elapsed());
        let (space, chance, context) = (self.space, self.chance_for(command), self.context());
        let load = effect != Effect::Blind;
        let mut wanted = SmallVec::<[Wanted<'_>; 2]>::new();
        match command.only_key(frame, space) {
            Some(key) => wanted.push(Wanted { key, load }),
            None => command.each_key(frame, space, &mut |key| wanted.push(Wanted { key, load })),
        }
        let mut uncompared = false;
        let done = self.shared.engine.execute_at_once(&wanted, &context, |documents| {
            let mut call = Call { chance, ..Call::new(frame, space, Known::Documents(documents)) };
            let answer = body(&mut call);
            uncompared = call.uncompared;
            answer
        })?;
        // Nothing has happened: such a command only reads.
        if uncompared {
            return None;
        }
        if let Ok((reply, _)) = &done
            && effect == Effect::Read
            && !self.has_room_for(reply)
        {
            return None;
        }
        self.hints.used();
        let now = self.time(command, frame, began);
        match done {
            Ok((reply, version)) => {
                if let Some(version) = version {
                    self.replies.note(&Ok(Some(Landed { version, ticket: None })));
                }
                self.answer(&reply);
            }
            Err(error) => {
                self.replies.note_failed(&error);
                let refusal = refused(&self.shared, &error);
                self.answer(&refusal);
            }
        }
        Some(now)
    }
}
