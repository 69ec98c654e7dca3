//! The gate before a database: its journal is opened first, since what it holds decides how to start, and as whom. One
//! that was not there before goes with a start that fails.

use std::sync::Arc;

use forebay::outage::{
    Description, Found, Gate, GateOptions, GateSettings, Journal, JournalOptions, LaneRule, RealFolder, catalogue_of,
    incarnation_of, seen_incarnation_of,
};
use forebay::runtime::Runtime;
use forebay::store::late::{Late, NotOpened};
use forebay::store::{Caps, Store};
use forebay::tier::Tier;
use forebay::version::OwnerId;
use forebay_drivers::{Known, OpenError, OtherDatabase, Ready, Remembered};
use futures_util::future::BoxFuture;

use crate::database;
use crate::error::CommandError;
use crate::settings::{Drain, Settings};

/// The database that `settings` name, behind a gate. It is taken when nothing else is left that may refuse the start:
/// `last` is done just before that.
pub async fn open<T>(
    settings: &Settings,
    runtime: &Runtime,
    last: impl FnOnce() -> Result<T, CommandError>,
) -> Result<(Gate, T), CommandError> {
    let was_there = settings.journal.exists();
    let opened = open_behind(settings, runtime, last).await;
    // Nothing was acknowledged, and the folder was made just now: nobody has anything in it.
    if opened.is_err() && !was_there && settings.journal.exists() {
        std::fs::remove_dir_all(&settings.journal).unwrap_or_else(|error| {
            tracing::warn!(journal = %settings.journal.display(), %error, "an empty journal can't be removed");
        });
    }
    opened
}

async fn open_behind<T>(
    settings: &Settings,
    runtime: &Runtime,
    last: impl FnOnce() -> Result<T, CommandError>,
) -> Result<(Gate, T), CommandError> {
    let mapping = mapping(settings);
    let (journal, mut found) = open_journal(settings, runtime, &mapping).await?;
    own(&journal, &mut found, runtime).await?;
    let taken = async {
        let found = prepare_store(settings, Left::of(&found)).await?;
        let last = last()?;
        Ok((found.take().await?, last))
    };
    let ((store, opens_late), last) = match taken.await {
        Ok(taken) => taken,
        Err(error) => {
            let _ = journal.close().await;
            return Err(error);
        }
    };
    let gate = GateOptions {
        runtime: runtime.clone(),
        store,
        journal,
        found,
        settings: gate_settings(settings),
        mapping,
        opens_late,
    };
    let gate = Gate::open(gate)?;
    gate.start_remembering();
    Ok((gate, last))
}

/// What a start has found where the database should be.
enum Prepared {
    There(Box<dyn Ready>),
    /// It can't be reached yet.
    Late(Arc<Late>),
}

impl Prepared {
    /// The store, and whether it opens late.
    async fn take(self) -> Result<(Arc<dyn Store>, bool), CommandError> {
        match self {
            Prepared::There(ready) => Ok((ready.take().await?, false)),
            Prepared::Late(late) => Ok((late, true)),
        }
    }
}

/// Gives the journal the id under which it owns databases, if it has none. It is safe there before any database is
/// opened: a start that is killed behind that is known to the next as our own.
async fn own(journal: &Journal, found: &mut Found, runtime: &Runtime) -> Result<(), CommandError> {
    if found.remembered.owner.is_some() {
        return Ok(());
    }
    let id = (u128::from(runtime.random()) << 64) | u128::from(runtime.random());
    found.remembered.owner = Some(OwnerId(id));
    let noted = journal.remember(found.remembered.clone()).await;
    noted.map_err(|error| CommandError::Failed(format!("the journal can't note as whom it is used: {error}")))
}

/// What an earlier run has left in the journal, as far as it matters to how the database is opened.
struct Left {
    pending: u64,
    known: Known,
}

impl Left {
    fn of(found: &Found) -> Left {
        let acknowledged = found.remembered.acknowledged.clone();
        // A journal that was moved away since says nothing of incarnations.
        let newest = acknowledged.iter().map(|id| id.0.incarnation).max().unwrap_or(0);
        let incarnation = seen_incarnation_of(&found.description).max(newest);
        let minted = incarnation_of(&found.description).max(incarnation);
        let remembered = catalogue_of(&found.description).and_then(Remembered::read);
        let waiting = found.pending_count > 0;
        let owner = found.remembered.owner;
        let known = Known { incarnation, minted, acknowledged, remembered, waiting, owner };
        Left { pending: found.pending_count, known }
    }
}

fn gate_settings(settings: &Settings) -> GateSettings {
    GateSettings {
        breaker: settings.breaker,
        bytes_max: usize::try_from(settings.outage_bytes_max).unwrap_or(usize::MAX),
        lanes: LaneRule { serial: settings.drain == Drain::Serial },
        workers: settings.drain_workers,
        batch_max: GateSettings::default().batch_max,
        per_second_max: settings.drain_per_second_max,
        merge: true,
        on_conflict: settings.on_conflict,
        stale_ms_max: settings.stale_on_outage_ms_max,
        write_back_ms: (settings.write_back_ms > 0).then_some(settings.write_back_ms),
    }
}

/// The mappings, as they were written, but for what does not change which row a write is for.
fn mapping(settings: &Settings) -> String {
    settings.maps.iter().map(|mapping| format!("{}\n", mapping.clone().place())).collect()
}

/// Refuses the start of a forebay that has no journal where one before it has left writes for this database: nothing
/// would apply them, and reads would not show them.
pub async fn nothing_is_left(settings: &Settings, runtime: &Runtime) -> Result<(), CommandError> {
    let journal = settings.journal.clone();
    if !journal.exists() {
        return Ok(());
    }
    match open_any(settings, runtime, &mapping(settings)).await {
        Ok((opened, found)) => {
            let closed = opened.close().await;
            let of = catalogue_of(&found.description).and_then(Remembered::read);
            let address = database::named(settings)?.1.address;
            let is_ours = of.is_none_or(|remembered| remembered.database() == address.database());
            match found.pending_count {
                pending @ 1.. if is_ours => Err(CommandError::LeftBehind { journal, pending }),
                _ => closed.map_err(|error| CommandError::Failed(format!("the journal can't be closed: {error}"))),
            }
        }
        Err(error) => {
            let journal = journal.display();
            tracing::warn!(%journal, %error, "a journal is there that is not used: what waits in it stays");
            Ok(())
        }
    }
}

/// The journal, if what waits in it was written for `mapping`.
async fn open_journal(settings: &Settings, runtime: &Runtime, mapping: &str) -> Result<(Journal, Found), CommandError> {
    let (journal, found) = open_any(settings, runtime, mapping).await?;
    if found.pending_count > 0 && found.description.mapping != mapping {
        return Err(CommandError::OtherMapping {
            journal: settings.journal.clone(),
            pending: found.pending_count,
            mapping: found.description.mapping,
        });
    }
    Ok((journal, found))
}

async fn open_any(settings: &Settings, runtime: &Runtime, mapping: &str) -> Result<(Journal, Found), CommandError> {
    let options = JournalOptions {
        durability: settings.durability.flush(settings.sync_ms),
        // The gate's own limit counts what is in memory, and comes first.
        bytes_max: settings.outage_bytes_max.saturating_mul(2),
        description: Description { mapping: mapping.to_owned(), catalogue: String::new() },
    };
    let (path, own) = (settings.journal.clone(), runtime.clone());
    let folder = |error| CommandError::JournalFolder { folder: settings.journal.clone(), error };
    let opened = runtime.blocking(move || {
        let folder = RealFolder::new(&path)?;
        // What can't be read refuses the start now, not when the database is taken.
        Ok(Journal::open(own, Arc::new(folder), options).and_then(|(journal, found)| Ok((journal, found.read()?))))
    });
    let (journal, found) = opened.await.map_err(folder)??;
    report(&found);
    Ok((journal, found))
}

/// Says what an operator should know of the journal.
fn report(found: &Found) {
    if let Some(cut) = found.cut {
        tracing::error!(
            bytes = cut.bytes,
            left = cut.left,
            "the journal is shorter than it was left: it was cut, or an older copy was put in its place"
        );
    } else if let Some(torn) = &found.torn {
        let (file, offset, bytes) = (&torn.file, torn.offset, torn.bytes);
        tracing::warn!(file, offset, bytes, "the journal's end was not written in full and is cut off");
    }
    if let Some(lost) = &found.lost {
        tracing::error!(
            epoch = %lost.epoch, after = lost.after, up_to = lost.up_to,
            "writes that were acknowledged while the database was down may be lost with the end of the journal; \
             tickets above `after` are gone"
        );
    }
    if found.pending_count > 0 {
        tracing::warn!(pending = found.pending_count, "writes wait for the database since an earlier run");
    }
}

/// The database, or what stands for it until it can be reached.
async fn prepare_store(settings: &Settings, left: Left) -> Result<Prepared, CommandError> {
    let Left { pending, known } = left;
    let error = match database::prepare(settings, known.clone()).await {
        Ok(ready) => return Ok(Prepared::There(ready)),
        Err(error) => error,
    };
    if let (CommandError::Database(OpenError::Mapping(_)), 1..) = (&error, pending) {
        let (journal, why) = (settings.journal.clone(), error.to_string());
        return Err(CommandError::TablesChanged { journal, pending, why });
    }
    let asked = settings.start_in_failed;
    let may_start = match &error {
        CommandError::Database(OpenError::Unreachable(_)) => asked || pending > 0,
        // What was given is wrong: no waiting helps, unless somebody who knows better says so.
        CommandError::Database(OpenError::Denied(_)) => asked,
        _ => false,
    };
    if !may_start {
        return Err(error);
    }
    let (driver, options) = database::named(settings)?;
    let address = options.address;
    let other = known.remembered.as_ref().filter(|remembered| remembered.database() != address.database());
    match other {
        Some(other) if pending > 0 => {
            let (place, database) = (address.place().to_owned(), other.database().to_owned());
            return Err(OpenError::from(OtherDatabase { place, database }).into());
        }
        Some(_) => return Err(never_reached(settings, &error)),
        None if pending == 0 && known.incarnation == 0 => return Err(never_reached(settings, &error)),
        None => {}
    }
    tracing::warn!(%error, "starting without the database: writes are buffered until it can be reached");
    let caps = Caps { ordered: false, owned: settings.maps.is_empty(), applies: true };
    let name = format!("{} (not reached yet) {}", driver.name, address.place());
    let catalogue = (driver.catalogue)(known.remembered.clone(), &settings.maps, &settings.keys);
    // By then something may wait, whether it does now or not.
    let (settings, known) = (Arc::new(settings.clone()), Known { waiting: true, ..known });
    let open = move || -> BoxFuture<'static, Result<Arc<dyn Store>, NotOpened>> {
        let (settings, known) = (settings.clone(), known.clone());
        Box::pin(async move {
            match database::open_again(&settings, known).await {
                Ok(database) => Ok(database),
                Err(CommandError::Database(OpenError::Taken { over: Some(over), .. })) => Err(NotOpened::Taken(over)),
                Err(error) => Err(NotOpened::Unreachable(error.to_string())),
            }
        })
    };
    Ok(Prepared::Late(Arc::new(Late::new(caps, name, error.to_string(), Box::new(open), catalogue))))
}

fn never_reached(settings: &Settings, why: &CommandError) -> CommandError {
    CommandError::NeverReached { journal: settings.journal.clone(), why: why.to_string() }
}
