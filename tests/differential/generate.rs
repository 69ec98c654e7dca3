//! Random requests, from templates.

use std::collections::BTreeSet;
use std::fmt;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// A case: what both servers are asked.
#[derive(Clone)]
pub struct Case {
    /// Whether each of the two connections speaks RESP3.
    pub resp3: [bool; 2],
    /// Whether it runs on the forebay with little memory, its documents evicted before each step.
    pub cramped: bool,
    /// Pipelines, one after the other.
    pub steps: Vec<Step>,
}

/// Requests that one connection sends without waiting.
#[derive(Clone, Debug)]
pub struct Step {
    /// Which connection.
    pub connection: usize,
    /// What it sends.
    pub requests: Vec<Request>,
    /// Whether forebay's cache is emptied before, so that the store is asked.
    pub forget: bool,
}

/// One request.
#[derive(Clone)]
pub struct Request(Vec<Arg>);

#[derive(Clone, Debug)]
enum Arg {
    /// One of the case's keys.
    Key(u8),
    Bytes(Vec<u8>),
}

impl Request {
    /// Its arguments, where `prefix` makes the keys the case's own.
    pub fn bytes(&self, prefix: &str) -> Vec<Vec<u8>> {
        let bytes = |arg: &Arg| match arg {
            Arg::Key(key) => format!("{prefix}{}", *key as char).into_bytes(),
            Arg::Bytes(bytes) => bytes.clone(),
        };
        self.0.iter().map(bytes).collect()
    }

    /// The command's name in lower case.
    pub fn name(&self) -> String {
        self.option(0)
    }

    /// The argument at `index` in lower case.
    pub fn option(&self, index: usize) -> String {
        match self.0.get(index) {
            Some(Arg::Bytes(bytes)) => String::from_utf8_lossy(bytes).to_ascii_lowercase(),
            _ => String::new(),
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, arg) in self.0.iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            match arg {
                Arg::Key(key) => write!(f, "{space}key:{}", *key as char)?,
                Arg::Bytes(bytes) if bytes.is_empty() => write!(f, "{space}\"\"")?,
                Arg::Bytes(bytes) => write!(f, "{space}{}", bytes.escape_ascii())?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "RESP3 {:?}, cramped {}", self.resp3, self.cramped)?;
        for step in &self.steps {
            let forget = if step.forget { "(cache emptied) " } else { "" };
            writeln!(f, "  {forget}{}> {:?}", step.connection, step.requests)?;
        }
        Ok(())
    }
}

/// The commands, each with what follows its name. One letter is an argument of a kind (`of_kind`), letters with a `+`
/// are repeated together, those after a `?` may be missing, braces hold options of which some are taken, and other
/// words stand for themselves.
const TEMPLATES: &[&str] = &[
    "get K",
    "set K V",
    "set K V {NX|XX|GET|EX R|PX R|EXAT A|PXAT B|KEEPTTL|PERSIST|Z}",
    "setnx K V",
    "setex K R V",
    "psetex K R V",
    "getset K V",
    "getdel K",
    "getex K {EX R|PX R|EXAT A|PXAT B|PERSIST|NX|Z}",
    "mget K+",
    "mset KV+",
    "msetnx KV+",
    "append K V",
    "strlen K",
    "incr K",
    "decr K",
    "incrby K N",
    "decrby K N",
    "incrbyfloat K D",
    "getrange K N N",
    "substr K N N",
    "setrange K O V",
    "del K+",
    "unlink K+",
    "exists K+",
    "touch K+",
    "type K",
    "expire K R {NX|XX|Z}",
    "pexpire K R {NX|XX}",
    "expireat K A {NX|XX|GT|LT|Z}",
    "pexpireat K B {NX|XX|GT|LT}",
    "ttl K",
    "pttl K",
    "expiretime K",
    "pexpiretime K",
    "persist K",
    "rename K K",
    "renamenx K K",
    "copy K K {DB I|REPLACE|Z}",
    "object ENCODING K",
    "object FREQ K",
    "object IDLETIME K",
    "object REFCOUNT K",
    "object HELP",
    "hset K FV+",
    "hset K FV+",
    "hmset K FV+",
    "hsetnx K F V",
    "hget K F",
    "hmget K F+",
    "hgetall K",
    "hkeys K",
    "hvals K",
    "hdel K F+",
    "hexists K F",
    "hlen K",
    "hstrlen K F",
    "hincrby K F N",
    "hincrbyfloat K F D",
    "hscan K C {MATCH P|COUNT N|Z}",
    "hrandfield K",
    "hrandfield K S",
    "hrandfield K S WITHVALUES",
    "hrandfield K S Z",
    "lpush K V+",
    "rpush K V+",
    "lpushx K V+",
    "rpushx K V+",
    "lpop K ?N",
    "rpop K ?N",
    "lrange K N N",
    "llen K",
    "lrem K N V",
    "lindex K N",
    "sadd K V+",
    "sadd K V+",
    "srem K V+",
    "smembers K",
    "sismember K V",
    "smismember K V+",
    "scard K",
    "srandmember K",
    "srandmember K S",
    "srandmember K S Z",
    "sscan K C {MATCH P|COUNT N|Z}",
];

/// Byte strings that forebay keeps in chunks, or is about to.
const LONG_TEMPLATES: &[&str] = &[
    "set K L",
    "append K L",
    "append K L",
    "append K V",
    "setrange K Q L",
    "setrange K Q V",
    "setrange K Q V",
    "getrange K Q Q",
    "getrange K Q Q",
    "strlen K",
    "get K",
    "mget K+",
    "getset K L",
    "getdel K",
    "incr K",
    "incrbyfloat K D",
    "copy K K REPLACE",
    "rename K K",
    "object ENCODING K",
    "del K",
];

/// Those that change the connection's state.
const SESSION_TEMPLATES: &[&str] =
    &["multi", "exec", "discard", "watch K+", "unwatch", "select I", "ping", "ping V", "echo V", "nosuchcommand V+"];

/// Arguments of the kind that `letter` names.
fn of_kind(letter: char) -> BoxedStrategy<Arg> {
    let long = "long".repeat(20);
    let texts: Vec<Vec<u8>> = match letter {
        'K' => return (0..4_u8).prop_map(|key| Arg::Key(b'a' + key)).boxed(),
        'F' => ["f", "g", "1", "", "h"].map(|text| text.as_bytes().to_vec()).to_vec(),
        'V' => {
            let plain = ["a", "b", "1", "10", "-5", "3.5", "", "9223372036854775807", "-9223372036854775808", "inf"];
            let odd = ["01", " 1", "1e3", "0x1p3", "-0", "12345678901234567890", &long];
            let bytes = [b"\0\xff\r\n".to_vec(), b"caf\xc3\xa9".to_vec()];
            let twice = plain.iter().chain(&plain).chain(&odd);
            twice.map(|text| text.as_bytes().to_vec()).chain(bytes).collect()
        }
        'L' => [5, 16_000, 16_368, 16_369, 33_000].map(|len| (0..len).map(|at| (at % 251) as u8).collect()).to_vec(),
        other => texts_of_kind(other).iter().map(|text| text.as_bytes().to_vec()).collect(),
    };
    select(texts).prop_map(Arg::Bytes).boxed()
}

/// Likewise for kinds that have few. Relative times are long or past: nothing expires while a case runs.
fn texts_of_kind(letter: char) -> &'static [&'static str] {
    match letter {
        'N' => &[
            "0",
            "1",
            "-1",
            "2",
            "-2",
            "3",
            "-100",
            "100",
            "9223372036854775807",
            "-9223372036854775808",
            "x",
            "1.5",
            "",
        ],
        'O' => &["0", "1", "2", "5", "20", "-1", "536870912", "9223372036854775807", "x"],
        // Near the ends of chunks, of 16,368 bytes.
        'Q' => &["0", "16367", "16368", "16369", "16384", "32735", "32736", "50000", "-1", "-16369", "-30000"],
        'S' => &["0", "1", "-1", "2", "-3", "5", "10", "-10", "-9223372036854775808", "x"],
        'D' => &["1", "-1", "0.1", "1.5e3", "-3.25", "1e17", "inf", "-inf", "nan", "x", "", " 1", "0x1p-3", "1e5000"],
        'R' => &["100000", "500000", "999999", "0", "-1", "x", "9223372036854775807", "9223372036854775"],
        'A' => &["4000000000", "4100000000", "4200000000", "1", "0", "-1", "x", "9223372036854775807"],
        'B' => &["4000000000000", "4100000000000", "4200000000000", "1", "0", "-1", "x", "9223372036854775807"],
        'P' => &["*", "?", "[fa]*", "f", "*0", "[^f]", "\\*"],
        'C' => &["0", "0", "00", "x", "", "99999999999999999999"],
        'I' => &["0", "0", "1", "16", "-1", "x", "99999999999"],
        'Z' => &["ZZ", "nx", "", "1", "Replace", "withvalues"],
        other => panic!("no kind {other}"),
    }
}

fn word(word: &str) -> BoxedStrategy<Vec<Arg>> {
    let kinds = |letters: &str| letters.chars().map(of_kind).collect::<Vec<_>>();
    if let Some(letters) = word.strip_suffix('+') {
        return vec(kinds(letters), 1..4).prop_map(|groups| groups.concat()).boxed();
    }
    if let Some(letter) = word.strip_prefix('?') {
        return proptest::option::of(kinds(letter)).prop_map(Option::unwrap_or_default).boxed();
    }
    if word.len() == 1 {
        return kinds(word).boxed();
    }
    let upper = Arg::Bytes(word.as_bytes().to_vec());
    let lower = Arg::Bytes(word.to_ascii_lowercase().into_bytes());
    prop_oneof![Just(vec![upper]), Just(vec![lower])].boxed()
}

fn words(text: &str) -> BoxedStrategy<Vec<Arg>> {
    let parts: Vec<_> = text.split_whitespace().map(word).collect();
    parts.prop_map(|parts| parts.concat()).boxed()
}

/// Requests of a template; some lack their last argument or have one too many.
fn request(template: &'static str) -> BoxedStrategy<Request> {
    let (plain, options) = match template.split_once('{') {
        Some((plain, options)) => (plain, Some(options.trim_end_matches('}'))),
        None => (template, None),
    };
    let options = match options {
        Some(options) => {
            let options: Vec<_> = options.split('|').map(words).collect();
            let some = proptest::strategy::Union::new(options);
            vec(some, 0..4).prop_map(|options| options.concat()).boxed()
        }
        None => Just(Vec::new()).boxed(),
    };
    let damage = if template.starts_with("object") { 0..1_u8 } else { 0..40 };
    (words(plain), options, damage, of_kind('V'))
        .prop_map(|(mut args, options, damage, extra)| {
            args.extend(options);
            match damage {
                38 if args.len() > 1 => drop(args.pop()),
                39 => args.push(extra),
                _ => {}
            }
            Request(args)
        })
        .boxed()
}

fn any_of(templates: &[&'static str], known: &BTreeSet<String>) -> BoxedStrategy<Request> {
    let name = |template: &str| template.split(' ').next().unwrap_or_default().to_owned();
    let usable = templates.iter().filter(|template| known.contains(&name(template)) || template.starts_with("nosuch"));
    let requests: Vec<_> = usable.map(|template| request(template)).collect();
    proptest::strategy::Union::new(requests).boxed()
}

fn plain(name: &str) -> Request {
    Request(vec![Arg::Bytes(name.as_bytes().to_vec())])
}

/// A transaction: perhaps some keys watched, perhaps something done by the other connection, then a script that is
/// executed or not; pipelined or not.
fn transaction(data: BoxedStrategy<Request>) -> BoxedStrategy<Vec<Step>> {
    let watch = proptest::option::of(request("watch K+"));
    let between = proptest::option::of(data.clone());
    let end = prop_oneof![8 => Just("exec"), 1 => Just("discard")];
    (0..2_usize, watch, between, vec(data, 0..5), end, any::<bool>())
        .prop_map(|(connection, watch, between, script, end, pipelined)| {
            let one = |connection, request| Step { connection, requests: vec![request], forget: false };
            let mut steps = Vec::new();
            steps.extend(watch.map(|watch| one(connection, watch)));
            steps.extend(between.map(|between| one(1 - connection, between)));
            let mut requests = vec![plain("multi")];
            requests.extend(script);
            requests.push(plain(end));
            match pipelined {
                true => steps.push(Step { connection, requests, forget: false }),
                false => steps.extend(requests.into_iter().map(|request| one(connection, request))),
            }
            steps
        })
        .boxed()
}

/// Cases of the commands that are `known`.
pub fn case(known: &BTreeSet<String>) -> impl Strategy<Value = Case> + use<> {
    case_of(TEMPLATES, known)
}

/// Likewise with long byte strings only.
pub fn long_case(known: &BTreeSet<String>) -> impl Strategy<Value = Case> + use<> {
    case_of(LONG_TEMPLATES, known)
}

fn case_of(templates: &[&'static str], known: &BTreeSet<String>) -> impl Strategy<Value = Case> + use<> {
    let data = any_of(templates, known);
    let session = any_of(SESSION_TEMPLATES, known);
    let mixed = prop_oneof![9 => data.clone(), 1 => session.clone()].boxed();
    let forget = proptest::bool::weighted(0.1);
    let step = |requests: BoxedStrategy<Vec<Request>>| {
        (0..2_usize, requests, forget)
            .prop_map(|(connection, requests, forget)| vec![Step { connection, requests, forget }])
    };
    let one = |strategy: BoxedStrategy<Request>| step(strategy.prop_map(|request| vec![request]).boxed());
    let pipeline = step(vec(mixed, 2..8).boxed());
    let steps = prop_oneof![
        24 => one(data.clone()),
        4 => pipeline,
        3 => transaction(data),
        1 => one(session),
    ];
    let cramped = proptest::bool::weighted(1.0 / 3.0);
    (any::<[bool; 2]>(), cramped, vec(steps, 1..40)).prop_map(|(resp3, cramped, steps)| Case {
        resp3,
        cramped,
        steps: steps.concat(),
    })
}
