//! Real traces: the figures that others have counted in them come out, and formats are told apart.

use std::path::{Path, PathBuf};

use forebay_trace::{FORMATS, Record, Summary, TraceError, TraceKey, fbt, open};

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces").join(name)
}

/// File, then requests, unique keys and one-hit keys, and where sizes are known the footprint in bytes.
type Expected = (&'static str, [u64; 3], Option<u64>);

fn check(path: &Path, (name, counts, footprint): Expected) {
    let summary = Summary::of(open(path, None).unwrap()).unwrap();
    assert_eq!([summary.requests, summary.unique_keys, summary.one_hit_keys], counts, "{name}");
    if let Some(footprint) = footprint {
        assert_eq!(summary.footprint_bytes, footprint, "{name}");
    }
}

fn read(path: &Path) -> Vec<Record> {
    open(path, None).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn small_traces_have_the_counts_known_of_them() {
    for expected in [
        ("arc/OLTP-head.lis.zst", [20_000, 9_652, 6_296], Some(9_652 * 512)),
        ("cache2k/web07.be32.zst", [76_118, 20_484, 11_066], Some(0)),
        ("cloudphysics/w92_cloudPhysicsIO.csv.zst", [113_872, 48_974, 21_049], Some(2_029_769_728)),
        ("cloudphysics/w92_cloudPhysicsIO.oracleGeneral.bin.zst", [113_872, 48_974, 21_049], Some(2_029_769_728)),
        ("corda/trace_vaultservice-head.be64.zst", [20_000, 13_337, 6_674], Some(0)),
        ("twitter/twitter_cluster52-head.csv.zst", [20_000, 6_116, 3_551], Some(1_352_615)),
    ] {
        check(&testdata(expected.0), expected);
    }
}

#[test]
fn whole_traces_have_the_counts_known_of_them() {
    let Some(folder) = std::env::var_os("FOREBAY_TRACES").map(PathBuf::from) else {
        eprintln!("skipped: FOREBAY_TRACES does not name the folder of the large traces");
        return;
    };
    for expected in [
        ("arc/OLTP.lis.zst", [914_145, 186_880, 85_927], None),
        ("arc/P3.lis.zst", [3_912_296, 762_543, 290_116], None),
        ("arc/P6.lis.zst", [12_672_123, 773_770, 281_971], None),
        ("arc/P12.lis.zst", [13_208_930, 3_153_310, 1_744_392], None),
        ("cache2k/orm-busy.be32.zst", [5_000_000, 76_349, 8_763], None),
        ("cache2k/web07.be32.zst", [76_118, 20_484, 11_066], None),
        ("cache2k/web12.be32.zst", [95_607, 13_756, 6_207], None),
        ("cloudphysics/w106.be32.zst", [5_292_456, 275_171, 105_883], None),
        ("cloudphysics/w92_cloudPhysicsIO.csv.zst", [113_872, 48_974, 21_049], Some(2_029_769_728)),
        ("cloudphysics/w92_cloudPhysicsIO.oracleGeneral.bin.zst", [113_872, 48_974, 21_049], Some(2_029_769_728)),
        ("corda/trace_vaultservice.be64.zst", [135_702, 90_468, 45_234], None),
        ("twitter/twitter_cluster52.csv.zst", [1_000_000, 143_542, 64_516], Some(29_227_218)),
    ] {
        check(&folder.join(expected.0), expected);
    }
}

#[test]
fn two_encodings_of_one_trace_are_the_same_requests() {
    let csv = read(&testdata("cloudphysics/w92_cloudPhysicsIO.csv.zst"));
    let oracle = read(&testdata("cloudphysics/w92_cloudPhysicsIO.oracleGeneral.bin.zst"));
    let requests =
        |records: &[Record]| -> Vec<_> { records.iter().map(|record| (record.time_us, record.key.clone())).collect() };
    assert_eq!(requests(&csv), requests(&oracle));
    assert_eq!(csv.iter().filter(|record| record.kind == forebay_trace::Kind::Write).count(), 66_898);
    // The binary one has each object's first size throughout.
    let differ = csv.iter().zip(&oracle).filter(|(csv, oracle)| csv.size != oracle.size).count();
    assert_eq!(differ, 13_671);
}

#[test]
fn a_real_trace_survives_the_forebay_format() {
    let folder = tempfile::tempdir().unwrap();
    let records = read(&testdata("cloudphysics/w92_cloudPhysicsIO.csv.zst"));
    let path = folder.path().join("w92.fbt");
    let mut writer = fbt::Writer::create(std::fs::File::create(&path).unwrap(), 0).unwrap();
    records.iter().for_each(|record| writer.append(record).unwrap());
    writer.finish().unwrap();
    assert!(read(&path) == records);
    // About what the CSV takes under zstd's most thorough level.
    assert!(std::fs::metadata(&path).unwrap().len() < 600_000);

    let unnamed = folder.path().join("w92");
    std::fs::copy(&path, &unnamed).unwrap();
    assert!(read(&unnamed) == records, "recognised by its first bytes");
    let compressed = folder.path().join("W92.FBT.ZST");
    std::fs::write(&compressed, zstd::encode_all(&std::fs::read(&path).unwrap()[..], 1).unwrap()).unwrap();
    assert!(read(&compressed) == records, "compressed as a whole");
    assert!(fbt::Reader::open(&compressed).unwrap().map(Result::unwrap).eq(records));
}

#[test]
fn the_format_is_told_by_name_ending_or_first_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let keys = |records: forebay_trace::Records| -> Vec<_> { records.map(|record| record.unwrap().key).collect() };
    let number = TraceKey::Number;
    assert_eq!(keys(open(&put("a.BE32", &[0, 0, 0, 7]), None).unwrap()), [number(7)]);
    assert_eq!(keys(open(&put("a.be32", &[0, 0, 0, 7, 0, 0, 0, 8]), Some("BE64")).unwrap()), [number(7 << 32 | 8)]);
    assert_eq!(keys(open(&put("a.txt", b"# time, object, size\n0, 9, 1\n"), None).unwrap()), [number(9)]);
    let zstd = zstd::encode_all(&b"1 2 0 0\n"[..], 1).unwrap();
    assert_eq!(keys(open(&put("a.lis.zst", &zstd), None).unwrap()), [number(1), number(2)]);
    assert_eq!(keys(open(&put("b", &zstd), Some("arc")).unwrap()), [number(1), number(2)]);
    // A key that happens to look like the beginning of a zstd file is a key.
    assert_eq!(keys(open(&put("b.be32", &zstd[..4]), None).unwrap()), [number(0x28b5_2ffd)]);

    let error = open(&put("unknown", b"1 2 3 4\n"), None).err().unwrap();
    assert!(
        matches!(error, TraceError::UnknownFormat { .. }) && error.to_string().contains("oracleGeneral"),
        "{error}"
    );
    let error = open(&put("a.lis", b""), Some("arcs")).err().unwrap();
    assert!(matches!(error, TraceError::NoSuchFormat { .. }), "{error}");
    let error = open(&folder.path().join("missing.lis"), None).err().unwrap();
    assert!(matches!(error, TraceError::Open { .. }), "{error}");
    let error = open(&put("text.fbt", b"version,time,op,size,lbn\n"), None).err().unwrap();
    assert!(matches!(error, TraceError::Malformed { offset: 0, .. }), "{error}");
    assert!(open(&put("a.csv.zst", b"time,key\n0,1\n"), None).unwrap().next().unwrap().is_err(), "not compressed");
}

/// Every format, cut anywhere within compression or its own bytes: an error or fewer records, never a panic.
#[test]
fn cut_or_foreign_bytes_never_panic() {
    let noise: Vec<u8> = (0..4096_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for format in FORMATS {
        for length in (0..64).chain([511, 512, 513, 4096]) {
            let source = forebay_trace::Source::new(std::io::Cursor::new(noise[..length].to_vec()));
            if let Ok(records) = (format.open)(source) {
                let records: Vec<_> = records.collect();
                let errors = records.iter().filter(|record| record.is_err()).count();
                assert!(errors <= 1 && records.len() <= length + 1, "{} {length}", format.name);
            }
        }
    }
    let path = testdata("arc/OLTP-head.lis.zst");
    let whole = read(&path);
    let bytes = std::fs::read(&path).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("cut.lis.zst");
    for length in [0, 1, 3, 4, 5, 17, 1000, 30_000, bytes.len() - 1] {
        std::fs::write(&cut, &bytes[..length]).unwrap();
        let mut records: Vec<_> = open(&cut, None).unwrap().collect();
        let error = records.pop();
        // An empty file is an empty stream to zstd.
        assert!(matches!(error, Some(Err(TraceError::Truncated { .. }))) || length == 0, "{length}: {error:?}");
        let read: Vec<_> = records.into_iter().map(Result::unwrap).collect();
        assert!(read.len() < whole.len() + usize::from(length > 0) && whole.starts_with(&read), "{length}");
    }
}
