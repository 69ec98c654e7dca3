//! One client of BG.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use futures_util::future::BoxFuture;

use super::log::Log;
use super::shared::{Bg, Counts, SHOWN_COUNT, lock};
use super::{direct, resp};
use crate::bg::action::Action;
use crate::bg::choose::{Choose, Step};
use crate::bg::{Ended as Fate, Read, Skipped, Update, Write};
use crate::live::{Actor, Ended, Failure, Session};

/// Times that an action is tried again when others are in its way.
const RETRIES_MAX: u32 = 8;

pub(super) struct BgClient {
    shared: Arc<Bg>,
    choose: Choose,
    step: Step,
    /// What it has begun: the write, and when.
    write: Option<Write>,
    start_ns: u64,
    /// The connection has been told that numbers in replies do not matter.
    greeted: bool,
    log: Option<Log>,
    epoch: Instant,
}

/// What a failure means for a write.
fn fate(failure: &Failure) -> Fate {
    // 40003: the database can't say. A connection that is lost may have carried the write.
    let unknown = (failure.lost && failure.kind != "unreachable") || ["TXUNKNOWN", "40003"].contains(&&*failure.kind);
    if unknown { Fate::Unknown } else { Fate::Failed }
}

/// Others were in the way: nothing was done, and it may be tried again.
fn in_the_way(failure: &Failure) -> bool {
    !failure.lost && ["TXCONFLICT", "TXABORTED", "40001", "40P01"].contains(&&*failure.kind)
}

impl BgClient {
    pub fn new(shared: Arc<Bg>, mut random: Rng) -> BgClient {
        let (epoch, room) = {
            let run = lock(&shared.run);
            (run.epoch, run.room.clone())
        };
        let choose = Choose::new(shared.mix, random.u64(..));
        // Another is chosen before anything is done.
        let step = Step { action: Action::ViewProfile, member: 0, owner: 0, rid: 0, draw: 0, begins: true };
        let log = Some(Log::new(room));
        BgClient { shared, choose, step, write: None, start_ns: 0, greeted: false, log, epoch }
    }

    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    async fn greet(&mut self, session: &mut Session) -> Result<(), Failure> {
        if let (Session::Resp(client), false) = (session, self.greeted) {
            // Who does not know this is asked no more of.
            client.call(&["CACHE", "BLIND", "ON"]).await?;
        }
        self.greeted = true;
        Ok(())
    }

    async fn attempt(&mut self, session: &mut Session) -> Result<(), Failure> {
        let shared = self.shared.clone();
        let transactions = shared.transactions;
        let saw = match (self.write, session) {
            (None, Session::Resp(client)) => resp::read(client, &self.step, transactions).await?,
            (None, Session::Sql(sql)) => direct::read(sql, &shared.data, &self.step, SHOWN_COUNT).await?,
            (Some(write), Session::Resp(client)) => {
                if !resp::write(client, &shared.data, &write).await? {
                    shared.counts.strange(&write);
                }
                Vec::new()
            }
            (Some(write), Session::Sql(sql)) => {
                direct::write(sql, &shared.data, &write).await?;
                Vec::new()
            }
        };
        let (start_ns, end_ns) = (self.start_ns, self.now_ns());
        if let Some(log) = &mut self.log {
            saw.into_iter().for_each(|(object, seen)| log.read(Read { object, start_ns, end_ns, seen }));
        }
        Ok(())
    }

    /// The write is over; what came of it is known to the graph and the log.
    fn ended(&mut self, fate: Fate) {
        let Some(write) = self.write.take() else { return };
        let end_ns = if fate == Fate::Unknown { u64::MAX } else { self.now_ns() };
        let log = self.log.as_mut().filter(|_| fate != Fate::Failed);
        if let Some(log) = log {
            for (object, element, added) in write.effects() {
                log.update(Update { object, element, added, start_ns: self.start_ns, end_ns });
            }
        }
        self.shared.counts.ended(fate);
        lock(&self.shared.graph).end(write, fate);
    }
}

impl Actor for BgClient {
    fn choose(&mut self) -> &'static str {
        let shared = self.shared.clone();
        self.step = self.choose.next(&shared.data, |member, draw| lock(&shared.graph).friend(member, draw));
        let Step { action, member, draw, rid, .. } = self.step;
        if action.writes() {
            let begun = lock(&shared.graph).begin(action, member, draw, rid);
            if let Err(skipped) = begun {
                shared.counts.skipped(skipped);
            }
            self.write = begun.ok();
        }
        self.start_ns = self.now_ns();
        action.name()
    }

    fn act<'a>(&'a mut self, session: &'a mut Session) -> BoxFuture<'a, Result<Ended, Failure>> {
        Box::pin(async move {
            if self.step.action.writes() && self.write.is_none() {
                return Ok(Ended::Skipped);
            }
            let mut tries = 0;
            let ended = loop {
                tries += 1;
                let attempted = match self.greet(session).await {
                    Ok(()) => {
                        // What was tried before had no effect.
                        self.start_ns = self.now_ns();
                        self.attempt(session).await
                    }
                    // Nothing of the action itself was sent.
                    Err(failure) => Err(Failure { kind: "unreachable".into(), ..failure }),
                };
                match attempted {
                    Err(failure) if in_the_way(&failure) && tries <= RETRIES_MAX => {}
                    ended => break ended,
                }
            };
            self.greeted = !ended.as_ref().is_err_and(|failure| failure.lost);
            self.ended(ended.as_ref().map_or_else(fate, |()| Fate::Applied));
            ended.map(|()| Ended::Done)
        })
    }

    fn lost(&mut self, sent: bool) {
        self.greeted = false;
        self.ended(if sent { Fate::Unknown } else { Fate::Failed });
    }

    fn think(&mut self) -> Duration {
        if self.choose.in_session() { self.shared.think } else { self.shared.pause }
    }

    fn end(&mut self) {
        if let Some(log) = self.log.take() {
            lock(&self.shared.run).logs.push(log);
        }
    }
}

impl Counts {
    fn skipped(&self, why: Skipped) {
        let count = match why {
            Skipped::Busy => &self.busy,
            Skipped::Nothing => &self.nothing,
        };
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    fn ended(&self, fate: Fate) {
        let count = match fate {
            Fate::Applied => &self.applied,
            Fate::Failed => &self.failed,
            Fate::Unknown => &self.unknown,
        };
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    fn strange(&self, write: &Write) {
        self.strange.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        lock(&self.first_strange).get_or_insert_with(|| format!("{write:?} found nothing to remove"));
    }
}
