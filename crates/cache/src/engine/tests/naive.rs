//! On one thread the engine evicts what a naive S3-FIFO evicts, entry by entry.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::super::Inline;
use super::super::tags::SLOTS;
use super::super::validate::{entries, validate};
use super::model::seeded;

/// Those of the small queue and of the main one, the youngest first.
type Ghosts = [VecDeque<u16>; 2];

/// S3-FIFO with two queues of keys and a map of marks, and ARC's rule for the length of the first. Of what it evicts it
/// remembers what the engine remembers: a print of twelve bits among the last of the key's home group.
struct Naive {
    capacity: usize,
    small_max: usize,
    groups: usize,
    /// That a group keeps, of each queue.
    kept: [usize; 2],
    small: VecDeque<u64>,
    main: VecDeque<u64>,
    marks: HashMap<u64, u8>,
    ghosts: HashMap<usize, Ghosts>,
}

impl Naive {
    fn new(capacity: usize, groups: usize) -> Naive {
        let (small, main) = (VecDeque::new(), VecDeque::new());
        Naive {
            capacity,
            small_max: (capacity / 10).max(1),
            groups,
            kept: [11, 4].map(|room| (capacity * 9 / 10).div_ceil(groups).min(room)),
            small,
            main,
            marks: HashMap::new(),
            ghosts: HashMap::new(),
        }
    }

    /// Whether it is a hit.
    fn request(&mut self, key: u64, cache: &Inline<u64, u64>) -> bool {
        if let Some(mark) = self.marks.get_mut(&key) {
            *mark = (*mark + 1).min(3);
            return true;
        }
        let returns = self.learn(key, cache);
        let room = self.marks.len() < self.capacity;
        if !room {
            self.evict(cache);
        }
        self.marks.insert(key, 0);
        let to_main = returns || (room && self.small.len() >= self.small_max) || self.small.len() > self.small_max;
        if to_main {
            self.main.push_back(key)
        } else {
            self.small.push_back(key)
        }
        false
    }

    /// Whether the small queue gave the key up not long ago.
    fn learn(&mut self, key: u64, cache: &Inline<u64, u64>) -> bool {
        let (home, print) = place(key, cache);
        let ghosts = self.ghosts.entry(home).or_default();
        let Some(queue) = ghosts.iter().position(|ghosts| ghosts.contains(&print)) else { return false };
        let younger = ghosts[queue].iter().position(|&ghost| ghost == print).expect("it is there");
        // Its place stays empty, and goes on like the others.
        ghosts[queue][younger] = 0;
        let part = cache.hasher.hash::<u64>([key]) % 65536;
        let age = (younger as f64 + part as f64 / 65536.0) * self.groups as f64;
        if age.floor() as usize <= self.small_max {
            let least = (self.capacity / 100).max(1);
            let most = (self.capacity / 2).max(least);
            self.small_max = if queue == 0 { self.small_max + 1 } else { self.small_max - 1 }.clamp(least, most);
        }
        queue == 0
    }

    fn remember(&mut self, key: u64, queue: usize, cache: &Inline<u64, u64>) {
        let (home, print) = place(key, cache);
        let ghosts = &mut self.ghosts.entry(home).or_default()[queue];
        ghosts.push_front(print);
        ghosts.truncate(self.kept[queue]);
    }

    fn evict(&mut self, cache: &Inline<u64, u64>) {
        loop {
            if self.small.len() > self.small_max || self.main.is_empty() {
                let key = self.small.pop_front().expect("it is full");
                if self.marks[&key] >= 2 {
                    self.marks.insert(key, 0);
                    self.main.push_back(key);
                    continue;
                }
                self.marks.remove(&key);
                self.remember(key, 0, cache);
                return;
            }
            let key = self.main.pop_front().expect("asked before");
            match self.marks[&key] {
                0 => {
                    self.marks.remove(&key);
                    self.remember(key, 1, cache);
                    return;
                }
                mark => {
                    self.marks.insert(key, mark - 1);
                    self.main.push_back(key);
                }
            }
        }
    }
}

fn place(key: u64, cache: &Inline<u64, u64>) -> (usize, u16) {
    let hash = cache.hasher.hash::<u64>([key]);
    (cache.table.home(hash), ((hash >> 16) as u16 & 0xfff).max(1))
}

/// Few keys often, many seldom.
fn skewed(random: &mut fastrand::Rng, keys: u64) -> u64 {
    let share = random.f64();
    (share * share * share * keys as f64) as u64
}

#[test]
fn evicts_the_same() {
    let requests = if cfg!(miri) { 300 } else { 20_000 };
    for (seed, capacity) in [1, 2, 9, 30, 200, 1500].into_iter().enumerate() {
        let mut random = fastrand::Rng::with_seed(seed as u64);
        let cache = seeded::<u64, u64>(capacity, 0);
        let mut lengths = BTreeSet::new();
        let mut naive = Naive::new(capacity, cache.table.slots_per_shard() / SLOTS);
        for request in 0..requests {
            // A scan now and then.
            let scan = request / 1000 % 4 == 3;
            let key = if scan { 1 << 32 | request as u64 } else { skewed(&mut random, 4 * capacity as u64 + 1) };
            let hit = cache.get(key).is_some();
            if !hit {
                cache.insert(key, key);
            }
            assert_eq!(hit, naive.request(key, &cache), "request {request} with capacity {capacity}");
            lengths.insert(naive.small_max);
            if request % 97 == 0 {
                let there: BTreeSet<u64> = entries(&cache).into_iter().map(|(key, _)| key).collect();
                assert_eq!(there, naive.marks.keys().copied().collect(), "after request {request}");
                validate(&cache);
            }
        }
        assert!(capacity < 200 || lengths.len() > 5 || cfg!(miri), "it learns: {lengths:?}");
    }
}
