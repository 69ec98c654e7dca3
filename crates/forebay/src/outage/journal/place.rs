//! Whether the file is where the next start looks for it.

use super::AppendError;
use crate::outage::disk::{DiskFile, Folder};

/// Whether the next start would find `file` under `name`.
pub(super) fn still_there(folder: &dyn Folder, name: &str, file: &dyn DiskFile) -> Result<(), AppendError> {
    let path = || folder.show(name);
    let looked = file.identity().and_then(|own| Ok((own, folder.identity(name)?)));
    let (own, named) = looked.map_err(|why| AppendError::Closed { why: format!("{}: {why}", path()) })?;
    match named {
        Some(named) if named.number == own.number => Ok(()),
        _ if own.names == 0 => Err(AppendError::Removed { file: path() }),
        _ => {
            let why = format!("{} is not there any more: it was moved or removed; put it back", path());
            Err(AppendError::Closed { why })
        }
    }
}
