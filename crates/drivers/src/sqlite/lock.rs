//! One forebay per file: an advisory lock on a file beside it, which ends with the process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a forebay that has just ended may take to give the file up.
const TAKE_OVER: Duration = Duration::from_secs(5);

/// Wait between two tries.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// Bytes that are read of who has it.
const HOLDER_BYTES_MAX: u64 = 256;

/// Why it was not taken.
pub(super) enum NotTaken {
    /// Another process has it, as that one says.
    Held(String),
    /// The file of the lock can't be made, opened or locked.
    Failed(String),
}

/// Held until dropped.
pub(super) struct Lock {
    _file: File,
}

/// The file that is locked for the database at `path`.
pub(super) fn path_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-forebay");
    PathBuf::from(name)
}

impl Lock {
    /// Takes the lock of the database at `path`; waits for a forebay that is ending.
    pub(super) fn take(path: &Path) -> Result<Lock, NotTaken> {
        let path = path_of(path);
        let failed = |error: std::io::Error| NotTaken::Failed(format!("{}: {error}", path.display()));
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        let until = Instant::now() + TAKE_OVER;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(TRY_AGAIN),
                Err(TryLockError::WouldBlock) => {
                    let mut holder = String::new();
                    let _ = (&file).take(HOLDER_BYTES_MAX).read_to_string(&mut holder);
                    return Err(NotTaken::Held(holder.trim().to_owned()));
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
        let holder = format!("process {}\n", std::process::id());
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(holder.as_bytes()))
            .map_err(failed)?;
        Ok(Lock { _file: file })
    }
}
