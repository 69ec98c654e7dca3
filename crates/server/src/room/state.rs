//! How much of the room each client has, which of them wait, and which has the lane. It knows no clock and no lock.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use forebay::mutation::{self, Fault};

use crate::clients::Client;
use crate::limits::ServerLimits;

/// How long the first waits for wide requests that run.
pub const WIDE_WAIT: Duration = Duration::from_millis(250);

/// Over so long a time it is judged whether a client is slow, while others wait.
pub const PACE_WAIT: Duration = Duration::from_secs(4);

/// For so long a client has the lane if another wants it; so often those that wait look.
pub const LANE_TURN: Duration = Duration::from_secs(1);

/// Bytes that large requests may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Those that are complete and the first that is not.
    pub all: usize,
    /// Those that are not complete, but for the first of them.
    pub others: usize,
    /// What of that is for the one whose turn it is.
    pub lane: usize,
    /// The short ones together, until they are served, and one of them.
    pub short: usize,
    pub short_each: usize,
    /// What a client sends in a second, at least.
    pub per_s_min: usize,
}

impl Limits {
    /// A request that is served is there twice, as it came and as the document that it makes: so half of
    /// `held_bytes_max` is for these and the first. What is left is for MULTI and TXN.
    pub fn of(limits: &ServerLimits) -> Limits {
        let (held, per_s_min) = (limits.held_bytes_max, limits.large_request_bytes_per_s_min);
        let (short, short_each) = (held / 16, held / 64);
        Limits { all: held / 2 - short, others: held / 4, lane: held / 16 * 3, short, short_each, per_s_min }
    }
}

/// What an unfinished request takes with its next step, and what it takes at least when it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What has arrived and the next step.
    pub bytes: usize,
    /// The whole, as far as it is announced.
    pub least: usize,
    /// That is all of it, or nearly so.
    pub known: bool,
    /// How much of that waits to be read.
    pub arrived: Arrived,
}

/// What of a request has come and waits to be read; what has most there is read first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arrived {
    /// All that is missing.
    Whole,
    /// Much of the next step.
    Step,
    /// Little or nothing.
    Little,
}

#[derive(Default)]
pub(super) struct State {
    /// By number: in the order in which their requests became large.
    holders: HashMap<u64, Holder>,
    /// The numbers of clients.
    numbers: HashMap<u64, u64>,
    next_number: u64,
    /// Numbers of requests that are not complete.
    unfinished: BTreeSet<u64>,
    /// Those of them that wait.
    waiting: BTreeSet<u64>,
    /// Which of them has the lane, and since when.
    lane: Option<(u64, Duration)>,
    /// Bytes of all, and of those that are complete.
    bytes: usize,
    served_bytes: usize,
    /// What the short ones have in the room that is theirs.
    short_bytes: usize,
    /// What the wide ones that run take for their keys and elements.
    wide_bytes: usize,
    /// The last request that was first and waited for them, and since when.
    behind_wide: Option<(u64, Duration)>,
    /// When one of those that wait last looked for a slow client.
    looked: Duration,
}

struct Holder {
    client: Arc<Client>,
    bytes: usize,
    /// What it has in the room of the short ones, for the whole of its request.
    short_bytes: usize,
    /// What it has sent.
    received: usize,
    /// A moment, and what it had sent by then: its pace is that since.
    pace: (Duration, usize),
    /// It was told to wait: until it has room nothing is read from it.
    held_up: bool,
    /// What its request takes at least when it is complete.
    least: usize,
    /// It may have room among the short ones, if it is short.
    known: bool,
    /// What of it waits to be read.
    arrived: Arrived,
    /// How often it had the lane.
    lanes: u32,
    /// It waits.
    waits: Option<Waker>,
}

impl Holder {
    fn new(client: Arc<Client>, now: Duration) -> Holder {
        let pace = (now, 0);
        Holder {
            client,
            bytes: 0,
            short_bytes: 0,
            received: 0,
            pace,
            held_up: false,
            least: 0,
            known: false,
            arrived: Arrived::Little,
            lanes: 0,
            waits: None,
        }
    }

    /// Its pace counts from `now`.
    fn begin_pace(&mut self, now: Duration) {
        self.pace = (now, self.received);
    }

    /// Whether it does not send as it has to. What it sends in a second may come in the next.
    fn is_slow(&mut self, now: Duration, per_s_min: usize) -> bool {
        let (since, before) = self.pace;
        let time = now.saturating_sub(since);
        if self.held_up || time < PACE_WAIT {
            return false;
        }
        let seconds = time.as_secs() as usize - 1;
        let slow = self.received.saturating_sub(before) < per_s_min.saturating_mul(seconds);
        self.begin_pace(now);
        slow
    }
}

impl State {
    /// The number of the request of `client` that is not complete.
    fn number_of(&mut self, client: &Arc<Client>, now: Duration) -> u64 {
        match self.numbers.get(&client.id).copied() {
            Some(number) if self.unfinished.contains(&number) => return number,
            // Its next request has a number of its own.
            Some(_) => self.remove(client.id),
            None => {}
        }
        let number = self.next_number;
        self.next_number += 1;
        self.numbers.insert(client.id, number);
        self.unfinished.insert(number);
        self.holders.insert(number, Holder::new(client.clone(), now));
        number
    }

    /// The client has no large request any more.
    pub fn remove(&mut self, client: u64) {
        let Some(number) = self.numbers.remove(&client) else { return };
        self.stop_waiting(number);
        self.leave_lane(number);
        let (bytes, short) = self.holders.remove(&number).map_or((0, 0), |holder| (holder.bytes, holder.short_bytes));
        self.bytes -= bytes;
        self.short_bytes -= short;
        self.served_bytes -= if self.unfinished.remove(&number) { 0 } else { bytes };
    }

    /// The request of `client` is complete: it is another's turn.
    pub fn complete(&mut self, client: &Client) {
        let Some(number) = self.numbers.get(&client.id).copied() else { return };
        self.stop_waiting(number);
        self.leave_lane(number);
        if self.unfinished.remove(&number) {
            self.served_bytes += self.bytes_of(number);
        }
    }

    /// The client has sent so many bytes of its unfinished request by now, within the room that it has.
    pub fn heard(&mut self, client: &Client, received: usize) {
        let number = self.numbers.get(&client.id).copied();
        if let Some(holder) = number.and_then(|number| self.holders.get_mut(&number)) {
            holder.received = received;
        }
    }

    pub fn stop_waiting(&mut self, number: u64) -> Option<Waker> {
        self.waiting.remove(&number);
        self.holders.get_mut(&number)?.waits.take()
    }

    /// Whether a large request waits.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn leave_lane(&mut self, number: u64) {
        self.lane = self.lane.filter(|(has, _)| *has != number);
    }

    fn bytes_of(&self, number: u64) -> usize {
        self.holders.get(&number).map_or(0, |holder| holder.bytes)
    }

    fn first(&self) -> Option<u64> {
        self.unfinished.first().copied()
    }

    /// What those have that are neither complete nor first, but for `number`.
    fn beside(&self, number: u64) -> usize {
        let first = self.first();
        let bytes_of_first = first.map_or(0, |first| self.bytes_of(first));
        let own = if first == Some(number) { 0 } else { self.bytes_of(number) };
        self.bytes - self.served_bytes - bytes_of_first - own
    }

    /// A wide request runs on so much more, or on so much less.
    pub fn widen(&mut self, bytes: usize) {
        self.wide_bytes += if mutation::on(Fault::UnderwayUncounted) { 0 } else { bytes };
    }

    pub fn narrow(&mut self, bytes: usize) {
        self.wide_bytes = self.wide_bytes.saturating_sub(bytes);
    }

    /// What the wide ones count for at `now`: nothing once the first has waited for them for [`WIDE_WAIT`].
    fn counted(&mut self, limits: Limits, now: Duration) -> usize {
        let wide = self.wide_bytes.min(limits.all - limits.lane);
        let Some(first) = self.first().filter(|first| wide > 0 && self.waiting.contains(first)) else { return wide };
        let since = self.behind_wide.filter(|(waits, _)| *waits == first).map_or(now, |(_, since)| since);
        self.behind_wide = Some((first, since));
        if now.saturating_sub(since) < WIDE_WAIT { wide } else { 0 }
    }

    /// Whether a request of so many bytes in all has room among the short ones.
    fn has_short_room(&self, number: u64, bytes: usize, limits: Limits) -> bool {
        let own = self.holders.get(&number).map_or(0, |holder| holder.short_bytes);
        let most = if mutation::on(Fault::ShortUncounted) { usize::MAX } else { limits.short };
        bytes <= limits.short_each && self.short_bytes - own + bytes <= most
    }

    /// What `number` has is `bytes` from now on, and `short` among the short ones.
    fn resize(&mut self, number: u64, bytes: usize, short: usize, now: Duration) {
        let Some(holder) = self.holders.get_mut(&number) else { return };
        let before = (std::mem::replace(&mut holder.bytes, bytes), std::mem::replace(&mut holder.short_bytes, short));
        if std::mem::take(&mut holder.held_up) {
            holder.begin_pace(now);
        }
        self.bytes = self.bytes + bytes - before.0;
        self.short_bytes = self.short_bytes + short - before.1;
        self.stop_waiting(number);
    }

    /// Whether there is room, if the wide ones count for so many bytes.
    fn has_room(&self, number: u64, bytes: usize, limits: Limits, wide: usize) -> bool {
        let served = self.served_bytes.saturating_add(wide);
        let first = self.first();
        if first == Some(number) {
            return self.served_bytes == 0 || served.saturating_add(bytes) <= limits.all;
        }
        if wide > 0 && first.is_some_and(|first| self.waiting.contains(&first)) {
            return false;
        }
        let others = self.beside(number).saturating_add(bytes);
        let kept = if self.lane.is_some_and(|(has, _)| has == number) { 0 } else { limits.lane };
        others.saturating_add(kept) <= limits.others && served.saturating_add(others) <= limits.all
    }

    /// What of a request waits to be read.
    fn arrived(&self, number: u64) -> Arrived {
        let holder = self.holders.get(&number).filter(|_| !mutation::on(Fault::StalledKeepRoom));
        holder.map_or(Arrived::Little, |holder| holder.arrived)
    }

    /// Gives the lane to the next that may have it, if none has it or its time is up; the one that has it now but had
    /// not before.
    pub fn pass_lane(&mut self, limits: Limits, now: Duration) -> Option<u64> {
        let keeps = |(has, since): (u64, Duration)| {
            let time_up = now.saturating_sub(since) >= LANE_TURN;
            self.first() != Some(has) && !time_up
        };
        if self.lane.is_some_and(keeps) {
            return None;
        }
        let first = self.first();
        let fits = |number: &u64| {
            let least = self.holders.get(number).map_or(0, |holder| holder.least);
            let has = self.lane.is_some_and(|(has, _)| has == *number);
            Some(*number) != first
                && !has
                && least <= limits.lane
                && self.beside(*number).saturating_add(least) <= limits.others
        };
        let lanes = |number: &u64| self.holders.get(number).map_or(0, |holder| holder.lanes);
        let order = |number: &u64| (self.arrived(*number), lanes(number), *number);
        let next = self.waiting.iter().copied().filter(fits).min_by_key(order);
        let Some(next) = next else {
            self.lane = self.lane.filter(|(has, _)| Some(*has) != first);
            return None;
        };
        self.lane = Some((next, now));
        if let Some(holder) = self.holders.get_mut(&next) {
            holder.lanes += 1;
        }
        Some(next)
    }

    /// Ready if there is room for what the unfinished request of `client` claims; else `waker` is told when to ask. The
    /// other that has got the lane may be `woken`.
    pub fn poll(
        &mut self,
        client: &Arc<Client>,
        claim: Claim,
        (limits, now): (Limits, Duration),
        waker: Option<&Waker>,
        woken: &mut Vec<Waker>,
    ) -> Poll<()> {
        let number = self.number_of(client, now);
        let Some(holder) = self.holders.get_mut(&number) else {
            debug_assert!(false, "a client that has a number is there");
            return Poll::Ready(());
        };
        (holder.least, holder.known, holder.arrived) = (claim.least, claim.known, claim.arrived);
        holder.waits = waker.cloned();
        match waker {
            Some(_) => self.waiting.insert(number),
            None => self.waiting.remove(&number),
        };
        let whole = claim.bytes.max(claim.least);
        if claim.known && self.has_short_room(number, whole, limits) {
            self.leave_lane(number);
            self.resize(number, 0, whole, now);
            return Poll::Ready(());
        }
        let wide = self.counted(limits, now);
        let mut has_room = self.has_room(number, claim.bytes, limits, wide);
        if !has_room {
            match self.pass_lane(limits, now) {
                Some(given) if given != number => woken.extend(self.stop_waiting(given)),
                given => has_room = given.is_some() && self.has_room(number, claim.bytes, limits, wide),
            }
        }
        if !has_room {
            self.holders.entry(number).and_modify(|holder| holder.held_up = true);
            return Poll::Pending;
        }
        self.resize(number, claim.bytes, 0, now);
        Poll::Ready(())
    }

    /// Has those look again of whom one has room if any of those that wait has: the first, the one that has the lane,
    /// the oldest, and the oldest short one if it has room among the short ones; of these such as have most there.
    pub fn wake(&mut self, limits: Limits, now: Duration) -> Vec<Waker> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        self.pass_lane(limits, now);
        let (first, lane) = (self.first(), self.lane.map(|(has, _)| has));
        let order = |number: &u64| (self.arrived(*number), *number);
        let others = self.waiting.iter().copied().filter(|number| Some(*number) != first && Some(*number) != lane);
        let oldest = others.min_by_key(order);
        let known = |number: &u64| self.holders.get(number).filter(|holder| holder.known).map(|holder| holder.least);
        let is_short = |(_, least): &(u64, usize)| *least <= limits.short_each;
        let short = self.waiting.iter().filter_map(|number| Some((*number, known(number)?))).filter(is_short);
        let short = short.min_by_key(|(number, _)| order(number));
        let short =
            short.filter(|(number, least)| self.has_short_room(*number, *least, limits)).map(|(number, _)| number);
        [first, lane, oldest, short].into_iter().flatten().filter_map(|number| self.stop_waiting(number)).collect()
    }

    /// The clients that have room and do not use it while others wait. Those that wait ask every [`LANE_TURN`].
    pub fn slow(&mut self, now: Duration, limits: Limits) -> Vec<Arc<Client>> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let none_waited = now.saturating_sub(std::mem::replace(&mut self.looked, now)) > PACE_WAIT;
        let mut slow = Vec::new();
        for number in &self.unfinished {
            let Some(holder) = self.holders.get_mut(number) else {
                debug_assert!(false, "a client that has a number is there");
                continue;
            };
            if none_waited {
                holder.begin_pace(now);
            }
            if holder.is_slow(now, limits.per_s_min) {
                slow.push(holder.client.clone());
            }
        }
        slow
    }

    /// What all have room for now, the short ones included.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes + self.short_bytes
    }

    /// What the short ones have of that.
    #[cfg(test)]
    pub fn short_bytes(&self) -> usize {
        self.short_bytes
    }

    /// What `client` has sent of its request.
    #[cfg(test)]
    pub fn received(&self, client: &Client) -> usize {
        self.numbers.get(&client.id).map_or(0, |number| self.holders[number].received)
    }
}
