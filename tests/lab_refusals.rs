//! What the laboratory does not say: figures without meaning, options without effect, output that is lost.

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
    refused(2, &["--size", "-5"], "size '-5': give a share of the keys (10%)");
    refused(2, &["--size", "10GiB"], "size '10GiB': that counts bytes: add --unit bytes");
    refused(2, &["--policy", "S3-Fifo"], "no policy 'S3-Fifo'; did you mean 's3-fifo'?");
    refused(1, &["--prefetch", "chrono"], "small.csv: has no transactions, so nothing is fetched ahead");
    refused(1, &["--partition", "1=0.5,7=0.2"], "no client 7 asks for anything; the trace's clients: 1, 2");
    for (option, value, why) in
        [("--threads", "0", "give a number from 1 to 1024"), ("--seed", "-1", "invalid value '-1'")]
    {
        let (code, _, said) = lab.run(&["sim", &name, option, value]);
        assert!(code == Some(2) && said.contains(why), "{option} {value}: {said}");
    }
    refused(1, &["--hint-types", "pool"], "small.csv: no hint type 'pool'; it has none");
    for (option, value, why) in [
        ("--types", "100", "give a number from 1 to 8"),
        ("--types", "0", "give a number from 1 to 8"),
        ("--domain", "0", "give a number from 1 to 10000"),
        ("--zipf", "-1", "give a number from 0, by which all values are as frequent, to 100"),
        ("--zipf", "NaN", "give a number from 0, by which all values are as frequent, to 100"),
    ] {
        let types = if option == "--types" { &[][..] } else { &["--types", "2"] };
        let line = [&["trace", "noise", &name, "--out", "no.fbt", option, value][..], types].concat();
        let (code, _, said) = lab.run(&line);
        assert!(code == Some(2) && said.contains(why), "{option} {value}: {said}");
    }
}

/// What is not there, or not whole, is named, with what to do about it.
#[test]
fn what_is_missing_is_named() {
    let lab = Lab::new();
    lab.ok(&["workload", "smallbank", "--transactions", "3000", "--out", "b.fbt"]);
    let whole = fs::read(lab.path().join("b.fbt")).expect("readable");
    fs::write(lab.path().join("cut.fbt"), &whole[..2000]).expect("written");
    for line in [&["sim", "cut.fbt"][..], &["trace", "describe", "cut.fbt"], &["trace", "convert", "cut.fbt", "x.csv"]]
    {
        let said = lab.refused(1, line);
        let why = "cut.fbt: no requests in it: byte 2000: the trace is cut short";
        assert!(said.contains(why) && said.contains("get the whole file"), "{line:?}: {said}");
    }
    let said = lab.refused(2, &["replay", "none.fbt"]);
    assert!(said.starts_with("none.fbt: cannot be opened"), "{said}");
    let said = lab.refused(2, &["check", "none.redb"]);
    assert!(said.contains("none.redb: there is no such file"), "{said}");
    fs::create_dir(lab.path().join("types")).expect("made");
    for line in [&["graph", "types"][..], &["serve", "--store", "memory", "--graphs", "types"]] {
        let said = lab.refused(2, line);
        assert!(said.contains("types: no file in this folder ends in .toml"), "{line:?}: {said}");
    }
    let said = lab.refused(2, &["trace", "convert", "b.fbt", "no/such.fbt"]);
    assert!(said.contains("can't write no/such.fbt") && said.contains("make the folder no first"), "{said}");
    assert!(!said.contains(".forebay-"), "nobody has given that name: {said}");
}

/// A file that is not finished does not outlive who makes it: hidden as it is, nobody would find it.
#[cfg(unix)]
#[test]
fn a_signal_leaves_nothing_behind() {
    for signal in ["INT", "TERM"] {
        let lab = Lab::new();
        let line = ["workload", "tpcc", "--transactions", "1000000000", "--out", "b.fbt", "--graphs", "b.toml"];
        let mut making = forebay_command().args(line).current_dir(lab.path()).spawn().expect("started");
        let files = || fs::read_dir(lab.path()).expect("readable").count();
        let begun = std::time::Instant::now();
        while files() < 2 {
            assert!(begun.elapsed().as_secs() < 60, "nothing is made");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        common::process::signal(&making, signal);
        let ended = making.wait().expect("ended").code();
        assert_eq!(ended, Some(if signal == "INT" { 130 } else { 143 }));
        assert_eq!(files(), 0, "{signal}");
    }
}

/// What is written never takes the place of what is read.
#[test]
fn nothing_replaces_what_it_is_made_of() {
    let lab = Lab::new();
    let name = lab.file("small.csv", &small());
    let types = lab.file("types.toml", "[[type]]\nname = 'T'\n[[type.vertex]]\nname = 'a'\n");
    let again = "./small.csv";
    for line in [
        &["sim", &name, "--policy", "lru", "--report", again][..],
        &["sim", &name, "--policy", "lru", "--graphs", &types, "--report", &types],
        &["graph", &types, "--svg", &types],
    ] {
        let said = lab.refused(2, line);
        assert!(said.contains("is what is to be read, and would be lost; name another file"), "{line:?}: {said}");
    }
    assert_eq!(lab.read(&name), small());
    let said = lab.refused(2, &["workload", "smallbank", "--out", "b.fbt", "--graphs", "b.fbt"]);
    assert!(said.contains("--graphs and --out name one file"), "{said}");
}

/// What a pipe has can be read once; where that does not do, that is said, and not that the trace is cut.
#[cfg(unix)]
#[test]
fn pipes_are_read_once() {
    use std::io::Write;
    let lab = Lab::new();
    let piped = |line: &[&str], text: &str| {
        let mut command = forebay_command();
        command.current_dir(lab.path()).args(line).stdin(std::process::Stdio::piped());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let transactions = "txn,key,size\n1,a,1\n1,b,1\n2,a,1\n";
    for (path, name) in [("/dev/stdin", "stdin"), ("-", "-")] {
        let line = ["sim", path, "--policy", "lru", "--size"];
        let (code, told, said) = piped(&[&line[..], &["2"]].concat(), &small());
        let begins = format!("{name}: 40 requests");
        assert!(code == Some(0) && said.is_empty() && told.starts_with(&begins), "{told}{said}");
        for more in [&["2"][..], &["1MiB", "--like-server"]] {
            let (code, told, said) = piped(&[&line[..], more].concat(), transactions);
            // What comes on standard input is kept.
            if path == "-" {
                assert!(code == Some(0) && said.is_empty() && told.starts_with("-: 3 requests"), "{told}{said}");
                continue;
            }
            let why = format!("{path}: it has to be read more than once, and is no file but a pipe or a device");
            assert!(code == Some(1) && told.is_empty() && said.contains(&why), "{more:?}: {told}{said}");
        }
    }
    // One that nobody ends is no reason to be silent.
    let mut command = forebay_command();
    command.current_dir(lab.path()).args(["sim", "-", "--policy", "lru"]).stdin(std::process::Stdio::piped());
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().expect("the binary runs");
    let mut said = String::new();
    let stderr = child.stderr.take().expect("piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stderr), &mut said).expect("UTF-8");
    child.kill().and_then(|()| child.wait()).expect("it ends");
    assert_eq!(said, "forebay: reads standard input to its end, or to Ctrl-C\n");
    let (code, told, said) = piped(&["trace", "describe", "-"], &small());
    assert!(code == Some(0) && said.is_empty() && told.contains("unique keys"), "{told}{said}");
}

/// The verdict's price is a number, and for nothing but a simulation.
#[test]
fn prices_are_numbers() {
    let lab = Lab::new();
    let name = lab.file("small.csv", &small());
    for price in ["-1", "cheap", "NaN", "inf"] {
        let (code, told, said) = lab.run(&["sim", &name, &format!("--price-per-gib-month={price}")]);
        assert!(code == Some(2) && told.is_empty() && said.contains("give a number, 3.5"), "{price}: {said}");
    }
    let (code, _, said) = lab.run(&["sim", &name, "--like-server", "--price-per-gib-month", "1"]);
    assert!(code == Some(2) && said.contains("--like-server"), "{said}");
    let bare = lab.file("bare.trc", "1\n2\n1\n2\n3\n");
    let told = lab.ok(&["sim", &bare, "--policy", "lru,arc", "--size", "1,2", "--price-per-gib-month", "1"]);
    assert!(told.contains("bare.trc: the verdict\nBuy at least 2 objects with lru: 40.0 % of requests.\n"), "{told}");
    assert!(told.contains("The trace has no sizes: for --memory add the bytes of 2 values to "), "{told}");
    assert!(told.ends_with("What it costs is not known without them.\n"), "{told}");
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
    let sprite = trace("lirs/sprite.trc.zst");
    let line = ["sim", &sprite, "--policy", "lru", "--size", "5%,50%", "--sample", "0.1", "--format", "csv"];
    let (code, table, said) = lab.run(&line);
    let known: Vec<bool> = table.lines().skip(1).map(|row| !row.ends_with(',')).collect();
    assert!(code == Some(0) && known == [false, true], "{table}");
    assert!(said.starts_with("forebay: sprite.trc.zst: no error is known at 5%: there the sample's cache"), "{said}");
    let (_, table, said) = lab.run(&[&line[..], &["--estimate", "plain"]].concat());
    assert!(said.is_empty() && table.lines().skip(1).all(|row| !row.ends_with(',')), "{said}{table}");
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

#[test]
fn a_file_that_is_not_there_is_refused_alike_by_all() {
    let lab = Lab::new();
    for line in [
        &["sim", "none.lis"][..],
        &["sim", "none.fbt", "--policy", "lru", "--size", "1MiB", "--like-server"],
        &["replay", "none.lis"],
        &["trace", "describe", "none.lis"],
        &["trace", "convert", "none.lis", "a.fbt"],
        &["graph", "none.toml"],
        &["graph", "--infer", "none.fbt"],
        &["check", "none.redb"],
    ] {
        assert!(lab.refused(2, line).starts_with("none."), "{line:?}");
    }
    assert_eq!(fs::read_dir(lab.path()).expect("readable").count(), 0);
}

#[test]
fn an_option_that_would_do_nothing_is_refused_with_what_helps() {
    let lab = Lab::new();
    lab.file("types.toml", "[[type]]\nname = 'T'\n[[type.vertex]]\nname = 'a'\n");
    lab.file("small.csv", &small());
    let (code, told, said) = lab.run(&["graph", "types.toml", "--out", "a.toml", "--svg", "a.svg"]);
    assert!(code == Some(2) && told.is_empty() && said.contains("'--out <FILE>'"), "{told}{said}");
    let said = lab.refused(2, &["graph", "types.toml", "--out", "small.csv"]);
    assert!(said.contains("small.csv"), "{said}");
    let said = lab.refused(2, &["sim", "small.csv", "--like-server", "--size", "1MiB"]);
    assert!(said.contains("belady") && said.contains("give --policy"), "{said}");
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
