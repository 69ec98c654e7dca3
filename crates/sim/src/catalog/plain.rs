//! A trace of requests and nothing else, in memory.

use std::ops::Range;

use forebay::policy::bare::NumberedRequests;
use forebay_trace::{Kind, Record};

use super::future::Future;
use super::request::Request;

/// Most requests that are kept in memory, 4 bytes each, so that a plain trace need not be read again.
pub const PLAIN_REQUESTS_MAX: usize = 1 << 26;

/// The requests of a trace that says nothing of them but keys, sizes, clients, and whether they read or write; kept so
/// that such a trace need not be read, nor its keys be looked for, a second time.
#[derive(Default)]
pub(super) struct Plain {
    /// By request: its key's number.
    numbers: Vec<u32>,
    /// By request, one bit: whether it writes.
    writes: Vec<u64>,
    /// By request; empty while all are of client 0.
    clients: Vec<u32>,
    /// By key's number.
    pub hashes: Vec<u64>,
    /// By key's number, apart from the hashes, since each request is counted by its size.
    pub sizes: Vec<u32>,
}

impl Plain {
    pub fn suits(&self, record: &Record) -> bool {
        let Record { kind, cost_us, txn, txn_type, level, vertex, hints, .. } = record;
        let nothing_else = (*txn, *txn_type, *level, *vertex, *hints, *cost_us) == (0, 0, 0, 0, 0, None);
        nothing_else && matches!(kind, Kind::Read | Kind::Write) && self.numbers.len() < PLAIN_REQUESTS_MAX
    }

    pub fn push(&mut self, number: u32, record: &Record) {
        let place = self.numbers.len();
        if place.is_multiple_of(64) {
            self.writes.push(0);
        }
        self.writes[place / 64] |= u64::from(record.kind == Kind::Write) << (place % 64);
        if record.client != 0 || !self.clients.is_empty() {
            self.clients.resize(place, 0);
            self.clients.push(record.client);
        }
        self.numbers.push(number);
    }
}

/// See [`Catalog::plain`].
#[derive(Clone, Copy)]
pub struct PlainRequests<'a> {
    plain: &'a Plain,
    future: &'a Future,
}

impl<'a> PlainRequests<'a> {
    pub(super) fn new(plain: &'a Plain, future: &'a Future) -> PlainRequests<'a> {
        PlainRequests { plain, future }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.plain.numbers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As a cache takes them.
    pub fn numbered(&self) -> NumberedRequests<'a> {
        let Plain { numbers, writes, clients, hashes, sizes } = self.plain;
        NumberedRequests { numbers, writes, clients, hashes, sizes }
    }

    /// These requests, in order.
    #[inline]
    pub fn range(&self, range: Range<usize>) -> impl Iterator<Item = Request> + 'a {
        let (numbered, future) = (self.numbered(), self.future);
        range.map(move |place| future.request(numbered.access(place), numbered.numbers[place], place))
    }
}
