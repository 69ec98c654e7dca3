//! Other tiers keep what a journal keeps, for one owner at a time.

use forebay::outage::journal::entry_of;
use forebay::outage::{AppendError, Description, Found, OpenError, Record};
use forebay::runtime::simulated::SplitMix;
use forebay::tier::memory::{Memory, Owned};
use forebay::tier::{Kept, Tier};
use futures_util::FutureExt;

use crate::BYTES_MAX;
use crate::naive::{Naive, buffered, number};

fn append(owner: &Owned, record: &Record) -> Result<(), AppendError> {
    owner.append(entry_of(record).expect("it is small")).now_or_never().expect("memory never waits")
}

fn pending(kept: Kept) -> Naive {
    let found = Found::in_tier(kept);
    let pending: Result<Vec<_>, OpenError> = found.pending.collect();
    let pending = pending.expect("it can be read").into_iter().map(|pending| (pending.buffered.number, pending));
    Naive(pending.collect(), found.dropped)
}

fn described(mapping: &str) -> Description {
    Description { mapping: mapping.to_owned(), ..Description::default() }
}

#[test]
fn a_tier_in_memory_keeps_what_is_pending() {
    for seed in 0..300 {
        let mut random = SplitMix::new(seed);
        let memory = Memory::new(BYTES_MAX as usize);
        let (mut owner, _) = memory.open(described("first"));
        let (mut naive, mut last) = (Naive::default(), 0);
        for _ in 0..80 {
            let record = naive.next(last + 1, &mut random);
            assert_eq!(append(&owner, &record), Ok(()), "seed {seed}: {record:?}");
            naive.apply(&record);
            last = last.max(number(&record).unwrap_or(0));
            if random.below(10) == 0 {
                let (next, kept) = memory.open(described("later"));
                assert_eq!(kept.next_number, last + 1, "seed {seed}");
                // It has a meaning as long as there is something to be meant.
                let meaning = if naive.0.is_empty() { "later" } else { "first" };
                assert_eq!(kept.description, described(meaning), "seed {seed}");
                assert_eq!(pending(kept), naive, "seed {seed}");
                // Whoever had it before is cut off, and changes nothing.
                let late = append(&owner, &Record::Applied((0..=last).collect()));
                assert!(matches!(late, Err(AppendError::Closed { .. })), "seed {seed}");
                owner = next;
            }
            if naive.0.is_empty() {
                owner = memory.open(described("first")).0;
            }
        }
    }
}

#[test]
fn a_tier_refuses_what_does_not_fit() {
    let plain = |number: u64| Record::Buffered(buffered(number, &mut SplitMix::new(number)));
    let one = entry_of(&plain(1)).expect("it is small").body.len();
    let memory = Memory::new(one);
    let (owner, kept) = memory.open(described("m"));
    assert_eq!((kept.next_number, kept.entries.len()), (1, 0));
    assert_eq!(append(&owner, &plain(1)), Ok(()));
    assert!(matches!(append(&owner, &plain(1)), Err(AppendError::Misplaced(_))));
    assert!(matches!(append(&owner, &plain(2)), Err(AppendError::Full { .. })));
    assert_eq!(append(&owner, &Record::Applied(vec![1])), Ok(()));
    let merged = Record::Merged { into: buffered(3, &mut SplitMix::new(3)), from: vec![1] };
    assert!(matches!(append(&owner, &merged), Err(AppendError::Misplaced(_))));
    assert_eq!(owner.describe(described("n")).now_or_never(), Some(Ok(())));
    assert_eq!(owner.close().now_or_never(), Some(Ok(())));
    assert!(matches!(append(&owner, &plain(4)), Err(AppendError::Closed { .. })));
    assert!(matches!(owner.flush().now_or_never(), Some(Err(AppendError::Closed { .. }))));
    assert_eq!(memory.open(described("o")).1.description, described("o"), "nothing is pending");
}
