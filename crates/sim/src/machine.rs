//! A cache as the simulator runs it: of one policy, of one that knows the future, or one for each client.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay::graph::Graph;
use forebay::hint::{HintMeaning, HintSet};
use forebay::policy::bare::{Bare, Numbered, Served};
use forebay::policy::{AccessKind, Learned, Unit};

use crate::catalog::Request;
use crate::contender::Contender;
use crate::offline::Offline;

/// How the clients of one trace share the memory (CLIC, section 6.4).
#[derive(Clone, Debug, PartialEq)]
pub enum Division {
    /// All of them one cache.
    Shared,
    /// Each a cache of its own, all of one size.
    Equal,
    /// Some a cache of their own, of a share each; the others together what is left.
    Shares(BTreeMap<u32, f64>),
}

impl Division {
    /// Reads `equal` or `client=share,client=share`, shares as `0.2` or `20%`.
    pub fn parse(text: &str) -> Result<Division, String> {
        if text.trim() == "equal" {
            return Ok(Division::Equal);
        }
        let mut shares = BTreeMap::new();
        for part in text.split(',') {
            let wrong = || format!("'{part}': write equal, or client=share as in 1=0.5,2=20%");
            let (client, share) = part.split_once('=').ok_or_else(wrong)?;
            let (number, unit) = share.trim().strip_suffix('%').map_or((share.trim(), 1.0), |number| (number, 100.0));
            let share = number.parse::<f64>().map_err(|_| wrong())? / unit;
            let client = client.trim().parse::<u32>().map_err(|_| wrong())?;
            if !(share > 0.0 && share <= 1.0) || shares.insert(client, share).is_some() {
                return Err(wrong());
            }
        }
        match shares.values().sum::<f64>() {
            sum if sum <= 1.0 + 1e-9 => Ok(Division::Shares(shares)),
            sum => Err(format!("the shares are {sum} together, more than all")),
        }
    }
}

/// A cache.
pub enum Machine {
    /// Of a policy that the server has too; with the policy's bytes per entry.
    Online(Box<Bare>, usize),
    /// The same, where keys are known by their numbers alone.
    Numbered(Box<Bare<Numbered>>, usize),
    /// Of one that knows the future.
    Offline(Offline),
    /// One for each client; the last for those that have none of their own.
    Divided(BTreeMap<u32, Machine>, Box<Machine>),
}

impl Machine {
    /// An empty cache of `capacity` units.
    pub fn new(contender: &Contender, unit: Unit, capacity: u64) -> Machine {
        Machine::of(contender, (unit, capacity), None)
    }

    fn of(contender: &Contender, (unit, capacity): (Unit, u64), keys: Option<usize>) -> Machine {
        match contender {
            Contender::Online(choice) => {
                let (settings, entry_bytes) = (choice.settings(unit, capacity), choice.policy.entry_bytes);
                match keys {
                    None => Machine::Online(Box::new(Bare::new(choice.policy, &settings)), entry_bytes),
                    Some(keys) => {
                        Machine::Numbered(Box::new(Bare::numbered(choice.policy, &settings, keys)), entry_bytes)
                    }
                }
            }
            Contender::Offline(_, rule) => Machine::Offline(Offline::new(*rule, unit, capacity)),
        }
    }

    /// Empty caches of `capacity` units together for these clients. With a number of `keys` they know keys by their
    /// numbers alone: then they are only asked for keys, and never told of a delete.
    pub fn divided(
        contender: &Contender,
        (unit, capacity): (Unit, u64),
        division: &Division,
        clients: impl ExactSizeIterator<Item = u32>,
        keys: Option<usize>,
    ) -> Machine {
        let part = |share: f64| Machine::of(contender, (unit, ((capacity as f64 * share) as u64).max(1)), keys);
        match division {
            Division::Shared => Machine::of(contender, (unit, capacity), keys),
            Division::Equal => {
                let share = 1.0 / clients.len().max(1) as f64;
                Machine::Divided(clients.map(|client| (client, part(share))).collect(), Box::new(part(share)))
            }
            Division::Shares(shares) => {
                let rest = (1.0 - shares.values().sum::<f64>()).max(0.0);
                let parts = shares.iter().map(|(&client, &share)| (client, part(share))).collect();
                Machine::Divided(parts, Box::new(part(rest)))
            }
        }
    }

    /// Before the first access: whether a write of what is not cached lets it in, and graphs by transaction type.
    pub fn prepare(&mut self, writes_allocate: bool, graphs: &[(u16, Arc<Graph>)]) {
        let register = |learned: &Arc<dyn Learned>| {
            graphs.iter().for_each(|(of_type, graph)| learned.register_graph(*of_type, graph));
        };
        self.each(&mut |part| match part {
            Machine::Online(cache, _) => {
                cache.set_writes_allocate(writes_allocate);
                register(cache.learned());
            }
            Machine::Numbered(cache, _) => {
                cache.set_writes_allocate(writes_allocate);
                register(cache.learned());
            }
            Machine::Offline(_) | Machine::Divided(..) => {}
        });
    }

    /// Asks for a key; whether it was cached. What knows the future has to be told what a write of something does that
    /// is not cached.
    pub fn access(&mut self, request: &Request, writes_allocate: bool) -> bool {
        match self {
            Machine::Online(cache, _) => cache.access(request.access) == Served::Hit,
            Machine::Numbered(cache, _) => cache.serve(request.key, || request.access) == Served::Hit,
            Machine::Offline(cache) => match writes_allocate || request.access.kind != AccessKind::Write {
                true => cache.access(request),
                false => cache.contains(request.key),
            },
            Machine::Divided(parts, rest) => {
                parts.get_mut(&request.access.client).unwrap_or(rest).access(request, writes_allocate)
            }
        }
    }

    /// All that are no divided ones.
    fn each(&mut self, act: &mut dyn FnMut(&mut Machine)) {
        match self {
            Machine::Divided(parts, rest) => {
                parts.values_mut().chain([&mut **rest]).for_each(|part| part.each(act));
            }
            one => act(one),
        }
    }

    fn each_online(&mut self, act: &mut dyn FnMut(&mut Bare)) {
        self.each(&mut |part| {
            if let Machine::Online(cache, _) = part {
                act(cache);
            }
        });
    }

    /// A key is deleted.
    pub fn delete(&mut self, hash: u64) {
        self.each_online(&mut |cache| {
            cache.invalidate(hash);
        });
    }

    /// A transaction ended.
    pub fn ended(&mut self, txn: u64, committed: bool) {
        self.each_online(&mut |cache| cache.ended(txn, committed));
    }

    /// What a hint set stands for.
    pub fn define_hints(&mut self, set: HintSet, meaning: &Arc<HintMeaning>) {
        self.each_online(&mut |cache| cache.define_hints(set, meaning));
    }

    /// Whether a key, by hash and number, is cached.
    pub fn contains(&self, hash: u64, key: u32) -> bool {
        match self {
            Machine::Online(cache, _) => cache.contains(hash),
            Machine::Numbered(cache, _) => cache.holds(key),
            Machine::Offline(cache) => cache.contains(key),
            Machine::Divided(parts, rest) => parts.values().chain([&**rest]).any(|part| part.contains(hash, key)),
        }
    }

    /// Entries and their weight.
    pub fn held(&self) -> (u64, u64) {
        match self {
            Machine::Online(cache, _) => (cache.len() as u64, cache.used()),
            Machine::Numbered(cache, _) => (cache.len() as u64, cache.used()),
            Machine::Offline(cache) => (cache.len() as u64, 0),
            Machine::Divided(parts, rest) => {
                let all = parts.values().chain([&**rest]).map(Machine::held);
                all.fold((0, 0), |sum, held| (sum.0 + held.0, sum.1 + held.1))
            }
        }
    }

    /// Bytes of the policy's metadata; 0 for those that know the future, which nobody could build.
    pub fn metadata_bytes(&self) -> u64 {
        match self {
            Machine::Online(cache, entry_bytes) => {
                (cache.len() * entry_bytes + cache.ghost_bytes() + cache.learned_bytes()) as u64
            }
            Machine::Numbered(cache, entry_bytes) => {
                (cache.len() * entry_bytes + cache.ghost_bytes() + cache.learned_bytes()) as u64
            }
            Machine::Offline(_) => 0,
            Machine::Divided(parts, rest) => parts.values().chain([&**rest]).map(Machine::metadata_bytes).sum(),
        }
    }

    /// What the policy has learned; of the first client where each has a cache of its own.
    pub fn report(&self, lines_max: usize) -> Vec<(String, String)> {
        match self {
            Machine::Online(cache, _) => cache.report(lines_max),
            Machine::Numbered(cache, _) => cache.report(lines_max),
            Machine::Offline(_) => Vec::new(),
            Machine::Divided(parts, rest) => parts.values().next().unwrap_or(rest).report(lines_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::policy::Access;

    #[test]
    fn divisions_are_read() {
        assert_eq!(Division::parse("equal"), Ok(Division::Equal));
        let shares = Division::Shares(BTreeMap::from([(1, 0.5), (2, 0.2)]));
        assert_eq!(Division::parse("1=0.5, 2=20%"), Ok(shares));
        for wrong in ["", "half", "1", "1=", "x=1", "1=0", "1=2", "1=0.5,1=0.5", "1=0.6,2=0.6"] {
            assert!(Division::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn clients_with_caches_of_their_own_do_not_disturb_each_other() {
        let request = |client: u32, key: u32| {
            let access = Access { client, ..Access::read(u64::from(key), 1) };
            Request { access, key, next: u32::MAX, next_reads: false, next_whole: u32::MAX }
        };
        let contender = Contender::parse("lru").expect("known");
        let hits = |division: Division| {
            let mut machine = Machine::divided(&contender, (Unit::Entries, 4), &division, [1, 2].into_iter(), None);
            // One client has two pages, the other scans.
            let trace = (0..60).flat_map(|at| [request(1, at % 2), request(2, 10 + at)]);
            trace.filter(|request| machine.access(request, true)).count()
        };
        assert_eq!((hits(Division::Equal), hits(Division::Shared)), (58, 58));
        let small = Division::Shares(BTreeMap::from([(1, 0.25)]));
        assert_eq!(hits(small), 0);
        let large = Division::Shares(BTreeMap::from([(1, 0.5)]));
        assert_eq!(hits(large), 58);
    }
}
