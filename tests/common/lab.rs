//! A folder for what the laboratory's commands read and write, and the commands in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::process::forebay_command;

/// A line of CSV that stands for a policy at a size.
pub type Row = BTreeMap<String, String>;

/// A folder to work in.
pub struct Lab(TempDir);

impl Lab {
    pub fn new() -> Lab {
        Lab(tempfile::tempdir().expect("a temporary folder"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// A file of the folder, made of this text.
    pub fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.path().join(name), text).expect("written");
        name.to_owned()
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).expect("it was written")
    }

    /// Exit code, stdout, stderr.
    pub fn run(&self, line: &[&str]) -> (Option<i32>, String, String) {
        let output = forebay_command().current_dir(self.path()).args(line).output().expect("the binary runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// What it prints; nothing may be said on stderr.
    pub fn ok(&self, line: &[&str]) -> String {
        let (code, stdout, stderr) = self.run(line);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{line:?}");
        stdout
    }

    /// The one line of why it was refused, code 2, or failed, code 1. Nothing is printed.
    pub fn refused(&self, code: i32, line: &[&str]) -> String {
        let (ended, stdout, stderr) = self.run(line);
        assert_eq!((ended, stdout.as_str(), stderr.lines().count()), (Some(code), "", 1), "{line:?}: {stderr}");
        stderr.strip_prefix("forebay: ").expect("it says who").trim_end().to_owned()
    }

    pub fn csv(&self, line: &[&str]) -> Vec<Row> {
        rows(&self.ok(&[line, &["--format", "csv"]].concat()))
    }
}

pub fn rows(text: &str) -> Vec<Row> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let row =
        |line: &str| names.iter().map(|name| (*name).to_owned()).zip(line.split(',').map(str::to_owned)).collect();
    lines.map(row).collect()
}

pub fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

pub fn trace(name: &str) -> String {
    testdata("traces").join(name).to_str().expect("UTF-8").to_owned()
}

/// 40 requests over 6 keys of 100 bytes, the last 20 of client 2; key 0 comes every second time.
pub fn small() -> String {
    let line = |at: usize| {
        let key = if at.is_multiple_of(2) { 0 } else { at % 10 };
        format!("{at},k{key},100,{}\n", 1 + at / 20)
    };
    "time,key,size,client\n".to_owned() + &(0..40).map(line).collect::<String>()
}

/// Three lines are sound, line 4 is not.
pub const MALFORMED: &str = "time,key,size\n1,a,10\n2,b,20\n3,c,lots\n4,a,10\n";
