//! What a session takes for a wide request, and what it keeps: counted before it is made, not after it.

use std::pin::pin;
use std::sync::atomic::Ordering;

use forebay::cache::Lent;
use forebay::key::Key;
use forebay::mutation::{self, Fault};
use forebay::runtime::yield_now;
use forebay_protocol::{Frame, Reply};
use futures_util::future::{Either, select};

use super::Session;
use crate::command::{Command, Flag, Run};
use crate::connection::amounts::{HELD_BYTES_MIN, SMALL_HOLDERS_PART};
use crate::replies::LARGE_BYTES;
use crate::room::Beside;
use crate::underway::{Part, Underway};

/// What a key takes while a plain command or EXEC that locks it runs: its lock, its document, its write.
const KEY_BYTES: usize = 1024;

/// Of a key's name so much is in [`KEY_BYTES`]. The rest is there for its lock, for its load, in what the store is
/// asked, and with what is cached of it.
const NAME_BYTES: usize = 64;
pub(super) const NAME_COPIES: usize = 4;

/// What any other argument takes beside its bytes: an element, its change, its place in a collection.
const ELEMENT_BYTES: usize = 128;

/// A request that takes less never waits for others.
const SHORT_BYTES_MAX: usize = 32 << 10;

/// A request that takes so much leaves less room for large requests that are not complete.
const NOTED_BYTES_MIN: usize = 1 << 20;

/// What a key takes that is fetched ahead of its request, and how many may be fetched without room.
const AHEAD_KEY_BYTES: usize = 512;
const AHEAD_KEYS_MIN: usize = 32;
const AHEAD_BYTES_MIN: usize = AHEAD_KEYS_MIN * AHEAD_KEY_BYTES;

/// What TXN takes for a key that it has locked, and WATCH for one that it remembers.
pub(super) const KEPT_KEY_BYTES: usize = 768;
const WATCHED_KEY_BYTES: usize = 384;

/// A batch may keep so much more before it is counted: to count what each small command keeps costs more than it takes.
const UNCOUNTED_BYTES_MAX: usize = 4 << 10;

/// What the answers of a script take: places of their items until they are encoded, and bytes as they are sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answers {
    /// Bytes of the places.
    pub items: usize,
    /// Bytes that are sent, at most.
    pub bytes: usize,
}

impl Answers {
    /// What a script is answered without room.
    pub const SMALL: Answers = Answers { items: 32 << 10, bytes: LARGE_BYTES };

    /// Of an empty script.
    pub fn empty() -> Answers {
        Answers { items: 0, bytes: Reply::Array(Vec::new()).encoded_bytes_max() }
    }

    /// One answer more.
    pub fn add(&mut self, reply: &Reply) {
        self.items += reply.items_bytes();
        self.bytes += reply.encoded_bytes_max();
    }

    /// Whether it is more than `room`.
    pub fn exceeds(&self, room: Answers) -> bool {
        (self.items > room.items || self.bytes > room.bytes) && !mutation::on(Fault::ScriptAnswersUncounted)
    }
}

/// Room that a session has beside that of the request at hand.
#[derive(Default)]
pub struct Parts {
    /// For what was fetched ahead.
    pub ahead: Option<Part>,
    /// For the items of a script's answers.
    pub script: Option<Part>,
    /// For the documents of a script, until what it has written is published.
    pub documents: Option<(Part, Lent, Beside)>,
    /// What the answers of the script at hand may take.
    pub answers: Answers,
    /// What they take, if that was more: nothing of the script was done.
    pub over: Option<Answers>,
    /// How often the request at hand was forgotten since its reply had no room.
    pub forgotten: u32,
}

impl Parts {
    /// What a reply of so many bytes asks for. Others may make it longer until it is made again: so each time it asks
    /// for about twice as much more as the time before, and has room in the end.
    pub(super) fn room_for(&self, bytes: usize) -> usize {
        bytes.saturating_add((bytes / 8).saturating_mul((1 << self.forgotten.min(16)) - 1))
    }
}

/// What a session keeps, as it was counted.
#[derive(Default)]
pub struct Kept {
    /// In what the connection counts.
    settled: usize,
    /// Beside that, since the batch at hand began.
    grown: usize,
}

/// What a wide request has while it runs.
pub(super) struct Wide {
    _part: Part,
    _lent: Lent,
    /// If it takes much, large requests are read with less room while it runs.
    _beside: Option<Beside>,
}

/// The client of a request that would have to wait for room sends nothing more.
pub(super) struct Gone;

impl Session {
    /// Waits until there is room for what a wide request takes while it runs, and has the cache make way for it. An
    /// error, which is answered, if its client has ended and it would have to wait.
    pub(super) async fn take_part(&mut self, command: &Command, frame: Frame<'_>) -> Result<Option<Wide>, Gone> {
        let bytes = self.width(command, frame);
        if bytes <= SHORT_BYTES_MAX {
            return Ok(None);
        }
        let (room, most) = (&self.shared.room, self.shared.limits.underway_bytes_max);
        let free = if room.is_busy() { None } else { room.underway.try_take(bytes, most) };
        let part = match free {
            Some(part) => part,
            None => match self.wait_for_part(&room.underway, bytes, most).await {
                Some(part) => part,
                None => {
                    self.hints.used();
                    self.multi.not_run(command, frame);
                    self.answer(&Reply::error("TXCONFLICT its client has gone while it waited for room"));
                    return Err(Gone);
                }
            },
        };
        let lent = self.shared.engine.cache().lend_while(bytes);
        let beside = (bytes >= NOTED_BYTES_MIN).then(|| Beside::new(self.shared.clone(), bytes));
        Ok(Some(Wide { _part: part, _lent: lent, _beside: beside }))
    }

    /// A part of `room`, in its turn; `None` if its client has ended before.
    pub(super) async fn wait_for_part(&self, room: &Underway, bytes: usize, most: usize) -> Option<Part> {
        // The connection looks whether its client has ended.
        yield_now().await;
        match select(pin!(self.gone()), pin!(room.take(bytes, most))).await {
            Either::Left(_) => None,
            Either::Right((part, _)) => Some(part),
        }
    }

    /// Done when the client has ended, if its requests are not to be served then.
    pub(super) async fn gone(&self) {
        match self.waiting_client().filter(|_| !mutation::on(Fault::RoomOutlivesClient)) {
            Some(caller) => caller.gone().await,
            None => std::future::pending().await,
        }
    }

    /// Takes room for the items of a script's answers, which it `needs` if it had none. It holds no lock here. An
    /// error if its client has ended and it would have to wait.
    pub async fn take_answers(&mut self, needs: Option<Answers>) -> Result<(), Reply> {
        self.parts.answers = Answers::SMALL;
        let Some(needs) = needs else { return Ok(()) };
        let (room, most) = (&self.shared.room.scripts, self.shared.limits.underway_bytes_max);
        let part = match room.try_take(needs.items, most) {
            None => self.wait_for_part(room, needs.items, most).await,
            part => part,
        };
        let gone = || Reply::error("TXCONFLICT its client has gone while it waited for room");
        self.parts.script = Some(part.ok_or_else(gone)?);
        self.parts.answers = Answers { items: needs.items.max(Answers::SMALL.items), ..needs };
        Ok(())
    }

    /// Whether the script that has run had no room for its answers, so that nothing of it is done. EXEC is run again
    /// then, as a read is whose reply has no room: after its client has read.
    pub fn had_no_room(&mut self) -> bool {
        let Some(Answers { items, bytes }) = self.parts.over else { return false };
        let bytes = self.parts.room_for(bytes).min(self.shared.limits.client_reply_bytes_max);
        self.parts.over = Some(Answers { items: self.parts.room_for(items), bytes });
        self.unshown = bytes;
        true
    }

    /// Keeps the part of a request that has run until what it has written is published, and gives it back.
    pub(super) async fn give_back(&mut self, part: Option<Wide>) {
        if (part.is_some() || self.parts.documents.is_some())
            && self.turn.is_none()
            && let Some((committing, _)) = &self.committing
        {
            // Its client is told of its outcome elsewhere.
            let _ = committing.witness().wait().await;
        }
    }

    /// Of `keys`, which are to be fetched ahead, leaves as many as there is room for. That room is no other's, and is
    /// never waited for: it is held by what may wait.
    pub(super) fn take_ahead(&mut self, keys: &mut Vec<Key>) {
        self.parts.ahead = None;
        let of_key = |key: &Key| AHEAD_KEY_BYTES + key.heap_bytes();
        let bytes = keys.iter().map(of_key).sum::<usize>();
        if bytes > AHEAD_BYTES_MIN {
            let most = self.shared.limits.underway_bytes_max / 2;
            self.parts.ahead = self.shared.room.ahead.try_take(bytes, most);
        }
        if self.parts.ahead.is_none() {
            let mut left = AHEAD_BYTES_MIN;
            keys.retain(|key| {
                let fits = of_key(key) <= left;
                left -= if fits { of_key(key) } else { left };
                fits
            });
        }
    }

    /// Bytes that a request takes while it runs. One in TXN has locks, and must not wait.
    fn width(&self, command: &Command, frame: Frame<'_>) -> usize {
        if self.open.is_open() {
            return 0;
        }
        match (&command.run, &self.multi.queue) {
            (Run::Engine(_), Some(queue)) if command.name == "exec" => {
                queue.commands.iter().map(|queued| width_of(queued.command, queued.request.frame())).sum()
            }
            (Run::Documents(..) | Run::Varying(..), _) => width_of(command, frame),
            (Run::Engine(_) | Run::Cached(..), _)
                if matches!(command.name, "watch" | "lease") || command.is(Flag::RunsScript) =>
            {
                width_of(command, frame)
            }
            _ => 0,
        }
    }

    /// Bytes that the client makes the server hold beside its unfinished request: what MULTI has queued, what WATCH
    /// remembers, prefixes of CLIENT TRACKING, and what TXN has read and written.
    pub fn held_bytes(&self) -> usize {
        let watched = self.multi.watched.iter().map(|watched| watched.key.heap_bytes() + WATCHED_KEY_BYTES);
        let queued = self.multi.queue.as_ref().map_or(0, |queue| queue.bytes);
        let tracked = self.tracked.as_ref().map_or(0, |tracked| tracked.held_bytes);
        queued + watched.sum::<usize>() + tracked + self.open.held_bytes()
    }

    /// Counts `more` bytes that MULTI, WATCH, CLIENT TRACKING or TXN is about to keep, before it does; refused if all
    /// clients keep too much. It must not wait: what is kept goes when its client says so.
    pub fn keep(&mut self, more: usize) -> Result<(), Reply> {
        let kept = self.held_bytes().saturating_add(more);
        let grown = kept.saturating_sub(self.kept.settled);
        let Some(more) = grown.checked_sub(self.kept.grown).filter(|more| *more > UNCOUNTED_BYTES_MAX) else {
            return Ok(());
        };
        let (all, limit) = (&self.shared.figures.held_bytes, self.shared.limits.held_bytes_max);
        let spare = if kept <= HELD_BYTES_MIN { limit / SMALL_HOLDERS_PART } else { 0 };
        if all.fetch_add(more, Ordering::Relaxed).saturating_add(more) > limit.saturating_add(spare) {
            all.fetch_sub(more, Ordering::Relaxed);
            return Err(Reply::error(format!("LIMIT held_bytes_max {limit}")));
        }
        self.shared.engine.cache().lend(more);
        self.kept.grown = grown;
        Ok(())
    }

    /// Counts keys that WATCH or LEASE CHECK is about to remember.
    pub fn keep_watched<'k>(&mut self, keys: impl Iterator<Item = &'k Key>) -> Result<(), Reply> {
        self.keep(keys.map(|key| key.heap_bytes() + WATCHED_KEY_BYTES).sum())
    }

    /// The connection has counted what is kept, which is so much.
    pub(crate) fn settle_kept(&mut self, kept: usize) {
        let Kept { grown, .. } = std::mem::replace(&mut self.kept, Kept { settled: kept, grown: 0 });
        if grown > 0 {
            self.shared.figures.held_bytes.fetch_sub(grown, Ordering::Relaxed);
            self.shared.engine.cache().give_back(grown);
        }
    }
}

fn width_of(command: &Command, frame: Frame<'_>) -> usize {
    // Few arguments come to little, if they are short.
    if frame.len() * KEY_BYTES + frame.extent_bytes() * NAME_COPIES <= SHORT_BYTES_MAX {
        return KEY_BYTES + frame.len() * ELEMENT_BYTES;
    }
    let (mut keys, mut names) = (0, 0);
    command.each_key(frame, 0, &mut |key| {
        keys += 1;
        names += key.name.len().saturating_sub(NAME_BYTES);
    });
    keys * KEY_BYTES + names * NAME_COPIES + frame.len().saturating_sub(keys) * ELEMENT_BYTES
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use forebay_protocol::{Batch, Decoder, Limits, encode_command};

    use super::*;

    /// Long names are counted however few they are, and a long value is not a name.
    #[test]
    fn what_long_names_take_is_counted() {
        let table = crate::command::table();
        let width = |args: &[&[u8]]| {
            let (mut batch, mut input) = (Batch::default(), BytesMut::new());
            encode_command(&mut input, args);
            Decoder::new(Limits::default()).decode_batch(&mut input, 1, &mut batch).unwrap();
            width_of(table.find(args[0]).unwrap(), batch.frame(0))
        };
        let long = vec![b'k'; 60_000];
        assert!(width(&[b"GET", &long]) > 60_000 * NAME_COPIES);
        assert!(width(&[b"MGET", &long, &long, b"k", &long]) > 180_000 * NAME_COPIES);
        assert!(width(&[b"SET", b"k", &long]) <= SHORT_BYTES_MAX && width(&[b"GET", b"k"]) <= SHORT_BYTES_MAX);
    }

    /// However much longer a reply becomes between two times that it is made, as long as that is bounded.
    #[test]
    fn a_reply_that_becomes_longer_has_room_in_the_end() {
        for growth in [1, 1_000, 1_000_000] {
            let (mut parts, mut bytes, mut room) = (Parts::default(), 1_000, 0);
            while bytes > room && parts.forgotten < 20 {
                room = parts.room_for(bytes);
                bytes += growth;
                parts.forgotten += 1;
            }
            assert!(bytes <= room, "{growth}");
        }
        assert_eq!(
            [0, 1, 2, 3].map(|forgotten| Parts { forgotten, ..Parts::default() }.room_for(800)),
            [800, 900, 1_100, 1_500]
        );
    }
}
