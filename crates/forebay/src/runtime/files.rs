//! Files that an operator names: settings, users, passwords, certificates, stores.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// Bytes of a file that is read as a whole at most, unless it has a limit of its own.
pub const NAMED_FILE_BYTES_MAX: u64 = 4 << 20;

/// Rights that nobody but the owner may have.
const OTHERS: u32 = 0o077;

/// What stands in `file`, unless that is more than `bytes_max`, or it is a device: one may never end. A pipe is read to
/// its end.
pub fn read(file: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut open = File::open(file)?;
    let kind = open.metadata()?.file_type();
    if kind.is_char_device() || kind.is_block_device() {
        return Err(io::Error::other("it is a device; name a file"));
    }
    let mut bytes = Vec::new();
    open.by_ref().take(bytes_max + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > bytes_max {
        true => Err(io::Error::other(format!("it is longer than {bytes_max} bytes; is it the file that was meant?"))),
        false => Ok(bytes),
    }
}

/// Likewise as text.
pub fn read_text(file: &Path, bytes_max: u64) -> io::Result<String> {
    let wrong = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    String::from_utf8(read(file, bytes_max)?).map_err(wrong)
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
}
