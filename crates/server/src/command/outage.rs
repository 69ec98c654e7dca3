//! CACHE, as far as it is about a store that goes away: what is buffered, what became of it, and what a client wants of
//! the writes that it made. Where nothing is ever buffered all of it answers so: there is nothing, and the mode is
//! normal.

mod brief;
mod quarantine;

use std::time::Duration;

use forebay::key::{Key, KeyRef};
use forebay::outage::{Gate, GateState, Loss, Mode, ResumeError, Standing, TicketState};
use forebay::txn::Compared;
use forebay_protocol::decoder::parse_integer;
use forebay_protocol::{Frame, Protocol, Reply, errors};
use futures_util::future::{BoxFuture, Either, select};

use super::family::{is, text};
use super::{Flag, family, outside};
use crate::command::{Sub, SubRun};
use crate::outage::summary;
use crate::replies::LastWrite;
use crate::session::Session;
use brief::{Brief, count, number};
pub(super) use quarantine::QUARANTINE;

/// Transactions that CACHE PENDING and CACHE QUARANTINE LIST show, unless COUNT says otherwise.
const SHOWN_DEFAULT: usize = 10;

/// The greatest COUNT.
const SHOWN_MAX: usize = 1000;

/// The longest CACHE WAIT.
const WAIT_MS_MAX: i64 = 600_000;

/// The longest DEBUG STORE FAIL.
const FAIL_SECONDS_MAX: f64 = 86_400.0;

const NO_GATE: &str = "ERR nothing is buffered here: writes to this store are never kept for later";

pub(super) const STATE: Sub = Sub {
    name: "state",
    syntax: "",
    summary: "Whether the store is up, and what is buffered for it",
    arity: 2,
    flags: &[],
    run: SubRun::Session(state),
};

pub(super) const PENDING: Sub = Sub {
    name: "pending",
    syntax: "[key] [COUNT n] [AFTER ticket]",
    summary: "Transactions that wait for the store, of one key or all: tickets, ages, keys and kinds of changes",
    arity: -2,
    flags: &[Flag::Admin],
    run: SubRun::Session(|session, frame| pending(session, frame).unwrap_or_else(|error| error)),
};

pub(super) const DRAIN: Sub = Sub {
    name: "drain",
    syntax: "RESUME",
    summary: "Applies what is buffered although the store was found in an earlier state, or others had it since",
    arity: 3,
    flags: &[Flag::Admin],
    run: SubRun::Engine(|session, frame| {
        Box::pin(async move { drain(session, frame).await.unwrap_or_else(|error| error) })
    }),
};

pub(super) const WAIT: Sub = Sub {
    name: "wait",
    syntax: "ticket timeout-ms",
    summary: "Waits for a buffered transaction: APPLIED version, PENDING, CONFLICT, QUARANTINED or \
              DROPPED reason, OVER, LOST",
    arity: 4,
    flags: &[],
    run: SubRun::Engine(wait),
};

pub(super) const OUTCOME: Sub = Sub {
    name: "outcome",
    syntax: "",
    summary: "How this connection's last write ended: COMMITTED version, BUFFERED ticket, UNKNOWN id, FAILED or NONE",
    arity: 2,
    flags: &[],
    run: SubRun::Engine(outcome),
};

pub(super) const STRICT: Sub = Sub {
    name: "strict",
    syntax: "ON|OFF",
    summary: "Has this connection's writes answer STOREDOWN where they would be buffered",
    arity: 3,
    flags: &[],
    run: SubRun::Session(strict),
};

pub(super) const BLIND: Sub = Sub {
    name: "blind",
    syntax: "ON|OFF",
    summary: "Has this connection's counting and adding commands taken unseen in an outage; they answer null then",
    arity: 3,
    flags: &[],
    run: SubRun::Session(blind),
};

pub(super) const NOTIFY: Sub = Sub {
    name: "notify",
    syntax: "ON|OFF",
    summary: "Has this connection told of another mode of the store: store-mode normal|failed|recovery (RESP3)",
    arity: 3,
    flags: &[],
    run: SubRun::Session(notify),
};

/// Of DEBUG.
pub(super) const STORE: Sub = Sub {
    name: "store",
    syntax: "FAIL seconds",
    summary: "Lets the store count as away, for drills; 0 ends it",
    arity: 4,
    flags: &[Flag::Admin],
    run: SubRun::Session(debug_store),
};

/// The keys of CACHE EXPLAIN, CACHE PENDING and CACHE INVALIDATE.
pub(super) fn key<'a>(frame: Frame<'a>, space: u8, take: &mut dyn FnMut(KeyRef<'a>)) {
    if super::is_invalidate(frame) {
        return outside::keys(frame, space, take);
    }
    match is(frame.arg(1), "pending") {
        true if !Page::has_key(frame) => {}
        true => family::key_of(frame, space, "pending", take),
        false => family::key_of(frame, space, "explain", take),
    }
}

fn millis(time: Duration) -> Reply {
    Reply::Integer(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

fn state(session: &mut Session, _: Frame<'_>) -> Reply {
    let state = session.shared.gate.as_ref().map(Gate::state);
    let line = summary(state.as_ref());
    let unwatched = session.shared.engine.store().unwatched().into_iter().map(text).collect();
    let mut pairs = vec![(text("summary"), text(line))];
    pairs.extend(match &state {
        Some(state) => figures(state, session.shared.engine.compared()),
        None => nothing(session),
    });
    pairs.push((text("unwatched"), Reply::Array(unwatched)));
    Reply::Map(pairs)
}

fn figures(state: &GateState, compared: Compared) -> Vec<(Reply, Reply)> {
    let GateState { amount, outage, .. } = state;
    let behind = amount.transactions.saturating_sub(amount.waiting + amount.quarantined);
    let maybe = |words: &str| if words.is_empty() { Reply::Nil } else { text(words) };
    vec![
        (text("mode"), text(state.mode.name())),
        (text("since_ms"), count(state.since_ms)),
        (text("lasted_ms"), millis(state.lasted)),
        (text("pending"), number(amount.transactions)),
        (text("waiting"), number(amount.waiting)),
        (text("quarantined"), number(amount.quarantined)),
        (text("behind"), number(behind)),
        (text("documents"), number(amount.documents)),
        (text("bytes"), number(amount.bytes)),
        (text("room_bytes"), number(state.room)),
        (text("room_ms"), state.room_time.map_or(Reply::Nil, millis)),
        (text("oldest_ms"), state.oldest_ms.map_or(Reply::Nil, count)),
        (text("buffered"), count(outage.buffered)),
        (text("merged"), count(outage.merged)),
        (text("applied"), count(outage.applied)),
        (text("conflicts"), count(outage.conflicts)),
        (text("full"), count(outage.full)),
        (text("compared"), count(compared.compared)),
        (text("uncompared"), count(compared.left)),
        (text("why"), maybe(&state.why)),
        (text("suspended"), state.suspended.as_deref().map_or(Reply::Nil, text)),
        (text("fenced"), state.fenced.as_deref().map_or(Reply::Nil, text)),
        (text("unnoted"), number(state.unnoted)),
        (text("closed"), state.closed.as_deref().map_or(Reply::Nil, text)),
        (text("lost"), state.losses.last().map_or(Reply::Nil, |loss| text(lost(loss)))),
    ]
}

/// `tickets 13 to 65536 of epoch 1f..`: those of them that were given out are lost.
fn lost(loss: &Loss) -> String {
    format!("tickets {} to {} of epoch {}", loss.after.saturating_add(1), loss.up_to, loss.epoch)
}

/// The same of a store that nothing is buffered for.
fn nothing(session: &Session) -> Vec<(Reply, Reply)> {
    let shared = &session.shared;
    let up_ms = shared.engine.runtime().now_ms().saturating_sub(shared.started_ms);
    let nothing = GateState {
        mode: Mode::Normal,
        since_ms: 0,
        lasted: Duration::from_millis(up_ms),
        amount: Default::default(),
        room: 0,
        room_time: None,
        oldest_ms: None,
        why: String::new(),
        suspended: None,
        fenced: shared.engine.store().fenced().map(str::to_owned),
        unnoted: 0,
        short: false,
        closed: None,
        losses: Vec::new(),
        counts: Default::default(),
        outage: Default::default(),
    };
    figures(&nothing, shared.engine.compared())
}

/// Which part of a list is asked for.
struct Page {
    count: usize,
    after: u64,
}

impl Page {
    /// Whether CACHE PENDING is asked for one key: options come in pairs.
    fn has_key(frame: Frame<'_>) -> bool {
        frame.len() % 2 == 1
    }

    /// From the options that begin at argument `at`.
    fn of(frame: Frame<'_>, at: usize) -> Result<Page, Reply> {
        let mut page = Page { count: SHOWN_DEFAULT, after: 0 };
        let mut args = frame.args().skip(at);
        while let Some(option) = args.next() {
            let value = args.next().ok_or_else(|| Reply::error(errors::SYNTAX))?;
            if is(option, "after") {
                page.after = ticket(value)?;
            } else if is(option, "count") {
                page.count = match parse_integer(value).map(usize::try_from) {
                    Some(Ok(0)) | Some(Err(_)) => return Err(Reply::error(errors::NOT_POSITIVE)),
                    Some(Ok(count)) if count <= SHOWN_MAX => count,
                    Some(Ok(_)) => return Err(Reply::error(format!("LIMIT shown_max {SHOWN_MAX}"))),
                    None => return Err(Reply::error(errors::NOT_AN_INTEGER)),
                };
            } else {
                return Err(Reply::error(errors::SYNTAX));
            }
        }
        Ok(page)
    }
}

impl Page {
    /// What was found of it; where there is more, how much, and where to go on.
    fn shown(&self, found: Vec<(Brief, Standing)>, all: usize, now_ms: u64) -> Reply {
        let (last, left) = (found.last().map(|(brief, _)| brief.number()), all.saturating_sub(found.len()));
        let mut shown: Vec<Reply> = found.into_iter().map(|(brief, standing)| brief.shown(&standing, now_ms)).collect();
        if let Some(last) = last.filter(|_| left > 0) {
            shown.push(Reply::Map(vec![(text("more"), number(left)), (text("next"), text(format!("AFTER {last}")))]));
        }
        Reply::Array(shown)
    }
}

fn ticket(arg: &[u8]) -> Result<u64, Reply> {
    let number = parse_integer(arg).and_then(|number| u64::try_from(number).ok()).filter(|number| *number > 0);
    number.ok_or_else(|| Reply::error("ERR a ticket is a whole number from 1 on"))
}

fn gate(session: &Session) -> Result<&Gate, Reply> {
    session.shared.gate.as_ref().ok_or_else(|| Reply::error(NO_GATE))
}

fn pending(session: &mut Session, frame: Frame<'_>) -> Result<Reply, Reply> {
    let has_key = Page::has_key(frame);
    let page = Page::of(frame, if has_key { 3 } else { 2 })?;
    let key = has_key.then(|| Key::new(session.space, frame.arg(2)));
    let Some(gate) = &session.shared.gate else { return Ok(Reply::Array(Vec::new())) };
    let now_ms = session.shared.engine.runtime().now_ms();
    let (found, all) = gate.with_buffer(|buffer| {
        let numbers = buffer.numbers(key.as_ref(), page.after, usize::MAX);
        let look = |number: &u64| Some((Brief::of(buffer.buffered(*number)?), buffer.standing(*number)?));
        (numbers.iter().take(page.count).filter_map(look).collect::<Vec<_>>(), numbers.len())
    });
    Ok(page.shown(found, all, now_ms))
}

async fn drain(session: &mut Session, frame: Frame<'_>) -> Result<Reply, Reply> {
    if !is(frame.arg(2), "resume") {
        return Err(errors::unknown_subcommand("CACHE DRAIN", frame.arg(2)));
    }
    let gate = gate(session)?;
    if gate.state().fenced.is_some() {
        return Err(Reply::error("NOTOWNER nothing is carried over by an owner of before; start forebay again"));
    }
    gate.resume().await.map_err(|error| {
        Reply::error(match error {
            ResumeError::NotReached => format!("STOREDOWN {error}, so nothing can be compared: again when it is"),
            ResumeError::Deciding => format!("TXCONFLICT {error}, retry"),
            ResumeError::Again => format!("TXCONFLICT {error}: compare, then retry"),
            _ => format!("ERR {error}"),
        })
    })?;
    let (user, client) = (session.identity.name(), &session.client.address);
    tracing::warn!(%user, client, "what is buffered is carried over although it was suspended");
    Ok(Reply::OK)
}

fn wait<'a>(session: &'a mut Session, frame: Frame<'a>) -> BoxFuture<'a, Reply> {
    Box::pin(async move { waited(session, frame).await.unwrap_or_else(|error| error) })
}

async fn waited(session: &mut Session, frame: Frame<'_>) -> Result<Reply, Reply> {
    let ticket = ticket(frame.arg(2))?;
    let timeout_ms = match parse_integer(frame.arg(3)) {
        None => return Err(Reply::error(errors::TIMEOUT_NOT_AN_INTEGER)),
        Some(..0) => return Err(Reply::error(errors::TIMEOUT_NEGATIVE)),
        Some(timeout_ms) if timeout_ms > WAIT_MS_MAX => {
            return Err(Reply::error(format!("LIMIT wait_ms_max {WAIT_MS_MAX}")));
        }
        Some(timeout_ms) => timeout_ms as u64,
    };
    // Its locks would be held as long.
    if session.open.is_open() {
        return Err(Reply::error("ERR CACHE WAIT inside TXN is not allowed"));
    }
    let shared = session.shared.clone();
    let gate = gate(session)?.clone();
    let told = std::pin::pin!(gate.wait_for(ticket, Duration::from_millis(timeout_ms)));
    let gone = std::pin::pin!(async {
        let killed = std::pin::pin!(session.client.killed());
        let stopped = std::pin::pin!(shared.stopping.wait());
        select(killed, stopped).await;
    });
    let told = match select(told, gone).await {
        Either::Left((told, _)) => told,
        Either::Right(_) => gate.ticket(ticket),
    };
    let simple = |line: String| Ok(Reply::Simple(line.into()));
    match told {
        TicketState::Applied(version) => simple(format!("APPLIED {version}")),
        TicketState::Pending => simple("PENDING".to_owned()),
        TicketState::Quarantined(reason) => simple(format!("QUARANTINED {reason}")),
        TicketState::Conflict(reason) => simple(format!("CONFLICT {reason}")),
        TicketState::Dropped(reason) => simple(format!("DROPPED {reason}")),
        TicketState::Over => simple("OVER it was applied or dropped, before the last start or long ago".to_owned()),
        TicketState::Lost => {
            simple("LOST it was cut off the journal, or power was lost before it was synced".to_owned())
        }
        TicketState::Unknown => Err(Reply::error(format!("ERR there is no ticket {ticket}"))),
    }
}

fn outcome<'a>(session: &'a mut Session, _: Frame<'a>) -> BoxFuture<'a, Reply> {
    Box::pin(async move {
        session.replies.settle().await;
        Reply::Simple(
            match session.replies.last_write() {
                LastWrite::None => "NONE".to_owned(),
                LastWrite::Committed(version) => format!("COMMITTED {version}"),
                LastWrite::Buffered(ticket) => format!("BUFFERED {ticket}"),
                LastWrite::Unknown(id) => format!("UNKNOWN {id}"),
                LastWrite::Failed => "FAILED".to_owned(),
            }
            .into(),
        )
    })
}

fn on(arg: &[u8]) -> Result<bool, Reply> {
    match (is(arg, "on"), is(arg, "off")) {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => Err(Reply::error(errors::SYNTAX)),
    }
}

fn strict(session: &mut Session, frame: Frame<'_>) -> Reply {
    match on(frame.arg(2)) {
        Ok(on) => {
            session.strict = on;
            Reply::OK
        }
        Err(error) => error,
    }
}

fn blind(session: &mut Session, frame: Frame<'_>) -> Reply {
    match on(frame.arg(2)) {
        Ok(on) => {
            session.blind = on;
            Reply::OK
        }
        Err(error) => error,
    }
}

fn notify(session: &mut Session, frame: Frame<'_>) -> Reply {
    match on(frame.arg(2)) {
        Ok(true) if session.protocol == Protocol::Resp2 => {
            Reply::error("ERR RESP2 has no messages that answer no request: say HELLO 3 first")
        }
        Ok(on) => {
            session.notify(on);
            Reply::OK
        }
        Err(error) => error,
    }
}

fn debug_store(session: &mut Session, frame: Frame<'_>) -> Reply {
    if !is(frame.arg(2), "fail") {
        return errors::unknown_subcommand("DEBUG STORE", frame.arg(2));
    }
    let seconds = std::str::from_utf8(frame.arg(3)).ok().and_then(|text| text.parse::<f64>().ok());
    let seconds = match seconds {
        Some(seconds) if (0.0..=FAIL_SECONDS_MAX).contains(&seconds) => seconds,
        Some(seconds) if seconds > FAIL_SECONDS_MAX => {
            return Reply::error(format!("LIMIT debug_fail_seconds_max {FAIL_SECONDS_MAX}"));
        }
        _ => return Reply::error(errors::NOT_A_FLOAT),
    };
    match gate(session) {
        Err(error) => error,
        Ok(gate) => {
            gate.fail_for(Duration::from_secs_f64(seconds));
            let (user, client) = (session.identity.name(), &session.client.address);
            tracing::warn!(%user, client, seconds, "DEBUG STORE FAIL");
            Reply::OK
        }
    }
}
