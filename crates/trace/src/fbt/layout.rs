//! How a file is laid out: its header, and the header of each block.

use crate::error::TraceError;

/// First bytes of every file. The high bit and the line ends show a transfer that took it for text.
pub const MAGIC: [u8; 8] = *b"\x89FBT\r\n\x1a\n";
/// Version that is written, and the latest that is read.
pub const VERSION: u16 = 3;
/// The earliest version that is read.
const VERSION_MIN: u16 = 1;
/// Longest key in bytes.
pub const KEY_BYTES_MAX: usize = 64 * 1024;
/// Content at which a writer ends a block.
pub const BLOCK_BYTES: usize = 64 * 1024;
/// Most bytes of content in a block, before compression.
pub const BLOCK_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of the file's header.
pub(super) const HEADER_BYTES: usize = 24;
/// Bytes of a block's header.
pub(super) const BLOCK_HEADER_BYTES: usize = 20;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockTag {
    /// Records and definitions.
    Entries = 1,
    /// The number of all records; nothing follows.
    End = 2,
}

/// How a block's content is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    /// As it is.
    None = 0,
    /// One zstd frame.
    Zstd = 1,
}

/// What stands before a block's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHeader {
    /// What the block holds.
    pub(super) tag: BlockTag,
    /// How it is stored.
    pub(super) compression: Compression,
    /// Bytes that follow the header.
    pub(super) stored: u32,
    /// Bytes of content when decompressed.
    pub(super) content: u32,
    /// Records and definitions in it.
    pub(super) entries: u32,
}

impl BlockHeader {
    /// The header's bytes, with the checksum over them and `stored`.
    pub(super) fn encode(&self, stored: &[u8]) -> [u8; BLOCK_HEADER_BYTES] {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        bytes[0] = self.tag as u8;
        bytes[1] = self.compression as u8;
        bytes[4..8].copy_from_slice(&self.stored.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.content.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.entries.to_le_bytes());
        let checksum = checksum(&bytes[..16], stored);
        bytes[16..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header and the checksum in it; an error says what is wrong.
    pub(super) fn decode(bytes: &[u8; BLOCK_HEADER_BYTES]) -> Result<(BlockHeader, u32), String> {
        let tag = match bytes[0] {
            1 => BlockTag::Entries,
            2 => BlockTag::End,
            other => return Err(format!("no block begins with {other}")),
        };
        let compression = match bytes[1] {
            0 => Compression::None,
            1 => Compression::Zstd,
            other => return Err(format!("compression {other} is not known")),
        };
        if bytes[2..4] != [0, 0] {
            return Err("reserved bytes of a block header are not 0".to_owned());
        }
        let [stored, content, entries, checksum] =
            [4, 8, 12, 16].map(|at| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
        // A block is stored compressed only where that is shorter, so both lengths have one limit.
        for (what, length) in [("stored", stored), ("content", content)] {
            if length as usize > BLOCK_BYTES_MAX {
                return Err(format!("{what} length {length} is beyond block_bytes_max {BLOCK_BYTES_MAX}"));
            }
        }
        if compression == Compression::None && stored != content {
            return Err(format!("content of {content} bytes stored as {stored} without compression"));
        }
        Ok((BlockHeader { tag, compression, stored, content, entries }, checksum))
    }
}

/// CRC-32 (IEEE 802.3, as in zlib) of `head` followed by `tail`.
pub(super) fn checksum(head: &[u8], tail: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(tail);
    hasher.finalize()
}

/// The file's header.
pub(super) fn encode_header(start_unix_us: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..20].copy_from_slice(&start_unix_us.to_le_bytes());
    let checksum = checksum(&bytes[..20], &[]);
    bytes[20..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Microseconds of the Unix clock at the trace's zero. The version is looked at first: a later one may have another
/// header.
pub(super) fn decode_header(bytes: &[u8; HEADER_BYTES]) -> Result<u64, TraceError> {
    let malformed = |offset, reason: &str| TraceError::Malformed { offset, reason: reason.to_owned() };
    if bytes[..8] != MAGIC {
        return Err(malformed(0, "this is no forebay trace, its first 8 bytes are others"));
    }
    let found = u16::from_le_bytes([bytes[8], bytes[9]]);
    if !(VERSION_MIN..=VERSION).contains(&found) {
        return Err(TraceError::Version { found, known: VERSION });
    }
    let [_, _, _, _, _, _, _, _, _, _, flags_low, flags_high, start @ .., a, b, c, d] = *bytes;
    if u32::from_le_bytes([a, b, c, d]) != checksum(&bytes[..20], &[]) {
        return Err(malformed(0, "the header's checksum does not match"));
    }
    if [flags_low, flags_high] != [0, 0] {
        return Err(malformed(10, "reserved bytes of the header are not 0"));
    }
    Ok(u64::from_le_bytes(start))
}
