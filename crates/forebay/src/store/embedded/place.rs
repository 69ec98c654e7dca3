//! Where the file lies. A new one is made beside its place, and gets its name when it is a store. So an empty file of
//! that name was cut to nothing, and is no store. A file that was opened once is never made again: what takes its place
//! would have none of what was acknowledged.
//!
//! **Invariant.** While the open file does not lie in its place, no commit is acknowledged, but for those of the second
//! before that is noticed.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use redb::StorageBackend;
use redb::backends::FileBackend;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::error::Unavailable;

/// Links that one place leads through at most; systems follow about as many.
const LINKS_MAX: usize = 40;

/// What is told apart by this is one file, whatever its name.
type Identity = (u64, u64);

/// The place of a store's file.
pub(super) struct Place {
    path: PathBuf,
    /// Of the file that was opened last.
    open: Mutex<Option<Identity>>,
    gone: AtomicBool,
}

impl Place {
    pub fn new(path: PathBuf) -> Place {
        Place { path, open: Mutex::new(None), gone: AtomicBool::new(false) }
    }

    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Opens the file; the first time it is made if there is none.
    pub fn open(&self) -> io::Result<Box<dyn StorageBackend>> {
        let first = self.identity().is_none();
        let makes = first && !self.path.try_exists()?;
        let path = if makes { self.beside() } else { self.path.clone() };
        // What a start has left that was killed before it had made a store.
        if makes && let Err(error) = fs::remove_file(&path) {
            (error.kind() == io::ErrorKind::NotFound).then_some(()).ok_or(error)?;
        }
        let mut options = OpenOptions::new();
        // All data is in it: a new one is its owner's alone.
        options.read(true).write(true).create_new(makes).mode(0o600);
        let file = options.open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        if !makes && found.len() == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it is empty"));
        }
        let backend = FileBackend::new(file).map_err(plain_error)?;
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some((found.dev(), found.ino()));
        Ok(Box::new(backend))
    }

    /// What was opened is a store: it gets its name, if it was made.
    pub fn settle(&self) -> io::Result<()> {
        if self.is_there() {
            return Ok(());
        }
        rename(&self.beside(), &self.target())?;
        if !self.is_there() {
            return Err(io::Error::other("another start has made it at the same time"));
        }
        // Without this a crash may take the name of the new file along, and with it all that was written.
        let target = self.target();
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }

    /// Looks whether the open file lies in its place, and says so in the log where that has changed.
    pub fn look(&self) {
        let gone = !self.is_there();
        if self.gone.swap(gone, Ordering::SeqCst) == gone {
            return;
        }
        match gone {
            true => tracing::error!(store = self.name(), "{GONE}"),
            false => tracing::info!(store = self.name(), "the store's file is in its place again"),
        }
    }

    /// Refuses what would be written to a file that no start finds.
    pub fn check(&self) -> Result<(), Unavailable> {
        match self.gone.load(Ordering::SeqCst) {
            true => Err(Unavailable(format!("{}: {GONE}", self.name()))),
            false => Ok(()),
        }
    }

    fn identity(&self) -> Option<Identity> {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_there(&self) -> bool {
        let found = fs::metadata(&self.path).ok().map(|found| (found.dev(), found.ino()));
        found == self.identity()
    }

    /// What the place leads to, if it is a link: a new file comes to lie there.
    fn target(&self) -> PathBuf {
        let mut path = self.path.clone();
        for _ in 0..LINKS_MAX {
            let Ok(link) = fs::read_link(&path) else { break };
            path = path.parent().map_or(link.clone(), |folder| folder.join(link));
        }
        path
    }

    /// Where a new file is made.
    fn beside(&self) -> PathBuf {
        let mut name = self.target().into_os_string();
        name.push(OsString::from(".new"));
        PathBuf::from(name)
    }
}

const GONE: &str = "the store's file was moved or removed while it is open; writes are refused until it is put back";

/// Renames a file to a name that no other has.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        // Not on every file system.
        Err(Errno::INVAL | Errno::NOSYS) if !to.try_exists()? => fs::rename(from, to),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn plain_error(error: redb::DatabaseError) -> io::Error {
    match error {
        redb::DatabaseError::Storage(redb::StorageError::Io(error)) => error,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let place = Place::new(path.clone());
        // A start that was killed before it had made a store.
        fs::write(place.beside(), "half").unwrap();
        let (made, other) = (place.open().unwrap(), Place::new(path.clone()));
        assert_eq!((path.exists(), made.len().unwrap()), (false, 0));
        made.write(0, b"store").unwrap();
        place.settle().unwrap();
        drop(made);
        // Another start that makes one at the same time takes nothing from it.
        fs::rename(&path, folder.path().join("aside")).unwrap();
        drop(other.open().unwrap());
        fs::rename(folder.path().join("aside"), &path).unwrap();
        assert!(other.settle().is_err());
        assert_eq!(fs::read(&path).unwrap(), b"store");
        // What takes its place later has none of it.
        drop(place.open().unwrap());
        fs::remove_file(&path).unwrap();
        assert_eq!(place.open().err().map(|error| error.kind()), Some(io::ErrorKind::NotFound));
        fs::write(&path, "").unwrap();
        let empty = Place::new(path).open().err();
        assert_eq!(empty.map(|error| error.kind()), Some(io::ErrorKind::UnexpectedEof));
    }

    #[test]
    fn a_link_leads_to_where_the_file_is_made() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("volume")).unwrap();
        symlink("second", at("first")).unwrap();
        symlink(at("volume/store"), at("second")).unwrap();
        let place = Place::new(at("first"));
        let made = place.open().unwrap();
        made.write(0, b"store").unwrap();
        place.settle().unwrap();
        assert_eq!(fs::read(at("volume/store")).unwrap(), b"store");
        assert_eq!(fs::read_dir(at("volume")).unwrap().count(), 1);
        drop(made);
        drop(Place::new(at("first")).open().unwrap());
        // One that leads in a circle leads nowhere.
        symlink("circle", at("circle")).unwrap();
        assert!(Place::new(at("circle")).open().is_err());
    }

    #[test]
    fn what_is_no_file_is_no_store() {
        let error = |path: &str| Place::new(path.into()).open().err().map(|error| error.to_string());
        assert_eq!(error("/dev/null").as_deref(), Some("it is no regular file"));
    }

    #[test]
    fn a_file_that_is_not_in_its_place_takes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (path, aside) = (folder.path().join("store"), folder.path().join("aside"));
        let place = Place::new(path.clone());
        let _open = place.open().unwrap();
        place.settle().unwrap();
        let looks = |expected: bool| {
            place.look();
            assert_eq!(place.check().is_ok(), expected);
        };
        looks(true);
        fs::rename(&path, &aside).unwrap();
        looks(false);
        fs::write(&path, "another").unwrap();
        looks(false);
        fs::rename(&aside, &path).unwrap();
        looks(true);
    }
}
