//! What the laboratory does not say: figures without meaning, options without effect, output that nobody gets.

mod common;

use std::fs;

use common::lab::{Lab, MALFORMED, Row, rows, small, trace};
use common::process::forebay_command;

#[test]
fn what_would_have_no_effect_is_refused() {
    let lab = Lab::new();
    let name = lab.file("small.csv", &small());
    let refused = |code: i32, more: &[&str], why: &str| {
        let said = lab.refused(code, &[&["sim", &name][..], more].concat());
        assert!(said.contains(why), "{more:?}: {said}");
    };
    refused(2, &["--policy", "belady:x=1"], "--policy 'belady:x=1': policy belady: no parameter 'x'; it has none");
    for goal in [["--at-hit-ratio", "0.4"], ["--at-thr", "0.4"]] {
        for (more, option) in [(&["--size", "10%"][..], "--size"), (&["--per-client"], "--per-client")] {
            refused(2, &[&goal[..], more].concat(), &format!("leave out {option}, which only a page (--report)"));
        }
    }
    lab.ok(&["sim", &name, "--policy", "lru", "--at-hit-ratio", "0.4", "--size", "50%", "--report", "a.html"]);
    refused(1, &["--prefetch", "chrono"], "small.csv: has no transactions, so nothing is fetched ahead");
    refused(1, &["--partition", "1=0.5,7=0.2"], "no client 7 asks for anything; there are 1, 2");
    refused(1, &["--hint-types", "pool"], "small.csv: no hint type 'pool'; it has none");
    for (option, value, why) in [
        ("--types", "100", "give a number from 1 to 8"),
        ("--types", "0", "give a number from 1 to 8"),
        ("--domain", "0", "give a number from 1 to 10000"),
        ("--zipf", "NaN", "give a number from 0, by which all values are as frequent, to 100"),
    ] {
        let types = if option == "--types" { &[][..] } else { &["--types", "2"] };
        let line = [&["trace", "noise", &name, "--out", "no.fbt", option, value][..], types].concat();
        let (code, _, said) = lab.run(&line);
        assert!(code == Some(2) && said.contains(why), "{option} {value}: {said}");
    }
}

#[test]
fn hint_types_are_named_as_the_trace_has_them() {
    let lab = Lab::new();
    let hinted = trace("hinted/pgc_c10-head.htr.zst");
    lab.ok(&["trace", "mix", &hinted, &hinted, "--out", "mixed.fbt"]);
    let line = ["sim", "mixed.fbt", "--policy", "clic-g", "--size", "10%", "--hint-types"];
    lab.ok(&[&line[..], &["1.reqtype, 2.reqtype"]].concat());
    let said = lab.refused(1, &[&line[..], &["1.reqtype,reqtype"]].concat());
    assert!(said.starts_with("mixed.fbt: no hint type 'reqtype'; it has 1.") && said.contains("2.reqtype"), "{said}");
}

#[test]
fn graphs_find_the_types_of_mixed_traces() {
    let lab = Lab::new();
    let bank = ["workload", "smallbank", "--transactions", "3000", "--scale", "2000", "--out", "bank.fbt"];
    lab.ok(&[&bank[..], &["--graphs", "bank.toml"]].concat());
    lab.ok(&["workload", "mix-a", "--transactions", "3000", "--scale", "2000", "--out", "mix-a.fbt"]);
    lab.ok(&["trace", "mix", "bank.fbt", "mix-a.fbt", "--out", "mixed.fbt"]);
    let sim = ["sim", "mixed.fbt", "--policy", "lru", "--size", "25%", "--prefetch", "detox", "--format", "csv"];
    let line = [&sim[..], &["--graphs"]].concat();
    let without = rows(&lab.ok(&sim));
    let (code, with, said) = lab.run(&[&line[..], &["bank.toml"]].concat());
    // A graph tells which account brings which balance; without one, two accounts bring another level each time.
    let unused = |row: &Row| row["prefetch_unused"].parse::<u64>().expect("a number");
    assert!(unused(&rows(&with)[0]) * 10 < unused(&without[0]), "{with}");
    assert_eq!((code, &*said), (Some(0), ""));
    let some = lab.read("bank.toml") + "\n[[type]]\nname = 'Gone'\n[[type.vertex]]\nname = 'a'\n";
    lab.file("some.toml", &some);
    let (code, also, said) = lab.run(&[&line[..], &["some.toml"]].concat());
    assert_eq!((code, unused(&rows(&also)[0])), (Some(0), unused(&rows(&with)[0])));
    assert_eq!(said, "forebay: mixed.fbt: --graphs: no transactions of type Gone; these graphs have no effect\n");
    for more in [&["--policy", "lru"][..], &["--policy", "lru", "--like-server", "--size", "1MiB"]] {
        lab.file("none.toml", "[[type]]\nname = 'Gone'\n[[type.vertex]]\nname = 'a'\n");
        let said = lab.refused(1, &[&["sim", "bank.fbt", "--graphs", "none.toml"], more].concat());
        assert!(said.starts_with("bank.fbt: --graphs: no transactions of type Gone; it has "), "{said}");
        assert!(said.contains("Amalgamate"), "{said}");
    }
}

#[test]
fn a_sample_says_nothing_that_it_does_not_know() {
    let lab = Lab::new();
    let few = lab.refused(1, &["sim", &trace("lirs/sprite.trc.zst"), "--policy", "lru", "--sample", "0.0001"]);
    assert!(few.contains("too few to say anything (sample_keys_min 256)"), "{few}");
    lab.ok(&["workload", "smallbank", "--transactions", "3000", "--scale", "2000", "--out", "bank.fbt"]);
    let line = ["sim", "bank.fbt", "--policy", "lru", "--size", "50%"];
    assert!(lab.ok(&line).contains("transactional hit ratio"));
    let (code, table, said) = lab.run(&[&line[..], &["--sample", "0.3"]].concat());
    assert!(code == Some(0) && table.contains("+-") && !table.contains("transactional"), "{table}");
    assert!(said.starts_with("forebay: bank.fbt: no transactional hit ratios: a sample of keys has"), "{said}");
    let both = lab.refused(2, &["sim", "bank.fbt", "--at-thr", "0.5", "--sample", "0.3"]);
    assert!(both.starts_with("--at-thr needs all keys"), "{both}");
    let latencies = ["--cache-latency", "1us", "--store-latency", "1ms", "--sample", "0.3"];
    assert!(lab.refused(1, &[&line[..], &latencies].concat()).contains("latencies are those of whole transactions"));
}

#[test]
fn a_workload_without_graphs_writes_none() {
    let lab = Lab::new();
    let why = lab.refused(2, &["workload", "mix-a", "--out", "a.fbt", "--graphs", "a.toml"]);
    assert!(why.starts_with("mix-a has no graphs: "), "{why}");
    assert_eq!(fs::read_dir(lab.path()).expect("readable").count(), 0);
}

/// The lines whose output is looked at below.
const TELLING: [&[&str]; 7] = [
    &["sim", "small.csv", "--policy", "lru"],
    &["sim", "small.csv", "--policy", "lru", "--format", "json"],
    &["trace", "describe", "small.csv"],
    &["graph", "types.toml"],
    &["completions", "bash"],
    &["--help"],
    &["sim", "--help"],
];

#[test]
#[cfg(target_os = "linux")]
fn output_that_is_lost_is_a_failure() {
    let lab = Lab::new();
    lab.file("small.csv", &small());
    lab.file("types.toml", "[[type]]\nname = 'T'\n[[type.vertex]]\nname = 'a'\n");
    for line in TELLING {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a disk that is full");
        let output = forebay_command().current_dir(lab.path()).args(line).stdout(full).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line:?}: {said}");
        assert!(said.starts_with("forebay: can't write to standard output: No space left"), "{line:?}: {said}");
        // A reader who has enough is no failure.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = forebay_command().current_dir(lab.path()).args(line).stdout(writer).output().expect("it runs");
        assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]), "{line:?}");
    }
}

#[test]
#[cfg(unix)]
fn nobody_has_to_read_stderr() {
    let lab = Lab::new();
    let (name, bad) = (lab.file("small.csv", &small()), lab.file("bad.csv", MALFORMED));
    for (line, code, prints) in [
        (&["trace", "describe", "--lenient", &bad][..], 0, true),
        (&["sim", &bad, "--lenient", "--policy", "lru", "--size", "2"], 0, true),
        (&["sim", &bad], 1, false),
        (&["sim", &name, "--policy", "mine"], 2, false),
        (&["sim", "--no-such"], 2, false),
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = forebay_command().current_dir(lab.path()).args(line).stderr(writer).output().expect("it runs");
        assert_eq!((output.status.code(), !output.stdout.is_empty()), (Some(code), prints), "{line:?}");
    }
}
