//! What both orders of this family share: the sequence numbers of requests, the outqueue, and what is handed over to
//! be learned from.

use std::any::Any;
use std::sync::Arc;

use super::super::{Access, AccessKind, Learned};
use super::followed::Followed;
use super::learned::{Config, Event, Hints};
use super::outqueue::{Outqueue, PAGES_MAX, Request};
use super::table::Table;

/// Requests after which an order hands over what it saw, at the latest.
const BATCH_REQUESTS: u64 = 64;

/// See the module. Only where it may follow fewer than all requests it asks, with each, whether it does.
pub(super) struct Tracker<const FOLLOWS_FEWER: bool> {
    hints: Arc<Hints>,
    table: Arc<Table>,
    /// The number of the request at hand (seq); wraps around.
    now: u32,
    outqueue: Outqueue,
    /// The bound of the outqueue (Noutq), if all requests are followed, and as it is.
    pages_max: u64,
    outqueue_max: usize,
    events: Vec<Event>,
    requests: u64,
    requests_max: u64,
    /// The request at hand, if its page is not cached: its key's hash, its cell, and whether it is in the outqueue.
    missed: Option<(u64, u32, bool)>,
    wants_ends: bool,
    /// Requests of which the outcomes are noted.
    followed: Followed,
}

impl<const FOLLOWS_FEWER: bool> Tracker<FOLLOWS_FEWER> {
    /// For an order of a cache that learns with `learned`, or by itself if that is another policy's.
    pub fn new(learned: Arc<dyn Learned>, config: Config) -> Self {
        let any: Arc<dyn Any + Send + Sync> = learned;
        let hints = any.downcast::<Hints>().unwrap_or_else(|_| Arc::new(Hints::new(config)));
        let lesson = hints.teach(&mut Vec::new(), 0, u64::MAX);
        let table = hints.table();
        Self {
            followed: table.followed,
            table,
            hints,
            now: 0,
            outqueue: Outqueue::new(),
            pages_max: 0,
            outqueue_max: 0,
            events: Vec::new(),
            requests: 0,
            requests_max: lesson.window_left.min(BATCH_REQUESTS),
            missed: None,
            wants_ends: config.wants_ends(),
        }
    }

    /// The next request begins; answers the table that was in force, if there is another from now on.
    #[inline]
    pub fn begin(&mut self) -> Option<Arc<Table>> {
        let before = if self.requests >= self.requests_max { self.hand_over() } else { None };
        self.requests += 1;
        self.now = self.now.wrapping_add(1);
        before
    }

    /// Has what was seen learned from; answers the table that was in force, if there is another.
    fn hand_over(&mut self) -> Option<Arc<Table>> {
        let lesson = self.hints.teach(&mut self.events, self.requests, self.table.generation);
        (self.requests, self.requests_max) = (0, lesson.window_left.clamp(1, BATCH_REQUESTS));
        let before = std::mem::replace(&mut self.table, lesson.table?);
        if FOLLOWS_FEWER {
            self.follow(self.table.followed);
        }
        Some(before)
    }

    /// The request at hand asks for a page whose last request was `before`; what is to be known of the page now.
    pub fn hit(&mut self, access: &Access, before: Request) -> Request {
        self.missed = None;
        self.learn(access, Some(before))
    }

    /// The request at hand asks for a page that is not cached.
    pub fn miss(&mut self, access: &Access) {
        let before = self.outqueue.take(access.hash);
        let request = self.learn(access, before);
        self.missed = Some((access.hash, request.cell, false));
    }

    fn learn(&mut self, access: &Access, before: Option<Request>) -> Request {
        let reads = matches!(access.kind, AccessKind::Read | AccessKind::Prefetch);
        if let Some(before) = before
            && self.follows(before)
        {
            let age = self.now.wrapping_sub(before.at);
            match reads {
                true => self.events.push(Event::Reread(before.cell, age)),
                false if self.wants_ends => self.events.push(Event::Ended(before.cell, age)),
                false => {}
            }
        }
        let cell = self.hints.config().cells.cell(access.hints, before, self.now);
        if !self.wants_ends {
            self.events.push(Event::Requested(cell));
        }
        Request { at: self.now, cell }
    }

    /// What is to be known of the newcomer of the request at hand.
    pub fn newcomer(&self, access: &Access) -> Request {
        let cell = match self.missed {
            Some((hash, cell, _)) if hash == access.hash => cell,
            _ => self.hints.config().cells.cell(access.hints, None, self.now),
        };
        Request { at: self.now, cell }
    }

    /// The newcomer stays out: it is remembered.
    pub fn refuse(&mut self, access: &Access) {
        let request = self.newcomer(access);
        self.remember(access.hash, request);
        let follows = self.follows(request);
        if let Some((hash, _, in_outqueue)) = &mut self.missed {
            *in_outqueue = *hash == access.hash && follows;
        }
    }

    /// The newcomer has come in, even if it had been refused before.
    pub fn enter(&mut self, access: &Access) -> Request {
        let request = self.newcomer(access);
        if let Some((hash, _, true)) = self.missed.take()
            && hash == access.hash
        {
            self.outqueue.take(hash);
        }
        request
    }

    /// A page that was in use until now, without a request: as if it had been asked for now.
    pub fn refresh(&mut self, request: &mut Request) {
        self.now = self.now.wrapping_add(1);
        request.at = self.now;
    }

    /// Puts a page that is not cached into the outqueue, if its last request is followed.
    pub fn remember(&mut self, hash: u64, request: Request) {
        if self.follows(request) {
            self.outqueue.push(hash, request);
            self.trim();
        }
    }

    /// Another bound of the outqueue, for when all requests are followed.
    pub fn set_outqueue_max(&mut self, pages: u64) {
        self.pages_max = pages;
        self.outqueue_max = self.followed.of(pages).min(PAGES_MAX as u64) as usize;
        self.trim();
    }

    #[inline]
    fn follows(&self, request: Request) -> bool {
        !FOLLOWS_FEWER || self.followed.has(request)
    }

    #[cold]
    fn follow(&mut self, followed: Followed) {
        if followed != self.followed {
            self.followed = followed;
            self.outqueue.retain(|request| followed.has(request));
            self.set_outqueue_max(self.pages_max);
        }
    }

    fn trim(&mut self) {
        while self.outqueue.len() > self.outqueue_max {
            let Some(oldest) = self.outqueue.pop_oldest() else { break };
            if self.wants_ends {
                self.events.push(Event::Ended(oldest.cell, self.now.wrapping_sub(oldest.at)));
            }
        }
    }

    /// The number of the request at hand.
    #[inline]
    pub fn now(&self) -> u32 {
        self.now
    }

    /// The class of a cell.
    #[inline]
    pub fn class(&self, cell: u32) -> u32 {
        self.hints.class(&self.table, cell)
    }

    /// The table in force.
    #[inline]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Requests since `request`.
    #[inline]
    pub fn age(&self, request: Request) -> u32 {
        self.now.wrapping_sub(request.at)
    }

    /// How the hints of a cell read.
    pub fn describe(&self, cell: u32) -> String {
        self.hints.describe(cell)
    }

    /// For people: what is remembered of a page that is not cached.
    pub fn remembered(&self, hash: u64) -> Option<String> {
        let request = self.outqueue.get(hash)?;
        let (age, hints) = (self.age(request), self.describe(request.cell));
        let priority = self.table.priorities.get(self.class(request.cell) as usize).copied().unwrap_or_default();
        Some(format!(
            "in the outqueue: last asked for {age} requests ago with {hints}, whose priority is {priority:.3e}; it \
             comes in with a set of a higher priority than the least cached"
        ))
    }

    /// Bytes that it occupies.
    pub fn bytes(&self) -> usize {
        self.outqueue.bytes() + self.events.capacity() * size_of::<Event>()
    }

    /// Panics if it contradicts itself.
    pub fn validate(&self) {
        self.outqueue.validate();
        assert!(self.outqueue.len() <= self.outqueue_max, "the outqueue keeps its bound");
    }
}
