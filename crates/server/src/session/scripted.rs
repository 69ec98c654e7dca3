//! Scripts, and EXEC with scripts in it: a transaction that goes on step by step, as its script asks.
//!
//! What the script has declared as its keys is locked first, in key order, and loaded together. Other keys are locked
//! as they are met. After a conflict all runs again from nothing, and begins with the locks that the run before has
//! met. So two scripts that meet keys in two orders wait for each other once.
//!
//! **Invariant.** A command in a script does what it would do in EXEC: the same checks, locks, body and savepoint. What
//! ends a run other than by the script's own error, as a conflict does, is never seen by the script.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use forebay::txn::{Ahead, Executed, Plan, PlannedLock, Transaction, TxnError};
use forebay_protocol::{Frame, Reply, errors};
use futures_util::StreamExt;
use futures_util::future::{Either, select};

use super::run::{Called, Step};
use super::script_room::ScriptRoom;
use super::{Answers, Queue, Session, Turns, compare, in_order, planned, rolled_back, script_keys};
use crate::attention::MONITORS;
use crate::command::{Command, Effect, Flag, Run, refused};
use crate::monitor;
use crate::script::{Asked, Limit, Place, Script, start};

/// What is run in one transaction.
#[derive(Clone, Copy)]
pub enum Steps<'a> {
    /// EVAL and its kind by itself.
    Alone(&'static Command, Frame<'a>),
    /// What EXEC runs.
    Queue(&'a Queue),
}

/// A script waits for a place while no other leaves one for as long as so many of those that run may take.
const PLACE_PATIENCE: u64 = 4;

fn gone() -> TxnError {
    TxnError::Conflict("its client has gone while it waited for room".into())
}

/// A script of a request, found before anything is locked.
struct Found {
    script: Arc<Script>,
    only_reads: bool,
}

/// Where a command comes from.
#[derive(Clone, Copy)]
struct Origin {
    /// The key space that it works in.
    space: u8,
    /// A script, not the client itself.
    script: bool,
    /// The script may not write.
    only_reads: bool,
}

/// What ends a run, other than the script.
enum Ended {
    Failed(TxnError),
    /// It came to need more room than it has.
    Outgrown,
}

impl From<TxnError> for Ended {
    fn from(error: TxnError) -> Ended {
        Ended::Failed(error)
    }
}

/// An answer, or with `Err` an error that undoes all; or what ends the run.
type Stepped<T> = Result<Result<T, T>, Ended>;

/// Where scripts run: taken before anything is locked, and given up where a run comes to need more room.
struct Seat {
    room: ScriptRoom,
    place: Arc<Place>,
}

/// One run.
struct Work<'a> {
    transaction: &'a mut Transaction,
    seat: &'a mut Seat,
}

impl Session {
    /// Runs `steps` as one transaction, again after a conflict, and commits it. `plan` has the locks that are known
    /// before.
    pub async fn run_steps(&mut self, plan: &mut Plan, steps: Steps<'_>) -> Result<Executed<Reply>, TxnError> {
        let shared = self.shared.clone();
        let mut seat = self.take_seat(0).await?;
        let mut runs = shared.engine.runs(plan, self.context());
        let mut ahead = Ahead::default();
        let mut unloaded = false;
        loop {
            seat.room.begin(plan);
            let mut transaction = match runs.begin(plan, &mut ahead).await {
                Ok(Ok(transaction)) => transaction,
                Ok(Err(overtaken)) => return Ok(overtaken),
                Err(TxnError::TooLarge(bytes)) if seat.room.can_grow() => {
                    seat = self.change_seat(seat, bytes).await?;
                    continue;
                }
                // What is not known may not be needed: a command that needs it says so.
                Err(TxnError::StoreDown(_)) if !unloaded && plan.watched.is_empty() => {
                    plan.locks.iter_mut().for_each(|lock| lock.load = false);
                    unloaded = true;
                    continue;
                }
                Err(error) if runs.again(&error) => continue,
                Err(error) => return Err(error),
            };
            let space = self.space;
            let work = Work { transaction: &mut transaction, seat: &mut seat };
            let stepped = self.step_through(work, steps).await;
            let (mut locks, held) = (transaction.locks(), seat.room.held_by(&transaction));
            let ended = match stepped {
                Ok(Ok(answer)) => match runs.commit(transaction).await {
                    Ok(committing) => {
                        self.parts.documents = seat.room.into_parts();
                        return Ok(Executed::Done(answer, committing));
                    }
                    Err(error) => Ended::Failed(error),
                },
                Ok(Err(answer)) => return Ok(Executed::Done(answer, runs.roll_back(transaction))),
                Err(ended) => {
                    drop(runs.roll_back(transaction));
                    ended
                }
            };
            self.space = space;
            match ended {
                Ended::Outgrown => seat = self.change_seat(seat, held).await?,
                Ended::Failed(error) if runs.again(&error) => {}
                Ended::Failed(error) => return Err(error),
            }
            if unloaded {
                locks.iter_mut().for_each(|lock| lock.load = false);
            }
            locks.append(&mut plan.locks);
            plan.locks = in_order(locks);
        }
    }

    /// Waits for room of `bytes`, and then for a place. What waits here holds no lock. It waits for as long as scripts
    /// end.
    async fn take_seat(&self, bytes: usize) -> Result<Seat, TxnError> {
        let (shared, limits) = (&self.shared, &self.shared.limits);
        let patience_ms = limits.script_ms_max.saturating_mul(PLACE_PATIENCE);
        let patience = shared.scripts.stand_still(shared.engine.runtime(), Duration::from_millis(patience_ms));
        let seat = pin!(async {
            let room = self.take_script_room(bytes).await?;
            Some(Seat { room, place: Arc::new(shared.scripts.place().await?) })
        });
        let (patience, stopping, gone_away) = (pin!(patience), pin!(shared.stopping.wait()), pin!(self.gone()));
        match select(select(seat, gone_away), select(patience, stopping)).await {
            Either::Left((Either::Left((Some(seat), _)), _)) => Ok(seat),
            Either::Left(_) => Err(gone()),
            Either::Right((Either::Left(_), _)) => {
                let scripts_max = limits.scripts_max;
                Err(TxnError::Conflict(format!("scripts_max {scripts_max}: none of them ended for {patience_ms} ms")))
            }
            Either::Right(_) => Err(TxnError::StoreDown("the server is stopping".into())),
        }
    }

    /// Gives a seat up for one with room for a run that has come to hold so much.
    async fn change_seat(&self, seat: Seat, held: usize) -> Result<Seat, TxnError> {
        let bytes = seat.room.next(held);
        drop(seat);
        self.take_seat(bytes).await
    }

    async fn step_through(&mut self, mut work: Work<'_>, steps: Steps<'_>) -> Stepped<Reply> {
        let queue = match steps {
            Steps::Alone(command, frame) => {
                let space = self.space;
                return self.run_script(&mut work, command, frame, space).await;
            }
            Steps::Queue(queue) => queue,
        };
        let (mut replies, mut answers) = (Vec::with_capacity(queue.commands.len()), Answers::empty());
        let bytes_max = self.shared.limits.client_reply_bytes_max;
        for (n, queued) in queue.commands.iter().enumerate() {
            let (command, frame) = (queued.command, queued.request.frame());
            let answer = match self.guard_queued(command, frame) {
                Err(denied) => Err(denied),
                Ok(()) if command.is(Flag::RunsScript) => {
                    self.run_script(&mut work, command, frame, queued.space).await?
                }
                Ok(()) => match &command.run {
                    Run::Session(body) => Ok(body(self, frame)),
                    _ => {
                        let from = Origin { space: queued.space, script: false, only_reads: false };
                        self.run_step(&mut work, command, frame, from).await?
                    }
                },
            };
            let answer = answer.and_then(|reply| {
                answers.add(&reply);
                match answers.bytes > bytes_max {
                    true => Err(Reply::error(format!("LIMIT client_reply_bytes_max {bytes_max}"))),
                    false => Ok(reply),
                }
            });
            match answer {
                Ok(Reply::Error(error)) | Err(Reply::Error(error)) => {
                    return Ok(Err(rolled_back(n, command, frame, &error)));
                }
                Ok(reply) | Err(reply) => replies.push(reply),
            }
        }
        Ok(Ok(Reply::Array(replies)))
    }

    /// Runs one script within `transaction`.
    async fn run_script(
        &mut self,
        work: &mut Work<'_>,
        command: &Command,
        frame: Frame<'_>,
        space: u8,
    ) -> Stepped<Reply> {
        let found = match self.find_script(command, frame) {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let shared = self.shared.clone();
        let keys = match script_keys(frame) {
            Ok(keys) => keys,
            Err(error) => return Ok(Err(error)),
        };
        let texts = |range: std::ops::Range<usize>| range.map(|at| frame.arg(at).to_vec()).collect::<Vec<_>>();
        let given = (texts(keys.clone()), texts(keys.end..frame.len()));
        let runtime = shared.engine.runtime();
        let (bytes_max, ms_max) = (shared.limits.script_bytes_max, shared.limits.script_ms_max);
        let place = work.seat.place.clone();
        let mut underway = start(runtime, &shared.scripts, place, found.script, given, bytes_max, self.client.id);
        let mut time_up = runtime.sleep(Duration::from_millis(ms_max));
        let mut from = Origin { space, script: true, only_reads: found.only_reads };
        loop {
            let asked = match select(underway.asked.next(), &mut time_up).await {
                Either::Left((asked, _)) => asked,
                Either::Right(_) => {
                    underway.halt.stop(Limit::Time(ms_max));
                    return Ok(Err(Limit::Time(ms_max).reply()));
                }
            };
            match asked {
                Some(Asked::Call(request)) => {
                    let reply = self.call_from_script(work, request.frame(), &mut from).await?;
                    // Who has stopped hears nothing.
                    let _ = underway.told.send(reply);
                }
                Some(Asked::Ended(answer)) => return Ok(answer),
                None => return Ok(Err(Reply::error("ERR the script's thread ended without an answer"))),
            }
        }
    }

    /// The script that a request names or brings, and whether it may write.
    fn find_script(&self, command: &Command, frame: Frame<'_>) -> Result<Found, Reply> {
        let scripts = &self.shared.scripts;
        let script = match command.name.starts_with("evalsha") {
            true => scripts.find(frame.arg(1)).ok_or_else(|| Reply::error(errors::NOSCRIPT))?,
            false => scripts.keep(frame.arg(1)),
        };
        let only_reads = script.only_reads().map_err(Reply::error)? || command.name.ends_with("_ro");
        Ok(Found { script, only_reads })
    }

    /// Serves one command of a script.
    async fn call_from_script(
        &mut self,
        work: &mut Work<'_>,
        frame: Frame<'_>,
        from: &mut Origin,
    ) -> Result<Reply, Ended> {
        let table = &self.shared.table;
        let Some((number, command)) = table.find_numbered(frame.arg(0)) else {
            return Ok(Reply::error("ERR Unknown Redis command called from script"));
        };
        if !command.arity_fits(frame.len()) {
            return Ok(Reply::error("ERR Wrong number of args calling Redis command from script"));
        }
        if let Some(error) = self.refusal_in_script(number, command, frame, *from) {
            return Ok(error);
        }
        if self.shared.attention.get() & MONITORS != 0 {
            let now_ms = self.shared.engine.runtime().now_ms();
            let line = monitor::line(now_ms, from.space, "lua", &self.shared.table, command, frame);
            self.shared.monitors.show(&line, &self.shared.attention);
        }
        if let Run::Session(body) = &command.run {
            // What SELECT changes is the script's.
            let space = std::mem::replace(&mut self.space, from.space);
            let reply = body(self, frame);
            from.space = std::mem::replace(&mut self.space, space);
            return Ok(reply);
        }
        let answer = self.run_step(work, command, frame, *from).await?;
        Ok(answer.unwrap_or_else(|error| error))
    }

    /// Why a script may not use a command, if it may not.
    fn refusal_in_script(
        &mut self,
        number: usize,
        command: &'static Command,
        frame: Frame<'_>,
        from: Origin,
    ) -> Option<Reply> {
        let allowed = command.body().is_some() || matches!(command.name, "ping" | "echo" | "time" | "select");
        if !allowed {
            return Some(Reply::error("ERR This Redis command is not allowed from script"));
        }
        if let Some(too_long) = command.key_too_long(frame) {
            return Some(too_long);
        }
        if let Err(denied) = self.guard_in_script(number, command, frame) {
            return Some(denied);
        }
        if from.only_reads && !matches!(command.effect(frame), None | Some(Effect::Read)) {
            return Some(Reply::error("ERR Write commands are not allowed from read-only scripts."));
        }
        if command.is(Flag::Deletes) {
            return self.refuse_deletion(command, frame, from.space).err();
        }
        None
    }

    fn guard_step(&mut self, command: &'static Command, frame: Frame<'_>, from: Origin) -> Result<(), Reply> {
        match self.shared.table.find_numbered(command.name.as_bytes()) {
            Some((number, _)) if from.script => self.guard_in_script(number, command, frame),
            _ => self.guard_queued(command, frame),
        }
    }

    /// Runs one command on documents as a step of `transaction`: locks and loads what it needs, and what it has changed
    /// before an error is undone.
    async fn run_step(
        &mut self,
        work: &mut Work<'_>,
        command: &'static Command,
        frame: Frame<'_>,
        from: Origin,
    ) -> Stepped<Reply> {
        let (Some(body), Some(effect)) = (command.body(), command.effect(frame)) else {
            return Ok(Err(Reply::error(format!("ERR {} inside MULTI is not allowed", command.name))));
        };
        let mut locks: Vec<PlannedLock> = Vec::new();
        command.each_key(frame, from.space, &mut |key| locks.push(planned(key, effect)));
        let locks = in_order(locks);
        let Work { transaction, seat } = work;
        if let Some(refused) = self.too_wide(transaction.locked_keys() + transaction.unlocked(&locks).count()) {
            return Ok(Err(refused));
        }
        seat.room.note(transaction.unlocked(&locks));
        transaction.set_bytes_max(seat.room.bytes());
        if effect == Effect::Read {
            self.note_reads_of(command, frame, from.space);
        }
        let blind = self.takes_blind(command);
        transaction.set_blind(blind);
        match transaction.prepare_command(&locks, &mut Ahead::default()).await {
            Err(TxnError::TooLarge(_)) if seat.room.can_grow() => return Err(Ended::Outgrown),
            // It is about this command alone.
            Err(error @ (TxnError::TooLarge(_) | TxnError::Refused(_))) => {
                return Ok(Err(refused(&self.shared, &error)));
            }
            prepared => prepared?,
        }
        // It may have waited, and its right be taken meanwhile.
        if self.identity.may_have_changed(&self.shared.access)
            && let Err(denied) = self.guard_step(command, frame, from)
        {
            return Ok(Err(denied));
        }
        transaction.leave_with_large(1).await;
        let (space, chance) = (from.space, self.chance_for(command));
        let step = Step { command, body, frame, space, chance, blind };
        let Called { answer, uncompared, .. } = step.call(transaction, &locks, self.shared.engine.runtime());
        let answer = match answer {
            Ok(reply) if uncompared => Ok(compare(command, frame, reply, Turns::new(self)).await),
            answer => answer,
        };
        if !seat.room.fits(transaction, &self.shared) {
            return Err(Ended::Outgrown);
        }
        if let Err(refused) = self.within_txn_bytes(transaction.documents().held_bytes()) {
            transaction.documents_mut().roll_back();
            return Ok(Err(refused));
        }
        Ok(answer)
    }
}
