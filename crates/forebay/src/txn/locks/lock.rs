//! One key of the lock table: who holds it, who waits for it, and the results beside it. Nothing here takes longer for
//! a queue of thousands than for a short one.

use std::collections::BTreeMap;
use std::ops::Bound;

use futures_channel::oneshot;
use hashbrown::HashSet;
use smallvec::SmallVec;

use super::{Owner, Pending};
use crate::error::there;
use crate::mutation::{self, Fault};
use crate::txn::mode::Mode;

/// Owners that are searched one by one; more are kept by hash.
const FEW_OWNERS_MAX: usize = 16;

/// A place in the queue of one key. Lower ones go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// 0: an upgrade, which goes to the head. 1: any other.
    rank: u8,
    /// Rises with each wait that begins.
    number: u64,
}

impl Turn {
    /// By which it is kept when the request is run again.
    pub(super) fn number(self) -> u64 {
        self.number
    }
}

/// A set of owners: few nearly always.
enum Owners {
    Few(SmallVec<[Owner; 2]>),
    Many(HashSet<Owner, foldhash::fast::RandomState>),
}

impl Default for Owners {
    fn default() -> Owners {
        Owners::Few(SmallVec::new())
    }
}

impl Owners {
    fn len(&self) -> usize {
        match self {
            Owners::Few(few) => few.len(),
            Owners::Many(many) => many.len(),
        }
    }

    fn contains(&self, owner: Owner) -> bool {
        match self {
            Owners::Few(few) => few.contains(&owner),
            Owners::Many(many) => many.contains(&owner),
        }
    }

    fn insert(&mut self, owner: Owner) {
        match self {
            Owners::Few(few) if few.contains(&owner) => {}
            Owners::Few(few) if few.len() < FEW_OWNERS_MAX => few.push(owner),
            Owners::Few(few) => *self = Owners::Many(few.drain(..).chain([owner]).collect()),
            Owners::Many(many) => {
                many.insert(owner);
            }
        }
    }

    /// Whether it was there.
    fn remove(&mut self, owner: Owner) -> bool {
        match self {
            Owners::Few(few) => {
                let at = few.iter().position(|other| *other == owner);
                at.map(|at| few.swap_remove(at)).is_some()
            }
            Owners::Many(many) => {
                let removed = many.remove(&owner);
                if many.is_empty() {
                    *self = Owners::default();
                }
                removed
            }
        }
    }

    fn each(&self, mut take: impl FnMut(Owner)) {
        match self {
            Owners::Few(few) => few.iter().for_each(|owner| take(*owner)),
            Owners::Many(many) => many.iter().for_each(|owner| take(*owner)),
        }
    }
}

struct Waiter {
    owner: Owner,
    mode: Mode,
    wake: oneshot::Sender<()>,
}

/// What came of asking for a lock.
pub(super) enum Asked {
    /// It is held now.
    Granted,
    /// Another transaction read the key and means to write it too.
    Rival,
    /// It stands in the queue, with nobody behind it if the flag says so.
    Queued(Turn, oneshot::Receiver<()>, bool),
}

/// One key.
#[derive(Default)]
pub(super) struct Lock {
    /// Who holds it for update or exclusively: at most one.
    strong: Option<(Owner, Mode)>,
    /// All others that hold it.
    shared: Owners,
    queue: BTreeMap<Turn, Waiter>,
    /// Unpublished results, in commit order.
    pub(super) pending: SmallVec<[Pending; 1]>,
    /// Rises when a holder goes and when a waiter is served: a queue that moves.
    moves: u64,
}

impl Lock {
    pub(super) fn idle(&self) -> bool {
        self.strong.is_none() && self.shared.len() == 0 && self.queue.is_empty() && self.pending.is_empty()
    }

    pub(super) fn held_by(&self, owner: Owner) -> Option<Mode> {
        match self.strong {
            Some((holder, mode)) if holder == owner => Some(mode),
            _ => self.shared.contains(owner).then_some(Mode::Shared),
        }
    }

    pub(super) fn moves(&self) -> u64 {
        self.moves
    }

    /// Whether anyone waits for it but who stands at `except`.
    pub(super) fn wanted(&self, except: Option<Turn>) -> bool {
        self.queue.len() > usize::from(except.is_some_and(|turn| self.queue.contains_key(&turn)))
    }

    /// Whether `owner` could hold the lock in `mode` beside the other holders.
    fn grantable(&self, owner: Owner, mode: Mode) -> bool {
        let strong_lets = self.strong.is_none_or(|(holder, held)| holder == owner || mode.compatible(held));
        let others = self.shared.len() - usize::from(self.shared.contains(owner));
        strong_lets && (others == 0 || mode.compatible(Mode::Shared))
    }

    pub(super) fn grant(&mut self, owner: Owner, mode: Mode) {
        let mode = self.held_by(owner).map_or(mode, |held| held.max(mode));
        if mode == Mode::Shared {
            return self.shared.insert(owner);
        }
        debug_assert!(self.strong.is_none_or(|(holder, _)| holder == owner), "two may write");
        self.shared.remove(owner);
        self.strong = Some((owner, mode));
    }

    /// Asks for `mode`. A wait takes the place `before`, where the request stood when it was run before, or a new one.
    pub(super) fn ask(&mut self, owner: Owner, mode: Mode, before: Option<u64>, new: impl FnOnce() -> u64) -> Asked {
        let held = self.held_by(owner);
        if held.is_some_and(|held| held >= mode) {
            return Asked::Granted;
        }
        let upgrade = held.is_some();
        let first = self.queue.first_key_value().map(|(first, _)| *first);
        let head = upgrade || first.is_none_or(|first| before.is_some_and(|number| Turn { rank: 1, number } < first));
        if head && self.grantable(owner, mode) {
            self.grant(owner, mode);
            return Asked::Granted;
        }
        let rival =
            self.strong.is_some_and(|(holder, _)| holder != owner) || first.is_some_and(|first| first.rank == 0);
        if upgrade && rival {
            return Asked::Rival;
        }
        let (wake, woken) = oneshot::channel();
        let ahead = upgrade && !mutation::on(Fault::UpgradeAtTail);
        let turn = Turn { rank: u8::from(!ahead), number: before.unwrap_or_else(new) };
        self.queue.insert(turn, Waiter { owner, mode, wake });
        let last = self.queue.last_key_value().is_some_and(|(last, _)| *last == turn);
        Asked::Queued(turn, woken, last)
    }

    /// Takes who stands at `turn` out of the queue; false if it was served before.
    pub(super) fn leave(&mut self, turn: Turn) -> bool {
        self.queue.remove(&turn).is_some()
    }

    pub(super) fn release(&mut self, owner: Owner) {
        let strong = self.strong.take_if(|(holder, _)| *holder == owner).is_some();
        if self.shared.remove(owner) || strong {
            self.moves += 1;
        }
    }

    /// Grants what can be granted at the head of the queue.
    pub(super) fn serve(&mut self) {
        while let Some(head) = self.queue.first_entry() {
            let (owner, mode) = (head.get().owner, head.get().mode);
            if !self.grantable(owner, mode) {
                return;
            }
            let Some((_, waiter)) = there(self.queue.pop_first()) else { return };
            self.moves += 1;
            // Who has given up waiting releases what it was granted: `release` follows every wait that fails.
            self.grant(owner, mode);
            let _ = waiter.wake.send(());
        }
    }

    /// The strongest mode that anyone wants behind `from` and up to `to`, or `known`. The walk ends at the first that
    /// wants the key for itself; `steps` counts.
    pub(super) fn strongest(&self, from: Option<Turn>, to: Turn, known: Mode, steps: &mut u64) -> Mode {
        if from.is_some_and(|from| from >= to) {
            return known;
        }
        let mut strongest = known;
        let begin = from.map_or(Bound::Unbounded, Bound::Excluded);
        for (_, waiter) in self.queue.range((begin, Bound::Included(to))) {
            if strongest == Mode::Exclusive {
                break;
            }
            *steps += 1;
            strongest = strongest.max(waiter.mode);
        }
        strongest
    }

    /// The mode that who stands at `turn` wants; `None` if it was served, or has left.
    pub(super) fn wants(&self, owner: Owner, turn: Turn) -> Option<Mode> {
        self.queue.get(&turn).filter(|waiter| waiter.owner == owner).map(|waiter| waiter.mode)
    }

    /// Tells of each holder but `except` that is in the way of `mode`.
    pub(super) fn in_the_way(&self, mode: Mode, except: Owner, mut take: impl FnMut(Owner)) {
        if let Some((holder, held)) = self.strong
            && holder != except
            && !mode.compatible(held)
        {
            take(holder);
        }
        if !mode.compatible(Mode::Shared) {
            self.shared.each(|holder| {
                if holder != except {
                    take(holder);
                }
            });
        }
    }

    /// Panics if it contradicts itself.
    pub(super) fn validate(&self, name: &str) {
        assert!(!self.idle(), "{name} is in the table for nothing");
        if let Some((holder, mode)) = self.strong {
            assert!(!self.shared.contains(holder), "{name}: {holder} holds it twice");
            assert!(mode != Mode::Exclusive || self.shared.len() == 0, "{name}: not alone");
        }
        if let Some((_, head)) = self.queue.first_key_value() {
            assert!(!self.grantable(head.owner, head.mode), "{name}: the head of the queue could go");
        }
        let behind = self.queue.values().skip(1).find(|waiter| self.held_by(waiter.owner).is_some());
        assert!(behind.is_none(), "{name}: an upgrade waits behind others");
        let version = |pending: &Pending| (pending.settled.version().is_none(), pending.settled.version());
        assert!(self.pending.is_sorted_by_key(version), "{name}: results in commit order");
    }
}
