//! What is packaged names only what there is: metrics, settings, options, files, and paragraphs for operators.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::process::forebay_command;
use forebay_server::metrics;

const RULES: &str = "packaging/prometheus/forebay.rules.yml";
const BOARD: &str = "packaging/grafana/forebay.json";
const SETTINGS: &str = "packaging/forebay.toml";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The words of a text that begin so.
fn words<'a>(text: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(move |word| word.starts_with(start))
}

/// What the binary answers.
fn said(line: &[&str]) -> String {
    let output = forebay_command().current_dir(root()).args(line).output().expect("the binary runs");
    assert!(output.status.success(), "{line:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The settings that `forebay config` shows for the packaged file.
fn settings() -> BTreeSet<String> {
    let shown = said(&["config", "--config", SETTINGS]);
    let names = shown.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name.to_owned());
    names.collect()
}

#[test]
fn rules_and_board_name_metrics_that_there_are() {
    let known: BTreeSet<&str> = metrics::all().map(|metric| metric.name).collect();
    for path in [RULES, "packaging/prometheus/forebay.rules.test.yml", BOARD] {
        let text = read(path);
        let named: BTreeSet<&str> = words(&text, "forebay_").chain(words(&text, "process_")).collect();
        assert!(named.len() > 20, "{path} names {named:?}");
        for name in named {
            // A histogram is read by its parts.
            let whole = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
            assert!(known.contains(name) || whole.is_some_and(|whole| known.contains(whole)), "{path}: no {name}");
        }
    }
    let board: serde_json::Value = serde_json::from_str(&read(BOARD)).expect("JSON");
    assert!(board["panels"].as_array().is_some_and(|panels| panels.len() > 10));
}

#[test]
fn each_alert_has_a_paragraph_for_operators() {
    let (rules, page) = (read(RULES), read("docs/operations.md"));
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let paragraphs: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert_eq!(alerts, paragraphs);
    for alert in alerts {
        let anchor = alert.to_ascii_lowercase();
        assert!(page.contains(&format!("| [{alert}](#{anchor}) |")), "{alert} is in the table");
        assert!(rules.contains(&format!("runbook: docs/operations.md#{anchor}\n")), "{alert} says where to read on");
    }
}

#[test]
fn packaged_settings_and_options_exist() {
    let (settings, file) = (settings(), read(SETTINGS));
    // Settings that the file has as comments, up to its mapping.
    let commented = file.lines().take_while(|line| *line != "#[[map]]").filter_map(|line| line.strip_prefix('#'));
    for (name, _) in commented.filter(|line| !line.starts_with(' ')).filter_map(|line| line.split_once(" = ")) {
        assert!(settings.contains(name), "{SETTINGS}: no setting {name}");
    }
    let variables: BTreeSet<String> =
        settings.iter().map(|name| format!("FOREBAY_{}", name.to_ascii_uppercase().replace('-', "_"))).collect();
    for path in ["packaging/Dockerfile", "packaging/compose.yaml"] {
        let text = read(path);
        assert!(words(&text, "FOREBAY_").count() > 0, "{path} sets some");
        for name in words(&text, "FOREBAY_") {
            assert!(variables.contains(name), "{path}: {name} is no setting");
        }
    }
    let unit = read("packaging/forebay.service");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("the unit starts something");
    let options = start.strip_prefix("/usr/bin/forebay serve ").expect("it starts the server").split(' ');
    let help = said(&["serve", "--help"]);
    for option in options.filter(|word| word.starts_with("--")) {
        assert!(help.contains(&format!("{option} ")), "forebay serve has no {option}");
    }
}

#[test]
fn the_image_is_built_by_the_compiler_that_the_workspace_names() {
    let manifest: toml::Table = read("Cargo.toml").parse().expect("TOML");
    let version = manifest["workspace"]["package"]["rust-version"].as_str().expect("a version");
    assert!(read("packaging/Dockerfile").contains(&format!("FROM rust:{version}-")), "not Rust {version}");
}

#[test]
fn what_the_package_holds_is_there() {
    let manifest: toml::Table = read("crates/cli/Cargo.toml").parse().expect("TOML");
    let assets = manifest["package"]["metadata"]["deb"]["assets"].as_array().expect("a list");
    // What is built is not there yet.
    let sources = assets.iter().filter_map(|asset| asset[0].as_str()).filter(|path| !path.contains("target/"));
    for path in sources {
        assert!(root().join("crates/cli").join(path).is_file(), "the package holds {path}, which is not there");
    }
}

#[test]
fn uninstall_leaves_the_settings_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |what: &str| {
        let mut script = Command::new(root().join("scripts/install.sh"));
        script.arg(what).env_remove("PREFIX").env_remove("SYSCONFDIR").env("DESTDIR", folder.path());
        let output = script.env("BINARY", env!("CARGO_BIN_EXE_forebay")).output().expect("the script runs");
        assert!(output.status.success(), "{what}: {output:?}");
    };
    let settings = folder.path().join("etc/forebay/forebay.toml");
    run("install");
    let unit = fs::read_to_string(folder.path().join("usr/local/lib/systemd/system/forebay.service")).expect("a unit");
    assert!(unit.contains("\nExecStart=/usr/local/bin/forebay serve --config /etc/forebay/forebay.toml\n"), "{unit}");
    for file in ["bin/forebay", "share/man/man1/forebay.1", "share/man/man1/forebay-store-init.1"] {
        assert!(folder.path().join("usr/local").join(file).is_file(), "{file}");
    }
    fs::write(&settings, "memory = \"1GiB\"\n").expect("changed by an operator");
    run("install");
    run("uninstall");
    assert_eq!(fs::read_to_string(&settings).expect("they stay"), "memory = \"1GiB\"\n");
    assert!(files(folder.path()).iter().eq([&settings]), "left over: {:?}", files(folder.path()));
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
