//! CACHE, as far as it is about what other programs write to the store.

use std::time::Duration;

use forebay::key::{Key, KeyRef};
use forebay_protocol::{Frame, Reply};

use super::family::is;
use super::{Flag, refused};
use crate::command::{Sub, SubRun};
use crate::session::Session;

/// Longest that CACHE SYNC waits.
const SYNC_MAX: Duration = Duration::from_secs(10);

pub(super) const INVALIDATE: Sub = Sub {
    name: "invalidate",
    syntax: "key [key ..] [FORCE]",
    summary: "Drops the cached copies of documents that another program has written; answers how many there were",
    arity: -3,
    flags: &[Flag::Writes],
    run: SubRun::Engine(|session, frame| Box::pin(invalidate(session, frame))),
};

pub(super) const SYNC: Sub = Sub {
    name: "sync",
    syntax: "",
    summary: "Answers when all that other programs have committed by now has reached the cache",
    arity: 2,
    flags: &[],
    run: SubRun::Engine(|session, _| Box::pin(sync(session))),
};

pub(super) const RELOAD: Sub = Sub {
    name: "reload",
    syntax: "",
    summary: "Looks the mapped tables up again, as after ALTER TABLE, and empties the cache",
    arity: 2,
    flags: &[Flag::Admin],
    run: SubRun::Engine(|session, _| Box::pin(reload(session))),
};

/// The keys of CACHE INVALIDATE end before this argument: FORCE is none where it stands behind one.
fn keys_end(frame: Frame<'_>) -> usize {
    let last = frame.len() - 1;
    if last > 2 && is(frame.arg(last), "force") { last } else { frame.len() }
}

pub(super) fn keys<'a>(frame: Frame<'a>, space: u8, take: &mut dyn FnMut(KeyRef<'a>)) {
    (2..keys_end(frame)).for_each(|at| take(KeyRef { space, name: frame.arg(at) }));
}

fn not_in_txn(session: &Session, what: &str) -> Option<Reply> {
    let inside = session.open.is_open();
    inside.then(|| Reply::error(format!("ERR CACHE {what} inside TXN is not allowed: what it has read stays read")))
}

/// While the store is away, what waits for it stays, cached or not: it is all there is. Else the store is asked for it
/// again when it is read.
async fn invalidate(session: &mut Session, frame: Frame<'_>) -> Reply {
    if let Some(refused) = not_in_txn(session, "INVALIDATE") {
        return refused;
    }
    let engine = &session.shared.engine;
    let away = engine.store().is_away();
    if away && keys_end(frame) == frame.len() {
        let why = "the store can't be reached, and what is cached is all there is";
        return Reply::error(format!("STOREDOWN {why}; CACHE INVALIDATE key .. FORCE drops it all the same"));
    }
    let mut named = Vec::new();
    keys(frame, session.space, &mut |key| named.push(key.to_key()));
    if let Some(gate) = session.shared.gate.as_ref().filter(|_| away) {
        named.retain(|key: &Key| !gate.keeps(key));
    }
    let dropped = engine.invalidate(&named).await;
    Reply::Integer(i64::try_from(dropped).unwrap_or(i64::MAX))
}

async fn sync(session: &mut Session) -> Reply {
    if let Some(refused) = not_in_txn(session, "SYNC") {
        return refused;
    }
    match session.shared.engine.sync(SYNC_MAX).await {
        Ok(()) => Reply::OK,
        Err(error) => refused(&session.shared, &error),
    }
}

async fn reload(session: &mut Session) -> Reply {
    if let Some(refused) = not_in_txn(session, "RELOAD") {
        return refused;
    }
    match session.shared.engine.reload_store().await {
        Ok(()) => Reply::OK,
        Err(why) => Reply::error(format!("ERR the mapped tables stay as they were: {why}")),
    }
}
