//! TXN: the interactive transaction of a session, and how it ends by itself.

use std::sync::atomic::Ordering;
use std::time::Duration;

use forebay::txn::{Transaction, TxnLimits};
use forebay_protocol::Reply;

use super::underway::KEPT_KEY_BYTES;
use crate::access::rights::{Denied, Rights};
use crate::given::Claim;
use crate::state::Shared;

/// What a client is told whose transaction has taken `txn_ms_max`.
pub(super) const WHOLE_TIME_UP: &str = "timeout: txn_ms_max";

/// A session's interactive transaction.
#[derive(Default)]
pub struct Open {
    state: State,
    /// A reply was written since the last command of the transaction: the next one begins a level.
    answered: bool,
    /// Bytes for the arguments of its commands: locks, entries.
    bytes: usize,
    /// The commands of the transaction that may have written, each once: by their numbers in the table.
    writers: Vec<usize>,
    /// Its hold on the id that its client gave it.
    claim: Option<Claim>,
}

#[derive(Default)]
enum State {
    #[default]
    None,
    Open {
        transaction: Box<Transaction>,
        began: Duration,
        active: Duration,
    },
    /// Rolled back by the server; its client has to hear of it before it goes on.
    Aborted(String),
    /// Begun under an id that has committed before: what the commands in it are told, and what its commit is.
    Over {
        reason: String,
        commit: Reply,
    },
}

/// When and why a transaction is rolled back.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    /// The moment, on the runtime's clock.
    pub at: Duration,
    /// What the client is told.
    pub reason: &'static str,
}

impl Open {
    /// Whether a transaction is open.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Why the transaction was rolled back, if it was and the client has not ended it.
    pub fn aborted(&self) -> Option<&str> {
        match &self.state {
            State::Aborted(reason) | State::Over { reason, .. } => Some(reason),
            _ => None,
        }
    }

    /// The client begins a transaction that has committed before, as `reason` says; nothing of it is done again. Its
    /// commit is answered with `commit`.
    pub fn set_over(&mut self, reason: String, commit: Reply) {
        self.state = State::Over { reason, commit };
    }

    /// Whether the transaction had committed before it was begun.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over { .. })
    }

    /// Ends a transaction that had committed before; the answer to its commit.
    pub fn take_over(&mut self) -> Option<Reply> {
        match std::mem::take(&mut self.state) {
            State::Over { commit, .. } => Some(commit),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// The hold on the open transaction's id, for who takes care of its commit.
    pub fn take_claim(&mut self) -> Option<Claim> {
        self.claim.take()
    }

    /// Takes a transaction in.
    pub fn set(&mut self, transaction: Transaction, claim: Option<Claim>, now: Duration) {
        self.claim = claim;
        self.state = State::Open { transaction: Box::new(transaction), began: now, active: now };
        (self.answered, self.bytes) = (false, 0);
        self.writers.clear();
    }

    /// A command of the transaction, by its number in the table, may have written.
    pub fn note_writer(&mut self, number: usize) {
        if !self.writers.contains(&number) {
            self.writers.push(number);
        }
    }

    /// What of the transaction's writes these rights do not permit.
    pub fn denied_writes(&self, rights: &Rights) -> Option<Denied> {
        let State::Open { transaction, .. } = &self.state else { return None };
        rights.check_written(&self.writers, transaction.documents().written()).err()
    }

    /// Counts what the transaction holds beside its documents in addition; answers how much it is in all.
    pub fn hold(&mut self, bytes: usize) -> usize {
        self.bytes = self.bytes.saturating_add(bytes);
        self.held_bytes()
    }

    /// Bytes of what the open transaction has read and written, and of what that has grown to.
    pub fn held_bytes(&self) -> usize {
        match &self.state {
            State::Open { transaction, .. } => {
                let locked = transaction.locked_keys() * KEPT_KEY_BYTES;
                self.bytes.saturating_add(transaction.documents().held_bytes()).saturating_add(locked)
            }
            _ => 0,
        }
    }

    /// The open transaction, for its next command.
    pub fn transaction(&mut self) -> Option<&mut Transaction> {
        match &mut self.state {
            State::Open { transaction, .. } => {
                if std::mem::take(&mut self.answered) {
                    transaction.context_mut().level += 1;
                }
                Some(transaction)
            }
            _ => None,
        }
    }

    /// Takes the transaction out, to be committed or dropped.
    pub fn take(&mut self, shared: &Shared) -> Option<Transaction> {
        match std::mem::take(&mut self.state) {
            State::Open { transaction, .. } => {
                shared.figures.transactions_open.fetch_sub(1, Ordering::Relaxed);
                Some(*transaction)
            }
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Rolls it back; the client's next command is told why.
    pub fn abort(&mut self, reason: &str, shared: &Shared) {
        if let Some(transaction) = self.take(shared) {
            self.claim = None;
            // Of two reasons it is the first that ended it.
            self.state = State::Aborted(transaction.wounded().unwrap_or_else(|| reason.to_owned()));
        }
    }

    /// Notices that the transaction yielded to others: it was rolled back then.
    pub fn look_for_wound(&mut self, shared: &Shared) {
        let State::Open { transaction, .. } = &self.state else { return };
        if let Some(reason) = transaction.wounded() {
            self.abort(&reason, shared);
        }
    }

    /// Forgets it, rolled back or to be rolled back.
    pub fn drop_transaction(&mut self, shared: &Shared) {
        drop(self.take(shared));
        self.claim = None;
        self.state = State::None;
    }

    /// Its replies were written to the client.
    pub fn replies_written(&mut self) {
        self.answered = true;
    }

    /// Its client has spoken at `now`.
    pub fn touch(&mut self, now: Duration) {
        if let State::Open { active, .. } = &mut self.state {
            *active = now;
        }
    }

    /// When it is to be rolled back.
    pub fn deadline(&self, limits: &TxnLimits) -> Option<Deadline> {
        let State::Open { began, active, .. } = &self.state else { return None };
        let idle = *active + Duration::from_millis(limits.txn_idle_ms_max);
        let whole = *began + Duration::from_millis(limits.txn_ms_max);
        Some(match idle <= whole {
            true => Deadline { at: idle, reason: "timeout: txn_idle_ms_max" },
            false => Deadline { at: whole, reason: WHOLE_TIME_UP },
        })
    }

    /// When it is to be rolled back even if its client is not idle, on the runtime's clock.
    pub fn ends(&self, limits: &TxnLimits) -> Option<Duration> {
        let State::Open { began, .. } = &self.state else { return None };
        Some(*began + Duration::from_millis(limits.txn_ms_max))
    }
}
