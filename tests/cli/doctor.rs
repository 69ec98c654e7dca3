//! `forebay doctor` and `forebay man`: what is in the way of a start, and what the manual has.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use super::{folder, forebay, output, stdout};

/// What the doctor says of these settings in `folder`, and its exit code.
fn seen(folder: &Path, line: &[&str]) -> (String, Option<i32>) {
    let output = output(forebay(folder, &[&["doctor"], line].concat()));
    (String::from_utf8(output.stdout).expect("UTF-8"), output.status.code())
}

const FREE: [&str; 4] = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"];

#[test]
fn a_machine_that_is_well_has_no_problem_and_is_left_alone() {
    let folder = folder();
    let (said, code) = seen(folder.path(), &[&FREE[..], &["--memory", "16MiB"]].concat());
    assert_eq!(code, Some(0), "{said}");
    let parts =
        ["the process may take ", "open files", "--listen 127.0.0.1:0 is free", "forebay.redb is made", "free in"];
    for part in parts {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing is made");
}

#[test]
fn all_that_is_in_the_way_is_said_at_once() {
    let folder = folder();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let away = ["--store", "postgres://app@127.0.0.1:1/shop", "--store-timeout-ms", "100", "--journal", "no/journal"];
    let files = ["--warm-file", "lost/warm", "--trace-dir", "traces"];
    let wrong = ["--memory", "200TiB", "--password-file", "none", "--listen", &address, "--http", "off"];
    let (said, code) = seen(folder.path(), &[&wrong[..], &away, &files].concat());
    assert_eq!(code, Some(1), "{said}");
    let problems = Vec::from_iter(said.lines().filter(|line| line.starts_with("problem")));
    let missing = ["where the journal is to lie; make it", "where the warm file is to lie; make it"];
    for part in ["--password-file", "give less --memory", missing[0], missing[1], "127.0.0.1:1"] {
        assert_eq!(problems.iter().filter(|line| line.contains(part)).count(), 1, "{part}: {said}");
    }
    assert!(said.lines().any(|line| line.starts_with("warning") && line.contains(&address)), "{said}");
    assert!(said.contains("where the folder of traces lies"), "{said}");
    // Two of its addresses are one, and the file is no store.
    fs::write(folder.path().join("file"), "text").expect("written");
    let one = ["--listen", "127.0.0.1:1", "--http", "127.0.0.1:1", "--store", "embedded:file"];
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").to_string();
    let one = one.map(|part| if part == "127.0.0.1:1" { free.as_str() } else { part });
    let (said, _) = seen(folder.path(), &one);
    assert!(said.lines().any(|line| line.starts_with("problem") && line.contains("--http")), "{said}");
    assert!(said.contains("problem  file is no store of forebay's"), "{said}");
    // What `serve` refuses as a setting is refused here, too.
    let (said, code) = seen(folder.path(), &["--memory", "lots"]);
    assert!(said.is_empty() && code == Some(2), "{said}");
}

#[test]
fn the_manual_has_a_page_of_each_command() {
    let folder = folder();
    let written = output(forebay(folder.path(), &["man", "pages"]));
    assert!(written.status.success(), "{written:?}");
    let page = |name: &str| fs::read_to_string(folder.path().join(format!("pages/{name}.1"))).expect("a page");
    let help = stdout(&["--help"]);
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = Vec::from_iter(commands.filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next()));
    assert!(names.contains(&"serve") && names.contains(&"doctor"), "{names:?}");
    // The second line of a long summary begins further in, and has no command's name.
    for name in names.iter().filter(|name| **name != "help" && help.contains(&format!("\n  {name} "))) {
        assert!(page(&format!("forebay-{name}")).contains(".SH SYNOPSIS"), "{name}");
    }
    assert!(page("forebay-serve").contains("outage"), "the settings are there");
    let refused = output(forebay(folder.path(), &["man", "pages/forebay.1"]));
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}
