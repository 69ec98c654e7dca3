//! Opening a database: one forebay at a time, in an incarnation of its own, with nothing of an earlier one still on
//! its way.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use forebay::Version;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::{Client, Config, Error};

use super::address::Address;
use super::classify::{self, told_in_full as told};
use super::decoding::slot;
use super::error::OpenError;
use super::opened::Opened;
use super::owners;
use super::raise::raise;
use super::rows::found;
use super::rows::size;
use super::session::Session;
use super::settings::Settings;
use super::tls::Tls;
use super::{pooled, sql};
use crate::error::OtherDatabase;
use crate::options::Known;
use crate::sql::identity::Opening;
use crate::sql::ids;
use crate::sql::mapping::Mapping;
use crate::sql::owners::{Own, Owners};
use crate::sql::remembered::Place;
use crate::sql::shared;
use crate::sql::table::Table;
use crate::sql::tables::Tables;
use crate::sql::watching::OutsideBy;

/// How long a forebay that has just ended may take to give the database up.
const TAKE_OVER_MS_MAX: u64 = 5_000;

/// Somebody who waits so long is told why.
const TOLD: Duration = Duration::from_secs(3);

/// Wait between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What the first connection of an opening is called.
pub(super) const OPENING_NAME: &str = "forebay opening";

/// The oldest server that has all that is used here: `pg_snapshot`, and `starts_with`.
const SERVER_VERSION_MIN: i32 = 130_000;

/// What opening has found, and nothing is changed yet: whoever owns the database goes on owning it.
pub(super) struct Looked {
    /// It holds the database's lock for as long as it lives.
    pub(super) keeper: Session,
    server: String,
    place: Place,
    another: bool,
    meta: Meta,
    owners: Owners,
    /// It knows the newest commits that it had acknowledged.
    there: bool,
}

/// How to connect.
pub(super) fn config_of(address: &Address, password: Option<&[u8]>, connect_timeout: Duration) -> Config {
    let mut config = address.config().clone();
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(connect_timeout);
    }
    if let Some(password) = password {
        config.password(password);
    }
    config
}

/// A connection for what is done once, under `name`; nothing is set.
pub(super) async fn connect(
    address: &Address,
    config: &Config,
    tls: &Tls,
    name: &str,
    connect_timeout: Duration,
) -> Result<Session, OpenError> {
    let unreachable = |why: String| OpenError::Unreachable { place: address.place(), why };
    let progress = Arc::default();
    match timeout(connect_timeout, Session::connect(config, tls.clone(), name.to_owned(), &progress)).await {
        Ok(Ok(session)) => Ok(session),
        Ok(Err(error)) => Err(match classify::denial(&error) {
            Some(why) => {
                let role = config.get_user().unwrap_or_default().to_owned();
                OpenError::Denied { place: address.place(), role, why }
            }
            None => unreachable(told(&error)),
        }),
        Err(_) => Err(silent(address, connect_timeout)),
    }
}

/// Gives a session what every session has, unless its backend serves other sessions too.
pub(super) async fn settle(
    session: Session,
    address: &Address,
    config: &Config,
    tls: &Tls,
    connect_timeout: Duration,
) -> Result<Session, OpenError> {
    // Where a second connection can't be had, nothing is known of a pool.
    let other = connect(address, config, tls, &session.name, connect_timeout).await.ok();
    let ready = async {
        if let Some(other) = other
            && pooled::is_pooled(&session.client, &other.client).await.map_err(|error| failed(address, &error))?
        {
            return Err(OpenError::Pooled { place: address.place() });
        }
        session.set(Settings::default()).await.map_err(|error| failed(address, &error))
    };
    timeout(connect_timeout, ready).await.unwrap_or_else(|_| Err(silent(address, connect_timeout)))
}

/// The error of a server that accepts a connection, and answers nothing.
fn silent(address: &Address, waited: Duration) -> OpenError {
    OpenError::Unreachable { place: address.place(), why: format!("no answer in {} ms", waited.as_millis()) }
}

/// Why it can't be opened, as an error says that came behind the connection: the server that ends it is away.
pub(super) fn failed(address: &Address, error: &Error) -> OpenError {
    let (place, why) = (address.place(), told(error));
    match classify::ends(error) {
        true => OpenError::Unreachable { place, why },
        false => OpenError::Failed { place, why },
    }
}

/// Does `work`, which asks the database, unless it takes longer than `most`: a server that hangs answers nothing, and
/// nobody else would say so.
pub(super) async fn within<T>(
    most: Duration,
    address: &Address,
    work: impl Future<Output = Result<T, OpenError>>,
) -> Result<T, OpenError> {
    let (began, mut work) = (Instant::now(), pin!(work));
    if let Ok(done) = timeout(TOLD.min(most), &mut work).await {
        return done;
    }
    tracing::warn!(
        place = address.place(),
        seconds_max = most.as_secs(),
        "opening takes long: an earlier forebay holds the database, a table is locked, or the server hangs"
    );
    let hangs = || OpenError::Hangs { place: address.place(), seconds: most.as_secs() };
    timeout(most.saturating_sub(began.elapsed()), work).await.unwrap_or_else(|_| Err(hangs()))
}

/// Looks at the database, of which an earlier opening has left `known`, and takes its lock. An owner that is cut off
/// from it loses nothing by that.
pub(super) async fn look(keeper: Session, address: &Address, known: &Known) -> Result<Looked, OpenError> {
    let client = &keeper.client;
    let broken = |error: Error| failed(address, &error);
    let row = client.query_one("SELECT current_setting('server_version_num')::int, version()", &[]).await;
    let row = row.map_err(broken)?;
    let (number, version): (i32, String) = (row.get(0), row.get(1));
    let server = version.split_whitespace().take(2).collect::<Vec<_>>().join(" ").to_lowercase();
    if number < SERVER_VERSION_MIN {
        return Err(OpenError::TooOld { place: address.place(), server });
    }
    let place = place(client).await.map_err(broken)?;
    let seen = known.remembered.as_ref().map(|remembered| &remembered.place);
    if let Some(other) = seen.filter(|other| known.waiting && other.database != place.database && !place.is(other)) {
        return Err(OtherDatabase { place: address.place(), database: other.database.clone() }.into());
    }
    if let Err(error) = lock(client, address).await {
        return Err(overtaken(client, address, known, error).await);
    }
    schema(client, address).await?;
    let meta = meta(client, address).await?;
    if meta.format != sql::FORMAT {
        return Err(OpenError::Format { place: address.place(), format: meta.format });
    }
    if !meta.has_owners {
        client.batch_execute(sql::OWNERS).await.map_err(|error| rights(address, &error))?;
    }
    let owners = owners::read(client).await.map_err(|error| rights(address, &error))?;
    let newest: Vec<Vec<u8>> = known.acknowledged.iter().copied().map(ids::bytes).collect();
    let there = client.query_one(sql::NEWEST, &[&newest]).await.map_err(|error| rights(address, &error))?;
    let there: bool = there.try_get(0).map_err(broken)?;
    warn_of_durability(client).await.map_err(broken)?;
    let another = seen.is_some_and(|other| place.is_not(other));
    Ok(Looked { keeper, server, place, another, meta, owners, there })
}

/// Takes the database that was `looked` at: from here on no owner of before commits anything. What may refuse the
/// opening comes before: see [`Ready`](super::Ready).
pub(super) async fn take(looked: Looked, address: &Address, known: &Known) -> Result<Opened, OpenError> {
    let Looked { keeper, server, place, another, meta, owners, there } = looked;
    let client = &keeper.client;
    let broken = |error: Error| failed(address, &error);
    let Meta { floor, incarnation: found, run, .. } = meta;
    await_strangers(client, address).await?;
    let owner = known.owner.map_or_else(|| run.clone(), |owner| owner.to_string());
    let own = Own { owner, run, journal: known.owner.is_some() };
    // Versions and ids of what was lost are never given again.
    let raised = raise(&own, client, known.minted.max(known.incarnation), None).await;
    let raised = raised.map_err(|error| rights(address, &error))?;
    let no_row = || OpenError::Failed { place: address.place(), why: "forebay.meta has no row".into() };
    let incarnation = raised.ok_or_else(no_row)?;
    owners.warn_of_the_last(&own, found, known);
    let went_back = !there || another || found < known.incarnation;
    if went_back {
        tracing::error!(
            place = address.place(),
            incarnation,
            found,
            known = known.incarnation,
            newest = known.acknowledged.iter().max().map(|id| id.to_string()),
            "the database does not know commits that it had acknowledged to an earlier forebay with this journal: it \
             was restored from a backup, a standby that lagged took over, forebay's schema was dropped, or it is \
             another database; going on from what it holds"
        );
    }
    end_earlier(client, address, incarnation).await?;
    let name = format!("SET application_name = 'forebay {incarnation}.keeper'");
    client.batch_execute(&name).await.map_err(broken)?;
    let (owned_since, earlier) = (owners.since(&own, found, known), owners.runs());
    let opening = Opening { own, incarnation, earlier, owned_since, went_back };
    Ok(Opened { keeper, opening, floor, server, place, another })
}

/// Which database this is.
async fn place(client: &Client) -> Result<Place, Error> {
    let row = client.query_one(sql::PLACE, &[]).await?;
    // The role may not have the right to ask.
    let cluster = client.query_one(sql::CLUSTER, &[]).await.ok();
    let cluster = cluster.and_then(|row| row.try_get(0).ok());
    Ok(Place { database: row.try_get(0)?, oid: row.try_get(1)?, cluster })
}

/// What forebay's schema says of itself.
struct Meta {
    format: i32,
    floor: Version,
    incarnation: u64,
    /// Drawn for this opening.
    run: String,
    /// It notes who has owned the database; a schema of an older forebay does not.
    has_owners: bool,
}

async fn meta(client: &Client, address: &Address) -> Result<Meta, OpenError> {
    let row = client.query_one(sql::META, &[]).await.map_err(|error| rights(address, &error))?;
    let read = || -> Result<Meta, Error> {
        let format = row.try_get(0)?;
        let floor = ids::version(row.try_get(1)?).unwrap_or(Version::ZERO);
        let incarnation = row.try_get::<_, i64>(2)? as u64;
        Ok(Meta { format, floor, incarnation, run: row.try_get(3)?, has_owners: row.try_get(4)? })
    };
    read().map_err(|error| failed(address, &error))
}

/// Takes the lock of the database, which the session then holds.
pub(super) async fn lock(client: &Client, address: &Address) -> Result<(), OpenError> {
    let broken = |error: Error| failed(address, &error);
    let until = Instant::now() + Duration::from_millis(TAKE_OVER_MS_MAX);
    loop {
        if client.query_one(sql::LOCK, &[]).await.map_err(broken)?.get(0) {
            return Ok(());
        }
        if Instant::now() >= until {
            let holder = client.query_opt(sql::HOLDER, &[]).await.map_err(broken)?;
            let (pid, from, since) = match holder {
                Some(row) => (row.get::<_, i32>(0).to_string(), row.get(1), row.get(2)),
                None => ("unknown".to_owned(), "unknown".to_owned(), "unknown".to_owned()),
            };
            return Err(OpenError::Taken { place: address.place(), pid, from, since, over: None });
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// `error` with the owner that has taken the database over since the opening that is `known`, if it says that the
/// database is taken. Without one, an earlier connection of our own may hold the lock: the server may not know yet that
/// its process has ended.
async fn overtaken(client: &Client, address: &Address, known: &Known, error: OpenError) -> OpenError {
    let OpenError::Taken { place, pid, from, since, .. } = error else { return error };
    let by = async {
        let meta = meta(client, address).await.ok().filter(|meta| meta.has_owners)?;
        let own = Own { owner: known.owner?.to_string(), run: meta.run, journal: true };
        let by = owners::read(client).await.ok()?.since(&own, meta.incarnation, known)?;
        Some(format!("another forebay has taken this database over: {by}, incarnation {}", meta.incarnation))
    };
    OpenError::Taken { place, pid, from, since, over: by.await }
}

/// Makes forebay's own schema if it is not there.
async fn schema(client: &Client, address: &Address) -> Result<(), OpenError> {
    let broken = |error: Error| failed(address, &error);
    let there = client.query_one(sql::THERE, &[]).await.map_err(broken)?;
    if there.get(0) {
        return Ok(());
    }
    client.batch_execute(sql::SCHEMA).await.map_err(|error| rights(address, &error))
}

pub(super) fn rights(address: &Address, error: &Error) -> OpenError {
    match error.code().map(|code| code.code()) {
        Some("42501" | "3F000" | "42P01") => OpenError::Rights { place: address.place(), why: told(error) },
        _ => failed(address, error),
    }
}

/// Waits for backends of earlier forebays that this role may not end. One that stays would refuse the opening when the
/// database is taken already.
async fn await_strangers(client: &Client, address: &Address) -> Result<(), OpenError> {
    let until = Instant::now() + Duration::from_millis(TAKE_OVER_MS_MAX);
    loop {
        let rows = client.query(sql::EARLIER, &[&OPENING_NAME]).await.map_err(|error| failed(address, &error))?;
        let Some(first) = rows.iter().find(|row| !row.get::<_, bool>(2)) else { return Ok(()) };
        if Instant::now() >= until {
            let (pid, role) = (first.get(0), first.get(1));
            return Err(OpenError::Leftover { place: address.place(), pid, role });
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// Ends what an earlier forebay has left. From here on nobody but us writes as forebay: who connects from now on finds
/// another incarnation than its own.
async fn end_earlier(client: &Client, address: &Address, incarnation: u64) -> Result<(), OpenError> {
    let broken = |error: Error| failed(address, &error);
    let until = Instant::now() + Duration::from_millis(TAKE_OVER_MS_MAX);
    let ours = format!("forebay {incarnation}.");
    loop {
        let rows = client.query(sql::EARLIER, &[&ours]).await.map_err(broken)?;
        let Some(first) = rows.first() else { return Ok(()) };
        if Instant::now() >= until {
            let (pid, role) = (first.get(0), first.get(1));
            return Err(OpenError::Leftover { place: address.place(), pid, role });
        }
        for row in rows.iter().filter(|row| row.get(2)) {
            let pid: i32 = row.get(0);
            client.query_one("SELECT pg_terminate_backend($1)", &[&pid]).await.map_err(broken)?;
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// Connections beside those that read and write: the keeper's, one that waits for a locked table, one that clears.
const OTHERS: usize = 3;

/// What to do where the server lets in fewer connections than `readers` and `writers` may want: one that it refuses is
/// taken for an outage.
pub(super) async fn too_few_connections(
    client: &Client,
    (readers, writers): (usize, usize),
) -> Result<Option<String>, Error> {
    let wanted = readers + writers + OTHERS;
    let Some(row) = client.query_opt(sql::LIMITS, &[]).await? else { return Ok(None) };
    let limits: [(i32, &str); 3] = [
        (row.try_get(0)?, "its role's CONNECTION LIMIT"),
        (row.try_get(1)?, "the database's CONNECTION LIMIT"),
        (row.try_get(2)?, "max_connections"),
    ];
    let short = |(limit, _): &&(i32, &str)| usize::try_from(*limit).is_ok_and(|limit| limit < wanted);
    Ok(limits.iter().filter(short).min_by_key(|(limit, _)| *limit).map(|(limit, name)| {
        format!(
            "forebay wants up to {wanted} connections, and {name} lets in {limit}: what finds none is refused as in an \
             outage; raise it, or lower --store-writers ({writers})"
        )
    }))
}

/// Says so in the log.
pub(super) async fn warn_of_connections(
    client: &Client,
    address: &Address,
    wanted: (usize, usize),
) -> Result<(), OpenError> {
    let few = too_few_connections(client, wanted).await.map_err(|error| failed(address, &error))?;
    few.iter().for_each(|few| tracing::warn!("{few}"));
    Ok(())
}

/// Says in the log which rows can't be read.
pub(super) async fn warn_of_rows(client: &Client, address: &Address, tables: &[Table]) -> Result<(), OpenError> {
    let lines = size::too_large(client, tables, size::COUNTED_MS).await.map_err(|error| failed(address, &error))?;
    lines.iter().for_each(|line| tracing::warn!("{line}"));
    Ok(())
}

/// Settings of the server under which an acknowledged commit may be lost.
async fn warn_of_durability(client: &Client) -> Result<(), Error> {
    for setting in ["fsync", "full_page_writes"] {
        let value: String = client.query_one("SELECT current_setting($1)", &[&setting]).await?.get(0);
        if value != "on" {
            tracing::warn!(setting, %value, "PostgreSQL may lose acknowledged commits in a crash; set it to on");
        }
    }
    Ok(())
}

/// Looks the mapped tables up. Where writes wait, one that is gone is as it was `known`.
pub(super) async fn look_up(
    client: &Client,
    address: &Address,
    mappings: &[Mapping],
    known: &Known,
) -> Result<Tables, OpenError> {
    let broken = |error: Error| failed(address, &error);
    shared::meeting(mappings).iter().for_each(|line| tracing::warn!("{line}"));
    let remembered = known.remembered.as_ref().filter(|_| known.waiting);
    found::look_up(client, mappings, remembered).await.map_err(broken)?.map_err(OpenError::Mapping)
}

/// How what others write is to be seen. Where it is decoded, the slot is there, unless transactions are open that it
/// has to wait for.
pub(super) async fn outside(
    client: &Client,
    address: &Address,
    tables: &[Table],
    wanted: OutsideBy,
) -> Result<OutsideBy, OpenError> {
    let broken = |error: Error| failed(address, &error);
    let decodes = match wanted {
        _ if tables.is_empty() => false,
        OutsideBy::Triggers | OutsideBy::Off => false,
        OutsideBy::Decoding | OutsideBy::Auto => {
            let mut lines = slot::problems(client, tables).await.map_err(broken)?;
            let unclear = slot::unclear(client, tables).await.map_err(broken)?;
            if wanted == OutsideBy::Decoding {
                unclear.iter().for_each(|line| tracing::warn!("{line}"));
            } else {
                lines.extend(unclear);
            }
            if lines.is_empty() {
                lines.extend(slot::make_now(client).await.map_err(broken)?);
            }
            match (lines.is_empty(), wanted) {
                (false, OutsideBy::Decoding) => return Err(OpenError::Outside(lines)),
                (decodes, _) => {
                    lines.iter().for_each(|why| tracing::info!("what others write is not decoded: {why}"));
                    decodes
                }
            }
        }
    };
    Ok(match wanted {
        _ if decodes => OutsideBy::Decoding,
        OutsideBy::Off => OutsideBy::Off,
        _ => OutsideBy::Triggers,
    })
}

/// Where what others write is not decoded, nothing is kept for it any more. The slot may be that of the owner of
/// before, so only once the database is taken.
pub(super) async fn drop_slot(client: &Client) {
    match slot::remove(client).await {
        Ok(true) => {
            tracing::info!("the replication slot of an earlier forebay is dropped: what others write is not decoded")
        }
        Ok(false) => {}
        Err(why) => tracing::warn!(why, "the replication slot of an earlier forebay is still there, and keeps the log"),
    }
}
