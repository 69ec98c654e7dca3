//! Two forebays that want one database, one after the other. The one that was cut off from it and finds another owner
//! there answers nothing any more. What it had buffered waits for an operator.

use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::process::{Forebay, forebay_command};
use crate::common::{Connection, http};
use crate::postgres::Server;
use crate::proxy::Proxy;
use crate::state::{PATIENCE, calm, entry, figure, said};
use crate::{ok, start, start_through};

/// What the log says once where another has taken the database over.
const TAKEN: &str = "another forebay has taken this database over";

/// What goes on behind that.
const ANSWERS: &str = "answers NOTOWNER to reads and writes until it is started again";

/// What it says where a start finds that others had the database.
const SINCE: &str = "since these writes were buffered";

/// What it says where the last owner was another.
const LAST: &str = "another forebay had this database last";

const NAMES: &str = "SELECT string_agg(convert_from(name, 'UTF8'), ' ' ORDER BY name) FROM forebay.documents";

/// A forebay that is reached over HTTP too, behind a network that can be cut.
pub struct First {
    server: Server,
    database: String,
    pub network: Proxy,
    pub forebay: Forebay,
    http: String,
}

impl First {
    pub fn start() -> First {
        let server = Server::start();
        let database = server.database();
        let network = Proxy::to_postgres(server.address());
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        let http = format!("127.0.0.1:{port}");
        let forebay = start_through(&network, &server, &database, &["--http", &http]);
        First { server, database, network, forebay, http }
    }

    pub fn second(&self) -> Forebay {
        start(&self.server, &self.database, &[])
    }

    /// Waits for what takes no request of a client's.
    pub fn is_fenced(&self) {
        let began = Instant::now();
        loop {
            let answer = http(&self.http, "/readyz");
            if answer.starts_with("HTTP/1.1 503 ") {
                return assert!(answer.contains(TAKEN), "{answer}");
            }
            assert!(began.elapsed() < PATIENCE, "{answer}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn refuses(client: &mut Connection, command: &[&str]) {
    let reply = said(&client.call(command));
    assert!(reply.starts_with(&format!("NOTOWNER {TAKEN}: owner ")), "{command:?}: {reply}");
}

fn is_suspended(client: &mut Connection) {
    let why = said(&entry(client, "suspended"));
    assert!(why.contains(SINCE) && why.contains("CACHE DRAIN RESUME"), "{why}");
}

/// The first is cut off and buffers, a second one writes, the network heals. Then the first answers no read and no
/// write, and says so. Started again it carries nothing over by itself.
#[test]
fn who_was_cut_off_is_fenced_and_suspended() {
    let mut first = First::start();
    let mut client = Connection::new(first.forebay.address);
    assert_eq!(client.call(&["SET", "both", "old"]), ok());
    assert_eq!(client.call(&["SET", "cached", "old"]), ok());
    first.network.close();
    assert_eq!(client.call(&["SET", "both", "first"]), ok());
    assert_eq!(client.call(&["SET", "mine", "first"]), ok());
    assert_eq!(client.call(&["SET", "gone", "first"]), ok());
    assert_eq!(figure(&mut client, "pending"), 3);
    assert_eq!([client.call(&["MULTI"]), client.call(&["SET", "queued", "1"])], [ok(), Reply::Simple("QUEUED".into())]);
    let mut second = first.second();
    let mut other = Connection::new(second.address);
    assert_eq!([other.call(&["SET", "both", "second"]), other.call(&["SET", "cached", "second"])], [ok(), ok()]);
    assert!(second.log().contains(LAST), "{}", second.log());
    first.network.pass();
    first.is_fenced();
    refuses(&mut client, &["EXEC"]);
    for command in ["GET cached", "SET both again", "SET new 1", "INCR n", "MULTI", "TXN BEGIN", "DBSIZE", "FLUSHALL"] {
        refuses(&mut client, &command.split(' ').collect::<Vec<_>>());
    }
    assert_eq!(client.call(&["PING"]), Reply::Simple("PONG".into()));
    assert!(said(&client.call(&["INFO"])).contains("store_fenced:1"));
    assert!(said(&entry(&mut client, "fenced")).contains(TAKEN));
    let Reply::Array(pending) = client.call(&["CACHE", "PENDING"]) else { panic!("a list") };
    assert_eq!(pending.len(), 3);
    let refused = said(&client.call(&["CACHE", "DRAIN", "RESUME"]));
    assert!(refused.starts_with("NOTOWNER "), "{refused}");
    assert!(http(&first.http, "/metrics").contains("\nforebay_store_fenced 1\n"));
    assert!(http(&first.http, "/healthz").starts_with("HTTP/1.1 200 "));
    assert_eq!(first.forebay.log().matches(ANSWERS).count(), 1, "{}", first.forebay.log());
    first.forebay.kill9();
    second.terminate();
    // What was decided is whose the database is, not what becomes of the writes: to start again is no answer to that.
    for _ in 0..2 {
        first.forebay.restart();
        client = Connection::new(first.forebay.address);
        is_suspended(&mut client);
        assert_eq!(figure(&mut client, "pending"), 3);
        assert_eq!(first.server.sql(&first.database, NAMES), "both cached");
        first.forebay.kill9();
    }
    second.restart();
    assert_eq!(Connection::new(second.address).call(&["GET", "both"]), Reply::bulk(b"second"));
    second.terminate();
    first.forebay.restart();
    client = Connection::new(first.forebay.address);
    is_suspended(&mut client);
    assert_eq!(client.call(&["GET", "cached"]), Reply::bulk(b"second"));
    assert_eq!(client.call(&["CACHE", "QUARANTINE", "DROP", "3", "the second one knows better"]), ok());
    assert_eq!([figure(&mut client, "pending"), figure(&mut client, "quarantined")], [2, 0]);
    is_suspended(&mut client);
    assert_eq!(client.call(&["CACHE", "DRAIN", "RESUME"]), ok());
    calm(first.forebay.address);
    assert_eq!(first.server.sql(&first.database, NAMES), "both cached mine");
    first.forebay.restart();
    client = Connection::new(first.forebay.address);
    assert_eq!([said(&entry(&mut client, "suspended")), said(&client.call(&["GET", "both"]))], ["Nil", "first"]);
}

/// The counter of `row` at the first owner.
fn counted(client: &mut Connection, row: &str) -> String {
    said(&client.call(&["HGET", row, "n"]))
}

/// The first owner is killed with `+5` to two rows of 0 that waits, and a second one has added 100 to both.
fn both_have_added() -> First {
    let mut first = First::start();
    let mut client = Connection::new(first.forebay.address);
    for row in ["acct", "other"] {
        assert_eq!(client.call(&["HSET", row, "n", "0"]), Reply::Integer(1));
    }
    first.network.close();
    for row in ["acct", "other"] {
        assert_eq!(client.call(&["HINCRBY", row, "n", "5"]), Reply::Integer(5));
    }
    first.forebay.kill9();
    let mut second = first.second();
    for row in ["acct", "other"] {
        assert_eq!(Connection::new(second.address).call(&["HINCRBY", row, "n", "100"]), Reply::Integer(100));
    }
    second.terminate();
    first
}

fn becomes_suspended(client: &mut Connection) {
    let began = Instant::now();
    while entry(client, "suspended") == Reply::Nil {
        assert!(began.elapsed() < PATIENCE, "{:?}", client.call(&["CACHE", "STATE"]));
        std::thread::sleep(Duration::from_millis(20));
    }
    is_suspended(client);
}

/// What waits is resumed and applied. The rows have both sums then, and what is built on them keeps these.
fn resumes_with_both(first: &mut First) {
    let mut client = Connection::new(first.forebay.address);
    assert_eq!(client.call(&["CACHE", "DRAIN", "RESUME"]), ok());
    calm(first.forebay.address);
    assert_eq!(counted(&mut client, "acct"), "105", "drained");
    assert_eq!(client.call(&["HINCRBY", "acct", "n", "1"]), Reply::Integer(106));
    first.forebay.restart();
    assert_eq!(counted(&mut Connection::new(first.forebay.address), "acct"), "106");
}

/// A start that reaches the database shows what the second owner wrote with what waits on top.
#[test]
fn what_another_owner_wrote_is_shown_below_what_waits() {
    let mut first = both_have_added();
    first.network.pass();
    first.forebay.restart();
    let mut client = Connection::new(first.forebay.address);
    is_suspended(&mut client);
    assert_eq!(counted(&mut client, "acct"), "105", "suspended");
    // What is given up is not shown any more.
    assert_eq!(counted(&mut client, "other"), "105", "suspended");
    assert_eq!(client.call(&["CACHE", "QUARANTINE", "DROP", "2", "drill"]), ok());
    assert_eq!(counted(&mut client, "other"), "100", "given up");
    resumes_with_both(&mut first);
}

/// All that waits is given up at once, and the second owner's values stay.
#[test]
fn an_operator_gives_up_all_that_waits() {
    let mut first = both_have_added();
    first.network.pass();
    first.forebay.restart();
    let mut client = Connection::new(first.forebay.address);
    is_suspended(&mut client);
    let refused = said(&client.call(&["CACHE", "QUARANTINE", "DROP", "ALL", " "]));
    assert!(refused.contains("a reason is needed"), "{refused}");
    // One is in use: the other is given up, and both the error and the log say so.
    let mut other = Connection::new(first.forebay.address);
    assert_eq!(other.call(&["TXN", "BEGIN"]), ok());
    assert_eq!(counted(&mut other, "acct"), "105");
    let refused = said(&client.call(&["CACHE", "QUARANTINE", "DROP", "ALL", "drill"]));
    assert!(refused.starts_with("TXCONFLICT") && refused.contains("; 1 were dropped"), "{refused}");
    let log = first.forebay.log();
    assert!(log.contains("was dropped ticket=2 ") && !log.contains("was dropped ticket=1 "), "{log}");
    assert_eq!(other.call(&["TXN", "ABORT"]), ok());
    assert_eq!(client.call(&["CACHE", "QUARANTINE", "DROP", "ALL", "drill"]), Reply::Integer(1));
    calm(first.forebay.address);
    assert_eq!([counted(&mut client, "acct"), counted(&mut client, "other")], ["100", "100"]);
    assert_eq!(said(&entry(&mut client, "suspended")), "Nil");
    assert_eq!(client.call(&["CACHE", "QUARANTINE", "DROP", "ALL", "drill"]), Reply::Integer(0));
}

/// A start that does not reach the database shows what its journal has. Once the database is there, this is neither
/// shown nor built on.
#[test]
fn what_a_late_start_has_shown_is_neither_kept_nor_built_on() {
    let mut first = both_have_added();
    first.forebay.restart();
    let mut client = Connection::new(first.forebay.address);
    assert_eq!(counted(&mut client, "acct"), "5", "nothing says that another was there");
    assert_eq!(client.call(&["TXN", "BEGIN"]), ok());
    assert_eq!(counted(&mut client, "acct"), "5");
    assert_eq!(client.call(&["HSET", "acct", "n", "6"]), Reply::Integer(0));
    let [mut watches, mut leases] = [(); 2].map(|()| Connection::new(first.forebay.address));
    assert_eq!(watches.call(&["WATCH", "acct"]), ok());
    let leased = said(&leases.call(&["LEASE", "GET", "1", "acct"]));
    first.network.pass();
    let mut other = Connection::new(first.forebay.address);
    becomes_suspended(&mut other);
    let committed = said(&client.call(&["TXN", "COMMIT"]));
    assert!(committed.starts_with("TXCONFLICT"), "{committed}");
    // Nor is what was read under a version.
    assert_eq!(watches.call(&["MULTI"]), ok());
    watches.call(&["HSET", "acct", "n", "7"]);
    assert_eq!(watches.call(&["EXEC"]), Reply::NilArray);
    let version = leased.split(' ').find(|part| part.contains('-')).unwrap_or_else(|| panic!("{leased}"));
    assert_eq!(leases.call(&["LEASE", "CHECK", "acct", version]), ok());
    assert_eq!(leases.call(&["MULTI"]), ok());
    leases.call(&["HSET", "acct", "n", "8"]);
    let executed = said(&leases.call(&["EXEC"]));
    assert!(executed.starts_with("TXSTALE acct "), "{executed}");
    assert_eq!([counted(&mut other, "acct"), counted(&mut other, "other")], ["105", "105"], "suspended");
    resumes_with_both(&mut first);
}

/// A start that does not reach the database, while another owner takes it over, finds that owner there. It answers
/// nothing from then on, as one that was never started again.
#[test]
fn a_late_start_that_finds_another_owner_is_fenced() {
    let mut first = First::start();
    let mut client = Connection::new(first.forebay.address);
    assert_eq!(client.call(&["SET", "both", "old"]), ok());
    first.network.close();
    assert_eq!(client.call(&["SET", "both", "first"]), ok());
    first.forebay.kill9();
    first.forebay.restart();
    client = Connection::new(first.forebay.address);
    assert_eq!(client.call(&["GET", "both"]), Reply::bulk(b"first"));
    let mut second = first.second();
    let mut other = Connection::new(second.address);
    assert_eq!(other.call(&["SET", "both", "second"]), ok());
    first.network.pass();
    first.is_fenced();
    for command in ["GET both", "SET both again", "SET new 1"] {
        refuses(&mut client, &command.split(' ').collect::<Vec<_>>());
    }
    assert!(http(&first.http, "/metrics").contains("\nforebay_store_fenced 1\n"));
    assert_eq!(first.forebay.log().matches(ANSWERS).count(), 1, "{}", first.forebay.log());
    assert_eq!(other.call(&["GET", "both"]), Reply::bulk(b"second"));
    first.forebay.kill9();
    second.terminate();
    first.forebay.restart();
    is_suspended(&mut Connection::new(first.forebay.address));
}

/// A start after an operator's word, before all was applied, is not suspended. Its journal says what was known before
/// the second owner came, which is not so.
#[test]
fn a_start_in_the_middle_of_a_resumed_drain_asks_the_database() {
    let mut first = both_have_added();
    first.network.pass();
    first.forebay.restart();
    let mut client = Connection::new(first.forebay.address);
    is_suspended(&mut client);
    first.network.close();
    assert_eq!(client.call(&["CACHE", "DRAIN", "RESUME"]), ok());
    first.forebay.kill9();
    // Neither with the database away nor with it there.
    first.forebay.restart();
    let mut client = Connection::new(first.forebay.address);
    let away = counted(&mut client, "acct");
    assert!(away.starts_with("STOREDOWN"), "{away}");
    first.network.pass();
    calm(first.forebay.address);
    assert_eq!([counted(&mut client, "acct"), counted(&mut client, "other")], ["105", "105"]);
    assert_eq!(first.server.sql(&first.database, NAMES), "acct other");
}

/// A forebay that is asked nothing notices it too, also if the second one has ended by then.
#[test]
fn who_is_idle_notices_another_owner() {
    let first = First::start();
    let mut client = Connection::new(first.forebay.address);
    assert_eq!(client.call(&["SET", "both", "old"]), ok());
    first.network.close();
    let mut second = first.second();
    assert_eq!(Connection::new(second.address).call(&["SET", "both", "second"]), ok());
    second.terminate();
    first.network.pass();
    first.is_fenced();
    refuses(&mut client, &["GET", "both"]);
    refuses(&mut client, &["SET", "both", "first"]);
    second.restart();
    assert_eq!(Connection::new(second.address).call(&["GET", "both"]), Reply::bulk(b"second"));
    assert!(!second.log().contains(SINCE), "{}", second.log());
}

/// A start that is killed, wherever that is, is no other owner to the next one.
#[test]
fn a_start_that_was_killed_is_our_own() {
    let starts = if std::env::var_os("FOREBAY_NIGHTLY").is_some() { 100 } else { 6 };
    let server = Server::start();
    let database = server.database();
    // What is written waits in the journal.
    let mut forebay = start(&server, &database, &["--write-back-ms", "600000"]);
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["SET", "k", "v"]), ok());
    forebay.kill9();
    let (began, url, journal) = (Instant::now(), server.url(&database), forebay.journal().display().to_string());
    forebay.restart();
    let whole = began.elapsed().as_micros() as u64;
    forebay.kill9();
    for start in 0..starts {
        let mut command = forebay_command();
        command.args(["serve", "--listen", "127.0.0.1:0", "--http", "off", "--write-back-ms", "600000"]);
        command.args(["--store", &url, "--journal", &journal]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary runs");
        std::thread::sleep(Duration::from_micros(whole * (start + 1) / (starts + 1)));
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
    }
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    assert_eq!([said(&entry(&mut client, "suspended")), said(&client.call(&["GET", "k"]))], ["Nil", "v"]);
    assert_eq!(figure(&mut client, "pending"), 1);
    let log = forebay.log();
    assert!(!log.contains(SINCE) && !log.contains(LAST), "{log}");
}
