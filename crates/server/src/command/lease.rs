//! LEASE: documents for a cache inside the application, and the check that they are current (`docs/leases.md`).
//!
//! `LEASE GET` answers documents with their versions, and with a version P, `as_of`. All up to P was published before
//! the documents were read, and nothing will be published at or below P. Of a key whose version the client names, and
//! that has it still, the answer says `same` in place of the document. `LEASE CHECK` names versions as a client has
//! read them. The EXEC that follows compares them under its locks, and commits or tells which are stale.
//!
//! A version is written `1-3`, or `-1-3` where the key was absent at it.

mod answer;

use std::collections::HashSet;

use forebay::key::{Key, KeyRef};
use forebay::txn::{LARGE_BYTES, Leased, Watched};
use forebay::version::Version;
use forebay_protocol::decoder::parse_integer;
use forebay_protocol::{Frame, Reply, errors};
use futures_util::future::BoxFuture;
use smallvec::SmallVec;

use super::family::{self};
use super::transaction::{claim, parse_id};
use super::{Command, Flag, Group, Keys, Run, refused};
use crate::command::{Sub, SubRun};
use crate::given::Taken;
use crate::session::Session;
use answer::{Answer, Have, version_text};

/// Hits of one key that the policy is told with one request. More say no more to any policy.
const HITS_TOLD_MAX: i64 = 16;

pub(super) const COMMANDS: &[Command] = &[Command {
    name: "lease",
    syntax: "subcommand [arg ..]",
    summary: "Documents for a cache in the application, and the check that they are current",
    group: Group::Transactions,
    arity: -2,
    keys: Keys::Custom(each_key),
    run: Run::Cached(serve_cached, |session, frame| family::run_waiting(session, frame, "lease", SUBS)),
    flags: &[Flag::NotInMulti, Flag::NotInTxn, Flag::Reads, Flag::Again],
}];

pub(super) const SUBS: &[Sub] = &[
    Sub {
        name: "get",
        syntax: "numkeys key [key ..] [HITS n ..] [HAVE version ..]",
        summary: "Type, document, version, as-of version, writes per second and ms to expiry of each key; no document \
                  of a first key that is at the version of HAVE",
        arity: -4,
        flags: &[],
        run: SubRun::Engine(get),
    },
    Sub {
        name: "check",
        syntax: "[ID uuid] key version [key version ..]",
        summary: "Has the next EXEC commit only if each key is at this version; -TXSTALE tells which are not",
        arity: -4,
        flags: &[],
        run: SubRun::Engine(check),
    },
    Sub {
        name: "client",
        syntax: "uuid",
        summary: "Says that this connection is one of those of the client with this id: their writes count as its own",
        arity: 3,
        flags: &[],
        run: SubRun::Session(client),
    },
];

/// Whether a request is a LEASE CHECK.
pub(super) fn checks(frame: Frame<'_>) -> bool {
    frame.get(1).is_some_and(|name| name.eq_ignore_ascii_case(b"check"))
}

fn each_key<'a>(frame: Frame<'a>, space: u8, take: &mut dyn FnMut(KeyRef<'a>)) {
    let mut tell = |name| take(KeyRef { space, name });
    if checks(frame) {
        frame.args().skip(if id_of(frame).is_some() { 4 } else { 2 }).step_by(2).for_each(&mut tell);
    } else if frame.get(1).is_some_and(|name| name.eq_ignore_ascii_case(b"get")) {
        let count = frame.get(2).and_then(parse_integer).and_then(|count| usize::try_from(count).ok());
        frame.args().skip(3).take(count.unwrap_or(0)).for_each(&mut tell);
    }
}

fn get<'a>(session: &'a mut Session, frame: Frame<'a>) -> BoxFuture<'a, Reply> {
    Box::pin(async move {
        let asked = match asked(session, frame) {
            Ok(asked) => asked,
            Err(error) => return error,
        };
        let shared = session.shared.clone();
        let (context, caller) = (session.context(), session.waiting_client());
        let keys: Vec<Key> = asked.names.iter().map(|name| name.to_key()).collect();
        let bytes_max = documents_max(session);
        match shared.engine.lease(&keys, context, caller, bytes_max, session.unsettled()).await {
            Ok((leased, mut committing)) => {
                session.turn = committing.take_turn();
                session.committing = Some((committing, false));
                answer(session, asked, leased).reply()
            }
            Err(error) => refused(&shared, &error),
        }
    })
}

/// Serves a LEASE GET whose keys are all cached, without a lock and without a wait; whether it is answered.
fn serve_cached(session: &mut Session, frame: Frame<'_>) -> bool {
    let Some(answer) = get_cached(session, frame) else { return false };
    if answer.is_small(session.shared.limits.client_reply_bytes_max) {
        session.hints.used();
        session.answer_written(|protocol, out| answer.write(protocol, out));
        return true;
    }
    let reply = answer.reply();
    if !session.has_room_for(&reply) {
        return false;
    }
    session.hints.used();
    session.answer(&reply);
    true
}

/// The answer to a LEASE GET whose keys are all cached, without a lock; `None` if it has to wait, or is something else.
#[inline]
fn get_cached(session: &Session, frame: Frame<'_>) -> Option<Answer> {
    if frame.len() < 4 || !frame.arg(1).eq_ignore_ascii_case(b"get") {
        return None;
    }
    let asked = asked(session, frame).ok()?;
    // What is larger takes long to write down.
    let bytes_max = documents_max(session).min(LARGE_BYTES);
    let leased = session.shared.engine.lease_cached(&asked.names, &session.context(), bytes_max)?;
    Some(answer(session, asked, leased))
}

/// Bytes of documents that one answer holds at most.
fn documents_max(session: &Session) -> usize {
    let limits = &session.shared.limits;
    limits.txn_bytes_max.min(limits.client_reply_bytes_max / 2)
}

/// What is answered, and the policy told of what the client's cache has served.
#[inline]
fn answer(session: &Session, asked: Asked<'_>, leased: Leased) -> Answer {
    let (shared, client) = (&session.shared, session.client.id as u32);
    let Asked { names, hits, have } = asked;
    if !hits.is_empty() {
        let context = session.context();
        let told = names.iter().zip(&hits);
        told.for_each(|(name, hits)| shared.engine.cache().hit_elsewhere(*name, *hits, &context));
    }
    let writes = shared.leases.rates(names.iter().copied(), client);
    Answer { leased, writes, have }
}

/// What a LEASE GET asks for.
struct Asked<'a> {
    names: SmallVec<[KeyRef<'a>; 4]>,
    /// How often the client's cache has served each since it asked last; empty if it does not say.
    hits: Vec<u64>,
    /// The versions that it has of the first of them, and whether there was a document.
    have: Have,
}

fn asked<'a>(session: &Session, frame: Frame<'a>) -> Result<Asked<'a>, Reply> {
    let count = parse_integer(frame.arg(2)).ok_or_else(|| Reply::error(errors::NOT_AN_INTEGER))?;
    let keys_max = session.shared.limits.lease_keys_max;
    let count = usize::try_from(count).ok().filter(|count| *count > 0);
    let count = count.ok_or_else(|| Reply::error("ERR numkeys should be greater than 0"))?;
    if count > keys_max {
        return Err(Reply::error(format!("LIMIT lease_keys_max {keys_max}")));
    }
    let end = 3 + count;
    if frame.len() < end {
        return Err(Reply::error("ERR Number of keys can't be greater than number of args"));
    }
    let (space, mut names) = (session.space, SmallVec::with_capacity(count));
    (3..end).for_each(|at| names.push(KeyRef { space, name: frame.arg(at) }));
    let mut asked = Asked { names, hits: Vec::new(), have: Have::new() };
    let mut at = end;
    while at < frame.len() {
        at = option_of(frame, at, &mut asked)?;
    }
    Ok(asked)
}

/// Takes the option at `at`, which is behind the keys; where the next one is.
fn option_of(frame: Frame<'_>, at: usize, asked: &mut Asked<'_>) -> Result<usize, Reply> {
    let (option, count) = (frame.arg(at), asked.names.len());
    let twice = |is_there: bool| if is_there { Err(Reply::error("ERR an option is there twice")) } else { Ok(()) };
    if option.eq_ignore_ascii_case(b"hits") {
        twice(!asked.hits.is_empty())?;
        let number = |arg| parse_integer(arg).filter(|hits| *hits >= 0).map(|hits| hits.min(HITS_TOLD_MAX) as u64);
        let numbers = frame.args().skip(at + 1).take_while(|arg| !arg.eq_ignore_ascii_case(b"have"));
        let hits: Option<Vec<u64>> = numbers.map(number).collect();
        let hits = hits.filter(|hits| hits.len() == count);
        asked.hits = hits.ok_or_else(|| Reply::error("ERR HITS takes a number of hits, not negative, for each key"))?;
        return Ok(at + 1 + count);
    }
    if !option.eq_ignore_ascii_case(b"have") {
        return Err(Reply::error(errors::SYNTAX));
    }
    twice(!asked.have.is_empty())?;
    let versions = frame.args().skip(at + 1).take_while(|arg| !arg.eq_ignore_ascii_case(b"hits"));
    for version in versions {
        if asked.have.len() == count {
            return Err(Reply::error("ERR HAVE names more versions than there are keys"));
        }
        asked.have.push(parse_version(version).ok_or_else(|| no_version(version))?);
    }
    match asked.have.len() {
        0 => Err(Reply::error("ERR HAVE takes the versions of the first keys")),
        versions => Ok(at + 1 + versions),
    }
}

fn version_or_nil(version: Option<Version>) -> Reply {
    version.map_or(Reply::Nil, |version| Reply::Text(version_text(version, true)))
}

/// The version, and whether its key was present, of what [`version_text`] has written.
fn parse_version(arg: &[u8]) -> Option<(Version, bool)> {
    let (text, present) = arg.strip_prefix(b"-").map_or((arg, true), |text| (text, false));
    let middle = text.iter().position(|byte| *byte == b'-')?;
    let (incarnation, sequence) = (parse_number(&text[..middle])?, parse_number(&text[middle + 1..])?);
    Some((Version { incarnation, sequence }, present))
}

/// A number that is written in the one way: `+1` and `01` are mistakes.
fn parse_number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 1 && digits[0] == b'0' {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

fn no_version(arg: &[u8]) -> Reply {
    Reply::error(format!("ERR '{}' is no version: expected 1-3, or -1-3 of an absent key", arg.escape_ascii()))
}

/// The id of LEASE CHECK ID. A key may be named `ID` as well: a version is no UUID.
fn id_of(frame: Frame<'_>) -> Option<u128> {
    let option = frame.get(2).is_some_and(|option| option.eq_ignore_ascii_case(b"id"));
    frame.get(3).filter(|_| option).and_then(|id| parse_id(id).ok())
}

fn client(session: &mut Session, frame: Frame<'_>) -> Reply {
    let Ok(id) = parse_id(frame.arg(2)) else {
        return Reply::error("ERR a client's id is a UUID, or 32 hexadecimal digits");
    };
    session.shared.leases.join(session.client.id as u32, id);
    Reply::OK
}

fn check<'a>(session: &'a mut Session, frame: Frame<'a>) -> BoxFuture<'a, Reply> {
    Box::pin(async move {
        match checked(session, frame) {
            Ok(watched) => take(session, watched, id_of(frame)).await.unwrap_or_else(|error| error),
            Err(error) => error,
        }
    })
}

/// What a LEASE CHECK names.
fn checked(session: &Session, frame: Frame<'_>) -> Result<Vec<Watched>, Reply> {
    let first = if id_of(frame).is_some() { 4 } else { 2 };
    if frame.len() <= first || !(frame.len() - first).is_multiple_of(2) {
        return Err(errors::wrong_arguments("lease|check"));
    }
    let before = &session.multi.watched;
    let checked = before.iter().filter(|watched| watched.checked);
    let mut keys: HashSet<Key> = checked.map(|watched| watched.key.clone()).collect();
    let count = (frame.len() - first) / 2;
    let limits = &session.shared.limits;
    if keys.len() + count > limits.lease_checks_max {
        return Err(Reply::error(format!("LIMIT lease_checks_max {}", limits.lease_checks_max)));
    }
    if before.len() + count > limits.watched_keys_max {
        return Err(Reply::error(format!("LIMIT watched_keys_max {}", limits.watched_keys_max)));
    }
    let mut watched = Vec::with_capacity(count);
    for at in (first..frame.len()).step_by(2) {
        let name = frame.arg(at);
        let (version, present) = parse_version(frame.arg(at + 1)).ok_or_else(|| no_version(frame.arg(at + 1)))?;
        let key = Key::new(session.space, name);
        if !keys.insert(key.clone()) {
            return Err(Reply::error(format!("ERR key '{}' is checked twice", name.escape_ascii())));
        }
        watched.push(Watched::named(key, version, present));
    }
    Ok(watched)
}

/// Takes all that for the next EXEC.
async fn take(session: &mut Session, watched: Vec<Watched>, id: Option<u128>) -> Result<Reply, Reply> {
    session.keep_watched(watched.iter().map(|watched| &watched.key))?;
    let mut reply = Reply::OK;
    if let Some(id) = id {
        if session.multi.claimed.is_some() {
            return Err(Reply::error("ERR the transaction has an id"));
        }
        let taken = claim(session, id).await?;
        if let Taken::Over { told, .. } = &taken {
            reply = Reply::Simple(told.clone().into());
        }
        session.multi.claimed = Some(taken);
    }
    session.multi.watched.extend(watched);
    Ok(reply)
}

/// The answer of an EXEC after LEASE CHECK: the replies, under which version it has written, and as of when all that
/// was checked is current.
pub(super) fn validated(replies: Reply, version: Option<Version>, as_of: Option<Version>) -> Reply {
    match replies {
        error @ Reply::Error(_) => error,
        replies => Reply::Array(vec![replies, version_or_nil(version), version_or_nil(as_of)]),
    }
}

/// The answer where keys were stale: `TXSTALE key version ..`. In a key, bytes other than printable ASCII, and `\`, are
/// written `\xNN`.
pub(super) fn stale(stale: &[Watched]) -> Reply {
    let mut text = String::from("TXSTALE");
    for now in stale {
        text.push(' ');
        text.push_str(&escaped(now.key.name()));
        text.push(' ');
        text.push_str(&version_text(now.version, now.present));
    }
    Reply::error(text)
}

fn escaped(name: &[u8]) -> String {
    let byte = |byte: &u8| match byte {
        0x21..=0x7e if *byte != b'\\' => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    name.iter().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_one_form() {
        let version = Version { incarnation: 1, sequence: 3 };
        for (text, parsed) in [("1-3", Some((version, true))), ("-1-3", Some((version, false)))] {
            assert_eq!(parse_version(text.as_bytes()), parsed);
            assert_eq!(parsed.map(|(version, present)| version_text(version, present)), Some(text.to_owned()));
        }
        for text in [
            "",
            "-",
            "1",
            "1-",
            "-1",
            "--1-3",
            "1--3",
            "+1-3",
            "01-3",
            "1-3 ",
            "1-18446744073709551616",
            "1-3-4",
            "a-1",
        ] {
            assert_eq!(parse_version(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_name_in_an_error_is_one_word() {
        assert_eq!(escaped(b"a:1"), "a:1");
        assert_eq!(escaped(b"a b\\\r\n\xff"), "a\\x20b\\x5c\\x0d\\x0a\\xff");
    }
}
