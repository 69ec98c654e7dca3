//! What is said where a trace comes from a pipe that gives it slowly, or not at all.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use crate::{say, standard_input};

/// Who waits so long is told for what.
const TOLD: Duration = Duration::from_secs(2);

/// Whether `trace` is a pipe that has a name. To open it waits for who writes it, and to close it ends that one.
pub fn is_pipe(trace: &Path) -> bool {
    std::fs::metadata(trace).is_ok_and(|found| found.file_type().is_fifo())
}

/// Says what is waited for, unless the answer is dropped before.
pub fn tell(trace: &Path) -> Option<Sender<()>> {
    let waits_for = match trace {
        trace if standard_input::is(trace) => "reads standard input to its end, or to Ctrl-C".to_owned(),
        trace if is_pipe(trace) => format!("waits for the end of a trace from the pipe {}", trace.display()),
        _ => return None,
    };
    let (over, waits) = mpsc::channel();
    std::thread::spawn(move || {
        if waits.recv_timeout(TOLD) == Err(RecvTimeoutError::Timeout) {
            say::note(format_args!("forebay: {waits_for}"));
        }
    });
    Some(over)
}
