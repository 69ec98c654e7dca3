//! Many changes of one row as one write: what an outage leaves, or a long transaction.

use forebay::change::Change;
use forebay::store::suite::block_on;
use forebay::store::{CommitOutcome, Store};

use crate::mapping::{World, add, blob, commit, commit_of, field, set};

const CHANGES: usize = 5_000;

const TABLE: &str = "CREATE TABLE sums (id integer PRIMARY KEY, a smallint, b bigint NOT NULL DEFAULT 0, x numeric,
    d numeric(12,3), y float8, t text, CHECK (a <= 100));
    INSERT INTO sums SELECT id, 1, 1, 1, 1, 1, 't' FROM generate_series(1, 2) AS id";

/// Columns, each with what it holds where there was a row, and where there was none.
type Expected = &'static [(&'static str, &'static str, &'static str)];

fn float(name: &str, delta: &str) -> Change {
    Change::AddFloat { field: Some(blob(name)), delta: blob(delta) }
}

/// PostgreSQL's stack, its number of columns and what a column holds are not its matter. Each kind is made to a row
/// that is there, to one that is not, and to both in one statement.
#[test]
fn any_number_of_changes_of_a_row_is_one_write() {
    let world = World::new(TABLE, &["sum:{id} -> sums(id)"]);
    let (store, mint) = world.open();
    let many = |of: &dyn Fn(usize) -> Change| (0..CHANGES).map(of).collect::<Vec<Change>>();
    let kinds: [(&str, Vec<Change>, Expected); 7] = [
        ("up and down", many(&|at| add("a", if at % 2 == 0 { 30_000 } else { -30_000 })), &[("a", "1", "0")]),
        (
            "two",
            many(&|at| if at % 2 == 0 { add("a", 1 - at as i64 % 4) } else { float("x", "0.25") }),
            &[("a", "1", "0"), ("x", "626.00", "625.00")],
        ),
        (
            "sum and set",
            many(&|at| if at % 2 == 0 { add("b", 2) } else { set("t", &at.to_string()) }),
            &[("b", "5001", "5000"), ("t", "4999", "4999")],
        ),
        ("set again", many(&|at| if at % 2 == 0 { set("b", "7") } else { add("b", 2) }), &[("b", "9", "9")]),
        (
            "unset again",
            many(&|at| if at % 2 == 0 { Change::UnsetField(blob("d")) } else { float("d", "0.5") }),
            &[("d", "0.500", "0.500")],
        ),
        ("far", many(&|at| add("b", if at < CHANGES / 2 { i64::MAX } else { -i64::MAX })), &[("b", "1", "0")]),
        (
            "all numbers",
            many(&|at| match at % 4 {
                0 => float("x", "1e-3"),
                1 => float("y", "-0.5"),
                2 => float("d", "0.001"),
                _ => add("x", 3),
            }),
            &[("x", "3752.250", "3751.250"), ("y", "-624", "-625"), ("d", "2.250", "1.250")],
        ),
    ];
    for (kind, changes, expected) in &kinds {
        let fresh = "DELETE FROM sums; INSERT INTO sums SELECT id, 1, 1, 1, 1, 1, 't' FROM generate_series(1, 2) AS id";
        world.sql(fresh);
        for (name, was_there) in [("sum:1", true), ("sum:8", false)] {
            let row = commit(&store, &mint, &[(name, changes.clone())]).remove(0);
            for (column, there, nothing) in *expected {
                let wanted = if was_there { there } else { nothing };
                assert_eq!(field(&row, column).as_deref(), Some(*wanted), "{kind}: {name} {column}");
            }
        }
        let both = [commit_of(&mint, &[("sum:2", changes.clone()), ("sum:9", changes.clone())], &[])];
        let outcome = block_on(store.commit(&both)).remove(0);
        let CommitOutcome::Committed(rows) = outcome else { panic!("{kind}: {outcome:?}") };
        for ((_, row), was_there) in rows.iter().zip([true, false]) {
            for (column, there, nothing) in *expected {
                let wanted = if was_there { there } else { nothing };
                assert_eq!(field(row, column).as_deref(), Some(*wanted), "{kind}, both: {column}");
            }
        }
    }
}
