//! The real binary over a real SQLite file, which another program writes too.

mod common;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::Connection;
use common::process::{Forebay, forebay_command};
use forebay_protocol::Reply;

/// Waits that only a fault makes longer.
const PATIENCE: Duration = Duration::from_secs(60);

const MAP: [&str; 2] = ["--map", "user:{id} -> users(id)"];

const USERS: &str = "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, visits INTEGER NOT NULL DEFAULT 0);
    INSERT INTO users (id, name) VALUES (1, 'ada'), (2, 'bob')";

/// A folder with a file that has a table.
struct Shop {
    folder: tempfile::TempDir,
}

impl Shop {
    fn new() -> Shop {
        let shop = Shop { folder: tempfile::tempdir().expect("a folder") };
        shop.other().execute_batch(USERS).expect("a table");
        shop
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }

    fn store(&self) -> String {
        format!("sqlite:{}", self.path().display())
    }

    /// A connection as any program has it.
    fn other(&self) -> rusqlite::Connection {
        let other = rusqlite::Connection::open(self.path()).expect("it opens");
        other.busy_timeout(PATIENCE).expect("it takes a timeout");
        other
    }

    /// `forebay store WORD`, and what it says.
    fn run(&self, word: &str, more: &[&str]) -> (bool, String) {
        let done = forebay_command()
            .args(["store", word, "--store", &self.store()])
            .args(MAP)
            .args(more)
            .output()
            .expect("the binary runs");
        let text = [done.stdout, done.stderr].concat();
        (done.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    fn serve(&self, more: &[&str]) -> Forebay {
        assert!(self.run("init", &[]).0, "{:?}", self.run("init", &[]));
        let journal = self.folder.path().join("journal").display().to_string();
        Forebay::start(&self.store(), &[&MAP[..], &["--journal", &journal], more].concat())
    }

    fn visits(&self, user: u32) -> i64 {
        let asked = "SELECT visits FROM users WHERE id = ?1";
        self.other().query_row(asked, [user], |row| row.get(0)).expect("a number")
    }
}

fn mode(client: &mut Connection) -> String {
    let Reply::Array(state) = client.call(&["CACHE", "STATE"]) else { panic!("CACHE STATE is a list in RESP2") };
    let pair = state.chunks(2).find(|pair| pair[0] == Reply::bulk(b"mode")).expect("it has a mode");
    match &pair[1] {
        Reply::Bulk(mode) => String::from_utf8_lossy(mode).into_owned(),
        other => panic!("{other:?}"),
    }
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn documents_live_in_a_file_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = format!("sqlite:{}", folder.path().join("new.db").display());
    let journal = folder.path().join("journal").display().to_string();
    let mut forebay = Forebay::start(&store, &["--journal", &journal]);
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["SET", "a", "1"]), Reply::Simple("OK".into()));
    assert_eq!(client.call(&["INCRBY", "a", "41"]), Reply::Integer(42));
    assert_eq!(client.call(&["RPUSH", "l", "1", "2"]), Reply::Integer(2));
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["GET", "a"]), Reply::bulk(b"42"), "it was killed, and what it said stands");
    assert_eq!(client.call(&["DBSIZE"]), Reply::Integer(2));
    assert_eq!(client.call(&["FLUSHALL"]), Reply::Simple("OK".into()));
    assert_eq!(client.call(&["DBSIZE"]), Reply::Integer(0));
    forebay.terminate();
}

#[test]
fn rows_are_hashes_and_what_others_write_is_seen() {
    let shop = Shop::new();
    let (well, before) = shop.run("check", &[]);
    assert!(!well && before.contains("keeps no versions yet") && before.contains("store init"), "{before}");
    let (_, printed) = shop.run("init", &["--print"]);
    assert!(printed.contains("CREATE TRIGGER") && !shop.run("check", &[]).0, "{printed}");
    let forebay = shop.serve(&[]);
    let (well, after) = shop.run("check", &[]);
    assert!(well && after.contains("other writers are seen"), "{after}");
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["HINCRBY", "user:1", "visits", "5"]), Reply::Integer(5));
    assert_eq!(client.call(&["GET", "user:1"]), Reply::bulk(br#"{"id":1,"name":"ada","visits":5}"#));
    shop.other().execute("UPDATE users SET visits = visits + 1, name = 'eve' WHERE id = 1", []).expect("a write");
    assert_eq!(client.call(&["CACHE", "SYNC"]), Reply::Simple("OK".into()));
    assert_eq!(
        client.call(&["HMGET", "user:1", "name", "visits"]),
        Reply::Array(vec![Reply::bulk(b"eve"), Reply::bulk(b"6"),])
    );
    // A transaction that read what another program has written since is not made.
    client.call(&["WATCH", "user:2"]);
    client.call(&["HGET", "user:2", "visits"]);
    shop.other().execute("UPDATE users SET visits = 100 WHERE id = 2", []).expect("a write");
    client.call(&["MULTI"]);
    client.call(&["HSET", "user:2", "visits", "1"]);
    assert_eq!(client.call(&["EXEC"]), Reply::NilArray);
    assert_eq!(shop.visits(2), 100);
    let refused = client.call(&["HSET", "user:1", "visits", "many"]);
    assert!(matches!(&refused, Reply::Error(text) if String::from_utf8_lossy(text).contains("integer")), "{refused:?}");
}

/// What clients were told, and what another program added beside them.
#[derive(Default)]
struct Told {
    acknowledged: AtomicU64,
    doubtful: AtomicU64,
    beside: AtomicU64,
}

/// Ends clients when it goes, however the test ends.
struct Stopped<'a>(&'a AtomicBool);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Increments until `stop`, over as many connections as it takes.
fn count_visits(address: &Mutex<SocketAddr>, stop: &AtomicBool, told: &Told) {
    let mut client: Option<Connection> = None;
    while !stop.load(Ordering::SeqCst) {
        let to = *address.lock().expect("an address");
        let Some(mut connected) = client.take().or_else(|| Connection::try_new(to).ok()) else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        match connected.try_call(&["HINCRBY", "user:1", "visits", "1"]) {
            Ok(Reply::Integer(_)) => drop(told.acknowledged.fetch_add(1, Ordering::SeqCst)),
            Ok(Reply::Error(text)) if text.starts_with(b"TXUNKNOWN") => {
                told.doubtful.fetch_add(1, Ordering::SeqCst);
            }
            Ok(Reply::Error(_)) => std::thread::sleep(Duration::from_millis(5)),
            Ok(other) => panic!("{other:?}"),
            Err(_) => {
                told.doubtful.fetch_add(1, Ordering::SeqCst);
                continue;
            }
        }
        client = Some(connected);
    }
}

/// Increments of one row by clients and by another program, while that program holds the file's lock for long, the file
/// is moved away, and forebay is killed: the row has each acknowledged one exactly once.
#[test]
fn increments_are_exact_over_locks_moves_and_kills() {
    let shop = Shop::new();
    let mut forebay = shop.serve(&["--store-timeout-ms", "200", "--breaker-failures", "2"]);
    let (stop, told) = (AtomicBool::new(false), Told::default());
    let address = Mutex::new(forebay.address);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| count_visits(&address, &stop, &told));
        }
        let add_beside = || {
            shop.other().execute("UPDATE users SET visits = visits + 1 WHERE id = 1", []).expect("another writes");
            told.beside.fetch_add(1, Ordering::SeqCst);
        };
        let _stopped = Stopped(&stop);
        let mut watcher = Connection::new(forebay.address);
        let work_goes_on = |what: &str| {
            let before = told.acknowledged.load(Ordering::SeqCst);
            wait_for(what, || told.acknowledged.load(Ordering::SeqCst) > before + 50);
        };
        add_beside();
        // The row is in the cache again: what it holds is told while the file is away.
        work_goes_on("clients are at work");
        let other = shop.other();
        other.execute_batch("BEGIN IMMEDIATE; UPDATE users SET visits = visits + 1 WHERE id = 1").expect("it locks");
        wait_for("the file counts as away", || mode(&mut watcher) != "normal");
        work_goes_on("writes go on");
        other.execute_batch("COMMIT").expect("it is free");
        told.beside.fetch_add(1, Ordering::SeqCst);
        wait_for("what was kept is applied", || mode(&mut watcher) == "normal");
        add_beside();
        work_goes_on("clients are at work");
        let aside = shop.folder.path().join("aside.db");
        std::fs::rename(shop.path(), &aside).expect("it is moved");
        wait_for("the file counts as away", || mode(&mut watcher) != "normal");
        work_goes_on("writes go on");
        forebay.restart();
        *address.lock().expect("an address") = forebay.address;
        std::fs::rename(&aside, shop.path()).expect("it is back");
        let mut watcher = Connection::new(forebay.address);
        wait_for("what was kept is applied", || mode(&mut watcher) == "normal");
        add_beside();
        work_goes_on("clients are at work");
    });
    let load = |counter: &AtomicU64| i64::try_from(counter.load(Ordering::SeqCst)).expect("a number");
    let sure = load(&told.acknowledged) + load(&told.beside);
    let (found, most) = (shop.visits(1), sure + load(&told.doubtful));
    assert!((sure..=most).contains(&found), "{found} visits, {sure} to {most} are told");
    let mut client = Connection::new(forebay.address);
    client.call(&["CACHE", "SYNC"]);
    assert_eq!(client.call(&["HGET", "user:1", "visits"]), Reply::bulk(found.to_string().as_bytes()));
    let log = forebay.log();
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn one_forebay_has_a_file() {
    let shop = Shop::new();
    let _forebay = shop.serve(&[]);
    let journal = shop.folder.path().join("another").display().to_string();
    let second = forebay_command()
        .args(["serve", "--listen", "127.0.0.1:0", "--http", "off", "--store", &shop.store(), "--journal", &journal])
        .args(MAP)
        .output()
        .expect("the binary runs");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success() && said.contains("another forebay has"), "{said}");
}

#[test]
fn addresses_that_name_no_file_are_refused_with_the_form() {
    for (store, part) in [
        ("sqlite:", "the path is missing"),
        ("sqlite::memory:", "name a file"),
        ("sqlite:x.db?mode=ro", "parameters"),
        ("sqlite:///no/such/folder/x.db", "can't"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let done = forebay_command()
            .current_dir(folder.path())
            .args(["serve", "--listen", "127.0.0.1:0", "--http", "off", "--store", store])
            .output()
            .expect("the binary runs");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && said.contains(part), "{store}: {said}");
    }
}
