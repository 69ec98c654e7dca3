//! One command as a transaction of its own, or within the open one.

use forebay::cache::{LOOK_KEYS_MAX, Lent};
use forebay::txn::{Ahead, Executed, Plan, PlannedLock, TxnError};
use forebay_protocol::{Frame, Reply};

use super::{ARG_BYTES_COUNTED, Session, any_unseen, in_order, not_seen, tell_nothing};
use crate::command::{Answer, Call, Command, Effect, Known, txn_error};

/// What a key takes while a command or script that locks it runs: its lock, its document, its write.
const KEY_BYTES: usize = 1024;

impl Session {
    /// A plain command is a transaction of its own.
    pub(super) async fn run_alone(
        &mut self,
        locks: Vec<PlannedLock>,
        command: &'static Command,
        body: fn(&mut Call<'_>) -> Answer,
        frame: Frame<'_>,
        ahead: &mut Ahead,
    ) -> Reply {
        let _lent = self.lend_to(locks.len());
        let mut plan = Plan { locks: in_order(locks), strict: self.strict, ..Plan::default() };
        let (space, random) = (self.space, self.random_for(command));
        let context = self.context();
        let shared = self.shared.clone();
        let executed = loop {
            let executed = shared.engine.execute_locked(&plan, context, ahead, |documents| {
                let unseen = plan.blind && any_unseen(command, frame, space, documents);
                let answer = body(&mut Call { frame, space, known: Known::Documents(documents), random });
                if unseen { tell_nothing(answer) } else { answer }
            });
            match executed.await {
                Err(TxnError::StoreDown(_)) if !plan.blind && self.takes_blind(command) => plan.blind = true,
                executed => break executed,
            }
        };
        match executed {
            Ok(Executed::Done(reply, committing)) => {
                self.committing = Some((committing, false));
                reply
            }
            Ok(Executed::WatchFailed) => Reply::NilArray,
            Err(error) => {
                if command.effect(frame) != Some(Effect::Read) {
                    self.replies.note_failed(&error);
                }
                self.buffered_fields(command, frame, &error).unwrap_or_else(|| txn_error(&error))
            }
        }
    }

    /// Why a command or script that locks so many keys is refused: it would take too much memory.
    pub fn too_wide(&self, keys: usize) -> Option<Reply> {
        let keys_max = self.shared.limits.locked_keys_max;
        (keys > keys_max).then(|| Reply::error(format!("LIMIT locked_keys_max {keys_max}")))
    }

    /// Has the cache make way for a command or script that locks so many keys, as long as the answer is kept.
    pub fn lend_to(&self, keys: usize) -> Option<Lent> {
        let many = keys > LOOK_KEYS_MAX;
        many.then(|| self.shared.engine.cache().lend_while(keys.saturating_mul(KEY_BYTES)))
    }

    /// A command within TXN.
    pub(super) async fn run_in_open(
        &mut self,
        locks: &[PlannedLock],
        command: &'static Command,
        body: fn(&mut Call<'_>) -> Answer,
        frame: Frame<'_>,
        ahead: &mut Ahead,
    ) -> Reply {
        let (space, random) = (self.space, self.random_for(command));
        let hints = self.context().hints;
        let bytes_max = self.shared.limits.txn_bytes_max;
        let too_large = || Reply::error(format!("LIMIT txn_bytes_max {bytes_max}"));
        if self.open.hold(frame.len() * ARG_BYTES_COUNTED) > bytes_max {
            return too_large();
        }
        let blind = self.takes_blind(command);
        let Some(transaction) = self.open.transaction() else { return Reply::error("ERR no transaction is open") };
        transaction.context_mut().hints = hints;
        transaction.set_blind(blind);
        if let Err(error) = transaction.prepare_command(locks, ahead).await {
            self.open.abort(&error.to_string(), &self.shared);
            return txn_error(&error);
        }
        let documents = transaction.documents_mut();
        let unseen = any_unseen(command, frame, space, documents);
        if unseen
            && !blind
            && let Some(error) = not_seen(command, frame)
        {
            return error;
        }
        documents.savepoint();
        let answer = body(&mut Call { frame, space, known: Known::Documents(documents), random });
        let answer = if unseen { tell_nothing(answer) } else { answer };
        if answer.is_err() {
            documents.roll_back();
        }
        self.committing = Some((transaction.shown(), false));
        // What the command has made of its documents may be much more than was sent.
        if self.open.held_bytes() > bytes_max
            && let Some(transaction) = self.open.transaction()
        {
            transaction.documents_mut().roll_back();
            return too_large();
        }
        answer.unwrap_or_else(|error| error)
    }
}
