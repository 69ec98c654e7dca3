//! Bytes that one connection may hold, and from which on they are counted.

use bytes::BytesMut;
use forebay::mutation::{self, Fault};
use forebay_protocol::Decoder;
use forebay_protocol::decoder::READ_BYTES;
use forebay_protocol::request::BATCH_ARGS;

use crate::replies::{LARGE_BYTES, TURN_BYTES};
use crate::room::Arrived;
use crate::state::Shared;

/// What a client makes the server hold is counted from here on, so that ordinary ones cost nothing.
pub(crate) const HELD_BYTES_MIN: usize = 32 << 10;

/// What the buffers of all clients take is so many times one so-manyth of `held_bytes_max`, as far as that goes.
const BUFFERS_PART: usize = 2;
const BUFFER_BYTES_MIN: usize = 4 << 10;
const BUFFER_BYTES_MAX: usize = 32 << 10;

/// The cache makes way with so much for each connection: about what one takes that is not counted otherwise.
pub(super) const CONNECTION_BYTES: usize = 32 << 10;

/// A read may go beyond [`HELD_BYTES_MIN`] by so much: what is larger takes room before it is read on.
pub(super) const UNHELD_BYTES: usize = 4 << 10;

/// Unfinished wide requests of all clients may take one so-manyth of `held_bytes_max` without room, and each so much.
const WIDE_PART: usize = 4;
const WIDE_BYTES_MIN: usize = 8 << 10;

/// What an unfinished request may take without room. One that is wide has less beside many clients: the places of its
/// arguments take as much as what it has sent, and each of a thousand clients may send one.
///
/// **Example.** At `--memory 64MiB` a wide request may take 32 KiB beside 256 clients, and 8 KiB beside 1,000.
pub(super) fn without_room(shared: &Shared, decoder: &Decoder) -> usize {
    if !decoder.is_wide(&[]) || mutation::on(Fault::ManyWithoutRoom) {
        return HELD_BYTES_MIN;
    }
    let part = shared.limits.held_bytes_max / WIDE_PART;
    (part / shared.clients.len().max(1)).clamp(WIDE_BYTES_MIN, HELD_BYTES_MIN)
}

/// Of what is held, what MULTI, WATCH and TXN keep is counted from here on: thousands of clients may keep a little.
pub(super) const KEPT_BYTES_MIN: usize = 1 << 10;

/// One so-manyth of `held_bytes_max` comes beside it for clients that hold less than [`HELD_BYTES_MIN`]: those that
/// hold more can't keep others from small transactions.
pub(crate) const SMALL_HOLDERS_PART: usize = 8;

/// A buffer of requests that was larger is not kept for what is left in it.
pub(super) const LARGE_INPUT_BYTES: usize = 64 << 10;

/// At most so many bytes are read for an argument before the connection looks at what else there is to do.
pub(super) const INPUT_BYTES_MAX: usize = 1 << 20;

/// What one buffer of a connection is for: bytes of complete requests that are read before they are decoded, and what a
/// buffer of requests or replies keeps while the connection waits for its client. A connection has up to four such
/// buffers: the requests of the batch, those that came after it, the places of arguments, and the replies.
///
/// **Example.** At `--memory 64MiB` it is 32 KiB beside 256 clients, and 8 KiB beside 1,000.
pub(super) fn buffer_bytes(shared: &Shared) -> usize {
    if mutation::on(Fault::ManyReadAhead) {
        return BUFFER_BYTES_MAX;
    }
    let part = shared.limits.held_bytes_max / BUFFERS_PART;
    (part / shared.clients.len().max(1)).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX)
}

/// What an ordinary read takes. So much is read while a request waits: enough to see the end of what the client sends.
pub(super) fn read_bytes(shared: &Shared) -> usize {
    buffer_bytes(shared).min(READ_BYTES)
}

/// What the turns of all clients come to, where they are many: arguments of requests, and bytes of replies.
const TURNS_ARGS: usize = 128 << 10;
const TURNS_BYTES: usize = 32 << 20;
const TURN_ARGS_MIN: usize = 128;
const TURN_BYTES_MIN: usize = 32 << 10;

/// A shorter reply never waits for room.
const REPLY_BYTES_MIN: usize = 4 << 10;

/// How long a client's turn is: arguments of requests that it takes, and bytes of replies that they make. A client
/// waits for one turn of each other, so beside many clients a turn is shorter.
///
/// **Example.** Beside 64 clients a turn is 1,024 arguments and 512 KiB; beside 1,000 it is 131 and 32 KiB.
pub(super) fn turn(clients: usize) -> (usize, usize) {
    if mutation::on(Fault::ManyLongTurns) {
        return (BATCH_ARGS, TURN_BYTES);
    }
    let part = |all: usize, least, most| (all / clients.max(1)).clamp(least, most);
    (part(TURNS_ARGS, TURN_ARGS_MIN, BATCH_ARGS), part(TURNS_BYTES, TURN_BYTES_MIN, TURN_BYTES))
}

/// A reply of more bytes has room made before it is encoded: one of each client is about what may wait for all.
///
/// **Example.** At `--memory 64MiB` it is 256 KiB beside 64 clients, and 16 KiB beside 1,000.
pub(super) fn large_bytes(shared: &Shared) -> usize {
    (shared.limits.replies_bytes_max / shared.clients.len().max(1)).clamp(REPLY_BYTES_MIN, LARGE_BYTES)
}

/// Whether more is read behind `input` before that is decoded: for the argument at hand, or as long as it is little.
/// What waits in complete requests has no room, so each of a thousand clients might have a megabyte of them read.
pub(super) fn is_read_on(decoder: &Decoder, input: &BytesMut, shared: &Shared) -> bool {
    let little = input.len() <= buffer_bytes(shared) && !decoder.is_wide(input);
    little || decoder.bytes_missing(input) > 0 || mutation::on(Fault::ReadBeforeDecoded)
}

/// A large request takes room in steps of so many bytes.
pub(super) const STEP_BYTES_MIN: usize = 64 << 10;
pub(super) const STEP_BYTES_MAX: usize = 256 << 10;

/// What of an unfinished request has come, of which so many bytes wait to be read and so many are `missing`, which is
/// all that is missing if its size is `known`.
pub(super) fn arrived(waiting: usize, missing: usize, known: bool) -> Arrived {
    match waiting {
        waiting if known && waiting >= missing => Arrived::Whole,
        waiting if waiting >= STEP_BYTES_MIN / 2 => Arrived::Step,
        _ => Arrived::Little,
    }
}

/// Bytes of replies that may wait for a client that has to authenticate: there is no use in more of them.
pub(super) const STRANGER_REPLY_BYTES_MAX: usize = 16 << 10;

/// Room for a read of one: there may be thousands who say nothing.
pub(super) const STRANGER_READ_BYTES: usize = 512;
