//! What clients say over their connections, and what they may conclude from the replies alone: a counter never shows
//! less than anyone was told before the request was sent; no two increments are told the same number; two counters that
//! always grow together are always equal; in a batch each command sees those before it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay::runtime::simulated::SplitMix;
use forebay::txn::Engine;
use forebay::txn::history::History;
use forebay::{Data, Key, Value};
use forebay_protocol::Reply;
use forebay_server::{ServerOptions, Shared};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, select};

use crate::book::{Book, Marks, broken, expect};
use crate::connection::{Connection, Ended, Request, request};
use crate::leasing::{self, Copies};
use crate::oracle::Stock;
use crate::orders::{Orders, PAUSE_MS_MAX};
use crate::tracked;
use crate::world::Scenario;

/// Names of counters; the first two always grow together, by scripts or transactions.
const COUNTERS: [&str; 5] = ["pair0", "pair1", "counter0", "counter1", "counter2"];
/// Those two.
pub const PAIR: [&str; 2] = ["pair0", "pair1"];
/// Documents that come and go.
const BLIND: [&str; 2] = ["blind0", "blind1"];
/// Documents of the database that is flushed.
const FLUSHED: [&str; 2] = ["flushed0", "flushed1"];
/// The database that is flushed.
pub const CLEARED_SPACE: u8 = 1;
/// What one client does.
const STEPS: u64 = 10;
/// Clients that work at once.
const CLIENTS: u64 = 6;

/// All keys that a run may touch.
pub fn all_keys() -> Vec<Key> {
    let of = |space: u8| move |name: &&str| Key::new(space, name.as_bytes());
    COUNTERS.iter().map(of(0)).chain(BLIND.iter().map(of(0))).chain(FLUSHED.iter().map(of(1))).collect()
}

/// The clients of one life.
pub fn clients(engine: &Engine, seed: u64, book: &Book, _: &Arc<History>) -> Vec<BoxFuture<'static, ()>> {
    // What was shown in an earlier life holds in this one: nothing acknowledged is lost.
    let shared = Arc::new(Shared::new(ServerOptions::new(engine.clone())));
    let orders = Orders::new(book);
    let client = |number: u64| {
        let name = format!("client {number}");
        let (connection, ended) = Connection::new(&shared, &orders, &name);
        Client {
            connection,
            ended: Some(ended),
            orders: orders.clone(),
            shared: shared.clone(),
            random: SplitMix::new(seed.wrapping_mul(37).wrapping_add(number)),
            book: book.clone(),
            name,
            copies: Copies::default(),
        }
    };
    (0..CLIENTS).map(|number| client(number).run().boxed()).collect()
}

/// Counters hold at least what was acknowledged, and at most what was ever sent besides.
pub fn check_values(book: &Book, stock: &Stock) {
    let mut pages = book.pages();
    let lossy = pages.lossy;
    for (key, read) in &stock.reads {
        let name = String::from_utf8_lossy(key.name()).into_owned();
        if !COUNTERS.contains(&name.as_str()) {
            continue;
        }
        let stored = count_of(read.value.as_ref());
        let sum = pages.sums.entry(name).or_default();
        let least = if lossy { 0 } else { sum.0 };
        expect((least..=sum.0 + sum.1).contains(&stored), "nothing acknowledged lost", || {
            format!("{key} is {stored}, {} were acknowledged and {} more sent", sum.0, sum.1)
        });
        *sum = (stored, 0);
    }
}

fn count_of(value: Option<&Value>) -> i64 {
    match value.map(|value| &value.data) {
        None => 0,
        Some(Data::Bytes(bytes)) => parse(&bytes.joined()),
        Some(other) => broken("values", format!("{other:?} is no counter")),
    }
}

pub fn parse(bytes: &[u8]) -> i64 {
    let parsed = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
    parsed.unwrap_or_else(|| broken("values", format!("{bytes:?} is no counter")))
}

/// What a counter shows; `None` for an error.
pub fn shown(reply: &Reply) -> Option<i64> {
    match reply {
        Reply::Integer(number) => Some(*number),
        Reply::Bulk(bytes) => Some(parse(bytes)),
        Reply::Nil => Some(0),
        _ => None,
    }
}

/// What happens here alone, and how often it did.
pub fn happens_too(marks: &Marks, _: Scenario) -> Vec<(u64, &'static str)> {
    vec![
        (marks.killed, "connections that are killed"),
        (marks.paused, "requests that wait out a pause"),
        (marks.told, "messages of tracking"),
    ]
}

pub struct Client {
    pub connection: Connection,
    /// Taken when it begins.
    ended: Option<Ended>,
    orders: Orders,
    pub shared: Arc<Shared>,
    random: SplitMix,
    pub book: Book,
    pub name: String,
    /// They outlive its connections.
    pub copies: Copies,
}

impl Client {
    async fn run(mut self) {
        let runtime = self.shared.engine.runtime().clone();
        let Some(mut ended) = self.ended.take() else { return };
        for _ in 0..STEPS {
            let patience = (self.random.below(20) == 0).then(|| Duration::from_micros(self.random.below(4000)));
            let impatient = async {
                match patience {
                    Some(patience) => runtime.sleep(patience).await,
                    None => std::future::pending().await,
                }
            };
            let left = match select(Box::pin(self.step()), select(&mut ended, Box::pin(impatient))).await {
                Either::Left(_) => continue,
                Either::Right((Either::Left(_), _)) => false,
                Either::Right((Either::Right(_), _)) => true,
            };
            self.book.pages().marks.dropped += u64::from(left);
            let why = if left { "is gone" } else { "was sent away" };
            self.book.note(&runtime, &format!("{} {why}", self.name));
            (self.connection, ended) = Connection::new(&self.shared, &self.orders, &self.name);
        }
    }

    pub fn chance(&mut self, one_in: u64) -> bool {
        self.random.below(one_in) == 0
    }

    pub fn counter(&mut self) -> &'static str {
        COUNTERS[2 + self.random.below(3) as usize]
    }

    pub async fn pause(&mut self, us_max: u64) {
        let pause = Duration::from_micros(self.random.below(us_max));
        self.connection.pause(pause).await;
    }

    async fn step(&mut self) {
        match self.random.below(12) {
            0..=3 => self.batch().await,
            4 | 5 => self.script().await,
            6 => self.watch().await,
            7 => self.flushed().await,
            8 => leasing::leased(self).await,
            9 => tracked::tracked(self).await,
            _ => self.transaction().await,
        }
        if self.chance(30) {
            self.order().await;
        }
        if self.chance(3) {
            self.pause(2000).await;
        }
        if self.chance(10) {
            let expired = self.shared.engine.reap().await;
            self.book.pages().marks.expired += expired as u64;
        }
    }

    /// Sends requests together and looks at each reply.
    pub async fn ask(&mut self, requests: &[Request]) -> Vec<Reply> {
        let floors = self.book.pages().floors.clone();
        let replies = self.connection.ask(requests).await;
        let runtime = self.shared.engine.runtime().clone();
        let mut own = BTreeMap::new();
        for (request, reply) in requests.iter().zip(&replies) {
            self.book.note(&runtime, &format!("{} {request:?} {reply:?}", self.name));
            self.judge(request, reply, &floors, &mut own);
        }
        replies
    }

    /// Whether a reply agrees with what was told before; `own`: in this batch.
    pub fn judge(
        &self,
        request: &Request,
        reply: &Reply,
        floors: &BTreeMap<String, i64>,
        own: &mut BTreeMap<String, i64>,
    ) {
        let mut pages = self.book.pages();
        let lossy = pages.lossy;
        if let Reply::Error(text) = reply {
            let code = text.split(|byte| *byte == b' ').next().unwrap_or_default();
            let marks = &mut pages.marks;
            match code {
                b"TXABORTED" if text.starts_with(b"TXABORTED wounded") => marks.wounded += 1,
                b"TXCONFLICT" | b"TXABORTED" if text.windows(6).any(|word| word == b"waited") => {
                    marks.lock_timeouts += 1
                }
                b"TXCONFLICT" | b"TXABORTED" => marks.conflicts += 1,
                b"STOREDOWN" | b"BUFFERFULL" => marks.store_down += 1,
                b"TXUNKNOWN" => marks.unknown += 1,
                b"ERR" if lossy && text.windows(6).any(|word| word == b"minted") => marks.lost += 1,
                _ => broken("errors", format!("{request:?} got {reply:?}")),
            }
            return;
        }
        pages.marks.committed += 1;
        let shows: Vec<(&String, &Reply)> = match (request[0].as_str(), reply) {
            ("GET" | "INCR", reply) => vec![(&request[1], reply)],
            ("MGET", Reply::Array(replies)) => request[1..].iter().zip(replies).collect(),
            _ => return,
        };
        let counters = shows.iter().filter(|(name, _)| COUNTERS.contains(&name.as_str()));
        for (name, number) in counters.filter_map(|(name, reply)| Some((*name, shown(reply)?))) {
            if let Some(before) = own.insert(name.clone(), number) {
                expect(lossy || number >= before, "own writes", || {
                    format!("{name} is {number} after {before} in one batch")
                });
            }
            let floor = floors.get(name).copied().unwrap_or_default();
            expect(lossy || number >= floor, "strict serializability", || {
                format!("{name} shows {number}, and {floor} was shown before that was asked for")
            });
        }
        if let ("MGET", [(first, a), (second, b)]) = (request[0].as_str(), shows.as_slice())
            && (first.as_str(), second.as_str()) == ("pair0", "pair1")
        {
            expect(shown(a) == shown(b), "strict serializability", || format!("half of a commit: {reply:?}"));
        }
    }

    /// What was shown outside of a transaction, or by one that committed, holds for all who ask later.
    fn learn(&self, name: &str, number: i64) {
        let mut pages = self.book.pages();
        let floor = pages.floors.entry(name.to_owned()).or_default();
        *floor = number.max(*floor);
    }

    /// An increment by a committed transaction was told `number`.
    fn incremented(&self, name: &str, number: i64) {
        let first = self.book.pages().numbers.insert((name.to_owned(), number));
        let lossy = self.book.pages().lossy;
        expect(first || lossy, "nothing acknowledged lost", || format!("two increments of {name} were told {number}"));
        self.learn(name, number);
    }

    /// Increments are about to be sent.
    pub fn risk(&self, names: &[&str]) {
        let mut pages = self.book.pages();
        names.iter().for_each(|name| pages.sums.entry((*name).to_owned()).or_default().1 += 1);
    }

    /// The increments of `names` were answered by `reply`: they are there, or not, or nobody knows.
    pub fn resolve(&self, names: &[&str], reply: &Reply) {
        let unknown = matches!(reply, Reply::Error(text) if text.starts_with(b"TXUNKNOWN"));
        let done = !matches!(reply, Reply::Error(_) | Reply::NilArray);
        let mut pages = self.book.pages();
        for name in names.iter().filter(|_| !unknown) {
            let sum = pages.sums.entry((*name).to_owned()).or_default();
            *sum = (sum.0 + i64::from(done), sum.1 - 1);
        }
    }

    /// Plain commands, pipelined.
    async fn batch(&mut self) {
        let mut requests: Vec<Request> = Vec::new();
        for _ in 0..1 + self.random.below(5) {
            let counter = self.counter();
            requests.push(match self.random.below(8) {
                0..=2 => request(&format!("INCR {counter}")),
                3 | 4 => request(&format!("GET {counter}")),
                5 => request("MGET pair0 pair1"),
                6 => request(&format!("MGET {counter} counter0 pair0")),
                _ if self.chance(3) => request("SET blind0 x PX 3"),
                _ if self.chance(2) => request("MSET blind0 x blind1 x"),
                _ => request("DEL blind0 blind1"),
            });
        }
        let increments = |requests: &[Request]| -> Vec<String> {
            requests.iter().filter(|request| request[0] == "INCR").map(|request| request[1].clone()).collect()
        };
        for name in increments(&requests) {
            self.risk(&[&name]);
        }
        let replies = self.ask(&requests).await;
        for (request, reply) in requests.iter().zip(&replies) {
            match (request[0].as_str(), shown(reply)) {
                ("INCR", number) => {
                    self.resolve(&[&request[1]], reply);
                    number.into_iter().for_each(|number| self.incremented(&request[1], number));
                }
                ("GET", Some(number)) => self.learn(&request[1], number),
                _ => {}
            }
        }
    }

    /// MULTI and EXEC, in one batch or command by command; now and then one that undoes itself.
    async fn script(&mut self) {
        let counter = self.counter();
        let mut queued = vec![request("INCR pair0"), request("INCR pair1"), request(&format!("INCR {counter}"))];
        let undone = self.chance(8);
        if undone {
            queued.push(request("INCRBY counter0 nonsense"));
        }
        let names = if undone { vec![] } else { vec!["pair0", "pair1", counter] };
        self.risk(&names);
        let mut requests = vec![request("MULTI")];
        requests.extend(queued);
        requests.push(request("EXEC"));
        let mut replies = Vec::new();
        if self.chance(2) {
            replies = self.connection.ask(&requests).await;
        } else {
            for request in &requests {
                replies.extend(self.connection.ask(std::slice::from_ref(request)).await);
            }
        }
        let Some(last) = replies.last() else { return };
        let runtime = self.shared.engine.runtime().clone();
        self.book.note(&runtime, &format!("{} EXEC {last:?}", self.name));
        self.resolve(&names, last);
        match last {
            Reply::Array(numbers) => self.told(&names, numbers),
            Reply::Error(text) if undone && text.starts_with(b"EXECABORT") => {}
            error => self.judge(&request("EXEC"), error, &BTreeMap::new(), &mut BTreeMap::new()),
        }
    }

    /// What a script that committed has told of increments.
    pub fn told(&self, names: &[&str], replies: &[Reply]) {
        let numbers: Vec<i64> = replies.iter().filter_map(shown).collect();
        expect(numbers.len() == names.len(), "errors", || format!("{names:?} got {replies:?}"));
        expect(numbers[0] == numbers[1], "strict serializability", || format!("half of a commit: {replies:?}"));
        names.iter().zip(&numbers).for_each(|(name, number)| self.incremented(name, *number));
        self.book.pages().marks.committed += 1;
    }

    /// WATCH, GET, think, and a SET of one more: an increment only if nothing came between.
    async fn watch(&mut self) {
        let counter = self.counter();
        let asked = [request(&format!("WATCH {counter}")), request(&format!("GET {counter}"))];
        let replies = self.ask(&asked).await;
        let Some(number) = shown(&replies[1]).filter(|_| !replies[0].is_error()) else {
            self.ask(&[request("UNWATCH")]).await;
            return;
        };
        if self.chance(2) {
            self.pause(2000).await;
        }
        self.risk(&[counter]);
        let set = format!("SET {counter} {}", number + 1);
        let replies = self.connection.ask(&[request("MULTI"), request(&set), request("EXEC")]).await;
        self.resolve(&[counter], &replies[2]);
        match &replies[2] {
            Reply::Array(_) => self.incremented(counter, number + 1),
            Reply::NilArray | Reply::Nil => self.book.pages().marks.watch_failed += 1,
            error => self.judge(&request("EXEC"), error, &BTreeMap::new(), &mut BTreeMap::new()),
        }
    }

    /// Works in the database that is flushed, or flushes it.
    async fn flushed(&mut self) {
        self.ask(&[request("SELECT 1")]).await;
        let requests = match self.random.below(4) {
            0 => vec![request("FLUSHDB")],
            1 => vec![request("MSET flushed0 x flushed1 x")],
            _ => vec![request("GET flushed0"), request("MGET flushed0 flushed1")],
        };
        let replies = self.ask(&requests).await;
        self.book.pages().marks.clears += u64::from(requests[0][0] == "FLUSHDB" && !replies[0].is_error());
        self.ask(&[request("SELECT 0")]).await;
    }

    /// Sends others away, or makes them wait.
    async fn order(&mut self) {
        if self.chance(2) {
            self.kill().await;
            return;
        }
        self.pause_all().await;
        if self.chance(2) {
            self.pause(20_000).await;
            match self.chance(2) {
                true => self.kill().await,
                false => self.unpause().await,
            }
        }
    }

    async fn kill(&mut self) {
        let mut clients: Vec<u64> = self.shared.clients.all().iter().map(|client| client.id).collect();
        clients.retain(|id| *id != self.connection.id());
        let one = (!self.chance(8) && !clients.is_empty()).then(|| self.random.below(clients.len() as u64) as usize);
        let text = match one {
            Some(at) => format!("CLIENT KILL ID {}", clients[at]),
            None => "CLIENT KILL TYPE normal".to_owned(),
        };
        let killed = one.map_or(clients.clone(), |at| vec![clients[at]]);
        let replies = self.ask(&[request(&text)]).await;
        expect(replies == [Reply::Integer(killed.len() as i64)], "errors", || format!("{text} got {replies:?}"));
        killed.iter().for_each(|id| self.orders.kill(*id, self.shared.engine.runtime()));
    }

    async fn pause_all(&mut self) {
        let ms_max = if self.chance(2) { 20 } else { PAUSE_MS_MAX };
        let (ms, writes_only) = (1 + self.random.below(ms_max), self.chance(2));
        let text = format!("CLIENT PAUSE {ms} {}", if writes_only { "WRITE" } else { "ALL" });
        self.ask(&[request(&text)]).await;
        self.orders.pause(ms, writes_only, self.shared.engine.runtime());
    }

    async fn unpause(&mut self) {
        self.ask(&[request("CLIENT UNPAUSE")]).await;
        self.orders.unpause(self.shared.engine.runtime());
    }

    /// TXN, command by command, its client thinking between them.
    async fn transaction(&mut self) {
        let counter = self.counter();
        let names = ["pair0", "pair1", counter];
        let mut requests = vec![request("TXN BEGIN"), request("MGET pair0 pair1")];
        requests
            .extend(names.iter().flat_map(|name| [request(&format!("INCR {name}")), request(&format!("GET {name}"))]));
        requests.push(request("MGET pair0 pair1"));
        let mut numbers = Vec::new();
        for asked in requests {
            let reply = self.ask(std::slice::from_ref(&asked)).await.remove(0);
            if reply.is_error() {
                self.connection.ask(&[request("TXN ABORT")]).await;
                return;
            }
            match (asked[0].as_str(), shown(&reply)) {
                ("INCR", Some(number)) => numbers.push(number),
                ("GET", number) => expect(number == numbers.last().copied(), "own writes", || {
                    format!("{asked:?} shows {number:?} after {numbers:?}")
                }),
                _ => {}
            }
            match self.random.below(30) {
                0 => self.pause(60_000).await,
                1..=5 => self.pause(2000).await,
                _ => {}
            }
        }
        if self.chance(6) {
            self.ask(&[request("TXN ABORT")]).await;
            return;
        }
        self.risk(&names);
        let reply = self.ask(&[request("TXN COMMIT")]).await.remove(0);
        self.resolve(&names, &reply);
        if !reply.is_error() {
            names.iter().zip(numbers).for_each(|(name, number)| self.incremented(name, number));
        }
    }
}
