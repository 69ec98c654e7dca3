//! The journal's files: cut, readable by others, replaced by links.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::common::Connection;
use crate::common::process::forebay_command;
use crate::postgres::{Server, Stop};
use crate::state::{entry, figure, said};
use crate::{ok, start};

/// A journal that was cut at its end names what is missing, whatever the durability: a file beside it knows.
#[test]
fn a_journal_that_was_cut_names_what_may_be_lost() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = start(&server, &database, &[]);
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["SET", "before", "1"]), ok());
    server.stop(Stop::Immediate);
    assert_eq!(client.call(&["SET", "key1", "1"]), ok());
    let file = forebay.journal().join("journal");
    let length = std::fs::metadata(&file).expect("the journal").len();
    for number in 2..=5 {
        assert_eq!(client.call(&["SET", &format!("key{number}"), "1"]), ok());
    }
    drop(client);
    forebay.terminate();
    let journal = std::fs::OpenOptions::new().write(true).open(&file).expect("the journal");
    journal.set_len(length).expect("it can be cut");
    forebay.restart();
    let log = forebay.log();
    assert!(log.contains("the journal is shorter than it was left"), "{log}");
    let told = log.lines().find(|line| line.contains("ERROR") && line.contains("may be lost")).expect("it is logged");
    assert!(told.contains("after=1 up_to=5"), "{told}");
    let mut client = Connection::new(forebay.address);
    assert!(said(&entry(&mut client, "lost")).starts_with("tickets 2 to 5 of epoch "));
    assert_eq!(figure(&mut client, "pending"), 1);
    assert!(said(&client.call(&["CACHE", "WAIT", "3", "0"])).starts_with("LOST "));
    assert!(said(&client.call(&["CACHE", "WAIT", "1", "0"])).starts_with("PENDING"));
}

/// What clients have written is their owner's alone, and no link leads the journal to another file.
#[test]
fn the_journal_is_its_owners_alone() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = start(&server, &database, &[]);
    let folder = forebay.journal();
    let mode = |name: &str| {
        let path = folder.join(name);
        std::fs::metadata(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode()
            & 0o7777
    };
    assert_eq!(["", "journal", "lock", "length"].map(mode), [0o700, 0o600, 0o600, 0o600]);
    forebay.terminate();
    for (name, wide) in [("", 0o755), ("journal", 0o644)] {
        std::fs::set_permissions(folder.join(name), PermissionsExt::from_mode(wide)).expect("a mode");
    }
    forebay.restart();
    assert_eq!(["", "journal"].map(mode), [0o700, 0o600]);
    assert!(forebay.log().contains("others had rights on it (mode 644)"));
    forebay.terminate();
    std::fs::rename(folder.join("journal"), folder.join("moved")).expect("it can be moved");
    std::os::unix::fs::symlink("moved", folder.join("journal")).expect("a link");
    let (url, path) = (server.url(&database), folder.to_str().expect("UTF-8"));
    let mut serve = forebay_command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--http", "off", "--store", &url, "--journal", path]);
    let output = serve.stdin(Stdio::null()).output().expect("it runs");
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && why.contains("symbolic link"), "{why}");
}
