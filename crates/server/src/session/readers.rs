//! A session waits for its client to read: before a request while too much waits, and before a large reply until there
//! is room for it. What is ready is written meanwhile.

use std::pin::pin;
use std::task::Poll;

use forebay::mutation::{self, Fault};
use forebay_protocol::Reply;
use futures_util::future::{Either, select};

use super::Session;
use super::open::WHOLE_TIME_UP;
use crate::crowd::LOOK_WAIT;
use crate::limits::ORDINARY_REPLY_BYTES;
use crate::replies::is_large;

impl Session {
    /// Before a request: gives others their turn, and waits until the client has read, if too much waits for it.
    /// Whether the request is to be served.
    #[inline]
    pub(super) async fn may_go_on(&mut self) -> bool {
        if std::mem::take(&mut self.took_long) || self.replies.is_turn() {
            self.give_turn().await;
        }
        if self.waits_for_reader() {
            self.wait_for_reader().await;
        }
        !self.closing
    }

    fn waits_for_reader(&self) -> bool {
        let own = self.replies.bytes();
        // What was served since is counted before more is made.
        if own > 0 && (self.counted.reserved() > 0 || own > self.counted.bytes() + ORDINARY_REPLY_BYTES) {
            self.counted.settle(own);
        }
        own > 0 && self.counted.is_too_much(own)
    }

    /// Whether `reply` may be encoded. If not, its request is to wait for room and to be served again.
    pub(crate) fn has_room_for(&mut self, reply: &Reply) -> bool {
        if self.parts.over.is_some() {
            return false;
        }
        if !is_large(reply, self.replies.large_bytes) {
            return true;
        }
        let (own, bytes) = (self.replies.bytes(), reply.encoded_bytes_max());
        let too_large = bytes > self.shared.limits.client_reply_bytes_max;
        let granted = std::mem::take(&mut self.granted) >= bytes;
        if too_large || granted || (!self.counted.waits_for_own(own, bytes) && self.counted.reserve(own, bytes)) {
            return true;
        }
        self.unshown = self.parts.room_for(bytes).min(self.shared.limits.client_reply_bytes_max);
        false
    }

    /// Waits until the client has read, so that its next request is served; and then until there is room for a large
    /// reply that had none. Ends early if the connection is to be closed.
    pub(super) async fn wait_for_reader(&mut self) {
        // None waits for others in its turn, or with room for which those wait that have been granted this.
        (self.turn, self.parts.script, self.parts.documents) = (None, None, None);
        let bytes = std::mem::take(&mut self.unshown);
        // Nor with room for a reply that has become longer since: all of them might, and none would go on.
        if !mutation::on(Fault::ForgottenKeepsRoom) {
            self.counted.settle(self.replies.bytes());
        }
        self.replies.compact();
        self.replies.lend();
        let (shared, counted, outlet) = (self.shared.clone(), self.counted.clone(), self.replies.outlet().clone());
        let runtime = shared.engine.runtime();
        let waits_for_own = |own| match bytes {
            0 => counted.is_too_much(own),
            bytes => counted.waits_for_own(own, bytes),
        };
        let place = counted.stand();
        let mut room = pin!(std::future::poll_fn(|context| {
            let own = outlet.poll_bytes(context);
            counted.set(own);
            if waits_for_own(own) {
                return Poll::Pending;
            }
            let has_room = bytes == 0 || place.reserve(own, bytes, context.waker());
            if has_room { Poll::Ready(()) } else { Poll::Pending }
        }));
        let mut stopped = pin!(shared.stopping.wait());
        let mut unread = usize::MAX;
        loop {
            // A transaction must not hold its locks for as long as its client takes. A client is idle that has replies
            // to read, and reads none.
            let before = std::mem::replace(&mut unread, outlet.bytes());
            if unread < before || unread == 0 {
                self.open.touch(runtime.elapsed());
            }
            let ends = self.open.deadline(shared.engine.limits());
            let left = ends.map(|ends| ends.at.saturating_sub(runtime.elapsed()));
            let look = runtime.sleep(left.map_or(LOOK_WAIT, |left| left.min(LOOK_WAIT)));
            match select(&mut room, select(&mut stopped, look)).await {
                Either::Left(_) => {
                    self.granted = bytes;
                    return;
                }
                Either::Right((Either::Left(_), _)) => {
                    self.closing = true;
                    return;
                }
                Either::Right((Either::Right(_), _)) => {
                    let reads_nothing = unread > 0 && outlet.bytes() == unread;
                    let idle = reads_nothing && !mutation::on(Fault::UnreadIsBusy);
                    if let Some(ends) = ends.filter(|ends| ends.at <= runtime.elapsed())
                        && (idle || ends.reason == WHOLE_TIME_UP)
                    {
                        self.roll_back(ends.reason);
                    }
                    counted.look(waits_for_own(outlet.bytes()));
                }
            }
        }
    }
}
