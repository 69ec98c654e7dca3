//! The documents that forebay owns: one row each in `forebay_documents`.

use forebay::change::apply;
use forebay::store::{Commit, ReadError, Write};
use forebay::value::codec::encode_value;
use forebay::{Key, Read, Version};
use rusqlite::{Connection, OptionalExtension, params};

use super::database::Database;
use super::error::failure;
use super::read_failed::ReadFailed;
use super::rows::reading;
use super::schema;
use crate::sql::document::{decode, is_blind};
use crate::sql::failure::Failure;
use crate::sql::ids;

/// Reads one document; `absence` is its version where it is not there.
pub(super) fn get(connection: &Connection, key: &Key, absence: Version) -> Result<Read, ReadFailed> {
    let mut get = connection.prepare_cached(schema::GET)?;
    let mut rows = get.query(params![key.space(), key.name()])?;
    match rows.next()? {
        Some(row) => {
            let (version, value) = (row.get_ref(0)?.as_blob(), row.get_ref(1)?.as_blob());
            let (Ok(version), Ok(value)) = (version, value) else {
                let why = "it is no longer in forebay's form".to_owned();
                return Err(ReadError::Damaged { key: key.clone(), why }.into());
            };
            Ok(decode(key, version, value)?)
        }
        None => Ok(Read { value: None, version: absence }),
    }
}

impl Database {
    /// Reads the document of `key`, which may be a row; `absence` is the version of one in forebay's table that is not
    /// there.
    pub(super) fn get(&self, connection: &Connection, key: &Key, absence: Version) -> Result<Read, ReadFailed> {
        let mapped = self.mapped.as_ref().filter(|_| !self.is_document(key));
        let Some(mapped) = mapped else { return get(connection, key, absence) };
        let looked = self.tables(mapped, connection)?;
        let place = looked.tables.place(key).map_err(|why| ReadError::Refused { key: key.clone(), why })?;
        let table = &looked.tables.tables[place.table];
        reading::get(connection, (table, key, &place.parts), self.identity.incarnation())
    }

    /// Which of `checks` have another version by now.
    pub(super) fn overtaken(&self, connection: &Connection, checks: &[(Key, Version)]) -> Result<Vec<Key>, ReadFailed> {
        let mut overtaken = Vec::new();
        for (key, version) in checks {
            let is_at = match self.mapped.as_ref().filter(|_| !self.is_document(key)) {
                Some(mapped) => {
                    let looked = self.tables(mapped, connection)?;
                    let place = looked.tables.place(key).map_err(|why| ReadError::Refused { key: key.clone(), why })?;
                    reading::is_at(connection, &looked.tables.tables[place.table], &place.parts, *version)?
                }
                None => self.is_document_at(connection, key, *version)?,
            };
            if !is_at {
                overtaken.push(key.clone());
            }
        }
        Ok(overtaken)
    }

    /// Whether the document of `key` is as it was at `version`.
    pub(super) fn is_document_at(
        &self,
        connection: &Connection,
        key: &Key,
        version: Version,
    ) -> Result<bool, rusqlite::Error> {
        let mut asked = connection.prepare_cached(schema::VERSION)?;
        let stored: Option<Vec<u8>> = asked.query_row(params![key.space(), key.name()], |row| row.get(0)).optional()?;
        Ok(match stored {
            Some(stored) => ids::version(&stored) == Some(version),
            None => self.identity.is_absence(key, version),
        })
    }

    /// Makes `write`, of `commit`, to what the document is by now. What it is then.
    pub(super) fn write_document(
        &self,
        connection: &Connection,
        commit: &Commit,
        write: &Write,
    ) -> Result<Read, Failure> {
        let key = &write.key;
        let mut becomes = match is_blind(&write.changes) {
            true => None,
            false => match get(connection, key, Version::ZERO) {
                Ok(read) => read.value,
                Err(ReadFailed::Sqlite(error)) => return Err(failure(&error)),
                Err(ReadFailed::Read(error)) => return Err(Failure::Refused(error.to_string())),
            },
        };
        for change in write.changes.iter() {
            apply(&mut becomes, change).map_err(|error| Failure::Refused(format!("{key}: {error}")))?;
        }
        let version = match &becomes {
            Some(value) => {
                let mut encoded = Vec::new();
                encode_value(value, &mut encoded);
                let expires = value.expires_at_ms.map(|at_ms| i64::try_from(at_ms).unwrap_or(i64::MAX));
                let version = ids::bytes(forebay::TxnId(commit.version));
                let put = params![key.space(), key.name(), version, expires, encoded];
                connection
                    .prepare_cached(schema::PUT)
                    .and_then(|mut statement| statement.execute(put))
                    .map_err(|error| failure(&error))?;
                commit.version
            }
            None => {
                self.identity.deleting(key, commit.version);
                let removed = params![key.space(), key.name()];
                connection
                    .prepare_cached(schema::REMOVE)
                    .and_then(|mut statement| statement.execute(removed))
                    .map_err(|error| failure(&error))?;
                self.identity.absence(key)
            }
        };
        Ok(Read { value: becomes, version })
    }
}
