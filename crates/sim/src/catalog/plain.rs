//! A trace of requests and nothing else, in memory.

use std::ops::Range;

use forebay::policy::{Access, AccessKind};
use forebay_trace::{Kind, Record};

use super::{Future, PLAIN_REQUESTS_MAX, Request};

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
    /// By key's number: its hash and its size.
    pub keys: Vec<(u64, u32)>,
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

    /// Places of these requests, and the numbers of their keys.
    #[inline]
    pub fn numbers(&self, range: Range<usize>) -> impl Iterator<Item = (usize, u32)> + 'a {
        range.clone().zip(self.plain.numbers[range].iter().copied())
    }

    /// What a policy may know of the request at a place, for the key of this number.
    #[inline]
    pub fn access(&self, place: usize, number: u32) -> Access {
        let (hash, size) = self.plain.keys[number as usize];
        let writes = self.plain.writes[place / 64] >> (place % 64) & 1 == 1;
        Access {
            kind: if writes { AccessKind::Write } else { AccessKind::Read },
            client: self.plain.clients.get(place).copied().unwrap_or(0),
            ..Access::read(hash, size)
        }
    }

    /// These requests, in order.
    #[inline]
    pub fn range(&self, range: Range<usize>) -> impl Iterator<Item = Request> + 'a {
        let requests = *self;
        self.numbers(range)
            .map(move |(place, number)| requests.future.request(requests.access(place, number), number, place))
    }
}
