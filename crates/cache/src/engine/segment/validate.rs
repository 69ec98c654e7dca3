//! Whether all that must be true of a table is true.

use super::group::Group;
use super::{DEPTH_MAX, Entry, GROUPS, HOME_SHIFT, Index};
use crate::sync::Ordering;

impl<R: Entry> Index<R> {
    /// Panics if the table contradicts itself; answers its entries.
    pub fn validate(&self) -> Vec<&R> {
        let mut records = Vec::new();
        assert_eq!(self.directory.names.len(), 1 << self.directory.depth);
        let mut of_depth = [0; DEPTH_MAX as usize + 1];
        for (number, segment) in self.segments.iter() {
            assert_eq!(segment.number(), number);
            of_depth[segment.depth() as usize] += 1;
            let mut passed = [0; GROUPS];
            let here = records.len();
            for (at, group) in segment.groups.iter().enumerate() {
                for record in group.words.iter().filter_map(|word| word.look_locked(&self.leave).entry()) {
                    assert!(std::ptr::eq(self.segment(record.hash()), &**segment), "a record is in its segment");
                    let home = (record.hash() >> HOME_SHIFT) as usize % GROUPS;
                    (0..(at + GROUPS - home) % GROUPS).for_each(|step| passed[(home + step) % GROUPS] += 1);
                    let reached = |other: &Group<R>| std::ptr::eq(other, group);
                    let on_the_way = segment.walk(record.hash()).take_while(|other| !reached(other));
                    assert!(on_the_way.clone().all(|other| other.passed.load(Ordering::Relaxed) > 0), "it is found");
                    records.push(record);
                }
            }
            assert_eq!(segment.len(), records.len() - here, "words are counted");
            let counted: Vec<u32> = segment.groups.iter().map(|group| group.passed.load(Ordering::Relaxed)).collect();
            assert_eq!(counted, passed, "a group counts what was placed beyond it");
        }
        assert_eq!(of_depth, self.of_depth, "depths are counted");
        assert!(self.directory.depth == 0 || of_depth[self.directory.depth as usize] > 0, "no bit too many");
        records
    }

    #[cfg(all(test, not(feature = "loom")))]
    pub fn segments(&self) -> usize {
        self.segments.len()
    }
}
