//! What `forebay store check` says of mappings that a forebay could serve.

use forebay::change::Change;
use forebay::store::suite::write;
use forebay::store::{Commit, Store};
use forebay::version::Mint;
use forebay::{Key, TxnId};
use forebay_drivers::postgres::{OpenError, setup};
use forebay_drivers::{Options, VersionMode};

use crate::mapping::{World, refused, set};
use crate::open;

/// What `forebay serve` starts with and somebody would rather know: keys of several mappings, rights that lack.
#[test]
fn what_is_doubtful_is_a_warning() {
    let tables = "CREATE TABLE users (id integer PRIMARY KEY, name text, n integer);
        CREATE TABLE members (org integer, id integer, n integer, PRIMARY KEY (org, id));
        CREATE ROLE reader LOGIN; GRANT SELECT ON users, members TO reader;
        GRANT INSERT (id, org), UPDATE (n), INSERT (n) ON members TO reader;
        CREATE ROLE half LOGIN; GRANT SELECT, INSERT (id, n), UPDATE (n) ON users TO half;";
    let world = World::new(tables, &[]);
    let checked = |maps: &[&str], role: &str| {
        let address = world.server.url(&world.database).replace("app@", &format!("{role}@"));
        let mappings = maps.iter().map(|map| map.parse().expect("a mapping")).collect();
        let address = address.parse().expect("a URL");
        let options = Options { mappings, address, ..world.options.clone() };
        world.runtime.block_on(setup::check(&options)).expect("it can be looked at")
    };
    world
        .server
        .sql(&world.database, "CREATE ROLE quiet LOGIN; ALTER ROLE quiet SET default_transaction_read_only = on");
    let quiet = checked(&[], "quiet").problems;
    assert_eq!(
        quiet.iter().filter(|line| line.contains("default_transaction_read_only is on")).count(),
        1,
        "{quiet:?}"
    );
    let (users, members) = ("t:{id} -> users(id)", "t:{org}:{id} -> members(org, id)");
    let well = checked(&[users, "m:{org}:{id} -> members(org, id)"], "app");
    assert_eq!(well.warnings, Vec::<String>::new());
    let hidden = checked(&[users, members], "app").warnings.join("\n");
    assert!(hidden.contains("no key is ever read by --map 't:{org}:{id}"), "{hidden}");
    let meeting = checked(&[members, users], "app").warnings.join("\n");
    assert!(meeting.contains("are read by the first"), "{meeting}");
    let same = [users, "t:{org} -> members(id)"];
    assert!(checked(&same, "app").problems.iter().any(|line| line.contains("has the same keys")));
    let mappings = same.iter().map(|map| map.parse().expect("a mapping")).collect();
    let opened = open(&world.runtime, Options { mappings, ..world.options.clone() });
    let Some(OpenError::Mapping(lines)) = opened.err() else { panic!("it does not open") };
    assert!(lines.iter().any(|line| line.contains("has the same keys")), "{lines:?}");
    for (map, role, grant) in [
        ("t:{id} -> users(id) delete=row", "reader", "GRANT INSERT, UPDATE, DELETE ON public.users TO \"reader\""),
        (
            "t:{id} -> users(id) delete=row",
            "half",
            "GRANT INSERT (\"name\"), UPDATE (\"name\"), DELETE ON public.users TO \"half\"",
        ),
        ("m:{org}:{id} -> members(org, id) delete=row", "reader", "GRANT DELETE ON public.members TO \"reader\""),
    ] {
        let checked = checked(&[map], role);
        assert!(checked.warnings.iter().any(|line| line.contains(grant)), "{role}: {checked:?}");
        let all = map.contains("users") && role == "reader";
        assert_eq!(checked.notes.iter().any(|line| line.contains("read-only: all")), all, "{checked:?}");
    }
    world.sql("ALTER ROLE half CONNECTION LIMIT 8");
    let few = checked(&[users], "half").warnings.join("\n");
    assert!(few.contains("its role's CONNECTION LIMIT lets in 8") && few.contains("--store-writers"), "{few}");
    // At use the reason stands there.
    let address = world.server.url(&world.database).replace("app@", "half@").parse().expect("a URL");
    let mappings = vec![users.parse().expect("a mapping")];
    let options = Options { mappings, address, ..world.options.clone() };
    world.sql(&world.runtime.block_on(setup::script(&options, VersionMode::None)).expect("it can be looked at"));
    let store = open(&world.runtime, options).expect("it opens");
    let mint = Mint::new(store.incarnation());
    let why = refused(&store, &mint, "t:1", vec![set("name", "x")]);
    assert!(why.contains("it needs UPDATE and INSERT"), "{why}");
    // While the database is away nobody is told that it is done.
    let delete = vec![write(&Key::new(0, b"t:1"), None, vec![Change::Delete])];
    let delete = Commit::new(TxnId(mint.next()), mint.next(), delete);
    assert!(store.refuses(&delete).is_some_and(|why| why.contains("it needs DELETE")));
}
