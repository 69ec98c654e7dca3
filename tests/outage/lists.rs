//! An outage in front of a column that is a list.

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::{Forebay, forebay_command};
use crate::postgres::{Server, Stop};
use crate::state::{calm, figure, mode, said};
use crate::tables::cache;
use crate::{ok, start};

/// Two queues of 1,500 jobs, in front of which a server stands.
fn queues() -> (Server, String, Forebay) {
    let server = Server::start();
    let database = server.database();
    let sql = "CREATE TABLE queues (id integer PRIMARY KEY, jobs text[]);
        INSERT INTO queues SELECT id, array_agg(job::text ORDER BY job)
            FROM generate_series(1, 2) AS id, generate_series(1, 1500) AS job GROUP BY id";
    server.sql(&database, sql);
    let map = ["--map", "queue:{id} -> queues(id).jobs as list"];
    let mut init = forebay_command();
    let url = server.url(&database);
    init.args(["store", "init", "--store", &url, "--store-timeout-ms", "400"]).args(map);
    assert!(init.status().expect("the binary runs").success());
    let forebay = start(&server, &database, &map);
    (server, database, forebay)
}

/// Hundreds of pops and pushes become one write of one row, which is more than PostgreSQL takes as steps within steps.
#[test]
fn a_busy_queue_is_carried_over() {
    let (server, database, forebay) = queues();
    let mut client = Connection::new(forebay.address);
    let many = |reply: Reply| matches!(&reply, Reply::Array(popped) if popped.len() == 500);
    assert!(many(client.call(&["LPOP", "queue:1", "500"])), "while the database is there");
    cache(&mut client, &["queue:1", "queue:2"]);
    server.stop(Stop::Immediate);
    for number in 501..801 {
        let job = number.to_string();
        assert_eq!(client.call(&["LPOP", "queue:1"]), Reply::bulk(job.as_bytes()));
        assert_eq!(client.call(&["RPUSH", "queue:1", &format!("new{job}")]), Reply::Integer(1000));
    }
    assert!(many(client.call(&["RPOP", "queue:2", "500"])));
    for number in 1..301 {
        assert_eq!(client.call(&["LPOP", "queue:2"]), Reply::bulk(number.to_string().as_bytes()));
    }
    server.start_again();
    calm(forebay.address);
    assert_eq!((mode(&mut client).as_str(), figure(&mut client, "quarantined")), ("normal", 0));
    let of = |id: u8| server.sql(&database, &format!("SELECT array_to_string(jobs, ',') FROM queues WHERE id = {id}"));
    let old = |numbers: std::ops::RangeInclusive<u32>| numbers.map(|number| number.to_string());
    let first: Vec<String> = old(801..=1500).chain(old(501..=800).map(|job| format!("new{job}"))).collect();
    assert_eq!(of(1), first.join(","));
    assert_eq!(of(2), old(301..=1000).collect::<Vec<_>>().join(","));
}

/// A pop has told which element it took. Where another program has put another one there since, it is not that one
/// which goes: an operator decides. A push does not mind.
#[test]
fn a_pop_takes_what_it_told_or_nothing() {
    let (server, database, forebay) = queues();
    let mut client = Connection::new(forebay.address);
    cache(&mut client, &["queue:1", "queue:2"]);
    assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", "30"]), ok());
    assert_eq!(mode(&mut client), "failed");
    assert_eq!(client.call(&["LPOP", "queue:1"]), Reply::bulk(b"1"));
    assert_eq!(client.call(&["RPUSH", "queue:2", "last"]), Reply::Integer(1501));
    server.sql(&database, "UPDATE queues SET jobs = array_prepend('urgent', jobs)");
    assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", "0"]), ok());
    while figure(&mut client, "quarantined") < 1 || figure(&mut client, "waiting") > 0 {}
    let ends = "SELECT jobs[1], jobs[2], jobs[cardinality(jobs)] FROM queues ORDER BY id";
    assert_eq!(server.sql(&database, ends), "urgent|1|1500\nurgent|1|last");
    let list = said(&client.call(&["CACHE", "QUARANTINE", "LIST"]));
    assert!(list.contains("queue:1") && list.contains("has changed since"), "{list}");
}
