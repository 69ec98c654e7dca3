//! What waits in a journal when versions of rows are kept in another way at the next start.

use std::time::Instant;

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::lanes::{World, away, init};
use crate::ok;
use crate::state::{PATIENCE, figure, said};
use crate::tables::cache;

const TABLE: &str = "\
CREATE TABLE items (id integer PRIMARY KEY, n integer NOT NULL, note text);
INSERT INTO items SELECT number, number, 'new' FROM generate_series(1, 9) AS number";

const MAP: [&str; 2] = ["--map", "item:{id} -> items(id)"];

fn call(client: &mut Connection, request: &str) -> Reply {
    client.call(&request.split(' ').collect::<Vec<_>>())
}

/// It rests on versions of the other kind, so it is set aside, if other programs have written the row or not. The row
/// has never been written since its versions began to be kept, so it has the one that all such rows have.
#[test]
fn what_rests_on_versions_of_another_kind_is_set_aside() {
    for (mode, other) in [("side", "column"), ("column", "side")] {
        let mut world = World::prepared(TABLE, &MAP, &["--version", mode]);
        let mut client = world.client();
        cache(&mut client, &["item:1", "item:2"]);
        away(&mut client, true);
        assert_eq!(call(&mut client, "TXN BEGIN"), ok());
        assert_eq!(call(&mut client, "HGET item:1 n"), Reply::bulk(b"1"));
        call(&mut client, "HSET item:2 note of-1");
        assert!(said(&call(&mut client, "TXN COMMIT")).starts_with("BUFFERED"), "{mode}");
        world.forebay.kill9();
        for trigger in ["forebay_version", "forebay_change", "forebay_truncate"] {
            world.sql(&format!("DROP TRIGGER IF EXISTS {trigger} ON items"));
        }
        world.sql("UPDATE items SET n = 50 WHERE id = 1");
        init(&world.server, &world.database, &[&MAP[..], &["--version", other]].concat());
        world.forebay.restart();
        let (mut client, began) = (world.client(), Instant::now());
        while figure(&mut client, "quarantined") != 1 {
            assert!(began.elapsed() < PATIENCE, "{mode}: {}", said(&call(&mut client, "CACHE STATE")));
        }
        let notes = "SELECT string_agg(concat(id, ':', n, ':', note), ' ' ORDER BY id) FROM items WHERE id <= 2";
        assert_eq!(world.sql(notes), "1:50:new 2:2:new", "{mode}");
    }
}
