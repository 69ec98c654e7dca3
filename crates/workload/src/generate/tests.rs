use super::*;
use std::collections::HashSet;

fn options(workload: &Workload, transactions: u64) -> Options {
    Options { transactions, ..workload.options(7) }
}

/// Equal seeds give equal records, another seed others; levels rise, vertices exist, types are known.
#[test]
fn every_workload_is_sound_and_repeats() {
    for workload in WORKLOADS {
        let options = options(workload, 300);
        let all: Vec<Record> = records(workload, &options).collect();
        assert_eq!(all, records(workload, &options).collect::<Vec<_>>(), "{}", workload.name);
        assert_ne!(all, records(workload, &Options { seed: 8, ..options }).collect::<Vec<_>>(), "{}", workload.name);
        let types = (workload.types)(options.scale);
        let ends = all.iter().filter(|record| record.kind == Kind::Committed).count();
        assert_eq!(ends, 300, "{}", workload.name);
        for transaction in all.chunk_by(|a, b| a.txn == b.txn) {
            let (end, asks) = transaction.split_last().expect("an end");
            assert!(end.kind == Kind::Committed && !asks.is_empty(), "{}: {transaction:?}", workload.name);
            let of_type = &types[usize::from(asks[0].txn_type) - 1];
            assert!(asks.is_sorted_by_key(|ask| ask.level), "{} {}", workload.name, of_type.name);
            assert_eq!(asks[0].level, 0);
            for ask in asks {
                let vertex = usize::from(ask.vertex).checked_sub(1).map(|v| &of_type.vertices[v]);
                assert_eq!(vertex.is_some(), !of_type.vertices.is_empty(), "{} {}", workload.name, of_type.name);
                let writes = ask.kind == Kind::Write;
                assert!(vertex.is_none_or(|vertex| vertex.1 == writes), "{}: {ask:?}", of_type.name);
            }
        }
    }
}

/// A level of each access is the length of the longest way to it among the vertices that are there.
#[test]
fn levels_agree_with_graphs() {
    for workload in WORKLOADS {
        let options = options(workload, 300);
        let types = (workload.types)(options.scale);
        let all: Vec<Record> = records(workload, &options).collect();
        for asks in all.chunk_by(|a, b| a.txn == b.txn) {
            let of_type = &types[usize::from(asks[0].txn_type) - 1];
            let Some(graph) = of_type.graph() else { continue };
            let graph = graph.expect("no circle");
            let there: HashSet<usize> =
                asks.iter().filter(|ask| ask.vertex > 0).map(|ask| usize::from(ask.vertex) - 1).collect();
            let mut until = vec![0; graph.len()];
            for &v in graph.order() {
                let v = usize::from(v);
                let before = graph.predecessors(v).iter().map(|&p| until[usize::from(p)]).max().unwrap_or(0);
                until[v] = before + usize::from(there.contains(&v));
            }
            for ask in asks.iter().filter(|ask| ask.vertex > 0) {
                let v = usize::from(ask.vertex) - 1;
                assert_eq!(usize::from(ask.level) + 1, until[v], "{} {}", of_type.name, graph.vertices()[v].name);
            }
        }
    }
}

#[test]
fn smallbank_has_its_mean_sizes() {
    let workload = workload("smallbank").expect("in the table");
    let options = options(workload, 20_000);
    let count = |kind: Kind| records(workload, &options).filter(|record| record.kind == kind).count() as f64 / 20_000.0;
    assert!((count(Kind::Read) - 3.25).abs() < 0.05 && (count(Kind::Write) - 1.40).abs() < 0.05);
}

#[test]
fn mixes_have_their_shares() {
    let workload = workload("mix-a").expect("in the table");
    let all: Vec<Record> = records(workload, &options(workload, 20_000)).collect();
    let share = |of_type: u16| {
        let of_type = all.chunk_by(|a, b| a.txn == b.txn).filter(|asks| asks[0].txn_type == of_type);
        of_type.count() as f64 / 20_000.0
    };
    for (of_type, expected) in (1..).zip([0.60, 0.25, 0.11, 0.04]) {
        assert!((share(of_type) - expected).abs() < 0.01, "{of_type}");
    }
    for asks in all.chunk_by(|a, b| a.txn == b.txn) {
        let keys: HashSet<&TraceKey> = asks.iter().map(|ask| &ask.key).collect();
        assert_eq!(keys.len(), asks.len(), "keys of a transaction are distinct");
    }
}

/// Shares of types, and the share of the most popular row by the constants that YCSB and KAIROS draw with.
#[test]
fn ycsb_has_its_mixes_and_its_skew() {
    let all = |name: &str| -> Vec<Record> {
        let workload = workload(name).expect("in the table");
        records(workload, &options(workload, 30_000)).collect()
    };
    let share = |all: &[Record], of_type: u16| {
        let ends = all.chunk_by(|a, b| a.txn == b.txn).filter(|asks| asks[0].txn_type == of_type);
        ends.count() as f64 / 30_000.0
    };
    for (name, of_type, expected) in [
        ("ycsb-a", 2, 0.5),
        ("ycsb-b", 2, 0.05),
        ("ycsb-d", 3, 0.05),
        ("ycsb-e", 4, 0.95),
        ("ycsb-f", 5, 0.5),
        ("ycsb-kairos", 2, 0.1),
    ] {
        let found = share(&all(name), of_type);
        assert!((found - expected).abs() < 0.01, "{name}: {found}");
    }
    let top = |all: &[Record], kind: Kind| {
        let mut counts = std::collections::HashMap::new();
        let asked = all.iter().filter(|record| record.kind == kind);
        asked.for_each(|record| *counts.entry(&record.key).or_insert(0u32) += 1);
        let whole: u32 = counts.values().sum();
        f64::from(*counts.values().max().expect("some")) / f64::from(whole)
    };
    let found = top(&all("ycsb-c"), Kind::Read);
    assert!((found - 1.0 / crate::popularity::SCATTERED_ZETA).abs() < 0.004, "{found}");
    // 20 million keys by Zipf 0.99: zeta is 19.0, and keys of one transaction are distinct. By Zipf 0.5: 8,943.
    let kairos = all("ycsb-kairos");
    let found = top(&kairos, Kind::Read);
    assert!((0.040..0.053).contains(&found), "{found}");
    assert!(top(&kairos, Kind::Write) < 0.001);
}

#[test]
fn a_file_has_names_and_reads_back() {
    let workload = workload("micro2").expect("in the table");
    let options = options(workload, 50);
    let mut writer = fbt::Writer::create(Vec::new(), 0).expect("to memory");
    let count = write(workload, &options, &mut writer).expect("written");
    let bytes = writer.finish().expect("written");
    let mut reader = fbt::Reader::new(std::io::Cursor::new(bytes)).expect("a trace");
    let read: Vec<Record> = reader.by_ref().map(|record| record.expect("sound")).collect();
    assert_eq!((read.len() as u64, read), (count, records(workload, &options).collect::<Vec<_>>()));
    let toml = types_toml(workload, options.scale);
    assert!(toml.contains("name = \"d\"\nafter = [\"c\"]\n"), "{toml}");
}
