//! What is told of an error says nothing of values, nor of columns that no mapping shows.

use forebay::change::Change;
use forebay::store::Store;
use forebay::store::suite::block_on;

use crate::mapping::{World, add, blob, commit_of, refused, set};

const TABLES: &str = "\
CREATE TABLE accounts (id integer PRIMARY KEY, visits integer CHECK (visits >= 0), code varchar(4) UNIQUE,
    owner integer REFERENCES accounts, secret text NOT NULL DEFAULT 'hush', hidden integer NOT NULL DEFAULT 1);
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.visits = 70 THEN RAISE EXCEPTION 'the secret is %', NEW.secret; END IF;
    IF NEW.visits = 71 THEN RAISE EXCEPTION 'it is %', NEW.secret USING ERRCODE = '23514', CONSTRAINT = 'mine'; END IF;
    IF NEW.visits = 72 THEN RAISE EXCEPTION 'it is %', NEW.secret USING ERRCODE = '25006', HINT = NEW.secret; END IF;
    IF NEW.visits = 73 THEN PERFORM NEW.secret::integer; END IF;
    IF NEW.visits = 74 THEN EXECUTE 'SELECT ' || NEW.secret; END IF;
    IF NEW.visits = 75 THEN NEW.hidden = NULL; END IF;
    IF NEW.visits = 76 THEN RAISE EXCEPTION 'it is %', NEW.secret USING ERRCODE = '55000'; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER tell BEFORE UPDATE ON accounts FOR EACH ROW EXECUTE FUNCTION tell();
INSERT INTO accounts VALUES (1, 0, 'a', NULL, 'hush', 42), (2, 0, 'taken', NULL, 'hush', 42);";

#[test]
fn no_value_and_no_unmapped_column_is_told() {
    let tables = TABLES.replace("'taken'", "'tkn'");
    let world = World::new(&tables, &["account:{id} -> accounts(id) fields(visits, code, owner)"]);
    let (store, mint) = world.open();
    let visits = |number: i64| vec![add("visits", number)];
    for (changes, expected) in [
        (visits(-5), "new row for relation \"accounts\" violates check constraint \"accounts_visits_check\" "),
        (vec![set("code", "tkn")], "duplicate key value violates unique constraint \"accounts_code_key\" "),
        (vec![set("owner", "99")], "table \"accounts\": foreign key constraint \"accounts_owner_fkey\" is violated "),
        (vec![set("visits", "many")], "22P02"),
        (vec![set("code", "muchtoolong")], "22001"),
        (visits(i64::from(i32::MAX) + 1), "22003"),
        (visits(70), "a trigger or function of the database raised an error (SQLSTATE P0001)"),
        (visits(71), "(SQLSTATE 23514)"),
        (visits(73), "a text is no value of its column's type (SQLSTATE 22P02)"),
        (visits(74), "42703"),
        (visits(75), "null value in a column of relation \"accounts\" violates not-null constraint (SQLSTATE 23502)"),
    ] {
        let why = refused(&store, &mint, "account:1", changes);
        assert!(why.contains(expected), "{why}");
        for leaked in ["hush", "secret", "hidden", "42)", "42,", "Failing", "tkn", "99", "muchtoolong"] {
            assert!(!why.contains(leaked), "{leaked}: {why}");
        }
    }
    // What is not refused for good is told to clients, too.
    for number in [72, 76] {
        let commit = commit_of(&mint, &[("account:1", visits(number))], &[]);
        let outcome = format!("{:?}", block_on(store.commit(&[commit])));
        assert!(outcome.contains("a trigger or function") && !outcome.contains("hush"), "{outcome}");
    }
    assert_eq!(world.sql("SELECT visits, hidden FROM accounts WHERE id = 1"), "0|42");
    // A column that clients see is named.
    world.sql("ALTER TABLE accounts ALTER code SET NOT NULL");
    let why = refused(&store, &mint, "account:1", vec![Change::UnsetField(blob("code"))]);
    assert!(why.contains("null value in column \"code\" of relation"), "{why}");
}
