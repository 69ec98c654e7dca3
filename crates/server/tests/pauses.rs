//! What becomes of requests that wait out CLIENT PAUSE, in virtual time.

use std::sync::Arc;
use std::time::Duration;

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

fn with_server<F: Future<Output = ()> + Send + 'static>(run: impl FnOnce(Arc<Shared>, Runtime) -> F) {
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

struct Peer(Session);

impl Peer {
    fn new(shared: &Arc<Shared>) -> Peer {
        let client = shared.clients.add("client".into(), "server".into(), 0, 10).expect("room for three");
        Peer(Session::new(shared.clone(), client))
    }

    /// The replies to inline requests, with `|` for each line end.
    async fn say(&mut self, requests: &str) -> String {
        let mut input = BytesMut::from(format!("{requests}\r\n").as_bytes());
        let mut batch = Batch::default();
        Decoder::new(Limits::default()).decode_batch(&mut input, 100, &mut batch).expect("requests");
        self.0.serve(&batch).await;
        self.0.replies.settle().await;
        String::from_utf8_lossy(&self.0.replies.ready_mut().split()).replace("\r\n", "|")
    }

    /// Says it in a task of its own; the answer, and the peer.
    fn says(mut self, requests: &'static str, runtime: &Runtime) -> oneshot::Receiver<(String, Peer)> {
        let (sender, receiver) = oneshot::channel();
        runtime.spawn(async move {
            let answer = self.say(requests).await;
            let _ = sender.send((answer, self));
        });
        receiver
    }
}

#[test]
fn who_is_killed_in_a_pause_is_not_served() {
    with_server(|shared, runtime| async move {
        let (mut operator, other) = (Peer::new(&shared), Peer::new(&shared));
        let id = other.0.client.id;
        assert_eq!(operator.say("CLIENT PAUSE 600000 WRITE").await, "+OK|");
        let waits = other.says("GET k\r\nSET k 1\r\nSET l 1", &runtime);
        runtime.sleep(Duration::from_millis(100)).await;
        assert_eq!(operator.say(&format!("CLIENT KILL ID {id}")).await, ":1|");
        let (answer, other) = waits.await.expect("it is told at once");
        assert_eq!((answer.as_str(), other.0.closing), ("$-1|", true));
        drop(other);
        assert_eq!(operator.say("MGET k l").await, "*2|$-1|$-1|");
        assert_eq!(operator.say("CLIENT UNPAUSE\r\nMGET k l").await, "+OK|*2|$-1|$-1|");
    });
}

#[test]
fn a_transaction_does_not_hold_its_locks_for_as_long_as_a_pause() {
    with_server(|shared, runtime| async move {
        let (mut operator, mut other) = (Peer::new(&shared), Peer::new(&shared));
        assert_eq!(other.say("TXN BEGIN\r\nSET k 1").await, "+OK|+OK|");
        assert_eq!(operator.say("CLIENT PAUSE 600000 WRITE").await, "+OK|");
        let waits = other.says("INCR k\r\nTXN COMMIT", &runtime);
        // Its client is not idle: it waits for us.
        runtime.sleep(Duration::from_secs(15)).await;
        assert_eq!(shared.engine.locked_keys(), 1);
        runtime.sleep(Duration::from_secs(10)).await;
        assert_eq!(shared.engine.locked_keys(), 0);
        assert_eq!(operator.say("CLIENT UNPAUSE").await, "+OK|");
        let (answer, mut other) = waits.await.expect("it is told");
        assert_eq!(answer, "-TXABORTED timeout: txn_ms_max|-TXABORTED timeout: txn_ms_max|");
        assert_eq!(other.say("GET k").await, "$-1|");
    });
}

#[test]
fn a_transaction_goes_on_after_a_pause() {
    with_server(|shared, runtime| async move {
        let (mut operator, mut other) = (Peer::new(&shared), Peer::new(&shared));
        assert_eq!(other.say("TXN BEGIN\r\nSET k 1").await, "+OK|+OK|");
        assert_eq!(operator.say("CLIENT PAUSE 15000").await, "+OK|");
        let (answer, mut other) = other.says("INCR k", &runtime).await.expect("the pause ends");
        assert_eq!(answer, ":2|");
        assert!(other.say("TXN COMMIT").await.starts_with("+OK"));
        assert_eq!(operator.say("GET k").await, "$1|2|");
    });
}
