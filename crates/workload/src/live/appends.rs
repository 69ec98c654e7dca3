//! The tester of outages: every client appends separate numbers to lists that all share. After the run, when all that
//! was buffered has been applied and nothing is cached, the lists are read back and judged ([`judge`]).
//!
//! The lists are new with each run: `append:<time>-<n>`, or rows of `appends(id, elements)`. They are removed if all is
//! well, and stay to be looked at if not.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use futures_util::future::BoxFuture;

use super::{Actor, Ended, Failure, LiveError, Param, Parameters, Record, Session, Verdict, Workload};
use crate::checkers::appends::{Fate, Findings, Told, judge};
use crate::client::Says;

/// Appends of all clients that are remembered; then they pause.
const APPENDS_MAX: u64 = 50_000_000;

/// Lists at most.
const LISTS_MAX: u64 = 1_000_000;

/// Lists that are asked for in one go.
const BATCH: u64 = 100;

const HINT: &str = "start forebay without mappings, or with --map 'append:{id} -> appends(id).elements as list' over \
                    a database in which `forebay bench --workload list-append --direct URL --load-only` has made the \
                    table";

pub(super) static LIST_APPEND: Record = Record {
    name: "list-append",
    summary: "is every acknowledged write there, once and in order, whatever happened to the store?",
    unit: "lists",
    records: 1000,
    new: |parameters| match parameters.records {
        1..=LISTS_MAX => Ok(Arc::new(Appends::new(parameters))),
        _ => Err(LiveError::Parameters(format!("give --records a number of lists in 1..={LISTS_MAX}"))),
    },
};

struct Appends {
    lists: u64,
    /// What the names of this run's lists begin with.
    run: AtomicU64,
    sent_max: u64,
    told: Mutex<Vec<Told>>,
}

impl Appends {
    fn new(parameters: &Parameters) -> Appends {
        let sent_max = APPENDS_MAX / u64::from(parameters.connections.max(1));
        Appends { lists: parameters.records, run: AtomicU64::new(0), sent_max, told: Mutex::new(Vec::new()) }
    }

    fn id(&self, list: u64) -> String {
        format!("{}-{list}", self.run.load(Ordering::Relaxed))
    }

    fn key(&self, list: u64) -> String {
        format!("append:{}", self.id(list))
    }

    /// All lists in batches.
    fn batched(&self) -> impl Iterator<Item = std::ops::Range<u64>> + use<> {
        let lists = self.lists;
        (0..lists.div_ceil(BATCH)).map(move |batch| batch * BATCH..((batch + 1) * BATCH).min(lists))
    }

    /// What is in the lists.
    async fn read(&self, session: &mut Session) -> Result<BTreeMap<u64, Vec<Vec<u8>>>, Failure> {
        let mut found = BTreeMap::new();
        for lists in self.batched() {
            match session {
                Session::Resp(client) => {
                    lists.clone().for_each(|list| client.queue(&["LRANGE", &self.key(list), "0", "-1"]));
                    for (list, reply) in lists.zip(client.replies().await?) {
                        let reply = Failure::unless_error(reply)?;
                        let elements = reply.items().unwrap_or_default().into_iter();
                        let bytes = elements.map(|element| element.bytes().unwrap_or_default().to_vec());
                        found.insert(list, bytes.collect());
                    }
                }
                Session::Sql(sql) => {
                    for list in lists {
                        let text = "SELECT elements FROM appends WHERE id = $1";
                        let rows = sql.query(text, &[Param::Text(&self.id(list))]).await?;
                        let elements = if rows.count() > 0 { rows.texts(0, 0)? } else { Vec::new() };
                        found.insert(list, elements.into_iter().map(String::into_bytes).collect());
                    }
                }
            }
        }
        Ok(found)
    }

    async fn remove(&self, session: &mut Session) -> Result<(), Failure> {
        for lists in self.batched() {
            match session {
                Session::Resp(client) => {
                    lists.for_each(|list| client.queue(&["DEL", &self.key(list)]));
                    client.replies().await?;
                }
                Session::Sql(sql) => {
                    let ids: Vec<String> = lists.map(|list| self.id(list)).collect();
                    sql.execute("DELETE FROM appends WHERE id = ANY($1)", &[Param::Texts(&ids)]).await?;
                }
            }
        }
        Ok(())
    }
}

impl Workload for Appends {
    fn prepare<'a>(&'a self, session: &'a mut Session) -> BoxFuture<'a, Result<(), LiveError>> {
        Box::pin(async move {
            let Session::Sql(sql) = session else { return Ok(()) };
            let table =
                "CREATE TABLE IF NOT EXISTS appends (id text PRIMARY KEY, elements text[] NOT NULL DEFAULT '{}')";
            let hint = "may this role make tables in this database?";
            sql.script(table).await.map_err(|failure| LiveError::refused("making the table appends", &failure, hint))
        })
    }

    fn batches(&self) -> u64 {
        0
    }

    fn load<'a>(&'a self, _: u64, _: &'a mut Session) -> BoxFuture<'a, Result<u64, Failure>> {
        Box::pin(async { Ok(0) })
    }

    fn ready<'a>(&'a self, session: &'a mut Session) -> BoxFuture<'a, Result<(), LiveError>> {
        Box::pin(async move {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
            // Two runs of one process differ too.
            self.run.store(now.max(self.run.load(Ordering::Relaxed) + 1), Ordering::Relaxed);
            self.told.lock().unwrap_or_else(PoisonError::into_inner).clear();
            let hint = match session {
                Session::Resp(_) => HINT,
                Session::Sql(_) => "leave --no-load out, and the table is made",
            };
            // That a list is empty must be known before an outage for an append to be taken in it.
            let found = self.read(session).await;
            found.map(drop).map_err(|failure| LiveError::refused("looking at the lists", &failure, hint))
        })
    }

    fn actor(self: Arc<Self>, number: u32, random: Rng) -> Box<dyn Actor> {
        let next = Told { list: 0, writer: number, number: 0, fate: Fate::Silent };
        Box::new(Writer { shared: self, random, next, told: Vec::new() })
    }

    fn check<'a>(&'a self, session: &'a mut Session) -> BoxFuture<'a, Result<Vec<Verdict>, LiveError>> {
        Box::pin(async move {
            let refused = |doing: &str, failure: Failure| {
                LiveError::refused(doing, &failure, "the lists are still there; is the server as it should be?")
            };
            if let Session::Resp(client) = session {
                // What is read back shall come from the store. Other servers have no such command.
                client.call(&["CACHE", "RESET"]).await.map_err(|error| refused("CACHE RESET", error.into()))?;
            }
            let lists = self.read(session).await.map_err(|failure| refused("reading the lists back", failure))?;
            let findings = judge(&self.told.lock().unwrap_or_else(PoisonError::into_inner), &lists);
            let verdicts = verdicts(&findings);
            if !verdicts.iter().any(|verdict| verdict.breach) {
                self.remove(session).await.map_err(|failure| refused("removing the lists", failure))?;
            }
            Ok(verdicts)
        })
    }
}

/// What was found, as verdicts.
fn verdicts(findings: &Findings) -> Vec<Verdict> {
    let plain = |what: &str, count, of, breach| Verdict { what: what.into(), count, of, breach, example: None };
    let none = findings.acknowledged == 0;
    let mut verdicts = vec![
        plain("appends that were acknowledged", findings.acknowledged, findings.sent, none),
        plain("appends of unknown outcome that are there", findings.landed, findings.uncertain, false),
    ];
    verdicts.extend(findings.promises().map(|(what, found, of)| Verdict {
        what: what.into(),
        count: found.count,
        of,
        breach: found.count > 0,
        example: found.first.clone(),
    }));
    verdicts
}

struct Writer {
    shared: Arc<Appends>,
    random: Rng,
    /// What is appended next. `Silent` until something else is known.
    next: Told,
    told: Vec<Told>,
}

impl Writer {
    fn note(&mut self, fate: Fate) {
        self.told.push(Told { fate, ..self.next });
    }

    async fn append(&self, session: &mut Session) -> Result<(), Failure> {
        let (list, element) = (self.next.list, self.next.element());
        match session {
            Session::Resp(client) => {
                client.demand(&["RPUSH", &self.shared.key(list), &element]).await?;
            }
            Session::Sql(sql) => {
                let text = "INSERT INTO appends (id, elements) VALUES ($1, ARRAY[$2]) \
                            ON CONFLICT (id) DO UPDATE SET elements = appends.elements || excluded.elements";
                sql.execute(text, &[Param::Text(&self.shared.id(list)), Param::Text(&element)]).await?;
            }
        }
        Ok(())
    }
}

impl Actor for Writer {
    fn choose(&mut self) -> &'static str {
        self.next.list = self.random.u64(0..self.shared.lists);
        self.next.number += 1;
        "append"
    }

    fn act<'a>(&'a mut self, session: &'a mut Session) -> BoxFuture<'a, Result<Ended, Failure>> {
        Box::pin(async move {
            if self.told.len() as u64 >= self.shared.sent_max {
                return Ok(Ended::Skipped);
            }
            let appended = self.append(session).await;
            let fate = match &appended {
                Ok(()) => Fate::Acknowledged,
                Err(failure) if failure.lost => Fate::Silent,
                Err(failure) if failure.kind == "TXUNKNOWN" => Fate::Unknown,
                Err(_) => Fate::Refused,
            };
            self.note(fate);
            appended.map(|()| Ended::Done)
        })
    }

    fn lost(&mut self, sent: bool) {
        self.note(if sent { Fate::Silent } else { Fate::Refused });
    }

    fn end(&mut self) {
        self.shared.told.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.told);
    }
}
