//! Why a key stands where it stands, in a line.

use super::{Detox, State};
use crate::policy::Slot;

/// A score with four digits, however small scores per byte are.
fn shown(score: f64) -> String {
    match score {
        score if score == 0.0 || score.abs() >= 0.001 => format!("{score:.4}"),
        score => format!("{score:.3e}"),
    }
}

impl Detox {
    /// Score, where it comes from, and what the key helps together with.
    pub(super) fn explained(&self, slot: Slot) -> String {
        let Some(entry) = self.entries.get(slot as usize).filter(|entry| entry.state != State::Out) else {
            return "not in".into();
        };
        let groups = self.aggregate(&entry.known);
        let pinned = if entry.state == State::Pinned { ", pinned" } else { "" };
        format!(
            "score {}: groups {}, age {}; asked for {} times{pinned}; {}",
            shown(self.worth(slot)),
            shown(groups),
            shown(entry.score - groups),
            entry.known.frequency,
            self.transactions.helps_with(
                entry.txn_type,
                entry.vertex,
                entry.level,
                entry.txn != 0 || entry.txn_type != 0
            ),
        )
    }

    /// What is remembered of a key that is not in, and what would let it in.
    pub(super) fn explained_absent(&self, hash: u64) -> Option<String> {
        let known = self.known_outside(hash)?;
        let groups = self.aggregate(&known);
        let promise = groups + self.tuning.factor * self.age;
        let lowest = self.drawn.kept().iter().map(|&slot| self.worth(slot)).min_by(f64::total_cmp);
        let against = match (lowest, self.admits) {
            (None, _) => "nothing has had to make room yet".to_owned(),
            (Some(lowest), true) => format!("to come in it has to be worth more than {}", shown(lowest)),
            (Some(lowest), false) => format!("when asked for it displaces what is worth {}", shown(lowest)),
        };
        Some(format!(
            "asked for {} times, groups {}; with the present age worth {}; {against}",
            known.frequency,
            shown(groups),
            shown(promise),
        ))
    }
}
