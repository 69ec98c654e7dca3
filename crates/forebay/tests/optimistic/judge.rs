//! What has committed, judged. There is one order of it all that explains what each transaction has read, and that
//! keeps to what its level promises. There is one if the edges that such an order must follow have no cycle.

use std::collections::{BTreeMap, BTreeSet};

use forebay::Key;
use forebay::txn::optimistic::{Level, Stamp};

/// A transaction that has committed.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The life of its client.
    pub client: u32,
    /// Its session, among those of the client.
    pub session: u32,
    pub level: Level,
    /// In real time; the end is that of the answer, and absent where none came.
    pub began_us: u64,
    pub ended_us: Option<u64>,
    pub stamp: Stamp,
    /// Each key, the version that was read, and its value: the number of the transaction that wrote it.
    pub reads: Vec<(Key, Stamp, Option<u64>)>,
    pub writes: BTreeSet<Key>,
    /// The number that it writes.
    pub number: u64,
}

/// Which promise was broken, and how.
pub type Broken = String;

/// Edges of the graph: transactions, then moments.
type Edges = Vec<BTreeSet<usize>>;

/// Looks for breaches of what levels promise.
pub fn judge(all: &[Committed]) -> Result<(), Broken> {
    let mut edges = dependencies(all)?;
    acyclic(&edges, all, "serializable")?;
    sessions(all, &mut edges);
    acyclic(&edges, all, "session")?;
    if all.iter().all(|committed| committed.level == Level::Strict) {
        let mut edges = dependencies(all)?;
        real_time(all, &mut edges);
        acyclic(&edges, all, "strict")?;
    }
    Ok(())
}

/// The version of a key, and the transactions that wrote them, in the order of versions.
fn writers(all: &[Committed]) -> BTreeMap<&Key, BTreeMap<Stamp, usize>> {
    let mut writers: BTreeMap<&Key, BTreeMap<Stamp, usize>> = BTreeMap::new();
    for (at, committed) in all.iter().enumerate() {
        for key in &committed.writes {
            writers.entry(key).or_default().insert(committed.stamp, at);
        }
    }
    writers
}

/// A transaction comes after the one whose write it has read, and before the one that wrote next; writes follow each
/// other.
fn dependencies(all: &[Committed]) -> Result<Edges, Broken> {
    let writers = writers(all);
    let mut edges: Edges = vec![BTreeSet::new(); all.len()];
    for of_key in writers.values() {
        for (first, second) in of_key.values().zip(of_key.values().skip(1)) {
            edges[*first].insert(*second);
        }
    }
    let none = BTreeMap::new();
    for (at, committed) in all.iter().enumerate() {
        for (key, version, number) in &committed.reads {
            let of_key = writers.get(key).unwrap_or(&none);
            let writer = of_key.get(version).copied();
            if writer.map(|writer| all[writer].number) != *number || (writer.is_none() && *version != Stamp::ZERO) {
                let name = String::from_utf8_lossy(key.name());
                return Err(format!(
                    "dirty read: {at} has read {name} at {version:?}, which none wrote: {committed:?}"
                ));
            }
            edges_of_read(&mut edges, at, writer, of_key, *version);
        }
    }
    Ok(edges)
}

fn edges_of_read(edges: &mut Edges, at: usize, writer: Option<usize>, of_key: &BTreeMap<Stamp, usize>, version: Stamp) {
    if let Some(writer) = writer.filter(|writer| *writer != at) {
        edges[writer].insert(at);
    }
    let mut later = of_key.range(version..).filter(|(stamp, _)| **stamp > version);
    if let Some((_, next)) = later.next().filter(|(_, next)| **next != at) {
        edges[at].insert(*next);
    }
}

/// Transactions of one session follow each other, if they are of the level that promises it.
fn sessions(all: &[Committed], edges: &mut Edges) {
    let mut last: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    let mut in_order: Vec<usize> = (0..all.len()).collect();
    in_order.sort_by_key(|at| all[*at].began_us);
    for at in in_order {
        let committed = &all[at];
        if matches!(committed.level, Level::Bounded(_)) || committed.ended_us.is_none() {
            continue;
        }
        if let Some(before) = last.insert((committed.client, committed.session), at) {
            edges[before].insert(at);
        }
    }
}

/// What was answered before another began comes before it. A moment stands between them, so that edges are few.
fn real_time(all: &[Committed], edges: &mut Edges) {
    let mut moments: Vec<(u64, bool, usize)> = Vec::new();
    for (at, committed) in all.iter().enumerate() {
        moments.push((committed.began_us, false, at));
        moments.extend(committed.ended_us.map(|ended_us| (ended_us, true, at)));
    }
    moments.sort_unstable();
    for (ends, at) in moments.into_iter().map(|(_, ends, at)| (ends, at)) {
        let last = edges.len() - 1;
        let has_moment = edges.len() > all.len();
        if ends {
            // A new moment, after the last one and after this transaction.
            edges.push(BTreeSet::new());
            let moment = edges.len() - 1;
            edges[at].insert(moment);
            if has_moment {
                edges[last].insert(moment);
            }
        } else if has_moment {
            edges[last].insert(at);
        }
    }
}

/// A cycle is told as what its transactions were.
fn acyclic(edges: &Edges, all: &[Committed], promise: &str) -> Result<(), Broken> {
    let (mut seen, mut on_path) = (vec![false; edges.len()], vec![false; edges.len()]);
    for root in 0..edges.len() {
        if seen[root] {
            continue;
        }
        let mut path = vec![(root, edges[root].iter())];
        (seen[root], on_path[root]) = (true, true);
        while let Some((node, rest)) = path.last_mut() {
            match rest.next() {
                Some(next) if on_path[*next] => {
                    let cycle = path.iter().map(|(node, _)| *node).skip_while(|node| node != next);
                    let told: Vec<String> =
                        cycle.filter_map(|node| all.get(node)).map(|one| format!("{one:?}")).collect();
                    return Err(format!("not {promise}: {}", told.join("\n -> ")));
                }
                Some(next) if !seen[*next] => {
                    (seen[*next], on_path[*next]) = (true, true);
                    path.push((*next, edges[*next].iter()));
                }
                Some(_) => {}
                None => {
                    on_path[*node] = false;
                    path.pop();
                }
            }
        }
    }
    Ok(())
}

/// A bounded transaction has read nothing that was replaced longer ago than it allows, and `slack_us` for clocks.
pub fn ages(all: &[Committed], slack_us: u64) -> Result<(), Broken> {
    let writers = writers(all);
    for committed in all {
        let Level::Bounded(age_us) = committed.level else { continue };
        for (key, version, _) in &committed.reads {
            let later = writers.get(key).into_iter().flat_map(|of_key| of_key.range(*version..));
            for (_, writer) in later.filter(|(stamp, _)| *stamp > version) {
                let replaced_us = all[*writer].ended_us.unwrap_or(u64::MAX);
                if replaced_us.saturating_add(age_us + slack_us) < committed.began_us {
                    return Err(format!("too old: {committed:?} has read what {:?} replaced", all[*writer]));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn committed(number: u64, reads: &[(&str, u64)], writes: &[&str], times: (u64, u64)) -> Committed {
        let key = |name: &str| Key::new(0, name.as_bytes());
        let read = |(name, by): &(&str, u64)| (key(name), Stamp::at(*by), (*by > 0).then_some(*by));
        Committed {
            client: number as u32,
            session: 0,
            level: Level::Strict,
            began_us: times.0,
            ended_us: Some(times.1),
            stamp: Stamp::at(number),
            reads: reads.iter().map(read).collect(),
            writes: writes.iter().map(|name| key(name)).collect(),
            number,
        }
    }

    #[test]
    fn write_skew_is_a_cycle() {
        let skew = [committed(1, &[("a", 0)], &["b"], (0, 9)), committed(2, &[("b", 0)], &["a"], (0, 9))];
        assert!(judge(&skew).is_err_and(|broken| broken.starts_with("not serializable")));
    }

    #[test]
    fn an_old_read_is_in_order_but_not_in_real_time() {
        let mut old = vec![committed(1, &[], &["a"], (0, 5)), committed(2, &[("a", 0)], &[], (6, 9))];
        assert!(judge(&old).is_err_and(|broken| broken.starts_with("not strict")));
        old[1].began_us = 4;
        assert_eq!(judge(&old), Ok(()));
        old.iter_mut().for_each(|one| (one.level, one.client) = (Level::Session, 1));
        assert!(judge(&old).is_err_and(|broken| broken.starts_with("not session")));
        old[1].level = Level::Bounded(0);
        assert_eq!(judge(&old), Ok(()));
    }

    #[test]
    fn what_none_wrote_is_found() {
        assert!(judge(&[committed(1, &[("a", 7)], &[], (0, 5))]).is_err_and(|broken| broken.starts_with("dirty")));
    }

    #[test]
    fn an_age_beyond_the_bound_is_found() {
        let mut old = [committed(1, &[], &["a"], (0, 5)), committed(2, &[("a", 0)], &[], (100, 101))];
        old[1].level = Level::Bounded(50);
        assert!(ages(&old, 50).is_ok());
        assert!(ages(&old, 40).is_err());
    }
}
