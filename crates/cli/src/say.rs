//! What a command says: what was asked for on stdout, all else on stderr.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use crate::error::CommandError;
use crate::log::plain;
use crate::secret;

/// What was asked for. A reader who has enough (`| head`) ends nothing; else what is lost makes the command fail.
pub fn result(text: &str) -> Result<(), CommandError> {
    stdout(text).map_err(|error| lost(&error))
}

/// Why a command failed whose result did not come through, if it did not.
pub fn came_through(written: io::Result<()>) -> Result<(), CommandError> {
    match written.and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(lost(&error)),
        _ => Ok(()),
    }
}

/// What a command tells of itself at work. That nobody can read it is no reason to stop.
pub fn at_work(text: &str) {
    let _ = stdout(text);
}

/// A line on stderr; where that can't be written, nowhere is left to say so. What a user, a file or a database has put
/// into it does nothing to the terminal: every control character is shown as an escape.
pub fn note(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{}", plain(&line.to_string(), false));
}

/// What clap says is wrong with the command line, which may quote any of it.
pub fn refusal(why: &clap::Error) {
    let kept_out = |argument: OsString| {
        let argument = argument.to_string_lossy();
        argument.contains(char::is_control) || secret::hidden(&argument) != argument
    };
    if std::env::args_os().any(kept_out) {
        secret::quoting(&why.render().to_string()).lines().for_each(note);
    } else {
        // In colours, where there are any. Nowhere is left to say that it can't be written.
        let _ = why.print();
    }
}

/// In one line on stderr why a command failed.
pub fn why(error: &CommandError) {
    // Texts of the system may have several lines.
    let line = secret::quoting(&error.to_string()).replace('\n', " ");
    note(format_args!("forebay: {line}"));
}

fn stdout(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn lost(error: &io::Error) -> CommandError {
    CommandError::Failed(format!("can't write to standard output: {error}; what was to be said is lost"))
}

/// Says on stderr how many malformed records were passed over, if any, and what was wrong with the first.
#[cfg(feature = "lab")]
pub fn skipped(skipped: u64, first: Option<&str>) {
    let first = first.unwrap_or("not known");
    match skipped {
        0 => {}
        1 => note(format_args!("forebay: 1 malformed record was passed over: {first}")),
        _ => note(format_args!("forebay: {skipped} malformed records were passed over, the first: {first}")),
    }
}

/// Says on stderr what has to be known of how a trace was read.
#[cfg(feature = "lab")]
pub fn warnings(trace: &std::path::Path, warnings: &[String]) {
    warnings.iter().for_each(|warning| note(format_args!("forebay: {}: {warning}", trace.display())));
}
