//! One record of a trace: an access, or the end of a transaction.

use bytes::Bytes;

/// What happened, when, to which key, and in which context. What a format does not say is zero or `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Microseconds since the trace's own zero.
    pub time_us: Option<u64>,
    /// What was done.
    pub kind: Kind,
    /// The key; [`TraceKey::None`] for the end of a transaction, and only there.
    pub key: TraceKey,
    /// Key space (database number) of the key.
    pub space: u8,
    /// Bytes of key and value, as the traced system counted them.
    pub size: Option<u32>,
    /// Bytes that forebay's cache charges for the entry, but for its policy's part, as a recorded trace says them.
    pub charged: Option<u32>,
    /// What fetching the key cost or would cost, in microseconds.
    pub cost_us: Option<u32>,
    /// Which client.
    pub client: u32,
    /// Number of the transaction, 0 for none; a rerun keeps its number.
    pub txn: u64,
    /// Registered type of the transaction, 0 for none.
    pub txn_type: u16,
    /// Level within the transaction, from 0.
    pub level: u16,
    /// Vertex of the transaction graph, 0 for none.
    pub vertex: u16,
    /// Number of the hint set that came with it, 0 for none.
    pub hints: u32,
}

/// What a record says was done. The numbers are those of the forebay format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A client read the key; also every access of formats that do not tell reads from writes.
    #[default]
    Read = 0,
    /// A client wrote the key.
    Write = 1,
    /// A client deleted the key.
    Delete = 2,
    /// The key was fetched ahead of need.
    Prefetch = 3,
    /// A tier in front gave the key up.
    Demote = 4,
    /// The transaction ended and took effect.
    Committed = 5,
    /// The transaction ended without effect.
    Aborted = 6,
}

impl Kind {
    /// All kinds, at the index of their number.
    pub const ALL: [Kind; 7] =
        [Kind::Read, Kind::Write, Kind::Delete, Kind::Prefetch, Kind::Demote, Kind::Committed, Kind::Aborted];

    /// True if this is an access to a key, false if it is the end of a transaction.
    pub fn is_access(self) -> bool {
        !matches!(self, Kind::Committed | Kind::Aborted)
    }
}

/// A key as its trace names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TraceKey {
    /// No key: the record is the end of a transaction.
    #[default]
    None,
    /// A block number, a page number, or a hash.
    Number(u64),
    /// The key's own bytes.
    Bytes(Bytes),
}

impl Record {
    /// The hash by which the simulator and its policies know the key: the same on every machine.
    #[inline]
    pub fn key_hash(&self) -> u64 {
        let hash = match &self.key {
            TraceKey::None => 0,
            TraceKey::Number(number) => mix(*number),
            TraceKey::Bytes(bytes) => {
                mix(bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)))
            }
        };
        if self.space == 0 { hash } else { mix(hash ^ u64::from(self.space)) }
    }

    /// The key's hash and the size, 1 byte where none is told; `None` if this is no access.
    pub fn request(&self) -> Option<(u64, u32)> {
        self.kind.is_access().then(|| (self.key_hash(), self.size.unwrap_or(1)))
    }
}

/// splitmix64's finalizer: one to one, and spreads consecutive numbers.
#[inline]
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl TraceKey {
    /// How long [`TraceKey::to_bytes`] is.
    pub fn name_bytes(&self) -> usize {
        match self {
            TraceKey::None => 0,
            TraceKey::Number(number) => number.checked_ilog10().unwrap_or(0) as usize + 1,
            TraceKey::Bytes(bytes) => bytes.len(),
        }
    }

    /// The key as bytes for a system that knows only byte strings: numbers in decimal.
    pub fn to_bytes(&self) -> Bytes {
        match self {
            TraceKey::None => Bytes::new(),
            TraceKey::Number(number) => Bytes::from(number.to_string()),
            TraceKey::Bytes(bytes) => bytes.clone(),
        }
    }
}
