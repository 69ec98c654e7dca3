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
        ("adaptsize/request.tr.zst", [66_987, 36_815, 29_858], Some(278_854_232)),
        ("cachelib/short_bigcache_traces.csv.zst", [9_999, 3_125, 2_532], Some(4_046_636_725)),
        ("cloudphysics/w92_cloudPhysicsIO.txt.zst", [113_872, 48_974, 21_049], None),
        ("cloudphysics/w92_cloudPhysicsIO.vscsi.lcs.zst", [113_872, 48_974, 21_049], Some(2_029_769_728)),
        ("cloudphysics/w92_cloudPhysicsIO.vscsi.zst", [113_872, 48_974, 21_049], Some(2_029_769_728)),
        ("lirs/2_pools.trc.zst", [100_000, 9_939, 293], None),
        ("lirs/cpp.trc.zst", [9_047, 1_223, 939], None),
        ("lirs/loop.trc.zst", [505_500, 1_011, 0], None),
        ("lirs/multi3.trc.zst", [30_241, 7_454, 3_366], None),
        ("lirs/sprite.trc.zst", [133_996, 7_075, 1_437], None),
        ("mooncake/conversation_trace.jsonl.zst", [288_500, 182_790, 138_646], None),
        ("mqsim/tpcc-small.trace.zst", [20_669, 20_470, 20_306], None),
        ("mqsim/wsrch-small.trace.zst", [93_312, 93_029, 92_746], None),
        ("penalties/gcc_address_penalties.trace.zst", [515_683, 35_070, 21_334], None),
        ("snia_samples/tencent_block_cloud_storage-sample.csv.zst", [378_253, 348_239, 338_064], None),
        ("snia_samples/tencent_photo_cloud_photos-sample.txt.zst", [10_000, 9_694, 9_477], None),
        ("wikimedia/wiki_sampled_train.tsv.zst", [50_000, 38_398, 32_822], Some(1_241_998_264)),
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
    let misnamed = folder.path().join("w92.csv");
    std::fs::copy(&path, &misnamed).unwrap();
    assert!(read(&misnamed) == records, "also under another format's ending");
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
        matches!(error, TraceError::UnknownFormat { .. }) && error.to_string().contains("most likely are arc, "),
        "{error}"
    );
    let error = open(&put("a.lis", b"1 2 0 0\n"), Some("arcs")).err().unwrap();
    assert!(matches!(error, TraceError::NoSuchFormat { .. }), "{error}");
    let error = open(&folder.path().join("missing.lis"), None).err().unwrap();
    assert!(matches!(error, TraceError::Open { .. }), "{error}");
    let error = open(&put("text.fbt", b"version,time,op,size,lbn\n"), None).err().unwrap();
    assert!(matches!(error, TraceError::Malformed { offset: 0, .. }), "{error}");
    assert!(open(&put("a.csv.zst", b"time,key\n0,1\n"), None).unwrap().next().unwrap().is_err(), "not compressed");
}

/// Under names that say nothing, and under those that files in circulation have.
#[test]
fn binary_and_number_traces_are_told_by_their_content() {
    let folder = tempfile::tempdir().unwrap();
    for (name, renamed) in [
        ("cloudphysics/w92_cloudPhysicsIO.oracleGeneral.bin.zst", &["w92", "w92.oracleGeneral.sample10.zst"][..]),
        ("arc/OLTP-head.lis.zst", &["OLTP", "OLTP.txt.zst"]),
        ("lirs/sprite.trc.zst", &["sprite", "sprite.txt.zst"]),
    ] {
        let records = read(&testdata(name));
        for renamed in renamed {
            let path = folder.path().join(renamed);
            std::fs::copy(testdata(name), &path).unwrap();
            assert!(read(&path) == records, "{name} as {renamed}");
        }
    }
    // Neither the other binary formats nor numbers of another kind pass for them.
    for name in ["cache2k/web07.be32.zst", "corda/trace_vaultservice-head.be64.zst"] {
        let path = folder.path().join("unknown.zst");
        std::fs::copy(testdata(name), &path).unwrap();
        assert!(matches!(open(&path, None).err(), Some(TraceError::UnknownFormat { .. })), "{name}");
    }
    for text in ["1 2 3 4\n5 6 7 8\n9 1 2 3\n", "1 2 0 4\n1 2 0 3\n1 2 0 4\n", "1 0 0 1\n1 0 0 1\n1 0 0 1\n"] {
        let path = folder.path().join("unknown");
        std::fs::write(&path, text).unwrap();
        assert!(matches!(open(&path, None).err(), Some(TraceError::UnknownFormat { .. })), "{text}");
    }
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
    std::fs::write(&cut, b"").unwrap();
    assert!(matches!(open(&cut, None), Err(TraceError::Empty)));
    for length in [1, 3, 4, 5, 17, 1000, 30_000, bytes.len() - 1] {
        std::fs::write(&cut, &bytes[..length]).unwrap();
        let mut records: Vec<_> = open(&cut, None).unwrap().collect();
        let error = records.pop();
        assert!(matches!(error, Some(Err(TraceError::Cut { .. }))), "{length}: {error:?}");
        let read: Vec<_> = records.into_iter().map(Result::unwrap).collect();
        assert!(read.len() <= whole.len() && whole.starts_with(&read), "{length}");
    }
}

/// Whatever is cut says so with its place; with leniency what came before is read, and a warning says so.
#[test]
fn a_cut_file_is_an_error_or_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let number = |at: u32| at.wrapping_mul(2_654_435_761) >> 8;
    let lines = |line: fn(u32) -> String| (0..9000).map(|at| line(number(at))).collect::<String>().into_bytes();
    let vscsi = |at: u32| {
        let head = [[at, 512, 1].map(u32::to_le_bytes).concat(), vec![0x28, 0, 0, 1]].concat();
        [head, u64::from(number(at)).to_le_bytes().to_vec(), 7_u64.to_le_bytes().to_vec()].concat()
    };
    let binary: Vec<u8> = (0..9000).flat_map(|at| number(at).to_le_bytes()).collect();
    let plain = [
        ("a.trc", lines(|key| format!("{key}\n"))),
        ("a.csv", [b"time,key\n".to_vec(), lines(|key| format!("1,{key}\n"))].concat()),
        ("a.jsonl", lines(|key| format!("{{\"hash_ids\": [{key}]}}\n"))),
        ("a.vscsi", (0..9000).flat_map(vscsi).collect()),
        ("a.oracleGeneral", binary.clone()),
        ("a.be32", binary.clone()),
        ("a.be64", binary),
    ];
    let check = |name: &str, cut: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, cut).unwrap();
        let error = open(&path, None).unwrap().find_map(Result::err);
        assert!(matches!(error, Some(TraceError::Cut { .. })), "{name}: {error:?}");
        let options = forebay_trace::TraceOptions { lenient: true, ..Default::default() };
        let mut one_by_one = forebay_trace::open_with(&path, &options).unwrap();
        let read = one_by_one.by_ref().inspect(|record| assert!(record.is_ok(), "{name}")).count();
        let (mut together, mut batch) = (forebay_trace::open_with(&path, &options).unwrap(), Vec::new());
        let mut before = usize::MAX;
        while std::mem::replace(&mut before, batch.len()) != batch.len() {
            together.fill(&mut batch, 1000).unwrap();
        }
        assert_eq!(batch.len(), read, "{name}");
        let (mut of_keys, mut requests) = (forebay_trace::open_with(&path, &options).unwrap(), Vec::new());
        while of_keys.fill_requests(&mut requests, 1000).unwrap() {}
        assert!(requests.iter().copied().eq(batch.iter().filter_map(Record::request)), "{name}");
        assert_eq!(of_keys.warnings(), together.warnings(), "{name}");
        for warnings in [one_by_one.warnings(), together.warnings()] {
            assert!(warnings.len() == 1 && warnings[0].contains("cut short"), "{name}: {warnings:?}");
        }
        read
    };
    for (name, bytes) in plain {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, &bytes).unwrap();
        let packed = [(".gz", gzip.finish().unwrap()), (".zst", zstd::encode_all(&bytes[..], 1).unwrap())];
        for (ending, packed) in packed {
            let name = format!("{name}{ending}");
            let read = check(&name, &packed[..packed.len() * 3 / 4]);
            // So small a file is one block to zstd, whole or not there.
            assert!(read > 0 || ending == ".zst", "{name}");
            check(&name, &packed[..packed.len() - 1]);
        }
        if !["a.trc", "a.csv", "a.jsonl"].contains(&name) {
            assert!(check(name, &bytes[..bytes.len() - 3]) > 0, "{name}");
        }
    }
}

/// Requests and reads of traces that others have not counted keys in.
#[test]
fn hinted_and_sample_traces_are_read() {
    let Some(folder) = std::env::var_os("FOREBAY_TRACES").map(PathBuf::from) else {
        eprintln!("skipped: FOREBAY_TRACES does not name the folder of the large traces");
        return;
    };
    let reads = |name: &str| {
        let records = read(&folder.join(name));
        let reads = records.iter().filter(|record| record.kind == forebay_trace::Kind::Read).count();
        (records.len(), reads)
    };
    assert_eq!(reads("hinted/pgc_c90.htr.zst"), (1_093_922, 346_898));
    assert_eq!(reads("hinted/pgh_h90.htr.zst"), (405_310, 373_498));
    assert_eq!(reads("hinted/my_b28.htr.zst"), (903_626, 635_359));
    // Rows with a count stand for so many requests.
    assert_eq!(reads("cachelib/block_traces_1.csv.zst").0, 1_023);
    assert!(reads("cachelib/kv_traces_1.csv").0 > 99 && reads("cachelib/kv_traces_2.csv").0 > 99);
    assert!(reads("snia_samples/msr-cambridge1-sample.csv.zst").0 > 1_000);
    assert!(reads("snia_samples/systor17-traces-sample.csv.zst").0 > 999);
}

#[test]
fn gzip_is_read_and_what_is_malformed_can_be_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv.gz");
    let mut gzip = flate2::write::GzEncoder::new(std::fs::File::create(&path).unwrap(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, b"time,key,size\n1,a,7\n1,b\nx,c,1\n2,d,8\n").unwrap();
    gzip.finish().unwrap();
    let mut strict = open(&path, None).unwrap();
    assert!(strict.next().unwrap().is_ok());
    let error = strict.next().unwrap().unwrap_err().to_string();
    assert!(error.starts_with("line 3, column size: ") && error.contains("at byte 20"), "{error}");
    assert!(strict.next().is_none());
    let mut lenient =
        forebay_trace::open_with(&path, &forebay_trace::TraceOptions { lenient: true, ..Default::default() }).unwrap();
    let keys: Vec<_> = lenient.by_ref().map(|record| record.unwrap().key.to_bytes()).collect();
    assert_eq!((keys, lenient.skipped()), (vec!["a".into(), "d".into()], 2));
    let (mut of_keys, mut requests) = (
        forebay_trace::open_with(&path, &forebay_trace::TraceOptions { lenient: true, ..Default::default() }).unwrap(),
        vec![],
    );
    while of_keys.fill_requests(&mut requests, 10).unwrap() {}
    assert_eq!((requests.iter().map(|request| request.1).collect(), of_keys.skipped()), (vec![7, 8], 2));
    let mut strict = open(&path, None).unwrap();
    let told = strict.fill_requests(&mut requests, 10).unwrap_err().to_string();
    assert_eq!((told, requests.len()), (error, 3), "what came before an error is there");
    assert!(!strict.fill_requests(&mut requests, 10).unwrap(), "and nothing after it");
}

/// Whatever bytes a file has, every format reads them or says what is wrong: lines of logs with bytes that are changed,
/// cut out and put in.
#[test]
fn no_bytes_make_a_reader_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/logs");
    let mut state = 7_u64;
    let mut draw = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    const SIGNS: &[u8] = b"\"\\[]{}:,='$ \n\r\0\xff%-0;()";
    for file in std::fs::read_dir(folder).expect("it is there") {
        let path = file.expect("readable").path();
        if path.extension().is_some_and(|ending| ending == "gz") {
            continue;
        }
        let whole = std::fs::read(&path).expect("readable");
        for _ in 0..60 {
            let from = draw(whole.len());
            let mut bytes = whole[from..whole.len().min(from + 1500)].to_vec();
            for _ in 0..1 + draw(12) {
                let at = draw(bytes.len());
                match draw(3) {
                    0 => bytes[at] = SIGNS[draw(SIGNS.len())],
                    1 => bytes.insert(at, SIGNS[draw(SIGNS.len())]),
                    _ => drop(bytes.drain(at..(at + draw(40)).min(bytes.len()))),
                }
                if bytes.is_empty() {
                    bytes.push(b' ');
                }
            }
            for format in FORMATS {
                let mut source = forebay_trace::Source::new(std::io::Cursor::new(bytes.clone()));
                source.be_lenient();
                let Ok(records) = (format.open)(source) else { continue };
                let errors = records.take(5000).filter(Result::is_err).count();
                assert!(errors <= 1, "{}: {}", format.name, bytes.escape_ascii());
            }
            let _ = forebay_trace::open_bytes(
                Box::new(std::io::Cursor::new(bytes)),
                Path::new("unknown"),
                &forebay_trace::TraceOptions::default(),
            );
        }
    }
}
