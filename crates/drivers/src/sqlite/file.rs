//! Whether the file that was opened is still the one at its path. A file that is renamed or replaced stays open, and
//! no reader finds what is committed to it.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file, whatever its name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file at `path`. The file itself is not opened: to close it again would end SQLite's locks of it.
    pub(super) fn at(path: &Path) -> Result<FileId, String> {
        match std::fs::metadata(path) {
            Ok(found) if found.is_file() => Ok(FileId { device: found.dev(), inode: found.ino() }),
            Ok(_) => Err(format!("{} is no file", path.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(format!("there is no file {}", path.display())),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }
}
