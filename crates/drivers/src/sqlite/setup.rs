//! `forebay store check` and `forebay store init`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, Error};
use tokio::task::spawn_blocking;

use super::error::{is_busy, told};
use super::file::FileId;
use super::rows::catalogue;
use super::{address, connection, schema};
use crate::driver::Checked;
use crate::error::OpenError;
use crate::options::Options;
use crate::sql::described::of_table;
use crate::sql::keys::Named;
use crate::sql::shared;
use crate::sql::watching::OutsideBy;

/// Shortest wait for a file that another program has locked.
const PATIENCE: Duration = Duration::from_secs(5);

/// How what others write can't be seen.
pub(super) const NO_LOG: &str = "SQLite has no log that could be decoded; leave --outside decoding out";

fn failed(path: &Path, error: &Error) -> OpenError {
    let place = path.display();
    match is_busy(error) {
        true => OpenError::Unreachable(format!("{place} is locked by another program; nothing was changed")),
        false => OpenError::Refused(format!("{place}: {}", told(error))),
    }
}

/// Does `work` with a connection to the file, which is there.
async fn with<T: Send + 'static>(
    options: Options,
    work: impl FnOnce(&Connection, &Options) -> Result<Result<T, OpenError>, Error> + Send + 'static,
) -> Result<T, OpenError> {
    let done = spawn_blocking(move || {
        let path: PathBuf = address::path(&options.address);
        FileId::at(&path).map_err(OpenError::Unreachable)?;
        let broken = |error: Error| failed(&path, &error);
        let connection = connection::open(&path, options.timeout.max(PATIENCE), false).map_err(broken)?;
        work(&connection, &options).map_err(broken)?
    });
    done.await.unwrap_or_else(|error| Err(OpenError::Refused(error.to_string())))
}

/// Looks at the file, at forebay's tables and at the mapped ones, and changes nothing.
pub(super) async fn check(options: Options) -> Result<Checked, OpenError> {
    with(options, |connection, options| look(connection, options).map(Ok)).await
}

fn look(connection: &Connection, options: &Options) -> Result<Checked, Error> {
    let (mut notes, mut problems) = (Vec::new(), Vec::new());
    let mut warnings = shared::meeting(&options.mappings);
    let journal: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    notes.push(format!("{} is a SQLite database, journal mode {journal}", options.address.place()));
    if journal != "wal" {
        warnings.push(
            "readers wait while a commit is written, and commits while a reader is at work; PRAGMA journal_mode = WAL \
             changes that for all programs"
                .into(),
        );
    }
    let there: i64 = connection.query_row(schema::THERE, [], |row| row.get(0))?;
    match there {
        0 => notes.push("forebay's tables are not there yet; `forebay serve` makes them".into()),
        _ => {
            notes.push("forebay's tables are there".into());
            documents(connection, options, (&mut notes, &mut warnings))?;
        }
    }
    if options.outside == OutsideBy::Decoding && !options.mappings.is_empty() {
        problems.push(NO_LOG.to_owned());
    }
    match catalogue::look_up(connection, &options.mappings, None)? {
        Ok(looked) => notes.extend(looked.tables.tables.iter().map(|table| of_table(table, options.outside))),
        Err(lines) => problems.extend(lines),
    }
    Ok(Checked { notes, warnings, problems })
}

/// What is said of the documents beside rows, and of those that no setting names.
fn documents(
    connection: &Connection,
    options: &Options,
    (notes, warnings): (&mut Vec<String>, &mut Vec<String>),
) -> Result<(), Error> {
    if options.mappings.is_empty() {
        return Ok(());
    }
    let named = Named::new(&options.keys, &options.mappings);
    let mut asked = connection.prepare("SELECT space, name FROM forebay_documents")?;
    let mut rows = asked.query([])?;
    let (mut all, mut found) = (0u64, 0u64);
    while let Some(row) = rows.next()? {
        let key = forebay::Key::new(row.get(0)?, row.get_ref(1)?.as_blob()?);
        all += 1;
        found += u64::from(named.as_ref().is_some_and(|named| named.has(&key)));
    }
    if !options.keys.is_empty() {
        let keys: Vec<String> = options.keys.iter().map(ToString::to_string).collect();
        notes.push(format!("{}: {found} documents in forebay_documents", keys.join("; ")));
    }
    if all > found {
        warnings.push(format!(
            "forebay_documents holds {} documents that are not shown: no --keys names their keys, or these have a \
             mapping's form; give --keys for those that are wanted",
            all - found
        ));
    }
    Ok(())
}

/// The statements that make the file ready for these mappings; nothing is run. A table whose triggers are as they are
/// to be keeps them, and its versions.
fn statements(connection: &Connection, options: &Options) -> Result<Result<Vec<String>, OpenError>, Error> {
    let looked = match catalogue::look_up_to_prepare(connection, &options.mappings)? {
        Ok(looked) => looked,
        Err(lines) => return Ok(Err(OpenError::Mapping(lines.join("; ")))),
    };
    let mut statements = vec![schema::SCHEMA.trim().trim_end_matches(';').to_owned()];
    let mut done = Vec::new();
    for table in &looked.tables.tables {
        if done.contains(&table.oid) {
            continue;
        }
        done.push(table.oid);
        let (made, there) = catalogue::triggers_of(connection, table)?;
        if !there {
            statements.extend(made);
        }
    }
    Ok(Ok(statements))
}

/// The statements as one text, all or nothing.
pub(super) async fn script(options: Options) -> Result<String, OpenError> {
    with(options, |connection, options| Ok(statements(connection, options)?.map(|made| as_text(&made)))).await
}

fn as_text(statements: &[String]) -> String {
    format!("BEGIN IMMEDIATE;\n{};\nCOMMIT;\n", statements.join(";\n"))
}

/// Runs them.
pub(super) async fn init(options: Options) -> Result<(), OpenError> {
    with(options, |connection, options| {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        match statements(connection, options)? {
            Ok(made) => {
                connection.execute_batch(&format!("{}; COMMIT", made.join(";\n")))?;
                Ok(Ok(()))
            }
            Err(error) => Ok(Err(error)),
        }
    })
    .await
}
