//! Logs that servers write, as they come: told by what is in them, compressed, cut, of another format than was said.

use super::common::lab::testdata;
use super::*;

/// Each log of `testdata/logs/`, its format, and what `forebay trace describe` counts in it.
const LOGS: [(&str, &str, &[&str]); 8] = [
    ("nginx-access.log.gz", "access-log", &["requests 2962", "reads 2919 (98.5 %)", "unique keys 493", "clients 60"]),
    ("apache-common.log", "access-log", &["requests 59", "unique keys 43", "time 2026-03-14T09:00:00Z to"]),
    ("aws-alb.log", "aws-alb", &["requests 50", "writes and deletes 4 (8.0 %)", "clients 9"]),
    ("memcached-watch.txt", "memcached-watch", &["requests 95", "unique keys 14", "clients 3"]),
    ("redis-monitor.txt", "redis-monitor", &["requests 67", "transactions 5 (5 committed, 0 aborted)", "clients 3"]),
    (
        "postgres.csv",
        "postgres-csvlog",
        &["requests 42", "transactions 10 (10 committed, 0 aborted)", "unique keys 31"],
    ),
    ("postgres.json", "postgres-jsonlog", &["requests 42", "transactions 10 (10 committed, 0 aborted)"]),
    ("requests.jsonl", "json-lines", &["requests 60", "reads 60 (100.0 %)", "clients 9"]),
];

fn log(name: &str) -> String {
    testdata("logs").join(name).to_str().expect("UTF-8").to_owned()
}

fn bytes(name: &str) -> Vec<u8> {
    let bytes = fs::read(log(name)).expect("it is there");
    if !name.ends_with(".gz") {
        return bytes;
    }
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut text).expect("gzip");
    text
}

/// What names the fields of the one log that needs it.
fn columns(name: &str) -> &'static [&'static str] {
    match name {
        "requests.jsonl" => &["--columns", "key=request.path,size=bytes,time=ts,op=request.method,client=remote"],
        _ => &[],
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(text).expect("in memory");
    packed.finish().expect("in memory")
}

#[test]
fn logs_are_told_by_their_first_lines() {
    let lab = Lab::new();
    for (name, format, counted) in LOGS {
        // Under a name that says nothing, as it is and compressed.
        let text = bytes(name);
        fs::write(lab.path().join("some"), &text).expect("written");
        fs::write(lab.path().join("rotated.1.gz"), gzip(&text)).expect("written");
        let mut first = String::new();
        for trace in [&*log(name), "some", "rotated.1.gz"] {
            let (code, told, _) = lab.run(&[&["trace", "describe", trace][..], columns(name)].concat());
            assert_eq!(code, Some(0), "{name} as {trace}");
            let words = told.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(counted.iter().all(|counted| words.contains(counted)), "{name} as {trace}: {told}");
            assert!(first.is_empty() || first == told, "{name} as {trace}: {told}");
            first = told;
        }
        let named = [&["trace", "describe", "some", "--trace-format", format][..], &[]].concat();
        if columns(name).is_empty() {
            assert_eq!(lab.run(&named).1, first, "{name} as {format}");
        }
        let line = ["sim", "some", "--policy", "lru", "--size", "5,50", "--format", "csv"];
        let (code, rows_told, _) = lab.run(&[&line[..], columns(name)].concat());
        assert!(code == Some(0) && rows(&rows_told).len() == 2, "{name}: {rows_told}");
        let out = format!("{format}-{}.fbt", name.len());
        assert_eq!(lab.run(&[&["trace", "convert", "some", &out][..], columns(name)].concat()).0, Some(0), "{name}");
    }
}

#[test]
fn zstd_is_read_as_well() {
    let lab = Lab::new();
    let hinted = trace("twitter/twitter_cluster52-head.csv.zst");
    assert!(lab.ok(&["trace", "describe", &hinted]).contains("20000"), "the decompressor is there");
    let (_, plain, _) = lab.run(&["trace", "describe", &log("aws-alb.log")]);
    let line = ["-q", "-f", "-o", "alb.zst", &log("aws-alb.log")];
    match std::process::Command::new("zstd").current_dir(lab.path()).args(line).status() {
        Ok(done) if done.success() => assert_eq!(lab.run(&["trace", "describe", "alb.zst"]).1, plain),
        _ => eprintln!("skipped: no program zstd"),
    }
}

/// What a log says and a cache is not asked for is counted, and said why.
#[test]
fn what_asks_for_nothing_is_told() {
    let lab = Lab::new();
    let (_, _, said) = lab.run(&["trace", "describe", &log("nginx-access.log.gz")]);
    let expected = "38 entries are left out for asking nothing of a cache: status 404 (23), no request of HTTP (15)\n";
    assert!(said.ends_with(expected) && said.lines().count() == 1, "{said}");
    let only = lab.file("only", "1.5 [0 a:1] \"PING\"\n1.6 [0 a:1] \"PING\"\n");
    for line in [&["sim", &*only][..], &["trace", "describe", &only], &["trace", "convert", &only, "x.csv"]] {
        let why = lab.refused(1, line);
        assert!(why.contains("only: no requests in it: 2 entries are left out"), "{line:?}: {why}");
    }
}

/// A log that is still written ends in half a line: no error, and told.
#[test]
fn half_a_line_at_the_end_is_left_out() {
    let lab = Lab::new();
    for (name, _, _) in LOGS {
        let text = bytes(name);
        let end = text[..text.len() - 1].iter().rposition(|&byte| byte == b'\n').expect("lines") + 1;
        for cut in [end + 1, end + 12, (end + text.len()) / 2, text.len() - 2] {
            fs::write(lab.path().join("cut"), &text[..cut]).expect("written");
            let (code, told, said) = lab.run(&[&["trace", "describe", "cut"][..], columns(name)].concat());
            assert!(code == Some(0) && told.contains("unique keys"), "{name} {cut}: {told}{said}");
        }
        fs::write(lab.path().join("cut"), &text[..end + 12]).expect("written");
        let (_, _, said) = lab.run(&[&["trace", "describe", "cut"][..], columns(name)].concat());
        assert!(said.contains("is the last and a part of one, and is left out\n"), "{name}: {said}");
    }
}

#[test]
fn malformed_lines_are_named_and_counted() {
    let lab = Lab::new();
    for (name, _, _) in LOGS.iter().filter(|(name, ..)| *name != "memcached-watch.txt") {
        let text = bytes(name);
        let first = text.iter().position(|&byte| byte == b'\n').expect("lines") + 1;
        let second = first + text[first..].iter().position(|&byte| byte == b'\n').expect("lines") + 1;
        let spoilt = [&text[..second], b"not a line of this log\nnor this\n", &text[second..]].concat();
        fs::write(lab.path().join("spoilt"), spoilt).expect("written");
        let line = [&["trace", "describe", "spoilt"][..], columns(name)].concat();
        let (code, _, said) = lab.run(&line);
        assert!(code == Some(1) && said.starts_with("forebay: spoilt: line 3"), "{name}: {said}");
        assert!(said.contains("--lenient") && said.lines().count() == 1, "{name}: {said}");
        let (code, _, said) = lab.run(&[&line[..], &["--lenient"]].concat());
        let passed_over = "forebay: 2 malformed records were passed over, the first: line 3";
        assert!(code == Some(0) && said.contains(passed_over), "{name}: {said}");
    }
}

#[test]
fn other_files_are_refused_in_a_line() {
    let lab = Lab::new();
    let names = |why: &str| -> Vec<String> {
        let (_, rest) = why.split_once("most likely are ").unwrap_or_else(|| panic!("{why}"));
        let (names, what) = rest.split_once(": give one with --trace-format").unwrap_or_else(|| panic!("{why}"));
        assert!(what.contains("--help lists all"), "{why}");
        names.split(", ").map(str::to_owned).collect()
    };
    lab.file("letter.txt", "Dear reader,\nthis is no log.\n");
    let spoilt = "203.0.113.1 - - [14/Mar/2026:09:00:00 +0000] \"GET /a HTTP/1.1\" 200 5\n".to_owned()
        + "a line\nanother\nand a third\n";
    lab.file("mostly.txt", &spoilt);
    let binary: Vec<u8> = (0..5000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    fs::write(lab.path().join("binary"), binary).expect("written");
    assert_eq!(names(&lab.refused(1, &["sim", "letter.txt"])), ["csv", "access-log", "json-lines"]);
    assert_eq!(names(&lab.refused(1, &["trace", "describe", "mostly.txt"]))[0], "access-log");
    assert_eq!(names(&lab.refused(1, &["sim", "binary"])).len(), 3);
    // Said to be of a format that it is not of.
    for (name, wrong) in [("redis-monitor.txt", "access-log"), ("apache-common.log", "redis-monitor")] {
        let why = lab.refused(1, &["sim", &log(name), "--trace-format", wrong]);
        assert!(why.contains(": line ") && why.contains("name another format with --trace-format"), "{why}");
    }
    for wrong in ["access-log", "postgres-csvlog", "json-lines", "memcached-watch"] {
        let why = lab.refused(1, &["sim", "binary", "--trace-format", wrong]);
        assert!(why.starts_with("binary: "), "{wrong}: {why}");
    }
    lab.file("empty.log", "");
    assert!(lab.refused(1, &["sim", "empty.log"]).contains("the file is empty"));
    let packed = fs::read(log("nginx-access.log.gz")).expect("it is there");
    fs::write(lab.path().join("cut.log.gz"), &packed[..packed.len() / 2]).expect("written");
    let why = lab.refused(1, &["sim", "cut.log.gz"]);
    assert!(why.contains("cut short (in the middle of its compression)") && why.contains("--lenient"), "{why}");
    let (code, _, said) = lab.run(&["sim", "cut.log.gz", "--lenient", "--policy", "lru"]);
    assert!(code == Some(0) && said.contains("cut short"), "{said}");
    let why = lab.refused(1, &["trace", "describe", &log("requests.jsonl"), "--columns", "key=url"]);
    assert!(
        why.contains("line 1: no field 'url', which --columns names as the key, only bytes, level, remote,"),
        "{why}"
    );
}

/// `tail -f access.log | forebay sim -`, and Ctrl-C when it is enough: what came in whole lines is simulated.
#[test]
fn a_log_is_read_while_it_is_written() {
    use std::io::{BufRead, BufReader, Read};
    use std::process::Stdio;
    let lab = Lab::new();
    let text = bytes("nginx-access.log.gz");
    let cut = text.len() / 2;
    let whole = text[..cut].iter().rposition(|&byte| byte == b'\n').expect("lines") + 1;
    for line in [&["sim", "-", "--policy", "lru,arc", "--size", "10%,50%"][..], &["trace", "describe", "-"]] {
        let mut command = common::process::forebay_command();
        command.current_dir(lab.path()).args(line).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let mut log = child.stdin.take().expect("a pipe");
        log.write_all(&text[..cut]).expect("it reads");
        let mut said = BufReader::new(child.stderr.take().expect("piped"));
        // By then it has read what there is.
        let mut first = String::new();
        match line[0] {
            "sim" => drop(said.read_line(&mut first).expect("UTF-8")),
            _ => std::thread::sleep(std::time::Duration::from_secs(2)),
        }
        let interrupted = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(interrupted.is_ok_and(|status| status.success()), "kill is there");
        let mut told = String::new();
        child.stdout.take().expect("piped").read_to_string(&mut told).expect("UTF-8");
        let mut rest = String::new();
        said.read_to_string(&mut rest).expect("UTF-8");
        assert_eq!(child.wait().expect("it ends").code(), Some(0), "{first}{rest}");
        drop(log);
        assert!(rest.contains("forebay: no more of standard input is read; another Ctrl-C ends forebay\n"), "{rest}");
        assert!(!rest.contains("a part of one") && !rest.contains("malformed"), "{rest}");
        fs::write(lab.path().join("so-far"), &text[..whole]).expect("written");
        let names: Vec<&str> = line.iter().map(|word| if *word == "-" { "so-far" } else { word }).collect();
        let expected = lab.run(&names).1;
        let told =
            told.lines().map(|line| line.strip_prefix("-: ").map_or(line.to_owned(), |of| format!("so-far: {of}")));
        assert_eq!(told.collect::<Vec<_>>(), expected.lines().collect::<Vec<_>>());
    }
}

/// The page is typed as it stands: each command that begins with `forebay`, with what it prints below it. With
/// FOREBAY_UPDATE_DOCS=1 what it prints is written there.
#[test]
fn the_walk_is_what_its_page_says() {
    let lab = Lab::new();
    fs::copy(log("nginx-access.log.gz"), lab.path().join("access.log.gz")).expect("copied");
    fs::copy(log("requests.jsonl"), lab.path().join("requests.jsonl")).expect("copied");
    let page = testdata("../docs/logs.md");
    let text = fs::read_to_string(&page).expect("it is there");
    let (mut fresh, mut typed) = (String::new(), 0);
    for (at, block) in text.split("```\n").enumerate() {
        let line = block.lines().next().and_then(|line| line.strip_prefix("$ forebay ")).filter(|_| at % 2 == 1);
        fresh += if at == 0 { "" } else { "```\n" };
        let Some(line) = line else {
            fresh += block;
            continue;
        };
        let (words, into) = line.split_once(" > ").map_or((line, None), |(words, into)| (words, Some(into)));
        let (code, told, said) = lab.run(&words.split(' ').collect::<Vec<_>>());
        assert_eq!(code, Some(0), "{line}: {said}");
        let told = match into {
            Some(name) => {
                lab.file(name, &told);
                String::new()
            }
            None => told,
        };
        fresh += &format!("$ forebay {line}\n{said}{told}");
        typed += 1;
    }
    assert!(typed == 4 && lab.read("access.html").contains("class=\"verdict\""), "{typed}");
    if std::env::var_os("FOREBAY_UPDATE_DOCS").is_some() {
        fs::write(&page, fresh).expect("written");
    } else {
        assert_eq!(text, fresh, "stale; run FOREBAY_UPDATE_DOCS=1 cargo test -p forebay-cli --test lab walk");
    }
}
