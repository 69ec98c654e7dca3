//! What is read of traces, written of them, and said of what is wrong with them.

use super::*;

#[test]
fn malformed_records_are_named_or_passed_over() {
    let lab = Lab::new();
    let bad = lab.file("bad.csv", MALFORMED);
    let why = "bad.csv: line 4, column size: 'lots' is not a decimal number below 2^64 (at byte 28); ";
    for line in [
        &["sim", &bad][..],
        &["trace", "describe", &bad],
        &["trace", "convert", &bad, "out.fbt"],
        &["trace", "convert", &bad, "out.csv"],
        &["trace", "noise", &bad, "--types", "1", "--out", "out.fbt"],
    ] {
        assert!(lab.refused(1, line).starts_with(why), "{line:?}");
        let (code, _, said) = lab.run(&[line, &["--lenient"]].concat());
        let passed_over = "forebay: 1 malformed record was passed over: line 4, column size: 'lots' is not a decimal \
                           number below 2^64\n";
        assert_eq!((code, said.as_str()), (Some(0), passed_over), "{line:?}");
        let _ = fs::remove_file(lab.path().join("out.fbt"));
        let _ = fs::remove_file(lab.path().join("out.csv"));
    }
    // Of several traces the one that is malformed is named, and nothing half made is left.
    let good = lab.file("good.csv", &small());
    assert!(lab.refused(1, &["trace", "mix", &good, &bad, "--out", "mixed.fbt"]).starts_with(why));
    assert_eq!(fs::read_dir(lab.path()).expect("readable").count(), 2);
    let (_, table, said) =
        lab.run(&["sim", &bad, "--lenient", "--policy", "lru", "--size", "100%", "--report", "bad.html"]);
    assert!(
        said.contains("1 malformed record was passed over: line 4") && table.contains("bad.csv: 3 requests"),
        "{table}"
    );
    assert!(lab.read("bad.html").contains("malformed records passed over: 1"));
    fs::write(lab.path().join("cut.be32"), [0, 0, 0, 1, 0, 0, 0, 1, 0, 0]).expect("written");
    let line = ["sim", "cut.be32", "--policy", "lru", "--size", "1", "--format", "csv"];
    let why = lab.refused(1, &line);
    assert!(why.starts_with("cut.be32: byte 10 (after decompression): the trace is cut short"), "{why}");
    let (code, table, said) = lab.run(&[&line[..], &["--lenient"]].concat());
    let warned =
        "forebay: cut.be32: byte 10: the trace is cut short (in the middle of a record); only what came before";
    assert!(code == Some(0) && said.starts_with(warned), "{said}");
    let rows = rows(&table);
    assert_eq!((&*rows[0]["requests"], &*rows[0]["hits"]), ("2", "1"), "what is whole was read");
}

/// What is cut is never taken for the whole; a recording whose writer was killed is read so far, and that is told.
#[test]
fn cut_traces_are_told() {
    let lab = Lab::new();
    let keys: String = (0..5000_u32).map(|at| format!("{}\n", at.wrapping_mul(2_654_435_761) >> 8)).collect();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(keys.as_bytes()).expect("in memory");
    let packed = packed.finish().expect("in memory");
    fs::write(lab.path().join("keys.trc.gz"), &packed[..packed.len() / 2]).expect("written");
    lab.ok(&["workload", "smallbank", "--transactions", "9000", "--scale", "300", "--out", "whole.fbt"]);
    let whole = fs::read(lab.path().join("whole.fbt")).expect("written");
    fs::write(lab.path().join("killed.fbt"), &whole[..whole.len() - 30]).expect("written");
    for (at, line) in [
        &["sim", "keys.trc.gz", "--policy", "lru"][..],
        &["trace", "describe", "keys.trc.gz"],
        &["trace", "convert", "keys.trc.gz", "out.fbt"],
        &["trace", "convert", "keys.trc.gz", "out.csv"],
        &["trace", "noise", "keys.trc.gz", "--types", "1", "--out", "noisy.fbt"],
    ]
    .iter()
    .enumerate()
    {
        let why = lab.refused(1, line);
        assert!(why.starts_with("keys.trc.gz: byte ") && why.contains("in the middle of its compression"), "{why}");
        let (code, told, said) = lab.run(&[line, &["--lenient"][..]].concat());
        let warned = said.lines().count() == 1 && said.contains("keys.trc.gz: byte ") && said.contains("cut short");
        assert!(code == Some(0) && !told.is_empty() && warned, "{at}: {said}");
    }
    for line in [
        &["sim", "killed.fbt", "--policy", "lru"][..],
        &["sim", "killed.fbt", "--policy", "lru", "--like-server", "--size", "1MiB"],
        &["trace", "describe", "killed.fbt"],
        &["trace", "convert", "killed.fbt", "again.fbt"],
    ] {
        let (code, told, said) = lab.run(line);
        let warned = said.contains("killed.fbt: byte ") && said.contains("cut short");
        assert!(code == Some(0) && !told.is_empty() && warned, "{line:?}: {said}");
    }
}

#[test]
fn traces_are_described_and_converted() {
    let lab = Lab::new();
    let name = lab.file("small.csv", &small());
    let about = |name: &str| {
        let text = lab.ok(&["trace", "describe", name]);
        let value = |of: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(of)).unwrap_or_else(|| panic!("{of}: {text}"));
            line.trim().to_owned()
        };
        ["requests", "unique keys", "footprint", "clients"].map(value)
    };
    assert_eq!(about(&name), ["40", "6", "600 bytes", "2"]);
    assert_eq!(lab.ok(&["trace", "convert", &name, "small.fbt"]), "40 records in small.fbt\n");
    assert_eq!(lab.ok(&["trace", "convert", "small.fbt", "again.csv"]), "40 requests in again.csv\n");
    assert_eq!((about("small.fbt"), about("again.csv")), (about(&name), about(&name)));
    let why = lab.refused(2, &["trace", "convert", &name, "again.csv"]);
    assert!(why.starts_with("again.csv exists; choose"), "{why}");
    assert!(lab.refused(2, &["trace", "describe", "missing.csv"]).contains("missing.csv"));
    let hinted = lab.ok(&["trace", "describe", &trace("hinted/pgc_c10-head.htr.zst")]);
    assert!(hinted.contains("distinct hint sets") && hinted.contains("reqtype"), "{hinted}");
}

/// What policies learn from the ends of transactions they learn from CSV as well, with or without its column.
#[test]
fn transactions_end_in_every_format() {
    let lab = Lab::new();
    lab.ok(&["workload", "mix-a", "--transactions", "6000", "--scale", "1000", "--out", "ma.fbt"]);
    let figures = |name: &str| {
        let line = ["sim", name, "--policy", "lru,detox", "--size", "25%", "--writes", "update", "--warmup", "50%"];
        let figure = |row: &Row| (row["policy"].clone(), row["thr"].clone(), row["hits"].clone());
        lab.csv(&line).iter().map(figure).collect::<Vec<_>>()
    };
    let transactions = |name: &str| {
        let text = lab.ok(&["trace", "describe", name]);
        text.lines().find_map(|line| line.strip_prefix("transactions")).expect("a line").trim().to_owned()
    };
    let (code, told, said) = lab.run(&["trace", "convert", "ma.fbt", "ma.csv"]);
    assert_eq!((code, told.ends_with("requests in ma.csv\n")), (Some(0), true), "{told}");
    assert!(said.contains("leaves out") && said.contains("names of transaction types"), "{said}");
    // Likewise without the column that says when a transaction ends.
    let without = |line: &str| format!("{}\n", line.rsplit_once(',').expect("columns").0);
    lab.file("bare.csv", &lab.read("ma.csv").lines().map(without).collect::<String>());
    let expected = figures("ma.fbt");
    let thr = |at: usize| expected[at].1.parse::<f64>().expect("a number");
    assert!(thr(1) > 1.2 * thr(0), "whole transactions are worth more: {expected:?}");
    assert_eq!((figures("ma.csv"), figures("bare.csv")), (expected.clone(), expected));
    for name in ["ma.fbt", "ma.csv", "bare.csv"] {
        assert_eq!(transactions(name), "6000 (6000 committed, 0 aborted)", "{name}");
    }
    lab.file("llm.jsonl", "{\"hash_ids\": [1, 2]}\n{\"hash_ids\": [2, 3]}\n");
    assert_eq!(transactions("llm.jsonl"), "2 (2 committed, 0 aborted)");
}

/// As programs for tables write it: with a byte order mark, names of clients, and names of types that graphs know.
#[test]
fn clients_and_types_have_names_in_csv() {
    let lab = Lab::new();
    let text = "1,alice,Transfer,a\n1,alice,Transfer,b\n2,bob,Transfer,a\n2,bob,Transfer,b\n";
    let named = lab.file("named.csv", &format!("\u{feff}txn,client,txn_type,key\n{text}"));
    let (_, told, said) =
        lab.run(&["sim", &named, "--policy", "lru", "--size", "2", "--per-client", "--format", "csv"]);
    assert_eq!(said, "forebay: named.csv: clients have numbers: alice is 1, bob is 2\n");
    let clients: Vec<String> = rows(&told).into_iter().map(|row| row["client"].clone()).collect();
    assert_eq!(clients, ["", "1", "2"]);
    assert_eq!(lab.run(&["trace", "convert", &named, "named.fbt"]).0, Some(0));
    let told = lab.run(&["trace", "convert", "named.fbt", "again.csv"]).2;
    assert!(told.contains("names of transaction types"), "the name was there: {told}");
}

/// A trace of nothing is no trace, whoever reads it, and leaves no file.
#[test]
fn empty_traces_are_no_traces() {
    let lab = Lab::new();
    for (name, text, why) in [
        ("header.csv", "key,size\n", "no requests"),
        ("nothing.csv", "", "the file is empty"),
        ("nothing.be32", "", "the file is empty"),
        ("nothing", "", "the file is empty"),
        ("wrong.csv", "key,size\na,x\nb,y\n", "no requests"),
    ] {
        let trace = lab.file(name, text);
        for line in [
            &["sim", &trace, "--policy", "lru"][..],
            &["sim", &trace, "--policy", "lru", "--like-server"],
            &["trace", "describe", &trace],
            &["trace", "convert", &trace, "out.fbt"],
            &["trace", "convert", &trace, "out.csv"],
            &["trace", "noise", &trace, "--types", "1", "--out", "noisy.fbt"],
        ] {
            let lenient: &[&str] = if name == "wrong.csv" { &["--lenient"] } else { &[] };
            let (code, told, said) = lab.run(&[line, lenient].concat());
            let named = format!("forebay: {name}: {why}");
            assert!(code == Some(1) && told.is_empty() && said.contains(&named), "{line:?}: {said}");
            assert_eq!(said.contains("2 malformed records were passed over"), name == "wrong.csv", "{said}");
        }
    }
    assert_eq!(fs::read_dir(lab.path()).expect("readable").count(), 5, "nothing half made is left");
    let one = lab.file("one.trc", "1\n");
    let (code, _, said) = lab.run(&["trace", "mix", &one, "header.csv", "--out", "mixed.fbt"]);
    assert!(code == Some(1) && said.starts_with("forebay: header.csv: no requests in it"), "{said}");
    let once = lab.file("once.trc", "1\n2\n3\n4\n");
    assert!(lab.ok(&["trace", "describe", &once]).contains("Zipf exponent about 0.00"));
}

/// What CSV cannot hold is told, and no name says something else than what the file holds.
#[test]
fn what_is_written_is_what_its_name_says() {
    let lab = Lab::new();
    let hinted = trace("hinted/pgc_c10-head.htr.zst");
    let (code, told, said) = lab.run(&["trace", "convert", &hinted, "hints.csv"]);
    assert!(code == Some(0) && told.ends_with("requests in hints.csv\n"), "{told}");
    let expected =
        "forebay: hints.csv leaves out what CSV has no place for: types and values of hints (numbers of hint";
    assert!(said.starts_with(expected) && said.lines().count() == 1, "{said}");
    for (out, ending) in [("a.csv", ".csv"), ("a.CSV.gz", ".gz"), ("a.fbt.zst", ".zst"), ("a.trc", ".trc")] {
        for line in [
            &["trace", "noise", &hinted, "--types", "1", "--out", out][..],
            &["trace", "mix", &hinted, &hinted, "--out", out],
            &["workload", "smallbank", "--transactions", "1", "--scale", "30", "--out", out],
        ] {
            let why = lab.refused(2, line);
            assert!(why.starts_with(&format!("{out} ends in {ending}, and forebay's own")), "{why}");
        }
        if ending != ".csv" {
            assert!(lab.refused(2, &["trace", "convert", &hinted, out]).contains("name it .fbt"));
        }
    }
    lab.ok(&["trace", "convert", &hinted, "no-ending"]);
    assert!(lab.ok(&["trace", "describe", "no-ending"]).contains("distinct hint sets"), "its content says what it is");
}

/// Bytes are counted only where sizes are known, and what counts as 1 byte is told.
#[test]
fn unknown_sizes_are_told() {
    let lab = Lab::new();
    let bare = lab.file("bare.trc", "1\n2\n3\n1\n");
    for more in [&["--size", "64KiB"][..], &["--at-hit-ratio", "0.1"]] {
        let why = lab.refused(1, &[&["sim", &bare, "--policy", "lru", "--unit", "bytes"][..], more].concat());
        assert!(why.starts_with("bare.trc: no key has a size, so bytes cannot be counted: leave out"), "{why}");
    }
    lab.ok(&["sim", &bare, "--policy", "lru", "--size", "2", "--report", "bare.html"]);
    assert!(lab.read("bare.html").contains("footprint not known: no key has a size"));
    let told = lab.ok(&["trace", "describe", &bare]);
    assert!(told.contains("not known: no key has a size") && !told.contains("bytes asked for"), "{told}");
    let some = lab.file("some.csv", "key,size\na,700\nb,\na,700\n");
    let (code, _, said) = lab.run(&["sim", &some, "--policy", "lru", "--unit", "bytes", "--size", "1KiB"]);
    let warned = "forebay: some.csv: 1 of 2 keys come without a size and count as 1 byte each\n";
    assert_eq!((code, said.as_str()), (Some(0), warned));
    let told = lab.ok(&["trace", "describe", &some]);
    assert!(told.contains("700 bytes, without 1 keys that have no size"), "{told}");
}

/// As spreadsheets and other programs write CSV: dates, quotes, semicolons or tabs, operations of memcached.
#[test]
fn csv_is_read_as_programs_write_it() {
    let lab = Lab::new();
    let rows =
        "time,key,size,op\n0,\"a,b\",10,gets\n60,\"say \"\"yes\"\"\",20,cas\n120.5, c ,30,incr\n180,\" d\",5,get\n";
    let plain = lab.file("plain.csv", rows);
    let dates = ["2026-01-31T12:00:00Z", "2026-01-31 12:01:00", "2026-01-31T13:02:00.5+01:00", "2026-01-31 12:03 UTC"];
    let dated = ["0,", "60,", "120.5,", "180,"].iter().zip(dates).fold(rows.to_owned(), |text, (seconds, date)| {
        text.replacen(&format!("\n{seconds}"), &format!("\n\"{date}\","), 1)
    });
    let apart = |between: &str| {
        let lines = ["time,key,size,op", "0,\"a,b\",10,gets", "60,\"say \"\"yes\"\"\",20,cas", "120.5,c,30,incr"];
        let swap = |line: &&str| line.replace("a,b", "a@b").replace(',', between).replace("a@b", "a,b");
        let text: String = lines.iter().map(|line| swap(line) + "\n").collect();
        text + &["180", "\" d\"", "5", "get\n"].join(between)
    };
    let again = |name: &str, text: &str| {
        let (from, to) = (lab.file(name, text), format!("again-{name}"));
        assert_eq!(lab.ok(&["trace", "convert", &from, &to]), format!("4 requests in {to}\n"));
        lab.read(&to)
    };
    let keys = |text: &str| -> Vec<String> {
        text.lines().skip(1).map(|line| line.split(',').skip(1).collect::<Vec<_>>().join(",")).collect()
    };
    let expected = again("first.csv", rows);
    assert!(expected.contains("120.500000,write,c,30,") && expected.contains("read,\"a,b\",10,"), "{expected}");
    assert!(expected.contains(",\"say \"\"yes\"\"\",20,") || expected.contains(",say \"yes\",20,"), "{expected}");
    assert!(expected.contains("read,\" d\",5,"), "{expected}");
    assert_eq!(again("twice.csv", &expected), expected);
    for (name, text) in [("semicolons.csv", apart(";")), ("tabs.csv", apart("\t"))] {
        assert_eq!(again(name, &text), expected, "{text}");
    }
    let dated = again("dated.csv", &dated);
    assert_eq!(keys(&dated), keys(&expected));
    let seconds =
        |line: usize| dated.lines().nth(line).and_then(|line| line.split(',').next()).expect("a time").to_owned();
    assert_eq!([1, 2, 3, 4].map(seconds), ["1769860800", "1769860860", "1769860920.5", "1769860980"].map(padded));
    assert_eq!(lab.csv(&["sim", &plain, "--policy", "lru", "--size", "4"])[0]["requests"], "4");
    let tabs = lab.file("mine.tsv", "key\tsize\na\t3\nb\t\n");
    assert!(lab.ok(&["trace", "describe", &tabs]).contains("unique keys              2"), "not Wikimedia's");
    let odd = lab.file("odd.csv", "log_time;command_tag;cache_key;bytes;size\n1;GET;a;3;x\n2;SET;b;4;y\n");
    let why = lab.refused(1, &["trace", "describe", &odd]);
    assert!(why.contains("as docs/trace-format.md has them"), "{why}");
    let columns = ["--columns", "key=cache_key,size=Bytes,op=command_tag,time=log_time"];
    let told = lab.ok(&[&["trace", "describe", &odd][..], &columns].concat());
    for line in ["reads                    1 (50.0 %)", "footprint                7 bytes", "1.000 s to 2.000 s"] {
        assert!(told.contains(line), "{told}");
    }
    assert_eq!(lab.csv(&[&["sim", &odd, "--policy", "lru", "--size", "4"][..], &columns].concat())[0]["requests"], "2");
    let why = lab.refused(1, &["sim", &odd, "--columns", "key=cachekey"]);
    assert!(why.contains("the column 'cachekey' that --columns names"), "{why}");
    let large = lab.file("large.csv", "key,size\na,4294967295\nb,4294967296\n");
    let why = lab.refused(1, &["trace", "describe", &large]);
    assert!(why.contains("line 3, column size: '4294967296' is not a size in bytes below 2^32, 4 GiB"), "{why}");
}

/// Seconds as they are written: with six decimals.
fn padded(seconds: &str) -> String {
    let (whole, decimals) = seconds.split_once('.').unwrap_or((seconds, ""));
    format!("{whole}.{decimals:0<6}")
}
