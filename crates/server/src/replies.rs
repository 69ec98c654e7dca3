//! Replies in the order of their requests. A reply that shows a commit, or what an unpublished commit wrote, waits
//! until that is settled; those behind it wait with it.

use std::collections::VecDeque;

use bytes::BytesMut;
use forebay::txn::{Committing, Landed, TxnError};
use forebay::version::{TxnId, Version};
use forebay_protocol::{Protocol, Reply};

use crate::command::txn_error;

/// The replies of one connection that have not been given to its socket.
pub struct Replies {
    ready: BytesMut,
    waiting: VecDeque<Waiting>,
    /// Bytes of `Waiting::after`, all together.
    after_bytes: usize,
    bytes_max: usize,
    overflown: bool,
    last_write: LastWrite,
}

/// How the last write of a connection ended; what changed nothing was none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastWrite {
    /// There was none.
    #[default]
    None,
    /// In the store, under this version.
    Committed(Version),
    /// Kept for the store, under this ticket.
    Buffered(u64),
    /// Perhaps in the store.
    Unknown(TxnId),
    /// Nowhere; its reply has said why.
    Failed,
}

struct Waiting {
    /// Whether it tells how the last write ended: no later one has.
    counts: bool,
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
    /// None yet. One that would make them more than `bytes_max` bytes is dropped, and all behind it: one request may
    /// ask for much more than there is room for (MGET of one large document, a thousand times), so the limit has to
    /// hold before the reply is written down. The connection is to be closed then.
    pub fn new(bytes_max: usize) -> Replies {
        let ready = BytesMut::new();
        let last_write = LastWrite::None;
        Replies { ready, waiting: VecDeque::new(), after_bytes: 0, bytes_max, overflown: false, last_write }
    }

    /// Whether a reply had no room.
    pub fn overflown(&self) -> bool {
        self.overflown
    }

    fn has_room(&mut self, reply: &Reply) -> bool {
        let waiting = self.ready.len() + self.after_bytes;
        self.overflown |= reply.encoded_bytes_max() > self.bytes_max.saturating_sub(waiting);
        !self.overflown
    }

    /// Where replies that wait for nothing are encoded.
    pub fn out(&mut self) -> &mut BytesMut {
        match self.waiting.back_mut() {
            Some(waiting) => &mut waiting.after,
            None => &mut self.ready,
        }
    }

    /// Adds a reply that waits for nothing.
    pub fn push(&mut self, reply: &Reply, protocol: Protocol) {
        if !self.has_room(reply) {
            return;
        }
        match self.waiting.back_mut() {
            Some(waiting) => {
                let before = waiting.after.len();
                reply.encode(protocol, &mut waiting.after);
                self.after_bytes += waiting.after.len() - before;
            }
            None => reply.encode(protocol, &mut self.ready),
        }
    }

    /// Adds a reply that is shown once `committing` is settled, or an error in its place. With `with_version`, the
    /// version of the commit is added to a simple reply: `OK` becomes `OK 1-8813`.
    pub fn push_after(&mut self, reply: Option<Reply>, committing: Committing, with_version: bool, protocol: Protocol) {
        self.waiting.push_back(Waiting {
            counts: true,
            reply,
            committing,
            with_version,
            protocol,
            after: BytesMut::new(),
        });
    }

    /// How the last write ended of which this is known.
    pub fn last_write(&self) -> LastWrite {
        self.last_write
    }

    /// A write has ended at once. It is the last one, whatever still waits.
    pub fn note(&mut self, outcome: &Result<Option<Landed>, TxnError>) {
        self.note_in_turn(outcome);
        self.waiting.iter_mut().for_each(|waiting| waiting.counts = false);
    }

    fn note_in_turn(&mut self, outcome: &Result<Option<Landed>, TxnError>) {
        self.last_write = match outcome {
            Ok(Some(Landed { ticket: Some(ticket), .. })) => LastWrite::Buffered(*ticket),
            Ok(Some(landed)) => LastWrite::Committed(landed.version),
            Ok(None) => return,
            Err(TxnError::Unknown(id)) => LastWrite::Unknown(*id),
            Err(_) => LastWrite::Failed,
        };
    }

    /// A write has failed at once.
    pub fn note_failed(&mut self, error: &TxnError) {
        self.note(&Err(error.clone()));
    }

    /// Forgets how the last write ended, and of those that wait how they will.
    pub fn forget_last_write(&mut self) {
        self.last_write = LastWrite::None;
        self.waiting.iter_mut().for_each(|waiting| waiting.counts = false);
    }

    /// Whether some reply waits for a commit.
    pub fn unsettled(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Waits until every reply is ready.
    pub async fn settle(&mut self) {
        while let Some(waiting) = self.waiting.front_mut() {
            let committing = std::mem::replace(&mut waiting.committing, Committing::nothing());
            let wrote = waiting.counts && committing.id().is_some();
            let outcome = committing.wait().await;
            // Only now off the queue: a caller that stops waiting loses no reply behind it.
            let Some(waiting) = self.waiting.pop_front() else { return };
            if wrote {
                self.note_in_turn(&outcome);
            }
            if let Some(reply) = waiting.reply {
                let reply = match outcome {
                    Ok(Some(Landed { ticket: Some(ticket), .. })) if waiting.with_version => {
                        Reply::Simple(format!("BUFFERED {ticket}").into())
                    }
                    Ok(Some(landed)) if waiting.with_version => Reply::Simple(format!("OK {}", landed.version).into()),
                    Ok(_) => reply,
                    Err(error) => txn_error(&error),
                };
                if self.has_room(&reply) {
                    reply.encode(waiting.protocol, &mut self.ready);
                }
            }
            self.after_bytes = self.after_bytes.saturating_sub(waiting.after.len());
            if !self.overflown {
                self.ready.extend_from_slice(&waiting.after);
            }
        }
    }

    /// Bytes of replies that are ready.
    pub fn ready_mut(&mut self) -> &mut BytesMut {
        &mut self.ready
    }
}
