//! A connection without a socket: what `connection.rs` of the server does around a session, in a seeded world.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use forebay::runtime::Runtime;
use forebay_protocol::{Batch, Decoder, Limits, Reply, ReplyDecoder, ReplyLimits, encode_command};
use forebay_server::{Session, Shared};

use crate::book::{broken, expect};

/// One request: its arguments.
pub type Request = Vec<String>;

/// A request from text: `SET k v`.
pub fn request(text: &str) -> Request {
    text.split(' ').map(str::to_owned).collect()
}

pub struct Connection {
    session: Session,
    decoder: Decoder,
    replies: ReplyDecoder,
    runtime: Runtime,
}

impl Connection {
    pub fn new(shared: &Arc<Shared>, name: &str) -> Connection {
        let runtime = shared.engine.runtime().clone();
        let client = shared.clients.add(name.to_owned(), "server".to_owned(), runtime.now_ms(), 1000);
        let client = client.unwrap_or_else(|| broken("errors", "a client finds no room"));
        let session = Session::new(shared.clone(), client);
        let replies = ReplyDecoder::new(ReplyLimits::default());
        Connection { session, decoder: Decoder::new(Limits::default()), replies, runtime }
    }

    /// Sends requests as one pipelined batch; their replies in order.
    pub async fn ask(&mut self, requests: &[Request]) -> Vec<Reply> {
        let mut input = BytesMut::new();
        requests.iter().for_each(|request| encode_command(&mut input, request));
        let mut batch = Batch::default();
        let decoded = self.decoder.decode_batch(&mut input, requests.len(), &mut batch);
        expect(decoded == Ok(requests.len()), "errors", || format!("{decoded:?} of {requests:?}"));
        let now = self.runtime.elapsed();
        self.session.expire(now);
        self.session.open.touch(now);
        self.session.serve(&batch).await;
        self.session.replies.settle().await;
        let mut output = self.session.replies.ready_mut().split();
        self.session.open.replies_written();
        let mut replies = Vec::with_capacity(requests.len());
        while let Some(reply) = self.replies.decode(&mut output).unwrap_or_else(|e| broken("errors", e.to_string())) {
            replies.push(reply);
        }
        expect(replies.len() == requests.len(), "errors", || format!("{requests:?} got {replies:?}"));
        replies
    }

    /// The client thinks; the server may roll its transaction back meanwhile.
    pub async fn pause(&mut self, pause: Duration) {
        let until = self.runtime.elapsed() + pause;
        if let Some(deadline) = self.session.deadline().filter(|deadline| deadline.at <= until) {
            self.runtime.sleep(deadline.at.saturating_sub(self.runtime.elapsed())).await;
            self.session.expire(self.runtime.elapsed());
        }
        self.runtime.sleep(until.saturating_sub(self.runtime.elapsed())).await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.session.shared.clients.remove(self.session.client.id);
    }
}
