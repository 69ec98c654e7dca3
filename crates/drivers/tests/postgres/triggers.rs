//! The triggers that `forebay store init` makes, and whether they are the right ones.

use forebay::store::suite::block_on;
use forebay::store::{Outside, Store};
use forebay_drivers::postgres::{OpenError, PostgresOptions, setup};

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
fn checked(world: &World, options: &PostgresOptions) -> Vec<String> {
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
    let init = || world.runtime.block_on(setup::init(&options)).expect("it is prepared");
    let problems = || checked(&world, &world.options);
    let functions = || world.sql("SELECT count(*) FROM pg_proc WHERE proname LIKE 'changed %'");
    init();
    assert_eq!((problems(), functions().as_str()), (Vec::new(), "2"));
    // As an older forebay left it: the cut name, and the text of the table that came last.
    world.sql(&format!(
        "CREATE FUNCTION forebay.\"changed public.{name}\"() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN INSERT INTO forebay.changes (tab) VALUES ('public.x'); RETURN NULL; END $$;
         DROP TRIGGER forebay_change ON {name};
         CREATE TRIGGER forebay_change AFTER INSERT OR UPDATE OR DELETE ON {name}
             FOR EACH ROW EXECUTE FUNCTION forebay.\"changed public.{name}\"();"
    ));
    let said = problems().join("\n");
    assert!(
        said.contains("trigger forebay_change of public.bbb") && said.contains("store init --version side"),
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
    world.runtime.block_on(setup::init(&options)).expect("it is prepared");
    assert_eq!((checked(&world, &options), functions().as_str()), (Vec::new(), "2"));
    options.mappings[1] = "o:{code} -> another(code) version(side)".parse().expect("a mapping");
    assert!(checked(&world, &options).join("").contains("by another key"));
    world.runtime.block_on(setup::init(&options)).expect("it is prepared");
    assert_eq!(checked(&world, &options), Vec::<String>::new());
}
