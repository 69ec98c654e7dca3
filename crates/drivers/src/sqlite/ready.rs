//! Opening in two steps. All that may refuse an opening comes first, and takes nothing from the owner that is there.
//! Then the file is taken.

use std::path::{Path, PathBuf};

use forebay::Version;
use rusqlite::{Connection, Error};
use tokio::task::spawn_blocking;

use super::database::{Database, Opened};
use super::error::{failure, is_busy, of_commit, told};
use super::file::FileId;
use super::lock::{Lock, NotTaken};
use super::mapped::{Mapped, Wanted};
use super::setup::NO_LOG;
use super::transaction::raise;
use super::{address, connection, owners, schema};
use crate::error::{OpenError, OtherDatabase};
use crate::options::{Known, Options};
use crate::sql::failure::Failure;
use crate::sql::identity::{Identity, Opening};
use crate::sql::ids::{self, Ids};
use crate::sql::keys::Named;
use crate::sql::owners::{Own, Owners};
use crate::sql::remembered::Place;
use crate::sql::shared;
use crate::sql::watch::Watch;
use crate::sql::watching::OutsideBy;

/// Connections that write: the file takes one writer at a time.
const WRITERS: usize = 1;

/// What forebay's tables say of themselves.
struct Meta {
    file: String,
    incarnation: u64,
    floor: Version,
    /// Drawn for this opening.
    run: String,
}

/// A file that can be taken; who owned it before still does.
pub struct Ready {
    options: Options,
    path: PathBuf,
    connection: Connection,
    lock: Lock,
    meta: Meta,
    owners: Owners,
    place: Place,
    another: bool,
    /// It knows the newest commit that it had acknowledged.
    there: bool,
    mapped: Option<Mapped>,
}

/// Why `path` can't be opened, as an error says.
fn failed(path: &Path, error: &Error) -> OpenError {
    let place = path.display();
    match is_busy(error) {
        true => OpenError::Unreachable(format!("can't open {place}: another program has the file locked")),
        false => OpenError::Refused(format!("can't open {place}: {}", told(error))),
    }
}

impl Ready {
    /// Finds out all that may stand in the way, and holds the file's lock from now on.
    pub async fn prepare(options: Options) -> Result<Ready, OpenError> {
        let prepared = spawn_blocking(move || Ready::look(options)).await;
        prepared.unwrap_or_else(|error| Err(OpenError::Refused(error.to_string())))
    }

    fn look(options: Options) -> Result<Ready, OpenError> {
        let path = address::path(&options.address);
        let known = &options.known;
        let there = FileId::at(&path);
        // One that was there before is not made again: it may be moved, or its disk not mounted.
        let make = there.is_err() && options.mappings.is_empty() && known.incarnation == 0 && !known.waiting;
        if let (Err(why), false) = (&there, make) {
            return Err(OpenError::Unreachable(format!("can't open it: {why}")));
        }
        if options.outside == OutsideBy::Decoding && !options.mappings.is_empty() {
            return Err(OpenError::Refused(NO_LOG.into()));
        }
        let lock = Lock::take(&path).map_err(|why| match why {
            NotTaken::Held(holder) => {
                let why = format!("another forebay has {} open ({holder}); stop it first", path.display());
                OpenError::Taken { why, over: None }
            }
            NotTaken::Failed(why) => OpenError::Refused(format!("can't lock the database: {why}")),
        })?;
        let timeout = options.first.max(options.timeout);
        let broken = |error: Error| failed(&path, &error);
        let connection = connection::open(&path, timeout, make).map_err(broken)?;
        let file = file_of(&connection).map_err(broken)?;
        let database = options.address.database().to_owned();
        let place = Place { database, oid: 0, cluster: file };
        let seen = known.remembered.as_ref().map(|remembered| &remembered.place);
        if let Some(other) = seen.filter(|other| known.waiting && other.database != place.database && !place.is(other))
        {
            let place = path.display().to_string();
            return Err(OtherDatabase { place, database: other.database.clone() }.into());
        }
        if make {
            // Readers go on while a commit is written. A file that is there keeps what its other programs chose.
            connection.pragma_update(None, "journal_mode", "WAL").map_err(broken)?;
        }
        if place.cluster.is_none() {
            let made = connection.execute_batch(&format!("BEGIN IMMEDIATE; {} COMMIT", schema::SCHEMA));
            made.map_err(|error| match is_busy(&error) {
                true => failed(&path, &error),
                false => {
                    let why = told(&error);
                    OpenError::Refused(format!("forebay's tables can't be made in {}: {why}", path.display()))
                }
            })?;
        }
        let meta = meta(&connection, &path)?;
        let owners = owners::read(&connection).map_err(broken)?;
        let newest = known.acknowledged.iter().max().copied().map(ids::bytes);
        let there = connection.query_row(schema::GREET, [newest], |row| row.get(6)).map_err(broken)?;
        let place = Place { cluster: Some(meta.file.clone()), ..place };
        let another = seen.is_some_and(|other| place.is_not(other));
        let mapped = mapped(&options, &connection, &path)?;
        Ok(Ready { path, connection, lock, meta, owners, place, another, there, mapped, options })
    }

    /// Takes the file.
    pub(super) async fn take(self) -> Result<Database, OpenError> {
        let taken = spawn_blocking(move || self.take_now()).await;
        taken.unwrap_or_else(|error| Err(OpenError::Refused(error.to_string())))
    }

    fn take_now(self) -> Result<Database, OpenError> {
        let Ready { options, path, connection, lock, meta, owners, place, another, there, mapped } = self;
        let known = &options.known;
        let own = own(&meta, known);
        let raised = || {
            connection.execute_batch("BEGIN IMMEDIATE").map_err(|error| failure(&error))?;
            let raised = raise(&connection, &own, known.minted.max(known.incarnation));
            let raised = raised.map_err(|error| failure(&error))?;
            connection.execute_batch("COMMIT").map_err(|error| of_commit(&error))?;
            Ok(raised)
        };
        let incarnation = raised().map_err(|failure: Failure| {
            OpenError::Unreachable(format!("{} can't be taken: {}", path.display(), failure.why()))
        })?;
        owners.warn_of_the_last(&own, meta.incarnation, known);
        let went_back = !there || another || meta.incarnation < known.incarnation;
        if went_back {
            tracing::error!(
                place = %path.display(),
                incarnation,
                found = meta.incarnation,
                known = known.incarnation,
                newest = known.acknowledged.iter().max().map(|id| id.to_string()),
                "the file does not know commits that it had acknowledged to an earlier forebay with this journal: it \
                 was restored from a backup, or it is another database; going on from what it holds"
            );
        }
        let named = mapped.as_ref().is_some_and(|mapped| mapped.wanted.named.is_some());
        let opening = Opening {
            incarnation,
            earlier: owners.runs(),
            owned_since: owners.since(&own, meta.incarnation, known),
            own,
            went_back,
        };
        let identity = Identity::new(&opening, known, WRITERS, named);
        let name = format!("sqlite {} {}", rusqlite::version(), path.display());
        Ok(Database::new(Opened {
            path,
            name,
            timeout: options.timeout,
            identity,
            ids: Ids::new(meta.floor),
            place,
            another,
            mapped,
            watch: Watch::new("SQLite", options.outside, options.outside_pause),
            readers: options.readers,
            lock,
        }))
    }
}

/// The mapped tables, if there are any. Where writes wait, one that is gone is as it was known.
fn mapped(options: &Options, connection: &Connection, path: &Path) -> Result<Option<Mapped>, OpenError> {
    let (mappings, known) = (options.mappings.clone(), &options.known);
    if mappings.is_empty() {
        return Ok(None);
    }
    shared::meeting(&mappings).iter().for_each(|line| tracing::warn!("{line}"));
    let named = Named::new(&options.keys, &mappings);
    let (row_bytes_max, outside) = (options.row_bytes_max, options.outside);
    let wanted = Wanted { mappings, named, row_bytes_max, outside };
    let remembered = known.remembered.as_ref().filter(|_| known.waiting);
    let looked = wanted.look_up(connection, remembered).map_err(|error| failed(path, &error))?;
    let looked = looked.map_err(|lines| OpenError::Mapping(lines.join("; ")))?;
    looked.tables.unwatched.warn(outside);
    Ok(Some(Mapped::new(wanted, looked)))
}

/// As whom the file is taken.
fn own(meta: &Meta, known: &Known) -> Own {
    let owner = known.owner.map_or_else(|| meta.run.clone(), |owner| owner.to_string());
    Own { owner, run: meta.run.clone(), journal: known.owner.is_some() }
}

/// What the file is called in forebay's tables, if these are there.
fn file_of(connection: &Connection) -> Result<Option<String>, Error> {
    let there: i64 = connection.query_row(schema::THERE, [], |row| row.get(0))?;
    match there {
        0 => Ok(None),
        _ => connection.query_row("SELECT file FROM forebay_meta", [], |row| row.get(0)).map(Some),
    }
}

fn meta(connection: &Connection, path: &Path) -> Result<Meta, OpenError> {
    let (format, meta) = connection
        .query_row(schema::META, [], |row| {
            let floor: Vec<u8> = row.get(3)?;
            let floor = ids::version(&floor).unwrap_or(Version::ZERO);
            let incarnation = row.get::<_, i64>(2)?.cast_unsigned();
            Ok((row.get::<_, i64>(0)?, Meta { file: row.get(1)?, incarnation, floor, run: row.get(4)? }))
        })
        .map_err(|error| failed(path, &error))?;
    if format != schema::FORMAT {
        let place = path.display();
        return Err(OpenError::Refused(format!(
            "forebay's tables in {place} have format {format}, this program has 1: use the forebay that made them"
        )));
    }
    Ok(meta)
}
