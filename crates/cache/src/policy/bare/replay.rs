//! Requests that are served in a row.

use super::parts::{Frame, Hashed, Numbered, Served};
use crate::policy::access::{Access, AccessKind};

/// Requests for keys that have numbers, each a read or a write of a whole entry.
#[derive(Clone, Copy)]
pub struct NumberedRequests<'a> {
    /// By request: its key's number.
    pub numbers: &'a [u32],
    /// By request, one bit: whether it writes.
    pub writes: &'a [u64],
    /// By request: its client; empty if all are of client 0.
    pub clients: &'a [u32],
    /// By key's number.
    pub hashes: &'a [u64],
    /// By key's number.
    pub sizes: &'a [u32],
}

impl NumberedRequests<'_> {
    /// Whether the request at this place writes.
    #[inline]
    pub fn writes(&self, place: usize) -> bool {
        self.writes[place / 64] >> (place % 64) & 1 == 1
    }

    /// Which client sent it.
    #[inline]
    pub fn client(&self, place: usize) -> u32 {
        self.clients.get(place).copied().unwrap_or(0)
    }

    /// The size of its key.
    #[inline]
    pub fn size(&self, place: usize) -> u32 {
        self.sizes[self.numbers[place] as usize]
    }

    /// What a policy may know of it.
    #[inline]
    pub fn access(&self, place: usize) -> Access {
        let hash = self.hashes[self.numbers[place] as usize];
        let kind = if self.writes(place) { AccessKind::Write } else { AccessKind::Read };
        Access { kind, client: self.client(place), ..Access::read(hash, self.size(place)) }
    }
}

/// Serves requests one after the other, as [`Bare::serve`](super::Bare::serve) does each. Every order has this: it
/// is compiled for each by itself, so that a replay makes no call through a table for each request, and tells an
/// order no more of a request than it looks at. That takes less time than what the simpler policies do.
pub trait Replay {
    /// Reads of keys by hash, with sizes; appends what became of each.
    fn replay(&mut self, frame: &mut Frame<Hashed>, requests: &[(u64, u32)], served: &mut Vec<Served>);

    /// The requests at these places.
    fn replay_numbered(
        &mut self,
        frame: &mut Frame<Numbered>,
        requests: NumberedRequests<'_>,
        places: std::ops::Range<usize>,
        served: &mut Vec<Served>,
    );
}
