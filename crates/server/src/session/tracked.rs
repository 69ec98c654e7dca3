//! A session that tracks: it notes what it is about to read, and sends what it is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use forebay::key::KeyRef;
use forebay::mutation::{self, Fault};
use forebay_protocol::{Frame, Protocol, Reply};

use super::Session;
use super::at_once::{Hit, ITEMS_BYTES_UNCOUNTED};
use super::multi::Queue;
use crate::access::user::User;
use crate::command::{Command, Effect, Flag};
use crate::tracking::{PUSHES_BYTES_MAX, Reader, Tracker, Waiting};

/// The channel on which clients of RESP2 are told.
pub const CHANNEL: &str = "__redis__:invalidate";

/// What CLIENT TRACKING has said, and CLIENT CACHING.
#[derive(Default)]
pub struct Tracked {
    /// Who is told in its place: the id of another client, or 0.
    pub redirect: u64,
    /// That client is gone.
    pub bereft: bool,
    /// Nothing is noted; changes are told by prefixes.
    pub broadcast: bool,
    /// Of what those keys begin with; the empty one is of all keys.
    pub prefixes: Vec<Box<[u8]>>,
    /// Only reads behind CLIENT CACHING YES are noted.
    pub opt_in: bool,
    /// All but those behind CLIENT CACHING NO.
    pub opt_out: bool,
    /// It is not told of its own writes.
    pub noloop: bool,
    /// CLIENT CACHING was said for the next command.
    pub caching: bool,
    /// What the request that is served reads is noted, a script of it too.
    noting: bool,
    /// Its user as it was when it tracked first, or was told last that everything may have changed.
    pub user: Option<Arc<User>>,
    /// Bytes that the prefixes take, here and with the trackers.
    pub held_bytes: usize,
}

impl Tracked {
    /// Whether what the next command reads is noted.
    fn notes(&self) -> bool {
        !self.broadcast && if self.opt_in { self.caching } else { !(self.opt_out && self.caching) }
    }
}

impl Session {
    /// Tracks from now on as `tracked` says; `None`: no more.
    pub fn track(&mut self, tracked: Option<Tracked>) {
        let shared = self.shared.clone();
        match &tracked {
            Some(tracked) => {
                let target = (tracked.redirect != 0).then(|| shared.clients.find(tracked.redirect)).flatten();
                let prefixes = tracked.broadcast.then(|| tracked.prefixes.clone());
                let (client, noloop) = (self.client.clone(), tracked.noloop);
                shared.trackers.start(Tracker { client, target, noloop, prefixes }, &shared.attention);
            }
            None if self.tracked.is_some() => shared.trackers.stop(self.client.id, &shared.attention),
            None => {}
        }
        let before = self.tracked.take().and_then(|before| before.user);
        self.tracked = tracked.map(Box::new);
        if let Some(tracked) = self.tracked.as_mut() {
            tracked.user = Some(before.unwrap_or_else(|| self.identity.user().clone()));
        }
        self.show_tracking();
    }

    /// Has CLIENT LIST say how it tracks.
    fn show_tracking(&self) {
        let (shown, tracked) = (&self.client.tracking, self.tracked.as_deref());
        let is = |which: fn(&Tracked) -> bool| tracked.is_some_and(which);
        shown.redirect.store(tracked.map_or(-1, |tracked| tracked.redirect as i64), Ordering::Relaxed);
        shown.bereft.store(is(|tracked| tracked.bereft), Ordering::Relaxed);
        shown.broadcast.store(is(|tracked| tracked.broadcast), Ordering::Relaxed);
        shown.subscribed.store(self.subscribed, Ordering::Relaxed);
    }

    /// Is told on the channel for RESP2 from now on, or no more.
    pub fn subscribe(&mut self, on: bool) {
        if self.subscribed != on {
            self.subscribed = on;
            self.shared.trackers.subscribe(on, &self.shared.attention);
            self.show_tracking();
        }
    }

    /// Before a request: notes what it is about to read.
    pub(super) fn note_reads(&mut self, command: &Command, frame: Frame<'_>) {
        let Some(tracked) = self.tracked.as_deref_mut() else { return };
        tracked.noting = tracked.notes();
        let queued = self.multi.queue.as_ref();
        let (notes, id, trackers) = (tracked.notes(), self.client.id, &self.shared.trackers);
        match queued {
            Some(queue) if command.name == "exec" && notes => {
                for (key, own) in reads_of(queue) {
                    trackers.note(key, Reader { id, own });
                }
            }
            None if notes => {
                let own = self.open.is_open();
                note(command, frame, self.space, |key| trackers.note(key, Reader { id, own }));
            }
            _ => {}
        }
        self.end_caching(command.name);
    }

    /// A command of this name was the next after CLIENT CACHING, refused or not: the one after it is not.
    pub(super) fn end_caching(&mut self, name: &str) {
        let ends = matches!(name, "exec" | "discard");
        if let Some(tracked) = self.tracked.as_deref_mut()
            && !matches!(name, "client" | "multi")
            && (ends || self.multi.queue.is_none())
        {
            tracked.caching = false;
        }
    }

    /// Before a command of a script: notes what it is about to read in a key space.
    #[cfg(feature = "lua")]
    pub(super) fn note_reads_of(&self, command: &Command, frame: Frame<'_>, space: u8) {
        if self.tracked.as_deref().is_some_and(|tracked| tracked.noting) {
            let reader = Reader { id: self.client.id, own: true };
            note(command, frame, space, |key| self.shared.trackers.note(key, reader));
        }
    }

    /// Whether there is something that the client is to be told, and room for it among its replies. As long as it does
    /// not read, what it is to be told waits where that is bounded.
    pub fn has_pushes(&self) -> bool {
        self.client.pushes.is_some() && (self.replies.bytes() <= PUSHES_BYTES_MAX || mutation::on(Fault::PushedUnread))
    }

    /// Sends what the client is to be told, behind all replies that were made before.
    pub fn take_pushes(&mut self) {
        if !self.has_pushes() {
            return;
        }
        // Between requests nothing else looks whether its rights have changed.
        if !mutation::on(Fault::ToldByOldRights) {
            self.look_again();
        }
        let Waiting { everything, keys, broadcast, bereft, .. } = self.client.pushes.take();
        for id in bereft {
            self.lose(id);
        }
        if self.protocol == Protocol::Resp2 && !self.subscribed {
            return;
        }
        let mut unnamed = everything;
        let noted = keys.into_iter().map(|key| (true, vec![key]));
        for (noted, keys) in noted.chain(broadcast.into_values().map(|keys| (false, keys))) {
            // It may be noted for another client, whose user may read what this one's may not.
            let (may, may_not): (Vec<_>, Vec<_>) = keys.iter().partition(|key| self.identity.may_read(key));
            if !may.is_empty() {
                self.tell(Some(may.into_iter().map(|key| Reply::Bulk(key.name().into())).collect()));
            }
            // What was noted it has read, when it had the right to. With BCAST it may have read it by other rights.
            unnamed |= !may_not.is_empty() && (noted || self.is_told_for_others() || self.has_other_rights());
        }
        if unnamed {
            self.tell(None);
            let user = self.identity.user().clone();
            self.tracked.as_mut().into_iter().for_each(|tracked| tracked.user = Some(user.clone()));
        }
    }

    /// Whether what it may not read may be in the hands of others, for which it is told.
    fn is_told_for_others(&self) -> bool {
        self.tracked.as_ref().is_none_or(|tracked| tracked.redirect != 0) || self.subscribed
    }

    /// Whether its rights are others than when it kept nothing, or was last told to forget what it keeps. What it has
    /// read since then it may read still, unless they are.
    fn has_other_rights(&self) -> bool {
        let then = self.tracked.as_ref().and_then(|tracked| tracked.user.as_ref());
        then.is_some_and(|then| !Arc::ptr_eq(then, self.identity.user()))
    }

    fn tell(&mut self, names: Option<Vec<Reply>>) {
        let names = names.map_or(Reply::NilArray, Reply::Array);
        let message = match self.protocol {
            Protocol::Resp3 => Reply::Push(vec![Reply::Text("invalidate".into()), names]),
            Protocol::Resp2 => Reply::Array(vec![Reply::Text("message".into()), Reply::Text(CHANNEL.into()), names]),
        };
        self.replies.push(&message, self.protocol);
    }

    /// The client that was told in its place is gone.
    fn lose(&mut self, id: u64) {
        let Some(tracked) = self.tracked.as_mut().filter(|tracked| tracked.redirect == id) else { return };
        tracked.bereft = true;
        if self.protocol == Protocol::Resp3 {
            let broken = vec![Reply::Text("tracking-redir-broken".into()), Reply::Integer(id as i64)];
            self.replies.push(&Reply::Push(broken), self.protocol);
        }
        self.show_tracking();
    }

    /// Serves a read whose keys are all cached: what it reads is noted.
    #[inline]
    pub(super) fn serve_noted(&mut self, command: &'static Command, frame: Frame<'_>) -> Hit {
        let hit = self.serve_published(command, frame, ITEMS_BYTES_UNCOUNTED);
        if mutation::on(Fault::NotedAfterRead) {
            mutation::interleave();
            self.note_reads(command, frame);
        }
        hit
    }

    /// Refuses what a subscribed client of RESP2 may not ask; whether it does.
    pub(super) fn refuses_while_subscribed(&mut self, frame: Frame<'_>) -> bool {
        let may = [&b"subscribe"[..], b"unsubscribe", b"ping", b"quit", b"reset"];
        let name = frame.arg(0);
        let refused = self.subscribed
            && self.protocol == Protocol::Resp2
            && !may.iter().any(|may| name.eq_ignore_ascii_case(may));
        if refused {
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            self.answer(&Reply::error(format!(
                "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed \
                 in this context"
            )));
        }
        refused
    }
}

/// The keys that queued commands read, and whether they may have written each before it was read last. What may write
/// it after that may do nothing, so it does not count.
fn reads_of(queue: &Queue) -> BTreeMap<KeyRef<'_>, bool> {
    let (mut reads, mut written) = (BTreeMap::new(), BTreeSet::new());
    for queued in &queue.commands {
        let frame = queued.request.frame();
        note(queued.command, frame, queued.space, |key| _ = reads.insert(key, written.contains(&key)));
        if queued.command.effect(frame).is_some_and(|effect| effect != Effect::Read) {
            queued.command.each_key(frame, queued.space, &mut |key| _ = written.insert(key));
        }
        // What a script writes, it says by its keys at most.
        if queued.command.is(Flag::RunsScript) {
            queued.command.each_key(frame, queued.space, &mut |key| _ = written.insert(key));
        }
    }
    reads
}

/// Tells `note` each key that `command` only reads.
fn note<'a>(command: &Command, frame: Frame<'a>, space: u8, mut note: impl FnMut(KeyRef<'a>)) {
    let reads = command.effect(frame) == Some(Effect::Read) || command.name == "lease";
    if reads && command.arity_fits(frame.len()) {
        command.each_key(frame, space, &mut |key| note(key));
    }
}
