//! Opening the file: its format, its incarnation, and what is kept of it in memory.

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, StorageBackend, TableError, TableHandle,
};
use thiserror::Error;

use super::disk::Disk;
use super::rows::{self, Meta, Totals};
use crate::key::SPACES;
use crate::store::applied::AppliedIds;
use crate::value::blob_bytes;

/// Bytes of one of redb's pages.
const PAGE_BYTES: usize = 4096;

/// The format that this code reads and writes.
pub(super) const FORMAT: u64 = 2;

/// Makes the disk that the database lies on, again for each opening.
pub type MakeBackend = Arc<dyn Fn() -> io::Result<Box<dyn StorageBackend>> + Send + Sync>;

/// Why a store could not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file can't be opened.
    #[error("can't open the store {name}: {source}; {advice}")]
    Io {
        /// Which store.
        name: String,
        /// What the system says.
        source: io::Error,
        /// What to do about it.
        advice: &'static str,
    },
    /// Another process has it.
    #[error("the store {0} is open in another process; stop that one first, or choose another file")]
    InUse(String),
    /// It holds something else.
    #[error("{0} is not a forebay store; choose another file, it was not changed")]
    Foreign(String),
    /// It has a format that this version does not know.
    #[error(
        "the store {name} has format {found}, this version of forebay knows format {}; open it with the version that \
         wrote it, it was not changed",
        FORMAT
    )]
    Format {
        /// Which store.
        name: String,
        /// The format that it says it has.
        found: u64,
    },
    /// Its contents make no sense.
    #[error("the store {name} is damaged: {why}; restore it from a backup, or move it away to begin with an empty one")]
    Damaged {
        /// Which store.
        name: String,
        /// What is wrong.
        why: String,
    },
}

/// What is kept of the file in memory.
pub(super) struct Loaded {
    pub incarnation: u64,
    pub totals: Totals,
    pub applied: AppliedIds,
    pub next_part_id: u64,
}

/// Runs `work`; an error or a panic (redb may panic over a damaged file) comes back as text.
pub(super) fn caught<T, E: Into<Caught>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, Caught> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(Into::into),
        Err(panic) => Err(Caught::Panic(panic_text(panic))),
    }
}

/// What went wrong.
#[derive(Debug)]
pub(super) enum Caught {
    Error(redb::Error),
    Panic(String),
}

impl Caught {
    /// Whether there was no room on the disk.
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Caught::Error(redb::Error::Io(error)) if matches!(error.kind(), StorageFull | QuotaExceeded))
    }

    /// What went wrong with the open file `name`, and what to do.
    pub fn told(&self, name: &str) -> String {
        use redb::Error::{Corrupted, Io};
        let advice = match self {
            _ if self.is_full() => "make room on the disk".to_owned(),
            Caught::Error(Io(error)) if error.kind() != io::ErrorKind::UnexpectedEof => {
                format!("look at the disk; once forebay is stopped, `forebay check {name}` looks at the file")
            }
            // redb panics over what makes no sense to it.
            Caught::Panic(_) | Caught::Error(Corrupted(_) | Io(_)) => {
                format!("stop forebay, look at the file with `forebay check {name}`, and restore it from a backup")
            }
            Caught::Error(_) => return self.to_string(),
        };
        format!("{self}; {advice}")
    }
}

impl From<redb::Error> for Caught {
    fn from(error: redb::Error) -> Caught {
        Caught::Error(error)
    }
}

impl fmt::Display for Caught {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Caught::Error(error) => error.fmt(f),
            Caught::Panic(text) => write!(f, "the database panicked: {text}"),
        }
    }
}

pub(super) fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}

/// Opens the file, makes its tables if it is new, and loads what is kept of it in memory; raises the durable
/// incarnation if `raises` says so of what was loaded.
pub(super) fn open(
    name: &str,
    make: &MakeBackend,
    cache_bytes: usize,
    raises: impl FnOnce(&Loaded) -> bool,
) -> Result<(Database, Loaded), OpenError> {
    let backend = make().and_then(Disk::open).map_err(|source| io_error(name, source))?;
    let database = catch_unwind(AssertUnwindSafe(|| {
        let mut builder = Builder::new();
        // redb counts a page's own bytes; allocated with its reference counts it is in a larger size class.
        builder.set_cache_size(cache_bytes / blob_bytes(PAGE_BYTES) * PAGE_BYTES);
        let said = std::cell::Cell::new(false);
        builder.set_repair_callback(move |_| {
            if !said.replace(true) {
                tracing::warn!("the store was not closed properly; checking all of it, which takes a while");
            }
        });
        builder.create_with_backend(backend)
    }));
    let database = match database {
        Ok(opened) => opened.map_err(|error| open_error(name, error))?,
        Err(panic) => return Err(OpenError::Damaged { name: name.to_owned(), why: panic_text(panic) }),
    };
    let prepared = caught(|| -> Result<_, redb::Error> {
        let mut loaded = match prepare(name, &database)? {
            Ok(loaded) => loaded,
            refused => return Ok(refused),
        };
        if raises(&loaded) {
            loaded.incarnation = raise_incarnation(&database)?;
        }
        Ok(Ok(loaded))
    });
    let error = match prepared {
        Ok(Ok(loaded)) => return Ok((database, loaded)),
        Ok(Err(refused)) => refused,
        Err(Caught::Error(redb::Error::Io(source))) => io_error(name, source),
        Err(why) => OpenError::Damaged { name: name.to_owned(), why: why.to_string() },
    };
    let_go(database);
    Err(error)
}

/// Drops a file or what is open of it. redb may panic over a damaged one here, too; nothing is left to be done about
/// it.
pub(super) fn let_go<T>(of: T) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(of)));
}

fn raise_incarnation(database: &Database) -> Result<u64, redb::Error> {
    let transaction = database.begin_write()?;
    let mut meta = transaction.open_table(rows::META)?;
    // It was checked when it was loaded.
    let incarnation = meta.get("incarnation")?.map_or(0, |row| row.value()).saturating_add(1);
    Meta::new(FORMAT, Some(incarnation)).write(&mut meta)?;
    drop(meta);
    transaction.commit()?;
    Ok(incarnation)
}

fn prepare(name: &str, database: &Database) -> Result<Result<Loaded, OpenError>, redb::Error> {
    let transaction = database.begin_read()?;
    let tables = transaction.list_tables()?.map(|table| table.name().to_owned()).collect::<Vec<_>>();
    if tables.is_empty() {
        create(database)?;
    } else {
        let meta = match transaction.open_table(rows::META) {
            Ok(meta) => meta,
            Err(TableError::Storage(error)) => return Err(error.into()),
            Err(_) => return Ok(Err(OpenError::Foreign(name.to_owned()))),
        };
        // What another format has in this table is not known.
        match meta.get("format")?.map(|row| row.value()) {
            Some(FORMAT) => {}
            Some(found) => return Ok(Err(OpenError::Format { name: name.to_owned(), found })),
            None => return Ok(Err(OpenError::Foreign(name.to_owned()))),
        }
    }
    drop(transaction);
    Ok(load(database)?.map_err(|why| OpenError::Damaged { name: name.to_owned(), why }))
}

fn create(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    Meta::new(FORMAT, None).write(&mut transaction.open_table(rows::META)?)?;
    for table in [rows::DOCUMENTS, rows::PARTS, rows::EXPIRIES] {
        transaction.open_table(table)?;
    }
    let totals = Totals { group: 0, floor: AppliedIds::LOWEST, counts: [0; SPACES as usize] };
    transaction.open_table(rows::LOG)?.insert(rows::TOTALS, totals.to_row().as_slice())?;
    Ok(transaction.commit()?)
}

fn load(database: &Database) -> Result<Result<Loaded, String>, redb::Error> {
    let transaction = database.begin_read()?;
    let log = transaction.open_table(rows::LOG)?;
    let Some(totals) = log.get(rows::TOTALS)? else { return Ok(Err("the totals are missing".to_owned())) };
    let totals = match Totals::parse(totals.value()) {
        Ok(totals) => totals,
        Err(why) => return Ok(Err(format!("the totals make no sense: {why}"))),
    };
    let mut applied = AppliedIds::new(totals.floor);
    for row in log.range(..rows::TOTALS)? {
        let (group, ids) = row?;
        match rows::parse_ids(group.value(), ids.value()) {
            Ok(ids) => applied.add(group.value(), &ids),
            Err(why) => return Ok(Err(why)),
        }
    }
    let parts = transaction.open_table(rows::PARTS)?;
    let mut next_part_id = 0;
    for space in 0..SPACES {
        let last = parts.range([space].as_slice()..[space + 1].as_slice())?.next_back().transpose()?;
        let id = last.and_then(|(row_key, _)| {
            row_key.value().get(1..rows::PART_PREFIX_BYTES)?.try_into().ok().map(u64::from_be_bytes)
        });
        next_part_id = next_part_id.max(id.map_or(0, |id| id.saturating_add(1)));
    }
    let meta = Meta::read(&transaction.open_table(rows::META)?)?;
    let incarnation = match meta.and_then(|meta| meta.check().map(|()| meta.incarnation)) {
        Ok(incarnation) => incarnation.unwrap_or(0),
        Err(why) => return Ok(Err(why)),
    };
    Ok(Ok(Loaded { incarnation, totals, applied, next_part_id }))
}

pub(super) fn io_error(name: &str, source: io::Error) -> OpenError {
    let advice = match source.kind() {
        io::ErrorKind::NotFound => "make the folder first",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "give this user the right to read and write the file and its folder"
        }
        io::ErrorKind::UnexpectedEof => "restore it from a backup, or remove it to begin with an empty store",
        io::ErrorKind::IsADirectory => "name a file, not a folder",
        io::ErrorKind::InvalidInput => "name a file",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room on the disk",
        _ => "check the disk and the path",
    };
    OpenError::Io { name: name.to_owned(), source, advice }
}

fn open_error(name: &str, error: DatabaseError) -> OpenError {
    let damaged = |why: String| OpenError::Damaged { name: name.to_owned(), why };
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::InUse(name.to_owned()),
        DatabaseError::Storage(redb::StorageError::Io(source)) => match source.kind() {
            io::ErrorKind::InvalidData => OpenError::Foreign(name.to_owned()),
            io::ErrorKind::UnexpectedEof => damaged("it ends too early".to_owned()),
            _ => io_error(name, source),
        },
        other => damaged(other.to_string()),
    }
}
