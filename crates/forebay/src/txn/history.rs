//! Recorded histories and the check that they are serializable.
//!
//! Forebay's versions are the version order, so the serialization graph follows from a history without search: an edge
//! from the writer of a version to its readers (wr), from the writer of a version to the writer of the next (ww), from
//! the readers of a version to the writer of the next (rw), and, for strictness, from a transaction that had ended to
//! those that began later. The history is (strictly) serializable exactly if the graph has no cycle.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::PoisonError;

use crate::key::Key;
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::version::Version;

/// One transaction as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What to call it when it is part of a cycle.
    pub name: String,
    /// Tick before its first request.
    pub began: u64,
    /// Tick after its reply; `u64::MAX` if the outcome was never learned.
    pub ended: u64,
    /// What it read: key, version, and whether there was a document.
    pub reads: Vec<(Key, Version, bool)>,
    /// What it wrote, all under one version each.
    pub writes: Vec<(Key, Version)>,
}

/// What was seen of a run; records may come from many threads.
#[derive(Debug, Default)]
pub struct History {
    tick: AtomicU64,
    records: Mutex<Vec<Record>>,
    cleared: Mutex<Vec<Cleared>>,
}

/// A clearing of whole key spaces: a write of every key in them.
#[derive(Clone, Debug)]
struct Cleared {
    began: u64,
    ended: u64,
    spaces: Vec<u8>,
    version: Version,
}

/// Why a history is not serializable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// Transactions each of which must come before the next, and the last before the first.
    Cycle(Vec<Step>),
    /// A document was read whose version no recorded transaction wrote.
    UnknownVersion {
        /// Who read it.
        reader: String,
        /// Which document.
        key: Key,
        /// Under which version.
        version: Version,
    },
    /// Two transactions wrote one key under one version.
    VersionReused {
        /// Which key.
        key: Key,
        /// Which version.
        version: Version,
    },
}

/// One transaction of a cycle and why it comes before the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The transaction's name.
    pub name: String,
    /// `wr`, `ww` or `rw` with the key and version, or `real time`.
    pub because: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Anomaly::Cycle(steps) => {
                write!(f, "cycle:")?;
                for step in steps {
                    write!(f, " {} -[{}]->", step.name, step.because)?;
                }
                write!(f, " {}", steps.first().map_or("", |step| &step.name))
            }
            Anomaly::UnknownVersion { reader, key, version } => {
                write!(f, "{reader} read {key} at {version}, which nobody wrote")
            }
            Anomaly::VersionReused { key, version } => write!(f, "{key} was written twice under {version}"),
        }
    }
}

impl History {
    /// The next tick of the history's clock.
    pub fn tick(&self) -> u64 {
        self.tick.fetch_add(1, Ordering::SeqCst)
    }

    /// Adds a transaction that committed, or of which nobody knows.
    pub fn push(&self, record: Record) {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    }

    /// Adds a read without locks, which began at tick `began` and is over now: keys, versions, whether they were there.
    pub(super) fn push_read(&self, began: u64, reads: Vec<(Key, Version, bool)>) {
        let ended = self.tick();
        self.push(Record { name: format!("read@{began}"), began, ended, reads, writes: Vec::new() });
    }

    /// Adds a clearing of `spaces`, which began at tick `began` and is over now if `done`.
    pub(super) fn push_clear(&self, began: u64, done: bool, spaces: &[u8], version: Version) {
        let ended = if done { self.tick() } else { u64::MAX };
        let cleared = Cleared { began, ended, spaces: spaces.to_vec(), version };
        self.cleared.lock().unwrap_or_else(PoisonError::into_inner).push(cleared);
    }

    /// A copy of what was recorded so far; a clearing is the write of all keys that some record names.
    pub fn records(&self) -> Vec<Record> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let written = records.iter().flat_map(|record| record.writes.iter().map(|(key, _)| key.clone()));
        let keys: BTreeSet<Key> = written.collect();
        for cleared in self.cleared.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let Cleared { began, ended, spaces, version } = cleared;
            let of = keys.iter().filter(|key| spaces.contains(&key.space()));
            let writes = of.map(|key| (key.clone(), *version)).collect();
            let name = format!("clear@{began}");
            records.push(Record { name, began: *began, ended: *ended, reads: Vec::new(), writes });
        }
        records
    }
}

/// Of the records whose outcome nobody learned, those count that some counted record has read from; the others may not
/// have committed.
fn counted(records: &[Record]) -> Vec<Record> {
    let (mut counted, mut unknown): (Vec<Record>, Vec<Record>) =
        records.iter().cloned().partition(|record| record.ended != u64::MAX);
    let mut seen: HashSet<(Key, Version)> = HashSet::new();
    let mut next = 0;
    while next < counted.len() {
        seen.extend(counted[next].reads.iter().map(|(key, version, _)| (key.clone(), *version)));
        next += 1;
        if next == counted.len() {
            let is_seen = |record: &Record| record.writes.iter().any(|write| seen.contains(write));
            let (found, rest) = unknown.into_iter().partition(is_seen);
            counted.extend::<Vec<Record>>(found);
            unknown = rest;
        }
    }
    counted
}

/// Whether `records` could have come about one transaction after the other; `strict`: in an order that no transaction
/// that had ended before another began contradicts. Documents that were there before the first record are unknown
/// versions unless `preloaded` says otherwise.
pub fn check_serializable(records: &[Record], strict: bool, preloaded: bool) -> Result<(), Anomaly> {
    let records = &counted(records);
    let mut graph = Graph::new(records);
    graph.add_dependencies(records, preloaded)?;
    if strict {
        graph.add_real_time(records);
    }
    match graph.cycle() {
        None => Ok(()),
        Some(nodes) => Err(Anomaly::Cycle(graph.explain(records, &nodes))),
    }
}

#[derive(Clone, Debug)]
enum Because {
    Dependency(&'static str, Key, Version),
    RealTime,
}

/// Nodes are the records, then helper nodes of the real-time chain.
struct Graph {
    edges: Vec<Vec<(usize, Because)>>,
    records: usize,
}

impl Graph {
    fn new(records: &[Record]) -> Graph {
        Graph { edges: vec![Vec::new(); records.len()], records: records.len() }
    }

    fn add_dependencies(&mut self, records: &[Record], preloaded: bool) -> Result<(), Anomaly> {
        let mut writers: HashMap<&Key, BTreeMap<Version, usize>> = HashMap::new();
        for (node, record) in records.iter().enumerate() {
            for (key, version) in &record.writes {
                if writers.entry(key).or_default().insert(*version, node).is_some() {
                    return Err(Anomaly::VersionReused { key: key.clone(), version: *version });
                }
            }
        }
        for (key, versions) in &writers {
            for ((version, earlier), (_, later)) in versions.iter().zip(versions.iter().skip(1)) {
                self.edge(*earlier, *later, Because::Dependency("ww", (*key).clone(), *version));
            }
        }
        let none = BTreeMap::new();
        for (reader, record) in records.iter().enumerate() {
            for (key, version, present) in &record.reads {
                let versions = writers.get(key).unwrap_or(&none);
                if *present && !preloaded && !versions.contains_key(version) {
                    let (key, version) = (key.clone(), *version);
                    return Err(Anomaly::UnknownVersion { reader: record.name.clone(), key, version });
                }
                // The version of an absent document may be the store's floor: at or above its last delete's.
                if let Some((_, writer)) = versions.range(..=version).next_back() {
                    self.edge(*writer, reader, Because::Dependency("wr", key.clone(), *version));
                }
                let above = (std::ops::Bound::Excluded(version), std::ops::Bound::Unbounded);
                if let Some((_, next)) = versions.range::<Version, _>(above).next() {
                    self.edge(reader, *next, Because::Dependency("rw", key.clone(), *version));
                }
            }
        }
        Ok(())
    }

    /// Real time in linear size: a chain of nodes, one per end, in order; each record leads to its own end's node, and
    /// the last end before a record began leads to the record.
    fn add_real_time(&mut self, records: &[Record]) {
        let mut ends: Vec<(u64, usize)> = records
            .iter()
            .enumerate()
            .filter(|(_, record)| record.ended != u64::MAX)
            .map(|(node, record)| (record.ended, node))
            .collect();
        ends.sort_unstable();
        let first = self.edges.len();
        self.edges.resize(first + ends.len(), Vec::new());
        for (n, (_, node)) in ends.iter().enumerate() {
            self.edges[*node].push((first + n, Because::RealTime));
            if n > 0 {
                self.edges[first + n - 1].push((first + n, Because::RealTime));
            }
        }
        for (node, record) in records.iter().enumerate() {
            let before = ends.partition_point(|(ended, _)| *ended < record.began);
            if before > 0 {
                self.edges[first + before - 1].push((node, Because::RealTime));
            }
        }
    }

    fn edge(&mut self, from: usize, to: usize, because: Because) {
        if from != to {
            self.edges[from].push((to, because));
        }
    }

    /// Nodes of some cycle, in order: depth first search with an explicit stack.
    fn cycle(&self) -> Option<Vec<usize>> {
        const NEW: u8 = 0;
        const OPEN: u8 = 1;
        const DONE: u8 = 2;
        let mut state = vec![NEW; self.edges.len()];
        for root in 0..self.edges.len() {
            if state[root] != NEW {
                continue;
            }
            let mut path: Vec<(usize, usize)> = vec![(root, 0)];
            state[root] = OPEN;
            while let Some((node, next)) = path.last_mut() {
                let Some((to, _)) = self.edges[*node].get(*next) else {
                    state[*node] = DONE;
                    path.pop();
                    continue;
                };
                *next += 1;
                match state[*to] {
                    NEW => {
                        state[*to] = OPEN;
                        path.push((*to, 0));
                    }
                    OPEN => {
                        let start = path.iter().position(|(node, _)| node == to).unwrap_or(0);
                        return Some(path[start..].iter().map(|(node, _)| *node).collect());
                    }
                    _ => {}
                }
            }
        }
        None
    }

    fn explain(&self, records: &[Record], cycle: &[usize]) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        for (n, node) in cycle.iter().enumerate() {
            let next = cycle[(n + 1) % cycle.len()];
            let because = self.edges[*node].iter().find(|(to, _)| *to == next).map(|(_, because)| because);
            let because = match because {
                Some(Because::Dependency(kind, key, version)) => format!("{kind} {key} {version}"),
                Some(Because::RealTime) | None => "real time".to_owned(),
            };
            if *node < self.records {
                steps.push(Step { name: records[*node].name.clone(), because });
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(sequence: u64) -> Version {
        Version { incarnation: 1, sequence }
    }

    fn record(name: &str, span: (u64, u64), reads: &[(&str, u64)], writes: &[(&str, u64)]) -> Record {
        let key = |name: &str| Key::new(0, name.as_bytes());
        Record {
            name: name.into(),
            began: span.0,
            ended: span.1,
            reads: reads.iter().map(|(name, sequence)| (key(name), version(*sequence), *sequence > 0)).collect(),
            writes: writes.iter().map(|(name, sequence)| (key(name), version(*sequence))).collect(),
        }
    }

    #[test]
    fn a_serial_history_passes() {
        let records = [
            record("t1", (0, 1), &[("x", 0)], &[("x", 1)]),
            record("t2", (2, 3), &[("x", 1)], &[("x", 2), ("y", 2)]),
            record("t3", (4, 5), &[("x", 2), ("y", 2)], &[]),
        ];
        assert_eq!(check_serializable(&records, true, false), Ok(()));
    }

    #[test]
    fn write_skew_is_shown() {
        let records = [
            record("t1", (0, 9), &[("x", 0), ("y", 0)], &[("x", 1)]),
            record("t2", (1, 8), &[("x", 0), ("y", 0)], &[("y", 2)]),
        ];
        let anomaly = check_serializable(&records, false, false).unwrap_err();
        let text = anomaly.to_string();
        assert!(text.contains("t1 -[rw y 1-0]-> t2 -[rw x 1-0]-> t1"), "{text}");
    }

    #[test]
    fn a_lost_update_a_torn_read_and_a_dirty_read_are_found() {
        let lost = [record("t1", (0, 9), &[("x", 0)], &[("x", 1)]), record("t2", (1, 8), &[("x", 0)], &[("x", 2)])];
        assert!(matches!(check_serializable(&lost, false, false), Err(Anomaly::Cycle(_))));
        let torn = [
            record("writer", (0, 9), &[], &[("x", 1), ("y", 1)]),
            record("reader", (1, 8), &[("x", 1), ("y", 0)], &[]),
        ];
        assert!(matches!(check_serializable(&torn, false, false), Err(Anomaly::Cycle(_))));
        let dirty = [record("reader", (1, 8), &[("x", 7)], &[])];
        assert!(matches!(check_serializable(&dirty, false, false), Err(Anomaly::UnknownVersion { .. })));
    }

    #[test]
    fn an_unknown_outcome_counts_once_it_is_seen() {
        let maybe = record("maybe", (0, u64::MAX), &[("x", 9)], &[("y", 10)]);
        let reader = record("reader", (11, 12), &[("y", 10)], &[]);
        assert_eq!(check_serializable(std::slice::from_ref(&maybe), true, false), Ok(()));
        let unknown = check_serializable(&[maybe, reader], true, false);
        assert!(matches!(unknown, Err(Anomaly::UnknownVersion { .. })), "it has read what nobody wrote");
    }

    #[test]
    fn a_stale_read_breaks_strictness_only() {
        let records = [record("writer", (0, 1), &[], &[("x", 1)]), record("late reader", (2, 3), &[("x", 0)], &[])];
        assert_eq!(check_serializable(&records, false, false), Ok(()));
        let anomaly = check_serializable(&records, true, false).unwrap_err();
        assert!(anomaly.to_string().contains("real time"), "{anomaly}");
    }
}
