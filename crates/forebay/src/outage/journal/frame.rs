//! How records stand in the file, and how the file is read.
//!
//! ```text
//! file  = magic:8 format:4 length:4 check:4 header frame*
//! frame = marker:8 length:4 synced:8 head-check:4 check:4 record
//! ```
//!
//! All numbers are little-endian. A check is a CRC-32. That of a head covers the place of the frame in the file, that
//! of a record the head's check. So a frame is valid at its own place alone. `synced` says up to where the file was
//! safe on disk when the frame was written. The header says how long the file was when it got its name. That tells
//! damage from a tail that never reached the disk. If a frame can't be read, and a valid one after it says that it
//! was safe, that is damage. Otherwise it belongs to what a crash may leave, of which any part may be missing.
//! Whatever comes after it counts as not written.

use std::io;
use std::sync::Arc;

use super::OpenError;
use super::codec::{Entry, Header, decode_entry, decode_header, encode_header};
use crate::outage::disk::DiskFile;

const MAGIC: [u8; 8] = *b"forebayJ";
pub(super) const FORMAT: u32 = 1;
const PRELUDE_BYTES: usize = 20;
/// Bytes of a frame beside its record.
pub(super) const HEAD_BYTES: usize = 28;
/// Longest header: mapping, catalogue and losses.
pub(super) const HEADER_BYTES_MAX: usize = 16 << 20;
/// Bytes of mapping and catalogue at most; losses take the rest of a header.
pub(super) const DESCRIPTION_BYTES_MAX: usize = HEADER_BYTES_MAX / 2;
/// Bytes that are read at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// Where a frame stands, head and record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) bytes: u32,
}

#[derive(Clone, Copy)]
struct Head {
    length: usize,
    synced: u64,
    check: u32,
}

/// The bytes with which a file begins.
pub(super) fn prelude(header: &Header) -> Vec<u8> {
    let body = encode_header(header);
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    let mut check = crc32fast::Hasher::new();
    check.update(&out);
    check.update(&body);
    out.extend_from_slice(&check.finalize().to_le_bytes());
    out.extend_from_slice(&body);
    out
}

/// Appends the frame of `body`, which will stand at `offset`, to `out`.
pub(super) fn write(marker: u64, offset: u64, synced: u64, body: &[u8], out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&marker.to_le_bytes());
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(&synced.to_le_bytes());
    let head = head_check(&out[at..at + 20], offset);
    out.extend_from_slice(&head.to_le_bytes());
    out.extend_from_slice(&body_check(head, body).to_le_bytes());
    out.extend_from_slice(body);
}

fn head_check(head: &[u8], offset: u64) -> u32 {
    let mut check = crc32fast::Hasher::new();
    check.update(head);
    check.update(&offset.to_le_bytes());
    check.finalize()
}

fn body_check(head: u32, body: &[u8]) -> u32 {
    let mut check = crc32fast::Hasher::new();
    check.update(&head.to_le_bytes());
    check.update(body);
    check.finalize()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Reads a file from its beginning on, a chunk at a time.
pub(super) struct Scanner {
    file: Arc<dyn DiskFile>,
    name: String,
    end: u64,
    marker: u64,
    safe_bytes: u64,
    chunk: Vec<u8>,
    /// Where `chunk` begins in the file.
    chunk_at: u64,
    /// Where the next frame begins.
    pub(super) at: u64,
}

/// What stands at the next place.
pub(super) enum Next {
    Entry(Place, Box<Entry>),
    /// The file ends here, as it should.
    End,
    /// From here on it can't be read, and nothing says that it was ever safe on disk.
    Torn {
        /// The highest number of a record found behind.
        seen: u64,
    },
}

impl Scanner {
    /// Begins to read: the header.
    pub(super) fn open(file: Arc<dyn DiskFile>, name: String) -> Result<(Scanner, Header), OpenError> {
        let end = file.bytes().map_err(|why| OpenError::Io { file: name.clone(), why })?;
        let mut scanner = Scanner { file, name, end, marker: 0, safe_bytes: 0, chunk: Vec::new(), chunk_at: 0, at: 0 };
        let damaged = |scanner: &Scanner, why: &str| scanner.damaged(0, why);
        if end < PRELUDE_BYTES as u64 {
            return Err(damaged(&scanner, "it is too short for its header"));
        }
        let prelude = scanner.bytes(0, PRELUDE_BYTES)?.to_vec();
        if prelude[..8] != MAGIC {
            return Err(damaged(&scanner, "it is no journal of forebay"));
        }
        let format = word(&prelude, 8);
        if format != FORMAT {
            return Err(OpenError::UnknownFormat { file: scanner.name.clone(), format, known: FORMAT });
        }
        let length = word(&prelude, 12) as usize;
        if length > HEADER_BYTES_MAX || (PRELUDE_BYTES + length) as u64 > end {
            return Err(damaged(&scanner, "the length of its header is wrong"));
        }
        let body = scanner.bytes(PRELUDE_BYTES as u64, length)?.to_vec();
        let mut check = crc32fast::Hasher::new();
        check.update(&prelude[..16]);
        check.update(&body);
        if check.finalize() != word(&prelude, 16) {
            return Err(damaged(&scanner, "the check of its header is wrong"));
        }
        let header = decode_header(&body).map_err(|why| scanner.damaged(0, &why.to_string()))?;
        (scanner.marker, scanner.safe_bytes) = (header.marker, header.safe_bytes);
        scanner.at = (PRELUDE_BYTES + length) as u64;
        Ok((scanner, header))
    }

    /// Where the file ends.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// The next entry.
    pub(super) fn next(&mut self) -> Result<Next, OpenError> {
        let offset = self.at;
        if offset == self.end && offset >= self.safe_bytes {
            return Ok(Next::End);
        }
        let Some((head, body)) = self.frame(offset)? else {
            return self.behind(offset);
        };
        let decoded = decode_entry(body);
        let entry = decoded.map_err(|why| self.damaged(offset, &why.to_string()))?;
        let bytes = (HEAD_BYTES + head.length) as u32;
        self.at = offset + u64::from(bytes);
        Ok(Next::Entry(Place { offset, bytes }, Box::new(entry)))
    }

    /// The valid frame at `offset`, if one is there.
    fn frame(&mut self, offset: u64) -> Result<Option<(Head, &[u8])>, OpenError> {
        let Some(head) = self.head(offset)? else { return Ok(None) };
        let body = self.bytes(offset, HEAD_BYTES + head.length)?;
        let (stored, body) = (word(body, 24), &body[HEAD_BYTES..]);
        Ok((body_check(head.check, body) == stored).then_some((head, body)))
    }

    fn head(&mut self, offset: u64) -> Result<Option<Head>, OpenError> {
        if self.end.saturating_sub(offset) < HEAD_BYTES as u64 {
            return Ok(None);
        }
        let (marker, left) = (self.marker, self.end - offset - HEAD_BYTES as u64);
        let bytes = self.bytes(offset, HEAD_BYTES)?;
        let head = Head { length: word(bytes, 8) as usize, synced: long(bytes, 12), check: word(bytes, 20) };
        let valid = long(bytes, 0) == marker && head_check(&bytes[..20], offset) == head.check;
        Ok((valid && head.length as u64 <= left).then_some(head))
    }

    /// The frame at `bad` can't be read: whether that is damage, or a tail that was not written to its end.
    fn behind(&mut self, bad: u64) -> Result<Next, OpenError> {
        if bad < self.safe_bytes {
            return Err(self.damaged(bad, "a record there can't be read, though it was safe on disk"));
        }
        let marker = self.marker.to_le_bytes();
        let mut seen = 0;
        let mut at = bad + 1;
        while self.end.saturating_sub(at) >= HEAD_BYTES as u64 {
            let cached = (self.chunk_at + self.chunk.len() as u64).saturating_sub(at) as usize;
            let whole = CHUNK_BYTES.min((self.end - at) as usize);
            let length = if at >= self.chunk_at && cached >= HEAD_BYTES { cached } else { whole };
            let chunk = self.bytes(at, length)?;
            let Some(found) = chunk.windows(marker.len()).position(|window| window == marker) else {
                at += (length - (marker.len() - 1)) as u64;
                continue;
            };
            at += found as u64;
            if let Some(head) = self.head(at)? {
                if head.synced > bad {
                    let why = format!("a record there can't be read, but one at {at} says that it was safe on disk");
                    return Err(self.damaged(bad, &why));
                }
                if let Some((_, body)) = self.frame(at)?
                    && let Ok(Entry::Record(record)) = decode_entry(body)
                {
                    seen = seen.max(number_of(&record));
                }
            }
            at += 1;
        }
        Ok(Next::Torn { seen })
    }

    /// `length` bytes from `offset` on, which must be there.
    fn bytes(&mut self, offset: u64, length: usize) -> Result<&[u8], OpenError> {
        let have = self.chunk_at + self.chunk.len() as u64;
        if offset < self.chunk_at || offset + length as u64 > have {
            let wanted = length.max(CHUNK_BYTES.min((self.end - offset) as usize));
            self.chunk.clear();
            self.chunk.shrink_to(CHUNK_BYTES);
            self.chunk.resize(wanted, 0);
            self.chunk_at = offset;
            let read = self.file.read(offset, &mut self.chunk);
            read.map_err(|why| OpenError::Io { file: self.name.clone(), why })?;
        }
        let start = (offset - self.chunk_at) as usize;
        Ok(&self.chunk[start..start + length])
    }

    fn damaged(&self, offset: u64, why: &str) -> OpenError {
        OpenError::Damaged { file: self.name.clone(), offset, why: why.to_owned() }
    }
}

fn number_of(record: &crate::outage::record::Record) -> u64 {
    use crate::outage::record::Record;
    match record {
        Record::Buffered(buffered) | Record::Merged { into: buffered, .. } => buffered.number,
        _ => 0,
    }
}

/// Reads the record at `place` again.
pub(super) fn read(file: &dyn DiskFile, name: &str, marker: u64, place: Place) -> Result<Vec<u8>, OpenError> {
    let mut bytes = vec![0; place.bytes as usize];
    file.read(place.offset, &mut bytes).map_err(|why: io::Error| OpenError::Io { file: name.to_owned(), why })?;
    let head = head_check(&bytes[..20], place.offset);
    let valid = long(&bytes, 0) == marker
        && word(&bytes, 20) == head
        && word(&bytes, 8) as usize == bytes.len() - HEAD_BYTES
        && word(&bytes, 24) == body_check(head, &bytes[HEAD_BYTES..]);
    if !valid {
        let why = "a record that was valid can't be read any more".to_owned();
        return Err(OpenError::Damaged { file: name.to_owned(), offset: place.offset, why });
    }
    bytes.drain(..HEAD_BYTES);
    Ok(bytes)
}
