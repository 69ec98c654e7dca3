//! `--warm-file` in front of rows that other programs write: what is read again is what they have left.

use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::Forebay;
use crate::postgres::{Server, Stop};
use crate::{start, store};

const USERS: &str = "user:{id} -> users(id) fields(visits)";
const PLAIN: &str = "plain:{id} -> plain(id) fields(visits)";
const PATIENCE: Duration = Duration::from_secs(20);
const WARM: &str = "what was cached before is read again from the store";

fn says(forebay: &Forebay, what: &str) -> String {
    let began = Instant::now();
    loop {
        if let Some(line) = forebay.log().lines().rfind(|line| line.contains(what)) {
            return line.to_owned();
        }
        assert!(began.elapsed() < PATIENCE, "the log does not say {what:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Two tables of 300 rows, of which triggers note what is written to the first.
fn tables() -> (Server, String) {
    let server = Server::start();
    let database = server.database();
    for table in ["users", "plain"] {
        let make = format!("CREATE TABLE {table} (id integer PRIMARY KEY, visits integer NOT NULL)");
        let fill = format!("INSERT INTO {table} SELECT id, id FROM generate_series(1, 300) AS id");
        server.sql(&database, &format!("{make}; {fill}"));
    }
    let url = server.url(&database);
    assert_eq!(store(&["init", "--store", &url, "--store-timeout-ms", "400", "--map", USERS]).0, Some(0));
    (server, database)
}

fn serve(server: &Server, database: &str, file: &str, more: &[&str]) -> Forebay {
    let fixed = ["--log-level", "info", "--warm-file", file, "--map", USERS];
    start(server, database, &[&fixed[..], more].concat())
}

/// What the rows of a table say now.
fn visits(forebay: &Forebay, table: &str) -> Vec<Option<String>> {
    let requests: Vec<Vec<String>> =
        (1..=300).map(|id| vec!["HGET".into(), format!("{table}:{id}"), "visits".into()]).collect();
    let said = |reply| match reply {
        Reply::Bulk(text) => Some(String::from_utf8_lossy(&text).into_owned()),
        Reply::Nil => None,
        other => panic!("{other:?}"),
    };
    Connection::new(forebay.address).pipeline(&requests).into_iter().map(said).collect()
}

/// Reads until all is cached: the first look at what others write drops it once.
fn cache(forebay: &Forebay, tables: &[&str]) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(500) || forebay.cache_figure("entries") < 300 * tables.len() as u64 {
        assert!(began.elapsed() < PATIENCE);
        tables.iter().for_each(|table| drop(visits(forebay, table)));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn rows_are_read_again_as_other_programs_left_them() {
    let (server, database) = tables();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("warm").display().to_string();
    let mut first = serve(&server, &database, &file, &["--map", PLAIN]);
    cache(&first, &["user", "plain"]);
    first.terminate();
    drop(first);
    server.sql(&database, "UPDATE users SET visits = visits + 1000 WHERE id <= 50");
    server.sql(&database, "DELETE FROM users WHERE id BETWEEN 51 AND 60");
    // The other table has no mapping any more.
    let second = serve(&server, &database, &file, &[]);
    let line = says(&second, WARM);
    for figure in ["documents=290", "keys=600", "gone=10", "unnamed=300", "passed=0", "full=false"] {
        assert!(line.contains(figure), "no {figure} in {line}");
    }
    let before = second.cache_figure("misses");
    for (id, visits) in (1..).zip(visits(&second, "user")) {
        let expected = match id {
            1..=50 => Some(id + 1000),
            51..=60 => None,
            _ => Some(id),
        };
        assert_eq!(visits, expected.map(|visits| visits.to_string()), "user:{id}");
    }
    assert_eq!(second.cache_figure("misses") - before, 10, "only what is gone is asked for");
    // What others write from now on is seen, as ever.
    server.sql(&database, "UPDATE users SET visits = 7 WHERE id = 1");
    let mut client = Connection::new(second.address);
    assert_eq!(client.call(&["CACHE", "SYNC"]), Reply::Simple("OK".into()));
    assert_eq!(visits(&second, "user")[0].as_deref(), Some("7"));
}

/// The database is not there at the start: clients are answered, and what was cached is read when it is back.
#[test]
fn a_database_that_is_away_is_waited_for() {
    let (server, database) = tables();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("warm").display().to_string();
    let mut forebay = serve(&server, &database, &file, &["--start-in-failed"]);
    cache(&forebay, &["user"]);
    forebay.terminate();
    let kept = std::fs::read(&file).expect("it is written");
    server.stop(Stop::Fast);
    forebay.restart();
    says(&forebay, "the store is away: what was cached before is read when it is back");
    // An early end leaves the file as it was.
    forebay.terminate();
    assert_eq!(std::fs::read(&file).expect("it is there"), kept);
    says(&forebay, "it stays as it was");
    forebay.restart();
    server.start_again();
    server.sql(&database, "UPDATE users SET visits = 9 WHERE id = 300");
    let line = says(&forebay, WARM);
    assert!(line.contains("documents=300"), "{line}");
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["CACHE", "SYNC"]), Reply::Simple("OK".into()));
    assert_eq!(visits(&forebay, "user")[299].as_deref(), Some("9"));
}
