//! Any frame to the table of commands: no panic, no hang, exactly one reply, and a connection that can go on.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use forebay::cache::CacheOptions;
use forebay::policy::choose;
use forebay::runtime::Runtime;
use forebay::runtime::simulated::{Ended, Simulation};
use forebay::store::memory::Memory;
use forebay::txn::{Engine, EngineOptions};
use forebay_fuzz::{Choices, time};
use forebay_protocol::{Batch, Decoder, Limits, Reply, ReplyDecoder, ReplyLimits, encode_command};
use forebay_server::{ServerOptions, Session, Shared, command};

/// Requests of one input.
const REQUESTS_MAX: usize = 40;

/// What arguments are made of: keys that meet, numbers at their limits, words of the commands.
const WORDS: &[&str] = &[
    "k1",
    "k2",
    "k3",
    "h",
    "l",
    "s",
    "f",
    "",
    "0",
    "1",
    "-1",
    "2",
    "10",
    "1.5",
    "-0",
    "nan",
    "inf",
    "1e400",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "536870912",
    "NX",
    "XX",
    "GT",
    "LT",
    "EX",
    "PX",
    "EXAT",
    "PXAT",
    "KEEPTTL",
    "PERSIST",
    "GET",
    "MATCH",
    "COUNT",
    "TYPE",
    "*",
    "k*",
    "[a-",
    "LEFT",
    "RIGHT",
    "BEFORE",
    "AFTER",
    "WITHVALUES",
    "LIMIT",
    "RANK",
    "MAXLEN",
    "FIELDS",
    "BEGIN",
    "COMMIT",
    "ABORT",
    "STEP",
    "READONLY",
    "LIST",
    "INFO",
    "STATS",
    "SET",
    "USE",
    "SCHEMA",
    "DEFAULT",
    "RESET",
    "HELP",
    "ID",
    "DOCS",
    "GETNAME",
    "SETNAME",
    "ASYNC",
    "DB",
    "string",
    "hash",
    "list",
    "set",
];

/// What the arguments of LEASE are made of: keys, versions of keys that are there and that are not, ids, mistakes.
const OF_LEASES: &[&str] = &[
    "k1",
    "k2",
    "h",
    "l",
    "",
    "1-1",
    "1-2",
    "-1-0",
    "-1-3",
    "--1-3",
    "01-3",
    "1-18446744073709551616",
    "0",
    "1",
    "2",
    "-1",
    "1025",
    "9223372036854775808",
    "HITS",
    "hits",
    "ID",
    "01234567-89ab-cdef-0123-456789abcdef",
    "00000000-0000-0000-0000-000000000000",
    "HAVE",
];

/// What the arguments of CLIENT TRACKING, and of what goes with it, are made of.
const OF_TRACKING: &[&str] = &[
    "ON",
    "OFF",
    "on",
    "BCAST",
    "NOLOOP",
    "OPTIN",
    "OPTOUT",
    "PREFIX",
    "PREFIX",
    "k",
    "k1",
    "",
    "REDIRECT",
    "0",
    "1",
    "2",
    "-1",
    "18446744073709551616",
    "YES",
    "NO",
    "3",
    "__redis__:invalidate",
];

/// Those that are answered with none or with several replies, or that end the server.
const NOT_ONE_REPLY: &[&str] = &["monitor", "quit", "shutdown"];

fn engine(runtime: Runtime) -> Engine {
    let policy = choose("s3-fifo").expect("the policy");
    let cache =
        CacheOptions { budget_bytes: 1 << 20, partitions: 1, policy: policy.policy, policy_values: policy.values };
    let store = Arc::new(Memory::new());
    Engine::new(EngineOptions::new(runtime, store, cache))
}

/// A request that the table of commands may know.
fn request(choices: &mut Choices<'_>, names: &[&'static str]) -> Vec<Vec<u8>> {
    if choices.below(4) == 0 {
        return of_a_cache(choices);
    }
    let name = match choices.below(10) {
        0 => choices.bytes(12),
        1 => b"TXN".to_vec(),
        2 => b"MULTI".to_vec(),
        3 => b"EXEC".to_vec(),
        _ => names[choices.below(names.len())].as_bytes().to_vec(),
    };
    let argument = |choices: &mut Choices<'_>| match choices.below(12) {
        0 => choices.bytes(40),
        1 => names[choices.below(names.len())].as_bytes().to_vec(),
        _ => choices.one(WORDS).as_bytes().to_vec(),
    };
    let count = choices.below(7);
    [name].into_iter().chain((0..count).map(|_| argument(choices))).collect()
}

/// A request of a client with a cache.
fn of_a_cache(choices: &mut Choices<'_>) -> Vec<Vec<u8>> {
    let (words, arguments): (&[&str], &[&str]) = match choices.below(8) {
        0 => (&["LEASE", "GET", "1"], OF_LEASES),
        1 => (&["LEASE", "GET"], OF_LEASES),
        2 | 3 => (&["LEASE", "CHECK"], OF_LEASES),
        4 => (&["CLIENT", "TRACKING", "ON"], OF_TRACKING),
        5 => (&["CLIENT", "TRACKING"], OF_TRACKING),
        6 => (&["CLIENT", "CACHING"], OF_TRACKING),
        _ => (&["HELLO", "3"], &[]),
    };
    let count = if arguments.is_empty() { 0 } else { choices.below(7) };
    let argument = |choices: &mut Choices<'_>| match choices.below(12) {
        0 => choices.bytes(40),
        _ => choices.one(arguments).as_bytes().to_vec(),
    };
    let words = words.iter().map(|word| word.as_bytes().to_vec());
    words.chain((0..count).map(|_| argument(choices)).collect::<Vec<_>>()).collect()
}

/// Whether a client that tracks is told this, which answers no request.
fn is_told(reply: &Reply) -> bool {
    let told = |word: &Reply| [&b"invalidate"[..], b"tracking-redir-broken"].iter().any(|it| *word == Reply::bulk(it));
    matches!(reply, Reply::Push(parts) if parts.first().is_some_and(told))
}

/// Whether it is answered with exactly one reply.
fn one_reply(request: &[Vec<u8>]) -> bool {
    let is = |at: usize, word: &str| request.get(at).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    let client = is(0, "client") && (is(1, "reply") || is(1, "kill"));
    !client && !NOT_ONE_REPLY.iter().any(|name| is(0, name)) && request.first().is_some_and(|name| !name.is_empty())
}

struct Peer {
    session: Session,
    decoder: Decoder,
    replies: ReplyDecoder,
}

impl Peer {
    /// Serves requests as one batch; their replies.
    async fn serve(&mut self, requests: &[Vec<Vec<u8>>]) -> Vec<Reply> {
        let mut input = BytesMut::new();
        requests.iter().for_each(|request| encode_command(&mut input, request));
        let mut batch = Batch::default();
        let count = self.decoder.decode_batch(&mut input, requests.len() + 1, &mut batch);
        assert_eq!(count, Ok(requests.len()));
        self.session.serve(&batch).await;
        self.session.replies.settle().await;
        let mut output = self.session.replies.ready_mut().split();
        let mut replies = Vec::new();
        while let Some(reply) = self.replies.decode(&mut output).expect("replies are RESP") {
            replies.extend((!is_told(&reply)).then_some(reply));
        }
        assert!(output.is_empty(), "half a reply: {output:?}");
        replies
    }
}

async fn converse(shared: Arc<Shared>, batches: Vec<Vec<Vec<Vec<u8>>>>, said: Arc<Mutex<String>>) {
    let client = shared.clients.add("client".into(), "server".into(), 0, 10).expect("room for one");
    let session = Session::new(shared.clone(), client);
    let replies = ReplyDecoder::new(ReplyLimits::default());
    let mut peer = Peer { session, decoder: Decoder::new(Limits::default()), replies };
    for batch in batches {
        *said.lock().unwrap_or_else(PoisonError::into_inner) = format!("{batch:?}");
        let replies = peer.serve(&batch).await;
        assert!(!peer.session.closing, "closed after {batch:?}");
        assert_eq!(replies.len(), batch.len(), "{batch:?}\nwas answered\n{replies:?}");
    }
    // Whatever it was in, it gets out of it.
    let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    peer.serve(&[words(&["RESET"])]).await;
    let replies = peer.serve(&[words(&["DEL", "last"]), words(&["INCR", "last"]), words(&["PING"])]).await;
    assert_eq!(replies[1..], [Reply::Integer(1), Reply::Simple("PONG".into())], "{replies:?}");
    drop(peer);
    shared.engine.validate();
    assert_eq!(shared.engine.locked_keys(), 0, "locks are left behind");
}

#[test]
fn commands() {
    let names: Vec<&'static str> = command::all().map(|command| command.name).collect();
    bolero::check!().with_test_time(time()).for_each(|input: &[u8]| {
        let mut choices = Choices(input);
        let mut batches: Vec<Vec<Vec<Vec<u8>>>> = Vec::new();
        let mut count = 0;
        while choices.any_left() && count < REQUESTS_MAX {
            let requests = (0..1 + choices.below(4)).map(|_| request(&mut choices, &names));
            let batch: Vec<_> = requests.filter(|request| one_reply(request)).collect();
            count += batch.len();
            batches.extend((!batch.is_empty()).then_some(batch));
        }
        let simulation = Simulation::new(3);
        let shared = Arc::new(Shared::new(ServerOptions::new(engine(simulation.runtime()))));
        let said = Arc::new(Mutex::new(String::new()));
        let ended = simulation.run(converse(shared, batches, said.clone()));
        let said = said.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(matches!(ended, Ended::Done), "it hung after {said}");
    });
}
