//! What a log has and a cache is not asked for, counted by why.

use std::collections::BTreeMap;

/// Reasons that are told apart.
const REASONS_MAX: usize = 256;

/// Reasons that are told, the most frequent.
const TOLD_MAX: usize = 4;

/// Longest reason, in characters: some are made of what a log says.
const REASON_CHARS_MAX: usize = 40;

/// Counts by reason.
#[derive(Default)]
pub(super) struct LeftOut(BTreeMap<String, u64>);

impl LeftOut {
    /// One more for this reason.
    pub fn count(&mut self, reason: &str) {
        if let Some(count) = self.0.get_mut(reason) {
            *count += 1;
            return;
        }
        let known = self.0.len() < REASONS_MAX;
        let shown = |c: char| if c.is_control() { '?' } else { c };
        let reason =
            if known { reason.chars().take(REASON_CHARS_MAX).map(shown).collect() } else { "others".to_owned() };
        *self.0.entry(reason).or_default() += 1;
    }

    /// What is told of it, if there is any.
    pub fn warning(&self) -> Option<String> {
        let total: u64 = self.0.values().sum();
        let mut most: Vec<(&String, &u64)> = self.0.iter().collect();
        most.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let told: Vec<String> =
            most.iter().take(TOLD_MAX).map(|(reason, count)| format!("{reason} ({count})")).collect();
        let more = if most.len() > TOLD_MAX { ", .." } else { "" };
        let entries = if total == 1 { "1 entry is".to_owned() } else { format!("{total} entries are") };
        (total > 0).then(|| format!("{entries} left out for asking nothing of a cache: {}{more}", told.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_reasons_are_told() {
        let mut left_out = LeftOut::default();
        assert_eq!(left_out.warning(), None);
        for reason in ["a", "b", "b", "c", "d", "e\u{1b}", "e\u{1b}"] {
            left_out.count(reason);
        }
        let told = left_out.warning().expect("some");
        assert!(told.starts_with("7 entries") && told.ends_with("b (2), e? (2), a (1), c (1), .."), "{told}");
        (0..1000).for_each(|reason| left_out.count(&reason.to_string()));
        assert!(left_out.0.len() <= REASONS_MAX + 1);
    }
}
