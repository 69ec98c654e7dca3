//! The cases with a fixed course.

use super::{Bench, block_on, insist, write};
use crate::change::{Change, End};
use crate::key::{KEY_BYTES_MAX, Key};
use crate::store::{Commit, CommitOutcome, GivenId, NAMES_BYTES_MAX, Read, Resolved, Write, ended};
use crate::value::{Blob, Data, Hash, List, Set, Value};
use crate::version::{TxnId, Version};

/// A case, by name.
type Case = (&'static str, fn(&mut Bench));

/// Every case.
pub(super) const CASES: &[Case] = &[
    ("an empty store", empty),
    ("what was put is got", put_and_get),
    ("versions rise, also of absence", versions_rise),
    ("a repeated commit is not applied again", repeated),
    ("a failed check applies nothing of its commit nor what is behind it", checks),
    ("a group is applied in order", groups_in_order),
    ("scan, count and clear", scan_count_clear),
    ("answers end where names are long", long_names),
    ("expired documents are found, earliest first", expired),
    ("large documents of every type", large_documents),
    ("a read ends within its bytes, and goes on", portions),
    ("ids from clients", ids_from_clients),
    ("a list serves as a queue", queue),
    ("documents change type and size", type_and_size),
    ("an id reported as not applied stays so", not_applied),
    ("a read tells which commits it has in it", reads_with_ids),
    ("what was committed is there after reopening", reopened),
];

fn key(name: &str) -> Key {
    Key::new(0, name.as_bytes())
}

fn blob(text: &str) -> Blob {
    Blob::from(text.as_bytes())
}

fn text(text: &str) -> Value {
    Value::bytes(blob(text))
}

fn put(key: &Key, value: Value) -> Write {
    write(key, None, vec![Change::Put(value)])
}

fn delete(key: &Key) -> Write {
    write(key, None, vec![Change::Delete])
}

fn empty(bench: &mut Bench) {
    let absent = bench.get_one(&key("a"));
    assert_eq!(absent.value, None);
    assert!(absent.version < bench.mint.next(), "a minted version must be above that of an untouched key");
    assert_eq!(bench.scan(0, None, 10), []);
    assert_eq!(bench.count(0), 0);
    assert_eq!(bench.expired(u64::MAX, 10), []);
    assert_eq!(bench.get(&[]), []);
    assert_eq!(bench.outcomes(&[]), []);
    assert!(super::block_on(bench.store().flush()).is_ok());
    assert!(!bench.store().name().is_empty());
}

fn put_and_get(bench: &mut Bench) {
    let other_space = Key::new(3, b"a");
    let long = Key::new(0, &[7; 3_000]);
    let version = bench.commit(vec![
        put(&key("a"), text("one")),
        put(&other_space, text("two")),
        put(&key(""), text("")),
        put(&long, text("long")),
    ]);
    let reads = bench.get(&[other_space, key("b"), key("a"), key(""), key("a"), long]);
    let values = reads.iter().map(|read| read.value.clone()).collect::<Vec<_>>();
    let expected = [Some("two"), None, Some("one"), Some(""), Some("one"), Some("long")];
    assert_eq!(values, expected.map(|value| value.map(text)));
    for read in reads.iter().filter(|read| read.value.is_some()) {
        assert_eq!(read.version, version);
    }
}

fn versions_rise(bench: &mut Bench) {
    let key = key("a");
    let mut last = bench.get_one(&key).version;
    for round in 0..6 {
        let change = if round % 3 == 2 { delete(&key) } else { put(&key, text("x")) };
        let version = bench.commit(vec![change]);
        let read = bench.get_one(&key);
        assert_eq!(read.version, version, "round {round}");
        assert!(read.version > last, "round {round}");
        last = read.version;
    }
    let before = bench.get_one(&key).version;
    let cleared = bench.clear(&[0]);
    let after = bench.get_one(&key).version;
    assert!(before < after && after >= cleared && after < bench.mint.next());
}

fn repeated(bench: &mut Bench) {
    let first = bench.commit_of(vec![put(&key("a"), text("1"))]);
    let second = bench.commit_of(vec![put(&key("a"), text("2"))]);
    let committed = CommitOutcome::Committed(Vec::new());
    assert_eq!(bench.outcomes(&[first.clone(), second.clone()]), [committed.clone(), committed.clone()]);
    let third = bench.commit_of(vec![put(&key("b"), text("3"))]);
    let outcomes = bench.outcomes(&[first.clone(), third.clone(), third.clone()]);
    assert_eq!(outcomes, [committed.clone(), committed.clone(), committed.clone()]);
    let (fourth, fifth) = (bench.commit_of(vec![put(&key("c"), text("4"))]), bench.commit_of(vec![delete(&key("c"))]));
    bench.outcomes(&[fourth.clone(), fifth, fourth]);
    assert_eq!(bench.get_one(&key("c")).value, None, "a repetition within the group undoes nothing");
    let expected = Read { value: Some(text("2")), version: second.version };
    assert_eq!(bench.get_one(&key("a")), expected);
    assert_eq!(bench.count(0), 2);
    assert_eq!(bench.outcome(first.id), Resolved::Applied);
    if bench.reopen() {
        assert_eq!(bench.outcomes(std::slice::from_ref(&first)), [committed]);
        assert_eq!(bench.get_one(&key("a")), expected);
        assert_eq!(bench.outcome(third.id), Resolved::Applied);
    }
}

fn checks(bench: &mut Bench) {
    let version = bench.commit(vec![put(&key("a"), text("1"))]);
    let absence = bench.get_one(&key("b")).version;
    let mut good = bench.commit_of(vec![put(&key("b"), text("2"))]);
    good.checks = vec![(key("a"), version), (key("b"), absence)];
    let good_version = good.version;
    let mut stale = bench.commit_of(vec![put(&key("c"), text("3")), delete(&key("a"))]);
    stale.checks = vec![(key("a"), version), (key("b"), absence)];
    let behind = bench.commit_of(vec![put(&key("d"), text("4"))]);
    let outcomes = bench.outcomes(&[good, stale, behind]);
    assert_eq!(outcomes[0], CommitOutcome::Committed(Vec::new()));
    assert_eq!(outcomes[1], CommitOutcome::Conflict(vec![key("b")]));
    if bench.store().caps().ordered {
        assert!(matches!(outcomes[2], CommitOutcome::Unavailable(_)), "{:?}", outcomes[2]);
        assert_eq!(bench.get_one(&key("d")).value, None);
    }
    assert_eq!(bench.get_one(&key("a")), Read { value: Some(text("1")), version });
    assert_eq!(bench.get_one(&key("b")), Read { value: Some(text("2")), version: good_version });
    assert_eq!(bench.get_one(&key("c")).value, None);
    let mut gone = bench.commit_of(vec![delete(&key("b"))]);
    gone.checks = vec![(key("b"), good_version)];
    let mut after = bench.commit_of(vec![put(&key("b"), text("5"))]);
    after.checks = vec![(key("b"), gone.version)];
    assert!(bench.outcomes(&[gone, after]).iter().all(|outcome| *outcome == CommitOutcome::Committed(Vec::new())));
}

fn groups_in_order(bench: &mut Bench) {
    let mut value = None;
    let mut group = Vec::new();
    for round in 0..200 {
        let write = write(&key("list"), value.as_ref(), vec![Change::Push(End::Right, blob(&round.to_string()))]);
        value = write.after.clone();
        group.push(bench.commit_of(vec![write, put(&key(&format!("k{round}")), text("x"))]));
    }
    let outcomes = bench.outcomes(&group);
    assert!(outcomes.iter().all(|outcome| *outcome == CommitOutcome::Committed(Vec::new())));
    let read = bench.get_one(&key("list"));
    assert_eq!(read, Read { value, version: group[199].version });
    assert_eq!(bench.get_one(&key("k17")).version, group[17].version);
    assert_eq!(bench.count(0), 201);
}

fn scan_count_clear(bench: &mut Bench) {
    let names = (0..100u8).map(|at| vec![at % 7, at]).collect::<Vec<_>>();
    for space in [0, 1, 15] {
        let writes = names.iter().map(|name| put(&Key::new(space, name), text("x"))).collect();
        bench.commit(writes);
    }
    let mut sorted = names.clone();
    sorted.sort();
    let mut found = Vec::<Key>::new();
    loop {
        let page = bench.scan(1, found.last(), 9);
        found.extend(page.iter().cloned());
        if page.len() < 9 {
            break;
        }
    }
    assert_eq!(found, sorted.iter().map(|name| Key::new(1, name)).collect::<Vec<_>>());
    assert_eq!(bench.scan(2, None, 9), []);
    bench.commit(vec![delete(&Key::new(1, &names[0])), delete(&Key::new(1, b"never there"))]);
    bench.commit(vec![put(&Key::new(1, &names[1]), text("again"))]);
    let counts = |bench: &Bench| [0, 1, 2, 15].map(|space| bench.count(space));
    assert_eq!(counts(bench), [100, 99, 0, 100]);
    bench.clear(&[1, 2]);
    bench.clear(&[1]);
    assert_eq!(counts(bench), [100, 0, 0, 100]);
    assert_eq!(bench.scan(1, None, 9), []);
    assert_eq!(bench.get_one(&Key::new(1, &names[1])).value, None);
    assert_eq!(bench.get_one(&Key::new(0, &names[1])).value, Some(text("x")));
    if bench.reopen() {
        assert_eq!(counts(bench), [100, 0, 0, 100]);
    }
    bench.clear(&std::array::from_fn::<u8, 16, _>(|space| space as u8));
    assert_eq!(counts(bench), [0; 4]);
}

/// Names of 64 KiB: an answer has few of them, and asking on finds all.
fn long_names(bench: &mut Bench) {
    let name = |at: u8| Key::new(3, &[at; KEY_BYTES_MAX]);
    let until = |at| Value { expires_at_ms: Some(at), ..text("x") };
    for at in 0..40 {
        bench.commit(vec![put(&name(at), until(u64::from(at) + 1))]);
    }
    bench.commit(vec![put(&Key::new(4, b"early"), until(2)), put(&Key::new(4, b"late"), until(100))]);
    let most = NAMES_BYTES_MAX / KEY_BYTES_MAX;
    let mut found = Vec::<Key>::new();
    loop {
        let page = bench.scan(3, found.last(), 1000);
        assert!(page.len() <= most, "{} names of 64 KiB", page.len());
        found.extend(page.iter().cloned());
        if ended(&page, 1000) {
            break;
        }
        assert_eq!(page.len(), most);
    }
    assert_eq!(found, (0..40).map(name).collect::<Vec<_>>());
    let due = bench.expired(1000, 1000);
    let mut earliest: Vec<Key> = (0..40).map(name).collect();
    earliest.insert(2, Key::new(4, b"early"));
    assert!(due.len() <= most + 1 && !ended(&due, 1000), "{} names", due.len());
    // Two of one moment stand in any order.
    let sorted = |keys: &[Key]| std::collections::BTreeSet::from_iter(keys.iter().cloned());
    assert_eq!(sorted(&due), sorted(&earliest[..due.len()]));
    bench.clear(&[3, 4]);
}

fn expired(bench: &mut Bench) {
    let until = |at| Value { expires_at_ms: Some(at), ..text("x") };
    bench.commit(vec![
        put(&key("late"), until(300)),
        put(&Key::new(5, b"early"), until(100)),
        put(&key("middle"), until(200)),
        put(&key("never"), text("x")),
    ]);
    let (early, middle, late) = (Key::new(5, b"early"), key("middle"), key("late"));
    assert_eq!(bench.expired(99, 10), []);
    assert_eq!(bench.expired(100, 10), std::slice::from_ref(&early));
    assert_eq!(bench.expired(1000, 2), [early.clone(), middle.clone()]);
    let value = bench.get_one(&early).value;
    assert_eq!(value, Some(until(100)), "an expired document is still reported");
    bench.commit(vec![
        write(&early, value.as_ref(), vec![Change::Persist]),
        write(&middle, Some(&until(200)), vec![Change::ExpireAt(400)]),
    ]);
    bench.commit(vec![delete(&late)]);
    assert_eq!(bench.expired(u64::MAX, 10), std::slice::from_ref(&middle));
    assert_eq!(bench.get_one(&middle).value, Some(until(400)));
    assert_eq!(bench.get_one(&early).value, Some(text("x")));
    bench.clear(&[0]);
    assert_eq!(bench.expired(u64::MAX, 10), []);
}

fn hash_of(fields: usize) -> Value {
    let mut hash = Hash::default();
    for field in 0..fields {
        hash.insert(blob(&format!("field {field}")), blob(&format!("value {field}")));
    }
    Value { data: Data::Hash(hash), expires_at_ms: None }
}

fn list_of(elements: usize) -> Value {
    let mut list = List::default();
    (0..elements).for_each(|element| list.push_right(blob(&format!("element {element}"))));
    Value { data: Data::List(list), expires_at_ms: None }
}

fn set_of(members: usize) -> Value {
    let mut set = Set::default();
    for member in 0..members {
        set.insert(blob(&format!("member {member}")));
    }
    Value { data: Data::Set(set), expires_at_ms: None }
}

/// Takes the document at `key` through `changes`, and looks whether it is there as it should be.
fn change(bench: &mut Bench, key: &Key, value: &mut Option<Value>, changes: Vec<Change>) -> Version {
    let write = write(key, value.as_ref(), changes);
    *value = write.after.clone();
    let version = bench.commit(vec![write]);
    assert_eq!(bench.get_one(key), Read { value: value.clone(), version });
    version
}

fn ids_from_clients(bench: &mut Bench) {
    let id = |id: u128| GivenId { user: blob("ann"), id };
    let of = |bench: &Bench, given: Vec<GivenId>, name: &str| Commit {
        given,
        ..bench.commit_of(vec![put(&key(name), Value::bytes(*b"x"))])
    };
    let group = [of(bench, vec![id(7)], "a"), of(bench, Vec::new(), "b"), of(bench, vec![id(8), id(u128::MAX)], "c")];
    let outcomes = bench.outcomes(&group);
    assert!(outcomes.iter().all(|outcome| *outcome == CommitOutcome::Committed(Vec::new())), "{outcomes:?}");
    // One that is refused leaves no id.
    let denied = of(bench, vec![id(9)], "d");
    assert_eq!(bench.outcome(denied.id), Resolved::NotApplied);
    assert!(matches!(bench.outcomes(&[denied])[..], [CommitOutcome::Refused(_)]));
    let mut expected = vec![(id(7), group[0].version), (id(8), group[2].version), (id(u128::MAX), group[2].version)];
    expected.sort_unstable();
    let all = |bench: &Bench| {
        let mut all = bench.given();
        all.sort_unstable();
        all
    };
    assert_eq!(all(bench), expected);
    // That id again, and after the store was opened again.
    let again = of(bench, vec![id(7)], "a");
    assert_eq!(bench.outcomes(std::slice::from_ref(&again)), [CommitOutcome::Committed(Vec::new())]);
    let last = |bench: &Bench| bench.given().into_iter().rfind(|(given, _)| *given == id(7));
    assert_eq!(last(bench), Some((id(7), again.version)));
    if bench.reopen() {
        assert_eq!(last(bench), Some((id(7), again.version)));
    }
}

fn large_documents(bench: &mut Bench) {
    let (hash, list, set, bytes) = (key("hash"), key("list"), key("set"), key("bytes"));
    let mut values = [hash_of(3_000), list_of(3_000), set_of(3_000), Value::bytes(vec![b'x'; 100_000])].map(Some);
    let [hash_value, list_value, set_value, bytes_value] = &mut values;
    for (key, value) in [(&hash, &hash_value), (&list, &list_value), (&set, &set_value), (&bytes, &bytes_value)] {
        bench.commit(vec![Write {
            key: key.clone(),
            changes: vec![Change::Put(whole(value))].into(),
            after: (*value).clone(),
            unseen: false,
            told: false,
        }]);
    }
    let field = blob("field 17");
    change(bench, &hash, hash_value, vec![Change::SetField(field.clone(), blob("new")), Change::UnsetField(blob("x"))]);
    change(bench, &hash, hash_value, vec![Change::UnsetField(blob("field 18")), Change::ExpireAt(77)]);
    let count = Change::AddInteger { field: Some(blob("count")), delta: 5 };
    change(bench, &hash, hash_value, vec![count.clone(), count, Change::UnsetField(field)]);
    let ends = [End::Left, End::Right];
    for end in ends {
        change(bench, &list, list_value, vec![Change::Push(end, blob("new")), Change::Push(end, blob("newer"))]);
        change(bench, &list, list_value, vec![Change::Pop(end), Change::Push(end, blob("newest")), Change::Persist]);
    }
    change(bench, &list, list_value, vec![Change::Pop(End::Left), Change::Pop(End::Right), Change::Pop(End::Left)]);
    change(bench, &list, list_value, vec![Change::RemoveEqual { count: 0, element: blob("element 1500") }]);
    change(bench, &set, set_value, vec![Change::AddMember(blob("new")), Change::RemoveMember(blob("member 9"))]);
    change(bench, &bytes, bytes_value, vec![Change::Append(blob(&"y".repeat(20_000)))]);
    change(bench, &bytes, bytes_value, vec![Change::WriteAt { offset: 30_000, bytes: blob(&"z".repeat(9_000)) }]);
    change(bench, &bytes, bytes_value, vec![Change::WriteAt { offset: 150_000, bytes: blob("beyond the end") }]);
    let keys = [hash, list, set, bytes];
    if bench.reopen() {
        let found = bench.get(&keys).into_iter().map(|read| read.value).collect::<Vec<_>>();
        assert_eq!(found, values);
    }
    bench.commit(keys.iter().map(delete).collect());
    assert!(bench.get(&keys).iter().all(|read| read.value.is_none()));
    assert_eq!(bench.count(0), 0);
}

/// Documents of all sizes, absent ones among them, under bounds of all sizes.
fn portions(bench: &mut Bench) {
    let mut random = 17_u64;
    let mut drawn = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let keys: Vec<Key> = (0..40).map(|n| key(&format!("p{n:02}"))).collect();
    for key in keys.iter().filter(|key| !key.name().ends_with(b"3")) {
        let letters = drawn(4);
        let value = text(&"x".repeat(10_usize.pow(letters as u32) * (1 + drawn(9) as usize)));
        bench.commit(vec![put(key, value)]);
    }
    let whole = bench.get(&keys);
    let size = |read: &Read| read.value.as_ref().map_or(0, Value::size);
    for _ in 0..30 {
        let bytes_max = drawn(60_000) as usize >> drawn(16);
        let mut reads: Vec<Read> = Vec::new();
        while reads.len() < keys.len() {
            let left = &keys[reads.len()..];
            let portion = insist(|| block_on(bench.store().get_within(left, bytes_max)));
            assert!((1..=left.len()).contains(&portion.len()), "{} of {}", portion.len(), left.len());
            let before: usize = portion[..portion.len() - 1].iter().map(size).sum();
            assert!(before <= bytes_max, "it went on behind {before} bytes of {bytes_max}");
            reads.extend(portion);
        }
        let values = |reads: &[Read]| reads.iter().map(|read| read.value.clone()).collect::<Vec<_>>();
        assert_eq!(values(&reads), values(&whole));
    }
    assert_eq!(block_on(bench.store().get_within(&[], 0)).map(|reads| reads.len()).unwrap_or_default(), 0);
}

fn whole(value: &Option<Value>) -> Value {
    value.clone().expect("the document is there")
}

fn queue(bench: &mut Bench) {
    let key = key("queue");
    let mut value = Some(list_of(2_000));
    bench.commit(vec![put(&key, whole(&value))]);
    for round in 0..300 {
        let mut changes = vec![Change::Push(End::Right, blob(&format!("late {round}")))];
        changes.extend((0..8).map(|_| Change::Pop(End::Left)));
        let write = write(&key, value.as_ref(), changes);
        value = write.after.clone();
        bench.commit(vec![write]);
    }
    // Seven fewer each round, down to nothing in between, and on with what was pushed last.
    assert_eq!(bench.get_one(&key).value, value);
}

fn type_and_size(bench: &mut Bench) {
    let key = key("a");
    let mut value = None;
    for next in [hash_of(500), hash_of(2), list_of(500), set_of(500), text("x"), Value::bytes(vec![1; 50_000])] {
        change(bench, &key, &mut value, vec![Change::Put(next)]);
        change(bench, &key, &mut value, vec![Change::ExpireAt(9)]);
    }
    change(bench, &key, &mut value, vec![Change::Delete]);
    for member in 0..400 {
        change(bench, &key, &mut value, vec![Change::AddMember(blob(&format!("member {member}")))]);
    }
    for member in 0..400 {
        change(bench, &key, &mut value, vec![Change::RemoveMember(blob(&format!("member {member}")))]);
    }
    assert_eq!(value, None);
    assert_eq!(bench.count(0), 0);
}

fn not_applied(bench: &mut Bench) {
    let commit = bench.commit_of(vec![put(&key("a"), text("late"))]);
    assert_eq!(bench.outcome(commit.id), Resolved::NotApplied);
    assert_eq!(bench.outcome(commit.id), Resolved::NotApplied);
    let outcomes = bench.outcomes(&[commit]);
    assert!(matches!(outcomes[..], [CommitOutcome::Refused(_)]), "{outcomes:?}");
    assert_eq!(bench.get_one(&key("a")).value, None);
    assert_eq!(bench.outcome(TxnId(bench.mint.next())), Resolved::NotApplied);
}

fn reopened(bench: &mut Bench) {
    let version = bench.commit(vec![put(&key("a"), text("1")), put(&Key::new(9, b"b"), hash_of(900))]);
    let gone = bench.commit(vec![put(&key("gone"), text("1"))]);
    let gone = gone.max(bench.commit(vec![delete(&key("gone"))]));
    for _ in 0..3 {
        if !bench.reopen() {
            return;
        }
        assert_eq!(bench.get_one(&key("a")), Read { value: Some(text("1")), version });
        assert_eq!(bench.get_one(&Key::new(9, b"b")).value, Some(hash_of(900)));
        let absent = bench.get_one(&key("gone"));
        assert!(absent.value.is_none() && absent.version > gone && absent.version < bench.mint.next());
        assert_eq!((bench.count(0), bench.count(9)), (1, 1));
    }
}

fn reads_with_ids(bench: &mut Bench) {
    let (first, second) = (bench.commit_of(vec![put(&key("a"), text("1"))]), bench.commit_of(vec![delete(&key("b"))]));
    let (denied, unheard) = (TxnId(bench.mint.next()), TxnId(bench.mint.next()));
    bench.outcomes(&[first.clone(), second.clone()]);
    assert_eq!(bench.outcome(denied), Resolved::NotApplied);
    let ids = vec![unheard, second.id, denied, first.id];
    let asked = [(key("a"), ids.clone()), (key("b"), ids), (key("a"), Vec::new())];
    // Not every store can tell.
    let Some(told) = insist(|| block_on(bench.store().get_with_ids(&asked))) else { return };
    for ((key, ids), (read, mut applied)) in asked.iter().zip(told) {
        applied.sort_unstable();
        let known = if ids.is_empty() { Vec::new() } else { vec![first.id, second.id] };
        assert_eq!((read, applied), (bench.get_one(key), known), "{key}");
    }
}
