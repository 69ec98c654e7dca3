//! Bytes that one connection may hold, and from which on they are counted.

use forebay::mutation::{self, Fault};

use crate::state::Shared;

/// What a client makes the server hold is counted from here on, so that ordinary ones cost nothing.
pub(crate) const HELD_BYTES_MIN: usize = 32 << 10;

/// A connection that waits for its client keeps so many bytes of its buffer of requests, and of its buffer of replies.
pub(super) const BUFFER_KEPT_BYTES: usize = 32 << 10;

/// The cache makes way with so much for each connection: about what one takes that is not counted otherwise.
pub(super) const CONNECTION_BYTES: usize = 32 << 10;

/// Unfinished requests of all clients may take one so-manyth of `held_bytes_max` without room.
const WITHOUT_ROOM_PART: usize = 4;

/// One may take so much without room, however many clients there are. A read may go beyond its part by half of that.
const WITHOUT_ROOM_BYTES_MIN: usize = 8 << 10;
pub(super) const READ_BEYOND_BYTES: usize = WITHOUT_ROOM_BYTES_MIN / 2;

/// What an unfinished request may take without room beside so many clients.
///
/// **Example.** At `--memory 64MiB` each of 256 clients may take 32 KiB, and each of 1,000 clients 8 KiB. A thousand
/// times 32 KiB, and as much for the places of arguments, would come to more than what the cache makes way for.
pub(super) fn without_room(shared: &Shared) -> usize {
    if mutation::on(Fault::ManyWithoutRoom) {
        return HELD_BYTES_MIN;
    }
    let part = shared.limits.held_bytes_max / WITHOUT_ROOM_PART;
    (part / shared.clients.len().max(1)).clamp(WITHOUT_ROOM_BYTES_MIN, HELD_BYTES_MIN)
}

/// Of what is held, what MULTI, WATCH and TXN keep is counted from here on: thousands of clients may keep a little.
pub(super) const KEPT_BYTES_MIN: usize = 1 << 10;

/// One so-manyth of `held_bytes_max` comes beside it for clients that hold less than [`HELD_BYTES_MIN`]: those that
/// hold more can't keep others from small transactions.
pub(crate) const SMALL_HOLDERS_PART: usize = 8;

/// A buffer of requests that was larger is not kept for what is left in it.
pub(super) const LARGE_INPUT_BYTES: usize = 64 << 10;

/// Bytes of input that may wait unparsed behind a slice that runs.
pub(super) const INPUT_BYTES_MAX: usize = 1 << 20;

/// A large request takes room in steps of so many bytes.
const STEP_BYTES_MIN: usize = 64 << 10;
const STEP_BYTES_MAX: usize = 256 << 10;

/// The next step of a request that misses so many bytes, which may be all of them if that is `known`.
pub(super) fn step(missing: usize, known: bool) -> usize {
    missing.clamp(if known { READ_BEYOND_BYTES } else { STEP_BYTES_MIN }, STEP_BYTES_MAX)
}

/// Bytes of replies that may wait for a client that has to authenticate: there is no use in more of them.
pub(super) const STRANGER_REPLY_BYTES_MAX: usize = 16 << 10;

/// Room for a read of one: there may be thousands who say nothing.
pub(super) const STRANGER_READ_BYTES: usize = 512;

/// How long a closing connection waits for its client to read the last replies.
pub(super) const CLOSE_WAIT: std::time::Duration = std::time::Duration::from_secs(5);

/// How long it waits after that for its client to close its side.
pub(super) const READ_OUT_WAIT: std::time::Duration = std::time::Duration::from_secs(1);
