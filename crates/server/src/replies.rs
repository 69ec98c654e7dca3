//! Replies in the order of their requests. A reply that shows a commit, or what an unpublished commit wrote, waits
//! until that is settled; those after it wait with it.
//!
//! While a request waits, what is ready before it must not wait with it. So before a wait the session *lends* its
//! replies to the [`Outlet`]. The task that polls the session polls that, too: it settles what is waited for and hands
//! out what is ready. The session takes them back at its next touch. They are in one of the two places at a time, so
//! their order is never in doubt. What waits for nothing pays for it no more than a look at a flag.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use forebay::mutation::{self, Fault};
use forebay::txn::{Committing, Landed, TxnError};
use forebay::version::{TxnId, Version};
use forebay_protocol::{Protocol, Reply};

use crate::refusals::txn_error;

/// Bytes of replies after which it is others' turn, unless that is said otherwise.
pub const TURN_BYTES: usize = 512 << 10;

/// Bytes that were written of what is ready keep their memory up to here: a copy costs more than they take.
const WRITTEN_KEPT_BYTES: usize = 8 << 10;

/// Items of a reply, or bytes of one that has few, above which it has room reserved before it is encoded.
const LARGE_ITEMS: usize = 1024;
pub const LARGE_BYTES: usize = 256 << 10;

/// Places of items that a reply keeps while it waits for its commit: one with more is encoded before.
const ITEMS_KEPT_BYTES: usize = 32 << 10;

/// Whether to encode a reply takes long. One that does is kept until its task has come to another thread, as are those
/// of all clients that go there.
pub fn takes_long(reply: &Reply) -> bool {
    reply.encoded_bytes_max() > LARGE_BYTES
}

/// Whether there has to be room for a reply before it is encoded: it has many items, or more than `large` bytes.
pub fn is_large(reply: &Reply, large: usize) -> bool {
    let bytes = |items: &[Reply]| items.iter().map(Reply::encoded_bytes_max).sum::<usize>();
    match reply {
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => {
            items.len() > LARGE_ITEMS || bytes(items) > large
        }
        Reply::Map(pairs) | Reply::Pairs(pairs) => {
            let bytes = || pairs.iter().map(|(key, value)| key.encoded_bytes_max() + value.encoded_bytes_max());
            pairs.len() > LARGE_ITEMS || bytes().sum::<usize>() > large
        }
        reply => reply.encoded_bytes_max() > large,
    }
}

/// Appends `reply`, which is at most `bytes_max` bytes, to `out`; how many bytes it is. A large one has its memory made
/// at once: while it grew there would be two of it.
fn encode((reply, bytes_max): (&Reply, usize), protocol: Protocol, out: &mut BytesMut) -> usize {
    let before = out.len();
    if bytes_max > LARGE_BYTES {
        out.reserve(bytes_max);
    }
    reply.encode(protocol, out);
    out.len() - before
}

/// Replies that wait for their client are copied to memory of their length up to here.
const COMPACT_BYTES_MAX: usize = 64 << 10;

/// The replies of one connection that have not been given to its socket.
pub struct Replies {
    /// Empty while they are lent.
    own: Queue,
    outlet: Outlet,
    lent: bool,
    /// Bytes that were encoded since others had their turn.
    worked: usize,
    /// Others have their turn after so many.
    pub turn_bytes: usize,
    /// A reply of more has room made before it is encoded.
    pub large_bytes: usize,
}

/// Where replies are while the session that they belong to waits.
#[derive(Clone)]
pub struct Outlet(Arc<Mutex<Queue>>);

type Settling = Pin<Box<dyn Future<Output = Result<Option<Landed>, TxnError>> + Send + Sync>>;

/// The replies themselves.
struct Queue {
    ready: BytesMut,
    /// Bytes before `ready` that were written, and whose memory it keeps.
    written: usize,
    waiting: VecDeque<Waiting>,
    /// The wait for the first of `waiting`, once it has begun.
    settling: Option<Settling>,
    /// Bytes of `Waiting::after`, all together.
    after_bytes: usize,
    bytes_max: usize,
    /// Those that wait until enough was written.
    reader: Option<Waker>,
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

/// A reply that is shown once its commit is settled.
enum Shown {
    Reply(Reply),
    /// A large one: whoever settles it polls sockets, and has no time to encode it.
    Encoded(BytesMut),
}

struct Waiting {
    /// Whether it tells how the last write ended: no later one has.
    counts: bool,
    /// `None`: the client wants no reply, but its next command must know that the commit is on its way.
    reply: Option<Shown>,
    committing: Committing,
    /// Whether the reply is to be completed with the version of the commit.
    with_version: bool,
    protocol: Protocol,
    /// Encoded replies that come after it.
    after: BytesMut,
}

impl Replies {
    /// None yet. One that is more than `bytes_max` bytes is answered with an error: one request may ask for much more
    /// than there is room for (MGET of one large document, a thousand times), so the limit has to hold before the reply
    /// is written down.
    pub fn new(bytes_max: usize) -> Replies {
        let outlet = Outlet(Arc::new(Mutex::new(Queue::new(bytes_max))));
        Replies {
            own: Queue::new(bytes_max),
            outlet,
            lent: false,
            worked: 0,
            turn_bytes: TURN_BYTES,
            large_bytes: LARGE_BYTES,
        }
    }

    /// Where the replies are while the session waits.
    pub fn outlet(&self) -> &Outlet {
        &self.outlet
    }

    /// The session is about to wait: what is ready need not wait with it.
    pub fn lend(&mut self) {
        if !self.lent {
            std::mem::swap(&mut self.own, &mut *self.outlet.lock());
            self.lent = true;
        }
    }

    #[inline]
    fn own(&mut self) -> &mut Queue {
        if self.lent {
            self.take_back();
        }
        &mut self.own
    }

    #[cold]
    fn take_back(&mut self) {
        std::mem::swap(&mut self.own, &mut *self.outlet.lock());
        self.lent = false;
    }

    fn look<T>(&self, at: impl FnOnce(&Queue) -> T) -> T {
        if self.lent { at(&self.outlet.lock()) } else { at(&self.own) }
    }

    /// Bytes of all that are encoded.
    pub fn bytes(&self) -> usize {
        self.look(Queue::bytes)
    }

    /// Where replies that wait for nothing are encoded.
    pub fn out(&mut self) -> &mut BytesMut {
        let queue = self.own();
        match queue.waiting.back_mut() {
            Some(waiting) => &mut waiting.after,
            None => &mut queue.ready,
        }
    }

    /// Adds a reply that waits for nothing.
    pub fn push(&mut self, reply: &Reply, protocol: Protocol) {
        let queue = self.own();
        let (reply, bytes_max) = queue.bounded(reply);
        self.worked += queue.append(|out| encode((&reply, bytes_max), protocol, out));
    }

    /// Likewise one that `write` appends: it must be within the bounds of a reply.
    pub fn write(&mut self, write: impl FnOnce(&mut BytesMut)) {
        let bytes = self.own().append(|out| {
            let before = out.len();
            write(out);
            out.len() - before
        });
        self.worked += bytes;
    }

    /// Whether so much was encoded that it is others' turn, which is given now.
    pub fn is_turn(&mut self) -> bool {
        let is_turn = self.worked > self.turn_bytes;
        self.worked = if is_turn { 0 } else { self.worked };
        is_turn
    }

    /// Adds a reply that is shown once `committing` is settled, or an error in its place. With `with_version`, the
    /// version of the commit is added to a simple reply: `OK` becomes `OK 1-8813`.
    pub fn push_after(&mut self, reply: Option<Reply>, committing: Committing, with_version: bool, protocol: Protocol) {
        let queue = self.own();
        let mut worked = 0;
        let reply = match reply {
            Some(reply)
                if !with_version && (is_large(&reply, LARGE_BYTES) || reply.items_bytes() > ITEMS_KEPT_BYTES) =>
            {
                let mut encoded = BytesMut::new();
                let (reply, bytes_max) = queue.bounded(&reply);
                worked = encode((&reply, bytes_max), protocol, &mut encoded);
                queue.after_bytes += worked;
                Some(Shown::Encoded(encoded))
            }
            reply => reply.map(Shown::Reply),
        };
        queue.waiting.push_back(Waiting {
            counts: true,
            reply,
            committing,
            with_version,
            protocol,
            after: BytesMut::new(),
        });
        self.worked += worked;
    }

    /// How the last write ended of which this is known.
    pub fn last_write(&self) -> LastWrite {
        self.look(|queue| queue.last_write)
    }

    /// A write has ended at once. It is the last one, whatever still waits.
    pub fn note(&mut self, outcome: &Result<Option<Landed>, TxnError>) {
        let queue = self.own();
        queue.note(outcome);
        queue.waiting.iter_mut().for_each(|waiting| waiting.counts = false);
    }

    /// A write has failed at once.
    pub fn note_failed(&mut self, error: &TxnError) {
        self.note(&Err(error.clone()));
    }

    /// Forgets how the last write ended, and of those that wait how they will.
    pub fn forget_last_write(&mut self) {
        let queue = self.own();
        queue.last_write = LastWrite::None;
        queue.waiting.iter_mut().for_each(|waiting| waiting.counts = false);
    }

    /// Whether some reply waits for a commit.
    pub fn unsettled(&self) -> bool {
        self.look(|queue| !queue.waiting.is_empty())
    }

    /// Waits until every reply is ready.
    pub async fn settle(&mut self) {
        if !self.unsettled() {
            return;
        }
        self.lend();
        std::future::poll_fn(|context| self.outlet.lock().poll_settled(context)).await;
    }

    /// Bytes of replies that are ready. What is taken of them is to be told to [`Replies::written`].
    pub fn ready_mut(&mut self) -> &mut BytesMut {
        &mut self.own().ready
    }

    /// Gives back the memory that what is ready has grown into, if that is little: each of a thousand clients may have
    /// some. Of much it is not copied.
    pub fn compact(&mut self) {
        let queue = self.own();
        let length = queue.ready.len();
        let spare = queue.ready.capacity() + queue.written - length;
        if length <= COMPACT_BYTES_MAX && spare > length / 4 {
            (queue.ready, queue.written) = (BytesMut::from(&queue.ready[..]), 0);
        }
    }

    /// So many bytes of those that were ready are written.
    pub fn written(&mut self, bytes: usize) {
        self.own().give_back(bytes);
    }
}

impl Outlet {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `take` see what is ready of the replies that were lent. To be polled when the session waits, by whoever
    /// polls the session.
    pub fn poll<T>(&self, context: &mut Context<'_>, take: impl FnOnce(&mut BytesMut, &mut Context<'_>) -> T) -> T {
        let mut queue = self.lock();
        let _ = queue.poll_settled(context);
        let before = queue.ready.len();
        let taken = take(&mut queue.ready, context);
        let written = before.saturating_sub(queue.ready.len());
        if written > 0 {
            queue.give_back(written);
            // The session may wait for long: each of a thousand may.
            if queue.ready.is_empty() && before > WRITTEN_KEPT_BYTES {
                queue.ready = BytesMut::new();
            }
            if let Some(reader) = queue.reader.take() {
                reader.wake();
            }
        }
        taken
    }

    /// Bytes of the replies that were lent, as far as they are encoded.
    pub fn bytes(&self) -> usize {
        self.lock().bytes()
    }

    /// The same; when some of them are written, it is to be asked again.
    pub fn poll_bytes(&self, context: &Context<'_>) -> usize {
        let mut queue = self.lock();
        queue.reader = Some(context.waker().clone());
        queue.bytes()
    }
}

impl Queue {
    fn new(bytes_max: usize) -> Queue {
        Queue {
            ready: BytesMut::new(),
            written: 0,
            waiting: VecDeque::new(),
            settling: None,
            after_bytes: 0,
            bytes_max,
            reader: None,
            last_write: LastWrite::None,
        }
    }

    fn bytes(&self) -> usize {
        self.ready.len() + self.after_bytes
    }

    /// Gives back the memory of what was written: replies that are taken slowly keep half as much again as is left of
    /// them. All the copies together are twice as long as the replies.
    fn give_back(&mut self, written: usize) {
        self.written += written;
        // What is empty is used again.
        let kept = match self.ready.is_empty() || mutation::on(Fault::WrittenKept) {
            true => LARGE_BYTES,
            false => WRITTEN_KEPT_BYTES,
        };
        if self.written > kept.max(self.ready.len() / 2) {
            self.ready = BytesMut::from(&self.ready[..]);
            self.written = 0;
        } else if self.ready.is_empty() {
            self.written = 0;
        }
    }

    /// What is written for `reply`, and how many bytes it takes at most: an error if it is too large.
    fn bounded<'a>(&self, reply: &'a Reply) -> (Cow<'a, Reply>, usize) {
        let bytes = reply.encoded_bytes_max();
        if bytes <= self.bytes_max {
            return (Cow::Borrowed(reply), bytes);
        }
        let error = Reply::error(format!("LIMIT client_reply_bytes_max {}", self.bytes_max));
        let bytes = error.encoded_bytes_max();
        (Cow::Owned(error), bytes)
    }

    /// Has `encode` append a reply that waits for nothing but those before it; how many bytes it is.
    #[inline]
    fn append(&mut self, encode: impl FnOnce(&mut BytesMut) -> usize) -> usize {
        match self.waiting.back_mut() {
            Some(waiting) => {
                let bytes = encode(&mut waiting.after);
                self.after_bytes += bytes;
                bytes
            }
            None => encode(&mut self.ready),
        }
    }

    /// Puts encoded replies, for which there is room, behind what is ready.
    fn show(&mut self, encoded: BytesMut) {
        match self.ready.is_empty() && encoded.len() > LARGE_BYTES {
            true => (self.ready, self.written) = (encoded, 0),
            false => self.ready.extend_from_slice(&encoded),
        }
    }

    fn note(&mut self, outcome: &Result<Option<Landed>, TxnError>) {
        self.last_write = match outcome {
            Ok(Some(Landed { ticket: Some(ticket), .. })) => LastWrite::Buffered(*ticket),
            Ok(Some(landed)) => LastWrite::Committed(landed.version),
            Ok(None) => return,
            Err(TxnError::Unknown(id)) => LastWrite::Unknown(*id),
            Err(_) => LastWrite::Failed,
        };
    }

    /// Moves replies to `ready` in their order, as far as they are settled; done when none is left.
    fn poll_settled(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some(first) = self.waiting.front_mut() {
            let wait = match &mut self.settling {
                Some(settling) => settling,
                None => {
                    // What has written and counts is noted: asked now, since the wait takes the commit away.
                    let committing = std::mem::replace(&mut first.committing, Committing::nothing());
                    first.counts &= committing.id().is_some();
                    self.settling.insert(Box::pin(committing.wait()))
                }
            };
            let Poll::Ready(outcome) = wait.as_mut().poll(context) else { return Poll::Pending };
            self.settling = None;
            self.settle_first(outcome);
        }
        Poll::Ready(())
    }

    fn settle_first(&mut self, outcome: Result<Option<Landed>, TxnError>) {
        let Some(waiting) = self.waiting.pop_front() else { return };
        if waiting.counts {
            self.note(&outcome);
        }
        if let Some(Shown::Encoded(encoded)) = &waiting.reply {
            self.after_bytes = self.after_bytes.saturating_sub(encoded.len());
        }
        let reply = match (waiting.reply, outcome) {
            (None, _) => None,
            (Some(_), Err(error)) => Some(txn_error(&error)),
            (Some(_), Ok(Some(Landed { ticket: Some(ticket), .. }))) if waiting.with_version => {
                Some(Reply::Simple(format!("BUFFERED {ticket}").into()))
            }
            (Some(_), Ok(Some(landed))) if waiting.with_version => {
                Some(Reply::Simple(format!("OK {}", landed.version).into()))
            }
            (Some(Shown::Reply(reply)), Ok(_)) => Some(reply),
            (Some(Shown::Encoded(encoded)), Ok(_)) => {
                self.show(encoded);
                None
            }
        };
        if let Some(reply) = reply {
            self.bounded(&reply).0.encode(waiting.protocol, &mut self.ready);
        }
        self.after_bytes = self.after_bytes.saturating_sub(waiting.after.len());
        self.show(waiting.after);
    }
}
