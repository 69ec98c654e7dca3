//! Documents beside the rows of mapped tables: both in one transaction, each where it lies.

use forebay::change::{Change, apply_all};
use forebay::store::suite::block_on;
use forebay::store::{Commit, CommitOutcome, Resolved, Store, Write, ended};
use forebay::version::Mint;
use forebay::{Key, Read, Value, Version};
use forebay_drivers::postgres::Postgres;

use crate::groups::{committed, outcomes};
use crate::mapping::{USERS, World, add, commit_of, field, get, key, set};

fn world() -> (World, Postgres, Mint) {
    world_of(&["session:* -> documents", "text:{id} -> documents"])
}

fn world_of(keys: &[&str]) -> (World, Postgres, Mint) {
    let mut world = World::new(USERS, &["user:{id} -> users(id) delete=row"]);
    world.options.keys = keys.iter().map(|keys| keys.parse().expect("keys")).collect();
    let (store, mint) = world.open();
    (world, store, mint)
}

fn put(text: &str) -> Vec<Change> {
    vec![Change::Put(Value::bytes(text.as_bytes().to_vec()))]
}

fn text(read: &Read) -> Option<Value> {
    read.value.clone()
}

/// `commit` as an engine computes it: each write with what its changes make of what was read.
fn computed(store: &Postgres, commit: Commit) -> Commit {
    let write = |write: Write| {
        let mut after = block_on(store.get(std::slice::from_ref(&write.key))).expect("it can be read").remove(0).value;
        apply_all(&mut after, &write.changes).expect("they fit");
        Write { after, ..write }
    };
    Commit { writes: commit.writes.into_iter().map(write).collect(), ..commit }
}

fn told(outcome: &CommitOutcome) -> Vec<(Key, Read)> {
    let CommitOutcome::Committed(changed) = outcome else { panic!("{outcome:?}") };
    let mut changed = changed.clone();
    changed.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    changed
}

/// What the store says of these keys.
fn reads(store: &Postgres, names: &[&str]) -> Vec<(Key, Read)> {
    names.iter().map(|name| (key(name), get(store, name))).collect()
}

#[test]
fn rows_and_documents_are_one_transaction() {
    let (world, store, mint) = world();
    assert!(!store.caps().owned && store.has_documents());
    assert!(store.owns(&key("session:1")) && store.owns(&Key::new(3, b"user:1")));
    assert!(!store.owns(&key("user:1")) && !store.owns(&key("user:abc")) && !store.owns(&key("other")));
    let both = commit_of(
        &mint,
        &[
            ("user:1", vec![add("visits", 1)]),
            ("session:1", put("a")),
            ("text:n", put("1")),
            ("user:2", vec![set("name", "B")]),
        ],
        &[],
    );
    let both = computed(&store, both);
    let outcome = outcomes(&store, std::slice::from_ref(&both));
    assert_eq!(told(&outcome[0]), reads(&store, &["session:1", "text:n", "user:1", "user:2"]));
    assert_eq!(get(&store, "session:1").version, both.version);
    let xmins = "SELECT count(DISTINCT x) FROM (SELECT xmin::text AS x FROM users UNION ALL SELECT xmin::text FROM \
        forebay.documents UNION ALL SELECT xmin::text FROM forebay.applied) AS all_of_them";
    assert_eq!(world.sql(xmins), "1");
    // The same again is applied once, and told as what it is.
    let again = outcomes(&store, std::slice::from_ref(&both));
    let CommitOutcome::Repeated(since) = &again[0] else { panic!("{again:?}") };
    assert!(since.len() == 4 && since.iter().all(|since| since.untouched), "{since:?}");
    for since in since {
        assert_eq!(since.read, get(&store, &String::from_utf8_lossy(since.key.name())), "{since:?}");
    }
    let later = commit_of(&mint, &[("session:1", put("b"))], &[]);
    assert!(committed(&outcomes(&store, &[computed(&store, later)])[0]));
    world.sql("UPDATE users SET visits = 50 WHERE id = 2");
    let again = outcomes(&store, std::slice::from_ref(&both));
    let CommitOutcome::Repeated(since) = &again[0] else { panic!("{again:?}") };
    let untouched: Vec<&Key> = since.iter().filter(|since| since.untouched).map(|since| &since.key).collect();
    assert_eq!(untouched, [&key("user:1"), &key("text:n")]);
    assert_eq!(block_on(store.outcome(both.id)), Ok(Resolved::Applied));
}

/// A commit whose answer was lost is told as repeated, although it has overtaken its own checks.
#[test]
fn what_is_repeated_is_not_overtaken_by_itself() {
    let (_world, store, mint) = world();
    let large = "x".repeat(300_000);
    for (n, value) in ["small", &large].into_iter().enumerate() {
        let (absent, present) = (format!("session:a{n}"), format!("session:p{n}"));
        assert!(committed(&outcomes(&store, &[commit_of(&mint, &[(&present, put("0"))], &[])])[0]));
        let versions = [&absent, &present].map(|name| (name.as_str(), get(&store, name).version));
        let in_chunks = [("document", vec![]), ("row", vec![("user:1", vec![add("visits", 1)])])];
        for (what, more) in in_chunks {
            let writes = [vec![(absent.as_str(), put(value)), (&present, put(value))], more].concat();
            let checks = [&absent, &present].map(|name| (name.as_str(), get(&store, name).version));
            let commit = computed(&store, commit_of(&mint, &writes, &checks));
            assert!(committed(&outcomes(&store, std::slice::from_ref(&commit))[0]), "{what}");
            for behind in [false, true] {
                let mut group = vec![commit.clone()];
                group.extend(behind.then(|| commit_of(&mint, &[("text:z", put("z"))], &[])));
                let again = outcomes(&store, &group);
                assert!(matches!(&again[0], CommitOutcome::Repeated(_)), "{what}, {} bytes: {again:?}", value.len());
                assert!(again[1..].iter().all(committed), "{again:?}");
            }
        }
        let overtaken = commit_of(&mint, &[("text:y", put("y"))], &versions);
        let said = outcomes(&store, &[overtaken]);
        assert_eq!(said, [CommitOutcome::Conflict(versions.map(|(name, _)| key(name)).to_vec())]);
    }
}

#[test]
fn what_is_refused_of_one_leaves_the_other() {
    let (world, store, mint) = world();
    assert!(committed(&outcomes(&store, &[commit_of(&mint, &[("session:1", put("a"))], &[])])[0]));
    let (ada, session, absent) = (get(&store, "user:1"), get(&store, "session:1"), get(&store, "text:2"));
    let writes = [("user:1", vec![add("visits", 1)]), ("session:1", put("b")), ("text:2", put("c"))];
    let unchanged = |what: &str| {
        assert_eq!(
            reads(&store, &["session:1", "text:2"]),
            [(key("session:1"), session.clone()), (key("text:2"), absent.clone())],
            "{what}"
        );
        assert_eq!(field(&get(&store, "user:1"), "visits").as_deref(), Some("7"), "{what}");
    };
    let ever = Version { incarnation: 1, sequence: 1 << 40 };
    for (checks, conflicts) in [
        (vec![("session:1", session.version), ("user:1", ever)], vec!["user:1"]),
        (vec![("user:1", ada.version), ("text:2", absent.version), ("session:1", ever)], vec!["session:1"]),
        (vec![("user:1", ada.version), ("text:2", ever)], vec!["text:2"]),
    ] {
        // Alone, and behind another that goes first.
        for before in [0, 2] {
            let first = |at: usize| {
                commit_of(
                    &mint,
                    &[(["text:x", "user:2"][at], if at == 0 { put("x") } else { vec![set("code", "x")] })],
                    &[],
                )
            };
            let mut group: Vec<Commit> = (0..before).map(first).collect();
            group.push(commit_of(&mint, &writes, &checks));
            let outcome = outcomes(&store, &group);
            assert!(outcome[..before].iter().all(committed), "{outcome:?}");
            let keys: Vec<Key> = conflicts.iter().map(|name| key(name)).collect();
            assert_eq!(outcome[before], CommitOutcome::Conflict(keys), "{checks:?}");
            unchanged("a conflict");
        }
    }
    let refused = commit_of(&mint, &[("session:1", put("b")), ("user:1", vec![add("visits", -100)])], &[]);
    assert!(matches!(outcomes(&store, &[refused])[0], CommitOutcome::Refused(_)));
    unchanged("a constraint");
    let unfit = vec![Change::AddInteger { field: None, delta: 1 }];
    let refused = commit_of(&mint, &[("session:1", unfit), ("user:1", vec![add("visits", 1)])], &[]);
    assert!(matches!(outcomes(&store, &[refused])[0], CommitOutcome::Refused(_)));
    unchanged("a document that is no number");
    let checks = [("user:1", ada.version), ("session:1", session.version), ("text:2", absent.version)];
    assert!(committed(&outcomes(&store, &[computed(&store, commit_of(&mint, &writes, &checks))])[0]));
    assert_eq!(field(&get(&store, "user:1"), "visits").as_deref(), Some("8"));
    assert_eq!(
        block_on(store.check(&checks.map(|(name, version)| (key(name), version)))).map(|keys| keys.len()),
        Ok(3)
    );
    assert_eq!(world.sql("SELECT count(*) FROM forebay.documents"), "3");
}

/// A group with commits of all kinds, some of one key, is one transaction, and each is told what it wrote.
#[test]
fn a_group_of_both_is_one_transaction() {
    let (world, store, mint) = world();
    let count = |name: &str| (name.to_owned(), vec![Change::AddInteger { field: None, delta: 1 }]);
    let mut group = Vec::new();
    for at in 0..60_u64 {
        let row = (format!("user:{}", 1 + at % 2), vec![add("visits", 1)]);
        let document = count(&format!("text:{}", at % 3));
        let writes = match at % 3 {
            0 => vec![row],
            1 => vec![document],
            _ => vec![row, document],
        };
        let writes: Vec<(&str, Vec<Change>)> =
            writes.iter().map(|(name, changes)| (name.as_str(), changes.clone())).collect();
        group.push(commit_of(&mint, &writes, &[]));
    }
    for _ in 0..2 {
        let outcomes = outcomes(&store, &group);
        for (commit, outcome) in group.iter().zip(&outcomes) {
            let (CommitOutcome::Committed(_) | CommitOutcome::Repeated(_)) = outcome else { panic!("{outcome:?}") };
            if let CommitOutcome::Committed(changed) = outcome {
                assert_eq!(changed.len(), commit.writes.len(), "all are told");
                for (key, read) in changed {
                    assert_eq!(*read, get(&store, &String::from_utf8_lossy(key.name())));
                }
            }
        }
    }
    assert_eq!(world.sql("SELECT count(DISTINCT xmin::text) FROM forebay.applied"), "1");
    assert_eq!(text(&get(&store, "text:1")), Some(Value::bytes(*b"20")));
    assert_eq!(text(&get(&store, "text:2")), Some(Value::bytes(*b"20")));
    assert_eq!(world.sql("SELECT sum(visits) FROM users"), "54");
}

#[test]
fn large_documents_go_with_rows() {
    let (world, store, mint) = world();
    let long = |bytes: usize| "x".repeat(bytes);
    for bytes in [1 << 10, 300 << 10, 3 << 20] {
        let commit = commit_of(&mint, &[("session:1", put(&long(bytes))), ("user:1", vec![add("visits", 1)])], &[]);
        let outcome = outcomes(&store, &[computed(&store, commit)]);
        assert_eq!(told(&outcome[0]).len(), 2, "{bytes}");
        let append = vec![Change::Append("y".to_owned().into_bytes().into())];
        let name = long(bytes.min(1 << 20));
        let commit = commit_of(&mint, &[("session:1", append), ("user:1", vec![set("name", &name)])], &[]);
        assert_eq!(told(&outcomes(&store, &[computed(&store, commit)])[0]).len(), 2, "{bytes}");
        assert_eq!(text(&get(&store, "session:1")), Some(Value::bytes((long(bytes) + "y").into_bytes())));
        assert_eq!(world.sql("SELECT length(name) FROM users WHERE id = 1"), name.len().to_string());
        let refused = commit_of(&mint, &[("session:1", put(&long(bytes))), ("user:1", vec![add("visits", -100)])], &[]);
        assert!(matches!(outcomes(&store, &[refused])[0], CommitOutcome::Refused(_)));
        assert_eq!(text(&get(&store, "session:1")), Some(Value::bytes((long(bytes) + "y").into_bytes())));
    }
    let asked = [key("user:2"), key("session:1"), key("user:1"), key("text:1")];
    for within in [1, 1000, 2 << 20, 8 << 20] {
        let found = block_on(store.get_within(&asked, within)).expect("they can be read");
        let bytes = |read: &Read| read.value.as_ref().map_or(0, Value::size);
        let sizes: Vec<usize> =
            asked.iter().map(|key| bytes(&block_on(store.get(std::slice::from_ref(key))).expect("read")[0])).collect();
        let mut sum = 0;
        let expected = sizes
            .iter()
            .take_while(|size| {
                let goes_on = sum <= within;
                sum += **size;
                goes_on
            })
            .count();
        assert_eq!(found.len(), expected.max(1), "{within}");
    }
    let ids = vec![mint_id(&mint)];
    let reads =
        block_on(store.get_with_ids(&asked.clone().map(|key| (key, ids.clone())))).expect("read").expect("told");
    let whole = block_on(store.get(&asked)).expect("they can be read");
    assert_eq!(reads.into_iter().map(|(read, _)| read).collect::<Vec<_>>(), whole);
}

fn mint_id(mint: &Mint) -> forebay::TxnId {
    forebay::TxnId(mint.next())
}

/// What lies in the table and nothing names is neither shown nor removed.
#[test]
fn only_what_is_named_is_listed_counted_and_cleared() {
    let (mut world, store, mint) = world_of(&["* -> documents"]);
    let expiring =
        |text: &str| vec![Change::Put(Value { expires_at_ms: Some(5), ..Value::bytes(text.as_bytes().to_vec()) })];
    let mut writes: Vec<(String, Vec<Change>)> = (0..5).map(|at| (format!("session:{at}"), put("s"))).collect();
    writes.push(("old_x".into(), expiring("o")));
    writes.push(("session:old".into(), expiring("o")));
    let writes: Vec<(&str, Vec<Change>)> =
        writes.iter().map(|(name, changes)| (name.as_str(), changes.clone())).collect();
    let mut commit = commit_of(&mint, &writes, &[]);
    commit.writes.push(Write { key: Key::new(2, b"user:1"), ..commit.writes[0].clone() });
    assert!(committed(&outcomes(&store, &[commit])[0]));
    world.sql("INSERT INTO forebay.documents SELECT 0, 'user:7', version, 5, value FROM forebay.documents LIMIT 1");
    let names = |store: &Postgres, limit: usize| {
        let (mut names, mut after) = (Vec::new(), None::<Key>);
        loop {
            let page = block_on(store.scan(0, after.as_ref(), limit)).expect("a page");
            assert!(page.len() <= limit, "{page:?}");
            names.extend(page.iter().map(|key| String::from_utf8_lossy(key.name()).into_owned()));
            after = page.last().cloned();
            if ended(&page, limit) {
                return names;
            }
        }
    };
    let sessions = ["session:0", "session:1", "session:2", "session:3", "session:4", "session:old"];
    let all = [&["user:1", "user:2", "old_x"][..], &sessions].concat();
    for limit in [1, 2, 3, 100] {
        assert_eq!(names(&store, limit), all, "{limit}");
    }
    let expired = |store: &Postgres| block_on(store.expired(10, 10)).expect("told");
    assert_eq!(expired(&store), [key("old_x"), key("session:old")]);
    drop(store);
    world.options.keys = vec!["session:* -> documents".parse().expect("keys")];
    let (store, mint) = world.open();
    assert_eq!(names(&store, 2), [&["user:1", "user:2"][..], &sessions].concat());
    assert_eq!((block_on(store.count(0)), block_on(store.count(2))), (Ok(8), Ok(1)));
    assert_eq!(expired(&store), [key("session:old")]);
    assert_eq!(block_on(store.scan(2, None, 10)), Ok(vec![Key::new(2, b"user:1")]));
    block_on(store.clear(&[0], mint.next())).expect("it is cleared");
    assert_eq!(names(&store, 2), ["user:1", "user:2"]);
    assert_eq!(
        world.sql("SELECT convert_from(name, 'UTF8') FROM forebay.documents ORDER BY 1"),
        "old_x\nuser:1\nuser:7"
    );
    block_on(store.clear(&[1, 2], mint.next())).expect("it is cleared");
    assert_eq!((block_on(store.count(0)), block_on(store.count(2))), (Ok(2), Ok(0)));
}

/// What was read as absent may be checked by a later process, as an outage's journal has it.
#[test]
fn an_absence_outlives_its_process() {
    let (world, store, mint) = world();
    let (absent, there) = (get(&store, "text:1"), commit_of(&mint, &[("text:2", put("a"))], &[]));
    assert!(committed(&outcomes(&store, std::slice::from_ref(&there))[0]));
    let present = get(&store, "text:2");
    drop(store);
    let (store, mint) = world.open();
    assert_eq!(store.as_read_now(&key("text:2"), present.version), present.version);
    assert_eq!(get(&store, "text:2"), present);
    let row = store.as_read_now(&key("user:1"), Version { incarnation: 1, sequence: 8 });
    assert_eq!(row, Version { incarnation: store.incarnation(), sequence: 8 });
    let checks = [("text:1", absent.version), ("text:2", present.version)];
    let writes = [("text:1", put("b")), ("user:1", vec![add("visits", 1)])];
    let commits = [commit_of(&mint, &writes, &checks), commit_of(&mint, &writes, &checks)];
    let outcome = outcomes(&store, &commits[..1]);
    assert!(committed(&outcome[0]), "{outcome:?}");
    assert_eq!(outcomes(&store, &commits[1..]), [CommitOutcome::Conflict(vec![key("text:1")])]);
}

#[test]
fn what_neither_names_is_refused_with_the_line_to_add() {
    let (_world, store, mint) = world();
    for (name, part) in [
        (
            "cart:1:x",
            "no mapping names cart:1:x; there is user:{id}; if it is no row, add --keys 'cart:* -> documents'",
        ),
        ("user:abc", "user:abc names no row"),
    ] {
        let error = block_on(store.get(&[key("session:1"), key(name)])).expect_err("no such key").to_string();
        assert!(error.contains(part), "{error}");
        let commit = commit_of(&mint, &[("session:1", put("a")), (name, put("b"))], &[]);
        let why = store.refuses(&commit).expect("it is refused");
        assert!(why.contains(part), "{why}");
        match outcomes(&store, &[commit]).remove(0) {
            CommitOutcome::Refused(why) => assert!(why.contains(part), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(get(&store, "session:1").value, None);
    assert_eq!(
        store.refuses(&commit_of(&mint, &[("session:1", put("a")), ("user:1", vec![set("name", "x")])], &[])),
        None
    );
}
