//! What is compared with the policy that decides, and in how much memory.

use forebay::Shadow;
use forebay::policy::Choice;
use forebay_server::shadow::SHADOW_POLICIES_MAX;

use super::form::Form;
use super::number::Bytes;

/// The least that shadows can be held in.
const SHADOW_MEMORY_MIN: u64 = 1 << 20;

/// A smaller sample has no keys of most caches.
const SHADOW_SAMPLE_MAX: usize = 4_096;

/// They may take one so-manyth of the memory.
const SHADOW_MEMORY_SHARE: u64 = 2;

/// Policies whose shadows run beside the cache.
#[derive(Clone, Debug)]
pub struct ShadowSettings {
    /// Which; none as a rule.
    pub policies: Vec<Choice>,
    /// What their caches without values may take of the memory, in bytes.
    pub memory: u64,
    /// They hear of one key in so many.
    pub sample: usize,
}

impl Default for ShadowSettings {
    fn default() -> ShadowSettings {
        ShadowSettings { policies: Vec::new(), memory: SHADOW_MEMORY_MIN, sample: 1 }
    }
}

impl ShadowSettings {
    /// What is wrong with it beside so much memory: which setting, and what to give.
    pub(super) fn wrong(&self, memory: u64, present: &Choice) -> Option<(&'static str, String)> {
        if self.policies.is_empty() {
            return None;
        }
        if self.policies.len() > SHADOW_POLICIES_MAX {
            return Some(("shadow", format!("give at most {SHADOW_POLICIES_MAX} policies")));
        }
        if self.sample > SHADOW_SAMPLE_MAX {
            return Some(("shadow-sample", format!("give a whole number from 1 to {SHADOW_SAMPLE_MAX}")));
        }
        let follows = |choice: &&Choice| Shadow::new(choice, 1 << 20, 1).follows_transactions();
        if let Some(choice) = std::iter::once(present).chain(&self.policies).find(follows).filter(|_| self.sample > 1) {
            let why = format!("{choice} goes by whole transactions, and a sample of keys has none; give 1");
            return Some(("shadow-sample", why));
        }
        let (least, most) = (SHADOW_MEMORY_MIN, memory / SHADOW_MEMORY_SHARE);
        let shown = [least, most, memory].map(|bytes| Bytes::show(&bytes));
        let [low, high, whole] = &shown;
        let why = match (self.memory < least, self.memory > most) {
            (false, false) => return None,
            _ if most < least => format!("shadows need {low}, and half of --memory, which is {whole}, is less"),
            _ => format!("give from {low} to {high}, half of --memory, which is {whole}"),
        };
        Some(("shadow-memory", why))
    }
}
