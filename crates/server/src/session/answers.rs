//! How a request is answered: at once, or once what it shows is settled.

use bytes::BytesMut;
use forebay::txn::Committing;
use forebay_protocol::{Protocol, Reply};

use super::{ReplyMode, Session};
use crate::command::txn_error;

impl Session {
    /// Answers the command that just ran.
    pub(super) fn answer_as_done(&mut self, reply: Reply) {
        match self.committing.take() {
            Some((committing, with_version)) => self.answer_after(reply, committing, with_version),
            None => self.answer(&reply),
        }
    }

    /// Answers the request at hand, at once.
    pub fn answer(&mut self, reply: &Reply) {
        if self.wants_reply(reply) {
            self.replies.push(reply, self.protocol);
        }
    }

    /// Likewise with what `write` appends, which is no error, and no larger than a reply may be.
    pub(crate) fn answer_written(&mut self, write: impl FnOnce(Protocol, &mut BytesMut)) {
        let protocol = self.protocol;
        if self.wants_one() {
            self.replies.write(|out| write(protocol, out));
        }
    }

    fn answer_after(&mut self, reply: Reply, committing: Committing, with_version: bool) {
        if committing.settled() && !with_version {
            // What was settled at once may still have failed.
            let wrote = committing.id().is_some();
            let outcome = futures_util::FutureExt::now_or_never(committing.wait());
            if let (true, Some(outcome)) = (wrote, &outcome) {
                self.replies.note(outcome);
            }
            return match outcome {
                Some(Err(error)) => self.answer(&txn_error(&error)),
                _ => self.answer(&reply),
            };
        }
        let reply = self.wants_reply(&reply).then_some(reply);
        self.replies.push_after(reply, committing, with_version, self.protocol);
    }

    fn wants_reply(&mut self, reply: &Reply) -> bool {
        if reply.is_error() {
            self.pending.error();
        }
        self.wants_one()
    }

    /// Whether the client wants a reply to the request at hand.
    fn wants_one(&mut self) -> bool {
        match self.reply_mode {
            ReplyMode::On => true,
            ReplyMode::Off => false,
            ReplyMode::SkipNext => {
                self.reply_mode = ReplyMode::Skip;
                false
            }
            ReplyMode::Skip => {
                self.reply_mode = ReplyMode::On;
                false
            }
        }
    }
}
