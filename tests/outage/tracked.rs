//! Clients that keep what they read (CLIENT TRACKING) are told when what they were shown is not to be. An operator
//! drops a write, or another forebay has taken the database.

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::Forebay;
use crate::ok;
use crate::owners::First;
use crate::state::{figure, said};
use crate::tables::{cache, shop};

/// A connection of RESP3 that tracks.
fn tracking(forebay: &Forebay, mode: &[&str]) -> Connection {
    let mut client = Connection::new(forebay.address);
    client.call(&["HELLO", "3"]);
    assert_eq!(client.call(&[&["CLIENT", "TRACKING", "ON"], mode].concat()), ok());
    client
}

/// What it is told next.
fn told(client: &mut Connection) -> String {
    let Reply::Push(parts) = client.receive() else { panic!("nothing was asked") };
    assert_eq!(said(&parts[0]), "invalidate");
    said(&parts[1])
}

#[test]
fn a_write_that_is_dropped_is_told() {
    let (_server, _database, forebay) = shop(&[]);
    let mut client = Connection::new(forebay.address);
    cache(&mut client, &["album:1"]);
    assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", "600"]), ok());
    // The database will refuse it: there is no such album.
    assert_eq!(client.call(&["HMSET", "photo:1", "album", "98765"]), ok());
    assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", "0"]), ok());
    while figure(&mut client, "quarantined") < 1 {}
    let (mut keeps, mut by_prefix) = (tracking(&forebay, &[]), tracking(&forebay, &["BCAST", "PREFIX", "photo:"]));
    assert!(said(&keeps.call(&["HGET", "photo:1", "album"])).contains("98765"), "it is shown while it waits");
    assert_eq!(client.call(&["CACHE", "QUARANTINE", "DROP", "1", "no such album"]), ok());
    assert_eq!((told(&mut keeps), told(&mut by_prefix)), ("photo:1".into(), "photo:1".into()));
    assert_eq!(keeps.call(&["HGET", "photo:1", "album"]), Reply::Nil);
}

/// The other one writes what this one never hears of. So all that its clients keep is over, though they go on being
/// connected.
#[test]
fn clients_of_an_owner_that_is_none_any_more_are_told() {
    let first = First::start();
    let mut client = Connection::new(first.forebay.address);
    assert_eq!(client.call(&["SET", "k", "old"]), ok());
    let (mut keeps, mut by_prefix) = (tracking(&first.forebay, &[]), tracking(&first.forebay, &["BCAST"]));
    assert_eq!(keeps.call(&["GET", "k"]), Reply::bulk(b"old"));
    first.network.close();
    let second = first.second();
    assert_eq!(Connection::new(second.address).call(&["SET", "k", "new"]), ok());
    first.network.pass();
    first.is_fenced();
    assert_eq!((told(&mut keeps), told(&mut by_prefix)), ("Nil".into(), "Nil".into()));
}
