use super::super::short::{NAMES_FROM, SEQUENCE_BITS};
use super::*;
use crate::value::Hash;
use proptest::prelude::*;

#[test]
fn a_record_is_two_words() {
    assert_eq!(size_of::<Record>(), 16);
}

/// Any, those beside which the short form ends, and short ones.
fn versions() -> impl Strategy<Value = Version> {
    let edge = |at: u64| prop_oneof![Just(at - 1), Just(at), Just(0)];
    let edges = (edge(NAMES_FROM), edge(1 << SEQUENCE_BITS));
    let short = (0u64..9, 0u64..1 << SEQUENCE_BITS);
    prop_oneof![any::<(u64, u64)>(), edges, short].prop_map(|(incarnation, sequence)| Version { incarnation, sequence })
}

#[test]
fn a_short_version_takes_eight_bytes_less() {
    let charged = |incarnation, sequence| {
        let read = Read { value: Some(Value::bytes(vec![1; 64])), version: Version { incarnation, sequence } };
        Record::heap_bytes(16, &read)
    };
    assert_eq!(charged(NAMES_FROM - 1, (1 << SEQUENCE_BITS) - 1), 112);
    assert_eq!([charged(NAMES_FROM, 0), charged(0, 1 << SEQUENCE_BITS)], [128; 2]);
}

/// What says the same under a longer header is no record that may be kept: it takes more than is charged for it.
#[test]
fn a_longer_header_is_not_taken_for_the_record() {
    let (key, version) = (Key::new(3, b"name"), Version { incarnation: 1, sequence: 7 });
    let word = 4 | LONG | 3 << SPACE_SHIFT;
    let longer = [&word.to_le_bytes()[..], &version.to_bytes(), b"name", &[1; 16]].concat();
    let bytes = Bytes::part(longer.into(), WORD_BYTES + VERSION_BYTES + 4, 16);
    let read = Read { value: Some(Value::bytes(bytes)), version };
    let record = Record::new(&key, &read);
    assert_eq!((record.view().charged_bytes(), record.view().read()), (Record::heap_bytes(4, &read), read));
}

fn values() -> impl Strategy<Value = Option<Value>> {
    let lengths = prop_oneof![4 => 0..600usize, 1 => PACKED_VALUE_BYTES_MAX - 1..PACKED_VALUE_BYTES_MAX + 2];
    let bytes = lengths.prop_map(|len| Data::Bytes(vec![7u8; len].into()));
    let hash = Just(Data::Hash(Hash::from_iter([((*b"f").into(), (*b"v").into())])));
    let expiry = prop::option::of(any::<u64>());
    prop::option::of(
        (prop_oneof![9 => bytes, 1 => hash], expiry).prop_map(|(data, expires_at_ms)| Value { data, expires_at_ms }),
    )
}

proptest! {
    /// Whatever goes in comes out, and the heap bytes are those that are charged.
    #[test]
    fn keeps_what_it_is_given(
        space in 0u8..16,
        name in prop::collection::vec(any::<u8>(), 0..80),
        value in values(),
        version in versions(),
    ) {
        let key = Key::new(space, &name);
        let read = Read { value, version };
        let record = Record::new(&key, &read);
        prop_assert_eq!((record.view().read(), record.view().version()), (read.clone(), read.version));
        prop_assert_eq!((record.view().to_key(), record.view().key().name), (key.clone(), &name[..]));
        prop_assert_eq!(record.view().key(), key.borrow());
        prop_assert_eq!(Record::heap_bytes(key.name().len(), &read), record.view().charged_bytes());
        // What was handed out goes in again as well: as the record that it was, or under another version as one of
        // its own.
        let again = Record::new(&record.view().to_key(), &record.view().read());
        prop_assert_eq!((again.view().read(), again.view().to_key()), (read.clone(), key.clone()));
        if let (Held::Packed(packed), Held::Packed(packed_again)) = (&record.0, &again.0) {
            prop_assert_eq!(Arc::ptr_eq(packed, packed_again), read.value.is_some());
        }
        let later = Read { version: Version { sequence: version.sequence ^ 1, ..version }, ..record.view().read() };
        prop_assert_eq!(Record::new(&key, &later).view().read(), later.clone());
        let mut sooner = record.view().read();
        sooner.value.iter_mut().for_each(|value| value.expires_at_ms = Some(7));
        prop_assert_eq!(Record::new(&key, &sooner).view().read(), sooner);
        let mut replaced = Record::new(&key, &later);
        replaced.replace(&key, read.value.as_ref(), read.version);
        prop_assert_eq!((replaced.view().read(), replaced.view().to_key()), (read.clone(), key.clone()));
        prop_assert_eq!(replaced.view().expires_at_ms(), read.value.as_ref().and_then(|value| value.expires_at_ms));
        let other = Key::new(space, &[&name[..], b"'"].concat());
        prop_assert_eq!(Record::new(&other, &read).view().to_key(), other);
        // So it is where it was written as a record, key and all.
        if let Some(Value { data: Data::Bytes(bytes), expires_at_ms }) = &read.value
            && let Some((own, value)) = written(key.borrow(), &bytes.joined(), *expires_at_ms, version)
        {
            prop_assert_eq!((&own, Some(&value)), (&key, read.value.as_ref()));
            let mut packed = value.clone();
            pack(&own, &mut packed, version);
            let records = [&value, &packed].map(|value| Record::of(&own, Some(value), version).0);
            let [Held::Packed(one), Held::Packed(other)] = records else { unreachable!("it is short") };
            prop_assert!(Arc::ptr_eq(&one, &other));
        }
        // Packed before it is given to two, it is one allocation.
        let mut value = read.value.clone();
        value.iter_mut().for_each(|value| pack(&key, value, read.version));
        let read = Read { value, version: read.version };
        prop_assert_eq!(&read, &record.view().read());
        if let [Held::Packed(one), Held::Packed(other)] = [0, 1].map(|_| Record::new(&key, &read).0) {
            prop_assert_eq!(Arc::ptr_eq(&one, &other), read.value.is_some());
        }
    }
}
