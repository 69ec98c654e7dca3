//! What a start without the database goes by: what the journal remembers of it. Which keys and fields there are, what
//! is joined, and which database it is.

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::{Forebay, forebay_command};
use crate::postgres::{Server, Stop};
use crate::state::{calm, figure, mode, said};
use crate::tables::shop;
use crate::{QUICK, ok, start};

/// What can't be is refused at once, as it would be by a forebay that had seen the database itself.
fn refuses(client: &mut Connection) {
    for (command, why) in [
        (&["HMSET", "other:1", "x", "5"][..], "no mapping names"),
        (&["HMSET", "photo:01", "views", "1"], "names no row"),
        (&["HMSET", "photo:x", "views", "1"], "names no row"),
        (&["HMSET", "photo:5", "nothing", "1"], "no field nothing"),
        (&["HMSET", "photo:5", "id", "6"], "read-only"),
        (&["SET", "album:2", "plain"], "JSON object"),
        (&["SET", "album:2", "{\"nothing\": 1}"], "no field nothing"),
    ] {
        let Reply::Error(text) = client.call(command) else { panic!("{command:?} is taken") };
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains(why), "{command:?}: {text}");
    }
}

/// Killed in an outage and started again in it, forebay knows the tables as before: wrong writes are refused at once,
/// right ones are applied, a child behind its parent.
#[test]
fn a_start_in_an_outage_knows_the_tables() {
    let (server, database, mut forebay) = shop(&[]);
    server.stop(Stop::Immediate);
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["HMSET", "album:2", "name", "summer"]), ok());
    refuses(&mut client);
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    assert_eq!((mode(&mut client).as_str(), figure(&mut client, "pending")), ("failed", 1));
    refuses(&mut client);
    assert_eq!(client.call(&["HMSET", "photo:7", "album", "2"]), ok());
    assert_eq!(client.call(&["SET", "album:3", "{\"name\": \"winter\"}"]), ok());
    assert_eq!(client.call(&["HMSET", "photo:8", "album", "3"]), ok());
    // In this order alone: names are unique.
    assert_eq!(client.call(&["HMSET", "album:1", "name", "autumn"]), ok());
    assert_eq!(client.call(&["HMSET", "album:4", "name", "spring"]), ok());
    assert_eq!((figure(&mut client, "pending"), figure(&mut client, "quarantined")), (6, 0));
    // And so does the one after that.
    forebay.restart();
    refuses(&mut Connection::new(forebay.address));
    server.start_again();
    calm(forebay.address);
    assert_eq!(
        server.sql(&database, "SELECT id, name FROM albums ORDER BY id"),
        "1|autumn\n2|summer\n3|winter\n4|spring"
    );
    assert_eq!(server.sql(&database, "SELECT id, album FROM photos ORDER BY id"), "7|2\n8|3");
}

/// Under mappings that the journal knows no tables of, there are at least no other keys than theirs.
#[test]
fn new_mappings_are_applied_as_far_as_they_go() {
    let (server, database, mut forebay) = shop(&[]);
    forebay.terminate();
    server.stop(Stop::Immediate);
    let journal = forebay.journal().display().to_string();
    let other = ["--map", "picture:{id} -> photos(id)", "--start-in-failed", "--journal", &journal];
    let other = start(&server, &database, &other);
    let mut client = Connection::new(other.address);
    let Reply::Error(why) = client.call(&["HMSET", "photo:7", "album", "1"]) else { panic!("it is taken") };
    assert!(String::from_utf8_lossy(&why).contains("no mapping names"));
    assert_eq!(client.call(&["HMSET", "picture:7", "album", "1"]), ok());
    server.start_again();
    calm(other.address);
    assert_eq!(server.sql(&database, "SELECT id, album FROM photos"), "7|1");
}

/// What a start with these settings says, which must fail.
fn refused(store: &str, journal: &str, more: &[&str]) -> String {
    let mut command = forebay_command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--http", "off", "--store", store, "--journal", journal]);
    let output = command.args(QUICK).args(more).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    said
}

/// A forebay that was killed with a write for `database` in its journal, and where that is.
fn one_pending(server: &Server, database: &str) -> (Forebay, String) {
    let mut forebay = start(server, database, &[]);
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["SET", "before", "1"]), ok());
    server.stop(Stop::Immediate);
    assert_eq!(client.call(&["SET", "pending", "1"]), ok());
    forebay.kill9();
    let journal = forebay.journal().display().to_string();
    (forebay, journal)
}

/// A wrong role, password or database is no outage: waiting does not mend it.
#[test]
fn what_is_wrong_with_the_settings_is_no_outage() {
    let server = Server::start();
    let database = server.database();
    let (mut forebay, journal) = one_pending(&server, &database);
    server.start_again();
    server.sql(&database, "CREATE ROLE clerk LOGIN SUPERUSER PASSWORD 'right'");
    server.ask_for_password("clerk");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "wrong\n").expect("it can be written");
    let wrong = ["--store-password-file", file.path().to_str().expect("UTF-8")];
    let (nobody, clerk) =
        (server.url(&database).replace("app@", "nobody@"), server.url(&database).replace("app@", "clerk@"));
    for (store, more, what) in [
        (&nobody, &[][..], "role nobody in: role \"nobody\" does not exist"),
        (&clerk, &wrong, "role clerk in: password authentication failed"),
        (&clerk, &[], "role clerk in: invalid configuration: password missing"),
        (&server.url("nowhere"), &[], "database \"nowhere\" does not exist"),
    ] {
        let said = refused(store, &journal, more);
        assert!(said.contains(what) && said.contains("--store") && !said.contains("start it"), "{what}: {said}");
    }
    // Somebody may know better: the role is made in a minute.
    let asked = ["--start-in-failed", "--journal", &journal];
    let late = Forebay::start(&nobody, &[&QUICK[..], &asked].concat());
    let mut client = Connection::new(late.address);
    assert_eq!((mode(&mut client).as_str(), client.call(&["SET", "later", "1"])), ("failed", ok()));
    server.sql(&database, "CREATE ROLE nobody LOGIN SUPERUSER");
    calm(late.address);
    drop((client, late));
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    assert_eq!([said(&client.call(&["GET", "pending"])), said(&client.call(&["GET", "later"]))], ["1", "1"]);
}

/// Writes are never carried into another database than the one that they were made for, whether it can be reached or
/// not.
#[test]
fn writes_belong_to_their_database() {
    let server = Server::start();
    let (database, other) = (server.database(), server.database());
    let (mut forebay, journal) = one_pending(&server, &database);
    for more in [&[][..], &["--start-in-failed"]] {
        let said = refused(&server.url(&other), &journal, more);
        assert!(said.contains(&format!("wait for the database {database}")), "{said}");
    }
    server.start_again();
    for more in [&[][..], &["--start-in-failed"]] {
        let said = refused(&server.url(&other), &journal, more);
        assert!(said.contains(&format!("wait for the database {database}")), "{said}");
    }
    assert_eq!(server.sql(&other, "SELECT count(*) FROM pg_namespace WHERE nspname = 'forebay'"), "0", "untouched");
    // Another of the same name: nothing is applied before somebody has looked.
    let all = |statements: &str| server.sql("postgres", statements);
    all(&format!("ALTER DATABASE {database} RENAME TO renamed"));
    all(&format!("CREATE DATABASE {database}"));
    for value in ["2", "3"] {
        forebay.restart();
        let mut client = Connection::new(forebay.address);
        assert!(said(&client.call(&["CACHE", "STATE"])).contains("earlier state"));
        assert_eq!(client.call(&["SET", "pending", value]), ok());
        assert_eq!(server.sql(&database, "SELECT count(*) FROM forebay.documents"), "0");
    }
    // Nor does a start without any forget which was the first.
    server.stop(Stop::Fast);
    forebay.restart();
    assert_eq!(Connection::new(forebay.address).call(&["SET", "pending", "4"]), ok());
    forebay.terminate();
    server.start_again();
    all(&format!("ALTER DATABASE {database} RENAME TO other"));
    all(&format!("ALTER DATABASE renamed RENAME TO {database}"));
    forebay.restart();
    calm(forebay.address);
    let names = "SELECT string_agg(convert_from(name, 'UTF8'), ' ' ORDER BY name) FROM forebay.documents";
    assert_eq!(server.sql(&database, names), "before pending");
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["GET", "pending"]), Reply::bulk(b"4"));
}

/// Once an operator has said that another database is the right one, it is that for the next start too.
#[test]
fn another_database_takes_the_place_of_the_first_when_somebody_says_so() {
    let server = Server::start();
    let database = server.database();
    let (mut forebay, _) = one_pending(&server, &database);
    server.start_again();
    server.sql("postgres", &format!("ALTER DATABASE {database} RENAME TO renamed"));
    server.sql("postgres", &format!("CREATE DATABASE {database}"));
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["CACHE", "DRAIN", "RESUME"]), ok());
    calm(forebay.address);
    for _ in 0..2 {
        server.stop(Stop::Fast);
        assert_eq!(client.call(&["SET", "later", "1"]), ok());
        server.start_again();
        forebay.restart();
        calm(forebay.address);
        client = Connection::new(forebay.address);
        assert_eq!(client.call(&["GET", "pending"]), Reply::bulk(b"1"));
    }
    assert_eq!(server.sql(&database, "SELECT count(*) FROM forebay.documents"), "2");
}
