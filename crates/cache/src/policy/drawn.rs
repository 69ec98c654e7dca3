//! Victims found by chance, as Redis finds them: a few candidates are drawn for each, and the lowest of all that were
//! looked at goes. The next lowest can be kept and looked at again with the next victim, so that few draws come close
//! to the lowest of all.

use super::Slot;
use super::random::Random;

/// Draws for each victim, and what is kept of them.
#[derive(Default)]
pub(super) struct Drawn {
    /// Candidates drawn for each victim.
    sample: usize,
    /// Most that are kept between victims.
    kept_max: usize,
    /// The lowest of those that were looked at last, lowest first.
    kept: Vec<Slot>,
    looked_at: Vec<(f64, Slot)>,
}

impl Drawn {
    /// With nothing looked at yet.
    pub fn new(sample: usize, kept_max: usize) -> Drawn {
        Drawn { sample, kept_max, kept: Vec::new(), looked_at: Vec::new() }
    }

    /// Looks at some more candidates: the lowest of all that are looked at, with its worth. Of equals the one that was
    /// looked at first. Few candidates are all looked at.
    pub fn lowest(
        &mut self,
        candidates: &[Slot],
        random: &mut Random,
        worth: impl Fn(Slot) -> f64,
    ) -> Option<(f64, Slot)> {
        let Drawn { sample, kept_max, kept, looked_at } = self;
        looked_at.clear();
        looked_at.extend(kept.iter().map(|&slot| (worth(slot), slot)));
        let mut look = |slot: Slot| {
            if !looked_at.iter().any(|&(_, known)| known == slot) {
                looked_at.push((worth(slot), slot));
            }
        };
        if candidates.len() <= *sample {
            candidates.iter().for_each(|&slot| look(slot));
        } else {
            (0..*sample).for_each(|_| look(candidates[random.index(candidates.len())]));
        }
        if *kept_max > 0 {
            looked_at.sort_by(|a, b| a.0.total_cmp(&b.0));
            kept.clear();
            kept.extend(looked_at.iter().take(*kept_max).map(|&(_, slot)| slot));
        }
        looked_at.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// A slot is no candidate any more.
    pub fn forget(&mut self, slot: Slot) {
        self.kept.retain(|&kept| kept != slot);
    }

    /// What is kept for the next victim.
    pub fn kept(&self) -> &[Slot] {
        &self.kept
    }

    pub fn validate(&self, is_candidate: impl Fn(Slot) -> bool) {
        assert!(self.kept.len() <= self.kept_max, "more is kept than may be");
        assert!(self.kept.iter().all(|&slot| is_candidate(slot)), "what is kept may go");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keeping_the_lowest_comes_close_to_the_lowest_of_all() {
        // How far up the victims stand on average, of a thousand that are worth their number.
        let mean = |kept: usize| {
            let (mut drawn, mut random) = (Drawn::new(10, kept), Random::new(1));
            let candidates: Vec<Slot> = (0..1000).collect();
            let found = |_| drawn.lowest(&candidates, &mut random, f64::from).expect("candidates").1;
            (0..200).map(found).map(f64::from).sum::<f64>() / 200.0
        };
        assert!(mean(0) > 60.0 && mean(16) < 30.0, "{} {}", mean(0), mean(16));
    }

    proptest! {
        #[test]
        fn equals_a_search_of_all_that_was_looked_at(
            sample in 1usize..6, kept_max in 0usize..5, count in 1usize..12,
            rounds in prop::collection::vec((prop::collection::vec(0u8..4, 12), any::<bool>()), 1..40),
        ) {
            let (mut drawn, mut random, mut same) = (Drawn::new(sample, kept_max), Random::new(3), Random::new(3));
            let mut candidates: Vec<Slot> = (0..count as Slot).collect();
            let mut kept: Vec<Slot> = Vec::new();
            for (worths, goes) in rounds {
                let worth = |slot: Slot| f64::from(worths[slot as usize]);
                let found = drawn.lowest(&candidates, &mut random, worth);
                let mut pool = kept.clone();
                let few = candidates.len() <= sample;
                let draw = |_| if few { None } else { Some(candidates[same.index(candidates.len())]) };
                let draws: Vec<Slot> = (0..sample).filter_map(draw).collect();
                for slot in if few { candidates.clone() } else { draws } {
                    if !pool.contains(&slot) {
                        pool.push(slot);
                    }
                }
                // Selection: the first of the lowest, over and over.
                kept.clear();
                let mut least = None;
                while let Some(lowest) = pool.iter().map(|&slot| worths[slot as usize]).min() {
                    let at = pool.iter().position(|&slot| worths[slot as usize] == lowest).expect("there");
                    let slot = pool.remove(at);
                    least = least.or(Some((worth(slot), slot)));
                    kept.push(slot);
                }
                kept.truncate(kept_max);
                prop_assert_eq!(found, least);
                prop_assert_eq!(drawn.kept(), &kept[..]);
                if let (true, Some((_, slot))) = (goes && candidates.len() > 1, found) {
                    candidates.retain(|&other| other != slot);
                    kept.retain(|&other| other != slot);
                    drawn.forget(slot);
                }
                drawn.validate(|slot| candidates.contains(&slot));
            }
        }
    }
}
