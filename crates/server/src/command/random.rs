//! Choosing elements at random. A call gets one random number; all that it chooses follows from it, so that running it
//! again chooses the same.

use forebay::runtime::simulated::SplitMix;
use forebay_protocol::Reply;

use super::Call;

/// The count at `index`, as HRANDFIELD and SRANDMEMBER take it.
pub(super) fn count(call: &Call<'_>, index: usize) -> Result<i64, Reply> {
    match call.integer(index)? {
        i64::MIN => Err(out_of_range()),
        count if count < 0 && count.unsigned_abs() > call.chance.repeated_max => {
            Err(Reply::error(format!("LIMIT repeated_elements_max {}", call.chance.repeated_max)))
        }
        count => Ok(count),
    }
}

/// What is said of a count that has no positive counterpart.
pub(super) fn out_of_range() -> Reply {
    Reply::error(format!("ERR value is out of range, value must between {} and {}", -i64::MAX, i64::MAX))
}

/// `count` positions below `len`, each on its own; none if there is none.
pub(super) fn choose_with_repeats(random: u64, len: usize, count: u64) -> impl Iterator<Item = usize> {
    let mut dice = SplitMix::new(random);
    (0..if len == 0 { 0 } else { count }).map(move |_| dice.below(len as u64) as usize)
}

/// At most so many elements are in memory while so many of `len` are chosen.
pub(super) fn chosen_max(count: i64, len: usize) -> usize {
    let asked = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count < 0 { asked.saturating_add(len) } else { asked.min(len) }
}

/// At most `count` different elements, in their order; or, if `count` is negative, just so many with repeats.
pub(super) fn choose<T: Clone>(random: u64, elements: impl Iterator<Item = T>, len: usize, count: i64) -> Vec<T> {
    if count < 0 {
        let elements: Vec<T> = elements.collect();
        let positions = choose_with_repeats(random, elements.len(), count.unsigned_abs());
        return positions.map(|position| elements[position].clone()).collect();
    }
    // Each element in turn is taken with the probability that is left to it (Knuth, 3.4.2, algorithm S).
    let mut dice = SplitMix::new(random);
    let mut wanted = usize::try_from(count).unwrap_or(usize::MAX).min(len);
    let mut left = len;
    let taken = elements.filter(|_| {
        let take = left > 0 && dice.below(left as u64) < wanted as u64;
        wanted -= usize::from(take);
        left = left.saturating_sub(1);
        take
    });
    taken.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_elements_just_so_many() {
        for random in 0..200 {
            for count in 0..=12 {
                let chosen = choose(random, 0..10, 10, count);
                assert_eq!(chosen.len() as i64, count.min(10));
                assert!(chosen.is_sorted_by(|a, b| a < b), "{chosen:?}");
            }
        }
    }

    #[test]
    fn every_element_has_the_same_chance() {
        let mut seen = [0; 10];
        for random in 0..10_000 {
            for element in choose(random, 0..10, 10, 3) {
                seen[element] += 1;
            }
        }
        // 3,000 each are expected; the deviation of a fair choice is about 46.
        assert!(seen.iter().all(|count| (2_700..3_300).contains(count)), "{seen:?}");
    }

    #[test]
    fn repeats_fill_a_negative_count() {
        assert_eq!(choose(7, 0..1, 1, -5), [0; 5]);
        assert!(choose(7, 0..0, 0, -5).is_empty());
        let chosen = choose(7, 0..10, 10, -1000);
        assert_eq!(chosen.len(), 1000);
        assert!((0..10).all(|element| chosen.contains(&element)));
    }
}
