//! YCSB's core workloads (Cooper et al., SoCC 2010): records of ten fields, a mix of actions, a popularity.
//!
//! | where | a record is | read | update, insert | scan |
//! |---|---|---|---|---|
//! | RESP | the hash `usertable:<id>` | HGETALL | HMSET | one MGET of n consecutive rows |
//! | PostgreSQL | a row of `usertable(id, field0..field9)` | SELECT | UPDATE, INSERT | one range query |
//!
//! HMSET, since its reply asks for nothing that a store that is away would have to tell, as HSET's count does. MGET
//! shows mapped rows as JSON. Where records are plain hashes a scan is n HGETALL in one EXEC.
//!
//! There are departures. Ids are `user` and twelve digits in the order of insertion, unless they are to be hashed as
//! YCSB does by default. Popular records are scattered by a hash either way. The range of E's starts is a tenth
//! larger than what is loaded, for what is inserted during the run. YCSB takes it from the number of operations,
//! which is not known here.

mod client;
mod rows;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fastrand::Rng;
use futures_util::future::BoxFuture;

use super::{Actor, Failure, LiveError, Param, Parameters, Record, Session, Workload};
use crate::client::{Client, Says};
use crate::popularity::fnv_hash;
use crate::ycsb::{self, Mix};
use rows::{FIELDS, Ycsb, columns, field, value, whole_record};

/// Records of one batch of the load.
const BATCH: u64 = 200;

/// Records at most; the ids have twelve digits.
const RECORDS_MAX: u64 = 1_000_000_000;

/// How to start a server for it, for error texts.
const HINT: &str = "start forebay with --map 'usertable:{id} -> usertable(id)' over a database in which `forebay bench \
                    --direct URL --load-only` has made the table, or without mappings";

macro_rules! declared {
    ($record:ident, $name:literal, $summary:literal, $mix:expr) => {
        pub(super) static $record: Record = Record {
            name: $name,
            summary: $summary,
            unit: "rows",
            records: 100_000,
            new: |parameters| Ycsb::make($mix, parameters),
        };
    };
}

declared!(A, "ycsb-a", "half reads, half updates of one field", ycsb::A);
declared!(B, "ycsb-b", "95 % reads, 5 % updates", ycsb::B);
declared!(C, "ycsb-c", "reads only", ycsb::C);
declared!(D, "ycsb-d", "95 % reads, most of what was inserted last, and 5 % inserts", ycsb::D);
declared!(E, "ycsb-e", "95 % scans of 1 to 100 neighbouring rows, 5 % inserts", ycsb::E);
declared!(F, "ycsb-f", "half reads, half reads followed by an update of the same row", ycsb::F);

impl Ycsb {
    fn make(mix: Mix, parameters: &Parameters) -> Result<Arc<dyn Workload>, LiveError> {
        if !(1..=RECORDS_MAX).contains(&parameters.records) {
            return Err(LiveError::Parameters(format!("give --records a number of rows in 1..={RECORDS_MAX}")));
        }
        if parameters.hashed && mix.scan > 0 {
            return Err(LiveError::Parameters("ycsb-e scans neighbours, so its rows can't be named by hashes".into()));
        }
        if parameters.transactions && mix.modify == 0 {
            return Err(LiveError::Parameters(
                "--transactions is for ycsb-f: all other actions are one command each".into(),
            ));
        }
        Ok(Arc::new(Ycsb {
            mix,
            records: parameters.records,
            seed: parameters.seed,
            transactions: parameters.transactions,
            hashed: parameters.hashed,
            next: AtomicU64::new(parameters.records),
            there: AtomicU64::new(parameters.records),
            ahead: Mutex::new(BTreeSet::new()),
            rows: AtomicBool::new(false),
        }))
    }

    /// Whether the record is there.
    async fn exists(&self, number: u64, session: &mut Session) -> Result<bool, Failure> {
        match session {
            Session::Resp(client) => Ok(client.demand(&["EXISTS", &self.key(number)]).await?.number() == Some(1)),
            Session::Sql(sql) => {
                let id = self.id(number);
                Ok(sql.query("SELECT 1 FROM usertable WHERE id = $1", &[Param::Text(&id)]).await?.count() == 1)
            }
        }
    }

    /// The lowest number above the loaded ones that is free: earlier runs may have inserted some.
    async fn first_free(&self, session: &mut Session) -> Result<u64, Failure> {
        let (mut low, mut step) = (self.records, 1);
        while self.exists(low + step - 1, session).await? {
            low += step;
            step *= 2;
        }
        // All below `low` are there, `low + step - 1` is not.
        let mut high = low + step - 1;
        while low < high {
            let middle = low + (high - low) / 2;
            match self.exists(middle, session).await? {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(low)
    }

    /// Whether MGET shows rows.
    async fn shows_rows(&self, client: &mut Client) -> Result<bool, Failure> {
        let reply = client.demand(&["MGET", &self.key(0)]).await?;
        Ok(reply.items().is_some_and(|items| items.first().is_some_and(|item| item.bytes().is_some())))
    }
}

impl Workload for Ycsb {
    fn prepare<'a>(&'a self, session: &'a mut Session) -> BoxFuture<'a, Result<(), LiveError>> {
        Box::pin(async move {
            let Session::Sql(sql) = session else { return Ok(()) };
            let fields = columns(|number| format!("{} text", field(number)));
            let made =
                sql.script(&format!("CREATE TABLE IF NOT EXISTS usertable (id text PRIMARY KEY, {fields})")).await;
            made.map_err(|failure| {
                LiveError::refused(
                    "making the table usertable",
                    &failure,
                    "may this role make tables in this database?",
                )
            })
        })
    }

    fn batches(&self) -> u64 {
        self.records.div_ceil(BATCH)
    }

    fn load<'a>(&'a self, batch: u64, session: &'a mut Session) -> BoxFuture<'a, Result<u64, Failure>> {
        Box::pin(async move {
            let mut rng = Rng::with_seed(self.seed ^ fnv_hash(batch));
            let numbers = batch * BATCH..((batch + 1) * BATCH).min(self.records);
            let count = numbers.end - numbers.start;
            match session {
                Session::Resp(client) => {
                    numbers.for_each(|number| client.queue(&whole_record(self.key(number), &mut rng)));
                    for reply in client.replies().await? {
                        Failure::unless_error(reply)?;
                    }
                }
                Session::Sql(sql) => {
                    let ids = numbers.clone().map(|number| self.id(number)).collect();
                    let fields = (0..FIELDS).map(|_| numbers.clone().map(|_| value(&mut rng)).collect::<Vec<_>>());
                    let all: Vec<Vec<String>> = std::iter::once(ids).chain(fields).collect();
                    let params: Vec<Param<'_>> = all.iter().map(|texts| Param::Texts(texts)).collect();
                    let arrays = columns(|number| format!("${}::text[]", number + 2));
                    let again = columns(|number| format!("{0} = excluded.{0}", field(number)));
                    let insert = format!(
                        "INSERT INTO usertable SELECT * FROM unnest($1::text[], {arrays}) \
                         ON CONFLICT (id) DO UPDATE SET {again}"
                    );
                    sql.execute(&insert, &params).await?;
                }
            }
            Ok(count)
        })
    }

    fn ready<'a>(&'a self, session: &'a mut Session) -> BoxFuture<'a, Result<(), LiveError>> {
        Box::pin(async move {
            let hint = match session {
                Session::Resp(_) => HINT,
                Session::Sql(_) => "load first: leave --no-load out",
            };
            let refused = |failure: Failure| LiveError::refused("looking for the rows", &failure, hint);
            for number in [0, self.records - 1] {
                if !self.exists(number, session).await.map_err(refused)? {
                    return Err(LiveError::Parameters(format!(
                        "there is no {}; load first (leave --no-load out), or give --records as at the load",
                        self.key(number)
                    )));
                }
            }
            if self.mix.insert > 0 {
                let free = self.first_free(session).await.map_err(refused)?;
                self.next.store(free, Ordering::Relaxed);
                self.there.store(free, Ordering::Relaxed);
                self.ahead.lock().unwrap_or_else(PoisonError::into_inner).clear();
            }
            if let (Session::Resp(client), true) = (session, self.mix.scan > 0) {
                self.rows.store(self.shows_rows(client).await.map_err(refused)?, Ordering::Relaxed);
            }
            Ok(())
        })
    }

    fn actor(self: Arc<Self>, _: u32, random: Rng) -> Box<dyn Actor> {
        Box::new(client::YcsbClient::new(self, random))
    }

    fn hint(&self) -> &'static str {
        HINT
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.next.load(Ordering::Relaxed) > self.records && self.mix.insert > 0 {
            notes.push(format!(
                "{} rows beyond those loaded are there now",
                self.next.load(Ordering::Relaxed) - self.records
            ));
        }
        notes
    }
}
