//! Files that are being made: a signal that ends the program removes them first. What unwinding removes would stay
//! else, hidden, and may be large.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::CommandError;
use crate::node::StopSignals;

static FILES: Mutex<Option<BTreeSet<PathBuf>>> = Mutex::new(None);

fn files() -> MutexGuard<'static, Option<BTreeSet<PathBuf>>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on SIGINT and SIGTERM end the program by way of [`removed`].
pub fn watch() -> Result<(), CommandError> {
    let mut files = files();
    if files.is_some() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(CommandError::Machine)?;
    let mut signals = {
        let _inside = runtime.enter();
        StopSignals::new()?
    };
    let waiting = std::thread::Builder::new().name("signals".into());
    let waiting = waiting.spawn(move || {
        let signal = runtime.block_on(signals.next());
        // The lock stays: a file that is begun now would be left.
        let mut files = self::files();
        removed(files.take().unwrap_or_default());
        // As a shell reports a process that the signal ended.
        std::process::exit(128 + signal.as_raw_value());
    });
    waiting.map_err(CommandError::Machine)?;
    *files = Some(BTreeSet::new());
    Ok(())
}

/// Makes a file with `make` and knows it, unless the program is about to end.
pub fn begin<T>(make: impl FnOnce() -> T, path: impl FnOnce(&T) -> Option<PathBuf>) -> T {
    let mut files = files();
    let made = make();
    if let (Some(files), Some(path)) = (&mut *files, path(&made)) {
        files.insert(path);
    }
    made
}

/// It is finished, or removed.
pub fn end(path: &Path) {
    if let Some(files) = &mut *files() {
        files.remove(path);
    }
}

fn removed(files: BTreeSet<PathBuf>) {
    for file in files {
        // It may have got its name in the meantime.
        let _ = std::fs::remove_file(file);
    }
}
