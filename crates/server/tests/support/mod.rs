//! A server without sockets: sessions that are given bytes and asked for theirs.

// Each test binary uses some of it.
#![allow(dead_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::BytesMut;
use forebay::cache::CacheOptions;
use forebay::policy::choose;
use forebay::runtime;
use forebay::store::Store;
use forebay::store::memory::Memory;
use forebay::txn::{Engine, EngineOptions};
use forebay_protocol::{Batch, Decoder, Limits, encode_command};
use forebay_server::{ServerOptions, Session, Shared};

/// A server over an empty memory store; `change` its options.
pub fn server(change: impl FnOnce(&mut ServerOptions)) -> Arc<Shared> {
    server_over(Arc::new(Memory::new()), change)
}

/// A server over `store`.
pub fn server_over(store: Arc<dyn Store>, change: impl FnOnce(&mut ServerOptions)) -> Arc<Shared> {
    server_with(store, "s3-fifo", 2, change)
}

/// A server over `store` whose cache has this policy and so many partitions.
pub fn server_with(
    store: Arc<dyn Store>,
    policy: &str,
    partitions: usize,
    change: impl FnOnce(&mut ServerOptions),
) -> Arc<Shared> {
    let policy = choose(policy).unwrap();
    let cache =
        CacheOptions { budget_bytes: 64 << 20, partitions, policy: policy.policy, policy_values: policy.values };
    let runtime = runtime::tokio::runtime(tokio::runtime::Handle::current());
    let engine = Engine::new(EngineOptions::new(runtime, store, cache));
    let mut options = ServerOptions::new(engine);
    change(&mut options);
    Arc::new(Shared::new(options))
}

/// One client.
pub struct Peer {
    pub session: Session,
    decoder: Decoder,
    input: BytesMut,
}

static PORT: AtomicU64 = AtomicU64::new(50_000);

impl Peer {
    pub fn new(shared: &Arc<Shared>) -> Peer {
        let port = PORT.fetch_add(1, Ordering::Relaxed);
        let client = shared.clients.add(format!("127.0.0.1:{port}"), "127.0.0.1:6379".into(), 0, 1000).unwrap();
        let session = Session::new(shared.clone(), client);
        Peer { session, decoder: Decoder::new(Limits::default()), input: BytesMut::new() }
    }

    /// What the server answers to these bytes, with `|` for each line's end.
    pub async fn raw(&mut self, bytes: &[u8]) -> String {
        self.input.extend_from_slice(bytes);
        let mut batch = Batch::default();
        loop {
            self.decoder.decode_batch(&mut self.input, 1000, &mut batch).unwrap();
            self.session.serve(&batch).await;
            self.session.replies.settle().await;
            self.session.take_shown();
            if !batch.is_full(1000) {
                break;
            }
        }
        let out = std::mem::take(self.session.replies.ready_mut());
        String::from_utf8_lossy(&out).replace("\r\n", "|")
    }

    /// What the server answers to requests, one a line, arguments between spaces.
    pub async fn say(&mut self, lines: &str) -> String {
        let mut bytes = BytesMut::new();
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            encode_command(&mut bytes, &line.split(' ').collect::<Vec<_>>());
        }
        self.raw(&bytes).await
    }

    /// Checks the answers to single requests.
    pub async fn check(&mut self, cases: &[(&str, &str)]) {
        for (request, expected) in cases {
            assert_eq!(self.say(request).await, *expected, "{request}");
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.session.shared.clients.remove(self.session.client.id);
    }
}
