//! Log lines on stderr: stdout is for what was asked for.
//!
//! Clients say what stands in some of them. So every control character is written as an escape; otherwise a client
//! could forge lines and talk to the terminal. Of what clients cause, each place in the code gets so many lines a
//! second; otherwise they could fill the disk.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tracing::callsite::Identifier;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use crate::settings::{LogFormat, LogLevel, Settings};

/// Lines a second of one place in the code of the server.
const LINES_PER_SECOND_MAX: u64 = 20;

/// Where clients cause them.
const OF_CLIENTS: &str = "forebay_server";

/// Begins to log, panics included: a panic that is caught is a line of the log like any other.
pub fn start(settings: &Settings) {
    let level = match settings.log_level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let json = settings.log == LogFormat::Json;
    let colours = !json && io::stderr().is_terminal();
    let writer = Lines { json, colours, rates: Mutex::default(), began: Instant::now() };
    let lines = tracing_subscriber::fmt().with_writer(writer).with_max_level(level).with_target(false);
    // A line that stderr does not take is lost; saying so there would be a panic.
    let lines = lines.log_internal_errors(false);
    match json {
        false => lines.with_ansi(colours).init(),
        true => lines.json().flatten_event(true).init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let why = panic.payload_as_str().unwrap_or("no message");
        match is_of_redb(&place) {
            true => tracing::error!(
                place,
                why,
                "the store's file is damaged: stop forebay, look at the file with `forebay check FILE`, restore it \
                 from a backup, or move it away to begin with an empty one"
            ),
            false => tracing::error!(place, why, "a bug: panicked"),
        }
    }));
}

/// The file's engine panics over files that are damaged; the store catches that, and closes the file.
fn is_of_redb(place: &str) -> bool {
    place
        .split(['/', '\\'])
        .any(|part| part.strip_prefix("redb-").is_some_and(|rest| rest.starts_with(char::is_numeric)))
}

/// Stderr, by lines.
struct Lines {
    json: bool,
    colours: bool,
    rates: Mutex<HashMap<Identifier, Rate>>,
    began: Instant,
}

/// Lines of one place.
#[derive(Default)]
struct Rate {
    second: u64,
    lines: u64,
    left_out: u64,
}

/// One line to come.
struct Line {
    colours: bool,
    /// It is one too many.
    left_out: bool,
    /// What goes before it.
    before: Option<String>,
}

impl Rate {
    /// Whether a line at `second` is one too many, and if not how many were before it.
    fn admits(&mut self, second: u64) -> Result<u64, ()> {
        if second != self.second {
            (self.second, self.lines) = (second, 0);
        }
        self.lines += 1;
        if self.lines > LINES_PER_SECOND_MAX {
            self.left_out += 1;
            return Err(());
        }
        Ok(std::mem::take(&mut self.left_out))
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { colours: self.colours, left_out: false, before: None }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Line {
        let line = self.make_writer();
        if !metadata.target().starts_with(OF_CLIENTS) || *metadata.level() == Level::ERROR {
            return line;
        }
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        match rates.entry(metadata.callsite()).or_default().admits(self.began.elapsed().as_secs()) {
            Err(()) => Line { left_out: true, ..line },
            Ok(0) => line,
            Ok(count) => {
                let what = "lines like the next were left out: more than 20 a second";
                let before = match self.json {
                    true => {
                        format!("{{\"level\":\"{}\",\"message\":\"{what}\",\"count\":{count}}}\n", metadata.level())
                    }
                    false => format!("{} {count} {what}\n", metadata.level()),
                };
                Line { before: Some(before), ..line }
            }
        }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.left_out {
            return Ok(bytes.len());
        }
        let mut text = self.before.take().unwrap_or_default();
        text.push_str(&plain(&String::from_utf8_lossy(bytes), self.colours));
        io::stderr().write_all(text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// `line` with every control character but its end as an escape, and but our own colours where there are `colours`.
pub fn plain(line: &str, colours: bool) -> String {
    let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
    let mut out = String::with_capacity(line.len());
    let mut rest = text;
    while let Some(at) = rest.find(char::is_control) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let colour = if colours { colour_of(from) } else { 0 };
        rest = match colour {
            0 => {
                let mut characters = from.chars();
                out.extend(characters.next().into_iter().flat_map(char::escape_default));
                characters.as_str()
            }
            length => {
                out.push_str(&from[..length]);
                &from[length..]
            }
        };
    }
    out + rest + end
}

/// How long the colour is that stands at the front; 0 if none does.
fn colour_of(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("\x1b[") else { return 0 };
    let numbers = rest.find(|letter: char| !letter.is_ascii_digit() && letter != ';').unwrap_or(rest.len());
    if rest[numbers..].starts_with('m') { 2 + numbers + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_send_is_no_line_and_no_colour() {
        assert_eq!(plain("a\nb\r\x07\x1b[31mc\u{9b}2J\n", false), "a\\nb\\r\\u{7}\\u{1b}[31mc\\u{9b}2J\n");
        assert_eq!(plain("\x1b[2mINFO\x1b[0m \x1b[2J\x1b]0;x", true), "\x1b[2mINFO\x1b[0m \\u{1b}[2J\\u{1b}]0;x");
        assert_eq!(plain("plain \u{fc}ber\n", false), "plain \u{fc}ber\n");
    }

    #[test]
    fn of_many_lines_few_are_written_and_all_are_counted() {
        let mut rate = Rate::default();
        let admitted = (0..100).filter(|_| rate.admits(7) == Ok(0)).count() as u64;
        assert_eq!(admitted, LINES_PER_SECOND_MAX);
        assert_eq!([rate.admits(8), rate.admits(8)], [Ok(100 - LINES_PER_SECOND_MAX), Ok(0)]);
    }

    #[test]
    fn a_panic_of_the_files_engine_is_damage() {
        assert!(is_of_redb("/a/.cargo/registry/src/index/redb-4.4.0/src/tree_store/page.rs:12:3"));
        assert!(!is_of_redb("crates/forebay/src/store/embedded/file.rs:12:3"));
    }
}
