//! CLIENT TRACKING and its kind, and SUBSCRIBE to the channel on which clients of RESP2 are told.

use forebay_protocol::decoder::parse_integer;
use forebay_protocol::{Frame, Protocol, Reply, errors};

use super::family::{is, text};
use super::{Command, Flag, Group, Keys, Run};
use crate::session::{CHANNEL, ReplyMode, Session, Tracked};

/// Bytes that a prefix takes beside its own.
const PREFIX_BYTES: usize = 64;

/// Prefixes of one client.
const PREFIXES_MAX: usize = 128;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "subscribe",
        syntax: "__redis__:invalidate",
        summary: "Is told what CLIENT TRACKING .. REDIRECT tells, with RESP2; there is no other channel",
        group: Group::PubSub,
        arity: -2,
        keys: Keys::None,
        run: Run::Session(subscribe),
        flags: &[Flag::NotInMulti, Flag::NotInTxn],
    },
    Command {
        name: "unsubscribe",
        syntax: "[__redis__:invalidate]",
        summary: "Is told no more",
        group: Group::PubSub,
        arity: -1,
        keys: Keys::None,
        run: Run::Session(unsubscribe),
        flags: &[Flag::NotInMulti, Flag::NotInTxn],
    },
];

/// What confirms it. In Redis that is told and no reply, so it comes also where CLIENT REPLY leaves out replies.
fn message(session: &mut Session, kind: &str, channel: Reply) -> Reply {
    let parts = vec![text(kind), channel, Reply::Integer(session.subscribed.into())];
    let message = match session.protocol {
        Protocol::Resp3 => Reply::Push(parts),
        Protocol::Resp2 => Reply::Array(parts),
    };
    if session.reply_mode != ReplyMode::On {
        session.replies.push(&message, session.protocol);
    }
    message
}

fn subscribe(session: &mut Session, frame: Frame<'_>) -> Reply {
    if frame.len() != 2 || frame.arg(1) != CHANNEL.as_bytes() {
        return Reply::error(format!("ERR forebay has no channel but {CHANNEL}"));
    }
    session.subscribe(true);
    message(session, "subscribe", text(CHANNEL))
}

fn unsubscribe(session: &mut Session, frame: Frame<'_>) -> Reply {
    if frame.len() > 2 {
        return Reply::error(format!("ERR forebay has no channel but {CHANNEL}"));
    }
    let was = session.subscribed;
    let all = frame.get(1).is_none();
    session.subscribe(was && !all && frame.arg(1) != CHANNEL.as_bytes());
    let channel = match frame.get(1) {
        Some(channel) => Reply::Bulk(channel.into()),
        None if was => text(CHANNEL),
        None => Reply::Nil,
    };
    message(session, "unsubscribe", channel)
}

/// CLIENT TRACKING ON|OFF ..
pub(super) fn tracking(session: &mut Session, frame: Frame<'_>) -> Reply {
    let held = |tracked: Option<&Tracked>| tracked.map_or(0, |tracked| tracked.held_bytes);
    let tracked = wanted(session, frame).and_then(|tracked| {
        let more = held(tracked.as_ref()).saturating_sub(held(session.tracked.as_deref()));
        session.keep(more).map(|()| tracked)
    });
    match tracked {
        Ok(tracked) => {
            session.track(tracked);
            Reply::OK
        }
        Err(error) => error,
    }
}

fn wanted(session: &Session, frame: Frame<'_>) -> Result<Option<Tracked>, Reply> {
    let wrong = |why: &'static str| Err(Reply::error(why));
    let mut tracked = Tracked::default();
    let mut at = 3;
    while let Some(option) = frame.get(at) {
        let more = frame.get(at + 1);
        match option.to_ascii_lowercase().as_slice() {
            b"redirect" if more.is_some() => {
                at += 1;
                if tracked.redirect != 0 {
                    return wrong("ERR A client can only redirect to a single other client");
                }
                let id = parse_integer(frame.arg(at)).ok_or(Reply::error(errors::NOT_AN_INTEGER))?;
                let found = u64::try_from(id).ok().and_then(|id| session.shared.clients.find(id));
                let Some(target) = found else {
                    return wrong("ERR The client ID you want redirect to does not exist");
                };
                tracked.redirect = target.id;
            }
            b"bcast" => tracked.broadcast = true,
            b"optin" => tracked.opt_in = true,
            b"optout" => tracked.opt_out = true,
            b"noloop" => tracked.noloop = true,
            b"prefix" if more.is_some() => {
                at += 1;
                tracked.prefixes.push(frame.arg(at).into());
            }
            _ => return wrong(errors::SYNTAX),
        }
        at += 1;
    }
    match frame.arg(2) {
        switch if is(switch, "on") => on(session, tracked).map(Some),
        switch if is(switch, "off") => Ok(None),
        _ => wrong(errors::SYNTAX),
    }
}

/// Checks what is wanted against itself, and against what the client has now.
fn on(session: &Session, mut tracked: Tracked) -> Result<Tracked, Reply> {
    let wrong = |why: &'static str| Err(Reply::error(why));
    if !tracked.broadcast && !tracked.prefixes.is_empty() {
        return wrong("ERR PREFIX option requires BCAST mode to be enabled");
    }
    if session.tracked.as_ref().is_some_and(|now| now.broadcast != tracked.broadcast) {
        return wrong(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling \
             it with a different mode.",
        );
    }
    if tracked.broadcast && (tracked.opt_in || tracked.opt_out) {
        return wrong("ERR OPTIN and OPTOUT are not compatible with BCAST");
    }
    if tracked.opt_in && tracked.opt_out {
        return wrong("ERR You can't specify both OPTIN mode and OPTOUT mode");
    }
    if let Some(now) = &session.tracked
        && ((now.opt_in && tracked.opt_out) || (now.opt_out && tracked.opt_in))
    {
        return wrong(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
             re-enabling it with a different mode.",
        );
    }
    let before = session.tracked.as_ref().map(|now| now.prefixes.as_slice()).unwrap_or_default();
    check_prefixes(&tracked.prefixes, before)?;
    // All keys begin with the empty one.
    if tracked.broadcast && tracked.prefixes.is_empty() {
        tracked.prefixes.push(Box::default());
    }
    tracked.prefixes.extend(before.iter().cloned());
    tracked.prefixes.sort_unstable();
    tracked.prefixes.dedup();
    if tracked.prefixes.len() > PREFIXES_MAX {
        return Err(Reply::error(format!("LIMIT tracking_prefixes_max {PREFIXES_MAX}")));
    }
    // Kept twice.
    tracked.held_bytes = 2 * tracked.prefixes.iter().map(|prefix| prefix.len() + PREFIX_BYTES).sum::<usize>();
    Ok(tracked)
}

/// No prefix of one client may be the beginning of another: it would be told twice.
fn check_prefixes(new: &[Box<[u8]>], before: &[Box<[u8]>]) -> Result<(), Reply> {
    let overlap = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    let told = |one: &[u8], what: &str, other: &[u8]| {
        let (one, other) = (String::from_utf8_lossy(one), String::from_utf8_lossy(other));
        let text = format!(
            "ERR Prefix '{one}' overlaps with {what} prefix '{other}'. Prefixes for a single client must not overlap."
        );
        Err(Reply::error(text))
    };
    for (at, prefix) in new.iter().enumerate() {
        if let Some(other) = before.iter().find(|other| overlap(prefix, other)) {
            return told(prefix, "an existing", other);
        }
        if let Some(other) = new[at + 1..].iter().find(|other| overlap(prefix, other)) {
            return told(prefix, "another provided", other);
        }
    }
    Ok(())
}

/// CLIENT CACHING YES|NO
pub(super) fn caching(session: &mut Session, frame: Frame<'_>) -> Reply {
    let Some(tracked) = session.tracked.as_mut() else {
        return Reply::error(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode \
             enabled",
        );
    };
    match frame.arg(2) {
        switch if is(switch, "yes") && tracked.opt_in => {}
        switch if is(switch, "no") && tracked.opt_out => {}
        switch if is(switch, "yes") => {
            return Reply::error("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.");
        }
        switch if is(switch, "no") => {
            return Reply::error("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.");
        }
        _ => return Reply::error(errors::SYNTAX),
    }
    tracked.caching = true;
    Reply::OK
}

/// CLIENT GETREDIR
pub(super) fn get_redirect(session: &mut Session, _: Frame<'_>) -> Reply {
    Reply::Integer(session.tracked.as_ref().map_or(-1, |tracked| tracked.redirect as i64))
}

/// CLIENT TRACKINGINFO
pub(super) fn info(session: &mut Session, _: Frame<'_>) -> Reply {
    let mut flags = Vec::new();
    let (mut redirect, mut prefixes) = (-1, Vec::new());
    match session.tracked.as_deref() {
        None => flags.push("off"),
        Some(tracked) => {
            let said = [
                (true, "on"),
                (tracked.broadcast, "bcast"),
                (tracked.opt_in, "optin"),
                (tracked.opt_in && tracked.caching, "caching-yes"),
                (tracked.opt_out, "optout"),
                (tracked.opt_out && tracked.caching, "caching-no"),
                (tracked.noloop, "noloop"),
                (tracked.bereft, "broken_redirect"),
            ];
            flags.extend(said.iter().filter(|(on, _)| *on).map(|(_, flag)| *flag));
            redirect = tracked.redirect as i64;
            prefixes = tracked.prefixes.iter().map(|prefix| Reply::Bulk(prefix[..].into())).collect();
        }
    }
    Reply::Map(vec![
        (text("flags"), Reply::Set(flags.into_iter().map(text).collect())),
        (text("redirect"), Reply::Integer(redirect)),
        (text("prefixes"), Reply::Array(prefixes)),
    ])
}
