//! A command that reads a great many keys: in slices, so that its memory does not grow with their number and others get
//! their turn, and all the same at one moment.
//!
//! Each slice is one transaction, with its locks and its wait for publication. What it saw of each key, its version and
//! whether it was there, goes into the fingerprint of the round. All slices are read over and over until one round sees
//! what the round before saw. Versions are never used again, and a document that has expired does not come back without
//! a new one. So no key has changed from the end of the first of these two rounds to the begin of the second. The
//! answer is that of any moment between them.
//!
//! **A wide read waits for the writers that came before it, and for no later ones.** A slice that had to wait for a
//! lock would stand behind all writers that want its keys by then, and so would the next slice. So slices wait for no
//! lock at first. Where one would have to, or two rounds differ, all keys are locked in their order, as writers lock
//! them. So those that come later stand behind it from its first key on. If that would take too much memory, slices
//! wait for their locks, in [`ROUNDS_MAX`] rounds at most.

use std::hash::{DefaultHasher, Hash, Hasher};

use forebay::Version;
use forebay::cache::LOOK_KEYS_MAX;
use forebay::key::KeyRef;
use forebay::mutation::{self, Fault};
use forebay::runtime::yield_now;
use forebay::txn::{Ahead, Documents, Executed, Plan, TxnError};
use forebay_protocol::{Frame, Reply};

use super::{Session, in_order, planned};
use crate::command::{Answer, Call, Command, Effect, Flag, Known, refused};

/// Rounds in which no slice waits, until all keys are locked.
const ROUNDS_BEFORE_LOCKS: usize = 2;

/// Rounds of what is too much to be locked at once.
const ROUNDS_MAX: usize = 6;

/// A slice has one so-manyth of what a command may load.
const SLICES: usize = 4;

/// Bytes of an answer with which a request goes on only in its turn.
const TURNLESS_BYTES_MAX: usize = 1 << 20;

/// Of each key of a slice its version, and whether it was there.
type Seen = Vec<(Option<Version>, bool)>;

/// What the slices have answered so far, as one answer.
#[derive(Default)]
enum Joined {
    #[default]
    Nothing,
    Sum(i64),
    List(Vec<Reply>),
}

impl Joined {
    fn add(&mut self, part: Reply) {
        match (&mut *self, part) {
            (Joined::Sum(sum), Reply::Integer(number)) => *sum += number,
            (Joined::List(list), Reply::Array(more)) => list.extend(more),
            (joined, Reply::Integer(number)) => *joined = Joined::Sum(number),
            (joined, Reply::Array(list)) => *joined = Joined::List(list),
            (_, other) => debug_assert!(false, "{other:?} is no part of an answer"),
        }
    }

    fn reply(self) -> Reply {
        match self {
            Joined::Nothing => Reply::Nil,
            Joined::Sum(sum) => Reply::Integer(sum),
            Joined::List(list) => Reply::Array(list),
        }
    }
}

impl Session {
    /// Whether a request is served in slices.
    pub(super) fn is_wide(&self, command: &Command, frame: Frame<'_>) -> bool {
        frame.len() > LOOK_KEYS_MAX + 1 && command.is(Flag::InParts) && !self.open.is_open()
    }

    /// Serves it. The key arguments of such a command are all of its arguments. `fits`: whether its documents may be
    /// read at once, as far as is known.
    ///
    /// Answers that come to much are made one at a time. The session whose turn it is may wait for locks, and for a
    /// turn of the engine: nobody that has either waits for this turn.
    ///
    /// **Invariant.** Who waits for this turn holds no part of an answer. An answer may be a copy of its documents, as
    /// the objects of mapped rows are. So all that wait would hold as much as they read.
    pub(super) async fn run_wide(
        &mut self,
        command: &'static Command,
        body: fn(&mut Call<'_>) -> Answer,
        frame: Frame<'_>,
        fits: bool,
    ) -> Reply {
        if !fits && !command.is(Flag::TellsNothing) {
            // Its first slice would be for nothing.
            self.turn = None;
            self.turn = Some(self.shared.crowd.wide.take().await);
        }
        let reply = self.read_wide(command, body, frame, fits).await;
        match self.identity.may_have_changed(&self.shared.access) {
            true => self.guard_again(command, frame).err().unwrap_or(reply),
            false => reply,
        }
    }

    async fn read_wide(
        &mut self,
        command: &'static Command,
        body: fn(&mut Call<'_>) -> Answer,
        frame: Frame<'_>,
        fits: bool,
    ) -> Reply {
        if fits && self.too_wide(frame.len()).is_none() {
            if let Some(reply) = self.rounds(command, body, frame, true).await {
                return reply;
            }
            let locks = self.locks_of(command, Effect::Read, frame).into_vec();
            match self.run_alone(locks, command, body, frame, &mut Ahead::default()).await {
                Err(TxnError::TooLarge(_)) => {}
                answer => return answer.unwrap_or_else(|error| refused(&self.shared, &error)),
            }
        }
        if let Some(reply) = self.rounds(command, body, frame, false).await {
            return reply;
        }
        if let Some(too_wide) = self.too_wide(frame.len()) {
            return too_wide;
        }
        let locks = self.locks_of(command, Effect::Read, frame).into_vec();
        let answer = self.run_alone(locks, command, body, frame, &mut Ahead::default()).await;
        answer.unwrap_or_else(|error| refused(&self.shared, &error))
    }

    /// Reads all slices until two rounds see the same; `None` if none do. With `no_wait` also where a key is locked.
    async fn rounds(
        &mut self,
        command: &'static Command,
        body: fn(&mut Call<'_>) -> Answer,
        frame: Frame<'_>,
        no_wait: bool,
    ) -> Option<Reply> {
        let mut before = None;
        for _ in 0..if no_wait { ROUNDS_BEFORE_LOCKS } else { ROUNDS_MAX } {
            match self.round(command, body, frame, no_wait).await {
                Ok(None) => return None,
                Ok(Some((reply, seen))) if before == Some(seen) || mutation::on(Fault::WideReadOnce) => {
                    return Some(reply);
                }
                Ok(Some((_, seen))) => before = Some(seen),
                Err(reply) => return Some(reply),
            }
        }
        None
    }

    /// Reads all slices once; the answer of all, and the fingerprint of what was seen. It does not hang on where one
    /// slice ends: those whose documents are large have fewer keys. `None` if a slice is not to wait and would have to.
    async fn round(
        &mut self,
        command: &'static Command,
        body: fn(&mut Call<'_>) -> Answer,
        frame: Frame<'_>,
        no_wait: bool,
    ) -> Result<Option<(Reply, u64)>, Reply> {
        let (mut spans, mut hasher) = (Vec::new(), DefaultHasher::new());
        let (mut joined, mut bytes) = (Joined::default(), 0);
        let bytes_max = self.shared.limits.client_reply_bytes_max;
        let (mut begin, mut keys) = (1, LOOK_KEYS_MAX);
        while begin < frame.len() {
            let end = frame.len().min(begin + keys);
            let sliced = self.slice(command, body, frame.part(begin..end, &mut spans), no_wait).await;
            let (part, seen) = match sliced {
                Err(TxnError::TooLarge(_)) if end - begin > 1 => {
                    keys = (end - begin).div_ceil(2);
                    continue;
                }
                Err(TxnError::Conflict(_)) if no_wait => return Ok(None),
                sliced => sliced.map_err(|error| refused(&self.shared, &error))?,
            };
            seen.iter().for_each(|key| key.hash(&mut hasher));
            (begin, keys) = (end, (keys + keys.div_ceil(8)).min(LOOK_KEYS_MAX));
            let part = part?;
            // As it waits to be written, and as it is written: whichever is more.
            let listed = if let Reply::Array(list) = &part { size_of_val(list.as_slice()) } else { 0 };
            bytes += part.encoded_bytes_max().max(listed);
            if bytes > bytes_max {
                return Err(Reply::error(format!("LIMIT client_reply_bytes_max {bytes_max}")));
            }
            if bytes > TURNLESS_BYTES_MAX && self.turn.is_none() {
                self.turn = self.shared.crowd.wide.try_take(bytes, 0);
            }
            if bytes > TURNLESS_BYTES_MAX && self.turn.is_none() {
                // Who waits holds neither locks nor answers: it begins again in its turn.
                drop((part, std::mem::take(&mut joined)));
                self.turn = Some(self.shared.crowd.wide.take().await);
                (begin, bytes, hasher) = (1, 0, DefaultHasher::new());
                continue;
            }
            joined.add(part);
            yield_now().await;
        }
        Ok(Some((joined.reply(), hasher.finish())))
    }

    /// One slice, published.
    async fn slice(
        &self,
        command: &Command,
        body: fn(&mut Call<'_>) -> Answer,
        frame: Frame<'_>,
        no_wait: bool,
    ) -> Result<(Answer, Seen), TxnError> {
        let space = self.space;
        let keys = || frame.args().skip(1).map(move |name| KeyRef { space, name });
        let locks = in_order(keys().map(|key| planned(key, Effect::Read)).collect());
        let caller = self.waiting_client();
        let bytes_max = Some(self.documents_max(command) / SLICES);
        let name = command.name;
        let plan = Plan { locks, strict: self.strict, name, no_wait, caller, bytes_max, ..Plan::default() };
        let read = |documents: &mut Documents| {
            let present = |key| documents.value(key).is_ok_and(|value| value.is_some());
            let seen = keys().map(|key| (documents.version(key), present(key))).collect();
            let known = Known::Documents(documents);
            Ok((body(&mut Call::new(frame, space, known)), seen))
        };
        let engine = &self.shared.engine;
        match engine.execute(&plan, self.context(), &mut Ahead::default(), read).await? {
            Executed::Done(read, committing) => committing.wait().await.map(|_| read),
            // It watches nothing.
            Executed::WatchFailed | Executed::Stale(_) => Ok((Err(Reply::NilArray), Seen::new())),
        }
    }
}
