//! Files that an operator names: settings, users, passwords, certificates, stores.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

/// Bytes of a file that is read as a whole at most, unless it has a limit of its own.
pub const NAMED_FILE_BYTES_MAX: u64 = 4 << 20;

/// How long a pipe may give nothing.
const PIPE_WAIT: Duration = Duration::from_secs(5);

/// Between two looks at a pipe.
const PIPE_PAUSE: Duration = Duration::from_millis(5);

/// Rights that nobody but the owner may have.
const OTHERS: u32 = 0o077;

/// Rights of files that forebay makes.
const FILE_MODE: u32 = 0o600;

/// What stands in `file`, unless that is more than `bytes_max`, or it is a device: one may never end. A pipe is read to
/// its end, if it gives anything within [`PIPE_WAIT`]: without a program that writes into it, it would be waited for
/// without end.
pub fn read(file: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    let open = OpenOptions::new().read(true).custom_flags(flags).open(file)?;
    let kind = open.metadata()?.file_type();
    if kind.is_char_device() || kind.is_block_device() {
        return Err(io::Error::other("it is a device; name a file"));
    }
    let mut bytes = Vec::new();
    let mut limited = open.take(bytes_max + 1);
    match kind.is_fifo() {
        true => read_pipe(&mut limited, &mut bytes, PIPE_WAIT)?,
        false => limited.read_to_end(&mut bytes).map(drop)?,
    }
    match bytes.len() as u64 > bytes_max {
        true => Err(io::Error::other(format!("it is longer than {bytes_max} bytes; is it the file that was meant?"))),
        false => Ok(bytes),
    }
}

/// Reads a pipe, which answers at once, to its end. Each part of it has to come within `wait`.
fn read_pipe(pipe: &mut impl Read, bytes: &mut Vec<u8>, wait: Duration) -> io::Result<()> {
    let mut last = Instant::now();
    loop {
        let before = bytes.len();
        match pipe.read_to_end(bytes) {
            // Nothing, and nothing before: no program has opened it to write yet.
            Ok(_) if !bytes.is_empty() => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Ok(_) | Err(_) => {}
        }
        if bytes.len() > before {
            last = Instant::now();
        }
        if last.elapsed() > wait {
            let why = format!("it is a pipe that gave nothing for {} s; name a file", wait.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        std::thread::sleep(PIPE_PAUSE);
    }
}

/// Likewise as text.
pub fn read_text(file: &Path, bytes_max: u64) -> io::Result<String> {
    let wrong = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    String::from_utf8(read(file, bytes_max)?).map_err(wrong)
}

/// The error of opening `path`, or that it is a link, and what to do.
pub(crate) fn unless_link(path: &Path, error: io::Error, instead: &str) -> io::Error {
    match std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        true => io::Error::other(format!("it is a symbolic link, which is not followed ({error}); {instead}")),
        false => error,
    }
}

/// Opens a file that forebay has made, or makes it, as `options` say. Never through a symbolic link, which may lead to
/// a file of somebody else; and it waits for no pipe.
pub(crate) fn open_own(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = open_unchanged(path, options)?;
    tighten(&file, path);
    Ok(file)
}

/// Likewise, and leaves its rights as they are: it may be a file of somebody else.
pub(crate) fn open_unchanged(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).map_err(io::Error::other)?;
    let file = options.mode(FILE_MODE).custom_flags(flags).open(path);
    let file = file.map_err(|error| unless_link(path, error, "put the file itself there"))?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file; move it away"));
    }
    Ok(file)
}

/// A file that takes the place of another when it is whole.
pub(crate) struct Successor {
    /// Empty at first. The lock on it keeps other processes from writing it.
    pub file: File,
    temporary: PathBuf,
    path: PathBuf,
    in_place: bool,
}

impl Successor {
    /// One for `path`. It lies beside it, as `path.tmp`; what a process left there that was killed is gone.
    pub fn begin(path: &Path) -> io::Result<Successor> {
        let temporary = Successor::temporary(path)?;
        let file = open_own(&temporary, OpenOptions::new().create(true).truncate(false).write(true))?;
        let busy = || io::Error::new(io::ErrorKind::WouldBlock, "another process writes it");
        file.try_lock().map_err(|_| busy())?;
        // Another may have renamed it between the two steps: what is locked is that other's file then.
        let (ours, there) = (file.metadata()?, std::fs::symlink_metadata(&temporary));
        if !there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            return Err(busy());
        }
        file.set_len(0)?;
        Ok(Successor { file, temporary, path: path.to_path_buf(), in_place: false })
    }

    /// Where the one for `path` lies.
    pub fn temporary(path: &Path) -> io::Result<PathBuf> {
        let name = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?;
        let mut beside = name.to_os_string();
        beside.push(".tmp");
        Ok(path.with_file_name(beside))
    }

    /// It is whole: it is brought to the disk and takes its place.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        std::fs::rename(&self.temporary, &self.path)?;
        self.in_place = true;
        // So that a crash does not bring the old one back.
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        if !self.in_place {
            // Nothing more can be done about a file that stays.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Takes the rights of others from what is open as `file`, if they have any: it holds what clients have written.
pub(crate) fn tighten(file: &File, path: &Path) {
    let wide = |found: Metadata| Some(found.mode() & 0o7777).filter(|mode| mode & OTHERS != 0);
    let Some(found) = file.metadata().ok().and_then(wide) else { return };
    let path = path.display();
    match file.set_permissions(Permissions::from_mode(found & !OTHERS)) {
        Ok(()) => tracing::warn!(%path, "others had rights on it (mode {found:o}), and have none any more"),
        Err(error) => tracing::warn!(%path, %error, "others have rights on it (mode {found:o}); change its mode"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_what_is_too_long_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "12345").unwrap();
        assert_eq!(read_text(&file, 5).unwrap(), "12345");
        assert!(read(&file, 4).unwrap_err().to_string().contains("longer than 4 bytes"));
        assert!(read(Path::new("/dev/zero"), 5).unwrap_err().to_string().contains("device"));
    }

    /// A file that is not finished leaves the one before, and a name that is taken by something else is left alone.
    #[test]
    fn a_successor_takes_its_place_when_it_is_whole() {
        use std::io::Write;
        let folder = tempfile::tempdir().unwrap();
        let (path, beside) = (folder.path().join("file"), folder.path().join("file.tmp"));
        let write = |text: &str| {
            let successor = Successor::begin(&path).unwrap();
            (&successor.file).write_all(text.as_bytes()).unwrap();
            successor
        };
        write("1").finish().unwrap();
        drop(write("2"));
        assert_eq!((std::fs::read_to_string(&path).unwrap().as_str(), beside.exists()), ("1", false));
        std::fs::write(&beside, "what was killed has left, and long").unwrap();
        let held = write("3");
        let mode = held.file.metadata().unwrap().mode() & 0o777;
        assert_eq!(
            (mode, Successor::begin(&path).err().map(|error| error.kind())),
            (FILE_MODE, Some(io::ErrorKind::WouldBlock))
        );
        held.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "3");
        for (kind, make) in [("link", "ln -s file"), ("regular", "mkdir"), ("regular", "mkfifo")] {
            let script = format!("{make} \"$0\"");
            assert!(std::process::Command::new("sh").args(["-c", &script]).arg(&beside).status().unwrap().success());
            let error = Successor::begin(&path).err().expect(make).to_string();
            assert!(error.contains(kind) || error.contains("directory") || error.contains("device"), "{make}: {error}");
            let _ = std::fs::remove_file(&beside).or_else(|_| std::fs::remove_dir(&beside));
        }
        assert!(Successor::begin(Path::new("/")).is_err());
    }

    /// A pipe that no program writes into ends in an error; one that is written in parts is read whole.
    #[test]
    fn a_pipe_is_not_waited_for_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let open = || {
            let flags = OFlags::NONBLOCK.bits() as i32;
            OpenOptions::new().read(true).custom_flags(flags).open(&path).unwrap()
        };
        let mut bytes = Vec::new();
        let error = read_pipe(&mut open(), &mut bytes, Duration::from_millis(20)).unwrap_err();
        assert!(error.to_string().contains("gave nothing"), "{error}");
        let writes = {
            let path = path.clone();
            std::thread::spawn(move || {
                use std::io::Write;
                let mut pipe = OpenOptions::new().write(true).open(path).unwrap();
                for part in ["12", "345"] {
                    pipe.write_all(part.as_bytes()).unwrap();
                    std::thread::sleep(Duration::from_millis(30));
                }
            })
        };
        assert_eq!(read_text(&path, 5).unwrap(), "12345");
        writes.join().unwrap();
    }
}
