//! What one client has said so far, and how its requests are served.
//!
//! Requests come in batches: what the client has sent without waiting. Each is served in order and answered in order;
//! an error stops no other. A read whose keys are all cached is served without a lock and without a wait. At the first
//! request that has to wait, the session looks ahead over the rest of the batch. It has all their missing keys fetched
//! in one store round trip.
//!
//! It knows no socket and no clock: it runs on any [`forebay::runtime::Runtime`].

mod ahead;
mod answers;
mod at_once;
mod attend;
mod blind;
mod compare;
mod fit;
mod hints;
mod identity;
mod multi;
mod open;
mod planned;
mod readers;
mod run;
#[cfg(feature = "lua")]
mod script_room;
#[cfg(feature = "lua")]
mod scripted;
mod tracked;
mod turns;
mod underway;
mod wide;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use forebay::cache::Context;
use forebay::mutation::{self, Fault};
use forebay::txn::{Ahead, Caller, Committing, HeldTurn, PlannedLock};
use forebay_protocol::{Batch, Frame, Protocol, Reply, Request};
use smallvec::SmallVec;

pub use blind::{any_unseen, not_seen, tell_nothing};
pub use compare::{compare, is_no_values};
pub use hints::Hints;
pub use identity::{Identity, reason};
pub use multi::{Multi, Queue, rolled_back};
pub use open::{Deadline, Open};
#[cfg(feature = "lua")]
pub use planned::script_keys;
pub use planned::{for_script, in_order, planned};
#[cfg(feature = "lua")]
pub use scripted::Steps;
pub use tracked::{CHANNEL, Tracked};
pub use turns::Turns;
pub use underway::{Answers, Kept, Parts};

use crate::clients::Client;
use crate::command::{Chance, Command, Effect, Flag, Run};
use crate::crowd::Counted;
use crate::monitor::Monitor;
use crate::outage::Notice;
use crate::replies::{Replies, takes_long};
use crate::state::Shared;
use crate::tally::Pending;
use ahead::{LOOK_UP_FRAMES, LookedUp};
use at_once::Hit;

/// Arguments or commands, and bytes that they or a transaction take, above which a request is wide.
const WIDE_ARGS: usize = 1024;
const WIDE_BYTES: usize = 256 << 10;

/// What an argument in TXN and MULTI costs beside its bytes: a lock, a change, an entry.
const ARG_BYTES_COUNTED: usize = 64;

/// One client's state.
pub struct Session {
    /// What all sessions share.
    pub shared: Arc<Shared>,
    /// What others may know of this client.
    pub client: Arc<Client>,
    /// Who it is.
    pub identity: Identity,
    /// RESP2 until HELLO 3.
    pub protocol: Protocol,
    /// Database, as key space.
    pub space: u8,
    /// MULTI and WATCH.
    pub multi: Multi,
    /// TXN.
    pub open: Open,
    /// Replies on their way out.
    pub replies: Replies,
    /// What of them waits for the client, as all know it.
    pub(crate) counted: Arc<Counted>,
    /// Bytes of a reply that had no room: its request is to be served again.
    unshown: usize,
    /// The request before took long: others have their turn before the next.
    took_long: bool,
    /// Bytes for which it has waited.
    granted: usize,
    /// The client as its transactions know it.
    pub caller: Arc<Caller>,
    /// Hint set of the next command, and of all that name none.
    pub hints: Hints,
    /// CLIENT REPLY.
    pub reply_mode: ReplyMode,
    /// The connection is to be closed once its replies are written.
    pub closing: bool,
    /// A reply that shows a commit, set by the command that just ran.
    pub committing: Option<(Committing, bool)>,
    /// MONITOR: what it is shown, and the request for it, whose permission may end.
    pub monitor: Option<(Arc<Monitor>, Request)>,
    /// What it keeps, as it was counted.
    kept: Kept,
    /// Room beside that of the request at hand.
    pub(crate) parts: Parts,
    /// Its turn to hold much, until the answer to the command that just ran is written down.
    pub(crate) turn: Option<HeldTurn>,
    /// CACHE STRICT.
    pub strict: bool,
    /// CACHE BLIND.
    pub blind: bool,
    /// CACHE NOTIFY.
    pub notice: Option<Arc<Notice>>,
    /// CLIENT TRACKING.
    pub tracked: Option<Box<Tracked>>,
    /// SUBSCRIBE.
    pub subscribed: bool,
    /// Number of the transaction that the batch at hand is, if it only reads and somebody follows transactions.
    batch_txn: u64,
    /// Figures that are not in the server's yet.
    pub pending: Pending,
}

/// Which replies the client wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// All.
    #[default]
    On,
    /// None until it is switched on.
    Off,
    /// Not that of the next command.
    SkipNext,
    /// Not that of the command that runs.
    Skip,
}

impl Session {
    /// A session of a client that has just connected.
    pub fn new(shared: Arc<Shared>, client: Arc<Client>) -> Session {
        let identity = Identity::new(&shared.access);
        let replies = Replies::new(shared.limits.client_reply_bytes_max);
        let counted = Arc::new(Counted::new(shared.clone(), client.clone()));
        let session = Session {
            shared,
            client,
            identity,
            protocol: Protocol::Resp2,
            space: 0,
            multi: Multi::default(),
            open: Open::default(),
            replies,
            counted,
            unshown: 0,
            took_long: false,
            granted: 0,
            caller: Arc::default(),
            hints: Hints::default(),
            reply_mode: ReplyMode::On,
            closing: false,
            committing: None,
            turn: None,
            kept: Kept::default(),
            parts: Parts::default(),
            monitor: None,
            strict: false,
            blind: false,
            notice: None,
            tracked: None,
            subscribed: false,
            batch_txn: 0,
            pending: Pending::default(),
        };
        session.publish_user();
        session
    }

    /// As it was when the client connected.
    pub fn reset(&mut self) {
        self.multi = Multi::default();
        self.open.drop_transaction(&self.shared);
        self.protocol = Protocol::Resp2;
        self.space = 0;
        self.hints = Hints::default();
        self.reply_mode = ReplyMode::On;
        (self.strict, self.blind) = (false, false);
        self.replies.forget_last_write();
        self.stop_monitor();
        self.notify(false);
        self.track(None);
        self.subscribe(false);
        self.shared.leases.leave(self.client.id as u32);
        self.identify(None);
        self.client.names().name.clear();
        self.publish_state();
    }

    /// Serves a batch in order. Afterwards its replies are in [`Session::replies`], some perhaps still to be settled.
    pub async fn serve(&mut self, batch: &Batch) {
        let (away, errors) = (self.shared.modes.is_away(), self.pending.errors_all());
        let (mut away_reads, mut ahead, mut found) = (0, Ahead::default(), LookedUp::new());
        self.begin_batch(batch);
        // When the request before the one at hand was done, if the clock was read then: it need not be read again.
        let mut ended = None;
        for at in 0..batch.len() {
            if !self.may_go_on().await {
                break;
            }
            let began = ended.take();
            let frame = batch.frame(at);
            if at % LOOK_UP_FRAMES == 0 {
                self.look_up(batch, at, &mut found);
            }
            if self.shared.attention.get() != 0 {
                self.replies.lend();
                self.attend(frame).await;
                // Who is sent away while it waits has not asked for what it waits with.
                if self.closing && !mutation::on(Fault::KilledInPauseServed) {
                    break;
                }
                if self.refuses_while_subscribed(frame) {
                    continue;
                }
            }
            let numbered = found[at % LOOK_UP_FRAMES];
            let long = self.is_long_to_accept(frame);
            let accepted = if long { self.accept_aside(frame, numbered).await } else { self.accept(frame, numbered) };
            let command = match accepted {
                Ok(Some(command)) => command,
                Ok(None) => continue,
                Err(error) => {
                    self.refuse(numbered, frame, &error);
                    continue;
                }
            };
            let effect = command.effect(frame);
            let away_read = away && effect == Some(Effect::Read);
            let hit = match self.serve_cached(command, effect, frame) {
                Hit::Long(bytes) => self.serve_long(command, frame, bytes).await,
                hit => hit == Hit::Served,
            };
            if self.unshown > 0 && !self.waits_with_right(command, frame).await {
                continue;
            }
            if hit {
                away_reads += u64::from(away);
                continue;
            }
            if let Some(effect) = effect
                && let Some(now) = self.serve_at_once(command, effect, frame, began)
            {
                ended = Some(now);
                continue;
            }
            if ahead.is_used_up() && batch.len() - at > 1 && self.multi.queue.is_none() {
                self.look_ahead(batch, at, &mut ahead).await;
            }
            let before = self.pending.errors_all();
            self.run_until_shown(command, frame, &mut ahead).await;
            away_reads += u64::from(away_read && self.pending.errors_all() == before);
        }
        self.end_reads();
        if away {
            self.shared.figures.count_away(batch.len(), away_reads, self.pending.errors_all() - errors);
        }
        self.publish_state();
    }

    /// Answers a request that does not run.
    fn refuse(&mut self, found: Option<(usize, &'static Command)>, frame: Frame<'_>, error: &Reply) {
        self.multi.note_unwatched(found.is_some_and(|(_, command)| command.watches(frame)));
        self.answer(error);
    }

    /// Checks what can be checked of a request, whose command was looked up, before it runs. `Ok(None)`: there is
    /// nothing to run now, since it was queued in MULTI, or is a web page's.
    fn accept(
        &mut self,
        frame: Frame<'_>,
        numbered: Option<(usize, &'static Command)>,
    ) -> Result<Option<&'static Command>, Reply> {
        let Some((number, command)) = numbered else { return self.accept_unknown(frame) };
        self.pending.call(number, &self.shared.tally);
        if let Some(refused) = self.unfit(command, frame) {
            self.multi.doom();
            return Err(refused);
        }
        if self.identity.is_guarded(&self.shared.access) {
            self.guard(number, command, frame).inspect_err(|_| self.multi.doom())?;
        }
        if self.shared.engine.store().fenced().is_some() && command.needs_owner(frame) {
            return Err(self.fenced(command));
        }
        self.open.look_for_wound(&self.shared);
        if let Some(reason) = self.open.aborted()
            && !command.is(Flag::InAborted)
        {
            return Err(Reply::error(format!("TXABORTED {reason}")));
        }
        if self.open.is_open() && command.is(Flag::NotInTxn) {
            let name = command.name.to_ascii_uppercase();
            return Err(Reply::error(format!("ERR {name} inside TXN is not allowed")));
        }
        if command.is(Flag::Deletes) {
            let space = self.multi.queue.as_ref().map_or(self.space, |queue| queue.space);
            self.refuse_deletion(command, frame, space).inspect_err(|_| self.multi.doom())?;
        }
        if self.multi.queue.is_some() && !command.is(Flag::NotQueued) {
            if command.is(Flag::NotInMulti) {
                self.multi.doom();
                // Redis refuses this one too.
                if command.name == "shutdown" {
                    return Err(Reply::error("ERR Command not allowed inside a transaction"));
                }
                let name = command.name.to_ascii_uppercase();
                return Err(Reply::error(format!("ERR {name} inside MULTI is not allowed")));
            }
            self.multi.push(command, frame, &self.shared.limits)?;
            self.answer(&Reply::Simple("QUEUED".into()));
            return Ok(None);
        }
        Ok(Some(command))
    }

    /// The answer to what only the store's owner may answer, since another has it; what is open here ends.
    fn fenced(&mut self, command: &Command) -> Reply {
        let why = self.shared.engine.store().fenced().unwrap_or_default().to_owned();
        match command.name {
            "exec" => self.multi = Multi::default(),
            _ => self.multi.doom(),
        }
        self.open.abort(&why, &self.shared);
        Reply::error(format!("NOTOWNER {why}"))
    }

    /// Whether an earlier commit of this connection is not published, so that only a read under locks sees it.
    pub fn unsettled(&self) -> bool {
        self.replies.unsettled() && !mutation::on(Fault::PipelinedReadOvertakes)
    }

    /// The client, for a wait for locks that is to end when it has gone. One that waits for its own commits, which go
    /// on without it, may just have said that it sends nothing more: its requests are served as they came.
    pub fn waiting_client(&self) -> Option<Arc<Caller>> {
        (!self.replies.unsettled()).then(|| self.caller.clone())
    }

    fn locks_of(&self, command: &Command, effect: Effect, frame: Frame<'_>) -> SmallVec<[PlannedLock; 2]> {
        let mut locks = SmallVec::new();
        match command.only_key(frame, self.space) {
            Some(key) => locks.push(planned(key, effect)),
            None => command.each_key(frame, self.space, &mut |key| locks.push(planned(key, effect))),
        }
        locks
    }

    /// Runs one command, waiting where it has to.
    async fn run(&mut self, command: &'static Command, frame: Frame<'_>, ahead: &mut Ahead) {
        let began = self.shared.engine.runtime().elapsed();
        self.client.command.store(self.pending.number(), Ordering::Relaxed);
        if !matches!(command.run, Run::Session(_)) {
            self.replies.lend();
        }
        let Ok(part) = self.take_part(command, frame).await else { return };
        let reply = match command.run {
            Run::Session(body) => body(self, frame),
            Run::Engine(body) | Run::Cached(_, body) => {
                let reply = body(self, frame).await;
                self.multi.note_unwatched(reply.is_error() && command.watches(frame));
                reply
            }
            Run::Documents(_, body) if self.is_wide(command, frame) => self.run_wide(command, body, frame, true).await,
            Run::Documents(_, body) | Run::Varying(_, body) => {
                let effect = command.effect(frame).unwrap_or(Effect::ReadWrite);
                // Before anything is made of the keys: to make the locks of a million of them takes 100 MiB.
                if let Some(refused) = self.too_wide(command.keys_of(frame)) {
                    self.hints.used();
                    return self.answer(&refused);
                }
                let locks = self.locks_of(command, effect, frame);
                match self.open.is_open() {
                    true => self.run_in_open(&locks, command, body, frame, ahead).await,
                    false => match self.run_alone(locks.into_vec(), command, body, frame, ahead).await {
                        Ok(reply) => reply,
                        Err(_) => self.run_wide(command, body, frame, false).await,
                    },
                }
            }
        };
        self.give_back(part).await;
        if !self.has_room_for(&reply) {
            if self.forgets(command, frame) {
                return;
            }
            self.wait_for_reader().await;
        }
        self.hints.used();
        self.time(command, frame, began);
        if takes_long(&reply) {
            let runtime = self.shared.engine.runtime().clone();
            runtime.leave().await;
            return runtime.aside(|| self.answer_as_done(reply));
        }
        self.answer_as_done(reply);
    }

    /// What the policy is told with the reads of the next command.
    pub fn context(&self) -> Context {
        let hints = self.hints.now();
        Context { client: self.client.id as u32, hints, txn: self.batch_txn, ..Context::default() }
    }

    /// A random number for a command that chooses at random.
    pub fn chance_for(&self, command: &Command) -> Chance {
        match command.is(Flag::Random) {
            true => Chance::new(self.shared.engine.runtime().random(), &self.shared.limits),
            false => Chance::NONE,
        }
    }

    /// When the open transaction, if there is one, is to be rolled back if its client says nothing.
    pub fn deadline(&self) -> Option<Deadline> {
        self.open.deadline(self.shared.engine.limits())
    }

    /// Rolls the open transaction back if its time is up.
    pub fn expire(&mut self, elapsed: Duration) {
        if let Some(deadline) = self.deadline().filter(|deadline| deadline.at <= elapsed) {
            self.roll_back(deadline.reason);
        }
    }

    /// Rolls the open transaction back; the client's next command is told why.
    fn roll_back(&mut self, reason: &str) {
        self.open.abort(reason, &self.shared);
        self.publish_state();
    }

    /// The client says nothing more: what it holds is given up, though its last replies are still on their way.
    pub fn leave(&mut self) {
        self.multi = Multi::default();
        self.open.drop_transaction(&self.shared);
        self.publish_state();
    }

    /// Tells others what CLIENT LIST and the figures show.
    pub fn publish_state(&mut self) {
        self.pending.flush(&self.shared.tally);
        let client = &self.client;
        client.command.store(self.pending.number(), Ordering::Relaxed);
        client.space.store(u64::from(self.space), Ordering::Relaxed);
        client.protocol.store(self.protocol.number() as u64, Ordering::Relaxed);
        let queued = self.multi.queue.as_ref().map_or(0, |queue| queue.commands.len() as u64 + 1);
        client.multi.store(queued, Ordering::Relaxed);
        client.watched.store(self.multi.watched.len() as u64, Ordering::Relaxed);
        client.in_txn.store(self.open.is_open(), Ordering::Relaxed);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.settle_kept(0);
        self.end_reads();
        self.stop_monitor();
        self.notify(false);
        self.subscribe(false);
        self.shared.trackers.leave(&self.client, &self.shared.attention);
        self.shared.leases.leave(self.client.id as u32);
        self.pending.flush(&self.shared.tally);
        self.open.drop_transaction(&self.shared);
    }
}
