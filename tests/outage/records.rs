//! The text of a record names some of its fields: what is written so stays readable in an outage.

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::ok;
use crate::postgres::Stop;
use crate::state::{calm, said};
use crate::tables::{cache, shop};

/// A record that was cached whole is still known whole.
#[test]
fn a_record_that_was_cached_is_known_behind_a_set() {
    let (server, database, forebay) = shop(&[]);
    let mut client = Connection::new(forebay.address);
    cache(&mut client, &["album:1", "album:2"]);
    server.stop(Stop::Immediate);
    assert_eq!(client.call(&["SET", "album:1", "{\"name\": \"summer\"}"]), ok());
    let album = said(&client.call(&["GET", "album:1"]));
    assert!(album.contains("summer") && album.contains("family"), "{album}");
    assert_eq!(said(&client.call(&["HGET", "album:1", "shared"])), "family");
    assert_eq!(client.call(&["HSET", "album:1", "shared", "all"]), Reply::Integer(0));
    assert_eq!(client.call(&["MSET", "album:1", "{\"name\": \"autumn\"}"]), ok());
    assert_eq!(said(&client.call(&["HMGET", "album:1", "name", "shared"])), "autumn all");
    // One that is known not to be there, too.
    assert_eq!(client.call(&["SET", "album:2", "{\"name\": \"winter\"}"]), ok());
    assert_eq!(client.call(&["HSETNX", "album:2", "shared", "none"]), Reply::Integer(1));
    server.start_again();
    calm(forebay.address);
    let rows = server.sql(&database, "SELECT string_agg(name || ' ' || shared, ', ' ORDER BY id) FROM albums");
    assert_eq!(rows, "autumn all, winter none");
}
