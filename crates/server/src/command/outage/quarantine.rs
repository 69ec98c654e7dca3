//! CACHE QUARANTINE: what an operator decides about buffered transactions that are set aside, and while nothing is
//! carried over about those that wait.

use forebay::outage::pending::Buffer;
use forebay::outage::{ApplyError, DropError, Gate, GivenUp, Standing, TicketState};
use forebay::txn::TxnError;
use forebay_protocol::{Frame, Reply, errors};

use super::brief::{Brief, SHOWN_DOCUMENTS_MAX, number};
use super::{Page, gate, ticket};
use crate::command::family::is;
use crate::command::{Flag, refused};
use crate::command::{Sub, SubRun};
use crate::session::Session;

/// Bytes of the reason for which a transaction is given up, or applied.
const REASON_BYTES_MAX: usize = 1024;

pub(in crate::command) const QUARANTINE: Sub = Sub {
    name: "quarantine",
    syntax: "LIST [COUNT n] [AFTER ticket] | SHOW ticket | RETRY ticket|ALL | APPLY ticket reason | \
             DROP ticket|ALL reason",
    summary: "Transactions that the store refuses, that read what has changed, or that wait while nothing is \
              applied: shows them, has them tried again, applies one whatever it read, or gives one up for good",
    arity: -3,
    flags: &[Flag::Admin],
    run: SubRun::Engine(|session, frame| {
        Box::pin(async move { quarantine(session, frame).await.unwrap_or_else(|error| error) })
    }),
};

async fn quarantine(session: &mut Session, frame: Frame<'_>) -> Result<Reply, Reply> {
    let wrong = || errors::wrong_arguments("cache|quarantine");
    match (frame.arg(2), frame.len()) {
        (action, _) if is(action, "list") => quarantined(session, &Page::of(frame, 3)?),
        (action, 4) if is(action, "retry") && is(frame.arg(3), "all") => retried(session, None).await,
        (action, 4) if is(action, "retry") => retried(session, Some(ticket(frame.arg(3))?)).await,
        (action, 4) if is(action, "show") => shown(session, ticket(frame.arg(3))?).await,
        (action, 5) if is(action, "apply") => {
            let (ticket, reason) = (ticket(frame.arg(3))?, reason(frame.arg(4))?);
            applied(session, ticket).await?;
            let (user, client) = (session.identity.name(), &session.client.address);
            tracing::warn!(ticket, %user, client, reason, "a buffered transaction is applied whatever it had read");
            Ok(Reply::OK)
        }
        (action, 5) if is(action, "drop") && is(frame.arg(3), "all") => {
            let reason = reason(frame.arg(4))?;
            Ok(number(all_given_up(session, &reason).await?))
        }
        (action, 5) if is(action, "drop") => {
            let (ticket, reason) = (ticket(frame.arg(3))?, reason(frame.arg(4))?);
            given_up(session, ticket, &reason).await?;
            Ok(Reply::OK)
        }
        (action, 4) if is(action, "apply") || is(action, "drop") => Err(no_reason()),
        (action, _) if ["show", "retry", "apply", "drop"].iter().any(|word| is(action, word)) => Err(wrong()),
        (action, _) => Err(errors::unknown_subcommand("CACHE QUARANTINE", action)),
    }
}

/// Gives `ticket` up while nobody else is at its documents: whoever has read them is to be done before, and who reads
/// them next finds them without it. What is lost by that is logged, with who said so.
async fn given_up(session: &Session, ticket: u64, reason: &str) -> Result<(), Reply> {
    let gate = gate(session)?.clone();
    let written = |buffer: &Buffer| {
        let writes = buffer.buffered(ticket).map(|buffered| buffered.writes.iter().map(|write| write.key.clone()));
        writes.into_iter().flatten().collect::<Vec<_>>()
    };
    let keys = gate.with_buffer(written);
    let why = reason.to_owned();
    let work = async move { gate.give_up(ticket, &why).await };
    match session.shared.engine.alone_with(&keys, work).await.map_err(|error| refused(&session.shared, &error))? {
        Ok(GivenUp::Dropped) => {
            let (user, client) = (session.identity.name(), &session.client.address);
            tracing::warn!(ticket, %user, client, reason, "a buffered transaction was dropped");
            Ok(())
        }
        Ok(GivenUp::NotQuarantined) => Err(not_decided(session, ticket)),
        Ok(GivenUp::Deciding) => Err(deciding(ticket)),
        Ok(GivenUp::Moving) => Err(Reply::error(format!(
            "TXCONFLICT ticket {ticket}, or one ahead of it, is on its way to the store, retry"
        ))),
        Ok(GivenUp::Landed(version)) => {
            Err(Reply::error(format!("ERR ticket {ticket} is in the store after all: APPLIED {version}")))
        }
        Err(DropError::Away(why)) => Err(refused(&session.shared, &TxnError::StoreDown(why.to_string()))),
        Err(error) => Err(Reply::error(format!("ERR {error}"))),
    }
}

/// Gives up all that an operator has to decide about, the last first: so none is applied because one ahead of it went.
/// How many there were. What is decided by then by another operator is passed over. At the first that can't be given up
/// it ends, and the error says how many were.
async fn all_given_up(session: &Session, reason: &str) -> Result<usize, Reply> {
    let gate = gate(session)?;
    let mut dropped = 0;
    for ticket in undecided(gate).into_iter().rev() {
        match given_up(session, ticket, reason).await {
            Ok(()) => dropped += 1,
            Err(Reply::Error(why)) if undecided(gate).contains(&ticket) => {
                let why = String::from_utf8_lossy(&why);
                return Err(Reply::error(format!("{why}; {dropped} were dropped, DROP ALL goes on with the others")));
            }
            Err(_) => {}
        }
    }
    Ok(dropped)
}

/// The tickets that an operator has to decide about: while nothing is applied, all that wait.
fn undecided(gate: &Gate) -> Vec<u64> {
    let suspended = gate.state().suspended.is_some();
    gate.with_buffer(|buffer| match suspended {
        true => buffer.numbers(None, 0, usize::MAX),
        false => buffer.quarantine_list().into_iter().map(|(number, _)| number).collect(),
    })
}

/// Why nothing can be decided about `ticket`: what it is, and what can be done about it.
fn not_decided(session: &Session, ticket: u64) -> Reply {
    let gate = match gate(session) {
        Ok(gate) => gate,
        Err(error) => return error,
    };
    let suspended = gate.state().suspended.is_some();
    let what = match (gate.ticket(ticket), gate.part_of(ticket)) {
        (TicketState::Unknown, _) => return Reply::error(format!("ERR there is no ticket {ticket}")),
        (TicketState::Applied(version), _) => format!("is already applied: APPLIED {version}"),
        (TicketState::Dropped(reason), _) => format!("is already dropped: {reason}"),
        (TicketState::Over, _) => "is over: it was applied or dropped, before the last start or long ago".to_owned(),
        (TicketState::Lost, _) => {
            "is lost: it was cut off the journal, or power was lost before it was synced".to_owned()
        }
        (_, other) if other != ticket => format!("is part of ticket {other}"),
        _ => match gate.with_buffer(|buffer| buffer.standing(ticket)) {
            Some(Standing::Ordered) => "is already being applied (CACHE QUARANTINE APPLY)".to_owned(),
            Some(Standing::Behind(other)) => format!("waits for what becomes of ticket {other}"),
            Some(Standing::Waiting) if suspended => {
                "waits since nothing is applied: APPLY or DROP it, or CACHE DRAIN RESUME".to_owned()
            }
            Some(Standing::Waiting) => "is not quarantined: it waits for the database".to_owned(),
            Some(Standing::Quarantined(_)) => return deciding(ticket),
            None => "is part of a later ticket (CACHE PENDING)".to_owned(),
        },
    };
    Reply::error(format!("ERR ticket {ticket} {what}"))
}

fn deciding(ticket: u64) -> Reply {
    Reply::error(format!("TXCONFLICT ticket {ticket} is being decided about, retry"))
}

/// Has one, or all, tried again. While nothing is carried over they only wait like the others.
async fn retried(session: &Session, ticket: Option<u64>) -> Result<Reply, Reply> {
    let gate = match (&session.shared.gate, ticket) {
        (None, None) => return Ok(number(0)),
        _ => gate(session)?,
    };
    let tried = gate.retry(ticket).await;
    match ticket.filter(|_| tried == 0) {
        Some(ticket) => Err(not_decided(session, ticket)),
        None if tried > 0 && gate.state().suspended.is_some() => {
            let how = "CACHE QUARANTINE APPLY of a ticket, or CACHE DRAIN RESUME, has it tried again";
            Ok(Reply::Simple(format!("WAITING {tried} wait since nothing is applied: {how}").into()))
        }
        None => Ok(number(tried)),
    }
}

fn reason(arg: &[u8]) -> Result<String, Reply> {
    if arg.len() > REASON_BYTES_MAX {
        return Err(Reply::error(format!("LIMIT reason_bytes_max {REASON_BYTES_MAX}")));
    }
    let reason = String::from_utf8_lossy(arg).replace(char::is_control, " ").trim().to_owned();
    match reason.is_empty() {
        true => Err(no_reason()),
        false => Ok(reason),
    }
}

fn no_reason() -> Reply {
    Reply::error("ERR a reason is needed: it is logged, and told to clients that ask for it")
}

fn quarantined(session: &Session, page: &Page) -> Result<Reply, Reply> {
    let Some(gate) = &session.shared.gate else { return Ok(Reply::Array(Vec::new())) };
    let now_ms = session.shared.engine.runtime().now_ms();
    let list: Vec<u64> = undecided(gate).into_iter().filter(|number| *number > page.after).collect();
    let found = gate.with_buffer(|buffer| {
        let look = |number: &u64| Some((Brief::of(buffer.buffered(*number)?), buffer.standing(*number)?));
        list.iter().take(page.count).filter_map(look).collect::<Vec<_>>()
    });
    Ok(page.shown(found, list.len(), now_ms))
}

/// One of them, what waits behind it, or what waits while nothing is carried over; and what it meets in the store.
async fn shown(session: &Session, ticket: u64) -> Result<Reply, Reply> {
    let now_ms = session.shared.engine.runtime().now_ms();
    let look = |buffer: &Buffer| Some((Brief::of(buffer.buffered(ticket)?), buffer.standing(ticket)?));
    let gate = gate(session)?;
    let (brief, standing) = gate.with_buffer(look).ok_or_else(|| not_decided(session, ticket))?;
    let meets = gate.meets(ticket, SHOWN_DOCUMENTS_MAX).await;
    Ok(brief.shown_with(&standing, now_ms, &meets))
}

/// Only what it had read stands in its way, or that nothing is carried over: what the store refuses it would refuse
/// again.
async fn applied(session: &Session, ticket: u64) -> Result<(), Reply> {
    let gate = gate(session)?;
    if let Some(why) = session.shared.engine.store().fenced() {
        return Err(Reply::error(format!("NOTOWNER {why}")));
    }
    gate.apply(ticket).await.map_err(|error| match error {
        ApplyError::NotWaiting => not_decided(session, ticket),
        ApplyError::Deciding => deciding(ticket),
        ApplyError::Refused => {
            let why = "is refused by the store, whatever it had read; mend the cause, then RETRY it, or DROP it";
            Reply::error(format!("ERR ticket {ticket} {why}"))
        }
        ApplyError::Behind(ahead) => Reply::error(format!(
            "ERR ticket {ticket} goes behind ticket {ahead}, which has to do with its keys: APPLY or DROP that first"
        )),
        ApplyError::NotReached => Reply::error(format!(
            "STOREDOWN the database was not reached since the start, so ticket {ticket} can't be compared with it: \
             again when it is"
        )),
        ApplyError::Again => Reply::error(format!("TXCONFLICT {error}: compare ticket {ticket} with it, then retry")),
        ApplyError::Away(why) => refused(&session.shared, &TxnError::StoreDown(why.to_string())),
        _ => Reply::error(format!("ERR {error}")),
    })
}
