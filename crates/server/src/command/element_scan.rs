//! HSCAN and SSCAN: a hash or set, some elements at a time.
//!
//! A small document is answered whole, whatever the cursor says, as Redis answers its compact encodings. In a large one
//! the elements are walked in the order of a hash of theirs, and the cursor is the hash of the next element: the server
//! remembers nothing, a cursor never grows old, and an element that is there from the first call to the last has one
//! place, which is passed once. To find the elements after a place all are looked at, so a call answers at least a
//! share of them: a whole walk looks at each element [`CALLS_MAX`] times at most.

use std::hash::BuildHasher;

use forebay_protocol::{Reply, errors};

use super::Call;
use super::scan::checked_pattern;
use crate::glob::{Glob, Search};
use crate::session::is_no_values;

/// Elements of a document that is answered whole.
const WHOLE_ELEMENTS_MAX: usize = 128;

/// Calls for one walk at most, whatever COUNT says.
const CALLS_MAX: usize = 64;

/// Work on a pattern that a call does while others wait. Where it takes more the call answers elements that were not
/// compared with it, and says so; [`compare`] does that while others have their turn.
const WORK_AT_ONCE_MAX: usize = 1 << 17;

/// Elements of one answer unless COUNT says otherwise.
const COUNT_DEFAULT: usize = 10;

/// The options of a scan.
pub(super) struct Scan<'a> {
    pattern: Option<&'a [u8]>,
    count: usize,
    /// Of a hash fields only.
    pub no_values: bool,
}

impl<'a> Scan<'a> {
    /// The cursor, the second argument: a number as C's `strtoul` reads it, but for leading space.
    pub(super) fn cursor(call: &Call<'_>) -> Result<u64, Reply> {
        let text = call.arg(2);
        let (negative, digits) = match text {
            [b'-', digits @ ..] => (true, digits),
            [b'+', digits @ ..] => (false, digits),
            digits => (false, digits),
        };
        if text.is_empty() {
            return Ok(0);
        }
        let number = digits.iter().try_fold(0_u64, |number, byte| {
            let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
            number.checked_mul(10)?.checked_add(digit)
        });
        let number = number.filter(|_| !digits.is_empty()).ok_or(Reply::error(errors::INVALID_CURSOR))?;
        Ok(if negative { number.wrapping_neg() } else { number })
    }

    /// The options, from the fourth argument on.
    pub(super) fn parse(call: &Call<'a>) -> Result<Scan<'a>, Reply> {
        let mut scan = Scan { pattern: None, count: COUNT_DEFAULT, no_values: false };
        let mut at = 3;
        while at < call.frame.len() {
            if is_no_values(call.arg(at)) {
                scan.no_values = true;
                at += 1;
                continue;
            }
            let option = call.arg(at).to_ascii_lowercase();
            match (option.as_slice(), call.frame.get(at + 1)) {
                (b"match", Some(pattern)) => scan.pattern = Some(checked_pattern(pattern)?),
                (b"count", Some(_)) => {
                    let count = call.integer(at + 1)?;
                    let count = usize::try_from(count).ok().filter(|count| *count > 0);
                    scan.count = count.ok_or(Reply::error(errors::SYNTAX))?;
                }
                _ => return Err(Reply::error(errors::SYNTAX)),
            }
            at += 2;
        }
        Ok(scan)
    }

    /// The answer: the next cursor and what was found.
    pub(super) fn reply(next: u64, found: Vec<Reply>) -> Reply {
        Reply::Array(vec![Reply::Text(next.to_string()), Reply::Array(found)])
    }

    /// The answer where there is no such key.
    pub(super) fn nothing() -> Reply {
        Scan::reply(0, Vec::new())
    }
}

/// Where an element stands in a walk: 48 bits, which every client's number type holds; never 0, which ends a walk.
fn place(element: &[u8]) -> u64 {
    let state = foldhash::quality::FixedState::with_seed(0x5343_414e);
    (state.hash_one(element) >> 16).max(1)
}

/// The cursor after one that finds elements at `places`, in any order, of which about `count` are to be answered: those
/// before it. Elements that share a place are not divided. 0 if all are to be answered.
fn next_cursor(mut places: Vec<u64>, count: usize) -> u64 {
    if places.len() <= count {
        return 0;
    }
    let (before, cut, after) = places.select_nth_unstable(count);
    match before.iter().any(|place| place < cut) {
        true => *cut,
        // All up to here share one place, so it is passed with all that share it.
        false => after.iter().copied().filter(|place| place > cut).min().unwrap_or(0),
    }
}

/// What one call has found.
pub(super) struct Found<'e, E, V> {
    /// The next cursor.
    pub next: u64,
    /// The elements from the cursor on.
    pub elements: Vec<(&'e E, &'e V)>,
    /// Whether they still have to be compared with the pattern.
    pub uncompared: bool,
}

/// The next cursor and the elements from `cursor` on that fit the options.
pub(super) fn scan<'e, E: AsRef<[u8]> + 'e, V>(
    cursor: u64,
    options: &Scan<'_>,
    len: usize,
    elements: impl Iterator<Item = (&'e E, &'e V)>,
) -> Found<'e, E, V> {
    let (next, mut elements) = from_cursor(cursor, options, len, elements);
    let Some(pattern) = options.pattern else { return Found { next, elements, uncompared: false } };
    let (glob, mut left) = (Glob::new(pattern), WORK_AT_ONCE_MAX);
    let fits = |(element, _): &(&E, &V)| glob.go_on(element.as_ref(), &mut Search::default(), &mut left);
    let fitting: Option<Vec<bool>> = elements.iter().map(fits).collect();
    let uncompared = fitting.is_none();
    if let Some(fitting) = fitting {
        let mut fitting = fitting.into_iter();
        elements.retain(|_| fitting.next() == Some(true));
    }
    Found { next, elements, uncompared }
}

fn from_cursor<'e, E: AsRef<[u8]> + 'e, V>(
    cursor: u64,
    options: &Scan<'_>,
    len: usize,
    elements: impl Iterator<Item = (&'e E, &'e V)>,
) -> (u64, Vec<(&'e E, &'e V)>) {
    if len <= WHOLE_ELEMENTS_MAX {
        return (0, elements.collect());
    }
    let placed = elements.map(|(element, value)| (place(element.as_ref()), element, value));
    let rest: Vec<_> = placed.filter(|(place, ..)| *place >= cursor).collect();
    let count = options.count.max(len.div_ceil(CALLS_MAX));
    let next = next_cursor(rest.iter().map(|(place, ..)| *place).collect(), count);
    let found = rest.into_iter().filter(|(place, ..)| next == 0 || *place < next);
    (next, found.map(|(_, element, value)| (element, value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every place is passed once, whether or not elements share it, and the walk ends.
        #[test]
        fn a_walk_passes_every_place_once(places in proptest::collection::vec(1_u64..30, 0..60), count in 1_usize..20) {
            let (mut cursor, mut passed) = (0, Vec::new());
            for _ in 0..=places.len() {
                let rest: Vec<u64> = places.iter().copied().filter(|place| *place >= cursor).collect();
                let next = next_cursor(rest.clone(), count);
                prop_assert!(next == 0 || next > cursor);
                passed.extend(rest.into_iter().filter(|place| next == 0 || *place < next));
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
            prop_assert_eq!(cursor, 0);
            let mut places = places;
            places.sort_unstable();
            passed.sort_unstable();
            prop_assert_eq!(passed, places);
        }

        /// Elements that are there throughout are found though others come and go between the calls.
        #[test]
        fn elements_that_stay_are_found(
            names in proptest::collection::btree_set(0_u32..2000, 150..400),
            others in proptest::collection::vec(proptest::collection::btree_set(2000_u32..4000, 0..300), 1..8),
            count in 1_usize..40,
        ) {
            let (mut cursor, mut found, mut calls) = (0, std::collections::BTreeSet::new(), 0);
            loop {
                let now: Vec<(String, ())> =
                    names.iter().chain(&others[calls % others.len()]).map(|name| (name.to_string(), ())).collect();
                let options = Scan { pattern: None, count, no_values: false };
                let elements = now.iter().map(|(name, value)| (name, value));
                let some = scan(cursor, &options, now.len(), elements);
                found.extend(some.elements.into_iter().map(|(name, ())| name.clone()));
                (cursor, calls) = (some.next, calls + 1);
                prop_assert!(calls <= 2 * CALLS_MAX + 700 / count);
                if cursor == 0 {
                    break;
                }
            }
            prop_assert!(names.iter().all(|name| found.contains(&name.to_string())));
        }
    }
}
