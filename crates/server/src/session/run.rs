//! One command as one transaction, or within the open one.

use forebay::Value;
use forebay::runtime::Runtime;
use forebay::store::forms::OnDelete;
use forebay::txn::{Ahead, DocumentError, Documents, Executed, LARGE_BYTES, Plan, PlannedLock, Transaction, TxnError};
use forebay::value::Kind;
use forebay_protocol::{Frame, Reply};

use super::underway::KEPT_KEY_BYTES;
use super::{ARG_BYTES_COUNTED, Session, Turns, WIDE_ARGS, any_unseen, compare, in_order, not_seen, tell_nothing};
use crate::command::{Answer, Call, Chance, Command, Effect, Flag, Known, document_error, refused};

/// Where a right was taken and given again, so that nothing else says why.
const RIGHT_TAKEN: &str = "NOPERM the right to the command was taken while it waited for its locks; try again";

impl Session {
    /// A plain command is a transaction of its own. An error if its documents are too large, all together, and it can
    /// be served in parts.
    pub(super) async fn run_alone(
        &mut self,
        locks: Vec<PlannedLock>,
        command: &'static Command,
        body: fn(&mut Call<'_>) -> Answer,
        frame: Frame<'_>,
        ahead: &mut Ahead,
    ) -> Result<Reply, TxnError> {
        if let Some(refused) = self.too_wide(locks.len()) {
            return Ok(refused);
        }
        let mut plan = Plan {
            locks: in_order(locks),
            strict: self.strict,
            name: command.name,
            caller: self.waiting_client(),
            bytes_max: Some(self.documents_max(command)),
            keeps_turn: true,
            ..Plan::default()
        };
        let (space, chance) = (self.space, self.chance_for(command));
        let context = self.context();
        let shared = self.shared.clone();
        let (mut uncompared, mut denied, mut large) = (false, false, false);
        let executed = loop {
            let identity = &self.identity;
            let executed = shared.engine.execute_locked(&plan, context, ahead, |documents| {
                // It may have waited for its locks, and its right be taken meanwhile.
                denied = identity.may_have_changed(&shared.access) && !identity.may_still(&shared, command, frame);
                if denied {
                    return Err(Reply::error(RIGHT_TAKEN));
                }
                let unseen = plan.blind && any_unseen(command, frame, space, documents);
                large = are_large(&plan.locks, documents);
                let aside = large.then(|| shared.engine.runtime());
                let call = Call { chance, ..Call::new(frame, space, Known::Documents(documents)) };
                let answer;
                (answer, uncompared) = call_body(body, call, aside);
                if unseen { tell_nothing(answer) } else { answer }
            });
            match executed.await {
                Err(TxnError::StoreDown(_)) if !plan.blind && self.takes_blind(command) => plan.blind = true,
                executed => break executed,
            }
        };
        self.took_long |= large;
        Ok(match executed {
            Ok(Executed::Done(reply, mut committing)) => {
                self.turn = committing.take_turn();
                self.committing = Some((committing, false));
                match uncompared {
                    _ if denied => self.guard_again(command, frame).err().unwrap_or(reply),
                    true => compare(command, frame, reply, Turns::new(self)).await,
                    false => reply,
                }
            }
            Ok(Executed::WatchFailed | Executed::Stale(_)) => Reply::NilArray,
            Err(error @ TxnError::TooLarge(_)) if command.is(Flag::InParts) => return Err(error),
            Err(error) => {
                if command.effect(frame) != Some(Effect::Read) {
                    self.replies.note_failed(&error);
                }
                self.buffered_fields(command, frame, &error).unwrap_or_else(|| refused(&self.shared, &error))
            }
        })
    }

    /// Why a command that deletes is refused in a key space: one of its keys is a row, whose mapping does not let it.
    pub(super) fn refuse_deletion(&self, command: &Command, frame: Frame<'_>, space: u8) -> Result<(), Reply> {
        let (engine, mut refused) = (&self.shared.engine, None);
        if engine.store().caps().owned {
            return Ok(());
        }
        command.each_key(frame, space, &mut |key| {
            if refused.is_none() && engine.store().form(&key.to_key()).on_delete() == OnDelete::Refuse {
                refused = Some(DocumentError::NotDeleted(key.to_key()));
            }
        });
        refused.map_or(Ok(()), |refused| Err(document_error(&refused)))
    }

    /// Bytes of documents behind which a command loads no other. What can go on in parts has half of what may be
    /// answered: its answer is in memory twice while it is written down.
    pub(super) fn documents_max(&self, command: &Command) -> usize {
        let limits = &self.shared.limits;
        match command.is(Flag::InParts) {
            true => limits.txn_bytes_max.min(limits.client_reply_bytes_max / 2),
            false => limits.txn_bytes_max,
        }
    }

    /// Why a command or script that locks so many keys is refused: it would take too much memory.
    pub fn too_wide(&self, keys: usize) -> Option<Reply> {
        let keys_max = self.shared.limits.locked_keys_max;
        (keys > keys_max).then(|| Reply::error(format!("LIMIT locked_keys_max {keys_max}")))
    }

    /// Refuses what makes a transaction hold so many bytes, if that is too much.
    pub fn within_txn_bytes(&self, held: usize) -> Result<(), Reply> {
        let bytes_max = self.shared.limits.txn_bytes_max;
        (held <= bytes_max).then_some(()).ok_or_else(|| Reply::error(format!("LIMIT txn_bytes_max {bytes_max}")))
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
        let (space, chance) = (self.space, self.chance_for(command));
        let blind = self.takes_blind(command);
        if let Err(error) = self.prepare_in_open(locks, blind, frame, ahead).await {
            return error;
        }
        if self.identity.may_have_changed(&self.shared.access)
            && let Err(denied) = self.guard_again(command, frame)
        {
            return denied;
        }
        if command.effect(frame) != Some(Effect::Read) {
            self.open.note_writer(self.pending.number());
        }
        let Some(transaction) = self.open.transaction() else { return Reply::error("ERR no transaction is open") };
        transaction.leave_with_large(1).await;
        let step = Step { command, body, frame, space, chance, blind };
        let Called { answer, uncompared, large } = step.call(transaction, locks, self.shared.engine.runtime());
        self.took_long |= large;
        self.committing = Some((transaction.shown(), false));
        // What the command has made of its documents may be much more than was sent.
        if let Err(refused) = self.within_txn_bytes(self.open.held_bytes()) {
            if let Some(transaction) = self.open.transaction() {
                transaction.documents_mut().roll_back();
            }
            return refused;
        }
        match (answer, uncompared) {
            (Ok(reply), true) => compare(command, frame, reply, Turns::new(self)).await,
            (answer, _) => answer.unwrap_or_else(|error| error),
        }
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
        let held = self.open.hold(frame.len() * ARG_BYTES_COUNTED);
        let no_transaction = || Reply::error("ERR no transaction is open");
        let transaction = self.open.transaction().ok_or_else(no_transaction)?;
        let more = transaction.unlocked(locks).count() * KEPT_KEY_BYTES;
        self.within_txn_bytes(held.saturating_add(more))?;
        self.keep(more)?;
        let transaction = self.open.transaction().ok_or_else(no_transaction)?;
        transaction.context_mut().hints = hints;
        transaction.set_blind(blind);
        transaction.set_bytes_max(bytes_max);
        if let Err(error) = transaction.prepare_command(locks, ahead).await {
            // It is about this command alone.
            if matches!(error, TxnError::TooLarge(_) | TxnError::Refused(_)) {
                return Err(refused(&self.shared, &error));
            }
            self.open.abort(&error.to_string(), &self.shared);
            return Err(refused(&self.shared, &error));
        }
        Ok(())
    }
}

/// One command of a transaction that goes on after it.
pub(super) struct Step<'a> {
    pub(super) command: &'a Command,
    pub(super) body: fn(&mut Call<'_>) -> Answer,
    pub(super) frame: Frame<'a>,
    pub(super) space: u8,
    pub(super) chance: Chance,
    /// It may change what nobody knows.
    pub(super) blind: bool,
}

/// What became of it.
pub(super) struct Called {
    pub(super) answer: Answer,
    /// The answer has still to be compared with its pattern.
    pub(super) uncompared: bool,
    /// It worked on large documents.
    pub(super) large: bool,
}

impl Step<'_> {
    /// Runs it in `transaction`, which has locked and loaded what it needs. What it has changed before an error is
    /// undone.
    pub(super) fn call(self, transaction: &mut Transaction, locks: &[PlannedLock], runtime: &Runtime) -> Called {
        let Step { command, body, frame, space, chance, blind } = self;
        let documents = transaction.documents_mut();
        let unseen = any_unseen(command, frame, space, documents);
        if unseen
            && !blind
            && let Some(error) = not_seen(command, frame)
        {
            return Called { answer: Err(error), uncompared: false, large: false };
        }
        documents.savepoint();
        let large = are_large(locks, documents);
        let call = Call { chance, ..Call::new(frame, space, Known::Documents(documents)) };
        let (answer, uncompared) = call_body(body, call, large.then_some(runtime));
        let answer = if unseen { tell_nothing(answer) } else { answer };
        if answer.is_err() {
            documents.roll_back();
        }
        Called { answer, uncompared, large }
    }
}

/// Whether the documents of `locks` are so large that to look through them takes long. No command looks through a byte
/// string.
fn are_large(locks: &[PlannedLock], documents: &Documents) -> bool {
    let found = locks.iter().take(WIDE_ARGS).filter_map(|lock| documents.value(lock.key.borrow()).ok().flatten());
    let collections = found.filter(|value| value.kind() != Kind::Bytes);
    collections.map(Value::size).sum::<usize>() > LARGE_BYTES
}

/// What a command answers, and whether that has still to be compared with its pattern. What takes long is done aside.
fn call_body(body: fn(&mut Call<'_>) -> Answer, mut call: Call<'_>, aside: Option<&Runtime>) -> (Answer, bool) {
    let answer = match aside {
        Some(runtime) => runtime.aside(|| body(&mut call)),
        None => body(&mut call),
    };
    (answer, call.uncompared)
}
