//! TXN LOCK.

use forebay::key::KeyRef;
use forebay::txn::Ahead;
use forebay_protocol::{Frame, Reply};

use crate::command::Effect;
use crate::session::{Session, in_order, planned};

/// TXN LOCK has keys; of the rest of its family no argument is one.
pub(super) fn txn_keys<'a>(frame: Frame<'a>, space: u8, take: &mut dyn FnMut(KeyRef<'a>)) {
    if frame.get(1).is_some_and(|sub| sub.eq_ignore_ascii_case(b"lock")) {
        frame.args().skip(2).for_each(|name| take(KeyRef { space, name }));
    }
}

/// Locks keys for update, in key order, and reads them as one level: who reads and then writes a key that many write
/// waits here, in place of being refused when it writes.
pub(super) async fn lock(session: &mut Session, frame: Frame<'_>) -> Result<Reply, Reply> {
    if let Some(reason) = session.open.aborted() {
        return Err(Reply::error(format!("TXABORTED {reason}")));
    }
    let transaction = session.open.transaction().ok_or_else(|| Reply::error("ERR TXN LOCK without TXN BEGIN"))?;
    if transaction.is_read_only() {
        return Err(Reply::error("ERR the transaction was begun READONLY"));
    }
    let mut locks = Vec::with_capacity(frame.len() - 2);
    txn_keys(frame, session.space, &mut |key| locks.push(planned(key, Effect::ReadWrite)));
    let locks = in_order(locks);
    session.prepare_in_open(&locks, false, frame, &mut Ahead::default()).await?;
    // It may have waited for them, and its right be taken meanwhile.
    if session.identity.may_have_changed(&session.shared.access)
        && let Some(command) = session.shared.table.find(frame.arg(0))
        && let Err(denied) = session.guard_again(command, frame)
    {
        session.open.abort("the right to lock was taken while it waited", &session.shared);
        return Err(denied);
    }
    session.committing = session.open.transaction().map(|transaction| (transaction.shown(), false));
    Ok(Reply::OK)
}
