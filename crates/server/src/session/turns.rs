//! What takes long gives others their turn in the middle of it, and ends where no client waits for it any more.
//!
//! Work is counted in steps of about a nanosecond or two: a byte that is compared. It is what keeps a worker from its
//! sockets, so it is what is bounded, not time.

use std::sync::Arc;

use forebay::txn::Ahead;
use forebay_protocol::{Frame, Reply};

use super::{Queue, Session, WIDE_ARGS, WIDE_BYTES};
use crate::clients::Client;
use crate::command::{Command, Effect, Flag};
use crate::glob::{Glob, PATTERN_BYTES_SHORT, Search};
use crate::state::Shared;
use crate::walks::Walk;

/// Work after which others have their turn.
const WORK_PER_TURN: usize = 1 << 17;

/// Work for a client that has sent all that it will: it may wait for its answer, or be gone.
const WORK_AFTER_END_MAX: usize = 64 << 20;

/// The turns of one command.
pub struct Turns {
    shared: Arc<Shared>,
    client: Arc<Client>,
    /// Work until others have their turn.
    left: usize,
    /// Work that was done since the client's end was seen.
    after_end: usize,
}

impl Turns {
    /// Those of the command that the session serves.
    pub fn new(session: &Session) -> Turns {
        let (shared, client) = (session.shared.clone(), session.client.clone());
        Turns { shared, client, left: WORK_PER_TURN, after_end: 0 }
    }

    /// Waits for the turn to read `pattern`, if it is long.
    pub async fn walk(&self, pattern: &[u8]) -> Option<Walk> {
        match pattern.len() > PATTERN_BYTES_SHORT {
            true => Some(self.shared.walks.begin().await),
            false => None,
        }
    }

    /// Counts work that was done.
    pub fn count(&mut self, work: usize) {
        self.left = self.left.saturating_sub(work);
    }

    /// Gives others their turn if it is time. An error if the command is to end.
    pub async fn turn(&mut self) -> Result<(), Reply> {
        if self.left > 0 {
            return Ok(());
        }
        self.left = WORK_PER_TURN;
        self.shared.engine.runtime().turn().await;
        self.after_end += if self.client.has_ended() { WORK_PER_TURN } else { 0 };
        if self.client.is_killed() || self.after_end > WORK_AFTER_END_MAX {
            return Err(Reply::error("ERR no client waits for the answer"));
        }
        if self.shared.stopping.is_set() {
            return Err(Reply::error("ERR the server is stopping"));
        }
        Ok(())
    }

    /// Whether `text` matches `glob`, however long both are.
    pub async fn matches(&mut self, glob: &Glob, text: &[u8]) -> Result<bool, Reply> {
        let mut search = Search::default();
        loop {
            if let Some(matches) = glob.go_on(text, &mut search, &mut self.left) {
                self.turn().await?;
                return Ok(matches);
            }
            self.left = 0;
            self.turn().await?;
        }
    }
}

impl Session {
    /// Gives others their turn between two requests. Replies that are ready are counted first, and written meanwhile.
    pub(super) async fn give_turn(&mut self) {
        self.counted.settle(self.replies.bytes());
        self.replies.lend();
        self.shared.engine.runtime().turn().await;
    }

    /// Whether to run a request takes long however small its documents are: not on a thread that others wait for.
    pub(super) fn runs_aside(&self, command: &Command, frame: Frame<'_>) -> bool {
        frame.len() > WIDE_ARGS
            || (command.name == "exec" && self.multi.queue.as_ref().is_some_and(Queue::is_wide))
            || (command.name == "txn" && self.open.held_bytes() > WIDE_BYTES)
    }

    /// Whether it takes long to walk through the arguments of a request, or to check rights to them. That is done key
    /// by key, and byte by byte.
    pub(super) fn is_long_to_accept(&self, frame: Frame<'_>) -> bool {
        let guarded = || self.identity.is_guarded(&self.shared.access);
        frame.len() > WIDE_ARGS || (frame.extent_bytes() > WIDE_BYTES && guarded())
    }

    /// As [`Session::accept`], aside, for a request of which that takes long.
    pub(super) async fn accept_aside(
        &mut self,
        frame: Frame<'_>,
        found: Option<(usize, &'static Command)>,
    ) -> Result<Option<&'static Command>, Reply> {
        let runtime = self.shared.engine.runtime().clone();
        runtime.leave().await;
        let accepted = runtime.aside(|| self.accept(frame, found));
        runtime.come_back().await;
        accepted
    }

    /// Waits for room for a cached read that is to be served again. Whether it is: a right may be taken meanwhile.
    pub(super) async fn waits_with_right(&mut self, command: &'static Command, frame: Frame<'_>) -> bool {
        self.wait_for_reader().await;
        if self.closing {
            return false;
        }
        let denied = self.guard_again(command, frame);
        denied.map_err(|denied| self.answer(&denied)).is_ok()
    }

    /// Runs one command. A read whose reply has no room is forgotten, and run again when there is room.
    pub(super) async fn run_until_shown(&mut self, command: &'static Command, frame: Frame<'_>, ahead: &mut Ahead) {
        self.run_and_come_back(command, frame, ahead).await;
        while self.unshown > 0 && !self.closing {
            let was_open = self.open.is_open();
            self.parts.forgotten += 1;
            let bytes = self.unshown;
            self.wait_for_reader().await;
            while !self.closing && self.waits_out_pause(command, frame).await {
                self.unshown = bytes;
                self.wait_for_reader().await;
            }
            if let Some(reason) = self.open.aborted().filter(|_| was_open) {
                let aborted = Reply::error(format!("TXABORTED {reason}"));
                self.answer(&aborted);
                break;
            }
            if let Err(denied) = self.guard_again(command, frame) {
                self.answer(&denied);
                break;
            }
            self.run_and_come_back(command, frame, ahead).await;
        }
        if std::mem::take(&mut self.parts.forgotten) > 0 {
            // What it did not need is another's, also while the next request waits.
            self.counted.settle(self.replies.bytes());
        }
        (self.granted, self.parts.over) = (0, None);
    }

    /// Whether the reply of a command is forgotten since it has no room: what it holds of documents goes with it, and
    /// the places of its items. EXEC has done nothing then.
    pub(super) fn forgets(&mut self, command: &Command, frame: Frame<'_>) -> bool {
        let reads = command.effect(frame) == Some(Effect::Read) || command.is(Flag::Again);
        let reads = reads || self.parts.over.is_some();
        if reads {
            (self.committing, self.turn) = (None, None);
        }
        reads
    }

    /// Runs one command, aside if each of its steps takes long. It may have left for large documents: it comes back.
    async fn run_and_come_back(&mut self, command: &'static Command, frame: Frame<'_>, ahead: &mut Ahead) {
        let runtime = self.shared.engine.runtime().clone();
        match self.runs_aside(command, frame) {
            true => runtime.in_long_steps(Box::pin(self.run(command, frame, ahead))).await,
            false => self.run(command, frame, ahead).await,
        }
        (self.turn, self.parts.script, self.parts.documents) = (None, None, None);
        runtime.come_back().await;
    }
}
