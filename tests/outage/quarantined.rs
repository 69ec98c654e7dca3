//! What an operator sees of quarantined transactions, and does about them.

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::ok;
use crate::state::{figure, said};
use crate::tables::{cache, shop};

/// Twelve transactions that the database refuses, and one that read what another program has changed since.
#[test]
fn all_of_a_quarantine_is_shown_and_a_conflict_can_be_applied() {
    let (server, database, forebay) = shop(&[]);
    let mut client = Connection::new(forebay.address);
    cache(&mut client, &["album:1"]);
    assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", "600"]), ok());
    for number in 1..=12 {
        assert_eq!(client.call(&["HMSET", &format!("photo:{number}"), "album", "98765"]), ok());
    }
    client.call(&["TXN", "BEGIN"]);
    assert_eq!(said(&client.call(&["HGET", "album:1", "name"])), "spring");
    assert_eq!(client.call(&["HMSET", "photo:20", "album", "1"]), ok());
    assert_eq!(said(&client.call(&["TXN", "COMMIT"])), "BUFFERED 13");
    server.sql(&database, "UPDATE albums SET name = 'autumn'");
    assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", "0"]), ok());
    while figure(&mut client, "quarantined") < 13 || figure(&mut client, "waiting") > 0 {}

    let list = |client: &mut Connection, more: &[&str]| {
        let request = [&["CACHE", "QUARANTINE", "LIST"], more].concat();
        let Reply::Array(list) = client.call(&request) else { panic!("a list") };
        list
    };
    let first = list(&mut client, &[]);
    let last = first.last().map(said).unwrap_or_default();
    assert!(first.len() == 11 && last.contains("more") && last.contains("AFTER 10"), "{last}");
    assert_eq!(list(&mut client, &["AFTER", "10"]).len(), 3, "and nothing more");
    assert_eq!(list(&mut client, &["COUNT", "13"]).len(), 13);
    let Reply::Array(pending) = client.call(&["CACHE", "PENDING"]) else { panic!("a list") };
    assert_eq!(pending.len(), 11);
    // Names, and no values.
    let all = first.iter().map(said).collect::<String>();
    assert!(all.contains("photos_album_fkey") && all.contains("23503") && !all.contains("98765"), "{all}");

    let shown = said(&client.call(&["CACHE", "QUARANTINE", "SHOW", "13"]));
    assert!(shown.contains("it read album:1, which has changed since"), "{shown}");
    let refused = said(&client.call(&["CACHE", "QUARANTINE", "SHOW", "14"]));
    assert!(refused.contains("there is no ticket 14"), "{refused}");
    let refused = said(&client.call(&["CACHE", "QUARANTINE", "APPLY", "1", "why not"]));
    assert!(refused.contains("is refused by the store"), "{refused}");
    // The verdict counts when the journal has it.
    while !said(&client.call(&["CACHE", "WAIT", "13", "1000"])).starts_with("CONFLICT") {}
    assert_eq!(client.call(&["CACHE", "QUARANTINE", "APPLY", "13", "looked at by hand"]), ok());
    let told = said(&client.call(&["CACHE", "WAIT", "13", "60000"]));
    assert!(told.starts_with("APPLIED") || told.starts_with("CONFLICT"), "{told}");
    while !said(&client.call(&["CACHE", "WAIT", "13", "1000"])).starts_with("APPLIED") {}
    assert_eq!(server.sql(&database, "SELECT id, album FROM photos"), "20|1");
    assert!(forebay.log().contains("looked at by hand"), "{}", forebay.log());
    assert_eq!(client.call(&["CACHE", "QUARANTINE", "DROP", "1", "no such album"]), ok());
}
