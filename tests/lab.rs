//! The laboratory through the real binary: `sim`, `trace` and `graph`, over the small traces of `testdata/`.

mod common;
#[path = "lab/formats.rs"]
mod formats;
#[path = "lab/graphs.rs"]
mod graphs;
#[path = "lab/logs.rs"]
mod logs;

use std::fs;
use std::io::Write;

use common::lab::{Lab, MALFORMED, Row, rows, small, trace};
use serde_json::Value;

#[test]
fn every_form_shows_the_same_figures() {
    let lab = Lab::new();
    let name = lab.file("small.csv", &small());
    let line = ["sim", &name, "--policy", "lru,belady", "--size", "2,50%"];
    let text = lab.ok(&[&line[..], &["--format", "csv"]].concat());
    let header = "trace,policy,unit,size_given,size,requests,hits,hit_ratio,byte_hit_ratio,thr,unhelpful_keys,\
                  metadata_bytes,cpu_ns_per_request,bytes_requested,bytes_fetched";
    assert_eq!(text.lines().next(), Some(header));
    let rows = rows(&text);
    let cells: Vec<(&str, &str, &str)> =
        rows.iter().map(|row| (&*row["policy"], &*row["size_given"], &*row["size"])).collect();
    assert_eq!(cells, [("lru", "2", "2"), ("lru", "50%", "3"), ("belady", "2", "2"), ("belady", "50%", "3")]);
    // Of two places one is for the key that comes every second time: 19 of its 20 requests hit.
    assert_eq!((&*rows[0]["requests"], &*rows[0]["hits"], &*rows[0]["hit_ratio"]), ("40", "19", "0.475000"));
    // Keys of 100 bytes each, of which 21 requests had to fetch.
    assert_eq!((&*rows[0]["bytes_requested"], &*rows[0]["bytes_fetched"]), ("4000", "2100"));
    let json: Value = serde_json::from_str(&lab.ok(&[&line[..], &["--format", "json"]].concat())).expect("JSON");
    for (row, object) in rows.iter().zip(json.as_array().expect("an array")) {
        for (name, value) in row
            .iter()
            .filter(|(name, _)| ["policy", "size", "requests", "hits", "bytes_fetched"].contains(&name.as_str()))
        {
            let of_json = &object[name];
            let of_json = of_json.as_str().map_or_else(|| of_json.to_string(), str::to_owned);
            assert_eq!(of_json, *value, "{name}");
        }
    }
    let table = lab.ok(&line);
    assert!(table.starts_with("small.csv: 40 requests, hit ratio in % by size in objects\n"), "{table}");
    assert!(table.lines().any(|line| line.starts_with("lru ") && line.contains(" 47.50")), "{table}");
    let table = lab.ok(&["sim", &name, "--policy", "lru", "--size", "200", "--unit", "bytes"]);
    assert!(table.contains("\nbyte hit ratio in %, of 4000 bytes\n       200\nlru  47.50\n\n"), "{table}");
    // Without sizes there are no bytes.
    let row = &lab.csv(&["sim", &lab.file("bare.trc", "1\n2\n1\n"), "--policy", "lru", "--size", "2"])[0];
    assert_eq!((&*row["hits"], &*row["bytes_requested"], &*row["bytes_fetched"]), ("1", "", ""));
}

#[test]
fn a_report_stands_alone_and_trusts_no_name() {
    let lab = Lab::new();
    let name = lab.file("a<b>&'c\".csv", &small());
    let line = ["sim", &name, "--policy", "lru,arc,belady", "--size", "1,2,3", "--per-client", "--report", "out.html"];
    lab.file("out.html", "what was there before");
    let told = lab.ok(&line);
    assert_eq!(told, lab.ok(&line[..line.len() - 2]), "what is printed stays");
    let page = lab.read("out.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>") && page.contains("a&lt;b&gt;&amp;"));
    for part in ["<b>", "http:", "https:", "<script", "<link", "<img", "src=", "@import", "url("] {
        assert!(!page.contains(part), "{part}");
    }
    for part in ["Hit ratio by policy and size", "Clients, cache of 1", "In short", "All numbers", "How it was run"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.contains("<title>lru, 2: 47.50</title>") && page.contains("--per-client"), "{page}");
    // A curve, a heatmap, and one of the clients at each size; every tag that opens closes.
    assert_eq!((page.matches("<svg").count(), page.matches("</svg>").count()), (5, 5));
    for tag in ["g", "text", "table", "tr", "td", "figure", "section", "details"] {
        let opened = page.matches(&format!("<{tag} ")).count() + page.matches(&format!("<{tag}>")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    assert_eq!(fs::read_dir(lab.path()).expect("readable").count(), 2, "nothing else is left");
    let refused = lab.refused(2, &["sim", &name, "--report", "no/such/folder.html"]);
    assert!(refused.starts_with("can't write no/such/folder.html"), "{refused}");
    assert!(lab.refused(2, &["sim", &name, "--report", "."]).contains("is a folder"));
}

#[test]
fn reports_draw_transactions_hints_and_the_buyers_answer() {
    let lab = Lab::new();
    lab.ok(&["workload", "smallbank", "--transactions", "400", "--scale", "100", "--out", "bank.fbt"]);
    let line = ["sim", "bank.fbt", "--policy", "lru,detox", "--size", "10%,50%", "--report", "bank.html"];
    let told = lab.ok(&[&line[..], &["--at-thr", "0.99"]].concat());
    assert!(told.starts_with("bank.fbt: least memory for a transactional hit ratio of 99.00 %"), "{told}");
    let never = told.lines().filter(|line| line.contains(" never  (with all keys 49."));
    assert_eq!(never.count(), 2, "levels that write never hit: {told}");
    let page = lab.read("bank.html");
    for part in ["Transactions against objects", "round trips saved in %", "Levels of transactions, cache of 50%"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.contains("Least memory for a transactional hit ratio of 99.00 %") && page.contains(">never<"));
    let hinted = trace("hinted/pgc_c10-head.htr.zst");
    lab.ok(&["sim", &hinted, "--policy", "clic:window=10000,lru", "--size", "10%", "--report", "hints.html"]);
    let page = lab.read("hints.html");
    assert!(page.contains("Priorities of hint sets, clic:window=10000") && page.contains("reqtype=read"));
    assert!(page.contains("Hint sets worth most to clic:window=10000") && !page.contains("worth most to lru"));
}

#[test]
fn latencies_say_what_hits_are_worth() {
    let lab = Lab::new();
    let name = lab.file("small.csv", &small());
    let latencies = ["--cache-latency", "100us", "--store-latency", "1ms"];
    let columns = ["transactions", "round_trips", "round_trips_saved", "latency_us", "latency_without_cache_us"];
    let line = ["sim", &name, "--policy", "lru", "--size", "2"];
    let without = lab.ok(&[&line[..], &["--format", "csv"]].concat());
    assert!(columns.iter().all(|column| !without.contains(column)), "{without}");
    // Of 40 requests 19 hit; each asks the cache, 21 the store.
    let text = lab.ok(&[&line[..], &latencies, &["--format", "csv"]].concat());
    assert!(text.lines().next().is_some_and(|head| head.ends_with(&columns.join(","))), "{text}");
    let of = |row: &Row| columns.map(|column| row[column].clone());
    assert_eq!(of(&rows(&text)[0]), ["", "40", "19", "625.000", "1000.000"]);
    // Three transactions of two levels: of the second the first level is cached, of the third both.
    let levels = [(1, 0, "a"), (1, 1, "b"), (1, 1, "c"), (2, 0, "a"), (2, 1, "b"), (2, 1, "d")];
    let again = [(3, 0, "a"), (3, 1, "b"), (3, 1, "d")];
    let lines = levels.iter().chain(&again).map(|(txn, level, key)| format!("{key},{txn},{level}\n"));
    let bank = lab.file("bank.csv", &("key,txn,level\n".to_owned() + &lines.collect::<String>()));
    let line = [&["sim", &bank, "--policy", "lru,belady", "--size", "100%", "--optimum"][..], &latencies].concat();
    for row in lab.csv(&line) {
        assert_eq!(of(&row), ["3", "6", "3", "1200.000", "2000.000"], "{row:?}");
    }
    let json: Value = serde_json::from_str(&lab.ok(&[&line[..], &["--format", "json"]].concat())).expect("JSON");
    assert_eq!((json[0]["round_trips_saved"].as_u64(), json[0]["latency_us"].as_f64()), (Some(3), Some(1200.0)));
    let told = lab.ok(&[&line[..], &["--report", "bank.html"]].concat());
    assert!(
        told.contains("round trips saved, of 6\n") && told.contains("of a transaction in us; 2000 without"),
        "{told}"
    );
    let page = lab.read("bank.html");
    assert!(page.contains("Modelled latency") && page.contains("cache 100us, store 1ms in addition"), "{page}");
    let least = [&["sim", &bank, "--policy", "lru", "--at-thr", "0.5"][..], &latencies].concat();
    assert!(lab.ok(&least).contains(" 1200 us instead of 2000 us\n"), "{}", lab.ok(&least));
    // The server's own cache is judged by the same model.
    lab.ok(&["workload", "smallbank", "--transactions", "400", "--scale", "100", "--out", "bank.fbt"]);
    let like = [&["sim", "bank.fbt", "--policy", "lru", "--size", "50%", "--like-server"][..], &latencies].concat();
    let (code, table, said) = lab.run(&[&like[..], &["--format", "csv"]].concat());
    let warned = "forebay: bank.fbt: no record has a size or a charge: each value has 100 bytes\n";
    assert_eq!((code, said.as_str()), (Some(0), warned));
    let row = &rows(&table)[0];
    let [transactions, asked, saved, takes, without] = of(row).map(|figure| figure.parse::<f64>().expect("a number"));
    assert!(transactions == 400.0 && saved > 0.0 && asked > saved, "{row:?}");
    assert_eq!(row["thr"], format!("{:.6}", saved / asked));
    assert!((takes - (0.1 * asked + asked - saved) / 0.4).abs() < 0.001 && (without - asked / 0.4).abs() < 0.001);
}

#[test]
fn latencies_that_make_no_sense_are_refused() {
    let lab = Lab::new();
    let name = lab.file("small.csv", &small());
    for (given, why) in [
        ("5", "'5' has no unit: write 5us or 5ms (ns, us, ms or s)"),
        ("0ms", "'0ms': a latency is at least 1ns"),
        ("-3ms", "'-3ms': a latency is at least 1ns"),
        ("2h", "'2h': write a number and its unit (ns, us, ms or s), as in 150us or 0.5ms"),
        ("4000s", "'4000s': a latency is at most 3600s"),
    ] {
        for (wrong, sound) in [("--cache-latency", "--store-latency"), ("--store-latency", "--cache-latency")] {
            let (code, stdout, said) = lab.run(&["sim", &name, wrong, given, sound, "1ms"]);
            assert_eq!((code, &*stdout), (Some(2), ""), "{wrong} {given}");
            assert!(said.contains(why) && said.contains(wrong), "{wrong} {given}: {said}");
        }
    }
    let (code, _, said) = lab.run(&["sim", &name, "--cache-latency", "1ms"]);
    assert!(code == Some(2) && said.contains("--store-latency"), "{said}");
}

#[test]
fn sizes_reach_beyond_all_keys() {
    let lab = Lab::new();
    let name = lab.file("small.csv", &small());
    for (unit, sizes) in [("objects", "6,100%,200%,5000"), ("bytes", "600,100%,200%,1MiB")] {
        // Each of 6 keys misses once.
        for row in lab.csv(&["sim", &name, "--policy", "lru,s3-fifo,arc,detox,opt", "--size", sizes, "--unit", unit]) {
            let all_but_first = row["hits"].parse::<u64>().expect("a number");
            assert!(all_but_first <= 34 && (row["policy"] != "lru" || all_but_first == 34), "{row:?}");
        }
    }
    for (size, why) in [
        ("0", "give a share"),
        ("0%", "give a share"),
        ("-5", "give"),
        ("ten", "give"),
        ("64MiB", "that counts bytes"),
        ("", "give"),
    ] {
        let said = lab.refused(2, &["sim", &name, &format!("--size={size}")]);
        assert!(said.starts_with(&format!("size '{size}': {why}")), "{said}");
    }
}

#[test]
fn the_least_memory_is_found_or_said_not_to_exist() {
    let lab = Lab::new();
    let name = lab.file("small.csv", &small());
    let rows = lab.csv(&["sim", &name, "--policy", "lru,fifo", "--at-hit-ratio", "0.47"]);
    assert_eq!((&*rows[0]["policy"], &*rows[0]["size"]), ("lru", "2"));
    let text = lab.ok(&["sim", &name, "--policy", "lru,fifo", "--at-hit-ratio", "99%"]);
    assert_eq!(text.lines().filter(|line| line.ends_with("never  (with all keys 85.00 %)")).count(), 2, "{text}");
    let why = lab.refused(1, &["sim", &name, "--at-thr", "0.5"]);
    assert!(why.starts_with("small.csv: has no transactions"), "{why}");
}

#[test]
fn what_cannot_be_simulated_is_said_before_it_begins() {
    let lab = Lab::new();
    let name = lab.file("small.csv", &small());
    let why = lab.refused(2, &["sim", &name, "missing.csv"]);
    assert!(why.starts_with("missing.csv: No such file"), "{why}");
    assert_eq!(lab.refused(2, &["sim", "."]), ".: is a folder; name the traces in it");
    let why = lab.refused(2, &["sim", &name, "--policy", "lru,w-tinylfo"]);
    assert_eq!(why, "--policy: no policy 'w-tinylfo'; did you mean 'w-tinylfu'?");
    let why = lab.refused(2, &["sim", &name, "--policy", "mine"]);
    assert!(why.contains("choose one of lru, ") && why.ends_with(", belady, opt, transactional-belady"), "{why}");
    let why = lab.refused(2, &["sim", &name, "--policy", "2q:in=7"]);
    assert!(why.contains("2q") && why.contains("in"), "{why}");
    assert!(lab.refused(2, &["sim", &name, "--graphs", "none.toml"]).starts_with("none.toml: "));
    let empty = lab.file("empty.csv", "key\n");
    assert!(lab.refused(1, &["sim", &empty]).starts_with("empty.csv: no requests"));
    let odd = lab.file("odd.bin", "\0\u{1}\u{2}?");
    let why = lab.refused(1, &["sim", &odd]);
    assert!(
        why.starts_with("odd.bin: neither its name nor its first bytes tell its format; most likely are "),
        "{why}"
    );
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let lab = Lab::new();
    let name = trace("arc/OLTP-head.lis.zst");
    let policies = "lru,hyperbolic,lecar,cacheus,s3-fifo,belady";
    let line = ["sim", &name, "--policy", policies, "--size", "5%,20%"];
    let with = |more: &[&str]| {
        let mut rows = lab.csv(&[&line[..], more].concat());
        rows.iter_mut().for_each(|row| assert!(row.remove("cpu_ns_per_request").is_some()));
        rows
    };
    assert_eq!(with(&["--threads", "1"]), with(&["--threads", "3"]));
    let sampled = with(&["--sample", "0.2", "--seed", "7", "--estimate", "plain"]);
    assert!(sampled.iter().all(|row| row["hit_ratio_error"].parse::<f64>().is_ok_and(|error| error > 0.0)));
    assert_eq!(sampled, with(&["--sample", "0.2", "--seed", "7", "--estimate", "plain"]));
    assert_ne!(sampled, with(&["--sample", "0.2", "--seed", "8", "--estimate", "plain"]));
    // Policies that draw have it as their seed, and say so.
    let hits = |rows: &[Row], policy: &str| -> Vec<String> {
        rows.iter().filter(|row| row["policy"] == policy).map(|row| row["hits"].clone()).collect()
    };
    let (zero, seven) = (with(&[]), with(&["--seed", "7"]));
    let set = lab.csv(&["sim", &name, "--policy", "lecar:seed=7", "--size", "5%,20%"]);
    assert_eq!(hits(&seven, "lecar:seed=7"), hits(&set, "lecar:seed=7"));
    assert_ne!(hits(&zero, "lecar"), hits(&seven, "lecar:seed=7"));
    assert!(!hits(&zero, "lru").is_empty() && hits(&zero, "lru") == hits(&seven, "lru"));
    // A page differs in its times alone.
    let page = || {
        lab.ok(&["sim", &name, "--policy", "lru,arc", "--size", "5%", "--report", "a.html", "--quiet"]);
        let page = lab.read("a.html");
        let (head, tail) = page.split_once("CPU ns/request").expect("a column of times");
        let rows: Vec<&str> =
            tail.split("</tr>").map(|row| row.rsplit_once("<td").map_or(row, |cells| cells.0)).collect();
        (head.to_owned(), rows.join("\n"))
    };
    assert_eq!(page(), page());
}

/// Two traces of one name are two traces, and one that is named twice is one.
#[test]
fn traces_are_told_apart() {
    let lab = Lab::new();
    for folder in ["one", "two"] {
        fs::create_dir(lab.path().join(folder)).expect("made");
    }
    let paths = ["one/a.csv", "two/a.csv", "b.csv"].map(|name| lab.file(name, &small()));
    let line = ["sim", &paths[0], &paths[1], &paths[0], &paths[2], "--policy", "lru", "--size", "2"];
    let names = |rows: Vec<Row>| rows.into_iter().map(|row| row["trace"].clone()).collect::<Vec<_>>();
    assert_eq!(names(lab.csv(&line)), ["one/a.csv", "two/a.csv", "b.csv"]);
    assert_eq!(lab.ok(&line).matches("hit ratio in %").count(), 3);
    assert_eq!(lab.csv(&["sim", &paths[0], "--policy", "lru", "--size", "2"])[0]["trace"], "a.csv");
    let server = ["sim", &paths[0], &paths[1], "--like-server", "--policy", "lru", "--size", "1MiB"];
    assert_eq!(names(lab.csv(&server)), ["one/a.csv", "two/a.csv"]);
}

#[test]
fn the_least_memory_says_for_what_it_is_and_who_never_gets_there() {
    let lab = Lab::new();
    let name = lab.file("small.csv", &small());
    let given = |line: &[&str]| lab.csv(&[&["sim", &name, "--policy", "lru"], line].concat())[0]["size_given"].clone();
    assert_eq!(given(&["--at-hit-ratio", "40%"]), "hit ratio 0.4");
    assert_eq!(given(&["--at-hit-ratio", "0.4", "--unit", "bytes"]), "hit ratio 0.4");
    let (code, told, said) =
        lab.run(&["sim", &name, "--policy", "lru,arc", "--at-hit-ratio", "0.99", "--format", "json"]);
    let never = "forebay: small.csv: no row for what never has a hit ratio of 0.99: lru, arc\n";
    assert_eq!((code, told.trim(), said.as_str()), (Some(0), "[]", never));
}

/// A sample without the most popular key of a trace knows from the number of its requests that it has too few.
#[test]
fn a_sample_is_adjusted_by_the_requests_that_it_should_have() {
    let lab = Lab::new();
    let key = |at: usize| if at.is_multiple_of(2) { "hot".to_owned() } else { format!("k{}", at * 7919 % 8000) };
    let text: String = (0..20_000).map(|at| format!("{}\n", key(at))).collect();
    let name = lab.file("skewed.csv", &format!("key\n{text}"));
    let line = ["sim", &name, "--policy", "lru", "--size", "50%"];
    let of = |more: &[&str]| {
        let row = lab.csv(&[&line[..], more].concat()).remove(0);
        ["hit_ratio", "requests", "hits"].map(|column| row[column].parse::<f64>().expect("a number"))
    };
    let exact = of(&[])[0];
    for seed in ["0", "1", "2", "3"] {
        let sample = ["--sample", "0.2", "--seed", seed];
        let [ratio, requests, hits] = of(&sample);
        assert!((ratio - exact).abs() < 0.05, "seed {seed}: {ratio} instead of {exact}");
        assert!(requests == 4000.0 && (hits / requests - ratio).abs() < 1e-5, "seed {seed}: {hits} of {requests}");
        let [plain, requests, _] = of(&[&sample[..], &["--estimate", "plain"]].concat());
        assert!((plain - exact).abs() > 0.1 && requests != 4000.0, "seed {seed}: {plain} of {requests}");
    }
    assert!(lab.refused(2, &[&line[..], &["--estimate", "plain"]].concat()).contains("--estimate is for samples"));
}

#[test]
fn compressed_traces_are_read_as_they_are() {
    let lab = Lab::new();
    let plain = small();
    lab.file("plain.csv", &plain);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(plain.as_bytes()).expect("in memory");
    fs::write(lab.path().join("plain.csv.gz"), packed.finish().expect("in memory")).expect("written");
    // Also where the name does not say so.
    fs::copy(lab.path().join("plain.csv.gz"), lab.path().join("packed")).expect("copied");
    let figures = |name: &str| {
        let rows = lab.csv(&["sim", name, "--policy", "lru,arc", "--size", "2,4"]);
        rows.into_iter().map(|row| (row["policy"].clone(), row["hits"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(figures("plain.csv"), figures("plain.csv.gz"));
    assert_eq!(figures("plain.csv"), figures("packed"));
    let (zstd, fbt) = (trace("cloudphysics/w92_cloudPhysicsIO.csv.zst"), "w92.fbt");
    let told = lab.ok(&["trace", "convert", &zstd, fbt]);
    assert!(told.ends_with("records in w92.fbt\n"), "{told}");
    assert_eq!(figures(&zstd), figures(fbt));
}

#[test]
fn traces_are_mixed_and_noise_is_drawn_from_a_seed() {
    let lab = Lab::new();
    let name = lab.file("small.csv", &small());
    let hinted = trace("hinted/pgc_c10-head.htr.zst");
    assert_eq!(lab.ok(&["trace", "mix", &name, &hinted, "--out", "mixed.fbt"]), "80 records in mixed.fbt\n");
    let clients: Vec<String> = lab
        .csv(&["sim", "mixed.fbt", "--policy", "lru", "--size", "50%", "--per-client"])
        .into_iter()
        .map(|row| row["client"].clone())
        .collect();
    assert_eq!(clients.len(), 4, "all, two of the first trace and one of the second: {clients:?}");
    let noise = |seed: &str, out: &str| {
        lab.ok(&["trace", "noise", "mixed.fbt", "--types", "2", "--seed", seed, "--out", out]);
        fs::read(lab.path().join(out)).expect("written")
    };
    assert_eq!(noise("1", "a.fbt"), noise("1", "b.fbt"));
    assert_ne!(noise("1", "c.fbt"), noise("2", "d.fbt"));
    let told = lab.ok(&["trace", "describe", "a.fbt"]);
    assert!(told.contains("noise0") && told.contains("noise1"), "{told}");
}

#[test]
fn clients_have_transactions_of_their_own() {
    let lab = Lab::new();
    for (workload, scale) in [("smallbank", "300"), ("mix-a", "500")] {
        let out = format!("{workload}.fbt");
        lab.ok(&["workload", workload, "--transactions", "2000", "--scale", scale, "--out", &out]);
    }
    lab.ok(&["trace", "mix", "smallbank.fbt", "mix-a.fbt", "--out", "mixed.fbt"]);
    let latencies = ["--cache-latency", "100us", "--store-latency", "1ms"];
    let line = ["sim", "mixed.fbt", "--policy", "lru,detox", "--size", "20%", "--per-client"];
    let rows = lab.csv(&[&line[..], &latencies].concat());
    assert_eq!(rows.len(), 6);
    for of_policy in rows.chunks(3) {
        let of = |name: &str| of_policy.iter().map(|row| row[name].parse::<f64>().expect(name)).collect::<Vec<_>>();
        for name in ["requests", "transactions", "round_trips", "round_trips_saved", "unhelpful_keys"] {
            let figures = of(name);
            assert!(
                figures[1] > 0.0 && figures[2] > 0.0 && figures[0] == figures[1] + figures[2],
                "{name}: {figures:?}"
            );
        }
        let (thr, saved, asked) = (of("thr"), of("round_trips_saved"), of("round_trips"));
        assert!((0..3).all(|at| (thr[at] - saved[at] / asked[at]).abs() < 1e-6) && thr[1] != thr[2], "{thr:?}");
        assert!(of("latency_us")[1] != of("latency_us")[2]);
    }
    let json: Value = serde_json::from_str(&lab.ok(&[&line[..], &["--format", "json"]].concat())).expect("JSON");
    let levels = |at: usize| json[at]["levels"][0]["levels"].as_u64().expect("a number");
    assert_eq!(levels(0), levels(1) + levels(2));
    let table = lab.ok(&[&line[..], &latencies].concat());
    let of_clients = table.split_once("\nclient 1: ").expect("clients").1;
    assert_eq!(of_clients.matches("transactional hit ratio in %").count(), 2, "{table}");
    assert_eq!(of_clients.matches("modelled latency of a transaction").count(), 2, "{table}");
}

/// What is fetched ahead is moved, too, but not twice what is asked for while it is on its way.
#[test]
fn bytes_fetched_ahead_are_counted() {
    let lab = Lab::new();
    let lines = (0..600).flat_map(|txn| {
        let key = txn * 7 % 20;
        [(0, key), (1, 100 + key), (2, 200 + key)]
            .map(|(level, key)| format!("{key},100,{txn},{level}\n", txn = txn + 1))
    });
    let name = lab.file("ahead.csv", &("key,size,txn,level\n".to_owned() + &lines.collect::<String>()));
    for size in ["5", "30", "45"] {
        let row = &lab.csv(&["sim", &name, "--policy", "lru", "--size", size, "--prefetch", "chrono"])[0];
        let of = |name: &str| row[name].parse::<u64>().expect(name);
        assert!(of("prefetch_issued") > 0, "{row:?}");
        let fetched = of("requests") - of("hits") + of("prefetch_issued") - of("prefetch_late");
        assert_eq!((of("bytes_requested"), of("bytes_fetched")), (180_000, 100 * fetched), "{row:?}");
        assert!(of("prefetch_bytes") > 0 && of("prefetch_bytes") < of("metadata_bytes"), "{row:?}");
    }
    // What is learned for it is charged: 60 keys take 6,000 bytes, of which it has a sixteenth.
    let line = ["sim", &name, "--policy", "lru", "--size", "6000", "--unit", "bytes"];
    assert_eq!(lab.csv(&line)[0]["hits"], "1740");
    let row = &lab.csv(&[&line[..], &["--prefetch", "chrono"]].concat())[0];
    assert!(row["prefetch_bytes"].parse::<u64>().is_ok_and(|bytes| bytes <= 6000 / 16), "{row:?}");
    assert!(row["hits"].parse::<u64>().is_ok_and(|hits| hits < 1740), "the cache has the rest: {row:?}");
}

#[test]
fn help_teaches() {
    let lab = Lab::new();
    let help = lab.ok(&["sim", "--help"]);
    for word in
        ["--report oltp.html", "clic-g", "belady", "--at-thr", "CACHE TRACE START", "of the unique keys", "latency_us"]
    {
        assert!(help.contains(word), "{word}: {help}");
    }
    let help = lab.ok(&["graph", "--help"]);
    assert!(help.contains("@transaction") && help.contains("[[type.vertex]]"), "{help}");
    let (code, _, said) = lab.run(&["sim"]);
    assert!(code == Some(2) && said.contains("<TRACE>"), "{said}");
}
