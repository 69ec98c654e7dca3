//! An interactive transaction yields: one that keeps a plain command, EXEC or a clearing waiting for `txn_yield_ms`,
//! and has not handed its commit over, is rolled back (*wounded*) by the one that waits. Its client hears of it with
//! its next command.
//!
//! **Invariants.** A transaction is wounded or hands its commit over, never both: one mutex decides (`Tenure`). Who
//! wounds takes the locks away at once, since the transaction's client may be silent; the transaction itself may be in
//! the middle of a command then, so it looks behind every lock that it gets, and before it answers or commits. What it
//! answered before was right when it was answered: its locks were still held.
//!
//! Transactions that are run by the server as a whole are never wounded: they wait for locks and the store only, and
//! their own time-outs bound that.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures_util::task::AtomicWaker;

use super::Inner;
use super::error::TxnError;
use super::locks::{Alone, KeyWait, Owner};
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

/// Parts of the list of interactive transactions, each under a mutex of its own.
const PARTS: usize = 16;

/// In order, so that one seed of a simulation is one run.
type Open = BTreeMap<Owner, Arc<Tenure>>;

/// The interactive transactions that may be wounded, by owner.
#[derive(Default)]
pub(super) struct Yielding {
    parts: [Mutex<Open>; PARTS],
    /// Transactions that were wounded.
    wounded: AtomicU64,
}

/// What one interactive transaction holds, as those see it that wait for it.
pub(super) struct Tenure {
    owner: Owner,
    state: Mutex<State>,
    /// Its own wait for a lock, if it waits.
    waker: AtomicWaker,
}

#[derive(Default)]
struct State {
    /// Since when it holds each key, on the runtime's clock; `None`: it has asked for it, and may hold it.
    keys: BTreeMap<Key, Option<Duration>>,
    /// Since when it holds each key space.
    spaces: BTreeMap<u8, Duration>,
    /// The spaces that who wounded it has given up, a bit for each.
    given_up: u16,
    /// Nobody may wound it any more: it was, for this reason, or it has handed its commit over or ended.
    ended: Option<Option<String>>,
}

/// What a look at one that is in the way said.
enum Seen {
    /// It may be wounded at this moment.
    Due(Duration),
    /// It is not to be wounded: nobody interactive, or over.
    Spared,
    /// It was wounded.
    Wounded,
}

impl Yielding {
    fn part(&self, owner: Owner) -> MutexGuard<'_, Open> {
        self.parts[owner as usize % PARTS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters an interactive transaction.
    pub(super) fn enter(&self, owner: Owner) -> Arc<Tenure> {
        let tenure = Arc::new(Tenure { owner, state: Mutex::default(), waker: AtomicWaker::new() });
        self.part(owner).insert(owner, tenure.clone());
        tenure
    }

    /// Forgets it: it has handed its commit over, or ended.
    pub(super) fn leave(&self, owner: Owner) {
        self.part(owner).remove(&owner);
    }

    /// Transactions that were wounded so far.
    pub(super) fn wounded(&self) -> u64 {
        self.wounded.load(Ordering::Relaxed)
    }

    fn all(&self) -> Vec<Arc<Tenure>> {
        let part = |part: &Mutex<Open>| {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner);
            part.values().cloned().collect::<Vec<_>>()
        };
        self.parts.iter().flat_map(part).collect()
    }
}

impl Tenure {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why it was wounded, if it was.
    pub(super) fn wound(&self) -> Option<String> {
        self.state().ended.clone().flatten()
    }

    /// An error if it was wounded.
    pub(super) fn stands(&self) -> Result<(), TxnError> {
        self.wound().map_or(Ok(()), |reason| Err(TxnError::Wounded(reason)))
    }

    /// It is about to ask for `key`.
    pub(super) fn asks(&self, key: &Key) -> Result<(), TxnError> {
        let mut state = self.state();
        state.stands()?;
        if !state.keys.contains_key(key) {
            state.keys.insert(key.clone(), None);
        }
        Ok(())
    }

    /// It holds `key`, unless it was wounded meanwhile.
    pub(super) fn holds(&self, key: &Key, now: Duration) -> Result<(), TxnError> {
        let mut state = self.state();
        state.stands()?;
        if let Some(since) = state.keys.get_mut(key) {
            since.get_or_insert(now);
        }
        Ok(())
    }

    /// It holds a key space, unless it was wounded meanwhile: then the space is still the caller's.
    pub(super) fn holds_space(&self, space: u8, now: Duration) -> Result<(), TxnError> {
        let mut state = self.state();
        state.stands()?;
        state.spaces.insert(space, now);
        Ok(())
    }

    /// From here on nobody wounds it. An error if it was wounded: then its locks are gone.
    pub(super) fn end(&self) -> Result<(), TxnError> {
        let mut state = self.state();
        state.stands()?;
        state.ended.get_or_insert_default();
        Ok(())
    }

    /// It is over. The key spaces that who wounded it has given up for it, a bit for each.
    pub(super) fn close(&self) -> u16 {
        let mut state = self.state();
        state.ended.get_or_insert_default();
        state.given_up
    }

    /// Done when it is wounded. For its own wait only.
    pub(super) async fn wounded(&self) {
        poll_fn(|context| {
            self.waker.register(context.waker());
            if self.wound().is_some() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Wounds it for who waits since `began` for what it holds since `held`, if that is long enough.
    fn try_wound(
        &self,
        inner: &Inner,
        waits: Waits<'_>,
        held: impl FnOnce(&State) -> Option<Duration>,
        reason: impl FnOnce(u64) -> String,
    ) -> Seen {
        let mut state = self.state();
        if state.ended.is_some() {
            return Seen::Spared;
        }
        let Some(held) = held(&state) else { return Seen::Spared };
        let due = held.max(waits.began) + waits.patience;
        if due > waits.now {
            return Seen::Due(due);
        }
        state.ended = Some(Some(reason(waits.now.saturating_sub(waits.began).as_millis() as u64)));
        let (keys, spaces) = (std::mem::take(&mut state.keys), std::mem::take(&mut state.spaces));
        spaces.keys().for_each(|space| state.given_up |= 1 << space);
        drop(state);
        let keys: Vec<Key> = keys.into_keys().collect();
        inner.locks.release(self.owner, &keys);
        spaces.keys().for_each(|space| inner.locks.release_space(self.owner, *space));
        self.waker.wake();
        inner.yielding.wounded.fetch_add(1, Ordering::Relaxed);
        Seen::Wounded
    }
}

impl State {
    fn stands(&self) -> Result<(), TxnError> {
        match &self.ended {
            Some(Some(reason)) if !mutation::on(Fault::WoundedGoesOn) => Err(TxnError::Wounded(reason.clone())),
            _ => Ok(()),
        }
    }
}

/// How long someone waits.
#[derive(Clone, Copy)]
struct Waits<'a> {
    /// What waits: a command's name.
    name: &'a str,
    began: Duration,
    now: Duration,
    patience: Duration,
}

impl Waits<'_> {
    fn command(&self) -> String {
        self.name.to_ascii_uppercase()
    }
}

impl Inner {
    fn waits<'a>(&self, name: &'a str, began: Duration) -> Waits<'a> {
        let patience = Duration::from_millis(self.limits.txn_yield_ms);
        Waits { name, began, now: self.runtime.elapsed(), patience }
    }

    /// Wounds the interactive transactions that keep the command `name` waiting for a key, since `began`, long enough.
    /// When to look again.
    pub(super) fn wound_for(&self, wait: &KeyWait, name: &str, began: Duration) -> Duration {
        let waits = self.waits(name, began);
        let tenures = wait.blockers().into_iter().filter_map(|owner| self.yielding.part(owner).get(&owner).cloned());
        let seen = tenures.map(|tenure| {
            let held = |state: &State| state.keys.get(wait.key()).copied().map(|since| since.unwrap_or(waits.now));
            let name = wait.key().name().escape_ascii().to_string();
            tenure.try_wound(self, waits, held, |ms| format!("wounded: {} {name} waited {ms} ms", waits.command()))
        });
        next_look(waits, seen)
    }

    /// The same for who clears a key space.
    pub(super) fn wound_for_space(&self, alone: &Alone<'_>, name: &str, began: Duration) -> Duration {
        let waits = self.waits(name, began);
        let seen = self.yielding.all().into_iter().map(|tenure| {
            let held = |state: &State| state.spaces.get(&alone.space()).copied();
            tenure.try_wound(self, waits, held, |ms| format!("wounded: {} waited {ms} ms", waits.command()))
        });
        next_look(waits, seen)
    }
}

/// Whoever gets in the way from now on is due in a whole `patience` at the earliest.
fn next_look(waits: Waits<'_>, seen: impl Iterator<Item = Seen>) -> Duration {
    let due = seen.filter_map(|seen| match seen {
        Seen::Due(due) => Some(due),
        Seen::Spared | Seen::Wounded => None,
    });
    due.min().unwrap_or(waits.now + waits.patience).min(waits.now + waits.patience)
}
