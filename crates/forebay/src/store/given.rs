//! Ids that clients gave their transactions, as a store in memory remembers them: the newest.

use std::collections::VecDeque;

use super::{GIVEN_IDS_KEPT, GivenId};
use crate::version::Version;

#[derive(Debug, Default)]
pub(super) struct GivenIds(VecDeque<(GivenId, Version)>);

impl GivenIds {
    /// Notes under which version they were committed.
    pub(super) fn add(&mut self, given: &[GivenId], version: Version) {
        for id in given {
            self.0.push_back((id.clone(), version));
            if self.0.len() > GIVEN_IDS_KEPT {
                self.0.pop_front();
            }
        }
    }

    pub(super) fn all(&self) -> Vec<(GivenId, Version)> {
        self.0.iter().cloned().collect()
    }
}
