//! The moment at which another forebay takes the database: what a start that fails leaves, and what requests are told
//! that are on their way.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::Connection;
use crate::common::process::{Forebay, forebay_command};
use crate::postgres::Server;
use crate::proxy::Proxy;
use crate::state::{calm, entry, figure, said};
use crate::{ok, start, start_through};

const NAMES: &str = "SELECT coalesce(string_agg(convert_from(name, 'UTF8'), ' '), '') FROM forebay.documents";

/// What a start that can't be says.
fn fails(server: &Server, database: &str, more: &[&str]) -> String {
    let mut command = forebay_command();
    command.args(["serve", "--http", "off", "--store", &server.url(database)]).args(more);
    let Output { status, stderr, .. } = command.stdout(Stdio::null()).output().expect("the binary runs");
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert!(!status.success(), "{more:?}: {said}");
    said
}

/// The other one is cut off from the database, so that a start could have it, and fails for another reason. Then that
/// one goes on as if nothing had been.
#[test]
fn a_start_that_fails_takes_nothing() {
    let server = Server::start();
    let database = server.database();
    server.sql(&database, "CREATE TABLE users (id integer PRIMARY KEY)");
    let network = Proxy::to_postgres(server.address());
    let first = start_through(&network, &server, &database, &[]);
    let mut client = Connection::new(first.address);
    assert_eq!(client.call(&["SET", "k", "before"]), ok());
    let owners = "SELECT max(m.incarnation) || ' ' || count(*) FROM forebay.meta m, forebay.owners";
    let (owned, taken) = (server.sql(&database, owners), TcpListener::bind("127.0.0.1:0").expect("a port"));
    let port = taken.local_addr().expect("it is bound").to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(file("types.toml"), "[[type]]\nname = 1\n").expect("it can be written");
    std::fs::create_dir(file("damaged")).expect("it can be made");
    std::fs::write(file("damaged/journal"), "no journal at all, but long enough to be one; ".repeat(100))
        .expect("it can be");
    network.close();
    assert_eq!(client.call(&["SET", "k", "buffered"]), ok());
    let (journal, damaged, types) = (file("journal"), file("damaged"), file("types.toml"));
    let free = ["--listen", "127.0.0.1:0", "--journal"];
    let failing: [(&[&str], &str); 5] = [
        (&["--listen", &port, "--journal", &journal], "can't listen on"),
        (&[&free[..], &[&damaged]].concat(), "journal"),
        (&[&free[..], &[&journal, "--map", "user:{id} -> users(nothing)"]].concat(), "nothing"),
        (&[&free[..], &[&journal, "--map", "user:{id} -> nowhere(id)"]].concat(), "nowhere"),
        (&[&free[..], &[&journal, "--graphs", &types]].concat(), "types.toml"),
    ];
    for (arguments, why) in failing {
        let said = fails(&server, &database, arguments);
        assert!(said.contains(why), "{arguments:?}: {said}");
        assert_eq!(server.sql(&database, owners), owned, "{arguments:?}");
    }
    let refused =
        fails(&server, &database, &["--on-outage", "refuse", "--listen", "127.0.0.1:0", "--map", "u:{id} -> no(id)"]);
    assert_eq!(server.sql(&database, owners), owned, "{refused}");
    network.pass();
    calm(first.address);
    assert_eq!([said(&entry(&mut client, "fenced")), said(&client.call(&["GET", "k"]))], ["Nil", "buffered"]);
    assert_eq!([client.call(&["CACHE", "STRICT", "ON"]), client.call(&["SET", "k", "after"])], [ok(), ok()]);
}

/// A start that would not look into the journal is refused while writes for this database wait there. One for another
/// database is none of their matter.
#[test]
fn a_start_without_a_journal_leaves_no_write_behind() {
    let server = Server::start();
    let (database, other) = (server.database(), server.database());
    let mut first = start(&server, &database, &[]);
    let mut client = Connection::new(first.address);
    assert_eq!(client.call(&["SET", "k", "stored"]), ok());
    assert!(said(&client.call(&["DEBUG", "STORE", "FAIL", "600"])).starts_with("OK"));
    assert_eq!(client.call(&["SET", "k", "buffered"]), ok());
    first.kill9();
    let journal = first.journal().display().to_string();
    let refuses = ["--on-outage", "refuse", "--journal", &journal];
    let mapping = ["--map", "u:{id} -> u(id)"];
    for of in [&database, &other] {
        server.sql(of, "CREATE TABLE u (id int PRIMARY KEY, n int)");
    }
    // With other mappings too, which the journal would not take.
    for refuses in [refuses.to_vec(), [&refuses[..], &mapping].concat()] {
        let said_so = fails(&server, &database, &[&refuses[..], &["--listen", "127.0.0.1:0"]].concat());
        assert!(said_so.contains("1 acknowledged writes wait") && said_so.contains("--on-outage buffer"), "{said_so}");
        let of_other = start(&server, &other, &refuses);
        assert_eq!(Connection::new(of_other.address).call(&["GET", "u:1"]), forebay_protocol::Reply::Nil);
    }
    first.restart();
    calm(first.address);
    assert_eq!(said(&Connection::new(first.address).call(&["GET", "k"])), "buffered");
    first.kill9();
    // Now nothing waits.
    let without = start(&server, &database, &refuses);
    assert_eq!(said(&Connection::new(without.address).call(&["GET", "k"])), "buffered");
}

/// What one client was told of each of its keys.
#[derive(Default)]
struct Told {
    acknowledged: Vec<String>,
    refused: Vec<String>,
    others: Vec<String>,
}

fn write_on(first: &Forebay, number: usize, stop: &AtomicBool) -> Told {
    let (mut client, mut told) = (Connection::new(first.address), Told::default());
    for turn in 0.. {
        if told.refused.len() > 3 || stop.load(Ordering::SeqCst) {
            break;
        }
        let key = format!("c{number}:{turn}");
        match said(&client.call(&["SET", &key, "v"])) {
            text if text == "OK" => told.acknowledged.push(key),
            text if text.starts_with("NOTOWNER ") => told.refused.push(key),
            text => told.others.push(format!("{key}: {text}")),
        }
    }
    told
}

/// Many write when the database is taken. What is answered NOTOWNER is neither in the database nor in the journal, and
/// what is answered OK is in one of the two. No other reply is given.
#[test]
fn requests_on_their_way_are_told_whose_the_database_is() {
    let server = Server::start();
    let database = server.database();
    let first = start(&server, &database, &[]);
    let (stop, taken) = (AtomicBool::new(false), AtomicBool::new(false));
    let keeper = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'forebay 1.keeper'";
    let (told, _second) = std::thread::scope(|scope| {
        let write = |number| {
            let (first, stop) = (&first, &stop);
            scope.spawn(move || write_on(first, number, stop))
        };
        let clients: Vec<_> = (0..32).map(write).collect();
        std::thread::sleep(Duration::from_millis(200));
        // Its lock is free again and again, and its other connections go on.
        scope.spawn(|| {
            while !taken.load(Ordering::SeqCst) {
                server.sql(&database, keeper);
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let second = start(&server, &database, &[]);
        taken.store(true, Ordering::SeqCst);
        let ended = clients.into_iter().map(|client| client.join().expect("it writes"));
        (ended.collect::<Vec<Told>>(), second)
    });
    let mut client = Connection::new(first.address);
    assert!(said(&client.call(&["GET", "k"])).starts_with("NOTOWNER "));
    let there: BTreeSet<String> = server.sql(&database, NAMES).split(' ').map(str::to_owned).collect();
    assert!(figure(&mut client, "pending") <= 1000, "more than are listed");
    let waiting = said(&client.call(&["CACHE", "PENDING", "COUNT", "1000"]));
    let waiting: BTreeSet<&str> = waiting.split(' ').collect();
    for told in &told {
        assert!(told.others.is_empty(), "{:?}", told.others);
        assert!(!told.refused.is_empty());
        for key in &told.refused {
            assert!(!there.contains(key) && !waiting.contains(key.as_str()), "{key} was refused");
        }
        for key in &told.acknowledged {
            assert!(there.contains(key) || waiting.contains(key.as_str()), "{key} was acknowledged");
        }
    }
}
