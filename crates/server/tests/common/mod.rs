//! A server in virtual time, and its clients.

#![allow(dead_code, reason = "each test uses its part")]

use std::sync::Arc;

use bytes::BytesMut;
use forebay::cache::CacheOptions;
use forebay::policy::choose;
use forebay::runtime::Runtime;
use forebay::runtime::simulated::{Ended, Simulation};
use forebay::store::memory::Memory;
use forebay::txn::{Engine, EngineOptions, OnWrite, TxnLimits};
use forebay_protocol::{Batch, Decoder, Limits};
use forebay_server::{ServerOptions, Session, Shared};
use futures_channel::oneshot;

/// Runs clients of a server whose transactions may take 20 s, with the defaults else.
pub fn with_server<F: Future<Output = ()> + Send + 'static>(run: impl FnOnce(Arc<Shared>, Runtime) -> F) {
    let simulation = Simulation::new(1);
    let runtime = simulation.runtime();
    let choice = choose("lru").expect("it is in the table");
    let cache =
        CacheOptions { budget_bytes: 1 << 20, partitions: 1, policy: choice.policy, policy_values: choice.values };
    let limits = TxnLimits { txn_ms_max: 20_000, txn_idle_ms_max: 5_000, ..TxnLimits::default() };
    let store = Arc::new(Memory::new());
    let engine = Engine::new(EngineOptions {
        runtime: runtime.clone(),
        store,
        cache,
        limits,
        on_write: OnWrite::default(),
        unwatched_after: None,
        history: None,
    });
    let shared = Arc::new(Shared::new(ServerOptions::new(engine)));
    assert_eq!(simulation.run(run(shared, runtime)), Ended::Done);
}

/// A client.
pub struct Peer(pub Session);

impl Peer {
    pub fn new(shared: &Arc<Shared>) -> Peer {
        let client = shared.clients.add("client".into(), "server".into(), 0, 10).expect("room for three");
        Peer(Session::new(shared.clone(), client))
    }

    /// The replies to inline requests, with `|` for each line end.
    pub async fn say(&mut self, requests: &str) -> String {
        let mut input = BytesMut::from(format!("{requests}\r\n").as_bytes());
        let mut batch = Batch::default();
        Decoder::new(Limits::default()).decode_batch(&mut input, 100, &mut batch).expect("requests");
        self.0.serve(&batch).await;
        self.0.replies.settle().await;
        String::from_utf8_lossy(&self.0.replies.ready_mut().split()).replace("\r\n", "|")
    }

    /// Says it in a task of its own; the answer, and the peer.
    pub fn says(mut self, requests: &'static str, runtime: &Runtime) -> oneshot::Receiver<(String, Peer)> {
        let (sender, receiver) = oneshot::channel();
        runtime.spawn(async move {
            let answer = self.say(requests).await;
            let _ = sender.send((answer, self));
        });
        receiver
    }
}
