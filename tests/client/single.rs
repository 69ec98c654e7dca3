//! One client, step by step: what costs a message, what is stale, what is not known.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use forebay_client::{Client, Error, Leases, Level, Options, Outcome, Transaction};
use forebay_protocol::Reply;

use super::common::Connection;
use super::common::process::Forebay;
use super::proxy::Proxy;

async fn connect(address: std::net::SocketAddr) -> Client {
    let options = Options::new(address.to_string()).leases(Leases::Endless).reply_time_max(Duration::from_secs(5));
    options.connect().await.expect("it listens")
}

async fn read(client: &Client, keys: &[&str]) -> Vec<Option<String>> {
    let text = |bytes: forebay_client::Blob| String::from_utf8_lossy(&bytes).into_owned();
    let values = client.transaction(async |tx: Transaction| tx.get_many(keys).await).await.expect("it reads");
    values.into_iter().map(|value| value.map(text)).collect()
}

async fn add(client: &Client, key: &str) -> Result<i64, Error> {
    let body = async |tx: Transaction| {
        tx.add(key, 1)?;
        tx.get_integer(key).await
    };
    client.transaction(body).await.map(|number| number.expect("it was written"))
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[tokio::test]
pub async fn reads_end_without_a_message_and_commits_by_one() {
    let forebay = Forebay::start("embedded", &["--durability", "interval"]);
    let client = connect(forebay.address).await;
    assert_eq!(read(&client, &["a", "b"]).await, [None, None]);
    let before = client.statistics();
    for _ in 0..100 {
        assert_eq!(read(&client, &["a", "b"]).await, [None, None]);
    }
    let after = client.statistics();
    assert_eq!((after.alone - before.alone, after.missed), (100, before.missed));
    // An own commit is kept at its version, and what it has read is current as of that.
    assert_eq!(add(&client, "a").await, Ok(1));
    assert_eq!(read(&client, &["a", "b"]).await, [some("1"), None]);
    let body = async |tx: Transaction| {
        tx.get("b").await?;
        tx.add("a", 1)
    };
    client.transaction(body).await.expect("it commits");
    assert_eq!(read(&client, &["a", "b"]).await, [some("2"), None]);
    let last = client.statistics();
    assert_eq!((last.missed - after.missed, last.committed), (1, 2), "what `a` was before was not read");
    assert_eq!(last.validated, 1, "once `b` was older than the own commit: {last:?}");
}

#[tokio::test]
pub async fn a_session_sees_its_commits_and_other_sessions_may_not() {
    let forebay = Forebay::start("embedded", &["--durability", "interval"]);
    let (client, writer) = (connect(forebay.address).await, connect(forebay.address).await);
    assert_eq!(read(&client, &["a"]).await, [None]);
    assert_eq!(add(&writer, "a").await, Ok(1));
    assert_eq!(read(&client, &["a"]).await, [None], "its copy is of an earlier moment");
    assert_eq!(read(&client.at(Level::Strict), &["a"]).await, [some("1")]);
    assert_eq!(add(&writer, "a").await, Ok(2));
    assert_eq!(read(&client, &["a"]).await, [some("1")]);
    // The commit of another key raises the session to where `a` is 2.
    assert_eq!(add(&client, "b").await, Ok(1));
    assert_eq!(read(&client, &["a"]).await, [some("2")]);
    assert_eq!(add(&writer, "a").await, Ok(3));
    assert_eq!(add(&client, "b").await, Ok(2));
    assert_eq!(read(&client.at(Level::Bounded(Duration::from_secs(60))), &["a"]).await, [some("2")]);
    assert_eq!(read(&client.session(), &["a"]).await, [some("2")], "another session has no such commit");
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(read(&client.at(Level::Bounded(Duration::from_millis(1))), &["a"]).await, [some("3")]);
}

/// A bounded transaction that takes longer than its bound shows nothing that is too old at its end.
#[tokio::test]
pub async fn a_bound_holds_until_the_end() {
    let forebay = Forebay::start("memory", &[]);
    let (client, writer) = (connect(forebay.address).await, connect(forebay.address).await);
    let (writer, runs) = (&writer, AtomicU32::new(0));
    let body = async |tx: Transaction| {
        let number = tx.get_integer("a").await?;
        if runs.fetch_add(1, Ordering::SeqCst) == 0 {
            add(writer, "a").await?;
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
        Ok::<Option<i64>, Error>(number)
    };
    let number = client.at(Level::Bounded(Duration::from_millis(300))).transaction(body).await;
    assert_eq!((number, runs.load(Ordering::SeqCst)), (Ok(Some(1)), 2));
}

/// What a session has seen, it does not see undone: not by copies of keys that were fetched before either.
#[tokio::test]
pub async fn a_session_reads_on_from_where_it_was() {
    let forebay = Forebay::start("embedded", &["--durability", "interval"]);
    let (client, writer) = (connect(forebay.address).await, connect(forebay.address).await);
    assert_eq!(read(&client, &["a"]).await, [None]);
    let both = async |tx: Transaction| {
        tx.add("a", 1)?;
        tx.add("b", 1)
    };
    writer.transaction(both).await.expect("it commits");
    assert_eq!(read(&client, &["b"]).await, [some("1")]);
    assert_eq!(read(&client, &["a"]).await, [some("1")]);
}

#[tokio::test]
pub async fn stale_keys_are_fetched_by_one_message_and_nothing_else_is() {
    let forebay = Forebay::start("embedded", &["--durability", "interval"]);
    let (client, writer) = (connect(forebay.address).await, connect(forebay.address).await);
    let names = ["a", "b", "c with \\ and \r\n"];
    read(&client, &names).await;
    for name in [names[0], names[2]] {
        add(&writer, name).await.expect("it commits");
    }
    let (before, runs) = (client.statistics(), AtomicU32::new(0));
    let body = async |tx: Transaction| {
        runs.fetch_add(1, Ordering::SeqCst);
        tx.get_many(&names).await?;
        tx.set("d", "1")
    };
    client.transaction(body).await.expect("it commits");
    let after = client.statistics();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_eq!((after.stale - before.stale, after.stale_aborts - before.stale_aborts), (2, 1));
    assert_eq!(after.missed - before.missed, 2, "b was current");
}

/// A body that fails on what was never there together runs again; its own error comes when it was.
#[tokio::test]
pub async fn an_error_of_a_body_is_of_one_moment() {
    let forebay = Forebay::start("embedded", &["--durability", "interval"]);
    let (client, writer) = (connect(forebay.address).await, connect(forebay.address).await);
    read(&client, &["x"]).await;
    let both = async |tx: Transaction| {
        tx.add("x", 1)?;
        tx.add("y", 1)
    };
    writer.transaction(both).await.expect("it commits");
    // Both are there, of two moments: a fetch would name what was read before it.
    read(&client.session(), &["y"]).await;
    let equal = async |tx: Transaction| {
        let numbers = (tx.get_integer("x").await?, tx.get_integer("y").await?);
        tx.set("z", "never")?;
        Err::<(), Error>(Error::Option { name: "test", why: format!("{numbers:?}") })
    };
    let why = client.transaction(equal).await.expect_err("the body fails").to_string();
    assert!(why.ends_with("(Some(1), Some(1))"), "{why}");
    assert_eq!(read(&writer, &["z"]).await, [None], "it wrote nothing");
}

#[tokio::test]
pub async fn what_was_read_once_is_read_again_alike() {
    let forebay = Forebay::start("memory", &[]);
    let client = connect(forebay.address).await;
    // Its commit puts another copy into the cache that both have.
    let (writer, runs) = (&client.session(), AtomicU32::new(0));
    let body = async |tx: Transaction| {
        let first = tx.get("a").await?;
        if runs.fetch_add(1, Ordering::SeqCst) == 0 {
            add(writer, "a").await?;
        }
        assert_eq!(tx.get("a").await?, first);
        tx.set("b", "1")
    };
    client.transaction(body).await.expect("it commits");
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[tokio::test]
pub async fn documents_expire_in_copies() {
    let forebay = Forebay::start("memory", &[]);
    let client = connect(forebay.address).await;
    let body = async |tx: Transaction| tx.set_for("a", "1", Duration::from_millis(150));
    client.transaction(body).await.expect("it commits");
    assert_eq!(read(&client, &["a"]).await, [some("1")]);
    assert_eq!(add(&client, "a").await, Ok(2), "its expiry goes on");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(read(&client, &["a"]).await, [None]);
    assert_eq!(add(&client, "a").await, Ok(1));
}

/// A commit whose answer is lost is told as such, is there once, and can be asked for.
#[tokio::test(flavor = "multi_thread")]
pub async fn a_lost_answer_is_not_known_and_never_done_again() {
    let forebay = Forebay::start("embedded", &["--durability", "interval"]);
    let proxy = Proxy::to(forebay.address);
    let client = connect(proxy.address).await;
    let client = client.at(Level::Session);
    assert_eq!(add(&client, "a").await, Ok(1));
    proxy.drop_replies();
    let runs = AtomicU32::new(0);
    let body = async |tx: Transaction| {
        runs.fetch_add(1, Ordering::SeqCst);
        tx.add("a", 1)
    };
    let cutting = async {
        while proxy.dropped() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        proxy.pass();
        proxy.cut();
    };
    let (answer, ()) = tokio::join!(client.transaction(body), cutting);
    let Err(Error::Unknown { id, .. }) = answer else { panic!("{answer:?}") };
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert!(matches!(client.outcome(id).await, Ok(Outcome::Committed(_))));
    assert_eq!(read(&client, &["a"]).await, [some("2")], "it was done once, and the session sees it");
    let other = forebay_client::CommitId(id.0 ^ 1);
    assert_eq!(client.outcome(other).await, Ok(Outcome::NotKnown));
    assert_eq!(client.statistics().unknown, 1);
}

/// Over `memory`, the next process has none of it; what was leased of the former is not used once that is known.
#[tokio::test]
pub async fn leases_end_with_the_server() {
    let mut forebay = Forebay::start("memory", &[]);
    let proxy = Proxy::to(forebay.address);
    let client = connect(proxy.address).await;
    assert_eq!(add(&client, "a").await, Ok(1));
    assert_eq!(add(&client, "b").await, Ok(1));
    assert_eq!(read(&client, &["a", "b"]).await, [some("1"), some("1")]);
    forebay.restart();
    proxy.lead_to(forebay.address);
    proxy.cut();
    assert_eq!(read(&client, &["a", "b"]).await, [some("1"), some("1")], "no message is needed, and none is sent");
    assert_eq!(read(&client, &["c"]).await, [None]);
    assert_eq!(read(&client.session(), &["a", "b"]).await, [None, None], "no session has its floor there yet");
    assert_eq!(add(&client, "a").await, Ok(1), "on what the server has");
}

/// More keys than one LEASE GET takes, and more bytes than sockets hold, both ways.
#[tokio::test]
pub async fn a_transaction_may_be_wide() {
    let forebay = Forebay::start("memory", &[]);
    let (client, other) = (connect(forebay.address).await, connect(forebay.address).await);
    let keys: Vec<String> = (0..3000).map(|n| format!("key:{n}")).collect();
    let value = "x".repeat(3000);
    let write = async |tx: Transaction| keys.iter().try_for_each(|key| tx.set(key, &value));
    client.transaction::<_, Error, _>(write).await.expect("it commits");
    let all = async |tx: Transaction| tx.get_many(&keys).await;
    for client in [&client, &other.at(Level::Strict), &other] {
        let read = client.transaction(all).await.expect("it reads");
        assert!(read.len() == 3000 && read.iter().flatten().all(|read| **read == *value.as_bytes()));
    }
    assert_eq!((client.statistics().missed, other.statistics().missed), (1, 3000));
    let many = async |tx: Transaction| tx.get_many(&(0..5000).map(|n| n.to_string()).collect::<Vec<_>>()).await;
    let said = client.at(Level::Strict).transaction(many).await.expect_err("a check takes 4,096 keys").to_string();
    assert_eq!(said, "the server refused EXEC: LIMIT lease_checks_max 4096");
}

#[tokio::test]
pub async fn tasks_share_one_session() {
    let forebay = Forebay::start("memory", &[]);
    let client = connect(forebay.address).await;
    // Each is a task: what the library gives can be sent to other threads.
    let tasks: Vec<_> = (0..20).map(|_| tokio::spawn(count_up(client.clone()))).collect();
    for task in tasks {
        task.await.expect("it ends");
    }
    assert_eq!(read(&client.at(Level::Strict), &["n"]).await, [some("200")]);
    let reply = Connection::new(forebay.address).call(&["GET", "n"]);
    assert_eq!(reply, Reply::bulk(b"200"));
}

async fn count_up(client: Client) {
    for _ in 0..10 {
        add(&client, "n").await.expect("it commits");
    }
}

#[tokio::test]
pub async fn what_can_not_be_is_said() {
    let forebay = Forebay::start("memory", &[]);
    let address = forebay.address.to_string();
    let error = |options: Options| async { options.connect().await.err().map(|error| error.to_string()) };
    for (options, expected) in [
        (Options::new(&address).space(16), "option space: 16 is none of 0 to 15"),
        (Options::new(&address).connections_max(0), "option connections_max: without a connection"),
        (Options::new(&address).attempts_max(0), "option attempts_max: a transaction runs at least once"),
        (Options::new(&address).policy("newest"), "option policy: "),
        (Options::new(&address).fresh_min(1.5), "option fresh_min: it is a share of the reads"),
        (Options::new(&address).stale_max(f64::NAN), "option stale_max: it is a share of the reads"),
        (Options::new(&address).user("x").password("x"), "the server refused HELLO: WRONGPASS"),
        (Options::new("127.0.0.1:1"), "can't connect to 127.0.0.1:1: "),
        (Options::new("nowhere"), "can't connect to nowhere: "),
    ] {
        let said = error(options).await.expect("it is refused");
        assert!(said.starts_with(expected), "{said}");
    }
    let client = connect(forebay.address).await;
    let kinds = async |tx: Transaction| {
        tx.set("s", "text")?;
        assert!(matches!(tx.list("s").await, Err(Error::WrongKind { .. })));
        assert!(matches!(tx.add("s", 1), Err(Error::Change { .. })));
        assert!(matches!(tx.get_integer("s").await, Err(Error::Change { .. })));
        assert!(matches!(tx.get(vec![b'x'; 70_000]).await, Err(Error::Limit { .. })));
        Ok::<(), Error>(())
    };
    client.transaction(kinds).await.expect("it commits");
    // A write to what was not read is refused by the server: nothing is done.
    let blind = async |tx: Transaction| {
        tx.set("t", "1")?;
        tx.add("s", 1)
    };
    let said = client.transaction(blind).await.map_err(|error: Error| error.to_string());
    assert!(said.as_ref().is_err_and(|said| said.contains("not an integer")), "{said:?}");
    assert_eq!(read(&client.at(Level::Strict), &["s", "t"]).await, [some("text"), None]);
}

/// Two sessions that miss a key send one request. One that may only use what is asked for from now on sends another.
#[tokio::test]
pub async fn one_request_serves_all_that_miss_a_key() {
    let forebay = Forebay::start("memory", &[]);
    let proxy = Proxy::to(forebay.address);
    let client = connect(proxy.address).await;
    let (session, now) = (client.session(), client.at(Level::Bounded(Duration::ZERO)));
    proxy.hold();
    let release = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        proxy.release();
    };
    let (a, b, c, ()) = tokio::join!(read(&client, &["a"]), read(&session, &["a", "b"]), read(&now, &["a"]), release);
    assert_eq!((a, b, c), (vec![None], vec![None, None], vec![None]));
    assert_eq!(client.statistics().missed, 3, "`a` twice, and `b`");
}

/// The one that has sent the request gives up: those that wait for its answer send their own.
#[tokio::test]
async fn a_request_that_is_given_up_is_sent_by_those_that_wait() {
    let forebay = Forebay::start("memory", &[]);
    let proxy = Proxy::to(forebay.address);
    let client = connect(proxy.address).await;
    let session = client.session();
    proxy.hold();
    let gives_up = async {
        let most = Duration::from_millis(50);
        assert!(tokio::time::timeout(most, read(&client, &["a"])).await.is_err(), "it is held up");
        proxy.release();
    };
    let ((), seen) = tokio::join!(gives_up, read(&session, &["a"]));
    assert_eq!(seen, [None]);
    assert_eq!(client.statistics().missed, 1);
}

/// All connections of one client say whose they are, so that its own writes are not taken for others'.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_one_client_say_so() {
    let forebay = Forebay::start("memory", &[]);
    let (mut monitor, mut other) = (Connection::new(forebay.address), Connection::new(forebay.address));
    assert_eq!(monitor.call(&["MONITOR"]), Reply::Simple("OK".into()));
    let client = connect(forebay.address).await;
    let at_once = (0..8).map(|n| {
        let (client, key) = (client.clone(), format!("k{n}"));
        tokio::spawn(async move { add(&client, &key).await })
    });
    for task in at_once.collect::<Vec<_>>() {
        task.await.expect("it ends").expect("it commits");
    }
    other.call(&["ECHO", "over"]);
    let mut ids = Vec::new();
    loop {
        let Reply::Simple(line) = monitor.receive() else { panic!("MONITOR shows lines") };
        let words: Vec<&str> = line.split('"').collect();
        match words.get(1).map(|name| name.to_ascii_lowercase()).as_deref() {
            Some("echo") => break,
            Some("lease") if words[3].eq_ignore_ascii_case("client") => ids.push(words[5].to_owned()),
            _ => {}
        }
    }
    assert!(ids.len() > 1 && ids[0].len() == 32 && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    // Leases that a client wants shorter, or none.
    let written = async |options: Options| {
        let client = options.connect().await.expect("it listens");
        for _ in 0..5 {
            read(&client, &["k0"]).await;
        }
        (client.statistics().fresh, client.statistics().lease_mean)
    };
    let options = || Options::new(forebay.address.to_string());
    let (fresh, mean) = written(options()).await;
    let (bound, shorter) = written(options().stale_max(0.001)).await;
    let (none, never) = written(options().stale_max(0.0)).await;
    assert!(fresh == 4 && bound > 0 && none == 0, "{fresh} {bound} {none}");
    assert!(mean > shorter && shorter > never && never.is_zero(), "{mean:?} {shorter:?} {never:?}");
}
