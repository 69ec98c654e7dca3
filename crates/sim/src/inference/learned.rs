//! What is counted of the transactions of each type.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use forebay::graph::VERTICES_MAX;
use forebay_trace::words::words;
use forebay_trace::{Kind, Record, TraceKey};

/// Words of open transactions that are held, of keys and of what was returned; an access counts as [`ACCESS_WORDS`]
/// more.
pub const HELD_WORDS_MAX: usize = 1 << 25;

/// What an access counts beside its words.
const ACCESS_WORDS: usize = 16;

/// Words of a key that are looked at: the first.
pub const PLACES_MAX: usize = 16;

/// The least share of an access's keys that must follow from another for an edge.
pub const SHARE_MIN: f64 = 0.99;

/// The least share of an access's keys that must come behind another, for an edge from that one.
pub const BEHIND_MIN: f64 = 0.5;

/// The largest share that may seem to follow from what was returned to the transaction before.
pub const CHANCE_MAX: f64 = 0.9;

/// Fewest keys that did not seem to.
pub const VARIED_MIN: u64 = 20;

/// From this share on, what is no edge is told of.
pub(super) const TOLD_MIN: f64 = 0.5;

/// An access of an open transaction.
struct Asked {
    vertex: u16,
    level: u16,
    writes: bool,
    key_hash: u64,
    key_words: Vec<u64>,
    returned: Vec<u64>,
}

/// What is known of the keys of a vertex and one that may come before it.
#[derive(Clone, Copy, Default)]
pub(super) struct Matches {
    /// Keys with a word at this place that the other returned.
    pub(super) matched: u64,
    /// Keys behind the other with a word at this place that was known without anybody's telling.
    pub(super) known: u64,
    /// Of the matched, those where it was not among what the other returned to the transaction before.
    pub(super) varied: u64,
    /// Keys with a word at this place that the other returned to the transaction before.
    pub(super) by_chance: u64,
}

#[derive(Default)]
pub(super) struct OfVertex {
    /// Accesses.
    pub(super) accesses: u64,
    /// Those that read.
    pub(super) reads: u64,
    /// Accesses of the first level: they wait for nothing.
    pub(super) first: u64,
    /// By the place in the key and the other vertex.
    pub(super) words: BTreeMap<(usize, u16), Matches>,
    /// Accesses behind one of the other vertex.
    pub(super) behind: BTreeMap<u16, u64>,
    /// Writes of keys that the other vertex has read.
    pub(super) same_key: BTreeMap<u16, u64>,
}

#[derive(Default)]
pub(super) struct OfType {
    /// Transactions that have committed.
    pub(super) transactions: u64,
    /// Their accesses, by vertex.
    pub(super) vertices: BTreeMap<u16, OfVertex>,
    /// What each vertex told in the transaction before.
    before: BTreeMap<u16, BTreeSet<u64>>,
}

/// What was found in a trace.
#[derive(Default)]
pub(super) struct Inference {
    /// By the number of the type.
    pub(super) types: BTreeMap<u16, OfType>,
    open: HashMap<u64, (u16, Vec<Asked>)>,
    /// Words of open transactions.
    held: usize,
    /// Words that reads returned.
    pub(super) returned: u64,
    /// Accesses for which there was no room.
    pub(super) left_out: u64,
    /// Accesses of a type without a step.
    pub(super) without_step: u64,
}

impl Inference {
    /// The next record of the trace, and what it returned.
    pub(super) fn take(&mut self, record: &Record, returned: &[u64]) {
        if record.txn == 0 || record.txn_type == 0 {
            return;
        }
        match record.kind {
            Kind::Committed | Kind::Aborted => {
                let Some((of_type, asked)) = self.open.remove(&record.txn) else { return };
                self.held -= asked.iter().map(Asked::words).sum::<usize>();
                if record.kind == Kind::Committed {
                    self.left_out += self.types.entry(of_type).or_default().learn(asked);
                }
            }
            Kind::Read | Kind::Write | Kind::Delete if record.vertex == 0 => self.without_step += 1,
            Kind::Read | Kind::Write | Kind::Delete => self.ask(record, returned),
            Kind::Prefetch | Kind::Demote => {}
        }
    }

    fn ask(&mut self, record: &Record, returned: &[u64]) {
        let key: &[u8] = if let TraceKey::Bytes(key) = &record.key { key } else { &[] };
        let writes = record.kind != Kind::Read;
        let asked = Asked {
            vertex: record.vertex,
            level: record.level,
            writes,
            key_hash: record.key_hash(),
            key_words: words(key).take(PLACES_MAX).collect(),
            returned: if writes { Vec::new() } else { returned.to_vec() },
        };
        if self.held + asked.words() > HELD_WORDS_MAX {
            self.left_out += 1;
            return;
        }
        self.held += asked.words();
        self.returned += asked.returned.len() as u64;
        self.open.entry(record.txn).or_insert_with(|| (record.txn_type, Vec::new())).1.push(asked);
    }
}

impl Asked {
    fn words(&self) -> usize {
        ACCESS_WORDS + self.key_words.len() + self.returned.len()
    }
}

impl OfType {
    /// Learns from a transaction that has committed; how many of its accesses there was no room for.
    fn learn(&mut self, mut asked: Vec<Asked>) -> u64 {
        self.transactions += 1;
        let all = asked.len();
        asked.retain(|asked| {
            let has_room = self.vertices.contains_key(&asked.vertex) || self.vertices.len() < VERTICES_MAX;
            if has_room {
                self.vertices.entry(asked.vertex).or_default();
            }
            has_room
        });
        let left_out = (all - asked.len()) as u64;
        asked.sort_by_key(|asked| asked.level);
        // Which access told a word first; none of what was known by itself.
        let mut tellers: HashMap<u64, Vec<u16>> = HashMap::new();
        let mut told: BTreeMap<u16, BTreeSet<u64>> = BTreeMap::new();
        let mut read: HashMap<u64, BTreeSet<u16>> = HashMap::new();
        let mut met: BTreeSet<u16> = BTreeSet::new();
        let first = asked.first().map_or(0, |asked| asked.level);
        for level in asked.chunk_by(|a, b| a.level == b.level) {
            for asked in level {
                let vertex = self.vertices.entry(asked.vertex).or_default();
                met.iter().for_each(|before| *vertex.behind.entry(*before).or_default() += 1);
                vertex.first += u64::from(asked.level == first);
                vertex.meet(asked, &met, &tellers, &self.before);
                if asked.writes {
                    let readers = read.get(&asked.key_hash).into_iter().flatten();
                    readers.for_each(|from| *vertex.same_key.entry(*from).or_default() += 1);
                }
            }
            met.extend(level.iter().filter(|asked| !asked.writes).map(|asked| asked.vertex));
            for word in level.iter().flat_map(|asked| &asked.key_words) {
                tellers.entry(*word).or_default();
            }
            let mut news: BTreeMap<u64, Vec<u16>> = BTreeMap::new();
            for asked in level.iter().filter(|asked| !asked.writes) {
                read.entry(asked.key_hash).or_default().insert(asked.vertex);
                for word in asked.returned.iter().filter(|word| !tellers.contains_key(*word)) {
                    told.entry(asked.vertex).or_default().insert(*word);
                    news.entry(*word).or_default().push(asked.vertex);
                }
            }
            tellers.extend(news);
        }
        self.before = told;
        left_out
    }
}

impl OfVertex {
    fn meet(
        &mut self,
        asked: &Asked,
        met: &BTreeSet<u16>,
        tellers: &HashMap<u64, Vec<u16>>,
        before: &BTreeMap<u16, BTreeSet<u64>>,
    ) {
        self.accesses += 1;
        self.reads += u64::from(!asked.writes);
        for (place, word) in asked.key_words.iter().enumerate() {
            if tellers.get(word).is_some_and(Vec::is_empty) {
                met.iter().for_each(|from| self.words.entry((place, *from)).or_default().known += 1);
            }
            let now: BTreeSet<u16> = tellers.get(word).into_iter().flatten().copied().collect();
            for &from in &now {
                let matches = self.words.entry((place, from)).or_default();
                matches.matched += 1;
                matches.varied += u64::from(before.get(&from).is_some_and(|told| !told.contains(word)));
            }
            for (&from, _) in before.iter().filter(|(_, told)| told.contains(word)) {
                self.words.entry((place, from)).or_default().by_chance += 1;
            }
        }
    }
}
