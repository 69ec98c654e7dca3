//! The shadows at work: each access goes to all of them, and one judge counts what each would have saved.

use std::time::Duration;

use forebay::Shadow;
use forebay::cache::{Cache, LENT_UNNOTICED_BYTES, Sample};
use forebay::policy::{Access, Choice, JUDGED_MAX, Judge};

use super::feed::{Batch, Ends, Heard, Tear, What, Word};
use super::figures::{Figures, Row};

/// Multiples of the server's memory at which each policy runs, in quarters of it.
const QUARTERS: [u32; 4] = [4, 2, 8, 16];

/// Most policies: each has a cache at each size, and one place is the live cache's.
pub const SHADOW_POLICIES_MAX: usize = (JUDGED_MAX - 1) / QUARTERS.len();

/// A cache keeps one so-manyth of its budget whatever it lends.
const KEPT_SHARE: usize = 4;

/// What shadows are made with.
#[derive(Clone, Debug)]
pub struct ShadowOptions {
    /// The policies to compare, at most [`SHADOW_POLICIES_MAX`].
    pub policies: Vec<Choice>,
    /// What the server runs.
    pub present: Choice,
    /// The server's `--memory`, in bytes: sizes are told as multiples of it.
    pub memory: u64,
    /// What shadows and their queue may take, in bytes.
    pub bytes_max: usize,
    /// Of which keys they hear; policies that follow transactions need all.
    pub sample: Sample,
}

/// One shadow, and what it stands for.
struct Cached {
    policy: String,
    quarters: u32,
    budget_bytes: usize,
    /// `None`: it had to go, since all together were too large.
    shadow: Option<Shadow>,
}

/// What was counted beside what the judge counts.
#[derive(Clone, Copy, Default)]
struct Counts {
    /// Accesses and ends that were told, and those that were left out.
    heard: u64,
    missed: u64,
    /// Times that a shadow had to be emptied because it was not known which keys had left.
    emptied: u64,
    /// Reads of the store that requests waited for, and how long they did.
    fetches: u64,
    fetched_us: u64,
}

/// See the module.
pub(super) struct Judged {
    caches: Vec<Cached>,
    /// The live cache is the first that it judges.
    judge: Judge,
    memory: u64,
    bytes_max: usize,
    live: (String, u64),
    sample: Sample,
    /// Hits and misses of the live cache when it was counted from zero.
    before: (u64, u64),
    /// Of transactions up to this number something may be missing.
    torn_up_to: u64,
    counts: Counts,
    /// Of the read of the store that was counted last: its transaction and level.
    fetched: (u64, u16),
    since: Duration,
}

impl Judged {
    /// Shadows of `cache`, all empty. The first is that of what the server runs.
    pub fn new(options: &ShadowOptions, cache: &Cache, now: Duration) -> Judged {
        let budget = cache.stats().budget_bytes;
        let present = options.present.to_string();
        let others = options.policies.iter().filter(|choice| choice.to_string() != present);
        let policies: Vec<&Choice> = std::iter::once(&options.present).chain(others).collect();
        let cached = |choice: &Choice, quarters: u32| {
            let budget_bytes = budget / 4 * u64::from(quarters) / options.sample.keys();
            let budget_bytes = usize::try_from(budget_bytes).unwrap_or(usize::MAX);
            let shadow = Some(Shadow::new(choice, budget_bytes, cache.partitions()));
            Cached { policy: choice.to_string(), quarters, budget_bytes, shadow }
        };
        // By size: those that are needed least are the last.
        let pairs = QUARTERS.iter().flat_map(|quarters| policies.iter().map(move |choice| (*choice, *quarters)));
        let named = |choice: &Choice| options.policies.iter().any(|named| named.to_string() == choice.to_string());
        // Of a policy that is not among those that were named only the check is needed.
        let wanted = pairs.filter(|(choice, quarters)| *quarters == QUARTERS[0] || named(choice));
        let caches: Vec<Cached> = wanted.map(|(choice, quarters)| cached(choice, quarters)).collect();
        Judged {
            judge: Judge::new(caches.len() + 1),
            caches,
            memory: options.memory,
            bytes_max: options.bytes_max,
            live: (present, budget),
            sample: options.sample,
            before: counted(cache),
            torn_up_to: 0,
            counts: Counts::default(),
            fetched: (0, 0),
            since: now,
        }
    }

    /// Hears what was told, in its order. `cache`: the live one; `now` on the runtime's clock.
    pub fn hear(&mut self, batch: &mut Batch, cache: &Cache, now: Duration) {
        self.follow_lent(cache.lent_bytes());
        let mut words = batch.words.drain(..).peekable();
        for (place, heard) in batch.heard.iter().enumerate() {
            while let Some((_, word)) = words.next_if(|(at, _)| *at <= place) {
                self.word(word, cache, now);
            }
            self.access(heard);
        }
        if let Some(tear) = batch.tear {
            self.torn(tear);
        }
        self.keep_within();
        for (_, word) in words {
            self.word(word, cache, now);
        }
    }

    fn shadows(&mut self) -> impl Iterator<Item = &mut Shadow> {
        self.caches.iter_mut().filter_map(|cached| cached.shadow.as_mut())
    }

    fn access(&mut self, heard: &Heard) {
        self.counts.heard += u64::from(heard.what != What::Gone);
        let mut access = heard.access();
        match heard.what {
            What::Hit | What::Miss | What::Beside => {
                self.count_fetch(heard);
                if heard.what == What::Hit {
                    // What it would have cost is not known, only what others cost.
                    access.cost_us = self.counts.fetched_us.checked_div(self.counts.fetches).unwrap_or(0) as u32;
                }
                let mut hits = u64::from(heard.what == What::Hit);
                for (at, cached) in self.caches.iter_mut().enumerate() {
                    let Some(shadow) = &mut cached.shadow else { continue };
                    let hit = match heard.what {
                        What::Beside => shadow.read_beside(&access),
                        _ => shadow.read(&access, heard.what == What::Miss),
                    };
                    hits |= u64::from(hit) << (at + 1);
                }
                self.judge.access(&self.judged(access), hits);
            }
            What::Write | What::Prefetch => {
                self.shadows().for_each(|shadow| shadow.put(&access));
                self.judge.access(&self.judged(access), 0);
            }
            What::WrittenAway => {
                self.shadows().for_each(|shadow| shadow.remove(access.hash));
                self.judge.access(&self.judged(access), 0);
            }
            What::Gone => self.shadows().for_each(|shadow| shadow.remove(access.hash)),
            What::End => {}
        }
        if heard.ends != Ends::No {
            let committed = heard.ends == Ends::Committed;
            self.shadows().for_each(|shadow| shadow.ended(heard.txn, committed));
            self.judge.ended(heard.txn, committed);
        }
    }

    /// As it is judged: one of a transaction of which something is missing belongs to none.
    fn judged(&self, access: Access) -> Access {
        let txn = if access.txn > self.torn_up_to { access.txn } else { 0 };
        Access { txn, ..access }
    }

    /// All that one level fetches is one round trip.
    fn count_fetch(&mut self, heard: &Heard) {
        let of = (heard.txn, heard.level);
        if heard.what == What::Miss && heard.cost_us > 0 && (of != self.fetched || heard.txn == 0) {
            self.counts.fetches += 1;
            self.counts.fetched_us += u64::from(heard.cost_us);
            self.fetched = of;
        }
    }

    fn word(&mut self, word: Word, cache: &Cache, now: Duration) {
        match word {
            Word::Cleared { begins_again: true } => self.shadows().for_each(Shadow::reset),
            Word::Cleared { begins_again: false } => self.shadows().for_each(Shadow::clear),
            Word::HintsDefined(set, meaning) => {
                self.shadows().for_each(|shadow| shadow.define_hints(set, &meaning));
            }
            Word::GraphRegistered(txn_type, graph) => {
                self.shadows().for_each(|shadow| shadow.register_graph(txn_type, &graph));
                self.judge.register_graph(txn_type, &graph);
            }
            Word::Asked { begins_again, answer } => {
                // The client that asked may have gone.
                let _ = answer.send(self.figures(cache, now));
                if begins_again {
                    self.judge.reset();
                    (self.counts, self.since, self.before) = (Counts::default(), now, counted(cache));
                }
            }
        }
    }

    fn torn(&mut self, tear: Tear) {
        self.counts.missed += tear.missed;
        self.torn_up_to = tear.newest_txn;
        self.judge.forget_open();
        if tear.gone {
            self.counts.emptied += 1;
            self.shadows().for_each(Shadow::clear);
        }
    }

    /// As the live cache does, shadows make way for what it lends.
    fn follow_lent(&mut self, lent_bytes: usize) {
        let lent = lent_bytes.saturating_sub(LENT_UNNOTICED_BYTES) / self.sample.keys() as usize;
        for cached in &mut self.caches {
            let most = cached.budget_bytes - cached.budget_bytes / KEPT_SHARE;
            if let Some(shadow) = &mut cached.shadow {
                shadow.set_room(cached.budget_bytes - lent.min(most));
            }
        }
    }

    /// While all together take too much, the last one goes: of the largest size, and of the policy that was named last.
    fn keep_within(&mut self) {
        while self.bytes() > self.bytes_max {
            let Some(last) = self.caches.iter_mut().rfind(|cached| cached.shadow.is_some()) else { return };
            last.shadow = None;
        }
    }

    fn bytes(&self) -> usize {
        self.caches.iter().filter_map(|cached| cached.shadow.as_ref()).map(Shadow::bytes).sum()
    }

    /// What is known now.
    pub fn figures(&self, cache: &Cache, now: Duration) -> Figures {
        let (stats, reads) = (cache.stats(), self.reads(cache));
        let (policy, budget_bytes) = self.live.clone();
        let live = Row {
            policy,
            memory: self.memory,
            metered: self.judge.metered(0),
            saves: self.saves(0, reads),
            entries: stats.entries,
            used_bytes: stats.used_bytes,
            budget_bytes,
            left_out: false,
        };
        let row = |(at, cached): (usize, &Cached)| Row {
            policy: cached.policy.clone(),
            memory: self.memory / 4 * u64::from(cached.quarters),
            metered: self.judge.metered(at + 1),
            saves: self.saves(at + 1, reads),
            entries: cached.shadow.as_ref().map_or(0, |shadow| shadow.len() as u64),
            used_bytes: cached.shadow.as_ref().map_or(0, |shadow| shadow.used_bytes() as u64),
            budget_bytes: cached.budget_bytes as u64,
            left_out: cached.shadow.is_none(),
        };
        let Counts { heard, missed, emptied, fetches, fetched_us } = self.counts;
        Figures {
            live,
            rows: self.caches.iter().enumerate().map(row).collect(),
            sample: self.sample,
            heard,
            missed,
            emptied,
            fetch_us: (fetches > 0).then(|| fetched_us as f64 / fetches as f64),
            elapsed: now.saturating_sub(self.since),
            bytes: self.bytes() as u64,
            bytes_max: self.bytes_max as u64,
        }
    }

    /// Hits of the live cache, and its reads, whether they were heard or not.
    fn reads(&self, cache: &Cache) -> (u64, u64) {
        let (hits, misses) = counted(cache);
        // Others may have counted from zero since.
        let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        let (hits, misses) = (since(hits, self.before.0), since(misses, self.before.1));
        (hits, hits + misses)
    }

    /// A sample of keys has too many reads if a popular key is in it, and too few if none is. How many it should have
    /// is known. So what counts is what it misses (SHARDS-adj).
    fn saves(&self, judged: usize, (hits, reads): (u64, u64)) -> Option<f64> {
        let metered = self.judge.metered(judged);
        match self.sample {
            Sample::ALL => metered.thr.rate(),
            _ if reads == 0 => None,
            _ if judged == 0 => Some(hits as f64 / reads as f64),
            sample => {
                let missed = (metered.reads - metered.reads_hit) * sample.keys();
                Some(1.0 - missed as f64 / reads as f64)
            }
        }
    }
}

/// Hits and misses of a cache.
fn counted(cache: &Cache) -> (u64, u64) {
    let stats = cache.stats();
    (stats.hits, stats.misses)
}
