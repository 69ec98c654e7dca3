//! What keeps the versions of rows: it stays as it is, and where it does not, no commit rests on it.

use forebay::store::suite::block_on;
use forebay::store::{Commit, CommitOutcome, Store, Write};
use forebay::version::Mint;
use forebay::{Read, TxnId, Version};
use forebay_drivers::postgres::{OpenError, setup};
use forebay_drivers::{Mapping, Options, VersionMode};

use crate::mapping::{World, commit_of, get, key, set};
use crate::open;

const TABLE: &str = "\
CREATE TABLE notes (id integer PRIMARY KEY, n integer); INSERT INTO notes VALUES (1, 1), (2, 1), (3, 1);";

/// What of the triggers the column rests on, and what beside it.
const MODES: [(&str, &str); 2] = [("column", "forebay_version"), ("side", "forebay_change")];

fn world() -> World {
    World::new(TABLE, &["note:{id} -> notes(id)"])
}

fn mapped(world: &World, more: &str) -> Options {
    let mapping: Mapping = format!("note:{{id}} -> notes(id){more}").parse().expect("a mapping");
    Options { mappings: vec![mapping], ..world.options.clone() }
}

/// `store init` with a mapping that says `more`, and without a mode on the command line.
fn init(world: &World, more: &str) -> Result<(), OpenError> {
    world.runtime.block_on(setup::init(&mapped(world, more), VersionMode::Column))
}

/// What `store check` says: of the mapping, of what is doubtful, of what is wrong.
fn checked(world: &World, more: &str) -> [String; 3] {
    let checked = world.runtime.block_on(setup::check(&mapped(world, more))).expect("it can be looked at");
    let of = |lines: Vec<String>| {
        let lines: Vec<String> = lines.into_iter().filter(|line| line.contains("notes")).collect();
        lines.join("\n")
    };
    [of(checked.notes), of(checked.warnings), of(checked.problems)]
}

fn columns(world: &World) -> String {
    world
        .sql("SELECT count(*) FROM pg_attribute WHERE attrelid = 'notes'::regclass AND attnum > 0 AND NOT attisdropped")
}

/// As an earlier forebay did when it was asked for another mode than the one that it found.
fn change_mode(world: &World, mode: &str) {
    drop_triggers(world);
    init(world, &format!(" version({mode})")).expect("it has none");
}

fn drop_triggers(world: &World) {
    for name in ["forebay_version", "forebay_change", "forebay_truncate"] {
        world.sql(&format!("DROP TRIGGER IF EXISTS {name} ON notes"));
    }
}

/// A second run changes no mode, whatever is the default; another one is refused by name.
#[test]
fn init_keeps_the_mode_that_it_finds() {
    for (mode, other) in [("side", "column"), ("column", "side")] {
        let world = world();
        init(&world, &format!(" version({mode})")).expect("it has none");
        let (before, version) = (columns(&world), format!("version({mode})"));
        let store = open(&world.runtime, mapped(&world, "")).expect("it opens");
        let read = get(&store, "note:1").version;
        for more in ["", &format!(" {version}")] {
            init(&world, more).expect("it is what is there");
            assert_eq!((columns(&world), get(&store, "note:1").version), (before.clone(), read), "{mode}, '{more}'");
            assert!(checked(&world, "")[0].contains(&version), "{mode}, '{more}'");
        }
        for wanted in [other, "none"] {
            let refused = init(&world, &format!(" version({wanted})")).expect_err("another mode").to_string();
            let parts = [format!("by `{mode}`"), "CACHE STATE".into(), "DROP TRIGGER forebay_change ON".into()];
            parts.iter().for_each(|part| assert!(refused.contains(part), "{mode}, {wanted}: {refused}"));
            assert!(checked(&world, "")[0].contains(&version), "{mode}, {wanted}");
        }
    }
    let world = world();
    init(&world, "").expect("it has none");
    assert!(checked(&world, "")[0].contains("version(column)"), "the default");
}

/// What is not the mapping's is said, and so are triggers that do nothing.
#[test]
fn triggers_that_keep_no_versions_are_said() {
    for (mode, rests_on) in MODES {
        let world = world();
        init(&world, &format!(" version({mode})")).expect("it has none");
        let other = if mode == "side" { "column" } else { "side" };
        let (said, wanted) = (format!("say version({mode})"), format!(" version({other})"));
        assert!(checked(&world, &wanted)[2].contains(&said), "{mode}: {:?}", checked(&world, &wanted));
        assert!(open(&world.runtime, mapped(&world, &wanted)).is_err(), "{mode}");
        let wanted = format!(" version({mode})");
        for trigger in ["USER", rests_on, "forebay_change"] {
            let named = if trigger == "USER" { rests_on } else { trigger };
            world.sql(&format!("ALTER TABLE notes DISABLE TRIGGER {trigger}"));
            let [notes, warnings, problems] = checked(&world, "");
            assert!(notes.contains("version(none)") && problems.is_empty(), "{mode}, {trigger}: {notes} {problems}");
            assert!(warnings.contains("triggers disabled (") && warnings.contains(named), "{mode}: {warnings}");
            assert!(checked(&world, &wanted)[2].contains("triggers disabled ("), "{mode}, {trigger}");
            init(&world, "").expect("they are made again");
            let [notes, warnings, problems] = checked(&world, "");
            assert!(notes.contains(&wanted) && [warnings, problems].concat().is_empty(), "{mode}, {trigger}: {notes}");
        }
        world.sql(&format!("DROP TRIGGER {rests_on} ON notes"));
        let left = checked(&world, "")[1].clone();
        assert!(left.contains("only some of forebay's triggers"), "{mode}: {left}");
        assert!(!checked(&world, &wanted)[2].is_empty(), "{mode}: {rests_on} is gone");
    }
}

/// DDL under which our trigger fails, and with it every program that writes.
#[test]
fn triggers_that_fail_are_said() {
    let alterations = [
        ("column", "RENAME COLUMN id TO number", "id"),
        ("side", "RENAME COLUMN id TO number", "id"),
        ("column", "DROP COLUMN forebay_version", "forebay_version"),
    ];
    for (mode, alter, column) in alterations {
        let world = world();
        init(&world, &format!(" version({mode})")).expect("it has none");
        world.sql(&format!("ALTER TABLE notes {alter}"));
        let write = "DO $$ BEGIN UPDATE notes SET n = 2; RAISE 'well'; EXCEPTION WHEN undefined_column THEN END $$";
        world.sql(write);
        let key = if column == "id" { "number" } else { "id" };
        let mapping: Mapping = format!("note:{{{key}}} -> notes({key})").parse().expect("a mapping");
        let options = Options { mappings: vec![mapping], ..world.options.clone() };
        let problems =
            || world.runtime.block_on(setup::check(&options)).expect("it can be looked at").problems.join("");
        let said = problems();
        assert!(said.contains(&format!("reads {column}, a column that is not there")), "{mode}, {alter}: {said}");
        world.runtime.block_on(setup::init(&options, VersionMode::Column)).expect("they are made again");
        assert!(!problems().contains("is not there"), "{mode}, {alter}: {}", problems());
        world.sql("UPDATE notes SET n = 2");
    }
}

/// What is done to what keeps versions.
type Harm = Box<dyn Fn(&World)>;

/// Commits of what was read, by how they check it.
type Ways = [(&'static str, fn(&Mint, &[Read]) -> Vec<Commit>); 4];

fn version(reads: &[Read], at: usize) -> (String, Version) {
    (format!("note:{}", at + 1), reads[at].version)
}

fn known(mint: &Mint, reads: &[Read], at: usize) -> Commit {
    let (name, version) = version(reads, at);
    let after = reads[at].value.clone();
    let changes = vec![set("n", "0")].into();
    let write = Write { key: key(&name), changes, after, unseen: false, told: false };
    Commit { checks: vec![(key(&name), version)], ..Commit::new(TxnId(mint.next()), mint.next(), vec![write]) }
}

/// The ways in which a commit may check what was read: by a statement for one row, by one for many, in a batch, and of
/// rows that it does not write.
const WAYS: Ways = [
    ("one", |mint, reads| vec![known(mint, reads, 0)]),
    ("many", |mint, reads| (0..3).map(|at| known(mint, reads, at)).collect()),
    ("batch", |mint, reads| {
        let [(one, first), (two, second)] = [version(reads, 0), version(reads, 1)];
        let checks = [(one.as_str(), first), (two.as_str(), second)];
        vec![commit_of(mint, &[(&one, vec![set("n", "0")])], &checks)]
    }),
    ("beside", |mint, reads| {
        let (one, first) = version(reads, 0);
        vec![commit_of(mint, &[("note:9", vec![set("n", "0")])], &[(&one, first)])]
    }),
];

/// While forebay serves, what keeps versions goes: no update of others is lost, and it is said why. When it is made
/// again, what was read before is overtaken.
#[test]
fn no_commit_rests_on_versions_that_are_kept_no_more() {
    for (mode, rests_on) in MODES {
        let other = if mode == "side" { "column" } else { "side" };
        let harms: [(&str, Harm); 4] = [
            ("disabled", Box::new(|world| drop(world.sql("ALTER TABLE notes DISABLE TRIGGER USER")))),
            ("gone", Box::new(move |world| drop(world.sql(&format!("DROP TRIGGER {rests_on} ON notes"))))),
            ("all gone", Box::new(drop_triggers)),
            ("of another mode", Box::new(move |world| change_mode(world, other))),
        ];
        for (harm, done) in &harms {
            let world = world();
            init(&world, &format!(" version({mode})")).expect("it has none");
            let store = open(&world.runtime, mapped(&world, "")).expect("it opens");
            let mint = Mint::new(store.incarnation());
            let read = || ["note:1", "note:2", "note:3"].map(|name| get(&store, name));
            for (way, commits) in WAYS {
                let told = format!("{mode}, {harm}, {way}");
                let before = read();
                done(&world);
                world.sql("UPDATE notes SET n = 101");
                match block_on(store.commit(&commits(&mint, &before))).remove(0) {
                    CommitOutcome::Refused(why) => {
                        assert!(why.contains("of public.notes are not kept"), "{told}: {why}");
                    }
                    other => panic!("{told}: {other:?}"),
                }
                assert!(store.is_altered(), "{told}: the tables are looked up again");
                let answer = block_on(store.check(&[(key("note:1"), before[0].version)]));
                let refused = answer.as_ref().is_err_and(|why| why.to_string().contains("are not kept"));
                assert!(refused, "{told}: {answer:?}");
                // Made again, versions that were not kept for a while are those of no row.
                if *harm == "of another mode" {
                    drop_triggers(&world);
                }
                init(&world, &format!(" version({mode})")).expect("it is made again");
                match block_on(store.commit(&commits(&mint, &before))).remove(0) {
                    CommitOutcome::Conflict(keys) => assert!(!keys.is_empty(), "{told}"),
                    other => panic!("{told}: {other:?}"),
                }
                assert_eq!(world.sql("SELECT string_agg(DISTINCT n::text, ',') FROM notes"), "101", "{told}");
                for outcome in block_on(store.commit(&commits(&mint, &read()))) {
                    assert!(matches!(outcome, CommitOutcome::Committed(_)), "{told}: {outcome:?}");
                }
            }
        }
    }
}

/// What waited in a journal when the mode was changed between two starts: its versions are of another kind, those of
/// rows that were never written since `store init` included.
#[test]
fn what_was_read_in_another_mode_is_overtaken() {
    for (mode, other) in [("side", "column"), ("column", "side"), ("side", "side"), ("column", "column")] {
        // As an earlier forebay left it: rows that were there before have no version of a number.
        for earlier in [false, true] {
            let world = world();
            init(&world, &format!(" version({mode})")).expect("it has none");
            if earlier && mode == "side" {
                world.sql("TRUNCATE forebay.row_versions");
            }
            if earlier && mode == "column" {
                world.sql("ALTER TABLE notes DISABLE TRIGGER USER");
                world.sql("UPDATE notes SET forebay_version = 0");
                world.sql("ALTER TABLE notes ENABLE TRIGGER USER");
            }
            let store = open(&world.runtime, mapped(&world, "")).expect("it opens");
            let read = get(&store, "note:1");
            drop(store);
            drop_triggers(&world);
            world.sql("UPDATE notes SET n = 101");
            init(&world, &format!(" version({other})")).expect("it has none");
            let store = open(&world.runtime, mapped(&world, "")).expect("it opens");
            let commit = known(&Mint::new(store.incarnation()), &[read], 0);
            let outcome = block_on(store.commit(&[commit])).remove(0);
            assert!(matches!(outcome, CommitOutcome::Conflict(_)), "{mode}, {other}, {earlier}: {outcome:?}");
            assert_eq!(world.sql("SELECT n FROM notes WHERE id = 1"), "101", "{mode}, {other}, {earlier}");
        }
    }
}
