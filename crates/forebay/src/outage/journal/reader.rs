//! What the file keeps, read back.

use std::io;
use std::sync::Arc;

use super::index::Index;
use super::scan::{read_dropped, read_live};
use super::{OpenError, PendingRecords, Source};
use crate::outage::disk::DiskFile;
use crate::outage::record::{Dropped, Pending};

/// The file as it is now; none once it is closed.
pub(super) struct Reader<'a> {
    name: String,
    file: Option<&'a Arc<dyn DiskFile>>,
    marker: u64,
    index: &'a Index,
}

impl<'a> Reader<'a> {
    pub(super) fn new(name: String, file: Option<&'a Arc<dyn DiskFile>>, marker: u64, index: &'a Index) -> Reader<'a> {
        Reader { name, file, marker, index }
    }

    /// All that is pending now, to be read later.
    pub(super) fn pending(self) -> PendingRecords {
        let live = self.index.iter().map(|(_, live)| live.clone()).collect::<Vec<_>>();
        PendingRecords(Source::File {
            file: self.file.cloned(),
            name: self.name,
            marker: self.marker,
            live: live.into_iter(),
        })
    }

    /// How the last ended that were given up, oldest first.
    pub(super) fn dropped(&self) -> Result<Vec<Dropped>, OpenError> {
        let Some(file) = self.file else { return Ok(Vec::new()) };
        self.index.ended().map(|(_, place)| read_dropped(&**file, &self.name, self.marker, place)).collect()
    }

    /// Reads one that is pending.
    pub(super) fn pending_at(&self, number: u64) -> Result<Option<Pending>, OpenError> {
        match (self.index.get(number), self.file) {
            (None, _) => Ok(None),
            (Some(live), Some(file)) => read_live(&**file, &self.name, self.marker, live).map(Some),
            (Some(_), None) => {
                let why = io::Error::other("the journal is closed");
                Err(OpenError::Io { file: self.name.clone(), why })
            }
        }
    }
}
