//! A connection without a socket: what `connection.rs` of the server does around a session, in a seeded world.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use forebay::runtime::Runtime;
use forebay_protocol::{Batch, Decoder, Limits, Reply, ReplyDecoder, ReplyLimits, encode_command};
use forebay_server::{Session, Shared};
use futures_channel::oneshot;
use futures_util::future::{Either, select};

use crate::book::{broken, expect};
use crate::orders::Orders;

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
    orders: Orders,
    /// What the server has said without being asked.
    pub pushes: Vec<Reply>,
    /// Tells that the server has closed it.
    ends: Option<oneshot::Sender<()>>,
}

/// Done when the server has closed a connection. Until it is dropped, the session of that connection is there.
pub type Ended = oneshot::Receiver<()>;

impl Connection {
    pub fn new(shared: &Arc<Shared>, orders: &Orders, name: &str) -> (Connection, Ended) {
        let runtime = shared.engine.runtime().clone();
        let client = shared.clients.add(name.to_owned(), "server".to_owned(), runtime.now_ms(), 1000);
        let client = client.unwrap_or_else(|| broken("errors", "a client finds no room"));
        let session = Session::new(shared.clone(), client);
        let replies = ReplyDecoder::new(ReplyLimits::default());
        let (ends, ended) = oneshot::channel();
        let (decoder, orders, ends) = (Decoder::new(Limits::default()), orders.clone(), Some(ends));
        (Connection { session, decoder, replies, runtime, orders, pushes: Vec::new(), ends }, ended)
    }

    pub fn id(&self) -> u64 {
        self.session.client.id
    }

    /// The server closes it: what its client waits for never comes.
    async fn end(&mut self) -> ! {
        self.orders.gone(self.id(), &self.runtime);
        self.ends = None;
        std::future::pending().await
    }

    /// Sends requests as one pipelined batch; their replies in order. Never done if the server closes the connection
    /// instead of answering all of them.
    pub async fn ask(&mut self, requests: &[Request]) -> Vec<Reply> {
        let mut input = BytesMut::new();
        requests.iter().for_each(|request| encode_command(&mut input, request));
        // Between two batches a connection looks first whether it is killed.
        if self.session.client.is_killed() {
            self.end().await;
        }
        let asked = self.orders.asked(&self.runtime, requests, self.session.multi.queue.is_some());
        let mut batch = Batch::default();
        let decoded = self.decoder.decode_batch(&mut input, requests.len(), &mut batch);
        expect(decoded == Ok(requests.len()), "errors", || format!("{decoded:?} of {requests:?}"));
        let now = self.runtime.elapsed();
        self.session.expire(now);
        self.session.open.touch(now);
        let mut output = self.serve(&batch).await;
        self.session.open.replies_written();
        let mut replies = Vec::with_capacity(requests.len());
        while let Some(reply) = self.replies.decode(&mut output).unwrap_or_else(|e| broken("errors", e.to_string())) {
            match reply {
                Reply::Push(_) => self.pushes.push(reply),
                reply => replies.push(reply),
            }
        }
        self.orders.answered(&self.runtime, &asked, replies.len());
        if replies.len() < requests.len() && self.session.closing && self.session.client.is_killed() {
            self.end().await;
        }
        expect(replies.len() == requests.len(), "errors", || format!("{requests:?} got {replies:?}"));
        replies
    }

    /// Serves a batch, and takes what is ready while it waits, as the server's connections do; all replies.
    async fn serve(&mut self, batch: &Batch) -> BytesMut {
        let mut output = BytesMut::new();
        let session = &mut self.session;
        let outlet = session.replies.outlet().clone();
        {
            let mut serving = pin!(async {
                session.serve(batch).await;
                session.replies.settle().await;
            });
            poll_fn(|context| {
                let served = serving.as_mut().poll(context);
                if served.is_pending() {
                    outlet.poll(context, |ready, _| output.extend_from_slice(&ready.split()));
                }
                served
            })
            .await;
        }
        self.session.take_shown();
        output.extend_from_slice(&self.session.replies.ready_mut().split());
        output
    }

    /// The client thinks; the server may roll its transaction back meanwhile, or close the connection.
    pub async fn pause(&mut self, pause: Duration) {
        let until = self.runtime.elapsed() + pause;
        if let Some(deadline) = self.session.deadline().filter(|deadline| deadline.at <= until) {
            self.sleep_until(deadline.at).await;
            self.session.expire(self.runtime.elapsed());
        }
        self.sleep_until(until).await;
    }

    async fn sleep_until(&mut self, at: Duration) {
        let slept = self.runtime.sleep(at.saturating_sub(self.runtime.elapsed()));
        let killed = matches!(select(slept, pin!(self.session.client.killed())).await, Either::Right(_));
        if killed {
            self.end().await;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.session.shared.clients.remove(self.session.client.id);
    }
}
