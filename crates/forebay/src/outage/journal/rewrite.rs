//! What still means something, in a new file.

use std::io;

use super::codec::{Header, Mark, alone, encode_mark};
use super::frame::{self, HEAD_BYTES, Place};
use super::index::Index;
use crate::outage::disk::DiskFile;
use crate::tier::Effect;

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// Bytes that mean nothing any more, per byte that does, above which a rewrite is worthwhile. At one, a drain copies as
/// much again as it applies, while what is to be told of it waits; at three it is a third of that.
const SUPERSEDED_MAX: u64 = 3;

/// Whether so many bytes that mean nothing any more are worth a new file of the `live` ones.
pub(super) fn is_worthwhile(superseded: u64, live: u64) -> bool {
    superseded / SUPERSEDED_MAX > live
}

/// Writes what `from` says still means something to the empty file `to`, and syncs it; `read` reads a record. Answers
/// where it stands there, where the first frame stands, and where the last one ends: `mark`.
pub(super) fn copy(
    from: &Index,
    read: impl Fn(Place) -> io::Result<Vec<u8>>,
    to: &dyn DiskFile,
    header: &Header,
    mark: &Mark,
) -> io::Result<(Index, u64, u64)> {
    let mut buffer = frame::prelude(header);
    let begin = buffer.len() as u64;
    let (mut written, mut index) = (0u64, Index::default());
    for (number, place) in from.ended() {
        let body = read(place)?;
        let place = Place { offset: buffer.len() as u64, bytes: (HEAD_BYTES + body.len()) as u32 };
        index.apply(&Effect::Ended(number), place).map_err(io::Error::other)?;
        frame::write(header.marker, place.offset, 0, &body, &mut buffer);
    }
    for (number, live) in from.iter() {
        let places = live.places().enumerate();
        for (nth, old) in places {
            let mut body = read(old)?;
            if let Some(alone) = alone(&body).map_err(io::Error::other)? {
                body = alone;
            }
            let offset = written + buffer.len() as u64;
            let place = Place { offset, bytes: (HEAD_BYTES + body.len()) as u32 };
            let effect = match nth {
                0 => Effect::Added(number),
                _ if Some(old) == live.stands() => Effect::Stands(number),
                _ => Effect::Known(number),
            };
            index.apply(&effect, place).map_err(io::Error::other)?;
            frame::write(header.marker, offset, 0, &body, &mut buffer);
            if buffer.len() >= COPY_BYTES {
                to.write(written, &buffer)?;
                written += buffer.len() as u64;
                buffer.clear();
            }
        }
    }
    let offset = written + buffer.len() as u64;
    frame::write(header.marker, offset, 0, &encode_mark(mark), &mut buffer);
    to.write(written, &buffer)?;
    // All of it is safe before it gets its name: what can't be read of it later is damage.
    let end = written + buffer.len() as u64;
    to.write(0, &frame::prelude(&Header { safe_bytes: end, ..header.clone() }))?;
    to.sync()?;
    Ok((index, begin, end))
}
