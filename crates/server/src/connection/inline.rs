//! Inline requests: a word takes two bytes as it comes, and five times as much decoded.

use std::io;
use std::sync::Arc;

use forebay_protocol::Decoder;

use super::amounts::HELD_BYTES_MIN;
use crate::clients::Client;
use crate::state::Shared;
use crate::underway::Part;

/// What a byte of an inline request may take once it is decoded: two make a word.
const DECODED_PART: usize = 5;

/// A request up to this size, decoded, never waits.
const SHORT_BYTES_MAX: usize = HELD_BYTES_MIN;

/// Waits until a long inline request that `input` begins with may be decoded; the part that it has of the room for
/// such. It may be kept while its request waits for locks and for its client, since only what has nothing but an
/// undecoded request waits for it: so it ends with those waits, which have an end.
pub(super) async fn take(
    decoder: &Decoder,
    input: &[u8],
    shared: &Shared,
    client: &Arc<Client>,
) -> io::Result<Option<Part>> {
    let bytes = input.len().saturating_mul(DECODED_PART);
    if bytes <= SHORT_BYTES_MAX || !decoder.begins_inline(input) {
        return Ok(None);
    }
    tokio::select! {
        biased;
        part = shared.room.inline.take(bytes, shared.limits.underway_bytes_max / 2) => Ok(Some(part)),
        () = client.killed() => Err(io::Error::other("killed by CLIENT KILL")),
    }
}
