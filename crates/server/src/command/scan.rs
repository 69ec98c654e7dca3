//! What looks at a whole key space: SCAN, KEYS, RANDOMKEY, DBSIZE, FLUSHDB, FLUSHALL. They see the last committed
//! state, not that of a transaction, and are refused inside of one.

use std::collections::BTreeSet;

use forebay::Value;
use forebay::key::{Key, SPACES};
use forebay::mutation::{self, Fault};
use forebay::store::ended;
use forebay_protocol::decoder::parse_integer;
use forebay_protocol::{Frame, Reply, errors};
use futures_util::future::BoxFuture;

use super::family::{is, text};
use super::{Command, Flag, Group, Keys, Run, refused};
use crate::cursors::CURSORS_MAX;
use crate::glob::{Glob, PATTERN_BYTES_MAX};
use crate::session::{Session, Turns};

/// Keys that the store is asked for at once; it answers fewer where their names are long.
const PAGE_KEYS: usize = 1000;

/// COUNT of a SCAN that says nothing, as in Redis.
const SCAN_COUNT_DEFAULT: usize = 10;

/// Keys that one SCAN looks at, whatever its COUNT.
const SCAN_COUNT_MAX: usize = 100_000;

/// Bytes of names after which a SCAN ends its step, whatever its COUNT.
const SCAN_BYTES_MAX: usize = 1 << 20;

/// Keys that one KEYS answers.
const KEYS_MAX: usize = 1_000_000;

/// What it takes to find a key, in the steps that [`Turns`] counts.
const WORK_PER_KEY: usize = 64;

/// Bytes of documents after which fewer of them are looked at together, and how few.
const LOOK_BYTES_MAX: usize = 1 << 20;
const LOOK_KEYS_MIN: usize = 8;

/// Expired documents that are looked for beside a page.
const EXPIRED_MAX: usize = 1024;

/// Keys among which RANDOMKEY chooses.
const RANDOM_KEYS: usize = 256;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "scan",
        syntax: "cursor [MATCH pattern] [COUNT count] [TYPE type]",
        summary: "Goes through the keys step by step, from cursor 0 until the cursor is 0 again",
        group: Group::Keys,
        arity: -2,
        keys: Keys::None,
        run: Run::Engine(|session, frame| Box::pin(answered(scan(session, frame)))),
        flags: &[Flag::NotInMulti, Flag::NotInTxn, Flag::Reads, Flag::Again],
    },
    Command {
        name: "keys",
        syntax: "pattern",
        summary: "All keys that match a pattern",
        group: Group::Keys,
        arity: 2,
        keys: Keys::None,
        run: Run::Engine(|session, frame| Box::pin(answered(keys(session, frame)))),
        flags: &[Flag::NotInMulti, Flag::NotInTxn, Flag::Reads, Flag::Dangerous, Flag::Again],
    },
    Command {
        name: "randomkey",
        syntax: "",
        summary: "Some key; each is as likely as any other over many calls",
        group: Group::Keys,
        arity: 1,
        keys: Keys::None,
        run: Run::Engine(|session, _| Box::pin(answered(random_key(session)))),
        flags: &[Flag::NotInMulti, Flag::NotInTxn, Flag::Reads],
    },
    Command {
        name: "dbsize",
        syntax: "",
        summary: "How many keys there are",
        group: Group::Server,
        arity: 1,
        keys: Keys::None,
        run: Run::Engine(|session, _| Box::pin(answered(size(session)))),
        flags: &[Flag::Fast, Flag::NotInMulti, Flag::NotInTxn, Flag::Reads],
    },
    Command {
        name: "flushdb",
        syntax: "[ASYNC|SYNC]",
        summary: "Removes all keys of this database but rows of mapped tables",
        group: Group::Server,
        arity: -1,
        keys: Keys::None,
        run: Run::Engine(|session, frame| flush(session, frame, false)),
        flags: &[Flag::NotInMulti, Flag::NotInTxn, Flag::Writes, Flag::Dangerous],
    },
    Command {
        name: "flushall",
        syntax: "[ASYNC|SYNC]",
        summary: "Removes all keys of all databases but rows of mapped tables",
        group: Group::Server,
        arity: -1,
        keys: Keys::None,
        run: Run::Engine(|session, frame| flush(session, frame, true)),
        flags: &[Flag::NotInMulti, Flag::NotInTxn, Flag::Writes, Flag::Dangerous],
    },
];

async fn answered(answer: impl Future<Output = Result<Reply, Reply>>) -> Reply {
    answer.await.unwrap_or_else(|error| error)
}

fn read_error(session: &Session, error: forebay::store::ReadError) -> Reply {
    refused(&session.shared, &error.into())
}

/// What the connection has written before is seen: its commits are published first.
async fn own_writes(session: &mut Session) {
    session.replies.settle().await;
    session.replies.lend();
}

/// The next at most `limit` keys, those that have expired left out; `None` instead of a last key at the end.
async fn page(
    session: &Session,
    after: Option<&Key>,
    limit: usize,
    turns: &mut Turns,
) -> Result<(Vec<Key>, Option<Key>), Reply> {
    turns.count(limit.min(PAGE_KEYS) * WORK_PER_KEY);
    turns.turn().await?;
    let engine = &session.shared.engine;
    let mut keys =
        engine.store().scan(session.space, after, limit).await.map_err(|error| read_error(session, error))?;
    let last = if ended(&keys, limit) { None } else { keys.last().cloned() };
    if engine.store().has_documents() {
        let now_ms = engine.runtime().now_ms();
        let expired = engine.store().expired(now_ms, EXPIRED_MAX).await.map_err(|error| read_error(session, error))?;
        if ended(&expired, EXPIRED_MAX) {
            let expired: BTreeSet<&Key> = expired.iter().collect();
            keys.retain(|key| !expired.contains(key));
        } else {
            // The reaper is far behind: look at each.
            keys = those(session, keys, |value| !value.expired(now_ms), turns).await?;
        }
    }
    Ok((keys, last))
}

/// Those of `keys` whose documents are as wanted; only a few documents are in memory at a time, if they are large.
async fn those(
    session: &Session,
    keys: Vec<Key>,
    wanted: impl Fn(&Value) -> bool,
    turns: &mut Turns,
) -> Result<Vec<Key>, Reply> {
    let mut found = Vec::new();
    let (mut at, mut count) = (0, LOOK_KEYS_MIN);
    while at < keys.len() {
        let part = &keys[at..keys.len().min(at + count)];
        let reads = session.shared.engine.store().get(part).await.map_err(|error| read_error(session, error))?;
        let values = reads.iter().map(|read| read.value.as_ref());
        let bytes: usize = values.clone().flatten().map(Value::size).sum();
        found.extend(
            part.iter().zip(values).filter(|(_, value)| value.is_some_and(&wanted)).map(|(key, _)| key.clone()),
        );
        at += part.len();
        turns.count(part.len() * WORK_PER_KEY);
        turns.turn().await?;
        count = if bytes > LOOK_BYTES_MAX { LOOK_KEYS_MIN } else { (2 * count).min(PAGE_KEYS) };
    }
    Ok(found)
}

struct ScanOptions<'a> {
    pattern: Option<&'a [u8]>,
    count: usize,
    kind: Option<&'a [u8]>,
}

/// A pattern, unless it is too long.
pub(super) fn checked_pattern(pattern: &[u8]) -> Result<&[u8], Reply> {
    match pattern.len() <= PATTERN_BYTES_MAX {
        true => Ok(pattern),
        false => Err(Reply::error(format!("LIMIT pattern_bytes_max {PATTERN_BYTES_MAX}"))),
    }
}

fn scan_options(frame: Frame<'_>) -> Result<ScanOptions<'_>, Reply> {
    let mut options = ScanOptions { pattern: None, count: SCAN_COUNT_DEFAULT, kind: None };
    let mut at = 2;
    while let Some(option) = frame.get(at) {
        let Some(value) = frame.get(at + 1) else { return Err(Reply::error(errors::SYNTAX)) };
        match option.to_ascii_lowercase().as_slice() {
            b"match" => options.pattern = Some(checked_pattern(value)?),
            b"type" => options.kind = Some(value),
            b"count" => match parse_integer(value) {
                Some(count @ 1..) => options.count = (count as u64).min(SCAN_COUNT_MAX as u64) as usize,
                Some(_) => return Err(Reply::error(errors::SYNTAX)),
                None => return Err(Reply::error(errors::NOT_AN_INTEGER)),
            },
            _ => return Err(Reply::error(errors::SYNTAX)),
        }
        at += 2;
    }
    Ok(options)
}

/// The keys that one SCAN looks at: `count`, or fewer if they are long; and where the next one goes on.
async fn step(
    session: &Session,
    mut after: Option<Key>,
    count: usize,
    turns: &mut Turns,
) -> Result<(Vec<Key>, Option<Key>), Reply> {
    let mut keys = Vec::new();
    let (mut left, mut bytes) = (count, 0);
    loop {
        let limit = left.min(PAGE_KEYS);
        let (found, last) = page(session, after.as_ref(), limit, turns).await?;
        bytes += found.iter().map(|key| key.name().len()).sum::<usize>();
        keys.extend(found);
        left -= limit;
        if last.is_none() || left == 0 || bytes > SCAN_BYTES_MAX {
            return Ok((keys, last));
        }
        after = last;
    }
}

async fn scan(session: &mut Session, frame: Frame<'_>) -> Result<Reply, Reply> {
    let cursor = std::str::from_utf8(frame.arg(1)).ok().and_then(|text| text.parse::<u64>().ok());
    let Some(cursor) = cursor else { return Err(Reply::error(errors::INVALID_CURSOR)) };
    let options = scan_options(frame)?;
    own_writes(session).await;
    let shared = session.shared.clone();
    let after = match cursor {
        0 => None,
        cursor => match shared.cursors.position(cursor).filter(|key| key.space() == session.space) {
            Some(after) => Some(after),
            None => {
                return Err(Reply::error(format!(
                    "ERR unknown cursor {cursor}: not of this database, or too old (scan_cursors_max {CURSORS_MAX}); \
                     begin again with 0"
                )));
            }
        },
    };
    let mut turns = Turns::new(session);
    let _walk = match options.count > PAGE_KEYS {
        true => Some(shared.walks.begin().await),
        false => turns.walk(options.pattern.unwrap_or_default()).await,
    };
    let (mut keys, last) = step(session, after, options.count, &mut turns).await?;
    if let Some(pattern) = options.pattern {
        keys = matching(&Glob::new(pattern), keys, &mut turns).await?;
    }
    if let Some(kind) = options.kind {
        keys =
            those(session, keys, |value| value.kind().name().as_bytes().eq_ignore_ascii_case(kind), &mut turns).await?;
    }
    let next = match last {
        Some(last) => shared.cursors.next(cursor, last),
        None => {
            shared.cursors.end(cursor);
            0
        }
    };
    let keys = keys.iter().map(|key| Reply::bulk(key.name())).collect();
    Ok(Reply::Array(vec![text(next.to_string()), Reply::Array(keys)]))
}

async fn matching(glob: &Glob, keys: Vec<Key>, turns: &mut Turns) -> Result<Vec<Key>, Reply> {
    let mut found = Vec::new();
    for key in keys {
        if turns.matches(glob, key.name()).await? {
            found.push(key);
        }
    }
    Ok(found)
}

async fn keys(session: &mut Session, frame: Frame<'_>) -> Result<Reply, Reply> {
    let pattern = checked_pattern(frame.arg(1))?;
    own_writes(session).await;
    let _walk = session.shared.walks.begin().await;
    let (glob, mut turns) = (Glob::new(pattern), Turns::new(session));
    let mut found = Vec::new();
    let (mut bytes, bytes_max) = (0, session.shared.limits.client_reply_bytes_max);
    let mut after = None;
    loop {
        let (keys, last) = page(session, after.as_ref(), PAGE_KEYS, &mut turns).await?;
        for key in matching(&glob, keys, &mut turns).await? {
            if found.len() >= KEYS_MAX {
                return Err(Reply::error(format!("LIMIT keys_max {KEYS_MAX}; use SCAN")));
            }
            let name = Reply::bulk(key.name());
            bytes += name.encoded_bytes_max();
            if bytes > bytes_max {
                return Err(Reply::error(format!("LIMIT client_reply_bytes_max {bytes_max}; use SCAN")));
            }
            found.push(name);
        }
        match last {
            Some(last) => after = Some(last),
            None => return Ok(Reply::Array(found)),
        }
    }
}

/// Chooses from one page and goes on behind it next time, so that over many calls no part of the space is preferred
/// and none costs more than a page.
async fn random_key(session: &mut Session) -> Result<Reply, Reply> {
    own_writes(session).await;
    let shared = session.shared.clone();
    let after = shared.cursors.random(session.space);
    let mut turns = Turns::new(session);
    let (mut keys, mut last) = page(session, after.as_ref(), RANDOM_KEYS, &mut turns).await?;
    // From the start if the end was reached, and further if all there was has expired.
    let mut wrapped = after.is_none();
    while keys.is_empty() {
        if last.is_none() {
            if wrapped {
                return Ok(Reply::Nil);
            }
            wrapped = true;
        }
        (keys, last) = page(session, last.clone().as_ref(), RANDOM_KEYS, &mut turns).await?;
    }
    shared.cursors.set_random(session.space, last);
    let chosen = shared.engine.runtime().random() % keys.len() as u64;
    Ok(Reply::bulk(keys[chosen as usize].name()))
}

async fn size(session: &mut Session) -> Result<Reply, Reply> {
    own_writes(session).await;
    let count = session.shared.engine.store().count(session.space).await.map_err(|error| read_error(session, error))?;
    Ok(Reply::Integer(count as i64))
}

fn flush<'a>(session: &'a mut Session, frame: Frame<'a>, all: bool) -> BoxFuture<'a, Reply> {
    Box::pin(async move {
        match (frame.get(1), frame.len()) {
            (None, _) => {}
            (Some(how), 2) if is(how, "async") || is(how, "sync") => {}
            _ => return Reply::error(errors::SYNTAX),
        }
        let shared = session.shared.clone();
        if !shared.engine.store().has_documents() {
            let name = frame.arg(0).to_ascii_uppercase();
            let name = String::from_utf8_lossy(&name);
            return Reply::error(format!(
                "ERR {name} would delete what others wrote; to drop what is cached use CACHE RESET"
            ));
        }
        own_writes(session).await;
        let spaces: Vec<u8> = if all { (0..SPACES).collect() } else { vec![session.space] };
        loop {
            // It may wait for transactions, and its right be taken meanwhile.
            let (asked, epoch) = (shared.clone(), shared.access.epoch());
            let may = move || asked.access.epoch() == epoch || mutation::on(Fault::RightKeptInWait);
            match shared.engine.clear(&spaces, if all { "flushall" } else { "flushdb" }, may).await {
                Ok(true) => return Reply::OK,
                Ok(false) => {}
                Err(error) => return refused(&shared, &error),
            }
            let command = shared.table.find(frame.arg(0));
            if let Some(Err(denied)) = command.map(|command| session.guard_again(command, frame)) {
                return denied;
            }
        }
    })
}
