//! `forebay store check` and `forebay store init`.

use std::time::Duration;

use tokio_postgres::{Client, Error};

use super::address::Address;
use super::classify::told;
use super::mapping::rows::{self, Rows};
use super::mapping::{Mapping, VersionMode, catalogue};
use super::tls::Tls;
use super::{OpenError, PostgresOptions, install, open};

/// A connection for looking and preparing; the server may be in use by a forebay meanwhile.
async fn connect(options: &PostgresOptions) -> Result<super::session::Session, OpenError> {
    let tls = Tls::open(&options.address)?;
    let timeout = options.timeout.max(Duration::from_secs(5));
    let config = open::config_of(&options.address, options.password.as_deref(), timeout);
    open::connect(&options.address, &config, &tls, "forebay-store", timeout).await
}

fn failed(address: &Address, error: &Error) -> OpenError {
    OpenError::Failed { place: address.place(), why: told(error) }
}

/// What is there, line by line, and what is wrong.
#[derive(Debug)]
pub struct Checked {
    /// What is well, and what is worth knowing.
    pub notes: Vec<String>,
    /// What stands in the way of `forebay serve`, each with the fix.
    pub problems: Vec<String>,
}

/// Looks at the server, at forebay's schema and at the mapped tables, and changes nothing.
pub async fn check(options: &PostgresOptions) -> Result<Checked, OpenError> {
    let session = connect(options).await?;
    let client = &session.client;
    let address = &options.address;
    let looked = look(client, address, &options.mappings).await;
    looked.map_err(|error| failed(address, &error))
}

async fn look(client: &Client, address: &Address, mappings: &[Mapping]) -> Result<Checked, Error> {
    let (mut notes, mut problems) = (Vec::new(), Vec::new());
    let version: String = client.query_one("SELECT current_setting('server_version')", &[]).await?.get(0);
    notes.push(format!("{} is PostgreSQL {version}", address.place()));
    for setting in ["fsync", "full_page_writes"] {
        let value: String = client.query_one("SELECT current_setting($1)", &[&setting]).await?.get(0);
        if value != "on" {
            problems.push(format!("{setting} is {value}: a crash may lose acknowledged commits; set it to on"));
        }
    }
    let row = client.query_one(super::sql::THERE, &[]).await?;
    let (there, usable): (bool, bool) = (row.get(0), row.get(1));
    let may: bool = client.query_one("SELECT has_database_privilege(current_database(), 'CREATE')", &[]).await?.get(0);
    match (there, may) {
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
    match rows::look_up(client, mappings).await? {
        Ok(Rows { tables, .. }) => {
            for table in &tables {
                let read_only =
                    table.fields.iter().filter(|column| !column.writable).map(|column| column.name.as_str());
                let read_only: Vec<&str> = read_only.collect();
                let columns = table.fields.len();
                notes.push(format!(
                    "{}: {columns} fields, read-only: {}; other writers are {}",
                    table.mapping,
                    if read_only.is_empty() { "none".to_owned() } else { read_only.join(", ") },
                    match table.mapping.version {
                        VersionMode::None | VersionMode::Auto => "noticed at commit only",
                        VersionMode::Column | VersionMode::Side => "seen",
                    }
                ));
            }
        }
        Err(lines) => problems.extend(lines),
    }
    Ok(Checked { notes, problems })
}

/// The statements that make the database ready for these mappings; nothing is run.
pub async fn script(options: &PostgresOptions) -> Result<String, OpenError> {
    let session = connect(options).await?;
    script_for(&session.client, options).await
}

async fn script_for(client: &Client, options: &PostgresOptions) -> Result<String, OpenError> {
    let address = &options.address;
    let role = client.query_one("SELECT current_user::text", &[]).await.map_err(|error| failed(address, &error))?;
    let (mut tables, mut wrong) = (Vec::new(), Vec::new());
    for mapping in &options.mappings {
        // As if versions were not asked for: what keeps them is about to be made.
        let bare = Mapping { version: VersionMode::None, ..mapping.clone() };
        match catalogue::look_up(client, &bare).await.map_err(|error| failed(address, &error))? {
            Ok(mut table) => {
                table.mapping = mapping.clone();
                tables.push(table);
            }
            Err(lines) => wrong.extend(lines),
        }
    }
    rows::share(&mut tables, &mut wrong);
    if !wrong.is_empty() {
        return Err(OpenError::Mapping(wrong));
    }
    // Triggers are a table's, however many documents its rows are.
    tables.sort_by_key(|table| table.oid);
    tables.dedup_by_key(|table| table.oid);
    Ok(install::script(role.get(0), &tables))
}

/// Runs what [`script`] says, all or nothing.
pub async fn init(options: &PostgresOptions) -> Result<(), OpenError> {
    let session = connect(options).await?;
    let script = script_for(&session.client, options).await?;
    session.client.batch_execute(&script).await.map_err(|error| open::rights(&options.address, &error))
}
