//! The folder in which a journal lies: the file system's, or one of a test that forgets what was not synced.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, OFlags};

use crate::runtime::files::{open_own, open_unchanged, tighten, unless_link};

/// A folder of few files. Names are plain: no separators.
pub trait Folder: Send + Sync + 'static {
    /// What to call the file `name` where people look: its path.
    fn show(&self, name: &str) -> String;

    /// Keeps others from using this folder until the answer is dropped; an error of kind `WouldBlock` if one does.
    fn lock(&self) -> io::Result<Box<dyn Send>>;

    /// Opens `name` for reading and writing; none if it is not there.
    fn open(&self, name: &str) -> io::Result<Option<Arc<dyn DiskFile>>>;

    /// Which file `name` is now; none if it is not there.
    fn identity(&self, name: &str) -> io::Result<Option<FileIdentity>>;

    /// Makes `name`, empty; what was there is gone.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Renames `from` to `to`, at once and instead of a `to` that was there; safe after [`Folder::sync`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes `name`, if it is there.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes what was made, renamed and removed durable.
    fn sync(&self) -> io::Result<()>;

    /// Bytes of the disk that nothing has taken; none if nobody can tell.
    fn free(&self) -> io::Result<Option<u64>>;

    /// What is the same as long as the machine has not lost what was written but not synced: the machine's boot. None
    /// if nobody can tell.
    fn boot(&self) -> Option<u128>;
}

/// Which file of the system's it is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// Differs between files that are there at the same time.
    pub number: u128,
    /// How many names it has; without one nobody will ever open it again.
    pub names: u64,
}

/// A file that grows at its end.
pub trait DiskFile: Send + Sync {
    /// Which one it is.
    fn identity(&self) -> io::Result<FileIdentity>;

    /// Its length in bytes.
    fn bytes(&self) -> io::Result<u64>;

    /// Fills `out` with what stands from `offset` on; an error of kind `UnexpectedEof` if the file ends before.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes `data` at `offset`, all of it.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Takes room on the disk, so that the file can grow to `bytes` whatever others write; its length stays. An error
    /// for which [`is_full`] answers yes if there is none, one of kind `Unsupported` where the file system can't.
    fn reserve(&self, bytes: u64) -> io::Result<()>;

    /// Cuts or lengthens it, and gives up the room taken beyond.
    fn set_bytes(&self, bytes: u64) -> io::Result<()>;

    /// Makes what was written durable.
    fn sync(&self) -> io::Result<()>;
}

/// Whether `error` says that there is no room: what was to be written is not there, or in part, and the file is sound.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// A folder of the file system. What lies in it is for its owner alone: it holds what clients have written.
#[derive(Clone, Debug)]
pub struct RealFolder {
    path: PathBuf,
}

const LOCK_NAME: &str = "lock";
const FOLDER_MODE: u32 = 0o700;

fn identity_of(metadata: &fs::Metadata) -> FileIdentity {
    FileIdentity { number: u128::from(metadata.dev()) << 64 | u128::from(metadata.ino()), names: metadata.nlink() }
}

impl RealFolder {
    /// The folder `path`, which is made if it is not there (its parent must be); refused if it is a symbolic
    /// link, or holds what no journal has.
    pub fn new(path: impl AsRef<Path>) -> io::Result<RealFolder> {
        // Without the slash at its end, behind which the system follows a link.
        let path: PathBuf = path.as_ref().components().collect();
        match DirBuilder::new().mode(FOLDER_MODE).create(&path) {
            Ok(()) => {
                // The new name is in the parent, whose sync makes it last.
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
                File::open(parent)?.sync_all()?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::DIRECTORY).bits()).map_err(io::Error::other)?;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&path);
        let file = file.map_err(|error| unless_link(&path, error, "name the folder that it leads to"))?;
        refuse_others(&path)?;
        tighten(&file, &path);
        Ok(RealFolder { path })
    }

    fn open_file(&self, name: &str, options: &mut OpenOptions) -> io::Result<File> {
        open_own(&self.path.join(name), options)
    }
}

/// The journal, and what else may lie in its folder before it does: what a start has made that was cut off, and what
/// the system puts into the first folder of a disk.
const JOURNAL_NAME: &str = "journal";
const EARLY_NAMES: [&str; 5] = [LOCK_NAME, "journal.new", "length", "store", "lost+found"];
const MAGIC: &[u8] = b"forebay";

/// An error if the folder `path` is somebody else's: before anything of it is changed.
fn refuse_others(path: &Path) -> io::Result<()> {
    let other = |name: &str| {
        Err(io::Error::other(format!("it holds '{name}', which is none of a journal's; name an empty or a new folder")))
    };
    match open_unchanged(&path.join(JOURNAL_NAME), OpenOptions::new().read(true)) {
        Ok(file) => {
            let mut begin = Vec::new();
            file.take(MAGIC.len() as u64).read_to_end(&mut begin)?;
            return if MAGIC.starts_with(&begin) { Ok(()) } else { other(JOURNAL_NAME) };
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if !EARLY_NAMES.iter().any(|early| name == *early) {
            return other(&name.to_string_lossy());
        }
    }
    Ok(())
}

impl Folder for RealFolder {
    fn show(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    fn lock(&self) -> io::Result<Box<dyn Send>> {
        let file = self.open_file(LOCK_NAME, OpenOptions::new().create(true).truncate(false).write(true))?;
        file.try_lock().map_err(io::Error::from)?;
        Ok(Box::new(file))
    }

    fn open(&self, name: &str) -> io::Result<Option<Arc<dyn DiskFile>>> {
        match self.open_file(name, OpenOptions::new().read(true).write(true)) {
            Ok(file) => Ok(Some(Arc::new(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn identity(&self, name: &str) -> io::Result<Option<FileIdentity>> {
        match fs::symlink_metadata(self.path.join(name)) {
            Ok(metadata) => Ok(Some(identity_of(&metadata))),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.open_file(name, OpenOptions::new().read(true).write(true).create(true).truncate(true))?;
        Ok(Arc::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn free(&self) -> io::Result<Option<u64>> {
        let found = rustix::fs::statvfs(&self.path)?;
        // Some file systems have no such count.
        Ok((found.f_blocks > 0).then(|| found.f_bavail.saturating_mul(found.f_frsize)))
    }

    fn boot(&self) -> Option<u128> {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        u128::from_str_radix(&text.trim().replace('-', ""), 16).ok()
    }
}

impl DiskFile for File {
    fn identity(&self) -> io::Result<FileIdentity> {
        Ok(identity_of(&self.metadata()?))
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, out, offset)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(self, data, offset)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(self, FallocateFlags::KEEP_SIZE, 0, bytes)?)
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
