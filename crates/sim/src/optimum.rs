//! The most transactional hits that any policy could have, for small instances: all choices are tried (DeToX,
//! definition 10; the problem is NP-hard, appendix A.2).

use std::collections::BTreeMap;

/// Most different keys of an instance.
pub const KEYS_MAX: usize = 64;

/// Most cache states that are followed at the same time.
pub const STATES_MAX: usize = 200_000;

/// Most levels that can be hit, each a set of keys (bits) that are asked for together, with `capacity` keys cached.
/// After each level the cache may keep whatever it held and whatever was asked for. `None` where there are more than
/// [`STATES_MAX`] states, or a key beyond [`KEYS_MAX`].
pub fn most_hits(levels: &[u64], capacity: usize) -> Option<u64> {
    let mut states: BTreeMap<u64, u64> = BTreeMap::from([(0, 0)]);
    for (at, &level) in levels.iter().enumerate() {
        // What is never asked for again need not be kept.
        let later = levels[at + 1..].iter().fold(0, |all, level| all | level);
        let mut next: BTreeMap<u64, u64> = BTreeMap::new();
        for (cached, hits) in states {
            let hits = hits + u64::from(level & !cached == 0);
            subsets((cached | level) & later, capacity, &mut |kept| {
                let best = next.entry(kept).or_default();
                *best = hits.max(*best);
            });
            if next.len() > STATES_MAX {
                return None;
            }
        }
        states = next;
    }
    states.into_values().max()
}

/// All largest subsets of at most `most` bits: to keep more never hurts.
fn subsets(of: u64, most: usize, meet: &mut impl FnMut(u64)) {
    fn choose(rest: u64, drop: u32, kept: u64, meet: &mut impl FnMut(u64)) {
        if drop == 0 {
            return meet(kept | rest);
        }
        if rest.count_ones() < drop {
            return;
        }
        let bit = rest & rest.wrapping_neg();
        choose(rest & !bit, drop - 1, kept, meet);
        choose(rest & !bit, drop, kept | bit, meet);
    }
    choose(of, of.count_ones().saturating_sub(most as u32), 0, meet);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same by trying every subset after every level.
    fn naive(levels: &[u64], capacity: u32, cached: u64) -> u64 {
        let Some((&level, rest)) = levels.split_first() else { return 0 };
        let with = cached | level;
        let kept = (0..=with).filter(|kept| kept & !with == 0 && kept.count_ones() <= capacity);
        u64::from(level & !cached == 0) + kept.map(|kept| naive(rest, capacity, kept)).max().unwrap_or(0)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn equals_trying_everything(levels in prop::collection::vec(1u64..32, 0..5), capacity in 0u32..4) {
            prop_assert_eq!(most_hits(&levels, capacity as usize), Some(naive(&levels, capacity, 0)));
        }
    }
}
