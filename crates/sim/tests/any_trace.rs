//! Any trace over every policy. Nothing panics, and what is counted adds up. A trace that is kept in memory gives
//! what reading it event by event gives.

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::Path;

use forebay::policy::{POLICIES, Unit};
use forebay_sim::ahead::Prefetch;
use forebay_sim::catalog::{Catalog, Event, Sample};
use forebay_sim::cell::{Cell, Counting};
use forebay_sim::contender::{Contender, OFFLINE};
use forebay_sim::hints::HintTypes;
use forebay_sim::lab::{Lab, LabError, LabOptions, Silent, Size};
use forebay_sim::machine::{Division, Machine};
use forebay_sim::row::Row;
use forebay_trace::fbt::Writer;
use forebay_trace::{Kind, Record, TraceKey, TraceOptions};
use proptest::prelude::*;

fn contenders() -> Vec<Contender> {
    let names = POLICIES.iter().map(|policy| policy.name).chain(OFFLINE.iter().map(|(name, _)| *name));
    names.map(|name| Contender::parse(name).expect("its own name")).collect()
}

/// Keys of two kinds in two spaces, sizes from nothing to the largest.
fn request() -> impl Strategy<Value = Record> {
    let key = prop_oneof![
        (0_u64..40).prop_map(TraceKey::Number),
        (0_u8..10).prop_map(|key| TraceKey::Bytes(vec![key].into())),
        Just(TraceKey::Number(u64::MAX)),
    ];
    let kind = prop_oneof![5 => Just(Kind::Read), 2 => Just(Kind::Write)];
    let size = prop_oneof![Just(None), (0_u32..50).prop_map(Some), Just(Some(u32::MAX))];
    (key, kind, size, 0_u8..2, 0_u32..3).prop_map(|(key, kind, size, space, client)| Record {
        key,
        kind,
        size,
        space,
        client,
        ..Record::default()
    })
}

/// Likewise with all that a trace can say.
fn anything() -> impl Strategy<Value = Record> {
    let kind = prop_oneof![
        6 => Just(Kind::Read),
        2 => Just(Kind::Write),
        1 => Just(Kind::Delete),
        1 => Just(Kind::Prefetch),
        1 => Just(Kind::Demote),
        1 => Just(Kind::Committed),
        1 => Just(Kind::Aborted),
    ];
    let costs = prop_oneof![Just(None), any::<u32>().prop_map(Some)];
    (request(), kind, costs, (0_u64..5, 0_u16..3, 0_u16..4, 0_u16..9)).prop_map(|(request, kind, cost_us, place)| {
        let (txn, txn_type, level, vertex) = place;
        match kind.is_access() {
            true => Record { kind, cost_us, txn, txn_type, level, vertex, ..request },
            false => Record { kind, txn: txn.max(1), ..Record::default() },
        }
    })
}

fn write(path: &Path, records: &[Record]) {
    let mut writer = Writer::create(File::create(path).expect("writable"), 0).expect("writable");
    for record in records {
        writer.append(record).expect("a record that can be written");
    }
    writer.finish().expect("writable");
}

#[derive(Clone, Debug)]
struct Setting {
    unit: Unit,
    size: u64,
    warmup: f64,
    rate: f64,
    division: Division,
    prefetch: Prefetch,
    writes_allocate: bool,
    reads_only: bool,
}

fn setting() -> impl Strategy<Value = Setting> {
    let unit = prop_oneof![Just(Unit::Entries), Just(Unit::Bytes)];
    let size = prop_oneof![1_u64..40, Just(1 << 33)];
    let division = prop_oneof![3 => Just(Division::Shared), 1 => Just(Division::Equal)];
    let prefetch = prop_oneof![3 => Just(Prefetch::None), 1 => Just(Prefetch::Detox), 1 => Just(Prefetch::Chrono)];
    let shares = (prop_oneof![Just(0.0), Just(0.5)], prop_oneof![3 => Just(1.0), 1 => Just(0.5)]);
    (unit, size, shares, division, prefetch, any::<(bool, bool)>()).prop_map(
        |(unit, size, (warmup, rate), division, prefetch, (writes_allocate, reads_only))| Setting {
            unit,
            size,
            warmup,
            rate,
            division,
            prefetch,
            writes_allocate,
            reads_only,
        },
    )
}

fn simulate(path: &Path, setting: &Setting) -> Result<Vec<Row>, LabError> {
    let options = LabOptions {
        contenders: contenders(),
        sizes: vec![Size::parse(&setting.size.to_string(), setting.unit).expect("a size")],
        unit: setting.unit,
        reads_only: setting.reads_only,
        warmup: setting.warmup,
        sample: Sample { rate: setting.rate, seed: 7 },
        adjust: false,
        per_client: true,
        writes_allocate: setting.writes_allocate,
        prefetch: setting.prefetch,
        graphs: Vec::new(),
        division: setting.division.clone(),
        hint_types: HintTypes::ALL,
        trace: TraceOptions::default(),
        threads: NonZeroUsize::MIN,
    };
    Lab::open(path, &options, &Silent)?.curves()
}

/// Hits of each policy, event by event.
fn one_by_one(records: &[Record], setting: &Setting) -> Vec<(u64, u64)> {
    let sample = Sample { rate: setting.rate, seed: 7 };
    let catalog = Catalog::of(records.iter().cloned().map(Ok), sample, true, || ()).expect("sound");
    let mut place = 0;
    let events: Vec<Event> = records.iter().filter_map(|record| catalog.event(record, &mut place)).collect();
    let counting = Counting {
        reads_only: setting.reads_only,
        writes_allocate: setting.writes_allocate,
        prefetch: setting.prefetch,
        from: (catalog.requests as f64 * setting.warmup) as u64,
        per_client: false,
        transactions: false,
        sample_rate: setting.rate,
        adjustment: None,
    };
    let capacity = ((setting.size as f64 * setting.rate).round() as u64).max(1);
    let replayed = |contender: Contender| {
        let machine = Machine::new(&contender, setting.unit, capacity);
        let mut cell = Cell::new(&contender, machine, (setting.unit, capacity), counting, &[]);
        cell.replay(&events);
        cell.finish();
        (cell.tally().requests, cell.tally().hits)
    };
    contenders().into_iter().map(replayed).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn anything_is_replayed(records in prop::collection::vec(anything(), 1..120), setting in setting()) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("any.fbt");
        write(&path, &records);
        match simulate(&path, &setting) {
            Ok(rows) => for row in rows {
                prop_assert!(row.hits <= row.requests && row.requests <= records.len() as u64, "{row:?}");
                prop_assert!((0.0..=1.0).contains(&row.hit_ratio) && (0.0..=1.0).contains(&row.byte_hit_ratio));
            },
            Err(error) => prop_assert!(matches!(error, LabError::Empty(_) | LabError::NoSizes(_)), "{error}"),
        }
    }

    #[test]
    fn a_trace_in_memory_is_the_trace(records in prop::collection::vec(request(), 1..200), setting in setting()) {
        let setting = Setting { division: Division::Shared, prefetch: Prefetch::None, ..setting };
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("plain.fbt");
        write(&path, &records);
        let Ok(rows) = simulate(&path, &setting) else { return Ok(()) };
        let whole = rows.iter().filter(|row| row.client.is_none());
        let rows: Vec<(u64, u64)> = whole.map(|row| (row.requests, row.hits)).collect();
        prop_assert_eq!(rows, one_by_one(&records, &setting));
    }
}

/// What the second pass replays does not depend on the number of threads.
#[test]
fn threads_change_nothing() {
    let of = |kind: Kind, at: u64| Record { key: TraceKey::Number(at * at % 97), kind, ..Record::default() };
    let records: Vec<Record> = (0..5000).map(|at| of(if at % 7 == 0 { Kind::Write } else { Kind::Read }, at)).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plain.fbt");
    write(&path, &records);
    let run = |threads: usize| {
        let options = LabOptions {
            contenders: contenders(),
            sizes: ["5", "20%"].iter().map(|size| Size::parse(size, Unit::Entries).expect("a size")).collect(),
            unit: Unit::Entries,
            reads_only: false,
            warmup: 0.0,
            sample: Sample { rate: 1.0, seed: 0 },
            adjust: true,
            per_client: false,
            writes_allocate: true,
            prefetch: Prefetch::None,
            graphs: Vec::new(),
            division: Division::Shared,
            hint_types: HintTypes::ALL,
            trace: TraceOptions::default(),
            threads: NonZeroUsize::new(threads).expect("some"),
        };
        let rows = Lab::open(&path, &options, &Silent).expect("sound").curves().expect("sound");
        rows.into_iter().map(|row| (row.policy, row.size, row.hits)).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(5));
}
