//! A database with demands. It refuses some of what is applied until it is mended, and comes back from a backup of
//! just now. Where all is one lane, it wants what was buffered in the order in which it was acknowledged.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay::outage::{Gate, Standing};
use forebay::read::Read;
use forebay::runtime::Runtime;
use forebay::store::forms;
use forebay::store::{Caps, Commit, CommitOutcome, Form, ReadError, Store};
use forebay::{Key, TxnId};
use futures_util::future::BoxFuture;

use crate::book::{broken, expect};

/// How long it thinks before it refuses; time must pass where it is asked again and again.
const REFUSING: Duration = Duration::from_millis(5);

/// What makes a database demanding, for one life of the process before it.
pub struct Demanding {
    pub runtime: Runtime,
    pub store: Arc<dyn Store>,
    /// All is one lane.
    pub serial: bool,
    /// One in so many of the buffered transactions is refused; 0: none.
    pub refuses: u64,
    pub incarnation: AtomicU64,
    pub state: Mutex<State>,
}

#[derive(Default)]
pub struct State {
    /// Before it; taken back when the life ends.
    gate: Option<Gate>,
    mended: bool,
    /// Backups that something pending was held back for.
    backups: u64,
    /// What was buffered when it came back from a backup, until the operator lets it go.
    held: BTreeSet<TxnId>,
}

impl Demanding {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The gate before it; none any more at the end.
    pub fn set_gate(&self, gate: Option<Gate>) {
        let before = std::mem::replace(&mut self.state().gate, gate);
        drop(before);
    }

    /// It comes back from a backup of just now.
    pub fn restored(&self) {
        let Some(gate) = self.state().gate.clone() else { return };
        let held = gate.with_buffer(|buffer| {
            let ids = |number| buffer.buffered(number).map(|buffered| buffered.id);
            buffer.numbers(None, 0, usize::MAX).into_iter().filter_map(ids).collect()
        });
        self.incarnation.fetch_add(1, Ordering::SeqCst);
        let mut state = self.state();
        state.backups += u64::from(!BTreeSet::is_empty(&held));
        state.held = held;
    }

    /// How often it came back from a backup while something was pending.
    pub fn backups(&self) -> u64 {
        self.state().backups
    }

    /// An operator looks after what waits for one.
    pub async fn look_after(&self, gate: &Gate) {
        let state = gate.state();
        if state.suspended.is_some() {
            self.state().held.clear();
            drop(gate.resume().await);
        }
        if state.amount.quarantined > 0 {
            self.state().mended = true;
            gate.retry(None).await;
        }
    }

    /// How many of `group`, from the front, it takes.
    fn takes(&self, group: &[Commit]) -> usize {
        let (gate, held, mended) = {
            let state = self.state();
            (state.gate.clone(), state.held.clone(), state.mended)
        };
        let Some(gate) = gate else { return group.len() };
        if let Some(commit) = group.iter().find(|commit| held.contains(&commit.id)) {
            broken("a restored store waits for an operator", format!("{} was carried over to it", commit.id));
        }
        gate.with_buffer(|buffer| {
            let pending: Vec<_> =
                buffer.numbers(None, 0, usize::MAX).into_iter().filter_map(|n| buffer.buffered(n)).collect();
            let aside = pending.iter().any(|b| matches!(buffer.standing(b.number), Some(Standing::Quarantined(_))));
            for (at, commit) in group.iter().enumerate() {
                if forms::untaken(commit, |key| self.form(key)).is_some() {
                    return at;
                }
                let Some(mine) = pending.iter().find(|buffered| buffered.id == commit.id) else { continue };
                // What was handed out while something was set aside may be ahead of it.
                if self.serial && !aside && !mended {
                    let ahead = |id: TxnId| group[..at].iter().any(|other| other.id == id);
                    let overtaken = pending.iter().find(|other| other.number < mine.number && !ahead(other.id));
                    expect(overtaken.is_none(), "one lane, one order", || {
                        format!("{} overtakes {:?}", mine.number, overtaken.map(|other| other.number))
                    });
                }
                // What may have landed is not refused.
                let drawn = commit.id.0.sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                if !mended && !mine.sent && self.refuses > 0 && drawn.is_multiple_of(self.refuses) {
                    return at;
                }
            }
            group.len()
        })
    }
}

impl Store for Demanding {
    fn caps(&self) -> Caps {
        self.store.caps()
    }

    fn name(&self) -> String {
        self.store.name()
    }

    fn incarnation(&self) -> u64 {
        self.incarnation.load(Ordering::SeqCst)
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        self.store.get_within(keys, bytes_max)
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        Box::pin(async move {
            let taken = self.takes(group);
            if taken == group.len() {
                return self.store.commit(group).await;
            }
            let mut outcomes = match taken {
                0 => Vec::new(),
                _ => self.store.commit(&group[..taken]).await,
            };
            let applied = outcomes.iter().all(|outcome| matches!(outcome, CommitOutcome::Committed(_)));
            if applied && outcomes.len() == taken {
                self.runtime.sleep(REFUSING).await;
                outcomes.push(CommitOutcome::Refused("a constraint".into()));
            }
            outcomes.resize(group.len(), CommitOutcome::Unavailable("behind one that was not applied".into()));
            outcomes
        })
    }

    fn form(&self, key: &Key) -> Form {
        self.store.form(key)
    }

    forebay::rest_of_store!(store);
}
