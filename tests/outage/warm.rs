//! What is cached outlives an outage: it is compared with the database in place of being dropped, and what was
//! applied stays. So a database that has just come back is not read by everybody at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::Forebay;
use crate::postgres::{Server, Stop};
use crate::proxy::Proxy;
use crate::state::{PATIENCE, calm, figure, mode, said};
use crate::tables::{cache, shop, shop_behind};

const PHOTOS: std::ops::Range<u32> = 100..600;

/// Reads all photos; of each what the reply says.
fn read(client: &mut Connection) -> BTreeMap<u32, String> {
    let names: Vec<String> = PHOTOS.map(|id| format!("photo:{id}")).collect();
    let requests: Vec<[&str; 3]> = names.iter().map(|name| ["HGET", name.as_str(), "views"]).collect();
    let requests: Vec<Vec<&str>> = requests.iter().map(|words| words.to_vec()).collect();
    PHOTOS.zip(client.pipeline(&requests).iter().map(said)).collect()
}

/// Waits until what is cached was compared so often.
fn compared(forebay: &Forebay, times: usize) {
    let began = Instant::now();
    while forebay.log().matches("is compared with the store").count() < times {
        assert!(began.elapsed() < PATIENCE, "{}", forebay.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn misses(forebay: &Forebay) -> u64 {
    forebay.cache_figure("misses")
}

#[test]
fn what_is_cached_is_compared_with_a_database_that_is_back() {
    let server = Server::start();
    let network = Proxy::to_postgres(server.address());
    let (database, forebay) = shop_behind(&network, &server, &[]);
    server.sql(&database, "INSERT INTO photos SELECT id, 1, 0 FROM generate_series(100, 599) AS id");
    let mut client = Connection::new(forebay.address);
    cache(&mut client, &["photo:100"]);
    assert!(read(&mut client).values().all(|views| views == "0"));
    network.close();
    let began = Instant::now();
    while mode(&mut client) != "failed" {
        client.call(&["HINCRBY", "photo:100", "views", "0"]);
        assert!(began.elapsed() < PATIENCE);
    }
    for id in 100..150 {
        assert_eq!(client.call(&["HINCRBY", &format!("photo:{id}"), "views", "1"]), Reply::Integer(1));
    }
    // Unseen: some of what waits here, some of what is only cached.
    server.sql(&database, "UPDATE photos SET views = 50 WHERE id BETWEEN 140 AND 169");
    server.sql(&database, "DELETE FROM photos WHERE id BETWEEN 170 AND 174");
    assert_eq!(read(&mut client)[&145], "1", "nobody knows yet");
    network.pass();
    calm(forebay.address);
    compared(&forebay, 1);
    assert_eq!(figure(&mut client, "uncompared"), 0);
    // All but those that are on their way meanwhile: what was written here is compared as it is applied.
    let compared = figure(&mut client, "compared");
    assert!((450..=501).contains(&compared), "{compared}");
    let before = misses(&forebay);
    for (id, views) in read(&mut client) {
        let expected = match id {
            100..140 => "1",
            140..150 => "51",
            150..170 => "50",
            170..175 => "Nil",
            _ => "0",
        };
        assert_eq!(views, expected, "photo:{id}");
    }
    // What others have changed. What is applied at the moment of the comparison may go, too.
    let missed = misses(&forebay) - before;
    assert!((35..=75).contains(&missed), "{missed}");
    // What was applied has its version: this is no conflict, and asks the database for nothing first.
    for id in 100..140 {
        let (name, before) = (format!("photo:{id}"), misses(&forebay));
        client.call(&["TXN", "BEGIN"]);
        assert_eq!(client.call(&["HGET", &name, "views"]), Reply::bulk(b"1"));
        client.call(&["HSET", &name, "views", "2"]);
        let committed = said(&client.call(&["TXN", "COMMIT"]));
        assert!(!committed.starts_with("TXCONFLICT"), "{committed}");
        assert_eq!(misses(&forebay), before);
    }
    assert_eq!(server.sql(&database, "SELECT count(*) FROM photos WHERE views = 2"), "40");
}

/// A server that stops ends its connections one by one: whoever finds out first, nothing is dropped that was cached.
#[test]
fn nothing_that_was_cached_is_dropped_by_an_outage() {
    let (server, database, forebay) = shop(&[]);
    server.sql(&database, "INSERT INTO photos SELECT id, 1, 0 FROM generate_series(100, 599) AS id");
    let mut client = Connection::new(forebay.address);
    cache(&mut client, &["photo:100"]);
    assert!(read(&mut client).values().all(|views| views == "0"));
    let before = misses(&forebay);
    for outage in 1..=3 {
        server.stop(Stop::Immediate);
        for _ in 0..10 {
            assert!(read(&mut client).values().all(|views| views == "0"));
            std::thread::sleep(Duration::from_millis(50));
        }
        server.start_again();
        calm(forebay.address);
        compared(&forebay, outage);
    }
    assert_eq!(misses(&forebay), before);
}

/// What is believed no longer is served all the same while there is nothing else, and leaves when there is.
#[test]
fn a_copy_past_its_time_is_served_in_an_outage() {
    let (server, database, forebay) = shop(&[]);
    let mut client = Connection::new(forebay.address);
    cache(&mut client, &["album:1", "photo:7"]);
    server.stop(Stop::Immediate);
    while mode(&mut client) != "failed" {
        client.call(&["HGET", "photo:999", "views"]);
    }
    assert_eq!(client.call(&["PEXPIRE", "album:1", "200"]), Reply::Integer(1));
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(client.call(&["HGET", "album:1", "name"]), Reply::bulk(b"spring"));
    server.start_again();
    calm(forebay.address);
    let began = Instant::now();
    while !said(&client.call(&["CACHE", "EXPLAIN", "album:1"])).starts_with("not cached") {
        assert!(began.elapsed() < PATIENCE, "it stays");
        std::thread::sleep(Duration::from_millis(10));
    }
    server.sql(&database, "UPDATE albums SET name = 'summer'");
    assert_eq!(client.call(&["HGET", "album:1", "name"]), Reply::bulk(b"summer"));
}
