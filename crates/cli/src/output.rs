//! Files that a command makes: whole or not at all. Whether they can be written is known at the start.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::error::CommandError;
use crate::unfinished;

/// Bytes gathered for one write.
const BUFFER_BYTES: usize = 64 << 10;

/// A file that takes its name when it is finished; dropped before, or ended by a signal, it leaves nothing behind.
pub struct Output {
    path: PathBuf,
    replaces: bool,
    written: BufWriter<Place>,
}

/// Where the bytes go until then.
enum Place {
    /// Beside the name, which they then get.
    Beside(NamedTempFile),
    /// Into what has the name and stays: a pipe or a device, which a file must never take the place of.
    Into(File),
}

impl Output {
    /// One that must not exist yet.
    pub fn create(path: &Path) -> Result<Output, CommandError> {
        if path.symlink_metadata().is_ok() {
            let why = format!("{} exists; choose a file that does not, or remove it first", path.display());
            return Err(CommandError::Usage(why));
        }
        Output::beside(path.to_owned(), false)
    }

    /// Whether [`Output::replace`] would make a file: known before an hour's work, and nothing is touched.
    pub fn try_replace(path: &Path) -> Result<(), CommandError> {
        not_a_folder(path)?;
        if is_no_file(path) { Ok(()) } else { temporary(&target(path)).map(drop) }
    }

    /// One that replaces what is there, but none of these files, of which it is made. A link stays one; a pipe or a
    /// device is written into.
    pub fn replace(path: &Path, sources: &[&Path]) -> Result<Output, CommandError> {
        not_a_folder(path)?;
        let known = path.canonicalize().ok();
        if let Some(source) = sources.iter().find(|source| known.is_some() && source.canonicalize().ok() == known) {
            let why = "is what is to be read, and would be lost; name another file to write";
            return Err(CommandError::Usage(format!("{} {why}", source.display())));
        }
        if is_no_file(path) {
            let failed = |error| CommandError::Usage(format!("can't write {}: {error}", path.display()));
            let file = File::options().write(true).open(path).map_err(failed)?;
            let written = BufWriter::with_capacity(BUFFER_BYTES, Place::Into(file));
            return Ok(Output { path: path.to_owned(), replaces: true, written });
        }
        Output::beside(target(path), true)
    }

    fn beside(path: PathBuf, replaces: bool) -> Result<Output, CommandError> {
        unfinished::watch()?;
        let made = unfinished::begin(|| temporary(&path), |made| Some(made.as_ref().ok()?.path().to_owned()));
        Ok(Output { path, replaces, written: BufWriter::with_capacity(BUFFER_BYTES, Place::Beside(made?)) })
    }

    /// Gives it its name.
    pub fn finish(self) -> Result<File, CommandError> {
        let failed = |error: io::Error| CommandError::Failed(format!("can't write {}: {error}", self.path.display()));
        let written = match self.written.into_inner().map_err(|error| failed(error.into_error()))? {
            Place::Beside(file) => file,
            Place::Into(file) => return Ok(file),
        };
        let temporary = written.path().to_owned();
        let named = if self.replaces { written.persist(&self.path) } else { written.persist_noclobber(&self.path) };
        unfinished::end(&temporary);
        named.map_err(|error| failed(error.error))
    }
}

/// Whether what is there, a link followed, is a pipe or a device.
fn is_no_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// What has to be replaced: of a link what it leads to.
fn target(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn not_a_folder(path: &Path) -> Result<(), CommandError> {
    match path.is_dir() {
        true => Err(CommandError::Usage(format!("{} is a folder; name a file", path.display()))),
        false => Ok(()),
    }
}

/// A file beside `path`, which it may take the place of.
fn temporary(path: &Path) -> Result<NamedTempFile, CommandError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = Builder::new();
    builder.prefix(".forebay-");
    // As other new files are, not for the owner alone.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder).map_err(|error| {
        // What tempfile adds is a name that nobody has given.
        let (said, advice) = (error.to_string(), format!("make the folder {} first", folder.display()));
        let why = said.split(" at path \"").next().unwrap_or_default();
        let advice = if folder.is_dir() { "choose another place" } else { &advice };
        CommandError::Usage(format!("can't write {}: {why}; {advice}", path.display()))
    })
}

// A temporary file's own Write names it in its errors, by a name that nobody has given.
impl Write for Place {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

impl Place {
    fn file(&mut self) -> &mut File {
        match self {
            Place::Beside(file) => file.as_file_mut(),
            Place::Into(file) => file,
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.written.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_whole_or_not_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.txt");
        let names = || std::fs::read_dir(folder.path()).expect("readable").count();
        assert!(
            Output::replace(folder.path(), &[]).is_err() && Output::create(&folder.path().join("no/such")).is_err()
        );
        let mut output = Output::create(&path).expect("it can be");
        output.write_all(b"half").expect("written");
        drop(output);
        assert_eq!(names(), 0);
        let mut output = Output::create(&path).expect("it can be");
        output.write_all(b"whole").expect("written");
        output.finish().expect("named");
        assert!(Output::create(&path).is_err());
        let again = folder.path().join(".").join("a.txt");
        assert!(Output::replace(&path, &[folder.path(), &again]).is_err(), "it would be lost");
        let mut output = Output::replace(&path, &[folder.path()]).expect("it can be");
        output.write_all(b"other").expect("written");
        assert_eq!(std::fs::read(&path).expect("there"), b"whole");
        output.finish().expect("named");
        assert_eq!((std::fs::read(&path).expect("there").as_slice(), names()), (&b"other"[..], 1));
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_and_a_link_stay_what_they_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("a.html"), "old").expect("written");
        std::os::unix::fs::symlink("a.html", at("link.html")).expect("linked");
        Output::try_replace(&at("link.html")).expect("it can be");
        let mut output = Output::replace(&at("link.html"), &[]).expect("it can be");
        output.write_all(b"new").expect("written");
        output.finish().expect("named");
        assert!(at("link.html").is_symlink());
        assert_eq!(std::fs::read(at("a.html")).expect("there"), b"new");

        let made = std::process::Command::new("mkfifo").arg(at("pipe")).status().expect("mkfifo runs");
        assert!(made.success());
        let pipe = at("pipe");
        let reads = std::thread::spawn(move || std::fs::read(pipe));
        Output::try_replace(&at("pipe")).expect("it can be");
        let mut output = Output::replace(&at("pipe"), &[]).expect("it can be");
        output.write_all(b"through").expect("written");
        drop(output.finish().expect("written"));
        assert!(!at("pipe").metadata().expect("there").is_file());
        assert_eq!(reads.join().expect("it reads").expect("readable"), b"through");
    }
}
