//! Commands that are served without a wait: reads whose keys are all cached, without a lock; and over a store that
//! never waits, whatever has its keys for itself.

use std::time::Duration;

use forebay::key::KeyRef;
use forebay::txn::{LARGE_BYTES, Landed, Wanted};
use forebay_protocol::Frame;
use smallvec::SmallVec;

use super::{Session, WIDE_ARGS};
use crate::command::{Call, Command, Effect, Known, refused};

/// Bytes of arguments above which a command takes locks: all others wait while one is served at once.
const ARGS_BYTES_MAX: usize = 64 << 10;

/// How a read whose keys are to be cached was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hit {
    /// It is answered.
    Served,
    /// It takes long, and there is another thread to ask again from.
    Long,
    /// It can't be served so.
    No,
}

impl Session {
    /// As [`Session::serve_published`], where no other task waits for it; whether it is answered.
    pub(super) async fn serve_long(&mut self, command: &'static Command, frame: Frame<'_>) -> bool {
        let runtime = self.shared.engine.runtime().clone();
        runtime.leave().await;
        let hit = self.serve_published(command, frame);
        runtime.come_back().await;
        hit == Hit::Served
    }

    /// Serves a read whose keys are all cached, without a lock and without a wait.
    pub(super) fn serve_published(&mut self, command: &'static Command, frame: Frame<'_>) -> Hit {
        if self.open.is_open() || self.unsettled() || self.runs_aside(command, frame) {
            return Hit::No;
        }
        let Some(body) = command.body() else { return Hit::No };
        let (space, random, context) = (self.space, self.random_for(command), self.context());
        let engine = &self.shared.engine;
        let mut several = SmallVec::<[KeyRef<'_>; 8]>::new();
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
            return Hit::Long;
        }
        let known = Known::Published(&published);
        let mut call = Call { frame, space, known, random, uncompared: false };
        let answer = if large { engine.runtime().aside(|| body(&mut call)) } else { body(&mut call) };
        // To compare it others must have their turn, and that is no way to do it.
        if call.uncompared {
            return Hit::No;
        }
        let reply = answer.unwrap_or_else(|error| error);
        if !self.has_room_for(&reply) {
            return Hit::No;
        }
        self.hints.used();
        match large {
            true => self.shared.clone().engine.runtime().aside(|| self.answer(&reply)),
            false => self.answer(&reply),
        }
        Hit::Served
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
        let large = frame.len() > WIDE_ARGS || frame.args_bytes() > ARGS_BYTES_MAX;
        if large || self.open.is_open() || !self.shared.engine.commits_at_once() {
            return None;
        }
        let began = began.unwrap_or_else(|| self.shared.engine.runtime().elapsed());
        let (space, random, context) = (self.space, self.random_for(command), self.context());
        let load = effect != Effect::Blind;
        let mut wanted = SmallVec::<[Wanted<'_>; 2]>::new();
        match command.only_key(frame, space) {
            Some(key) => wanted.push(Wanted { key, load }),
            None => command.each_key(frame, space, &mut |key| wanted.push(Wanted { key, load })),
        }
        let mut uncompared = false;
        let done = self.shared.engine.execute_at_once(&wanted, &context, |documents| {
            let mut call = Call { frame, space, known: Known::Documents(documents), random, uncompared: false };
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
