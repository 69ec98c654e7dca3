//! Documents of which only the charge is known. The replay of a recorded trace puts them in, so that the cache
//! charges for one just what it charged for the recorded one.

use std::sync::Arc;

use super::ENTRY_OVERHEAD_BYTES;
use crate::read::Read;
use crate::read::record::Record;
use crate::value::{Bytes, Data, Hash, Set, Value, blob_bytes};
use crate::version::Version;

/// Longest byte string that is tried; one of this length is charged more than any document may be.
const BYTES_MAX: usize = 32 << 20;

/// Most members of a set that is tried: its index takes all remainders that the index of a collection can.
const MEMBERS_MAX: usize = 160;

/// Most fields of a hash that is tried, where no set will do: a hash is charged more for each, and its index takes all
/// remainders that one of more fields can.
const FIELDS_MAX: usize = 48;

/// Bytes of a member's own, so that no two are the same.
const MEMBER_BYTES: usize = 4;

/// A document for which, under a key of `name_bytes`, a cache charges `charged` bytes without the policy's part; the
/// nearest smaller one where there is none of just that charge. `None`: an absent document is charged as much or more.
pub fn document_charged(name_bytes: usize, charged: usize) -> Option<Value> {
    let target = charged.saturating_sub(ENTRY_OVERHEAD_BYTES);
    let heap = |value: Option<Value>| Record::heap_bytes(name_bytes, &Read { value, version: Version::ZERO });
    if heap(None) >= target {
        return None;
    }
    // A byte string's charge rises with its length.
    let bytes = |len: usize| Value::bytes(Bytes::from(Arc::<[u8]>::from(vec![0; len])));
    let (mut low, mut high) = (0, (BYTES_MAX).min(target));
    while low < high {
        let middle = (low + high).div_ceil(2);
        match heap(Some(bytes(middle))) <= target {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    let nearest = bytes(low);
    if heap(Some(nearest.clone())) == target {
        return Some(nearest);
    }
    let like = |value: Value| Some(value).filter(|value| heap(Some(value.clone())) == target);
    let of_members = |members: usize| {
        let least = heap(Some(set(&vec![MEMBER_BYTES; members])));
        like(set(&grown(members, MEMBER_BYTES, target.checked_sub(least)?)?))
    };
    let of_fields = |fields: usize| {
        let least = heap(Some(hash(&vec![0; fields])));
        like(hash(&grown(fields, 0, target.checked_sub(least)?)?))
    };
    let collection = (1..=MEMBERS_MAX).find_map(of_members).or_else(|| (1..=FIELDS_MAX).find_map(of_fields));
    Some(collection.unwrap_or(nearest))
}

/// Lengths of so many byte strings that take `more` bytes more than as many of length `shortest`.
fn grown(count: usize, shortest: usize, mut more: usize) -> Option<Vec<usize>> {
    let least = blob_bytes(shortest);
    let mut lengths = vec![shortest; count];
    for length in &mut lengths {
        let (mut low, mut high) = (shortest, shortest + more);
        while low < high {
            let middle = (low + high).div_ceil(2);
            match blob_bytes(middle) <= least + more {
                true => low = middle,
                false => high = middle - 1,
            }
        }
        *length = low;
        more -= blob_bytes(low) - least;
    }
    (more == 0).then_some(lengths)
}

/// A set of members of these lengths.
fn set(lengths: &[usize]) -> Value {
    let member = |(number, &length): (u32, &usize)| {
        let mut bytes = vec![0; length.max(MEMBER_BYTES)];
        bytes[..MEMBER_BYTES].copy_from_slice(&number.to_be_bytes());
        Arc::from(bytes)
    };
    let members: Set = (0..).zip(lengths).map(member).collect();
    Value { data: Data::Set(members), expires_at_ms: None }
}

/// A hash with values of these lengths.
fn hash(lengths: &[usize]) -> Value {
    let field = |(number, &length): (u32, &usize)| (Arc::from(number.to_be_bytes()), Arc::from(vec![0; length]));
    let fields: Hash = (0..).zip(lengths).map(field).collect();
    Value { data: Data::Hash(fields), expires_at_ms: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::List;
    use proptest::prelude::*;

    fn charged(name_bytes: usize, value: Option<Value>) -> usize {
        ENTRY_OVERHEAD_BYTES + Record::heap_bytes(name_bytes, &Read { value, version: Version::ZERO })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever document is charged, there is one like it.
        #[test]
        fn any_charge_has_its_document(
            name_bytes in 0usize..200,
            length in 0usize..10_000,
            expires in any::<bool>(),
            fields in 1usize..200,
        ) {
            let expires_at_ms = expires.then_some(1);
            let bytes = Value { expires_at_ms, ..Value::bytes(vec![1; length]) };
            let field = |number: usize| (Arc::from(number.to_string().as_bytes()), Arc::from(vec![1; length / fields]));
            let hash: Hash = (0..fields).map(field).collect();
            let members: Set = (0..fields).map(|number| Arc::from(number.to_string().as_bytes())).collect();
            let elements: List = (0..fields).map(|_| Arc::from(vec![1; length / fields])).collect();
            let data = [Data::Set(members), Data::Hash(hash), Data::List(elements)];
            for value in data.map(|data| Value { data, expires_at_ms: None }).into_iter().chain([bytes]) {
                let recorded = charged(name_bytes, Some(value));
                prop_assert_eq!(charged(name_bytes, document_charged(name_bytes, recorded)), recorded);
            }
            let absent = charged(name_bytes, None);
            prop_assert_eq!(charged(name_bytes, document_charged(name_bytes, absent)), absent);
        }
    }
}
