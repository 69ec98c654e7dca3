//! Merging never alters the result, near the size limit neither; and it does merge what it should.

mod naive;

use std::sync::LazyLock;

use forebay::change::{ApplyError, Change, End, apply, apply_all, compact, compact_fields, join_unseen, merge};
use forebay::value::{Blob, DOCUMENT_BYTES_MAX, Data, Value, blob_bytes};
use proptest::prelude::*;
use proptest::sample::select;

fn blob(text: &str) -> Blob {
    Blob::from(text.as_bytes())
}

fn check_equal(start: &Option<Value>, apart: &[Change], merged: &[Change]) -> Result<(), TestCaseError> {
    let (mut left, mut right) = (start.clone(), start.clone());
    let left_result = apply_all(&mut left, apart);
    let right_result = apply_all(&mut right, merged);
    prop_assert_eq!(left_result.is_ok(), right_result.is_ok(), "{:?} {:?}", left_result, right_result);
    let too_large = Err(ApplyError::TooLarge);
    if left_result != too_large && right_result != too_large {
        prop_assert_eq!(left_result, right_result);
    }
    // Compared without printing: documents near the limit are long.
    prop_assert!(left == right);
    Ok(())
}

fn check_merge(start: &Option<Value>, first: Change, second: Change) -> Result<(), TestCaseError> {
    let mut merged = first.clone();
    match merge(&mut merged, second.clone()) {
        None => check_equal(start, &[first, second], &[merged]),
        Some(next) => {
            prop_assert!(next == second && merged == first, "what is not merged stays as it is");
            Ok(())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6000))]

    #[test]
    fn merging_two_alters_nothing(start in naive::document(), first in naive::change(), second in naive::change()) {
        check_merge(&start, first, second)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn merging_two_of_a_family_alters_nothing(start in naive::document(), changes in naive::changes(2..3)) {
        if let [first, second, ..] = &changes[..] {
            check_merge(&start, first.clone(), second.clone())?;
        }
    }

    #[test]
    fn merging_twins_alters_nothing((start, first, second) in twins()) {
        check_merge(&start, first, second)?;
    }

    #[test]
    fn compacting_a_run_alters_nothing(start in naive::document(), changes in naive::changes(1..16)) {
        let compacted = compact(changes.clone());
        prop_assert!(compacted.len() <= changes.len());
        check_equal(&start, &changes, &compacted)?;
    }

    #[test]
    fn compacting_fields_alters_nothing(start in naive::document(), changes in naive::changes(1..16)) {
        let (mut left, mut right) = (start.clone(), start);
        let (apart, merged) = (apply_all(&mut left, &changes), apply_all(&mut right, &compact_fields(changes)));
        prop_assert_eq!(apart.is_ok(), merged.is_ok(), "{:?} {:?}", apart, merged);
        prop_assert!(apart.is_err() || left == right, "{:?} {:?}", left, right);
    }

    #[test]
    fn joining_what_nobody_saw_alters_nothing_but_for_a_second(
        start in naive::document(),
        old in naive::changes(1..12),
        new in naive::changes(1..12),
        moments in (1..4u64, 1..4u64),
        expires in prop::option::of(1..4u64),
    ) {
        let start = start.map(|value| Value { expires_at_ms: expires.map(|second| second * 1000 - 500), ..value });
        let unseen = |second, changes| [vec![Change::RemoveExpired(second * 1000)], changes].concat();
        let (old, new) = (unseen(moments.0, old), unseen(moments.0.max(moments.1), new));
        let (mut left, mut right) = (start.clone(), start);
        let apart = apply_all(&mut left, &[old.clone(), new.clone()].concat());
        let joined = apply_all(&mut right, &compact_fields(join_unseen(old, new)));
        prop_assert!(apart.is_err() || joined.is_ok(), "{:?} {:?}", apart, joined);
        prop_assert!(apart.is_err() || left == right, "{:?} {:?}", left, right);
    }

    #[test]
    fn merging_alters_nothing_near_the_limit(
        start in near_the_limit(),
        first in growing_change(),
        second in growing_change(),
    ) {
        check_merge(&start, first.clone(), second.clone())?;
        check_equal(&start, &[first.clone(), second.clone()], &compact(vec![first, second]))?;
    }
}

/// A document and two changes of one operation to one part of it: where order, sign and overlap matter.
fn twins() -> impl Strategy<Value = (Option<Value>, Change, Change)> {
    let number =
        || prop_oneof![-3..=3i64, (-3..=3i64).prop_map(|n| i64::MAX - 3 + n), (0..=6i64).prop_map(|n| i64::MIN + n)];
    let integers = (number(), number(), number(), any::<bool>()).prop_map(|(start, a, b, of_field)| {
        let text = blob(&start.to_string());
        let fields = [(blob("f"), text.clone())];
        let data = if of_field { Data::Hash(fields.into_iter().collect()) } else { Data::Bytes(text.into()) };
        let field = of_field.then_some("f");
        (Some(Value { data, expires_at_ms: None }), add(field, a), add(field, b))
    });
    let element = || select(vec!["a", "b"]).prop_map(blob);
    let removals = (prop::collection::vec(element(), 1..12), -4..=4i64, -4..=4i64).prop_map(|(list, a, b)| {
        let remove = |count| Change::RemoveEqual { count, element: blob("a") };
        let data = Data::List(list.into_iter().collect());
        (Some(Value { data, expires_at_ms: None }), remove(a), remove(b))
    });
    let write = || (0..10usize, "[a-z]{0,5}").prop_map(|(offset, text)| write(offset, &text));
    let writes =
        ("[A-Z]{0,12}", write(), write()).prop_map(|(start, a, b)| (Some(Value::bytes(start.as_bytes())), a, b));
    prop_oneof![integers, removals, writes]
}

/// Byte strings whose allocations are 2^n * 7 / 4 bytes, longest first.
static FILLERS: LazyLock<Vec<Blob>> =
    LazyLock::new(|| (6..24).rev().map(|power| std::iter::repeat_n(b'x', (7 << (power - 2)) - 16).collect()).collect());

/// Documents with some hundred bytes to go, or fewer.
fn near_the_limit() -> impl Strategy<Value = Option<Value>> {
    let kinds = [0u8, 1, 2];
    (select(kinds.to_vec()), 0..300usize, prop::collection::vec(naive::text(), 1..3)).prop_map(|(kind, room, named)| {
        let mut fields: Vec<(Blob, Blob)> = named.into_iter().map(|text| (text.clone(), text)).collect();
        let build = |fields: &[(Blob, Blob)]| {
            let fields = fields.iter().cloned();
            Value {
                data: match kind {
                    0 => Data::Hash(fields.collect()),
                    1 => Data::List(fields.map(|(_, value)| value).collect()),
                    _ => Data::Set(fields.map(|(_, value)| value).collect()),
                },
                expires_at_ms: Some(1),
            }
        };
        for (index, filler) in FILLERS.iter().enumerate() {
            let slack = 256 + room;
            while kind < 2 || !fields.iter().any(|(_, value)| value == filler) {
                let size = build(&fields).size();
                if size + blob_bytes(filler.len()) + slack > DOCUMENT_BYTES_MAX {
                    break;
                }
                fields.push((blob(&format!("filler {index} {}", fields.len())), filler.clone()));
            }
        }
        Some(build(&fields))
    })
}

fn growing_change() -> impl Strategy<Value = Change> {
    let text = || {
        let long = (0..600usize).prop_map(|len| blob(&"y".repeat(len)));
        prop_oneof![naive::text(), long]
    };
    let name = || select(vec!["a", "b", "5", "-1"]).prop_map(blob);
    let delta = || select(vec![1i64, -1, 1_000_000, -1_000_000, 1 << 61, -(1 << 61)]);
    prop_oneof![
        4 => (name(), text()).prop_map(|(field, value)| Change::SetField(field, value)),
        2 => (name(), delta()).prop_map(|(field, delta)| Change::AddInteger { field: Some(field), delta }),
        1 => name().prop_map(Change::UnsetField),
        2 => text().prop_map(|element| Change::Push(End::Left, element)),
        1 => Just(Change::Pop(End::Left)),
        2 => text().prop_map(Change::AddMember),
        1 => name().prop_map(Change::RemoveMember),
        1 => Just(Change::Persist),
    ]
}

#[test]
fn near_the_limit_is_near() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut refused = 0;
    for _ in 0..200 {
        let mut document = near_the_limit().new_tree(&mut runner).unwrap().current();
        let size = document.as_ref().unwrap().size();
        assert!(size <= DOCUMENT_BYTES_MAX && size + 2000 > DOCUMENT_BYTES_MAX, "{size}");
        let change = growing_change().new_tree(&mut runner).unwrap().current();
        refused += usize::from(apply(&mut document, &change) == Err(ApplyError::TooLarge));
    }
    assert!(refused > 5, "{refused}");
}

#[track_caller]
fn assert_merges(first: Change, second: Change, expected: Change) {
    assert_eq!(compact(vec![first, second]), vec![expected]);
}

fn add(field: Option<&str>, delta: i64) -> Change {
    Change::AddInteger { field: field.map(blob), delta }
}

fn write(offset: usize, text: &str) -> Change {
    Change::WriteAt { offset, bytes: blob(text) }
}

fn put(text: &str) -> Change {
    Change::Put(Value::bytes(text.as_bytes()))
}

#[test]
fn what_can_be_merged_is() {
    use Change::*;
    assert_merges(put("a"), Append(blob("b")), put("ab"));
    assert_merges(put("1"), add(None, -3), put("-2"));
    assert_merges(put("a"), Delete, Delete);
    assert_merges(put("a"), put("b"), put("b"));
    assert_merges(Delete, Append(blob("b")), put("b"));
    assert_merges(Delete, Pop(End::Left), Delete);
    assert_merges(Delete, ExpireAt(3), Delete);
    assert_merges(put("a"), ExpireAt(3), Put(Value { expires_at_ms: Some(3), ..Value::bytes(*b"a") }));
    assert_merges(ExpireAt(3), Persist, Persist);
    assert_merges(ExpireAt(3), Delete, Delete);
    assert_merges(RemoveExpired(3), Delete, Delete);
    assert_merges(RemoveExpired(3), RemoveExpired(5), RemoveExpired(5));
    assert_merges(Put(Value { expires_at_ms: Some(3), ..Value::bytes(*b"a") }), RemoveExpired(3), Delete);
    assert_merges(add(None, 2), add(None, 3), add(None, 5));
    assert_merges(add(Some("f"), -2), add(Some("f"), -3), add(Some("f"), -5));
    assert_merges(Append(blob("a")), Append(blob("b")), Append(blob("ab")));
    assert_merges(write(2, "abc"), write(4, "xy"), write(2, "abxy"));
    assert_merges(write(2, "abc"), write(0, "xy"), write(0, "xyabc"));
    assert_merges(write(2, "abc"), write(1, "12345"), write(1, "12345"));
    assert_merges(SetField(blob("f"), blob("a")), SetField(blob("f"), blob("b")), SetField(blob("f"), blob("b")));
    assert_merges(AddMember(blob("m")), AddMember(blob("m")), AddMember(blob("m")));
    let remove = |count| RemoveEqual { count, element: blob("e") };
    assert_merges(remove(2), remove(1), remove(3));
    assert_merges(remove(-2), remove(0), remove(0));
}

#[test]
fn fields_set_again_and_again_are_kept_once() {
    let set = |field: &str, value: usize| Change::SetField(blob(field), blob(&value.to_string()));
    let rounds = (0..1000).flat_map(|n| [set("a", n), set("b", n / 2), add(Some("c"), 2)]);
    let compacted = rounds.fold(Vec::new(), |mut changes, change| {
        changes.push(change);
        compact_fields(changes)
    });
    assert_eq!(compacted, [set("a", 999), set("b", 499), add(Some("c"), 2000)]);
    let removed = vec![set("a", 1), Change::UnsetField(blob("b")), set("a", 2)];
    assert_eq!(compact_fields(removed.clone()), removed, "the document may have gone with its last field");
}

#[test]
fn what_is_set_unseen_again_and_again_takes_no_more_room() {
    let set = |field: &str, value: u64| Change::SetField(blob(field), blob(&value.to_string()));
    let rounds = (0..1000).map(|n| vec![Change::RemoveExpired(n * 700), set("a", n), set("b", n / 2)]);
    let kept = rounds.fold(Vec::new(), |old, new| compact_fields(join_unseen(old, new)));
    assert_eq!(kept, [Change::RemoveExpired(999 * 700), set("a", 999), set("b", 499)]);
    let added = (0..1000).map(|n| vec![Change::RemoveExpired(n * 10), add(None, 1)]);
    let kept = added.fold(Vec::new(), |old, new| compact_fields(join_unseen(old, new)));
    assert_eq!(kept.len(), 20, "a moment and a sum for each second: {kept:?}");
}

#[test]
fn what_must_stay_apart_does() {
    use Change::*;
    let apart = [
        (SetField(blob("f"), blob("a")), Delete),
        (SetField(blob("f"), blob("a")), RemoveExpired(3)),
        (RemoveExpired(3), Persist),
        (RemoveExpired(3), add(None, 1)),
        (Append(blob("a")), put("b")),
        (add(None, 2), add(None, -2)),
        (add(None, i64::MAX), add(None, 1)),
        (add(Some("f"), 1), add(Some("g"), 1)),
        (put("a"), add(None, 1)),
        (SetField(blob("f"), blob("long")), SetField(blob("f"), blob("s"))),
        (UnsetField(blob("f")), SetField(blob("f"), blob("s"))),
        (RemoveEqual { count: 1, element: blob("e") }, RemoveEqual { count: -1, element: blob("e") }),
        (SetField(blob("f"), blob("s")), UnsetField(blob("f"))),
        (RemoveMember(blob("m")), AddMember(blob("m"))),
        (Push(End::Left, blob("e")), Pop(End::Left)),
        (write(2, "abc"), write(6, "x")),
        (put("a"), write(1_000_000, "x")),
        (Append(blob(&"x".repeat(3000))), Append(blob(&"x".repeat(3000)))),
    ];
    for (first, second) in apart {
        assert_eq!(compact(vec![first.clone(), second.clone()]), vec![first, second]);
    }
}
