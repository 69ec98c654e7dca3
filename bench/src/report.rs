//! What is printed at the end: a block of Markdown that says when, where and how its figures were measured.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::figures::load_average;
use crate::program::cores;

/// A block of Markdown under way; progress goes to the standard error.
pub struct Report {
    text: String,
    load_before: String,
}

impl Report {
    /// Begins with the date and the machine, and the command that repeats it: `program` with this process' options.
    pub fn new(program: &str) -> Report {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let load_before = load_average();
        let mut text = String::new();
        let _ = writeln!(text, "{}, {}.\n", date(), machine());
        let _ = writeln!(text, "    cargo build --profile dist -p forebay-cli -p forebay-bench");
        let _ = writeln!(text, "    target/dist/{program} {}\n", arguments.join(" "));
        Report { text, load_before }
    }

    /// Appends a line.
    pub fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Appends the head of a table.
    pub fn columns(&mut self, names: &[&str]) {
        self.line(&format!("| {} |", names.join(" | ")));
        self.line(&format!("|{}", "---|".repeat(names.len())));
    }

    /// Appends a line of a table, and shows it as progress.
    pub fn row(&mut self, cells: &[String]) {
        let line = format!("| {} |", cells.join(" | "));
        eprintln!("{line}");
        self.line(&line);
    }

    /// Prints it, and writes it to `file` too.
    pub fn end(mut self, file: Option<&Path>) -> std::io::Result<()> {
        let loads = format!("\nLoad average {} before, {} after.", self.load_before, load_average());
        self.line(&loads);
        print!("{}", self.text);
        file.map_or(Ok(()), |file| fs::write(file, &self.text))
    }
}

fn date() -> String {
    let said = Command::new("date").args(["-u", "+%F"]).output();
    said.map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned()).unwrap_or_default()
}

/// Processor, cores, memory, kernel.
fn machine() -> String {
    let after = |file: &str, name: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
        line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    let kib: u64 = after("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = kernel.trim().split('-').next().unwrap_or_default().to_owned();
    format!(
        "{} virtual cores of {}, {} GiB, Linux {kernel}",
        cores(),
        after("/proc/cpuinfo", "model name"),
        (kib + (1 << 19)) >> 20
    )
}

/// What a program calls itself, its version in it: the first line of `program --version`.
pub fn version_of(program: &Path) -> String {
    let said = Command::new(program).arg("--version").output();
    let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default();
    let line = said.lines().next().unwrap_or("unknown");
    // redis-server goes on with how it was built.
    line.split(" sha=").next().unwrap_or(line).to_owned()
}
