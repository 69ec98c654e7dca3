//! Who may come in, through the real binary: passwords, users, TLS; what is refused at the start; and that no secret
//! is shown anywhere.

mod common;

#[path = "access/categories.rs"]
mod categories;
#[path = "access/secrets.rs"]
mod secrets;
#[path = "access/serving.rs"]
mod serving;
#[path = "access/tls.rs"]
mod tls;

use std::fs;
use std::io::{Read, Write};

use common::Connection;
use forebay_protocol::Reply;
use serving::{Serving, hash_of, refusal};

fn error(text: &'static str) -> Reply {
    Reply::error(text)
}

#[test]
fn a_password_file_keeps_strangers_out() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("password"), hash_of("hunter2")).expect("written");
    let serving = Serving::start(folder.path(), &["--password-file", "password"]);
    assert!(serving.banner.contains("password, loopback only"), "{}", serving.banner);
    let mut client = Connection::new(serving.address);
    assert_eq!(client.call(&["GET", "k"]), error("NOAUTH Authentication required."));
    let wrong = error("WRONGPASS invalid username-password pair or user is disabled.");
    assert_eq!(client.call(&["AUTH", "hunter3"]), wrong);
    // A whole pipeline behind the password.
    let pipeline: Vec<Vec<String>> = ["AUTH hunter2", "SET k v", "GET k", "ACL WHOAMI"]
        .iter()
        .map(|request| request.split(' ').map(str::to_owned).collect())
        .collect();
    let ok = || Reply::Simple("OK".into());
    assert_eq!(client.pipeline(&pipeline), [ok(), ok(), Reply::bulk(b"v"), Reply::bulk(b"default")]);
    // What was short before is no longer.
    let long = "x".repeat(100_000);
    assert_eq!(client.call(&["SET", "long", &long]), ok());
    assert_eq!(client.call(&["DEL", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"]), Reply::Integer(0));
    for (request, refusal) in [
        ("*11\r\n".to_owned(), "-ERR Protocol error: unauthenticated multibulk length\r\n"),
        ("*2\r\n$4\r\nAUTH\r\n$16385\r\n".to_owned(), "-ERR Protocol error: unauthenticated bulk length\r\n"),
    ] {
        let mut stream = std::net::TcpStream::connect(serving.address).expect("it listens");
        stream.write_all(request.as_bytes()).expect("written");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("a reply, then the end");
        assert_eq!(reply, refusal);
    }
}

/// A new file is read at SIGHUP; one that can't be used changes nothing.
#[test]
fn users_are_read_again_and_those_who_went_are_sent_away() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("users");
    let hash = hash_of("hunter2").trim_end().to_owned();
    let write = |users: &str| fs::write(&file, users.replace("HASH", &hash)).expect("written");
    write("user default on nopass ~* +@all\nuser al on #HASH ~* +@all\nuser bo on #HASH ~* +@all");
    let serving = Serving::start(folder.path(), &["--users-file", "users"]);
    let client = |name: &str| {
        let mut client = Connection::new(serving.address);
        assert_eq!(client.call(&["AUTH", name, "hunter2"]), Reply::Simple("OK".into()));
        client
    };
    let (mut al, mut bo) = (client("al"), client("bo"));
    write("user default on nopass ~* +@all\nuser al on >clear");
    serving.signal("HUP");
    serving.logs("the users stay as they were");
    assert_eq!(al.call(&["SET", "k", "v"]), Reply::Simple("OK".into()));
    write("user default on nopass ~* +@all\nuser al on #HASH ~* +get");
    serving.signal("HUP");
    serving.logs("read the users again");
    assert_eq!(al.call(&["GET", "k"]), Reply::bulk(b"v"));
    assert_eq!(al.call(&["DEL", "k"]), error("NOPERM User al has no permissions to run the 'del' command"));
    assert!(bo.is_closed(), "its user is no more");
}

#[test]
fn a_public_address_needs_a_password() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let refused = |line: &[&str]| refusal(folder.path(), line);
    for listen in ["--listen", "--http"] {
        let text = refused(&[listen, "0.0.0.0:0"]);
        let helps =
            if listen == "--http" { "use 127.0.0.1:0, and before it a proxy" } else { "forebay password > FILE" };
        assert!(text.starts_with(listen) && text.contains(helps), "{text}");
        assert!(!text.contains("allow-public"), "{text}");
    }
    // A file with users that lets everyone in is none.
    fs::write(folder.path().join("users"), "user default on nopass +@all").expect("written");
    let text = refused(&["--listen", "0.0.0.0:0", "--users-file", "users"]);
    assert!(text.starts_with("users lets everyone in") && text.contains("(default)"), "{text}");
    fs::write(folder.path().join("users"), "user default on +@all >clear").expect("written");
    let text = refused(&["--users-file", "users"]);
    assert!(text.starts_with("users line 1: a password stands here as its hash") && !text.contains("clear"), "{text}");
    assert!(refused(&["--users-file", "none"]).starts_with("can't read none: "));
    let unnamed = refused(&["--password-file", "none"]);
    assert!(unnamed.ends_with("; check --password-file"), "{unnamed}");
    assert!(refused(&["--password-file", "users"]).starts_with("users line 1: not an argon2 hash"));
    assert!(refused(&["--password-file", "p", "--users-file", "u"]).contains("give one of the two"));

    fs::write(folder.path().join("password"), hash_of("hunter2")).expect("written");
    let serving = Serving::start(folder.path(), &["--listen", "0.0.0.0:0", "--password-file", "password"]);
    assert!(serving.banner.contains("password, open to all who can reach it"), "{}", serving.banner);
    serving.logs("travel in the clear");
    fs::write(folder.path().join("users"), "user default off").expect("written");
    let users = Serving::start(folder.path(), &["--listen", "0.0.0.0:0", "--users-file", "users"]);
    fs::write(folder.path().join("users"), "user default on nopass ~* +@all").expect("written");
    users.signal("HUP");
    users.logs("the users stay as they were");
    let open = Serving::start(folder.path(), &["--listen", "0.0.0.0:0", "--allow-public-without-password"]);
    open.logs("may read and destroy");
}

#[test]
fn a_hash_is_made_of_what_is_piped_in() {
    let (one, two) = (hash_of("hunter2"), hash_of("hunter2\n"));
    for hash in [&one, &two] {
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$") && hash.ends_with('\n'), "{hash}");
    }
    assert_ne!(one, two, "each has a salt of its own");
    for wrong in ["", "\n", "two\nlines\n"] {
        let output = serving::password(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(output.stdout.is_empty());
    }
}

/// No client takes up places by not authenticating.
#[test]
fn a_stranger_does_not_stay() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("password"), hash_of("hunter2")).expect("written");
    let serving = Serving::start(folder.path(), &["--password-file", "password", "--stranger-ms-max", "300"]);
    let mut known = Connection::new(serving.address);
    assert_eq!(known.call(&["AUTH", "hunter2"]), Reply::Simple("OK".into()));
    let (mut silent, mut loud) = (Connection::new(serving.address), Connection::new(serving.address));
    assert_eq!(loud.call(&["PING"]), error("NOAUTH Authentication required."));
    assert!(silent.is_closed() && loud.is_closed());
    serving.logs("closing a stranger");
    assert_eq!(known.call(&["PING"]), Reply::Simple("PONG".into()));
}

/// Whoever connects and says nothing neither stays nor keeps others out.
#[test]
fn silent_strangers_make_room() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("password"), hash_of("hunter2")).expect("written");
    let line = ["--password-file", "password", "--clients-max", "4", "--handshake-ms-max", "3600000"];
    let serving = Serving::start(folder.path(), &line);
    let ok = || Reply::Simple("OK".into());
    let mut inside = Connection::new(serving.address);
    assert_eq!(inside.call(&["AUTH", "hunter2"]), ok());
    let mut greeting = Connection::new(serving.address);
    assert_eq!(
        greeting.call(&["AUTH", "wrong"]),
        error("WRONGPASS invalid username-password pair or user is disabled.")
    );
    let connect = || std::net::TcpStream::connect(serving.address).expect("it listens");
    let mut silent: Vec<_> = (0..20).map(|_| connect()).collect();
    // Of twenty that say nothing the last two are there still; the next client takes the place of the older of them.
    let mut next = Connection::new(serving.address);
    assert_eq!(next.call(&["AUTH", "hunter2"]), ok());
    let mut reply = String::new();
    assert!(silent[0].read_to_string(&mut reply).is_ok_and(|_| reply.is_empty()), "{reply}");
    serving.logs("closing a stranger in favour of a new client: clients_max");
    // A client that has said something stays, whether or not the password was right.
    assert_eq!(inside.call(&["PING"]), Reply::Simple("PONG".into()));
    assert_eq!(greeting.call(&["AUTH", "hunter2"]), ok());
    let mut last = Connection::new(serving.address);
    assert_eq!(last.call(&["AUTH", "hunter2"]), ok());
    // Now all four have authenticated.
    let mut refused = connect();
    reply.clear();
    refused.read_to_string(&mut reply).expect("a reply, then the end");
    assert_eq!(reply, "-ERR max number of clients reached\r\n");
}

/// Nor do those that say something and do not authenticate.
#[test]
fn strangers_that_talk_make_room() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("password"), hash_of("hunter2")).expect("written");
    let line = ["--password-file", "password", "--clients-max", "4", "--handshake-ms-max", "3600000"];
    let serving = Serving::start(folder.path(), &line);
    let talk = || {
        let mut stranger = Connection::new(serving.address);
        assert_eq!(stranger.call(&["RESET"]), Reply::Simple("RESET".into()));
        stranger
    };
    let mut strangers: Vec<Connection> = (0..6).map(|_| talk()).collect();
    let mut client = Connection::new(serving.address);
    assert_eq!(client.call(&["AUTH", "hunter2"]), Reply::Simple("OK".into()));
    strangers.extend((0..6).map(|_| talk()));
    assert_eq!(client.call(&["PING"]), Reply::Simple("PONG".into()), "it has authenticated");
    assert!(strangers[0].is_closed());
}

#[test]
fn a_silent_stranger_does_not_stay() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("password"), hash_of("hunter2")).expect("written");
    let serving = Serving::start(folder.path(), &["--password-file", "password", "--handshake-ms-max", "300"]);
    let mut inside = Connection::new(serving.address);
    assert_eq!(inside.call(&["AUTH", "hunter2"]), Reply::Simple("OK".into()));
    let mut half = std::net::TcpStream::connect(serving.address).expect("it listens");
    half.write_all(b"*2\r\n$4\r\nAUTH\r\n$7\r\nhunt").expect("written");
    let mut reply = String::new();
    half.read_to_string(&mut reply).expect("the end");
    assert_eq!(reply, "");
    serving.logs("closing a stranger: handshake_ms_max");
    assert_eq!(inside.call(&["PING"]), Reply::Simple("PONG".into()), "it has authenticated");
}
