//! Reads: from a snapshot of the file, which shows all that was acknowledged before.

use std::sync::RwLockReadGuard;

use redb::Database;

use super::super::file::{self, Caught};
use super::super::locked::locked;
use super::super::read::{Failure, Snapshot};
use super::{Engine, SNAPSHOTS_MAX};
use crate::error::Unavailable;
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::store::portion::Portion;
use crate::store::{Read, ReadError};
use crate::version::Version;

impl Engine {
    /// Reads from a snapshot; a failure of the file closes it.
    pub fn read<T>(&self, work: impl FnMut(&mut Snapshot) -> Result<T, Failure>) -> Result<T, ReadError> {
        self.show();
        let mut guard = self.database();
        if guard.is_none() {
            drop(guard);
            self.ensure_open(&mut locked(&self.writer), false)?;
            guard = self.database();
        }
        let result = self.read_open(guard, work);
        result.unwrap_or_else(|caught| {
            let why = caught.told(&self.name);
            if !matches!(caught, Caught::Error(redb::Error::Corrupted(_))) {
                self.close_after_read(why.clone());
            }
            Err(self.unreadable(&why).into())
        })
    }

    /// The outer error says that the file failed.
    fn read_open<T>(
        &self,
        guard: RwLockReadGuard<'_, Option<Database>>,
        mut work: impl FnMut(&mut Snapshot) -> Result<T, Failure>,
    ) -> Result<Result<T, ReadError>, Caught> {
        let Some(database) = &*guard else { return Ok(Err(Unavailable("the store was closed".to_owned()).into())) };
        file::caught(|| -> Result<_, redb::Error> {
            match Snapshot::new(database).and_then(|mut snapshot| work(&mut snapshot)) {
                Err(Failure::Storage(error)) => Err(error),
                Err(Failure::Damaged(key, why)) => Ok(Err(ReadError::Damaged { key, why })),
                Err(Failure::Long) => Ok(Err(Unavailable("a document is too long".to_owned()).into())),
                Ok(read) => Ok(Ok(read)),
            }
        })
    }

    #[cfg(feature = "testing")]
    pub fn validate(&self) -> Result<(), String> {
        self.show();
        let guard = self.database();
        let database = guard.as_ref().ok_or("the store is closed")?;
        super::super::validate::validate(database).map_err(|error| error.to_string())?
    }

    fn close_after_read(&self, why: String) {
        let mut writer = locked(&self.writer);
        // What is acknowledged and sound does not go with a page that can't be read.
        if writer.closed.is_none() && !mutation::on(Fault::FailedReadLosesHidden) {
            self.show_with(&mut writer);
        }
        if writer.closed.is_none() {
            self.close(&mut writer, why, false);
        }
    }

    /// The documents of `keys`, each with its version.
    pub fn get(&self, keys: &[Key], bytes_max: usize) -> Result<Vec<Read>, ReadError> {
        self.get_up_to(usize::MAX, keys, bytes_max)?.ok_or_else(|| self.unreadable(&"a document is too long").into())
    }

    /// Likewise; `None` if one of them is longer than `longest` bytes: little more is read of it.
    pub fn get_up_to(&self, longest: usize, keys: &[Key], bytes_max: usize) -> Result<Option<Vec<Read>>, ReadError> {
        let get = |snapshot: &mut Snapshot| {
            snapshot.longest = longest;
            match self.get_from(snapshot, keys, bytes_max) {
                Err(Failure::Long) => Ok(Some(None)),
                got => Ok(got?.map(Some)),
            }
        };
        for _ in 0..SNAPSHOTS_MAX {
            if let Some(reads) = self.read(get)? {
                return Ok(reads);
            }
        }
        let mut no_group_meanwhile = locked(&self.writer);
        self.show_with(&mut no_group_meanwhile);
        let result = self.read_open(self.database(), get);
        drop(no_group_meanwhile);
        let read = result.map_err(|caught| self.unreadable(&caught.told(&self.name)))??;
        read.ok_or_else(|| self.unreadable(&"its versions disagree").into())
    }

    fn unreadable(&self, why: &dyn std::fmt::Display) -> Unavailable {
        Unavailable(format!("the store {} can't be read: {why}", self.name))
    }

    /// `None` if a group has overtaken the snapshot and touched the versions of absent keys that it needs.
    fn get_from(&self, snapshot: &mut Snapshot, keys: &[Key], bytes_max: usize) -> Result<Option<Vec<Read>>, Failure> {
        let mut reads = Vec::with_capacity(keys.len());
        let (mut absent, mut portion) = (Vec::new(), Portion::new(bytes_max));
        for (at, key) in keys.iter().enumerate() {
            let read = match snapshot.document(key)? {
                Some((value, version)) => Read { value: Some(value), version },
                None => {
                    absent.push(at);
                    Read { value: None, version: Version::ZERO }
                }
            };
            portion.count(&read);
            reads.push(read);
            if !portion.goes_on() {
                break;
            }
        }
        if absent.is_empty() {
            return Ok(Some(reads));
        }
        let group = snapshot.group()?;
        mutation::meanwhile();
        let tombstones = locked(&self.tombstones);
        if tombstones.group() < group {
            // The file has a group whose deletes are about to be entered here.
            return Ok(None);
        }
        for at in absent {
            let absence = tombstones.absence(&keys[at]);
            if absence.group > group && !mutation::on(Fault::AbsenceOvertakes) {
                return Ok(None);
            }
            reads[at].version = absence.version;
        }
        Ok(Some(reads))
    }
}
