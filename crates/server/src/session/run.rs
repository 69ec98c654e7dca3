//! One command as a transaction of its own, or within the open one.

use forebay::Value;
use forebay::key::Key;
use forebay::txn::{Ahead, Executed, Plan, PlannedLock, TxnError};
use forebay_protocol::{Frame, Reply};
use smallvec::SmallVec;

use super::{ARG_BYTES_COUNTED, Session, any_unseen, in_order, not_seen, tell_nothing};
use crate::command::{Answer, Call, Command, Effect, Known, txn_error};

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
        let mut plan = Plan {
            locks: in_order(locks),
            strict: self.strict,
            name: command.name,
            caller: self.waiting_client(),
            ..Plan::default()
        };
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
        let blind = self.takes_blind(command);
        if let Err(error) = self.prepare_in_open(locks, blind, frame, ahead).await {
            return error;
        }
        let Some(transaction) = self.open.transaction() else { return Reply::error("ERR no transaction is open") };
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
        answer.unwrap_or_else(|error| error)
    }

    /// Locks and loads what a request within TXN needs, and counts it.
    pub async fn prepare_in_open(
        &mut self,
        locks: &[PlannedLock],
        blind: bool,
        frame: Frame<'_>,
        ahead: &mut Ahead,
    ) -> Result<(), Reply> {
        let hints = self.context().hints;
        let bytes_max = self.shared.limits.txn_bytes_max;
        if self.open.hold(frame.args_bytes() + frame.len() * ARG_BYTES_COUNTED) > bytes_max {
            return Err(Reply::error(format!("LIMIT txn_bytes_max {bytes_max}")));
        }
        let no_transaction = || Reply::error("ERR no transaction is open");
        let transaction = self.open.transaction().ok_or_else(no_transaction)?;
        transaction.context_mut().hints = hints;
        transaction.set_blind(blind);
        let read = |lock: &&PlannedLock| lock.load && !transaction.documents().loaded(lock.key.borrow());
        let new: SmallVec<[Key; 2]> = locks.iter().filter(read).map(|lock| lock.key.clone()).collect();
        if let Err(error) = transaction.prepare_command(locks, ahead).await {
            self.open.abort(&error.to_string(), &self.shared);
            return Err(txn_error(&error));
        }
        let documents = transaction.documents();
        let sizes = new.iter().filter_map(|key| documents.value(key.borrow()).ok().flatten()).map(Value::size);
        let loaded: usize = sizes.sum();
        self.open.hold(loaded);
        Ok(())
    }
}
