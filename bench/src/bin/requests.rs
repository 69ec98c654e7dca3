//! What `scripts/instructions.sh requests` counts the instructions of: a session that is given batches of requests of
//! one kind and serves them, without a socket. `requests get 16 10000`: 10,000 requests, 16 in a batch.
//!
//! All documents are cached. Requests ask for few of them often. An `exec` is MULTI, three SETs and EXEC: five of a
//! batch. `get-traced` runs while CACHE TRACE records hits. `get-metered` runs while transactional hits are counted.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use bytes::BytesMut;
use forebay::cache::CacheOptions;
use forebay::policy::choose;
use forebay::runtime;
use forebay::store::memory::Memory;
use forebay::txn::{Engine, EngineOptions};
use forebay_protocol::{Batch, Decoder, Limits, encode_command};
use forebay_server::recorder;
use forebay_server::{ServerOptions, Session, Shared};

const KEYS: u64 = 10_000;
const BUDGET_BYTES: usize = 256 << 20;
const VALUE: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Keys of an MGET.
const MGET_KEYS: usize = 10;

/// Fields of a hash.
const FIELDS: u64 = 8;

/// SETs of a transaction.
const EXEC_SETS: usize = 3;

/// A session, and what is on its way to it.
struct Peer {
    session: Session,
    decoder: Decoder,
    input: BytesMut,
    batch: Batch,
}

impl Peer {
    fn new(shared: &Arc<Shared>) -> Result<Peer, Box<dyn Error>> {
        let client = shared.clients.add("127.0.0.1:50000".into(), "127.0.0.1:6379".into(), 0, 1000);
        let session = Session::new(shared.clone(), client.ok_or("no room for a client")?);
        let (decoder, input) = (Decoder::new(Limits::default()), BytesMut::new());
        Ok(Peer { session, decoder, input, batch: Batch::default() })
    }

    /// Serves batches of so many requests; bytes of the replies.
    #[inline(never)]
    async fn serve(&mut self, requests: &[u8], in_batch: usize) -> Result<usize, Box<dyn Error>> {
        self.input.extend_from_slice(requests);
        let mut bytes = 0;
        while !self.input.is_empty() {
            self.decoder.decode_batch(&mut self.input, in_batch, &mut self.batch)?;
            self.session.serve(&self.batch).await;
            self.session.replies.settle().await;
            let ready = self.session.replies.ready_mut();
            bytes += ready.len();
            ready.clear();
        }
        Ok(bytes)
    }
}

/// Numbers of keys, few of which are drawn often.
fn draw(count: usize) -> impl Iterator<Item = String> {
    let mut random = fastrand::Rng::with_seed(7);
    (0..count).map(move |_| format!("key:{:08}", (random.f64().powi(3) * KEYS as f64) as u64))
}

/// A request of this kind, whose keys are the next of `keys`.
fn request(kind: &str, keys: &mut impl Iterator<Item = String>, out: &mut BytesMut) -> Result<(), Box<dyn Error>> {
    let key = &keys.next().unwrap_or_default();
    match kind {
        "get" => encode_command(out, &["GET", key]),
        "set" => encode_command(out, &["SET", key, VALUE]),
        "mget" => {
            let others: Vec<String> = keys.take(MGET_KEYS - 1).collect();
            let keys: Vec<&str> = ["MGET", key].into_iter().chain(others.iter().map(String::as_str)).collect();
            encode_command(out, &keys);
        }
        "hset" => {
            let field = format!("field{}", key.bytes().map(u64::from).sum::<u64>() % FIELDS);
            encode_command(out, &["HSET", &format!("hash{key}"), &field, &VALUE[..8]]);
        }
        "exec" => {
            encode_command(out, &["MULTI"]);
            encode_command(out, &["SET", key, VALUE]);
            keys.take(EXEC_SETS - 1).for_each(|key| encode_command(out, &["SET", &key, VALUE]));
            encode_command(out, &["EXEC"]);
        }
        "hits" => encode_command(out, &["LEASE", "GET", "1", key, "HITS", "3"]),
        "lease" => encode_command(out, &["LEASE", "GET", "1", key]),
        kind => return Err(format!("unknown kind {kind}; known: get, set, hset, exec, mget, lease, hits").into()),
    }
    Ok(())
}

/// What is counted: decoding the requests, serving them, writing down their replies.
#[inline(never)]
fn counted(
    tokio: &tokio::runtime::Runtime,
    peer: &mut Peer,
    input: &[u8],
    in_batch: usize,
) -> Result<usize, Box<dyn Error>> {
    tokio.block_on(peer.serve(input, in_batch))
}

fn run(kind: &str, in_batch: usize, count: usize) -> Result<(), Box<dyn Error>> {
    let (kind, watched) = kind.split_once('-').unwrap_or((kind, ""));
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _entered = tokio.enter();
    let policy = choose("s3-fifo")?;
    let cache =
        CacheOptions { budget_bytes: BUDGET_BYTES, partitions: 2, policy: policy.policy, policy_values: policy.values };
    let runtime = runtime::tokio::runtime(tokio.handle().clone());
    let engine = Engine::new(EngineOptions::new(runtime, Arc::new(Memory::new()), cache));
    let traces = tempfile::tempdir()?;
    let mut options = ServerOptions::new(engine.clone());
    options.trace_dir = Some(traces.path().to_owned());
    let shared = Arc::new(Shared::new(options));
    let mut peer = Peer::new(&shared)?;
    let mut input = BytesMut::new();
    for key in 0..KEYS {
        encode_command(&mut input, &["SET", &format!("key:{key:08}"), VALUE]);
    }
    for (key, field) in (0..KEYS).flat_map(|key| (0..FIELDS).map(move |field| (key, field))).filter(|_| kind == "hset")
    {
        let (hash, field) = (format!("hashkey:{key:08}"), format!("field{field}"));
        encode_command(&mut input, &["HSET", &hash, &field, &VALUE[..8]]);
    }
    tokio.block_on(peer.serve(&input, in_batch))?;
    match watched {
        "" => {}
        "metered" => _ = engine.cache().measure_transactions(),
        "traced" => tokio.block_on(recorder::start(&shared, b"requests", None, false))?,
        other => return Err(format!("unknown watcher {other}; known: metered, traced").into()),
    }
    for warm in [true, false] {
        input.clear();
        let requests = if warm { 4 * KEYS as usize } else { count };
        let mut keys = draw(requests * MGET_KEYS);
        for _ in 0..requests {
            request(kind, &mut keys, &mut input)?;
        }
        match warm {
            true => _ = tokio.block_on(peer.serve(&input, in_batch))?,
            false => println!("{} bytes a reply", counted(&tokio, &mut peer, &input, in_batch)? / count),
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, kind, in_batch, count] = &arguments[..] else {
        eprintln!("usage: requests get|set|hset|exec|mget|lease|hits[-metered|-traced] IN_BATCH COUNT");
        return ExitCode::FAILURE;
    };
    let done = || run(kind, in_batch.parse()?, count.parse()?);
    match done() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
