//! A file that is written beside the one that it replaces when it is whole.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

/// See the module.
pub(super) struct Beside {
    file: File,
    /// Removed again, unless it took its place.
    temporary: Option<PathBuf>,
    path: PathBuf,
}

impl Beside {
    /// An empty file, for `path`.
    pub fn new(path: &Path) -> io::Result<Beside> {
        let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it names no file"))?;
        let mut beside = name.to_os_string();
        // What a process left that was killed is in no other's way: in a container all have one number.
        beside.push(format!(".{:016x}.tmp", RandomState::new().hash_one(name)));
        let temporary = path.with_file_name(beside);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // Values, and the seeds of hashes, are nothing for other users.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&temporary)?;
        Ok(Beside { file, temporary: Some(temporary), path: path.to_path_buf() })
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// It is whole, is brought to the disk, and takes its place.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if let Some(temporary) = &self.temporary {
            std::fs::rename(temporary, &self.path)?;
        }
        self.temporary = None;
        // So that a crash does not bring the old one back.
        #[cfg(unix)]
        if let Some(folder) = self.path.parent() {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            // Nothing more can be done about a file that stays.
            _ = std::fs::remove_file(temporary);
        }
    }
}
