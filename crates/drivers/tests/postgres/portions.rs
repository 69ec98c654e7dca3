//! Rows that are read a portion at a time.

use forebay::store::Store;
use forebay::store::suite::block_on;
use forebay::{Key, Read, Value};

use crate::mapping::{World, key};

const TABLES: &str = "\
CREATE TABLE notes (id integer PRIMARY KEY, title text, body bytea, data jsonb);
CREATE TABLE pages (id integer PRIMARY KEY, body text);
INSERT INTO notes SELECT n, repeat('t', n * 37 % 900), decode(repeat('ff', n * 997 % 5000), 'hex'), NULL
    FROM generate_series(1, 30) n WHERE n % 7 <> 3;
INSERT INTO pages SELECT n, repeat('p', n * 12289 % 60000) FROM generate_series(1, 30) n;";

fn size(read: &Read) -> usize {
    read.value.as_ref().map_or(0, Value::size)
}

#[test]
fn rows_of_two_tables_are_read_in_portions() {
    let world = World::new(TABLES, &["note:{id} -> notes(id)", "page:{id} -> pages(id)"]);
    let (store, _) = world.open();
    let names = (1..=30).flat_map(|n| [format!("note:{n}"), format!("page:{}", 31 - n)]);
    let keys: Vec<Key> = names.map(|name| key(&name)).collect();
    let whole = block_on(store.get(&keys)).expect("they can be read");
    assert_eq!(whole.len(), keys.len());
    for bytes_max in [0, 1000, 20_000, 300_000, usize::MAX - 1] {
        let (mut reads, mut portions): (Vec<Read>, usize) = (Vec::new(), 0);
        while reads.len() < keys.len() {
            let portion = block_on(store.get_within(&keys[reads.len()..], bytes_max)).expect("they can be read");
            let before: usize = portion[..portion.len() - 1].iter().map(size).sum();
            assert!(before <= bytes_max, "it went on behind {before} bytes of {bytes_max}");
            reads.extend(portion);
            portions += 1;
        }
        assert_eq!(reads, whole, "{bytes_max} bytes at a time");
        let expected = if bytes_max > 10_000_000 { 1..=1 } else { 2..=keys.len() };
        assert!(expected.contains(&portions), "{portions} portions of {bytes_max} bytes");
    }
}
