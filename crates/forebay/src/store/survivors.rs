//! What a crash leaves of writes that were not synced, for tests.

use crate::runtime::simulated::SplitMix;

/// A write that was not synced.
#[derive(Clone, Debug)]
pub(crate) enum Unsynced {
    /// These bytes at this offset.
    Write(u64, Vec<u8>),
    /// A new length.
    Length(u64),
}

impl Unsynced {
    /// Does it to the bytes of a file.
    pub(crate) fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Unsynced::Length(length) => to.resize(*length as usize, 0),
            Unsynced::Write(offset, data) => {
                let (start, end) = (*offset as usize, *offset as usize + data.len());
                if to.len() < end {
                    to.resize(end, 0);
                }
                to[start..end].copy_from_slice(data);
            }
        }
    }

    /// What is left of it: `survives` is asked with its length (0 for a change of length), and answers how many bytes
    /// of its front are left, or none for nothing.
    pub(crate) fn after_crash(self, survives: &mut impl FnMut(usize) -> Option<usize>) -> Option<Unsynced> {
        match self {
            Unsynced::Length(_) => survives(0).map(|_| self),
            Unsynced::Write(offset, mut data) => survives(data.len()).map(|kept| {
                data.truncate(kept);
                Unsynced::Write(offset, data)
            }),
        }
    }
}

/// Which of the writes that were not synced outlive a crash, in order, and how much of each.
#[derive(Clone, Copy, Debug)]
pub enum Survivors {
    /// The first so many.
    First(usize),
    /// All but one.
    AllBut(usize),
    /// Half of them, some of those torn, by this seed.
    Half(u64),
    /// None, few, many or all; some torn; sometimes nothing behind the first loss: by this seed.
    Chance(u64),
}

impl Survivors {
    /// Every prefix of so many writes, every single loss, some by chance.
    pub fn of(unsynced: usize, seed: u64) -> Vec<Survivors> {
        let mut random = SplitMix::new(seed);
        let prefixes = (0..=unsynced).map(Survivors::First);
        let losses = (0..unsynced).map(Survivors::AllBut);
        prefixes.chain(losses).chain((0..4).map(|_| Survivors::Half(random.draw()))).collect()
    }

    /// Answers, for each write in order, how much of it is left.
    pub fn choice(self) -> Box<dyn FnMut(usize) -> Option<usize>> {
        let (Survivors::Half(seed) | Survivors::Chance(seed)) = self else {
            let mut at = 0;
            return Box::new(move |length| {
                at += 1;
                let survives = match self {
                    Survivors::First(count) => at <= count,
                    Survivors::AllBut(lost) => at - 1 != lost,
                    Survivors::Half(_) | Survivors::Chance(_) => true,
                };
                survives.then_some(length)
            });
        };
        let mut random = SplitMix::new(seed);
        let (share, torn, ordered) = match self {
            Survivors::Chance(_) => {
                ([0, 20, 50, 90, 100][random.below(5) as usize], random.below(100) < 30, random.below(100) < 40)
            }
            _ => (50, true, false),
        };
        let mut lost = false;
        Box::new(move |length| {
            let survives = random.below(100) < share && !(ordered && lost);
            lost |= !survives;
            match survives {
                true if torn && length > 0 && random.below(100) < 20 => Some(random.below(length as u64) as usize),
                true => Some(length),
                false => None,
            }
        })
    }
}
