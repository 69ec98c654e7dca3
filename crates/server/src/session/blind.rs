//! Writes to documents that are not known while the store is away. HMSET asks nothing of the present value, so it is
//! taken as it is. Of others the reply would tell it. A client that can do without says CACHE BLIND ON: then they are
//! taken too, and answer null.

use forebay::key::{Key, KeyRef};
use forebay::txn::{Documents, TxnError};
use forebay_protocol::{Frame, Reply};

use super::Session;
use crate::command::{Answer, Command, Effect, Flag};

impl Session {
    /// Whether `command` may change what nobody knows, rather than be refused.
    pub fn takes_blind(&self, command: &Command) -> bool {
        let wanted = command.is(Flag::AsksNothing) || (self.blind && command.is(Flag::Blind));
        wanted && !self.strict && self.shared.gate.is_some()
    }

    /// What is buffered of the fields that HGET or HMGET asks for, where `error` says that the hash is not known whole.
    pub(super) fn buffered_fields(&self, command: &Command, frame: Frame<'_>, error: &TxnError) -> Option<Reply> {
        let one = command.name == "hget";
        if !matches!(error, TxnError::StoreDown(_)) || !(one || command.name == "hmget") {
            return None;
        }
        let key = Key::new(self.space, frame.arg(1));
        let fenced = self.shared.engine.store().fenced().is_some();
        let gate = self.shared.gate.as_ref().filter(|_| !fenced)?;
        let names = frame.args().skip(2).take(if one { 1 } else { usize::MAX });
        let fields = gate.buffered_fields(&key, names)?.into_iter();
        let mut replies = fields.map(|value| value.map_or(Reply::Nil, Reply::Bulk));
        if one { replies.next() } else { Some(Reply::Array(replies.collect())) }
    }
}

/// Whether one of the keys of `command` is changed without being known.
pub fn any_unseen(command: &Command, frame: Frame<'_>, space: u8, documents: &Documents) -> bool {
    let mut unseen = false;
    command.each_key(frame, space, &mut |key: KeyRef<'_>| unseen |= documents.unseen(key));
    unseen
}

/// What is answered in place of `answer`, which was made of nothing: whatever would tell of the document is null.
pub fn tell_nothing(answer: Answer) -> Answer {
    answer.map(|reply| if matches!(reply, Reply::Simple(_)) { reply } else { Reply::Nil })
}

/// What a command is told that needs a document which only unseen changes are known of.
pub fn not_seen(command: &Command, frame: Frame<'_>) -> Option<Reply> {
    let looks = !matches!(command.effect(frame), None | Some(Effect::Blind));
    looks.then(|| Reply::error("STOREDOWN what the document holds is not known, only what is buffered for it"))
}
