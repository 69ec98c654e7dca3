//! A document and its changes in the plainest possible way, written apart from the library's code to be compared with
//! it. The strategies that make random documents and changes are here, too. The model knows no size limit.
#![allow(dead_code, reason = "each test program uses a part")]

use std::collections::{BTreeMap, BTreeSet};

use forebay::change::{ApplyError, Change, End};
use forebay::value::{Blob, Data, Kind, Value};
use proptest::prelude::*;
use proptest::sample::{Index, select};

pub type Text = Vec<u8>;

#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Bytes(Text),
    Hash(BTreeMap<Text, Text>),
    List(Vec<Text>),
    Set(BTreeSet<Text>),
}

/// Content and expiry; `None`: absent.
pub type Document = Option<(Content, Option<u64>)>;

pub fn from_value(value: &Option<Value>) -> Document {
    let text = |blob: &Blob| blob.to_vec();
    value.as_ref().map(|value| {
        let content = match &value.data {
            Data::Bytes(bytes) => Content::Bytes(bytes.to_vec()),
            Data::Hash(hash) => Content::Hash(hash.iter().map(|(field, value)| (text(field), text(value))).collect()),
            Data::List(list) => Content::List(list.iter().map(text).collect()),
            Data::Set(set) => Content::Set(set.iter().map(text).collect()),
        };
        (content, value.expires_at_ms)
    })
}

/// The value built at once from its content, where the library's went through changes.
pub fn to_value(document: &Document) -> Option<Value> {
    let blob = |text: &Text| Blob::from(text.as_slice());
    document.as_ref().map(|(content, expires_at_ms)| {
        let data = match content {
            Content::Bytes(bytes) => Data::Bytes(blob(bytes).into()),
            Content::Hash(hash) => Data::Hash(hash.iter().map(|(field, value)| (blob(field), blob(value))).collect()),
            Content::List(list) => Data::List(list.iter().map(blob).collect()),
            Content::Set(set) => Data::Set(set.iter().map(blob).collect()),
        };
        Value { data, expires_at_ms: *expires_at_ms }
    })
}

fn kind(content: &Content) -> Kind {
    match content {
        Content::Bytes(_) => Kind::Bytes,
        Content::Hash(_) => Kind::Hash,
        Content::List(_) => Kind::List,
        Content::Set(_) => Kind::Set,
    }
}

fn kind_needed(change: &Change) -> Option<Kind> {
    match change {
        Change::Put(_) | Change::Delete | Change::ExpireAt(_) | Change::Persist | Change::RemoveExpired(_) => None,
        Change::AddInteger { field: Some(_), .. } | Change::AddFloat { field: Some(_), .. } => Some(Kind::Hash),
        Change::SetField(..) | Change::UnsetField(_) => Some(Kind::Hash),
        Change::AddInteger { .. } | Change::AddFloat { .. } | Change::Append(_) | Change::WriteAt { .. } => {
            Some(Kind::Bytes)
        }
        Change::Push(..) | Change::Pop(_) | Change::RemoveEqual { .. } => Some(Kind::List),
        Change::AddMember(_) | Change::RemoveMember(_) => Some(Kind::Set),
    }
}

/// The document after `change`.
pub fn apply(document: &Document, change: &Change) -> Result<Document, ApplyError> {
    match change {
        Change::Put(value) => return Ok(from_value(&Some(value.clone()))),
        Change::Delete => return Ok(None),
        Change::ExpireAt(at) => return Ok(document.clone().map(|(content, _)| (content, Some(*at)))),
        Change::Persist => return Ok(document.clone().map(|(content, _)| (content, None))),
        Change::RemoveExpired(by) => {
            let living = |(_, expiry): &(Content, Option<u64>)| expiry.is_none_or(|at| at > *by);
            return Ok(document.clone().filter(living));
        }
        Change::WriteAt { bytes, .. } if bytes.is_empty() && document.is_none() => return Ok(None),
        _ => {}
    }
    let needed = kind_needed(change).expect("all others need a kind");
    let (mut content, expiry) = match document {
        Some((content, _)) if kind(content) != needed => return Err(ApplyError::WrongKind(kind(content))),
        Some(document) => document.clone(),
        None => match needed {
            Kind::Bytes => (Content::Bytes(Text::new()), None),
            Kind::Hash => (Content::Hash(BTreeMap::new()), None),
            Kind::List => (Content::List(Vec::new()), None),
            Kind::Set => (Content::Set(BTreeSet::new()), None),
        },
    };
    let empty = match &mut content {
        Content::Bytes(bytes) => {
            change_bytes(bytes, document.is_none(), change)?;
            false
        }
        Content::Hash(hash) => {
            change_hash(hash, change)?;
            hash.is_empty()
        }
        Content::List(list) => {
            change_list(list, change);
            list.is_empty()
        }
        Content::Set(set) => {
            match change {
                Change::AddMember(member) => set.insert(member.to_vec()),
                Change::RemoveMember(member) => set.remove(&member.to_vec()),
                _ => unreachable!(),
            };
            set.is_empty()
        }
    };
    Ok(if empty { None } else { Some((content, expiry)) })
}

fn change_bytes(bytes: &mut Text, absent: bool, change: &Change) -> Result<(), ApplyError> {
    let old = if absent { None } else { Some(bytes.clone()) };
    match change {
        Change::AddInteger { delta, .. } => *bytes = integer(old, *delta)?,
        Change::AddFloat { delta, .. } => *bytes = float(old, delta)?,
        Change::Append(added) => bytes.extend_from_slice(added),
        Change::WriteAt { offset, bytes: written } => {
            if !written.is_empty() {
                while bytes.len() < offset + written.len() {
                    bytes.push(0);
                }
                for (index, byte) in written.iter().enumerate() {
                    bytes[offset + index] = *byte;
                }
            }
        }
        _ => unreachable!(),
    }
    Ok(())
}

fn change_hash(hash: &mut BTreeMap<Text, Text>, change: &Change) -> Result<(), ApplyError> {
    match change {
        Change::AddInteger { field: Some(field), delta } => {
            let sum = integer(hash.get(&field.to_vec()).cloned(), *delta)?;
            hash.insert(field.to_vec(), sum);
        }
        Change::AddFloat { field: Some(field), delta } => {
            let sum = float(hash.get(&field.to_vec()).cloned(), delta)?;
            hash.insert(field.to_vec(), sum);
        }
        Change::SetField(field, value) => {
            hash.insert(field.to_vec(), value.to_vec());
        }
        Change::UnsetField(field) => {
            hash.remove(&field.to_vec());
        }
        _ => unreachable!(),
    }
    Ok(())
}

fn change_list(list: &mut Vec<Text>, change: &Change) {
    match change {
        Change::Push(End::Left, element) => list.insert(0, element.to_vec()),
        Change::Push(End::Right, element) => list.push(element.to_vec()),
        Change::Pop(_) if list.is_empty() => {}
        Change::Pop(End::Left) => {
            list.remove(0);
        }
        Change::Pop(End::Right) => {
            list.pop();
        }
        Change::RemoveEqual { count, element } => {
            let mut left = if *count == 0 { u64::MAX } else { count.unsigned_abs() };
            while left > 0 {
                let equal = |other: &Text| other.as_slice() == &**element;
                let found = if *count < 0 { list.iter().rposition(equal) } else { list.iter().position(equal) };
                let Some(at) = found else { break };
                list.remove(at);
                left -= 1;
            }
        }
        _ => unreachable!(),
    }
}

fn integer(old: Option<Text>, delta: i64) -> Result<Text, ApplyError> {
    let text = String::from_utf8(old.unwrap_or(b"0".to_vec())).map_err(|_| ApplyError::NotAnInteger)?;
    let number: i64 = text.parse().map_err(|_| ApplyError::NotAnInteger)?;
    if number.to_string() != text {
        return Err(ApplyError::NotAnInteger);
    }
    let sum = i128::from(number) + i128::from(delta);
    i64::try_from(sum).map(|sum| sum.to_string().into()).map_err(|_| ApplyError::Overflow)
}

/// In quarters, of which the strategies make all numbers; `testdata/long_double.txt` has the others.
fn float(old: Option<Text>, delta: &[u8]) -> Result<Text, ApplyError> {
    let quarters = |text: &[u8]| -> Result<i128, ApplyError> {
        let text = std::str::from_utf8(text).map_err(|_| ApplyError::NotAFloat)?;
        // Not by way of f64, which has 53 bits where a sum of ours has 64; that is for "1e3" alone.
        let decimals = [("", 0), (".25", 1), (".5", 2), (".75", 3)];
        let exact = decimals.iter().find_map(|(decimals, part)| {
            let whole: i128 = text.strip_suffix(decimals)?.parse().ok()?;
            Some(whole * 4 + if text.starts_with('-') { -part } else { *part })
        });
        let other = || text.parse().map(|number: f64| (number * 4.0) as i128);
        exact.map_or_else(|| other().map_err(|_| ApplyError::NotAFloat), Ok)
    };
    let mut sum = quarters(&old.unwrap_or(b"0".to_vec()))? + quarters(delta)?;
    // A mantissa has 64 bits: the rest is rounded to the nearest, ties to even.
    let unit = 1i128 << (64u32.saturating_sub(sum.unsigned_abs().leading_zeros()));
    let (floor, rest) = (sum.div_euclid(unit), sum.rem_euclid(unit));
    sum = unit * if rest * 2 > unit || rest * 2 == unit && floor % 2 != 0 { floor + 1 } else { floor };
    let sign = if sum < 0 { "-" } else { "" };
    let decimals = ["", ".25", ".5", ".75"][(sum.unsigned_abs() % 4) as usize];
    Ok(format!("{sign}{}{decimals}", sum.unsigned_abs() / 4).into())
}

const TEXTS: [&str; 16] = [
    "",
    "a",
    "b",
    "c",
    "abc",
    "0",
    "-1",
    "5",
    "007",
    "-0",
    " 1",
    "1.5",
    "-0.25",
    "1e3",
    "9223372036854775807",
    "-9223372036854775808",
];

/// Few different ones, so that changes meet.
pub fn text() -> impl Strategy<Value = Blob> {
    let long = (0..120usize).prop_map(|len| "x".repeat(len));
    prop_oneof![9 => select(&TEXTS[..]).prop_map(str::to_owned), 1 => long].prop_map(|text| Blob::from(text.as_bytes()))
}

fn delta() -> impl Strategy<Value = i64> {
    prop_oneof![4 => -5..=5i64, 1 => select(vec![i64::MIN, i64::MAX, 1 << 62, -(1 << 62)])]
}

fn count() -> impl Strategy<Value = i64> {
    prop_oneof![8 => -3..=3i64, 1 => select(vec![i64::MIN, i64::MAX])]
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![Just(End::Left), Just(End::Right)]
}

/// Documents of every kind, small and around the sizes at which hashes, lists and sets change their form.
pub fn value() -> impl Strategy<Value = Value> {
    let number = |index: usize| Blob::from(format!("n{index}").as_bytes());
    let len = || prop_oneof![6 => 0..4usize, 2 => 29..36usize, 2 => 60..70usize];
    let data = prop_oneof![
        text().prop_map(|text| Data::Bytes(text.into())),
        (len(), prop::collection::vec((text(), text()), 1..4)).prop_map(move |(len, named)| {
            Data::Hash((0..len).map(|index| (number(index), number(0))).chain(named).collect())
        }),
        (len(), prop::collection::vec((text(), any::<Index>()), 1..4)).prop_map(move |(len, named)| {
            let mut list: Vec<Blob> = (0..len).map(number).collect();
            named.into_iter().for_each(|(element, at)| list.insert(at.index(list.len() + 1), element));
            Data::List(list.into_iter().collect())
        }),
        (len(), prop::collection::vec(text(), 1..4))
            .prop_map(move |(len, named)| Data::Set((0..len).map(number).chain(named).collect())),
    ];
    (data, prop::option::of(0..4u64)).prop_map(|(data, expires_at_ms)| Value { data, expires_at_ms })
}

pub fn document() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![1 => Just(None), 5 => value().prop_map(Some)]
}

pub fn change() -> impl Strategy<Value = Change> {
    let quarters = (-40..40i32).prop_map(|quarters| Blob::from((f64::from(quarters) / 4.0).to_string().as_bytes()));
    let field = || prop_oneof![Just(None), text().prop_map(Some)];
    prop_oneof![
        1 => value().prop_map(Change::Put),
        1 => Just(Change::Delete),
        1 => (0..4u64).prop_map(Change::ExpireAt),
        1 => Just(Change::Persist),
        1 => (0..4u64).prop_map(Change::RemoveExpired),
        3 => (field(), delta()).prop_map(|(field, delta)| Change::AddInteger { field, delta }),
        2 => (field(), quarters).prop_map(|(field, delta)| Change::AddFloat { field, delta }),
        2 => text().prop_map(Change::Append),
        2 => (0..8usize, text()).prop_map(|(offset, bytes)| Change::WriteAt { offset, bytes }),
        3 => (text(), text()).prop_map(|(field, value)| Change::SetField(field, value)),
        2 => text().prop_map(Change::UnsetField),
        3 => (end(), text()).prop_map(|(end, element)| Change::Push(end, element)),
        2 => end().prop_map(Change::Pop),
        2 => (count(), text()).prop_map(|(count, element)| Change::RemoveEqual { count, element }),
        3 => text().prop_map(Change::AddMember),
        2 => text().prop_map(Change::RemoveMember),
    ]
}

/// Changes of one family, which mostly fit each other.
pub fn changes(len: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Change>> {
    let families = [Kind::Bytes, Kind::Hash, Kind::List, Kind::Set];
    (select(families.to_vec()), prop::collection::vec((change(), 0..8u8), len.start * 4..len.end * 4)).prop_map(
        move |(kind, changes)| {
            let fits =
                |change: &Change, stray: u8| stray == 0 || kind_needed(change).is_none_or(|needed| needed == kind);
            let fitting = changes.into_iter().filter(|(change, stray)| fits(change, *stray));
            let mut changes: Vec<Change> = fitting.map(|(change, _)| change).take(len.end).collect();
            // Digits appended to a number make numbers that are no quarters.
            if changes.iter().any(|change| matches!(change, Change::Append(_) | Change::WriteAt { .. })) {
                changes.retain(|change| !matches!(change, Change::AddFloat { field: None, .. }));
            }
            changes
        },
    )
}
