//! Random commits and random writes of another program against a naive model. A commit is made just where nothing that
//! it has read was written since. The file holds what the model holds.

use std::collections::BTreeMap;

use forebay::store::{Commit, CommitOutcome, Store, suite};
use forebay::value::Blob;
use forebay::{Change, Key, Read};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::rows::{fields, open, read, set, unseen};
use crate::{Place, commit, key, outcome};

const SCHEMA: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, u INTEGER UNIQUE, n INTEGER NOT NULL DEFAULT 0)";

/// Rows that there may be.
const ROWS: i64 = 4;

#[derive(Clone, Debug)]
enum Step {
    /// Reads a row, for later checks.
    Read(i64),
    /// Commits changes of rows, each by a number, and checks all that was read since the last commit.
    Commit(Vec<(i64, Edit)>),
    /// Another program's statement: which, and its numbers.
    Other(u8, i64, i64),
}

#[derive(Clone, Copy, Debug)]
enum Edit {
    Add(i64),
    SetUnique(i64),
    Delete,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let row = || 1..=ROWS;
    let edit = prop_oneof![(1..9i64).prop_map(Edit::Add), (1..4i64).prop_map(Edit::SetUnique), Just(Edit::Delete)];
    let step = prop_oneof![
        3 => row().prop_map(Step::Read),
        3 => prop::collection::vec((row(), edit), 1..3).prop_map(Step::Commit),
        2 => (0..7u8, row(), 1..4i64).prop_map(|(what, row, number)| Step::Other(what, row, number)),
    ];
    prop::collection::vec(step, 1..25)
}

/// The row's unique number, if it has one, and its sum.
type Row = (Option<i64>, i64);

/// What the table holds, and how often each row was written.
#[derive(Clone, Default)]
struct Model {
    rows: BTreeMap<i64, Row>,
    writes: BTreeMap<i64, u64>,
}

impl Model {
    fn wrote(&mut self, row: i64) {
        *self.writes.entry(row).or_default() += 1;
    }

    fn has_unique(&self, row: i64, unique: i64) -> bool {
        self.rows.iter().any(|(id, (u, _))| *id != row && *u == Some(unique))
    }

    /// Makes an edit; whether the table takes it.
    fn edit(&mut self, row: i64, edit: Edit) -> bool {
        match edit {
            Edit::Add(number) => self.rows.entry(row).or_default().1 += number,
            Edit::SetUnique(unique) if self.has_unique(row, unique) => return false,
            Edit::SetUnique(unique) => self.rows.entry(row).or_default().0 = Some(unique),
            Edit::Delete => drop(self.rows.remove(&row)),
        }
        self.wrote(row);
        true
    }

    /// Removes the rows that REPLACE removes for a new row with these values.
    fn replace(&mut self, row: i64, unique: i64) {
        let victims: Vec<i64> =
            self.rows.iter().filter(|(id, (u, _))| **id != row && *u == Some(unique)).map(|(id, _)| *id).collect();
        for victim in victims {
            self.rows.remove(&victim);
            self.wrote(victim);
        }
    }
}

/// What another program does: to the file, and to the model.
fn other(place: &Place, model: &mut Model, what: u8, row: i64, number: i64) {
    let there = model.rows.contains_key(&row);
    let statement = match what {
        0 => {
            if there {
                model.edit(row, Edit::Add(number));
            }
            format!("UPDATE t SET n = n + {number} WHERE id = {row}")
        }
        1 => {
            if there {
                model.edit(row, Edit::Delete);
            }
            format!("DELETE FROM t WHERE id = {row}")
        }
        2 => {
            model.replace(row, number);
            model.rows.insert(row, (Some(number), 0));
            model.wrote(row);
            format!("INSERT OR REPLACE INTO t (id, u) VALUES ({row}, {number})")
        }
        3 => {
            if there {
                model.replace(row, number);
                model.rows.entry(row).or_default().0 = Some(number);
                model.wrote(row);
            }
            format!("UPDATE OR REPLACE t SET u = {number} WHERE id = {row}")
        }
        4 => {
            let rows: Vec<i64> = model.rows.keys().copied().collect();
            rows.into_iter().for_each(|row| {
                model.edit(row, Edit::Delete);
            });
            "DELETE FROM t".to_owned()
        }
        5 => {
            // Undone: nothing happened.
            format!("BEGIN; UPDATE t SET n = n + 100; INSERT OR IGNORE INTO t (id) VALUES ({row}); ROLLBACK")
        }
        _ => {
            if there {
                model.edit(row, Edit::Add(number));
            } else {
                model.rows.insert(row, (None, number));
                model.wrote(row);
            }
            format!("INSERT INTO t (id, n) VALUES ({row}, {number}) ON CONFLICT (id) DO UPDATE SET n = n + excluded.n")
        }
    };
    place.other().execute_batch(&statement).expect("SQLite takes it");
}

/// A row's fields.
fn shown(row: i64, (unique, sum): Row) -> Vec<(String, String)> {
    let unique = unique.map(|unique| ("u".to_owned(), unique.to_string()));
    let fixed = [("id".to_owned(), row.to_string()), ("n".to_owned(), sum.to_string())];
    let mut all: Vec<(String, String)> = fixed.into_iter().chain(unique).collect();
    all.sort();
    all
}

fn name(row: i64) -> String {
    format!("t:{row}")
}

fn changes(edits: &[(i64, Edit)]) -> BTreeMap<i64, Vec<Change>> {
    let mut changes: BTreeMap<i64, Vec<Change>> = BTreeMap::new();
    for (row, edit) in edits {
        let change = match edit {
            Edit::Add(number) => Change::AddInteger { field: Some(Blob::from(&b"n"[..])), delta: *number },
            Edit::SetUnique(unique) => set("u", &unique.to_string()),
            Edit::Delete => Change::Delete,
        };
        changes.entry(*row).or_default().push(change);
    }
    changes
}

/// What is left of `edits`, row by row: of what is deleted later nothing is tried, and of several values the last.
fn effective(edits: &[(i64, Edit)]) -> Vec<(i64, Edit)> {
    let mut left: BTreeMap<i64, Vec<Edit>> = BTreeMap::new();
    for (row, edit) in edits {
        let of_row = left.entry(*row).or_default();
        match edit {
            Edit::Delete => of_row.clear(),
            Edit::SetUnique(_) => of_row.retain(|edit| !matches!(edit, Edit::SetUnique(_))),
            Edit::Add(_) => {}
        }
        of_row.push(*edit);
    }
    left.into_iter().flat_map(|(row, edits)| edits.into_iter().map(move |edit| (row, edit))).collect()
}

fn check(steps: &[Step]) {
    let place = Place::new();
    let store = open(&place, SCHEMA, &["t:{id} -> t(id) delete=row"]);
    let mut model = Model::default();
    // What was read, and how often each row was written by then.
    let mut seen: BTreeMap<i64, (Read, u64)> = BTreeMap::new();
    let mut newest: BTreeMap<i64, Read> = BTreeMap::new();
    for (number, step) in (1u64..).zip(steps) {
        match step {
            Step::Read(row) => {
                let found = read(&store, &name(*row));
                let expected = model.rows.get(row).map(|held| shown(*row, *held));
                assert_eq!(fields(&found), expected, "{step:?}");
                if let Some(before) = newest.insert(*row, found.clone()) {
                    assert!(found.version >= before.version, "versions of a row never fall");
                    assert!(found.version > before.version || found.value == before.value, "one version, one value");
                }
                seen.insert(*row, (found, model.writes.get(row).copied().unwrap_or_default()));
            }
            Step::Commit(edits) => {
                let writes = changes(edits).into_iter().map(|(row, changes)| unseen(&name(row), changes));
                let made = commit(store.incarnation(), number, writes.collect());
                let checks = seen.iter().map(|(row, (read, _))| (key(&name(*row)), read.version)).collect();
                let made = Commit { checks, ..made };
                let overtaken: Vec<Key> = seen
                    .iter()
                    .filter(|(row, (read, writes))| {
                        let written = model.writes.get(row).copied().unwrap_or_default() != *writes;
                        // A row that was absent and is so again is as it was.
                        written && (read.value.is_some() || model.rows.contains_key(row))
                    })
                    .map(|(row, _)| key(&name(*row)))
                    .collect();
                let before = model.clone();
                let taken = effective(edits).into_iter().all(|(row, edit)| model.edit(row, edit));
                let answer = outcome(&store, made);
                match (overtaken.is_empty(), taken) {
                    (false, _) => {
                        // Too many rows may be told: those that a REPLACE could have removed.
                        let CommitOutcome::Conflict(keys) = &answer else { panic!("{answer:?}, not {overtaken:?}") };
                        assert!(overtaken.iter().all(|key| keys.contains(key)), "{keys:?} for {overtaken:?}");
                        model = before;
                    }
                    (true, false) => {
                        assert!(!answer.is_applied(), "{answer:?}");
                        model = before;
                    }
                    (true, true) => match &answer {
                        CommitOutcome::Conflict(_) => model = before,
                        answer => assert!(answer.is_applied(), "{answer:?}"),
                    },
                }
                seen.clear();
            }
            Step::Other(what, row, number) => other(&place, &mut model, *what, *row, *number),
        }
    }
    let found: BTreeMap<i64, Row> = {
        let other = place.other();
        let mut asked = other.prepare("SELECT id, u, n FROM t").expect("it is asked");
        let rows = asked.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?)))).expect("rows");
        rows.collect::<Result<_, _>>().expect("rows")
    };
    assert_eq!(found, model.rows);
    suite::block_on(store.flush()).expect("it is durable");
}

#[test]
fn random_commits_beside_another_program_are_as_a_naive_model_has_them() {
    let config = Config { cases: 150, failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(config).run(&steps(), |steps| {
        check(&steps);
        Ok(())
    });
    run.expect("every history is as the model has it");
}
