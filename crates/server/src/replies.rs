//! Replies in the order of their requests. A reply that shows a commit, or what an unpublished commit wrote, waits
//! until that is settled; those behind it wait with it.

use std::collections::VecDeque;

use bytes::BytesMut;
use forebay::txn::Committing;
use forebay_protocol::{Protocol, Reply};

use crate::command::txn_error;

/// The replies of one connection that have not been given to its socket.
#[derive(Default)]
pub struct Replies {
    ready: BytesMut,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    /// `None`: the client wants no reply, but its next command must know that the commit is on its way.
    reply: Option<Reply>,
    committing: Committing,
    /// Whether the reply is to be completed with the version of the commit.
    with_version: bool,
    protocol: Protocol,
    /// Encoded replies that come after it.
    after: BytesMut,
}

impl Replies {
    /// Where replies that wait for nothing are encoded.
    pub fn out(&mut self) -> &mut BytesMut {
        match self.waiting.back_mut() {
            Some(waiting) => &mut waiting.after,
            None => &mut self.ready,
        }
    }

    /// Adds a reply that waits for nothing.
    pub fn push(&mut self, reply: &Reply, protocol: Protocol) {
        reply.encode(protocol, self.out());
    }

    /// Adds a reply that is shown once `committing` is settled, or an error in its place. With `with_version`, the
    /// version of the commit is added to a simple reply: `OK` becomes `OK 1-8813`.
    pub fn push_after(&mut self, reply: Option<Reply>, committing: Committing, with_version: bool, protocol: Protocol) {
        self.waiting.push_back(Waiting { reply, committing, with_version, protocol, after: BytesMut::new() });
    }

    /// Whether some reply waits for a commit.
    pub fn unsettled(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Waits until every reply is ready.
    pub async fn settle(&mut self) {
        while let Some(waiting) = self.waiting.front_mut() {
            let committing = std::mem::replace(&mut waiting.committing, Committing::nothing());
            let outcome = committing.wait().await;
            // Only now off the queue: a caller that stops waiting loses no reply behind it.
            let Some(waiting) = self.waiting.pop_front() else { return };
            if let Some(reply) = waiting.reply {
                let reply = match outcome {
                    Ok(Some(version)) if waiting.with_version => Reply::Simple(format!("OK {version}").into()),
                    Ok(_) => reply,
                    Err(error) => txn_error(&error),
                };
                reply.encode(waiting.protocol, &mut self.ready);
            }
            self.ready.extend_from_slice(&waiting.after);
        }
    }

    /// Bytes of replies that are ready.
    pub fn ready_mut(&mut self) -> &mut BytesMut {
        &mut self.ready
    }
}
