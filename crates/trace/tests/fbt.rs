//! The forebay format: what is written is read, and what a killed writer or a bad disk leaves is told.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};

use bytes::Bytes;
use forebay_trace::dictionary::{HintSchema, HintSetDefinition};
use forebay_trace::fbt::{self, Reader, Writer};
use forebay_trace::words::RETURNED_WORDS_MAX;
use forebay_trace::{Kind, Record, TraceError, TraceKey};
use proptest::prelude::*;

/// What a test does with a writer.
#[derive(Clone, Debug)]
enum Step {
    Append(Record, Vec<u64>),
    Schema(u32, HintSchema),
    Set(u32, HintSetDefinition),
    Type(u16, Bytes),
    Vertex(u16, u16, Bytes),
    Flush,
}

fn bytes(longest: usize) -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..=longest).prop_map(Bytes::from)
}

/// Small numbers mostly, so that records share them, and all others.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..4_u64, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

fn record() -> impl Strategy<Value = Record> {
    let key = prop_oneof![number().prop_map(TraceKey::Number), bytes(40).prop_map(TraceKey::Bytes)];
    let what = (0..Kind::ALL.len(), key, prop_oneof![3 => Just(0_u8), 1 => any::<u8>()]);
    let figures = (prop::option::of(number()), [(); 3].map(|()| prop::option::of(any::<u32>())));
    (what, figures, [number(), number(), number()], [0..3_u16, 0..3_u16, 0..u16::MAX]).prop_map(
        |((kind, key, space), (time_us, [size, charged, cost_us]), [client, txn, hints], [txn_type, level, vertex])| {
            let kind = Kind::ALL[kind];
            let key = if kind.is_access() { key } else { TraceKey::None };
            let (client, hints) = (client as u32, hints as u32);
            Record { time_us, kind, key, space, size, charged, cost_us, client, txn, txn_type, level, vertex, hints }
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let texts = || prop::collection::vec(bytes(5), 0..4);
    prop_oneof![
        12 => (record(), prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(any::<u64>(), 0..400)])
            .prop_map(|(record, returned)| Step::Append(record, returned)),
        1 => (0..4_u32, 0..2_u32, bytes(3), texts())
            .prop_map(|(id, client, name, types)| Step::Schema(id, HintSchema { client, name, types })),
        1 => (0..4_u32, 0..4_u32, texts())
            .prop_map(|(id, schema, values)| Step::Set(id, HintSetDefinition { schema, values })),
        1 => (0..4_u16, bytes(1)).prop_map(|(id, name)| Step::Type(id, name)),
        1 => (0..2_u16, 0..2_u16, bytes(1)).prop_map(|(txn_type, id, name)| Step::Vertex(txn_type, id, name)),
        1 => Just(Step::Flush),
    ]
}

/// The naive model: what was taken, as it was given.
#[derive(Debug, Default, PartialEq)]
struct Model {
    /// With what they returned.
    records: Vec<(Record, Vec<u64>)>,
    schemas: BTreeMap<u32, HintSchema>,
    sets: BTreeMap<u32, HintSetDefinition>,
    types: BTreeMap<u16, Bytes>,
    vertices: BTreeMap<(u16, u16), Bytes>,
}

fn define<K: Ord, V: PartialEq>(map: &mut BTreeMap<K, V>, key: K, value: V) -> bool {
    let old = map.get(&key);
    let fits = old.is_none() || old == Some(&value);
    if fits {
        map.insert(key, value);
    }
    fits
}

impl Model {
    /// Does the step on both; they must agree on what is refused.
    fn apply(&mut self, step: Step, writer: &mut Writer<Vec<u8>>) {
        let (fits, result) = match step {
            Step::Append(record, mut returned) => {
                let result = writer.append_with(&record, &returned);
                returned.truncate(RETURNED_WORDS_MAX);
                self.records.push((record, returned));
                (true, result)
            }
            Step::Schema(id, schema) => {
                (define(&mut self.schemas, id, schema.clone()), writer.define_hint_schema(id, schema))
            }
            Step::Set(id, set) => (define(&mut self.sets, id, set.clone()), writer.define_hint_set(id, set)),
            Step::Type(id, name) => (define(&mut self.types, id, name.clone()), writer.define_type(id, name)),
            Step::Vertex(txn_type, id, name) => {
                let fits = define(&mut self.vertices, (txn_type, id), name.clone());
                (fits, writer.define_vertex(txn_type, id, name))
            }
            Step::Flush => (true, writer.flush()),
        };
        match result {
            Ok(()) => assert!(fits),
            Err(TraceError::Redefined { .. }) => assert!(!fits),
            Err(other) => panic!("{other}"),
        }
    }

    fn read(bytes: Vec<u8>) -> Model {
        let mut reader = Reader::new(Cursor::new(bytes)).unwrap();
        let mut records = Vec::new();
        while let Some(record) = reader.next() {
            records.push((record.unwrap(), reader.returned().to_vec()));
        }
        let dictionary = reader.dictionary();
        Model {
            records,
            schemas: dictionary.hint_schemas().map(|(id, schema)| (id, schema.clone())).collect(),
            sets: dictionary.hint_sets().map(|(id, set)| (id, set.clone())).collect(),
            types: dictionary.txn_types().map(|(id, name)| (id, name.clone())).collect(),
            vertices: dictionary.vertices().map(|(id, name)| (id, name.clone())).collect(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(steps in prop::collection::vec(step(), 0..200), start in any::<u64>()) {
        let mut writer = Writer::create(Vec::new(), start).unwrap();
        let mut model = Model::default();
        steps.into_iter().for_each(|step| model.apply(step, &mut writer));
        prop_assert_eq!(writer.records(), model.records.len() as u64);
        let bytes = writer.finish().unwrap();
        prop_assert_eq!(Reader::new(Cursor::new(bytes.clone())).unwrap().start_unix_us(), start);
        prop_assert_eq!(Model::read(bytes), model);
    }

    #[test]
    fn a_cut_file_gives_whole_blocks_and_says_so(
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut writer = Writer::create(Vec::new(), 1).unwrap();
        let mut model = Model::default();
        steps.into_iter().for_each(|step| model.apply(step, &mut writer));
        let bytes = writer.finish().unwrap();
        let mut most = 0;
        for length in 0..bytes.len() {
            let (records, error) = read_until_error(bytes[..length].to_vec());
            let cut = matches!(error, Some(TraceError::Truncated { offset, .. }) if offset == length as u64);
            prop_assert!(cut, "{:?}", error);
            prop_assert!(model.records.iter().map(|(record, _)| record).take(records.len()).eq(&records));
            prop_assert!(records.len() >= most, "a longer file gave fewer records");
            most = records.len();
        }
        prop_assert_eq!(most, model.records.len(), "only the end block was cut off");
    }

    #[test]
    fn a_changed_byte_is_noticed(
        steps in prop::collection::vec(step(), 1..40),
        change in 1..=255_u8,
    ) {
        let mut writer = Writer::create(Vec::new(), 1).unwrap();
        let mut model = Model::default();
        steps.into_iter().for_each(|step| model.apply(step, &mut writer));
        let bytes = writer.finish().unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            let (records, error) = read_until_error(changed);
            prop_assert!(error.is_some(), "byte {}", at);
            prop_assert!(model.records.iter().map(|(record, _)| record).take(records.len()).eq(&records));
        }
    }
}

fn read_until_error(bytes: Vec<u8>) -> (Vec<Record>, Option<TraceError>) {
    let mut reader = match Reader::new(Cursor::new(bytes)) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut records = Vec::new();
    while let Some(record) = reader.next() {
        match record {
            Ok(record) => records.push(record),
            Err(error) => {
                assert!(reader.next().is_none(), "nothing comes after an error");
                return (records, Some(error));
            }
        }
    }
    (records, None)
}

fn numbered(number: u64) -> Record {
    Record { key: TraceKey::Number(number), time_us: Some(number * 3), txn: number / 4, ..Record::default() }
}

#[test]
fn many_blocks_and_longest_keys() {
    let mut writer = Writer::create(Vec::new(), 0).unwrap();
    let longest = TraceKey::Bytes(Bytes::from(vec![b'k'; fbt::KEY_BYTES_MAX]));
    let longest = Record { key: longest, ..Record::default() };
    let mut expected = Vec::new();
    for number in 0..60_000 {
        let record = if number % 10_000 == 7 { longest.clone() } else { numbered(number) };
        writer.append(&record).unwrap();
        expected.push(record);
    }
    let bytes = writer.finish().unwrap();
    let (records, error) = read_until_error(bytes);
    assert!(error.is_none(), "{error:?}");
    assert!(records == expected);
}

#[test]
fn a_flushed_record_survives_a_killed_writer() {
    let mut writer = Writer::create(Vec::new(), 0).unwrap();
    (0..10).for_each(|number| writer.append(&numbered(number)).unwrap());
    writer.flush().unwrap();
    let kept = writer.finish().unwrap();
    let end_block = 20 + 8;
    let (records, error) = read_until_error(kept[..kept.len() - end_block].to_vec());
    assert_eq!(records, (0..10).map(numbered).collect::<Vec<_>>());
    let error = error.unwrap();
    assert!(error.is_truncated() && error.to_string().contains("cut short"), "{error}");
}

#[test]
fn what_is_refused_leaves_the_trace_as_it_was() {
    let mut writer = Writer::create(Vec::new(), 0).unwrap();
    let long = TraceKey::Bytes(Bytes::from(vec![0; fbt::KEY_BYTES_MAX + 1]));
    let error = writer.append(&Record { key: long, ..Record::default() }).unwrap_err();
    assert!(matches!(error, TraceError::Limit { name: "key_bytes_max", .. }), "{error}");
    assert!(writer.append(&Record::default()).is_err(), "an access without a key");
    let end = Record { kind: Kind::Committed, key: TraceKey::Number(1), ..Record::default() };
    assert!(writer.append(&end).is_err(), "an end with a key");
    writer.append(&numbered(1)).unwrap();
    let (records, error) = read_until_error(writer.finish().unwrap());
    assert!(error.is_none());
    assert_eq!(records, [numbered(1)]);
}

#[test]
fn a_later_version_is_refused_and_so_is_what_follows_the_end() {
    let mut bytes = Writer::create(Vec::new(), 0).unwrap().finish().unwrap();
    assert!(read_until_error(bytes.clone()).1.is_none());
    bytes.push(0);
    assert!(matches!(read_until_error(bytes.clone()).1, Some(TraceError::Malformed { .. })));
    bytes[8] = 4;
    let error = Reader::new(Cursor::new(bytes)).err().unwrap();
    assert!(matches!(error, TraceError::Version { found: 4, known: 3 }), "{error}");
}

/// A disk with room for so many bytes.
struct Small {
    left: usize,
}

impl Write for Small {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = bytes.len().min(self.left);
        self.left -= taken;
        if taken == 0 { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_told_and_ends_the_trace() {
    let mut writer = Writer::create(Small { left: 40_000 }, 0).unwrap();
    let record = |number: u64| Record { key: TraceKey::Number(number.wrapping_mul(u64::MAX / 7)), ..Record::default() };
    let error = (0..1_000_000).find_map(|number| writer.append(&record(number)).err()).unwrap();
    assert!(matches!(error, TraceError::Write { .. }), "{error}");
    assert!(matches!(writer.append(&record(0)), Err(TraceError::Closed)));
    assert!(matches!(writer.flush(), Err(TraceError::Closed)));
    assert!(matches!(writer.finish(), Err(TraceError::Closed)));
    assert!(Writer::create(Small { left: 3 }, 0).is_err());
}
