//! `forebay store check` and `forebay store init`.

use std::collections::HashMap;
use std::time::Duration;

use forebay::store::forms::OnDelete;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error};

use super::address::Address;
use super::classify::{self, told_in_full as told};
use super::decoding::slot;
use super::error::OpenError;
use super::rows::catalogue;
use super::rows::found;
use super::rows::size;
use super::rows::versions::{self, Keeping};
use super::session::Session;
use super::tls::Tls;
use super::{install, named, open, pooled};
use crate::driver::Checked;
use crate::options::Options;
use crate::sql::described::of_table;
use crate::sql::keys::Named;
use crate::sql::mapping::VersionMode;
use crate::sql::shared;
use crate::sql::table::{ReadOnly, Table, quoted};
use crate::sql::watching::OutsideBy;

/// For so long a check counts rows of a table that are too large, ms.
const CHECK_COUNTED_MS: u32 = 600_000;

/// A connection for looking and preparing; the server may be in use by a forebay meanwhile.
async fn connect(options: &Options) -> Result<(Session, Address), OpenError> {
    let address = Address::read(&options.address)?;
    let tls = Tls::open(&address)?;
    let timeout = options.timeout.max(Duration::from_secs(5));
    let config = open::config_of(&address, options.password.as_deref(), timeout);
    let session = open::connect(&address, &config, &tls, "forebay-store", timeout).await?;
    let session = open::settle(session, &address, &config, &tls, timeout).await?;
    Ok((session, address))
}

fn failed(address: &Address, error: &Error) -> OpenError {
    OpenError::Failed { place: address.place(), why: told(error) }
}

/// Looks at the server, at forebay's schema and at the mapped tables, and changes nothing.
pub async fn check(options: &Options) -> Result<Checked, OpenError> {
    let (session, address) = match connect(options).await {
        Err(OpenError::Pooled { place }) => {
            let problems = vec![format!("{place}: {}", pooled::WHY)];
            return Ok(Checked { notes: Vec::new(), warnings: Vec::new(), problems });
        }
        connected => connected?,
    };
    let client = &session.client;
    let looked = look(client, &address, options).await;
    looked.map_err(|error| failed(&address, &error))
}

/// Why the database takes no writes, if so.
async fn read_only(client: &Client) -> Result<Option<String>, Error> {
    const READ_ONLY: &str = "SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only')::boolean";
    let row = client.query_one(READ_ONLY, &[]).await?;
    let why = match (row.get(0), row.get(1)) {
        (true, _) => "the database is a standby, which takes no writes; name the primary in --store",
        (false, true) => "default_transaction_read_only is on, so no commit is taken; set it to off for this role",
        (false, false) => return Ok(None),
    };
    Ok(Some(why.into()))
}

async fn look(client: &Client, address: &Address, options: &Options) -> Result<Checked, Error> {
    let (mut notes, mut problems) = (Vec::new(), Vec::new());
    let mut warnings = shared::meeting(&options.mappings);
    let version: String = client.query_one("SELECT current_setting('server_version')", &[]).await?.get(0);
    notes.push(format!("{} is PostgreSQL {version}", address.place()));
    for setting in ["fsync", "full_page_writes"] {
        let value: String = client.query_one("SELECT current_setting($1)", &[&setting]).await?.get(0);
        if value != "on" {
            problems.push(format!("{setting} is {value}: a crash may lose acknowledged commits; set it to on"));
        }
    }
    problems.extend(read_only(client).await?);
    warnings.extend(open::too_few_connections(client, (options.readers, options.writers)).await?);
    let row = client.query_one(super::sql::THERE, &[]).await?;
    let (there, usable): (bool, bool) = (row.get(0), row.get(1));
    let may: bool = client.query_one("SELECT has_database_privilege(current_database(), 'CREATE')", &[]).await?.get(0);
    let completed = client.query_opt(super::sql::OWNERS_THERE, &[]).await?.is_none_or(|row| row.get(0));
    match (there, may) {
        (true, _) if usable && !completed => problems.push(
            "forebay's schema is of an older forebay: it notes no owners, and this role may not add that; have its \
             owner run the output of `forebay store init --print`, made with this role"
                .into(),
        ),
        (true, _) if usable => notes.push("forebay's schema is there".into()),
        (true, _) => problems.push(
            "forebay's schema is there and this role may not use it; have its owner run the output of `forebay store \
             init --print`, made with this role"
                .into(),
        ),
        (false, true) => notes.push("forebay's schema is not there yet; `forebay serve` makes it".into()),
        (false, false) => problems.push(
            "forebay's schema is not there and this role may not make it; have the database's owner run the output of \
             `forebay store init --print`"
                .into(),
        ),
    }
    if there && usable {
        documents(client, options, (&mut notes, &mut warnings)).await?;
    }
    match found::look_up(client, &options.mappings, None).await? {
        Ok(rows) => {
            let tables = rows.up_to(options.row_bytes_max).tables;
            warnings.extend(size::too_large(client, &tables, CHECK_COUNTED_MS).await?);
            let (seen, lines) = watching(client, options.outside, &tables, (&mut warnings, &mut problems)).await?;
            let role: String = client.query_one("SELECT current_user::text", &[]).await?.get(0);
            for table in &tables {
                notes.push(of_table(table, seen));
                warnings.extend(missing_rights(table, &role));
            }
            warnings.extend(versions::doubts(&tables, seen).cloned());
            notes.extend(lines);
        }
        Err(lines) => problems.extend(lines),
    }
    Ok(Checked { notes, warnings, problems })
}

/// What is said of the documents beside rows, and of those in forebay's table that no setting names.
async fn documents(
    client: &Client,
    options: &Options,
    (notes, warnings): (&mut Vec<String>, &mut Vec<String>),
) -> Result<(), Error> {
    if options.mappings.is_empty() {
        return Ok(());
    }
    let named = Named::new(&options.keys, &options.mappings);
    let (condition, parameters): (String, Vec<&(dyn ToSql + Sync)>) = match &named {
        Some(named) => (named::condition(1), named::parameters(named).to_vec()),
        None => ("false".to_owned(), Vec::new()),
    };
    let text = format!("SELECT count(*) FILTER (WHERE {condition}), count(*) FROM forebay.documents");
    let row = client.query_one(&text, &parameters).await?;
    let (named, all): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    if !options.keys.is_empty() {
        let keys: Vec<String> = options.keys.iter().map(ToString::to_string).collect();
        notes.push(format!("{}: {named} documents in forebay.documents", keys.join("; ")));
    }
    if all > named {
        warnings.push(format!(
            "forebay.documents holds {} documents that are not shown: no --keys names their keys, or these have a \
             mapping's form; give --keys for those that are wanted",
            all - named
        ));
    }
    Ok(())
}

/// The GRANT that the role lacks for columns that could be written.
fn missing_rights(table: &Table, role: &str) -> Option<String> {
    let closed = table.fields.iter().filter(|column| column.read_only == Some(ReadOnly::NoRight));
    let closed: Vec<String> = closed.map(|column| quoted(&column.name)).collect();
    let (name, role, columns) = (&table.name, quoted(role), closed.join(", "));
    let open = table.fields.iter().any(|column| column.read_only.is_none());
    let grant = match open {
        true => format!("INSERT ({columns}), UPDATE ({columns})"),
        false => "INSERT, UPDATE, DELETE".to_owned(),
    };
    let map = &table.mapping;
    let kept = table.mapping.list.is_none() && table.mapping.on_delete() == OnDelete::Row && open && !table.may_delete;
    match (closed.is_empty(), kept) {
        (true, false) => None,
        (true, true) => {
            Some(format!("--map '{map}': rows can't be deleted; GRANT DELETE ON {name} TO {role} if they are to be"))
        }
        (false, _) => {
            let (columns, grant) = match kept {
                true => (format!("{columns} can't be written, and rows not be deleted"), format!("{grant}, DELETE")),
                false => (format!("{columns} can't be written"), grant),
            };
            Some(format!("--map '{map}': {columns}; GRANT {grant} ON {name} TO {role} if they are to be"))
        }
    }
}

/// How what others write would be seen, what is worth knowing of it, and what stands in its way.
async fn watching(
    client: &Client,
    wanted: OutsideBy,
    tables: &[Table],
    (warnings, problems): (&mut Vec<String>, &mut Vec<String>),
) -> Result<(OutsideBy, Vec<String>), Error> {
    if tables.is_empty() || matches!(wanted, OutsideBy::Triggers | OutsideBy::Off) {
        return Ok((wanted, Vec::new()));
    }
    let (hard, unclear) = (slot::problems(client, tables).await?, slot::unclear(client, tables).await?);
    Ok(match (wanted, hard.is_empty(), unclear.is_empty()) {
        (OutsideBy::Auto, true, true) => (OutsideBy::Decoding, slot::notes(client, warnings).await?),
        (OutsideBy::Auto, ..) => {
            let why = hard.iter().chain(&unclear).map(|line| format!("not decoded: {line}"));
            (OutsideBy::Triggers, why.collect())
        }
        _ => {
            let notes = if hard.is_empty() { slot::notes(client, warnings).await? } else { Vec::new() };
            let seen = if hard.is_empty() { OutsideBy::Decoding } else { OutsideBy::Off };
            problems.extend(hard.into_iter().chain(unclear).map(|line| format!("--outside decoding: {line}")));
            (seen, notes)
        }
    })
}

/// Drops the replication slot, for which the server keeps its log. Whether it was there.
pub async fn drop_slot(options: &Options) -> Result<bool, OpenError> {
    let (session, address) = connect(options).await?;
    // A forebay that serves would make it again.
    open::lock(&session.client, &address).await?;
    let place = address.place();
    slot::remove(&session.client).await.map_err(|why| OpenError::Failed { place, why })
}

/// The statements that make the database ready for these mappings; nothing is run. A table whose mapping names no
/// version mode keeps the one that it has; one that has none gets `unsaid`.
pub async fn script(options: &Options, unsaid: VersionMode) -> Result<String, OpenError> {
    let (session, address) = connect(options).await?;
    script_for(&session.client, &address, options, unsaid).await
}

async fn script_for(
    client: &Client,
    address: &Address,
    options: &Options,
    unsaid: VersionMode,
) -> Result<String, OpenError> {
    let role = client.query_one("SELECT current_user::text", &[]).await.map_err(|error| failed(address, &error))?;
    let (mut tables, mut wrong, mut keepings) = (Vec::new(), Vec::new(), HashMap::new());
    for mapping in &options.mappings {
        match catalogue::look_up_to_prepare(client, mapping).await.map_err(|error| failed(address, &error))? {
            Ok((mut table, keeping)) => {
                match mode_for(&table, &keeping, unsaid) {
                    Ok(mode) => table.mapping.version = mode,
                    Err(why) => wrong.push(why),
                }
                keepings.insert(table.oid, keeping);
                tables.push(table);
            }
            Err(lines) => wrong.extend(lines),
        }
    }
    shared::share(&mut tables, &mut wrong);
    if !wrong.is_empty() {
        return Err(OpenError::Mapping(wrong));
    }
    // Triggers are a table's, however many documents its rows are.
    tables.sort_by_key(|table| table.oid);
    tables.dedup_by_key(|table| table.oid);
    Ok(install::script(role.get(0), &tables, &keepings))
}

/// The mode that `table` is to have: the one that it has, and if it has none the one that is named, or `unsaid`.
/// Another one than it has would change under who serves it, and under what waits in a journal.
fn mode_for(table: &Table, keeping: &Keeping, unsaid: VersionMode) -> Result<VersionMode, String> {
    let wanted = table.mapping.version;
    match (keeping.made_for(), wanted) {
        (None, VersionMode::Auto) => Ok(unsaid),
        (None, named) => Ok(named),
        (Some(found), VersionMode::Auto) => Ok(found),
        (Some(found), named) if found == named => Ok(found),
        (Some(found), named) => {
            let (name, found, named) = (&table.name, found.word(), named.word());
            Err(format!(
                "{name} keeps its versions by `{found}`, and `{named}` is asked for: another forebay may rest on \
                 what is there, and writes in its journal. Leave --version and version(..) out to keep `{found}`. To \
                 change it, have every forebay in front of the table apply what waits (CACHE STATE) and end; then \
                 DROP TRIGGER forebay_change ON {name}; DROP TRIGGER forebay_truncate ON {name}; DROP TRIGGER IF \
                 EXISTS forebay_version ON {name}; and run `forebay store init --version {named}`"
            ))
        }
    }
}

/// Runs what [`script`] says, all or nothing.
pub async fn init(options: &Options, unsaid: VersionMode) -> Result<(), OpenError> {
    let (session, address) = connect(options).await?;
    let script = script_for(&session.client, &address, options, unsaid).await?;
    let place = address.place();
    session.client.batch_execute(&script).await.map_err(|error| match classify::is_locked(&error) {
        true => OpenError::InUse { place, why: told(&error), seconds: install::LOCK_SECONDS },
        false => open::rights(&address, &error),
    })
}
