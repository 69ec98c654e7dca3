//! The triggers that `forebay store init` makes, and whether they are the right ones.

use forebay::store::suite::block_on;
use forebay::store::{Outside, Store};
use forebay_drivers::postgres::{OpenError, setup};
use forebay_drivers::{Options, VersionMode};

use crate::mapping::{World, field, get, key, until_told};
use crate::open;

/// PostgreSQL keeps 63 bytes of a name: functions of tables whose long names begin alike are two all the same.
#[test]
fn long_names_that_begin_alike_have_a_function_each() {
    let (one, two) = (format!("{}1", "a".repeat(60)), format!("{}2", "a".repeat(60)));
    let (wide, wider) = (format!("\"{}x\"", "\u{e4}".repeat(30)), format!("\"{}y\"", "\u{e4}".repeat(30)));
    let tables = [&one, &two, &wide, &wider];
    let create: Vec<String> = (tables.iter())
        .map(|name| {
            format!("CREATE TABLE {name} (id integer PRIMARY KEY, n integer); INSERT INTO {name} VALUES (1, 1);")
        })
        .collect();
    for mode in ["column", "side"] {
        let maps: Vec<String> = (tables.iter().enumerate())
            .map(|(at, name)| format!("t{at}:{{id}} -> {name}(id) version({mode})"))
            .collect();
        let world = World::new(&create.concat(), &maps.iter().map(String::as_str).collect::<Vec<_>>());
        let (store, _) = world.open();
        assert_eq!(block_on(store.outside()), Some(Outside::Everything));
        for (at, name) in tables.iter().enumerate() {
            let document = format!("t{at}:1");
            let before = get(&store, &document);
            world.sql(&format!("UPDATE {name} SET n = 2"));
            assert_eq!(until_told(&store, &document), [key(&document)], "{mode}");
            let after = get(&store, &document);
            assert_eq!(field(&after, "n").as_deref(), Some("2"));
            assert!(after.version > before.version, "{mode}: what was read before would pass a check");
        }
    }
}

/// What stands in the way, as far as it is about mappings.
fn checked(world: &World, options: &Options) -> Vec<String> {
    let checked = world.runtime.block_on(setup::check(options)).expect("it can be looked at");
    checked.problems.into_iter().filter(|line| line.contains("--map")).collect()
}

/// A trigger that notes another table's changes is a problem, and its fix mends it and leaves nothing behind.
#[test]
fn a_trigger_of_another_table_is_found_and_mended() {
    let name = "b".repeat(60);
    let tables = format!(
        "CREATE TABLE {name} (id integer PRIMARY KEY, code integer NOT NULL UNIQUE);
         CREATE TABLE other (id integer PRIMARY KEY, code integer NOT NULL UNIQUE);"
    );
    let world = World::new(&tables, &[&format!("b:{{id}} -> {name}(id)"), "o:{id} -> other(id)"]);
    let mut options = world.options.clone();
    options.mappings = options
        .mappings
        .iter()
        .map(|map| map.clone().with_version(Some("side".parse().expect("a mode")), Default::default()))
        .collect();
    let init = || world.runtime.block_on(setup::init(&options, VersionMode::None)).expect("it is prepared");
    let problems = || checked(&world, &world.options);
    let functions = || world.sql("SELECT count(*) FROM pg_proc WHERE proname LIKE 'changed %'");
    init();
    assert_eq!((problems(), functions().as_str()), (Vec::new(), "2"));
    // As an older forebay left it: the cut name, and the text of the table that came last.
    world.sql(&format!(
        "CREATE FUNCTION forebay.\"changed public.{name}\"() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             INSERT INTO forebay.changes (tab) VALUES ('public.x');
             INSERT INTO forebay.row_versions (tab, key, version) VALUES ('public.x', ARRAY[NEW.id::text], 1);
             RETURN NULL;
         END $$;
         DROP TRIGGER forebay_change ON {name};
         CREATE TRIGGER forebay_change AFTER INSERT OR UPDATE OR DELETE ON {name}
             FOR EACH ROW EXECUTE FUNCTION forebay.\"changed public.{name}\"();"
    ));
    let said = problems().join("\n");
    assert!(
        said.contains("trigger forebay_change of public.bbb") && said.contains("run `forebay store init` again"),
        "{said}"
    );
    assert!(
        matches!(open(&world.runtime, world.options.clone()), Err(OpenError::Mapping(_))),
        "what is not seen is lost"
    );
    init();
    assert_eq!((problems(), functions().as_str()), (Vec::new(), "2"));
    // Another name, then another key.
    world.sql("ALTER TABLE other RENAME TO another");
    options.mappings[1] = "o:{id} -> another(id) version(side)".parse().expect("a mapping");
    assert!(checked(&world, &options).join("").contains("forebay_change of public.another"));
    world.runtime.block_on(setup::init(&options, VersionMode::None)).expect("it is prepared");
    assert_eq!((checked(&world, &options), functions().as_str()), (Vec::new(), "2"));
    options.mappings[1] = "o:{code} -> another(code) version(side)".parse().expect("a mapping");
    assert!(checked(&world, &options).join("").contains("by another key"));
    world.runtime.block_on(setup::init(&options, VersionMode::None)).expect("it is prepared");
    assert_eq!(checked(&world, &options), Vec::<String>::new());
}

/// A trigger's function has the rights of its owner and sets no `search_path`, which would cost each writer as much as
/// the note: whatever a writer has put before PostgreSQL's own operators, types and functions is not called.
#[test]
fn what_a_writer_puts_before_the_servers_own_names_is_not_called() {
    for mode in ["column", "side"] {
        let table = "CREATE TABLE notes (id integer PRIMARY KEY, n integer); INSERT INTO notes VALUES (1, 1), (2, 1);";
        let world = World::new(table, &[&format!("note:{{id}} -> notes(id) version({mode})")]);
        let (store, _) = world.open();
        assert_eq!(block_on(store.outside()), Some(Outside::Everything));
        let evil = |name: &str, arguments: &str, returns: &str| {
            format!(
                "CREATE FUNCTION evil.{name}({arguments}) RETURNS {returns} LANGUAGE plpgsql AS
                 $$ BEGIN RAISE EXCEPTION 'evil {name} as %', current_user; END $$;"
            )
        };
        let operator = |sign: &str, types: &str, name: &str| {
            format!(
                "{} CREATE OPERATOR evil.{sign} (LEFTARG = {types}, RIGHTARG = {types}, FUNCTION = evil.{name});",
                evil(name, &format!("{types}, {types}"), "boolean")
            )
        };
        world.sql(
            &[
                "CREATE SCHEMA evil; CREATE DOMAIN evil.text AS pg_catalog.text CHECK (length(value) > 1000);"
                    .to_owned(),
                operator("=", "pg_catalog.text", "same_text"),
                operator("<>", "pg_catalog.text", "other_text"),
                operator("=", "pg_catalog.text[]", "same_texts"),
                operator("<>", "pg_catalog.text[]", "other_texts"),
                operator("=", "integer", "same_integer"),
                evil("nextval", "regclass", "bigint"),
                evil("pg_trigger_depth", "", "integer"),
                evil("current_setting", "pg_catalog.text, boolean", "pg_catalog.text"),
            ]
            .concat(),
        );
        let before = get(&store, "note:2");
        // What the writer's own statements say is its own matter.
        let writes = [
            "UPDATE notes SET n = 2",
            "UPDATE notes SET id = 3 WHERE id OPERATOR(pg_catalog.<) 2",
            "INSERT INTO notes VALUES (4, 4)",
            "DELETE FROM notes WHERE n > 3",
        ];
        for write in writes {
            world.sql(&format!("SET search_path = evil, public, pg_catalog; {write}"));
        }
        let all = ["note:1", "note:2", "note:3", "note:4"].map(key);
        let mut told = Vec::new();
        while !all.iter().all(|key| told.contains(key)) {
            match block_on(store.outside()) {
                Some(Outside::Keys(keys)) => told.extend(keys),
                other => panic!("{other:?}"),
            }
        }
        assert!(get(&store, "note:2").version > before.version, "{mode}");
        world.sql("SET search_path = evil, public, pg_catalog; TRUNCATE notes");
        assert_eq!(block_on(store.outside()), Some(Outside::Everything), "{mode}");
    }
}

/// Each statement of others' pays for a condition that is read anew, and for a setting that is set.
#[test]
fn others_pay_for_no_condition_and_no_setting() {
    for mode in ["column", "side"] {
        let table = "CREATE TABLE notes (id integer PRIMARY KEY, n integer);";
        let world = World::new(table, &[&format!("note:{{id}} -> notes(id) version({mode})")]);
        world.runtime.block_on(setup::init(&world.options, VersionMode::None)).expect("it is prepared");
        let costly = "SELECT count(*) FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid WHERE tgrelid =
            'notes'::regclass AND (tgqual IS NOT NULL OR proconfig IS NOT NULL)";
        assert_eq!(world.sql(costly), "0", "{mode}");
    }
}

/// The triggers that an older forebay made do as they did until `store init` is run again.
#[test]
fn triggers_of_an_older_forebay_are_as_good() {
    let table = "CREATE TABLE notes (id integer PRIMARY KEY, n integer); INSERT INTO notes VALUES (1, 1);";
    let world = World::new(table, &["note:{id} -> notes(id) version(column)"]);
    world.runtime.block_on(setup::init(&world.options, VersionMode::None)).expect("it is prepared");
    world.sql(
        "CREATE OR REPLACE FUNCTION forebay.\"changed public.notes\"() RETURNS trigger LANGUAGE plpgsql
             SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $forebay$
         BEGIN
             IF TG_OP = 'TRUNCATE' THEN
                 INSERT INTO forebay.changes (tab) VALUES ('public.notes');
             ELSIF TG_OP = 'INSERT' THEN
                 INSERT INTO forebay.changes (tab, new_key) VALUES ('public.notes', ARRAY[NEW.\"id\"::text]);
             ELSIF TG_OP = 'DELETE' THEN
                 INSERT INTO forebay.changes (tab, old_key) VALUES ('public.notes', ARRAY[OLD.\"id\"::text]);
             ELSE
                 INSERT INTO forebay.changes (tab, old_key, new_key)
                     VALUES ('public.notes', ARRAY[OLD.\"id\"::text], ARRAY[NEW.\"id\"::text]);
             END IF;
             RETURN NULL;
         END $forebay$",
    );
    assert_eq!(checked(&world, &world.options), Vec::<String>::new());
    let store = open(&world.runtime, world.options.clone()).expect("it opens");
    assert_eq!(block_on(store.outside()), Some(Outside::Everything));
    world.sql("UPDATE notes SET n = 2");
    assert_eq!(until_told(&store, "note:1"), [key("note:1")]);
}
