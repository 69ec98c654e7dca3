//! What waits for each client, in which part of the room, the pace that each client showed, and who waits for room. It
//! knows no clock and no lock.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use forebay::mutation::{self, Fault};

use crate::clients::Client;
use crate::limits::ServerLimits;

/// A client for which others wait takes so many bytes in so long a time, at least.
pub const STALL_BYTES: usize = 64 << 10;
pub const STALL_WAIT: Duration = Duration::from_secs(10);

/// A client for which others wait takes what waits for it within so long a time, and [`LATE_WAIT`].
pub const DRAIN_WAIT: Duration = Duration::from_secs(60);

/// So late a client may be with that.
pub const LATE_WAIT: Duration = Duration::from_secs(4);

/// Within so long a time a client takes what waits for it, or has no part in the lane.
pub const LANE_WAIT: Duration = Duration::from_secs(2);

/// So often those that wait look for clients that take nothing.
pub const LOOK_WAIT: Duration = Duration::from_secs(1);

/// Bytes that may wait.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For all clients.
    pub all: usize,
    /// What of that is for those that take quickly.
    pub lane: usize,
    /// A client that has less is not closed.
    pub share: usize,
}

impl Limits {
    pub fn of(limits: &ServerLimits) -> Limits {
        Limits {
            all: limits.replies_bytes_max,
            lane: limits.replies_bytes_max / 2,
            share: limits.replies_bytes_share(),
        }
    }

    pub fn ordinary(self) -> usize {
        self.all - self.lane
    }

    pub fn trial(self) -> usize {
        self.lane / 2
    }
}

/// The least time over which a pace is reckoned: what a socket takes at once has no pace.
const PACE_TIME_MIN: Duration = Duration::from_millis(10);

/// Of so many that have room after others were found to take nothing, the oldest is one, and the newest the others.
const OLDEST_EACH: usize = 4;

/// A part of the room, and the line of those that want it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Of all clients.
    Ordinary,
    /// Of those that take quickly.
    Lane,
    /// Of the lane: of those that have shown no pace yet.
    Trial,
}

const PARTS: usize = 3;

/// Room for `bytes` more beside the `own` that wait for a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub own: usize,
    pub bytes: usize,
}

impl Ask {
    fn all(self) -> usize {
        self.own.saturating_add(self.bytes)
    }
}

#[derive(Default)]
pub(super) struct State {
    /// Clients for which something has waited.
    holders: HashMap<u64, Holder>,
    /// Bytes in each part.
    sums: [usize; PARTS],
    /// Those that wait for room for a reply, in the order in which they came.
    waiting: [BTreeMap<u64, Waiter>; PARTS],
    next: u64,
    /// The last that had ordinary room came from the lane.
    moved: bool,
    /// Some were found to take nothing, and no ordinary room was granted since.
    stalled: bool,
    /// How often ordinary room was granted after that.
    after_stalls: usize,
    /// When one of those that wait last looked, and when at all clients.
    looked: Duration,
    looked_at_all: Duration,
}

/// A reply wider than the ordinary part, which is next.
#[derive(Clone, Copy)]
struct Wide {
    /// Others have that part, for which it waits before it waits for the lane.
    waits: bool,
    /// It lacks what is there for trials, too.
    needs_trial: bool,
}

struct Waiter {
    client: u64,
    /// What would wait for the client.
    wants: usize,
    waker: Waker,
}

struct Holder {
    client: Arc<Client>,
    bytes: usize,
    /// For a reply that is not encoded yet.
    reserved: usize,
    part: Part,
    /// A moment, and what it has taken since: less than [`STALL_BYTES`].
    stall: (Duration, usize),
    /// In which it takes what waited for it at the beginning within [`DRAIN_WAIT`], while others wait.
    drain: Window,
    /// In which it shows its pace: until it has taken what waited for it.
    window: Window,
    /// Bytes that it takes in [`LANE_WAIT`], as it last showed; `None` if it has shown no pace.
    pace: Option<usize>,
}

/// A time, what a client has taken since, and what waited for it at the beginning.
#[derive(Clone, Copy, Default)]
struct Window {
    since: Duration,
    taken: usize,
    due: usize,
}

impl Window {
    fn new(since: Duration, due: usize) -> Window {
        Window { since, taken: 0, due }
    }

    /// Whether less was taken than its part of [`DRAIN_WAIT`] asks for, [`LATE_WAIT`] later.
    fn drains_late(&self, now: Duration) -> bool {
        let time = now.saturating_sub(self.since).saturating_sub(LATE_WAIT);
        (self.taken as u128) * DRAIN_WAIT.as_millis() < (self.due as u128) * time.as_millis()
    }
}

impl Holder {
    fn new(client: Arc<Client>) -> Holder {
        let (stall, drain, window) = ((Duration::ZERO, 0), Window::default(), Window::default());
        Holder { client, bytes: 0, reserved: 0, part: Part::Ordinary, stall, drain, window, pace: None }
    }

    fn all(&self) -> usize {
        self.bytes + self.reserved
    }

    /// `bytes` wait now and no more is reserved than `reserved`; what is gone was taken.
    fn put(&mut self, bytes: usize, reserved: usize, now: Duration) {
        let all = self.all();
        if self.bytes == 0 {
            self.stall = (now, 0);
            self.drain = Window::new(now, bytes);
            self.window = Window::new(now, all.max(bytes));
        }
        let taken = self.bytes.saturating_sub(bytes);
        self.stall.1 += taken;
        if self.stall.1 >= STALL_BYTES {
            self.stall = (now, 0);
        }
        self.drain.taken += taken;
        if self.drain.taken >= self.drain.due {
            self.drain = Window::new(now, bytes);
        }
        self.window.taken += all.saturating_sub(bytes + reserved);
        (self.bytes, self.reserved) = (bytes, reserved);
        self.judge(now);
    }

    /// Reckons the pace where a window ends, and of one that is long. Too little shows no pace, unless it is not
    /// taken either.
    fn judge(&mut self, now: Duration) {
        let Window { since, taken, due } = self.window;
        let time = now.saturating_sub(since);
        let (ends, is_long) = (taken >= due || self.bytes == 0, time >= LANE_WAIT && self.bytes > 0);
        if is_long || (ends && taken >= STALL_BYTES) {
            let time = time.max(PACE_TIME_MIN).as_millis();
            let pace = (taken as u128).saturating_mul(LANE_WAIT.as_millis()) / time;
            self.pace = Some(usize::try_from(pace).unwrap_or(usize::MAX));
        }
        if ends {
            self.window = Window::new(now, self.bytes);
        }
    }

    /// Others wait for room from now on. That it took nothing before counts, but it has [`LANE_WAIT`] to take some.
    fn asked_for(&mut self, now: Duration) {
        let most = match mutation::on(Fault::StalledGoFirst) {
            true => Duration::ZERO,
            false => STALL_WAIT - LANE_WAIT,
        };
        self.stall.0 = self.stall.0.max(now.saturating_sub(most));
        self.drain = Window::new(now, self.bytes);
    }

    /// Whether it takes too little while its own requests wait for that, or those of `others`.
    fn stalls(&self, now: Duration, others: bool) -> bool {
        let drains_late = others && self.drain.drains_late(now) && !mutation::on(Fault::StalledGoFirst);
        now.saturating_sub(self.stall.0) >= STALL_WAIT || drains_late
    }

    /// The part in which `bytes` of it belong.
    fn part_of(&self, bytes: usize) -> Part {
        match self.pace {
            None => Part::Trial,
            Some(pace) if bytes <= pace => Part::Lane,
            Some(_) => Part::Ordinary,
        }
    }
}

impl State {
    /// A place in the lines for room.
    pub fn stand(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Nobody has this place any more.
    pub fn leave(&mut self, place: u64) {
        self.waiting.iter_mut().for_each(|line| _ = line.remove(&place));
        self.wake();
    }

    /// Bytes of all.
    pub fn all(&self) -> usize {
        self.sums.iter().sum()
    }

    /// Where `client` is.
    #[cfg(test)]
    pub fn part(&self, client: u64) -> Part {
        self.holders.get(&client).map_or(Part::Ordinary, |holder| holder.part)
    }

    fn sum(&self, part: Part) -> usize {
        self.sums[part as usize]
    }

    /// So many bytes wait for `client` now, and so many are reserved for it.
    pub fn put(&mut self, client: &Arc<Client>, bytes: usize, reserved: usize, now: Duration, limits: Limits) {
        let holder = self.holders.entry(client.id).or_insert_with(|| Holder::new(client.clone()));
        let (part, before) = (holder.part, holder.all());
        holder.put(bytes, reserved, now);
        self.sums[part as usize] -= before;
        self.sums[part as usize] += bytes + reserved;
        self.place(client.id, limits);
        if bytes + reserved < before {
            self.wake();
        }
    }

    fn move_to(&mut self, client: u64, part: Part) {
        if let Some(holder) = self.holders.get_mut(&client) {
            self.sums[holder.part as usize] -= holder.all();
            self.sums[part as usize] += holder.all();
            holder.part = part;
        }
    }

    /// Moves a client that has shown its pace. One that is too slow for the lane leaves it when there is ordinary room,
    /// in turns with those that wait for that.
    fn place(&mut self, client: u64, limits: Limits) {
        let ordinary = self.sum(Part::Ordinary);
        let Some(holder) = self.holders.get(&client) else { return };
        let all = holder.all();
        let is_turn = !self.moved || self.waiting.iter().all(BTreeMap::is_empty);
        let leaves = is_turn && ordinary.saturating_add(all) <= limits.ordinary();
        let part = match (holder.part, holder.part_of(all)) {
            (Part::Ordinary, _) => return,
            _ if all == 0 => Part::Ordinary,
            (Part::Trial, Part::Lane) => Part::Lane,
            (_, Part::Ordinary) if leaves => Part::Ordinary,
            (part, _) => part,
        };
        self.moved |= part == Part::Ordinary && all > 0;
        self.move_to(client, part);
    }

    /// The client is gone.
    pub fn remove(&mut self, client: u64) {
        if let Some(holder) = self.holders.remove(&client) {
            self.sums[holder.part as usize] -= holder.all();
            self.wake();
        }
    }

    /// Whether there is no more room in the part in which `client` is.
    pub fn is_full(&self, client: u64, limits: Limits) -> bool {
        match self.holders.get(&client).map_or(Part::Ordinary, |holder| holder.part) {
            Part::Ordinary => self.sum(Part::Ordinary) > limits.ordinary(),
            Part::Lane | Part::Trial => self.sum(Part::Lane) + self.sum(Part::Trial) > limits.lane,
        }
    }

    /// Counts what `client` asks for if there is room for it and it is its turn. `place`: `None` if it has none.
    pub fn grant(&mut self, client: &Arc<Client>, ask: Ask, place: Option<u64>, now: Duration, limits: Limits) -> bool {
        let Some(part) = self.part_for(client.id, ask, place.unwrap_or(u64::MAX), limits) else { return false };
        self.move_to(client.id, part);
        self.put(client, ask.own, ask.bytes, now, limits);
        self.move_to(client.id, part);
        if part == Part::Ordinary {
            self.moved = false;
            self.after_stalls += usize::from(std::mem::take(&mut self.stalled));
        }
        debug_assert!(self.all() <= limits.all || self.all() == ask.all(), "more than there is room for");
        true
    }

    /// The line in which `client` waits for room.
    fn line_of(&self, client: u64, ask: Ask, limits: Limits) -> Part {
        let part = self.holders.get(&client).map_or(Part::Trial, |holder| holder.part_of(ask.all()));
        let most = match part {
            Part::Ordinary => return part,
            Part::Lane => limits.lane,
            Part::Trial => limits.trial(),
        };
        if ask.all() <= most { part } else { Part::Ordinary }
    }

    /// Where `client` has what it asks for.
    fn part_for(&self, client: u64, ask: Ask, place: u64, limits: Limits) -> Option<Part> {
        let line = self.line_of(client, ask, limits);
        let is_first = |line: Part| self.waiting[line as usize].first_key_value().is_none_or(|(at, _)| *at >= place);
        let is_last = |line: Part| self.waiting[line as usize].last_key_value().is_none_or(|(at, _)| *at <= place);
        let all_lines = || [Part::Ordinary, Part::Lane, Part::Trial].into_iter();
        let is_next = if self.is_newest_next() { all_lines().all(is_last) } else { all_lines().all(is_first) };
        let (own, held) = self.holders.get(&client).map_or((line, 0), |holder| (holder.part, holder.all()));
        let beside = |part: Part| self.sum(part) - if own == part { held } else { 0 };
        let (ordinary, lane, trial) = (beside(Part::Ordinary), beside(Part::Lane), beside(Part::Trial));
        let others = ordinary + lane + trial;
        let within = |bytes: usize, most: usize| bytes.saturating_add(ask.all()) <= most;
        let has_ordinary = within(ordinary, limits.ordinary()) && within(others, limits.all)
            || ordinary == 0 && within(others, limits.all)
            || others == 0;
        let wide_is_next = if is_next { None } else { self.wide_is_next(client, limits) };
        let is_beside = |wide: Wide| !wide.needs_trial && within(lane + trial, limits.trial());
        let has_lane = within(lane + trial, limits.lane) && within(others, limits.all);
        let has_part = has_lane
            && match line {
                Part::Ordinary => false,
                Part::Lane => is_first(line) && wide_is_next.is_none_or(|wide| wide.waits),
                Part::Trial => is_last(line) && within(trial, limits.trial()) && wide_is_next.is_none_or(is_beside),
            };
        match (has_part, is_next && has_ordinary) {
            (true, false) => Some(line),
            (true, true) if line == Part::Lane => Some(line),
            (_, true) => Some(Part::Ordinary),
            (false, false) => None,
        }
    }

    /// Whether the next ordinary room is for the newest. Those that came before may be of the kind that was just found
    /// to take nothing, and each would hold the room for [`STALL_WAIT`].
    fn is_newest_next(&self) -> bool {
        self.stalled && self.after_stalls % OLDEST_EACH != OLDEST_EACH - 1 && !mutation::on(Fault::StalledGoFirst)
    }

    /// Who is to have the next ordinary room.
    fn next(&self) -> Option<&Waiter> {
        let lines = self.waiting.iter();
        let next = match self.is_newest_next() {
            true => lines.filter_map(BTreeMap::last_key_value).max_by_key(|(place, _)| **place),
            false => lines.filter_map(BTreeMap::first_key_value).min_by_key(|(place, _)| **place),
        };
        next.map(|(_, waiter)| waiter)
    }

    /// The reply that is next if it is wider than the ordinary part, and not what `client` asks for.
    fn wide_is_next(&self, client: u64, limits: Limits) -> Option<Wide> {
        let next = self.next().filter(|next| next.client != client && next.wants > limits.ordinary())?;
        let of_next = self.holders.get(&next.client).filter(|holder| holder.part == Part::Ordinary);
        let waits = self.sum(Part::Ordinary) > of_next.map_or(0, Holder::all);
        let beside = limits.all - limits.trial();
        Some(Wide { waits, needs_trial: next.wants > beside || mutation::on(Fault::StalledGoFirst) })
    }

    /// `client` waits for room at `place`.
    pub fn wait(&mut self, client: &Client, ask: Ask, place: u64, waker: &Waker, limits: Limits) {
        self.waiting.iter_mut().for_each(|line| _ = line.remove(&place));
        let line = self.line_of(client.id, ask, limits);
        let waiter = Waiter { client: client.id, wants: ask.all(), waker: waker.clone() };
        self.waiting[line as usize].insert(place, waiter);
    }

    /// Those that may go on if anyone may ask again.
    fn wake(&self) {
        let last = self.waiting[Part::Trial as usize].last_key_value();
        let firsts = self.waiting.iter().filter_map(BTreeMap::first_key_value).chain(last);
        for waiter in firsts.map(|(_, waiter)| waiter).chain(self.next().filter(|_| self.is_newest_next())) {
            waiter.waker.wake_by_ref();
        }
    }

    /// The clients that hold more than their share and do not take it in time; `only`: no other. Those that have the
    /// lane and do not take quickly lose it. However many wait, all clients are looked at twice in [`LOOK_WAIT`] at
    /// most.
    pub fn look(&mut self, now: Duration, limits: Limits, only: Option<u64>) -> Vec<Arc<Client>> {
        if now.saturating_sub(std::mem::replace(&mut self.looked, now)) > STALL_WAIT {
            for holder in self.holders.values_mut() {
                holder.asked_for(now);
            }
        }
        if let Some(only) = only {
            let stalls = |holder: &&Holder| holder.bytes > limits.share && holder.stalls(now, false);
            return self.holders.get(&only).filter(stalls).map(|holder| holder.client.clone()).into_iter().collect();
        }
        if now.saturating_sub(self.looked_at_all) < LOOK_WAIT / 2 {
            return Vec::new();
        }
        self.looked_at_all = now;
        let (mut stalled, mut in_lane) = (Vec::new(), Vec::new());
        for (id, holder) in self.holders.iter_mut().filter(|(_, holder)| holder.bytes > 0) {
            holder.judge(now);
            if holder.part != Part::Ordinary {
                in_lane.push(*id);
            }
            stalled.extend((holder.bytes > limits.share && holder.stalls(now, true)).then(|| holder.client.clone()));
        }
        in_lane.into_iter().for_each(|id| self.place(id, limits));
        self.stalled |= !stalled.is_empty();
        self.wake();
        stalled
    }
}
