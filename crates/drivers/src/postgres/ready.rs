//! Opening in two steps. All that may refuse an opening comes first, and takes nothing from the owner that is there. A
//! start that fails leaves that one as it is. Then the database is taken.
//!
//! What can still fail behind the raised incarnation: the connection, and a backend of an earlier forebay that does not
//! end although it may be ended. It is ended behind the raised incarnation alone, since it could come again before.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_postgres::Config;

use super::address::Address;
use super::clears::Clears;
use super::database::Inner;
use super::error::OpenError;
use super::keeper;
use super::locked::Locked;
use super::open::{self, Looked};
use super::pool::{Plan, Pool};
use super::reading;
use super::rows::mapped::Rows;
use super::rows::versions;
use super::store::Postgres;
use super::tls::Tls;
use super::watch::Watch;
use crate::options::{Known, Options};
use crate::sql::counted::Counted;
use crate::sql::identity::Identity;
use crate::sql::ids::Ids;
use crate::sql::keys::Named;
use crate::sql::mapping::Mapping;
use crate::sql::watching::OutsideBy;

/// A database that can be taken; who owned it before still does.
pub struct Ready {
    address: Address,
    config: Config,
    tls: Tls,
    timeout: Duration,
    opening: Duration,
    readers: usize,
    writers: usize,
    mappings: Vec<Mapping>,
    named: Option<Arc<Named>>,
    row_bytes_max: usize,
    known: Known,
    outside: OutsideBy,
    outside_pause: Duration,
    looked: Looked,
    rows: Option<Arc<Rows>>,
}

impl Ready {
    /// Finds out all that may stand in the way, and holds the database's lock from now on.
    pub async fn prepare(options: Options) -> Result<Ready, OpenError> {
        let address = Address::read(&options.address)?;
        let Options { password, timeout, first, opening, readers, writers, mappings, .. } = options;
        let (outside, outside_pause, known) = (options.outside, options.outside_pause, options.known);
        let (row_bytes_max, named) = (options.row_bytes_max, Named::new(&options.keys, &mappings));
        let tls = Tls::open(&address)?;
        let config = |timeout| open::config_of(&address, password.as_deref(), timeout);
        let (first, began) = (first.max(timeout), Instant::now());
        let keeper = open::connect(&address, &config(first), &tls, open::OPENING_NAME, first).await?;
        if began.elapsed() > timeout {
            let (took_ms, store_timeout_ms) = (began.elapsed().as_millis(), timeout.as_millis());
            tracing::warn!(
                took_ms,
                store_timeout_ms,
                "PostgreSQL was slow to let us in: a call that takes so long fails"
            );
        }
        let looking = async {
            let keeper = open::settle(keeper, &address, &config(first), &tls, first).await?;
            let looked = open::look(keeper, &address, &known).await?;
            let client = &looked.keeper.client;
            let rows = match mappings.is_empty() {
                true => None,
                false => Some(open::look_up(client, &address, &mappings, &known).await?.up_to(row_bytes_max)),
            };
            open::warn_of_connections(client, &address, (readers, writers)).await?;
            let tables = rows.as_ref().map_or(&[][..], |rows| &rows.tables);
            open::warn_of_rows(client, &address, tables).await?;
            let outside = open::outside(client, &address, tables, outside).await?;
            let rows = rows.map(|rows| Arc::new(Rows::of(rows.seen_by(outside).beside_documents(named.clone()))));
            Ok((looked, rows, outside))
        };
        let (looked, rows, outside) = open::within(opening, &address, looking).await?;
        let config = config(timeout);
        Ok(Ready {
            address,
            config,
            tls,
            timeout,
            opening,
            readers,
            writers,
            mappings,
            named,
            row_bytes_max,
            known,
            outside,
            outside_pause,
            looked,
            rows,
        })
    }

    /// Takes the database.
    pub async fn take(self) -> Result<Postgres, OpenError> {
        let Ready { address, config, tls, timeout, readers, writers, mappings, known, outside, rows, .. } = self;
        let taking = open::take(self.looked, &address, &known);
        let opened = open::within(self.opening, &address, taking).await?;
        if outside != OutsideBy::Decoding {
            open::drop_slot(&opened.keeper.client).await;
        }
        let is_mapped = rows.is_some();
        if let Some(rows) = rows.as_ref() {
            rows.unwatched.warn(outside);
            versions::doubts(&rows.tables, outside).for_each(|line| tracing::warn!("{line}"));
        }
        let plan = Plan { readers, writers, rows, lock_wait: reading::lock_wait(timeout) };
        let identity = Arc::new(Identity::new(&opened.opening, &known, writers, self.named.is_some()));
        let inner = Arc::new(Inner {
            pool: Pool::new(config, tls, identity.clone(), plan),
            identity,
            ids: Ids::new(opened.floor),
            timeout,
            name: format!("{} {}", opened.server, address.place()),
            room: Default::default(),
            keeper_woken: Arc::new(Notify::new()),
            clears: Clears::default(),
            watch: Watch::new(outside, self.outside_pause),
            counted: Counted::default(),
            locked: Locked::default(),
            place: opened.place,
            another: opened.another,
            is_mapped,
            named: self.named,
            mappings,
            row_bytes_max: self.row_bytes_max,
        });
        tokio::spawn(keeper::keep(Arc::downgrade(&inner), opened.keeper));
        Ok(Postgres { inner, tokio: Handle::current() })
    }
}

impl Postgres {
    /// Opens the database, making forebay's schema if it is not there. To be called in the context of a tokio runtime,
    /// which has to live as long as the store.
    pub async fn open(options: Options) -> Result<Postgres, OpenError> {
        Ready::prepare(options).await?.take().await
    }
}
