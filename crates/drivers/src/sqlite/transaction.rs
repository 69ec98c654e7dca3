//! Every read and every commit is one transaction of the file.
//!
//! **Invariant.** A transaction first sees whose file it has, and in which state: the incarnation, its owner, and the
//! newest commit that was acknowledged. What it reads or writes after that is of this very state, for SQLite gives a
//! transaction one snapshot. So a file that was restored from a copy, or taken over, is never taken for the one that
//! was opened. No commit of an owner of before comes after its successor's first.
//!
//! A file that was renamed or replaced stays open here. Its connections are dropped when the path leads elsewhere,
//! which is looked at when a transaction begins and again before COMMIT.

use forebay::Key;
use forebay::store::ReadError;
use rusqlite::{Connection, Error, params};

use super::connection;
use super::database::{Database, JUST_NOW};
use super::error::{ends, failure, is_busy, of_commit, told};
use super::file::FileId;
use super::read_failed::{ReadEnd, ReadFailed};
use super::schema;
use super::slot::Slot;
use crate::sql::failure::Failure;
use crate::sql::identity::{Found, Holder, Judged};
use crate::sql::ids;
use crate::sql::owners;
use crate::sql::watching::Own;

/// The text for an operator where the file is locked for longer than a call waits.
fn locked_or(error: &Error) -> String {
    match is_busy(error) {
        true => "the file is locked by another program; see which has it open (fuser, lsof)".to_owned(),
        false => told(error),
    }
}

impl Database {
    /// A connection to the file that is at the path now.
    fn connect<'s>(&self, slot: &'s mut Slot) -> Result<&'s (Connection, FileId), String> {
        let there = FileId::at(&self.path);
        if slot.0.as_ref().is_some_and(|(_, open)| there.as_ref() != Ok(open)) {
            slot.0 = None;
        }
        let there = there?;
        if slot.0.is_none() {
            let connection = connection::open(&self.path, self.timeout, false).map_err(|error| locked_or(&error))?;
            // SQLite opens the file with the first statement.
            let looked = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
            looked.map_err(|error| locked_or(&error))?;
            if FileId::at(&self.path)? != there {
                return Err(format!("{} was replaced just now", self.path.display()));
            }
            slot.0 = Some((connection, there));
        }
        slot.0.as_ref().ok_or_else(|| "no connection".to_owned())
    }

    /// What the file says of its owner.
    fn greet(&self, connection: &Connection) -> Result<Judged, Failure> {
        let newest = self.identity.acknowledged().last().copied().map(ids::bytes);
        let asked = connection.prepare_cached(schema::GREET).and_then(|mut greet| {
            greet.query_row(params![newest], |row| {
                let owner: Option<String> = row.get(2)?;
                let owner = match owner {
                    Some(owner) => Some(Holder { owner, run: row.get(3)?, since: row.get(4)?, place: row.get(5)? }),
                    None => None,
                };
                let incarnation: i64 = row.get(1)?;
                let found = Found { incarnation: incarnation.cast_unsigned(), owner, there: row.get(6)? };
                Ok((row.get::<_, String>(0)?, found))
            })
        });
        let (file, found) = match asked {
            Ok(found) => found,
            Err(error) if is_busy(&error) || ends(&error) => return Err(Failure::Unavailable(locked_or(&error))),
            Err(error) => {
                let why = format!("{} has no tables of forebay: {}", self.path.display(), told(&error));
                return Err(Failure::Unavailable(why));
            }
        };
        if self.place.cluster.as_ref() != Some(&file) {
            let why = format!("{} is another database than the one that was opened", self.path.display());
            return Err(Failure::Unavailable(why));
        }
        self.identity.judge(&found).map_err(Failure::NotOwned)
    }

    /// Reads in one transaction.
    pub(super) fn read<T>(
        &self,
        slot: &mut Slot,
        work: impl FnOnce(&Connection) -> Result<T, ReadFailed>,
    ) -> Result<T, ReadEnd> {
        let (connection, _) = self.connect(slot)?;
        let begun = connection.execute_batch("BEGIN");
        begun.map_err(|error| ReadEnd::from(locked_or(&error)))?;
        let done = match self.greet(connection) {
            Ok(Judged::Same) => work(connection).map_err(|failed| match failed {
                ReadFailed::Read(error) => (ReadEnd::Failed(error), false),
                ReadFailed::Sqlite(error) => match failure(&error) {
                    Failure::Refused(why) => {
                        (ReadEnd::Failed(ReadError::Refused { key: Key::new(0, b""), why }), false)
                    }
                    _ => (ReadEnd::from(locked_or(&error)), ends(&error)),
                },
            }),
            Ok(_) => Err((ReadEnd::Earlier, false)),
            Err(Failure::NotOwned(why)) => {
                self.identity.fence(why.clone());
                Err((ReadEnd::from(why), false))
            }
            Err(Failure::Unavailable(why)) => Err((ReadEnd::from(why), true)),
            Err(_) => Err((ReadEnd::from("the file was not recognised".to_owned()), true)),
        };
        let ended = connection.execute_batch("ROLLBACK").is_err();
        match done {
            Ok(done) => {
                if ended {
                    slot.0 = None;
                }
                Ok(done)
            }
            Err((end, broken)) => {
                if ended || broken {
                    slot.0 = None;
                }
                Err(end)
            }
        }
    }

    /// Writes in one transaction, unless the file is another's. An error but [`Failure::Unknown`] means that nothing is
    /// written.
    pub(super) fn write<T>(
        &self,
        slot: &mut Slot,
        work: impl FnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.write_as(slot, |connection| self.recognise(connection).and_then(|()| work(connection)))
    }

    /// Writes in one transaction. It does not look whether the file is ours.
    pub(super) fn write_as<T>(
        &self,
        slot: &mut Slot,
        work: impl FnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (connection, file) = self.connect(slot).map_err(Failure::Unavailable)?;
        let began = connection.execute_batch("BEGIN IMMEDIATE");
        let done = match began {
            Ok(()) => work(connection),
            Err(error) => Err(failure(&error)),
        };
        let at_its_path = || match FileId::at(&self.path) {
            Ok(there) if there == *file => Ok(()),
            Ok(_) => Err(Failure::Unavailable(format!("{} was replaced just now", self.path.display()))),
            Err(why) => Err(Failure::Unavailable(why)),
        };
        let done = done.and_then(|done| at_its_path().map(|()| done));
        let done = done.and_then(|done| match connection.execute_batch("COMMIT") {
            Ok(()) => Ok(done),
            Err(error) => Err(of_commit(&error)),
        });
        let open = !connection.is_autocommit() && connection.execute_batch("ROLLBACK").is_err();
        match &done {
            Err(Failure::NotOwned(why)) => self.identity.fence(why.clone()),
            Err(Failure::Unknown(_) | Failure::Unavailable(_)) => slot.0 = None,
            _ if open => slot.0 = None,
            _ => {}
        }
        done
    }

    /// Sees to it that the file is ours and as it was. One that was put back gets another incarnation.
    fn recognise(&self, connection: &Connection) -> Result<(), Failure> {
        let raised = match self.greet(connection)? {
            Judged::Same => return Ok(()),
            Judged::Raised(raised) => raised,
            Judged::Earlier => {
                let raised = raise(connection, self.identity.own(), self.identity.incarnation());
                let raised = raised.map_err(|error| failure(&error))?;
                connection.execute_batch("COMMIT").map_err(|error| of_commit(&error))?;
                raised
            }
        };
        self.identity.went_back_to(raised);
        // Numbers of writes that are lost are given again, to others.
        *self.watch.own() = Own::default();
        Err(Failure::Unavailable(JUST_NOW.to_owned()))
    }
}

/// Makes `own` the owner, in an incarnation above `above`, in a transaction that is open.
pub(super) fn raise(connection: &Connection, own: &owners::Own, above: u64) -> Result<u64, Error> {
    let raised: i64 = connection.query_row(schema::RAISE, [above.cast_signed()], |row| row.get(0))?;
    connection.execute(schema::OWN, params![own.owner, own.run, own.journal, raised, "this machine"])?;
    connection.execute(schema::FORGET_OWNERS, [&own.owner])?;
    Ok(raised.cast_unsigned())
}
