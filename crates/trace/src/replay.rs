//! How a record becomes a request to a cache, defined once. The replay through a server and the one without must ask
//! for equal keys and values, or their hit ratios could not be compared.

use std::sync::OnceLock;

use crate::record::{Kind, Record, TraceKey};

/// Bytes of a value where the trace tells no sizes.
pub const VALUE_BYTES_DEFAULT: u32 = 100;

/// Bytes of the largest value; a larger object of the trace gets a value of this size.
pub const VALUE_BYTES_MAX: u32 = 1 << 20;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads the key.
    Get,
    /// Writes the key's whole value.
    Set,
    /// Deletes the key.
    Delete,
}

/// One request of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it does.
    pub action: Action,
    /// The key: `t:` and the trace's key, or `t<space>:` for another key space than 0.
    pub key: Vec<u8>,
    /// Bytes of the key's value, at most [`VALUE_BYTES_MAX`].
    pub value_bytes: u32,
}

impl Request {
    /// The request that `record` stands for; none for the end of a transaction, and for what caches do among
    /// themselves (prefetches, demotions). With `writes_as_reads` every access reads, as in the literature's convention
    /// that counts each access as a read that inserts on a miss.
    pub fn of(record: &Record, writes_as_reads: bool) -> Option<Request> {
        let action = match record.kind {
            Kind::Read => Action::Get,
            Kind::Write | Kind::Delete if writes_as_reads => Action::Get,
            Kind::Write => Action::Set,
            Kind::Delete => Action::Delete,
            Kind::Prefetch | Kind::Demote | Kind::Committed | Kind::Aborted => return None,
        };
        let mut key = match record.space {
            0 => b"t:".to_vec(),
            space => format!("t{space}:").into_bytes(),
        };
        match &record.key {
            TraceKey::None => return None,
            named => key.extend_from_slice(&named.to_bytes()),
        }
        let value_bytes = record.size.unwrap_or(VALUE_BYTES_DEFAULT).min(VALUE_BYTES_MAX);
        Some(Request { action, key, value_bytes })
    }

    /// The value that this request writes, or that its key is preloaded with.
    pub fn value(&self) -> &'static [u8] {
        value(self.value_bytes)
    }
}

/// A value of `bytes` bytes, at most [`VALUE_BYTES_MAX`].
pub fn value(bytes: u32) -> &'static [u8] {
    static FILLER: OnceLock<Box<[u8]>> = OnceLock::new();
    let filler = FILLER.get_or_init(|| (0..VALUE_BYTES_MAX).map(|n| b'a' + (n % 26) as u8).collect());
    &filler[..bytes.min(VALUE_BYTES_MAX) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_becomes_a_request() {
        let record = Record { key: TraceKey::Number(7), ..Record::default() };
        let request = Request { action: Action::Get, key: b"t:7".to_vec(), value_bytes: VALUE_BYTES_DEFAULT };
        assert_eq!(Request::of(&record, false), Some(request));
        let write = Record { kind: Kind::Write, space: 3, size: Some(u32::MAX), ..record.clone() };
        let request = Request { action: Action::Set, key: b"t3:7".to_vec(), value_bytes: VALUE_BYTES_MAX };
        assert_eq!(request.value().len(), VALUE_BYTES_MAX as usize);
        assert_eq!(Request::of(&write, false), Some(request.clone()));
        assert_eq!(Request::of(&write, true), Some(Request { action: Action::Get, ..request }));
        for kind in [Kind::Prefetch, Kind::Demote, Kind::Committed, Kind::Aborted] {
            assert_eq!(Request::of(&Record { kind, ..record.clone() }, true), None);
        }
        assert_eq!(Request::of(&Record::default(), true), None);
    }
}
