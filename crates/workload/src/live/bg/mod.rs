//! BG at work on a server or a database: [`crate::bg`] with connections.
//!
//! The rows stand in separate tables, one for each kind of document (`direct.rs`), so that a key is a row and all of
//! it. So a friendship that begins drops no profile from the cache, and no two documents share a lock. Friends,
//! invitations, walls and comments are arrays, as in the paper's MongoDB documents, and lists of keys (`resp.rs`).
//! Without mappings the same keys lie wherever the server keeps them.
//!
//! This must hold of what was seen. No read is there that can't be true, whatever it was answered from. At the end
//! all lists are as the acknowledged writes have made them. `notes` say what a wrong read may come from by design.

mod client;
mod direct;
mod log;
pub(super) mod network;
mod resp;
mod shared;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use futures_util::future::BoxFuture;

use super::{Actor, Failure, LiveError, Parameters, Record, Session, Verdict, Workload};
use crate::bg::judge::BUCKETS_MS;
use crate::bg::{self, Data, Graph, Kind, MIXES, Mix, Object, Read, Scale, Seen};
use log::{Log, Room};
pub use network::Network;
use shared::{Bg, Counts, Run, lock};

/// Members of one batch of the load.
const BATCH: u32 = 20;

/// Lists that are read in one round trip.
const LISTS: usize = 500;

/// What must not happen, as verdicts say it.
pub const WRONG_READS: &str = "reads that can't be true";

macro_rules! records {
    ($($mix:literal)*) => {
        [$(Record {
            name: MIXES[$mix].name,
            summary: MIXES[$mix].summary,
            unit: "members",
            records: 1000,
            new: |parameters| Bg::make(&MIXES[$mix], parameters),
        }),*]
    };
}

/// One for each mix.
pub(super) static ALL: [Record; MIXES.len()] = records!(0 1 2 3 4 5 6 7 8 9 10 11 12);

/// How to start a server for it, for error texts.
const HINT: &str = "start forebay without mappings, or over the tables that `forebay bench --direct URL --load-only` \
                    makes and with the mappings of docs/bench-workloads.md";

impl Bg {
    fn make(mix: &'static Mix, parameters: &Parameters) -> Result<Arc<dyn Workload>, LiveError> {
        let members = u32::try_from(parameters.records).unwrap_or(u32::MAX);
        let Network { scale, think, pause } = parameters.network;
        let scale = Scale { members, seed: parameters.seed, ..scale };
        if let Some(problem) = scale.problem() {
            return Err(LiveError::Parameters(problem));
        }
        let data = Data::new(scale);
        let graph = Graph::new(&data);
        let run = Run {
            epoch: Instant::now(),
            room: Room::default(),
            first: Arc::new(graph.clone()),
            logs: Vec::new(),
            notes: Vec::new(),
        };
        Ok(Arc::new(Bg {
            mix,
            data,
            graph: Mutex::new(graph),
            known: AtomicBool::new(false),
            run: Mutex::new(run),
            counts: Counts::default(),
            transactions: parameters.transactions,
            think,
            pause,
        }))
    }

    /// Reads all lists, for a graph of a network that others have changed since it was loaded.
    async fn learn(&self, session: &mut Session) -> Result<Graph, Failure> {
        let scale = self.data.scale();
        let mut graph = Graph::new(&self.data);
        let members = (0..scale.members).flat_map(|id| [Kind::Friends, Kind::Pending].map(|kind| Object { kind, id }));
        let comments = (0..scale.members * scale.resources).map(|id| Object { kind: Kind::Comments, id });
        let objects: Vec<Object> = members.chain(comments).collect();
        for objects in objects.chunks(LISTS) {
            for (object, elements) in objects.iter().zip(lists(session, objects).await?) {
                graph.set(&self.data, *object, elements);
            }
        }
        Ok(graph)
    }

    /// Whether the last member's profile is there.
    async fn is_loaded(&self, session: &mut Session) -> Result<bool, Failure> {
        let last = self.data.scale().members - 1;
        match session {
            Session::Resp(client) => {
                let reply = client.demand(&["HEXISTS", &format!("member:{last}"), "username"]).await?;
                Ok(crate::client::Says::number(&reply) == Some(1))
            }
            Session::Sql(sql) => {
                let text = "SELECT 1 FROM bg_members WHERE userid = $1";
                Ok(sql.query(text, &[super::Param::Number(last.into())]).await?.count() == 1)
            }
        }
    }

    /// All lists that were changed in this run, once more.
    async fn last_look(&self, log: &Log, session: &mut Session) -> Result<Vec<Read>, Failure> {
        let mut objects: Vec<Object> = log.updates.iter().map(|update| update.object).collect();
        objects.sort_unstable();
        objects.dedup();
        let mut reads = Vec::new();
        if let Session::Resp(client) = session {
            // What the store holds is what counts; a server that does not know this is asked as it is.
            client.call(&["CACHE", "RESET"]).await?;
        }
        for objects in objects.chunks(LISTS) {
            // After all updates, whatever the clock says.
            let at = |(object, elements): (&Object, Vec<u32>)| Read {
                object: *object,
                start_ns: u64::MAX - 2,
                end_ns: u64::MAX - 1,
                seen: Seen::Elements(elements.into()),
            };
            reads.extend(objects.iter().zip(lists(session, objects).await?).map(at));
        }
        Ok(reads)
    }

    fn tell(&self, verdict: &bg::Verdict, dropped: u64) -> Vec<String> {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { applied, failed, unknown, busy, nothing, .. } = &self.counts;
        let mut notes = vec![format!(
            "writes: {} acknowledged, {} failed, {} of unknown outcome, not judged further; {} skipped because there \
             was nothing to change, {} because a member was in the middle of another",
            count(applied),
            count(failed),
            count(unknown),
            count(nothing),
            count(busy)
        )];
        let [friends, pending, comments] = verdict.by_kind;
        notes.push(format!(
            "wrong reads: {:.4} % ({} of {} of friends, {} of {} of invitations, {} of {} of comments); BG itself, \
             which looks at sizes alone, would count {}; {} can't be explained by any earlier state",
            verdict.wrong_percent(),
            friends.wrong,
            friends.reads,
            pending.wrong,
            pending.reads,
            comments.wrong,
            comments.reads,
            verdict.wrong_by_size,
            verdict.foreign
        ));
        if let Some((median, oldest)) = verdict.age_ms {
            notes.push(format!("stale by {median:.1} ms (median), {oldest:.1} ms (most)"));
            notes.push(freshness(verdict));
            notes.push(
                "by design a read is stale while other programs write the same rows (forebay: --outside-ms), and what \
                 was buffered and then quarantined or dropped is missing; a server other than forebay promises nothing"
                    .into(),
            );
        }
        if dropped > 0 {
            notes.push(format!("{dropped} reads were not judged: the log was full; run it for a shorter time"));
        }
        notes
    }
}

/// The share of right reads by the time since the latest update.
fn freshness(verdict: &bg::Verdict) -> String {
    let bucket = |(upto, count): (&u64, &bg::judge::Count)| {
        let share = 100.0 * (count.reads - count.wrong) as f64 / count.reads as f64;
        let name = if *upto == u64::MAX { "later or never".to_owned() } else { format!("< {upto} ms") };
        format!("{name} {share:.3} % of {}", count.reads)
    };
    let filled = BUCKETS_MS.iter().zip(&verdict.freshness).filter(|(_, count)| count.reads > 0);
    format!("right by the time since a list's latest change: {}", filled.map(bucket).collect::<Vec<_>>().join(", "))
}

async fn lists(session: &mut Session, objects: &[Object]) -> Result<Vec<Vec<u32>>, Failure> {
    match session {
        Session::Resp(client) => resp::lists(client, objects).await,
        Session::Sql(sql) => direct::lists(sql, objects).await,
    }
}

impl Workload for Bg {
    fn prepare<'a>(&'a self, session: &'a mut Session) -> BoxFuture<'a, Result<(), LiveError>> {
        Box::pin(async move {
            *lock(&self.graph) = Graph::new(&self.data);
            self.known.store(true, Ordering::Relaxed);
            let Session::Sql(sql) = session else { return Ok(()) };
            let refused = |failure: Failure| {
                LiveError::refused(
                    "making BG's tables",
                    &failure,
                    "may this role make tables, and are bg_* not in use?",
                )
            };
            sql.script(&direct::tables()).await.map_err(refused)
        })
    }

    fn batches(&self) -> u64 {
        u64::from(self.data.scale().members.div_ceil(BATCH))
    }

    fn load<'a>(&'a self, batch: u64, session: &'a mut Session) -> BoxFuture<'a, Result<u64, Failure>> {
        Box::pin(async move {
            let first = batch as u32 * BATCH;
            let members = first..(first + BATCH).min(self.data.scale().members);
            let elements = |object| lock(&self.graph).elements(object);
            let count = u64::from(members.end - members.start);
            match session {
                Session::Resp(client) => {
                    for member in members {
                        resp::exec(client, &resp::load(&self.data, member, &elements)).await?;
                    }
                }
                Session::Sql(sql) => direct::load(sql, &self.data, members, &elements).await?,
            }
            Ok(count)
        })
    }

    fn ready<'a>(&'a self, session: &'a mut Session) -> BoxFuture<'a, Result<(), LiveError>> {
        Box::pin(async move {
            let refused = |failure: Failure| LiveError::refused("looking for BG's members", &failure, HINT);
            if !self.is_loaded(session).await.map_err(refused)? {
                let members = self.data.scale().members;
                let what = format!("there are no {members} members; load first (leave --no-load out)");
                return Err(LiveError::Parameters(what));
            }
            if !self.known.load(Ordering::Relaxed) {
                let graph = self.learn(session).await.map_err(refused)?;
                graph.validate().map_err(|why| {
                    LiveError::Parameters(format!("{why}: this is no network that only BG has changed; load it again"))
                })?;
                *lock(&self.graph) = graph;
                self.known.store(true, Ordering::Relaxed);
            }
            self.counts.reset();
            let first = Arc::new(lock(&self.graph).clone());
            let epoch = Instant::now();
            *lock(&self.run) = Run { epoch, room: Room::default(), first, logs: Vec::new(), notes: Vec::new() };
            Ok(())
        })
    }

    fn actor(self: Arc<Self>, _: u32, random: fastrand::Rng) -> Box<dyn Actor> {
        Box::new(client::BgClient::new(self, random))
    }

    fn check<'a>(&'a self, session: &'a mut Session) -> BoxFuture<'a, Result<Vec<Verdict>, LiveError>> {
        Box::pin(async move {
            let (logs, first, room) = {
                let mut run = lock(&self.run);
                (std::mem::take(&mut run.logs), run.first.clone(), run.room.clone())
            };
            let mut log = Log::new(room);
            logs.into_iter().for_each(|other| log.add(other));
            log.cut();
            let hint = "look at the server; the run's figures can't be judged";
            let refused = |failure: Failure| LiveError::refused("the last look at the lists", &failure, hint);
            // Without all updates the end can't be told.
            let complete = log.complete_until_ns == u64::MAX;
            let last = if complete { self.last_look(&log, session).await.map_err(refused)? } else { Vec::new() };
            let dropped = log.dropped;
            let updates: Vec<bg::Update> = first.doubts().iter().copied().chain(log.updates).collect();
            let before = |object| first.elements(object);
            let seen = bg::judge(&before, updates.clone(), log.reads);
            let end = bg::judge(&before, updates, last);
            lock(&self.run).notes = self.tell(&seen, dropped);
            let verdict =
                |what: &str, count, of, example| Verdict { what: what.into(), count, of, breach: count > 0, example };
            let Counts { applied, strange, first_strange, .. } = &self.counts;
            Ok(vec![
                verdict(WRONG_READS, seen.all.wrong, seen.all.reads, seen.examples.first().cloned()),
                verdict(
                    "lists that are not what was acknowledged at the end",
                    end.all.wrong,
                    end.all.reads,
                    end.examples.first().cloned(),
                ),
                verdict(
                    "removals that found nothing",
                    strange.load(Ordering::Relaxed),
                    applied.load(Ordering::Relaxed),
                    lock(first_strange).clone(),
                ),
            ])
        })
    }

    fn hint(&self) -> &'static str {
        HINT
    }

    fn notes(&self) -> Vec<String> {
        lock(&self.run).notes.clone()
    }
}
