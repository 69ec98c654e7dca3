//! Faults of the network: between forebay and the database, and between clients and forebay.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::appends::{Appends, connected};
use crate::common::Connection;
use crate::common::process::Forebay;
use crate::ground::Ground;
use crate::postgres::Server;
use crate::proxy::Proxy;
use crate::state::{PATIENCE, calm, figure, said};
use crate::tables::{cache, shop_behind};
use crate::{ok, start_through};

/// A database, a good network to it, and a server behind that.
fn world(more: &[&str]) -> (Server, String, Proxy, Forebay) {
    world_on(Ground::Documents, more)
}

fn world_on(ground: Ground, more: &[&str]) -> (Server, String, Proxy, Forebay) {
    let server = Server::start();
    let database = server.database();
    let network = Proxy::to_postgres(server.address());
    let map = ground.prepare(&server, &database);
    let forebay = start_through(&network, &server, &database, &[map, more].concat());
    (server, database, network, forebay)
}

fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// What comes of commits so far, as the database itself knows it.
fn landed(server: &Server, database: &str) -> u64 {
    server.sql(database, "SELECT count(*) FROM forebay.applied WHERE applied").parse().expect("a number")
}

/// Does `requests`, of which the replies of the database get lost; they are acknowledged all the same, and have landed
/// by then: what is applied later comes a second time.
fn without_reply(network: &Proxy, server: &Server, database: &str, client: &mut Connection, requests: &[Vec<&str>]) {
    let before = landed(server, database);
    network.drop_ends();
    let replies = client.pipeline(requests);
    assert!(!replies.iter().any(|reply| matches!(reply, Reply::Error(_))), "{requests:?}: {replies:?}");
    assert_eq!(landed(server, database), before + 1, "{requests:?} has not reached the database");
    network.pass();
}

/// Fault 2: the database applies a write and its reply is lost, for each kind of write.
#[test]
fn a_lost_reply_is_no_second_write() {
    let (server, database, network, mut forebay) = world(&[]);
    let mut client = Connection::new(forebay.address);
    let begin: Vec<Vec<&str>> = ["SET n 5", "SET s a", "HSET h f 1 g 2", "RPUSH l a b", "SADD e x y", "SET gone 1"]
        .iter()
        .map(|request| request.split(' ').collect())
        .collect();
    client.pipeline(&begin);
    let kinds = [
        "SET new v",
        "INCR n",
        "INCRBYFLOAT n 0.5",
        "APPEND s b",
        "SETRANGE s 3 c",
        "HSET h g 3",
        "HINCRBY h f 1",
        "HDEL h g",
        "RPUSH l c",
        "LPOP l",
        "SADD e z",
        "SREM e x",
        "DEL gone",
        "MSET m 1 o 2",
        "MULTI|INCR both|RPUSH l d|EXEC",
        "TXN BEGIN|INCR both|RPUSH l e|TXN COMMIT",
    ];
    // What is not known can't be counted.
    for key in ["new", "both"] {
        assert_eq!(client.call(&["GET", key]), Reply::Nil);
    }
    for kind in kinds {
        let requests: Vec<Vec<&str>> = kind.split('|').map(|request| request.split(' ').collect()).collect();
        without_reply(&network, &server, &database, &mut client, &requests);
        calm(forebay.address);
    }
    let buffered = landed(&server, &database);
    assert_eq!(buffered, (begin.len() + kinds.len()) as u64, "each has one id");
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    let mut there = |request: &str| said(&client.call(&request.split(' ').collect::<Vec<_>>()));
    assert_eq!([there("GET new"), there("GET n"), there("GET s")], ["v", "6.5", "ab\0c"]);
    assert_eq!([there("HGETALL h"), there("LRANGE l 0 -1"), there("GET both")], ["f 2", "b c d e", "2"]);
    assert_eq!([there("MGET m o"), there("EXISTS gone"), there("SISMEMBER e x")], ["1 2", "Integer(0)", "Integer(0)"]);
    assert_eq!([there("SCARD e"), there("DBSIZE")], ["Integer(2)", "Integer(9)"]);
}

/// Fault 2 in front of tables: inserted, counted up, set to NULL, deleted; each once.
#[test]
fn a_lost_reply_is_no_second_change_of_a_row() {
    let server = Server::start();
    let network = Proxy::to_postgres(server.address());
    let (database, forebay) = shop_behind(&network, &server, &[]);
    server.sql(&database, "INSERT INTO photos VALUES (6, 1, 5), (7, 1, 5), (8, 1, 5)");
    server.sql(&database, "INSERT INTO albums (id, name, shared) VALUES (2, 'autumn', 'friends')");
    let mut client = Connection::new(forebay.address);
    // So that there is a connection for writes.
    assert_eq!(client.call(&["HSET", "album:1", "shared", "friends"]), Reply::Integer(0));
    // Each behind one that has its statement prepared: it is the commit whose reply is lost.
    for (alike, request) in [
        ("HINCRBY photo:6 views 1", "HINCRBY photo:7 views 1"),
        ("EXISTS photo:6", "HSET photo:9 album 1"),
        ("HDEL album:2 shared", "HDEL album:1 shared"),
        ("EXISTS photo:6", "DEL photo:8"),
    ] {
        // Connections that a reply was lost on are given up first.
        while !matches!(client.call(&alike.split(' ').collect::<Vec<_>>()), Reply::Integer(_)) {
            pause(5);
        }
        cache(&mut client, &["photo:7", "photo:8", "photo:9", "album:1"]);
        without_reply(&network, &server, &database, &mut client, &[request.split(' ').collect()]);
        calm(forebay.address);
    }
    assert_eq!(figure(&mut client, "quarantined"), 0);
    assert_eq!(server.sql(&database, "SELECT id, views FROM photos ORDER BY id"), "6|6\n7|6\n9|0");
    assert_eq!(server.sql(&database, "SELECT name, shared FROM albums ORDER BY id"), "spring|\nautumn|");
}

/// Fault 3: requests stay in the network, and are delivered after what came later was applied by somebody else,
/// or while it is.
#[test]
fn requests_that_come_late_apply_nothing_twice() {
    for ground in Ground::ALL {
        let (server, database, network, mut forebay) = world_on(ground, &[]);
        let appends = Appends::new(4);
        let told = appends.run(forebay.address, 4, || {
            for round in 0..6 {
                pause(200);
                network.hold();
                pause(500 + 100 * round);
                network.release();
            }
            network.delay(Duration::from_millis(20));
            pause(300);
            network.pass();
        });
        assert!(network.held() > 10, "{} requests were held", network.held());
        ground.check(&appends, &told, &mut forebay, (&server, &database));
    }
}

/// Fault 7: one call to the database hangs past its time-out, in the network or behind a lock, while the others go on;
/// what it wanted is applied in that time, and it goes on later.
#[test]
fn a_call_that_hangs_past_its_time_applies_nothing_twice() {
    for ground in Ground::ALL {
        let (server, database, network, mut forebay) =
            world_on(ground, &["--store-timeout-ms", "150", "--start-in-failed"]);
        let appends = Appends::new(4);
        let lock = ground.lock();
        let mut others = 0;
        let told = appends.run(forebay.address, 4, || {
            for _ in 0..5 {
                pause(150);
                let before = appends.acknowledged();
                network.hold_next();
                pause(600);
                others += appends.acknowledged() - before;
                network.release();
                server.sql(&database, &lock);
            }
            pause(200);
        });
        assert!(network.held() >= 5 && others > 50, "{} hung, {others} went on", network.held());
        ground.check(&appends, &told, &mut forebay, (&server, &database));
    }
}

/// Replies of the database are lost for a while, and later come twice.
fn lose_and_repeat(network: &Proxy) {
    let (dropped, repeated) = (network.dropped(), network.repeated());
    let until = |happened: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !happened() {
            assert!(began.elapsed() < PATIENCE, "there are no replies");
            pause(5);
        }
    };
    network.drop_replies();
    until(&|| network.dropped() > dropped);
    network.pass();
    pause(150);
    network.repeat_replies();
    until(&|| network.repeated() > repeated);
    pause(10);
    network.pass();
}

/// Fault 8: replies of the database are lost, and come twice.
#[test]
fn lost_and_repeated_replies_change_nothing() {
    for ground in Ground::ALL {
        let (server, database, network, mut forebay) = world_on(ground, &[]);
        let appends = Appends::new(4);
        let told = appends.run(forebay.address, 4, || {
            for _ in 0..6 {
                pause(200);
                lose_and_repeat(&network);
            }
        });
        ground.check(&appends, &told, &mut forebay, (&server, &database));
    }
}

/// How a transaction under an id ended, as far as this connection was told.
#[derive(Debug, PartialEq)]
enum Told {
    Done,
    /// It surely had no effect, or nobody can say yet: the same id again.
    Again,
}

/// One attempt of the transaction `id`, which appends `element`.
fn attempt(connection: &mut Connection, id: &str, element: &str) -> std::io::Result<Told> {
    let judge = |reply: Reply| match reply {
        Reply::Simple(text) if text.starts_with("COMMITTED") || text.starts_with("BUFFERED") => Told::Done,
        Reply::Error(text) => {
            let text = String::from_utf8_lossy(&text).into_owned();
            let known = ["STOREDOWN", "TXUNKNOWN", "TXCONFLICT", "TXABORTED"];
            assert!(known.iter().any(|word| text.starts_with(word)), "{text}");
            Told::Again
        }
        other => panic!("{other:?}"),
    };
    let begun = connection.try_call(&["TXN", "BEGIN", "ID", id])?;
    if begun != ok() {
        return Ok(judge(begun));
    }
    for request in [["RPUSH", "ids", element], ["INCRBY", "sum", element]] {
        if let refused @ Reply::Error(_) = connection.try_call(&request)? {
            connection.try_call(&["TXN", "ABORT"])?;
            return Ok(judge(refused));
        }
    }
    match connection.try_call(&["TXN", "COMMIT"])? {
        Reply::Simple(text) if text.starts_with("OK") => Ok(Told::Done),
        other => Ok(judge(other)),
    }
}

/// Appends each of `elements` under an id of its own, by asking again under it until it is told, over a network that
/// loses connections; then each once more.
fn append_under_ids(address: SocketAddr, elements: std::ops::Range<u64>) {
    let mut connection = connected(address);
    for element in elements.clone().chain(elements) {
        let (id, text) = (format!("{element:032x}"), element.to_string());
        loop {
            match attempt(&mut connection, &id, &text) {
                Ok(Told::Done) => break,
                Ok(Told::Again) => pause(5),
                Err(_) => connection = connected(address),
            }
        }
    }
}

/// Has four clients append under ids while `trouble` is made; each element is there once, and the sum is theirs.
fn once_under_ids(forebay: &mut Forebay, address: SocketAddr, each: u64, mut trouble: impl FnMut() + Send) {
    calm(forebay.address);
    let mut known = Connection::new(forebay.address);
    assert_eq!([known.call(&["LLEN", "ids"]), known.call(&["GET", "sum"])], [Reply::Integer(0), Reply::Nil]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                trouble();
            }
        });
        let append =
            |client| scope.spawn(move || append_under_ids(address, 1 + client * each..1 + (client + 1) * each));
        let clients: Vec<_> = (0..4).map(append).collect();
        let ended: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        stop.store(true, Ordering::SeqCst);
        ended.into_iter().for_each(|client| client.expect("the client ends well"));
    });
    calm(forebay.address);
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    let Reply::Array(elements) = client.call(&["LRANGE", "ids", "0", "-1"]) else { panic!("a list") };
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for element in &elements {
        *counts.entry(said(element).parse().expect("a number")).or_default() += 1;
    }
    let wrong: Vec<_> = (1..=4 * each).filter(|element| counts.get(element) != Some(&1)).collect();
    assert!(wrong.is_empty() && elements.len() as u64 == 4 * each, "not once: {wrong:?}");
    assert_eq!(said(&client.call(&["GET", "sum"])), ((1..=4 * each).sum::<u64>()).to_string());
}

/// Fault 8: the same id is begun again and again, over new connections too, while the database's replies are lost and
/// come twice.
#[test]
fn a_repeated_id_is_applied_once() {
    let (_server, _database, network, mut forebay) = world(&[]);
    let address = forebay.address;
    once_under_ids(&mut forebay, address, 40, || {
        lose_and_repeat(&network);
        pause(100);
    });
}

/// Fault 15: clients' connections are cut before the reply, in an outage and out of it. A client that has given an id
/// is told what became of it; one that has not has written at most once.
#[test]
fn a_client_that_is_cut_off_is_told_by_its_id() {
    let (_server, _database, network, mut forebay) = world(&[]);
    let front = Proxy::to(forebay.address);
    let appends = Appends::new(3).over_a_bad_network();
    let mut told = Vec::new();
    let bad = || {
        front.drop_replies();
        pause(15);
        front.cut();
        front.pass();
        pause(60);
    };
    for away in [false, true] {
        if away {
            network.close();
        }
        told.extend(appends.run(front.address, 4, || (0..10).for_each(|_| bad())));
        network.pass();
    }
    let mut round = 0;
    once_under_ids(&mut forebay, front.address, 40, || {
        round += 1;
        if round % 4 == 0 {
            network.close();
        }
        bad();
        network.pass();
    });
    assert!(front.dropped() > 10, "{} replies were lost", front.dropped());
    appends.check(&told, &mut Connection::new(forebay.address));
}

/// The network itself goes away: no route, connections end without a word, and it is slow when it is back.
#[test]
fn a_network_that_is_cut_loses_nothing() {
    for ground in Ground::ALL {
        let (server, database, network, mut forebay) = world_on(ground, &[]);
        let appends = Appends::new(4);
        let told = appends.run(forebay.address, 4, || {
            for _ in 0..4 {
                pause(200);
                network.close();
                pause(300);
                network.pass();
                network.delay(Duration::from_millis(30));
                pause(100);
                network.cut();
                network.pass();
            }
        });
        ground.check(&appends, &told, &mut forebay, (&server, &database));
    }
}
