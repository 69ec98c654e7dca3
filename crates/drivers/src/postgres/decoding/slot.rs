//! The replication slot that forebay owns, and whether a database can have one.
//!
//! It is a persistent one, so that a connection that breaks, or a forebay that is started again, goes on with it: a new
//! one would first wait for all transactions that are open. In return the server keeps its log for it until it is
//! dropped, read or not, up to `max_slot_wal_keep_size`.

use tokio_postgres::{Client, Error};

use super::super::classify::told;
use crate::sql::table::{Table, quoted};

/// The plugin that says what a transaction has written: of those that come with the server, the one that needs nothing
/// in the database but the slot.
const PLUGIN: &str = "test_decoding";

/// A slot belongs to a database, and its name to the whole server.
const NAME: &str = "SELECT 'forebay_' || oid FROM pg_database WHERE datname = current_database()";

const STATE: &str = "\
SELECT plugin::text, database::text = current_database(), coalesce(active_pid, 0), coalesce(wal_status, '') = 'lost',
    coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint, coalesce(confirmed_flush_lsn::text, '')
FROM pg_replication_slots WHERE slot_name = $1::text";

/// What stands in the way of a slot, as the server says it.
const SERVER: &str = "\
SELECT current_setting('wal_level'), r.rolsuper OR r.rolreplication OR EXISTS (SELECT FROM pg_roles m
        WHERE m.rolname = 'rds_replication' AND pg_has_role(r.oid, m.oid, 'USAGE')),
    current_user::text,
    current_setting('max_replication_slots')::bigint > (SELECT count(*) FROM pg_replication_slots
        WHERE slot_name <> $1::text),
    current_setting('max_slot_wal_keep_size')
FROM pg_roles r WHERE r.rolname = current_user";

/// What to do where no slot can be made.
const SLOTS_TAKEN: &str = "all replication slots are in use; raise max_replication_slots and start the server again, \
    drop one that nobody reads, or use --outside triggers";

/// Time for making a slot at once: it waits for all transactions that write.
pub(super) const MAKE_MS_MAX: u32 = 2_000;

/// A slot that is there.
pub(super) struct State {
    /// It is ours to read: made for this database and with our plugin.
    pub(super) fits: bool,
    /// The backend that reads it.
    pub(super) active: Option<i32>,
    /// The server gave up what it kept for it.
    pub(super) lost: bool,
    /// Bytes of the log that are kept for it.
    pub(super) retained_bytes: u64,
    /// Up to where the log was taken out of it: by us, or by whoever else may read the log.
    pub(super) place: String,
}

/// The slot's name in this database.
pub(in crate::postgres) async fn name(client: &Client) -> Result<String, Error> {
    client.query_one(NAME, &[]).await?.try_get(0)
}

/// What there is under this name.
pub(super) async fn state(client: &Client, name: &str) -> Result<Option<State>, Error> {
    let Some(row) = client.query_opt(STATE, &[&name]).await? else { return Ok(None) };
    let (plugin, here, active): (Option<&str>, Option<bool>, i32) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    Ok(Some(State {
        fits: plugin == Some(PLUGIN) && here == Some(true),
        active: Some(active).filter(|active| *active != 0),
        lost: row.try_get(3)?,
        retained_bytes: u64::try_from(row.try_get::<_, i64>(4)?).unwrap_or(0),
        place: row.try_get(5)?,
    }))
}

/// Why a slot is not there.
pub(super) enum NotMade {
    /// Transactions are open that it has to wait for; it may be tried again.
    Waits(String),
    /// It can't be, until somebody does what is said.
    Never(String),
}

/// Has the slot be there and whole.
pub(super) async fn make(client: &Client, name: &str) -> Result<(), NotMade> {
    let waits = |error: Error| NotMade::Waits(told(&error));
    match state(client, name).await.map_err(waits)? {
        Some(State { fits: false, .. }) => {
            return Err(NotMade::Never(format!(
                "the replication slot {name} belongs to another program; SELECT pg_drop_replication_slot('{name}') if \
                 no program needs it"
            )));
        }
        Some(State { lost: true, .. }) => {
            tracing::warn!(slot = name, "the server gave up the log that it kept for the slot; it is made again");
            client.execute("SELECT pg_drop_replication_slot($1::text)", &[&name]).await.map_err(waits)?;
        }
        Some(_) => return readable(client, name).await,
        None => {}
    }
    client.batch_execute(&format!("SET statement_timeout = {MAKE_MS_MAX}")).await.map_err(waits)?;
    let made = client.execute("SELECT pg_create_logical_replication_slot($1::text, $2::text)", &[&name, &PLUGIN]).await;
    client.batch_execute("SET statement_timeout = 0").await.map_err(waits)?;
    match made {
        Ok(_) => Ok(()),
        Err(error) => Err(match error.code().map(|code| code.code()) {
            Some("57014") => NotMade::Waits(open_transactions(client, name).await),
            _ => not_made(&error),
        }),
    }
}

/// Whether the server can decode what it keeps for a slot that is there: its plugin may have gone since it was made.
async fn readable(client: &Client, name: &str) -> Result<(), NotMade> {
    // Up to the very beginning of the log: no more than the first record is read.
    let peek = "SELECT count(*) FROM pg_logical_slot_peek_changes($1::text, '0/1', 1)";
    match client.query_one(peek, &[&name]).await {
        Ok(_) => Ok(()),
        // The owner of before reads it: then it can be read.
        Err(error) if error.code().map(|code| code.code()) == Some("55006") => Ok(()),
        Err(error) => Err(not_made(&error)),
    }
}

fn not_made(error: &Error) -> NotMade {
    match error.code().map(|code| code.code()) {
        Some("58P01") => NotMade::Never(format!(
            "the server has no plugin {PLUGIN}; install the package of PostgreSQL that has its contrib modules, or use \
             --outside triggers"
        )),
        Some("53400") => NotMade::Never(SLOTS_TAKEN.into()),
        Some("42501" | "55000") => NotMade::Never(told(error)),
        _ => NotMade::Waits(told(error)),
    }
}

/// For which transactions a new slot has to wait.
async fn open_transactions(client: &Client, name: &str) -> String {
    let oldest = "SELECT pid, coalesce(xact_start::text, '') FROM pg_stat_activity
        WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 1";
    let pid = match client.query_opt(oldest, &[]).await {
        Ok(Some(row)) => {
            format!("; the oldest is that of backend {}, since {}", row.get::<_, i32>(0), row.get::<_, String>(1))
        }
        _ => String::new(),
    };
    format!("the replication slot {name} can be made when the transactions that write now have ended{pid}")
}

/// What stands in the way of decoding, one line each, with the fix.
pub(in crate::postgres) async fn problems(client: &Client, tables: &[Table]) -> Result<Vec<String>, Error> {
    let (mut lines, name) = (Vec::new(), name(client).await?);
    let row = client.query_one(SERVER, &[&name]).await?;
    let (level, may, role): (String, bool, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    if level != "logical" {
        lines.push(format!(
            "wal_level is {level}; ALTER SYSTEM SET wal_level = logical and start the server again, or use --outside \
             triggers"
        ));
    }
    if !may {
        let role = quoted(&role);
        lines.push(format!(
            "{role} may not read the server's log; ALTER ROLE {role} REPLICATION, or use --outside triggers"
        ));
    }
    if !row.try_get::<_, bool>(3)? {
        lines.push(SLOTS_TAKEN.into());
    }
    lines.extend(sources(client, tables).await?.iter().filter_map(Source::unlogged));
    Ok(lines)
}

/// What is worth knowing of decoding, where nothing stands in its way; what is better mended goes to `warnings`.
pub(in crate::postgres) async fn notes(client: &Client, warnings: &mut Vec<String>) -> Result<Vec<String>, Error> {
    let name = name(client).await?;
    let lines = match state(client, &name).await? {
        Some(state) if state.fits => vec![format!(
            "the replication slot {name} keeps {} KiB of the server's log{}",
            state.retained_bytes.div_ceil(1024),
            if state.lost { ", and is lost: it will be made again" } else { "" }
        )],
        _ => vec![format!("the replication slot {name} is not there yet; `forebay serve` makes it")],
    };
    let keep: String = client.query_one(SERVER, &[&name]).await?.try_get(4)?;
    if keep == "-1" {
        warnings.push(
            "max_slot_wal_keep_size is -1: while no forebay reads its slot the server's log grows without end; set it, \
             and run `forebay store drop-slot` when forebay is not to come back"
                .into(),
        );
    }
    Ok(lines)
}

/// Makes the slot; what stands in the way for good, with the fix. Where open transactions do, it is made later.
pub(in crate::postgres) async fn make_now(client: &Client) -> Result<Option<String>, Error> {
    let name = name(client).await?;
    Ok(match make(client, &name).await {
        Ok(()) => None,
        Err(NotMade::Waits(why)) => {
            tracing::warn!("{why}; until then all that is cached of tables is dropped every second");
            None
        }
        Err(NotMade::Never(why)) => Some(why),
    })
}

/// Tables of whose rows before a change too little is told, one line each, with the fix.
pub(in crate::postgres) async fn unclear(client: &Client, tables: &[Table]) -> Result<Vec<String>, Error> {
    let sources = sources(client, tables).await?;
    let of = |source: &&Source| tables.iter().any(|table| !source.identifies(table));
    let line = |source: &Source| {
        let name = &source.name;
        format!(
            "what others update or delete in {name} drops the whole cache, since its replica identity does not name \
             the key; ALTER TABLE {name} REPLICA IDENTITY FULL"
        )
    };
    Ok(sources.iter().filter(of).map(line).collect())
}

/// A table in which rows of a mapped one lie: itself, a partition, a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// The mapped table.
    root: u32,
    /// Schema and name, quoted.
    pub(super) name: String,
    /// Columns that the replica identity names; all of them if `None`.
    identity: Option<Vec<String>>,
    /// What happens to it is in the log.
    logged: bool,
    /// It has rows itself.
    has_rows: bool,
}

impl Source {
    /// Whether rows of `table` lie here.
    pub(super) fn is_of(&self, table: &Table) -> bool {
        self.root == table.oid
    }

    /// Whether the log has the key of a row of `table` before each change.
    pub(super) fn identified(&self, table: &Table) -> bool {
        self.identity.as_ref().is_none_or(|columns| table.mapping.key.iter().all(|column| columns.contains(column)))
    }

    /// Why nothing that happens here can be decoded, with the fix.
    pub(super) fn unlogged(&self) -> Option<String> {
        let name = &self.name;
        let line = || format!("{name} is not logged; ALTER TABLE {name} SET LOGGED, or use --outside triggers");
        (!self.logged).then(line)
    }

    /// Whether the log has the key, or there is nothing of it here.
    fn identifies(&self, table: &Table) -> bool {
        !self.is_of(table) || !self.has_rows || self.identified(table)
    }
}

const SOURCES: &str = "\
WITH RECURSIVE tree (root, oid) AS (SELECT o, o FROM unnest($1::oid[]) AS o
    UNION SELECT t.root, i.inhrelid FROM tree t JOIN pg_inherits i ON i.inhparent = t.oid)
SELECT t.root, quote_ident(n.nspname) || '.' || quote_ident(c.relname), c.relreplident = 'f',
    ARRAY(SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
        AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1])
        WHERE i.indrelid = c.oid AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident
            ELSE false END ORDER BY 1),
    c.relpersistence = 'p' AND c.relkind IN ('r', 'p'), c.relkind <> 'p'
FROM tree t JOIN pg_class c ON c.oid = t.oid JOIN pg_namespace n ON n.oid = c.relnamespace ORDER BY 1, 2";

/// Where rows of `tables` lie now.
pub(super) async fn sources(client: &Client, tables: &[Table]) -> Result<Vec<Source>, Error> {
    let mut oids: Vec<u32> = tables.iter().map(|table| table.oid).collect();
    oids.sort_unstable();
    oids.dedup();
    let source = |row: &tokio_postgres::Row| {
        Ok(Source {
            root: row.try_get(0)?,
            name: row.try_get(1)?,
            identity: if row.try_get(2)? { None } else { Some(row.try_get(3)?) },
            logged: row.try_get(4)?,
            has_rows: row.try_get(5)?,
        })
    };
    client.query(SOURCES, &[&oids]).await?.iter().map(source).collect()
}

/// Drops the slot, if it is there, ours, and nobody reads it. Whether it was there.
pub(in crate::postgres) async fn remove(client: &Client) -> Result<bool, String> {
    let name = name(client).await.map_err(|error| told(&error))?;
    match state(client, &name).await.map_err(|error| told(&error))? {
        Some(State { active: Some(pid), .. }) => {
            Err(format!("backend {pid} reads the replication slot {name}; stop that forebay first"))
        }
        Some(State { fits: true, .. }) => {
            let gone = client.execute("SELECT pg_drop_replication_slot($1::text)", &[&name]).await;
            gone.map(|_| true).map_err(|error| told(&error))
        }
        _ => Ok(false),
    }
}
