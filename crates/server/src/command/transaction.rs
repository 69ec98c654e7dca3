//! MULTI, EXEC, DISCARD, WATCH, UNWATCH: a script that commits to the store as a whole or changes nothing; and TXN: a
//! transaction whose client sees each answer before it sends the next command.

mod claim;
mod exec;
mod lock;
mod types;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

pub(super) use claim::{claim, parse_id};
use exec::exec;
use forebay::key::Key;
use forebay::store::Priority;
use forebay::txn::TxnKind;
use forebay_protocol::{Frame, Reply, errors};
use futures_util::future::BoxFuture;
use lock::{lock, txn_keys};
use types::types;

use super::{Command, Flag, Group, Keys, Run, family, refused};
use crate::given::Taken;
use crate::session::{Queue, Session};

const TXN_SYNTAX: &str = "BEGIN [READONLY [CHECKED]] [TYPE name] [ID uuid] [PRIORITY low|normal|high] | STEP name | \
                          LOCK key [key ..] | COMMIT | ABORT | TYPE toml";

const TXN_SUMMARY: &str = "An interactive transaction: reads inside, one commit to the store at its end";

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "multi",
        syntax: "",
        summary: "Begins to queue commands for EXEC",
        group: Group::Transactions,
        arity: 1,
        keys: Keys::None,
        run: Run::Session(multi),
        flags: &[Flag::Fast, Flag::NotQueued, Flag::NotInTxn],
    },
    Command {
        name: "exec",
        syntax: "",
        summary: "Commits the queued commands as one transaction, or changes nothing",
        group: Group::Transactions,
        arity: 1,
        keys: Keys::None,
        run: Run::Engine(exec),
        flags: &[Flag::NotQueued, Flag::NotInTxn],
    },
    Command {
        name: "discard",
        syntax: "",
        summary: "Forgets the queued commands and all watches",
        group: Group::Transactions,
        arity: 1,
        keys: Keys::None,
        run: Run::Session(discard),
        flags: &[Flag::Fast, Flag::NotQueued, Flag::NotInTxn],
    },
    Command {
        name: "watch",
        syntax: "key [key ..]",
        summary: "Has the next EXEC do nothing if one of the keys has changed by then",
        group: Group::Transactions,
        arity: -2,
        keys: Keys::ALL,
        run: Run::Engine(watch),
        flags: &[Flag::Fast, Flag::NotQueued, Flag::NotInTxn, Flag::TellsNothing],
    },
    Command {
        name: "unwatch",
        syntax: "",
        summary: "Forgets all watches",
        group: Group::Transactions,
        arity: 1,
        keys: Keys::None,
        run: Run::Session(unwatch),
        flags: &[Flag::Fast],
    },
    Command {
        name: "txn",
        syntax: TXN_SYNTAX,
        summary: TXN_SUMMARY,
        group: Group::Transactions,
        arity: -2,
        keys: Keys::Custom(txn_keys),
        run: Run::Engine(txn),
        flags: &[Flag::NotInMulti, Flag::InAborted],
    },
];

fn multi(session: &mut Session, _: Frame<'_>) -> Reply {
    if session.multi.queue.is_some() {
        return Reply::error(errors::MULTI_NESTED);
    }
    session.multi.queue = Some(Queue { space: session.space, ..Queue::default() });
    Reply::OK
}

fn discard(session: &mut Session, _: Frame<'_>) -> Reply {
    if session.multi.queue.take().is_none() {
        return Reply::error(errors::DISCARD_WITHOUT_MULTI);
    }
    session.multi.unwatch();
    Reply::OK
}

fn unwatch(session: &mut Session, _: Frame<'_>) -> Reply {
    session.multi.unwatch();
    Reply::OK
}

fn watch<'a>(session: &'a mut Session, frame: Frame<'a>) -> BoxFuture<'a, Reply> {
    Box::pin(async move {
        if session.multi.queue.is_some() {
            return Reply::error(errors::WATCH_IN_MULTI);
        }
        let mut keys: BTreeSet<Key> = frame.args().skip(1).map(|name| Key::new(session.space, name)).collect();
        for watched in session.multi.watched.iter().filter(|watched| !watched.checked) {
            keys.remove(&watched.key);
        }
        let keys: Vec<Key> = keys.into_iter().collect();
        let limit = session.shared.limits.watched_keys_max;
        if session.multi.watched.len() + keys.len() > limit {
            return Reply::error(format!("LIMIT watched_keys_max {limit}"));
        }
        if let Err(refused) = session.keep_watched(keys.iter()) {
            return refused;
        }
        let caller = session.waiting_client();
        match session.shared.engine.watch(&keys, session.context(), caller).await {
            Ok((watched, committing)) => {
                session.multi.watched.extend(watched);
                session.committing = Some((committing, false));
                Reply::OK
            }
            Err(error) => refused(&session.shared, &error),
        }
    })
}

fn txn<'a>(session: &'a mut Session, frame: Frame<'a>) -> BoxFuture<'a, Reply> {
    Box::pin(async move {
        match frame.arg(1).to_ascii_lowercase().as_slice() {
            b"begin" => begin(session, frame).await.unwrap_or_else(|told| told),
            b"step" if frame.len() == 3 => step(session, frame),
            b"lock" if frame.len() > 2 => lock(session, frame).await.unwrap_or_else(|error| error),
            b"commit" if frame.len() == 2 => commit(session).await,
            b"abort" if frame.len() == 2 => abort(session),
            b"type" if frame.len() == 3 => types(session, frame),
            b"help" if frame.len() == 2 => family::help_of("txn", TXN_SUMMARY, TXN_SYNTAX),
            b"step" | b"lock" | b"commit" | b"abort" | b"type" => errors::wrong_arguments("txn"),
            _ => errors::unknown_subcommand("TXN", frame.arg(1)),
        }
    })
}

async fn begin(session: &mut Session, frame: Frame<'_>) -> Result<Reply, Reply> {
    if session.open.is_open() {
        return Err(Reply::error("ERR TXN calls can not be nested"));
    }
    if let Some(reason) = session.open.aborted().filter(|_| !session.open.is_over()) {
        return Err(Reply::error(format!("TXABORTED {reason}; end it with TXN ABORT first")));
    }
    session.open.drop_transaction(&session.shared);
    let syntax = || Reply::error(errors::SYNTAX);
    let mut kind = TxnKind::Interactive;
    let (mut context, mut txn_type, mut id) = (session.context(), None, None);
    let mut priority = Priority::Normal;
    let mut args = frame.args().skip(2);
    while let Some(option) = args.next() {
        match option.to_ascii_lowercase().as_slice() {
            b"readonly" => kind = TxnKind::ReadOnly,
            b"checked" if kind == TxnKind::ReadOnly => kind = TxnKind::ReadOnlyChecked,
            b"type" => txn_type = Some(args.next().ok_or_else(syntax)?),
            b"id" => id = Some(parse_id(args.next().ok_or_else(syntax)?)?),
            b"priority" => priority = parse_priority(args.next().ok_or_else(syntax)?).ok_or_else(syntax)?,
            _ => return Err(syntax()),
        }
    }
    // Names are few, so one is taken only now. Where there is none left it goes on without a type.
    let shared = &session.shared;
    match txn_type.map(|name| shared.labels.txn_type(name, || shared.is_traced())) {
        Some(Ok(number)) => {
            context.txn_type = number;
            session.shared.graphs.begun(number);
        }
        Some(Err(error)) => return Err(error),
        None => {}
    }
    let claim = match id {
        Some(id) => match claim(session, id).await? {
            Taken::New(claim) => Some(claim),
            Taken::Over { told, commit } => {
                let reason = format!("this id has ended before: {told}");
                session.open.set_over(reason, Reply::Simple(commit.into()));
                return Err(Reply::Simple(told.into()));
            }
        },
        None => None,
    };
    let limit = session.shared.limits.transactions_max;
    if session.shared.figures.transactions_open.fetch_add(1, Ordering::Relaxed) >= limit {
        session.shared.figures.transactions_open.fetch_sub(1, Ordering::Relaxed);
        return Err(Reply::error(format!("LIMIT transactions_max {limit}")));
    }
    let mut transaction = session.shared.engine.begin(kind, context);
    transaction.set_priority(priority);
    transaction.set_caller(session.waiting_client());
    session.open.set(transaction, claim, session.shared.engine.runtime().elapsed());
    Ok(Reply::OK)
}

fn parse_priority(arg: &[u8]) -> Option<Priority> {
    Some(match arg.to_ascii_lowercase().as_slice() {
        b"low" => Priority::Low,
        b"normal" => Priority::Normal,
        b"high" => Priority::High,
        _ => return None,
    })
}

fn step(session: &mut Session, frame: Frame<'_>) -> Reply {
    if let Some(reason) = session.open.aborted() {
        return Reply::error(format!("TXABORTED {reason}"));
    }
    let Some(transaction) = session.open.transaction() else {
        return Reply::error("ERR TXN STEP without TXN BEGIN");
    };
    // Names are few, so one is taken only now.
    let (context, shared) = (transaction.context_mut(), &session.shared);
    match shared.graphs.vertex(&shared.labels, context.txn_type, frame.arg(2), || shared.is_traced()) {
        Ok(vertex) => {
            context.vertex = vertex;
            Reply::OK
        }
        Err(error) => {
            // What follows is no access of the vertex before.
            context.vertex = 0;
            error
        }
    }
}

async fn commit(session: &mut Session) -> Reply {
    if let Some(reply) = session.open.take_over() {
        return reply;
    }
    if let Some(reason) = session.open.aborted() {
        let error = Reply::error(format!("TXABORTED {reason}"));
        session.open.drop_transaction(&session.shared);
        return error;
    }
    if let Err(denied) = session.guard_written() {
        session.open.drop_transaction(&session.shared);
        return denied;
    }
    let claim = session.open.take_claim();
    let Some(mut transaction) = session.open.take(&session.shared) else {
        return Reply::error("ERR TXN COMMIT without TXN BEGIN");
    };
    transaction.set_strict(session.strict);
    if let Some(claim) = &claim {
        transaction.set_given(claim.given_id());
    }
    let wrote = transaction.documents().written().next().is_some();
    let committed = transaction.commit().await;
    match committed {
        Ok(committing) => {
            if let Some(claim) = claim {
                claim.follow(committing.witness(), session.shared.engine.runtime());
            }
            session.committing = Some((committing, true));
            Reply::OK
        }
        Err(error) => {
            if let Some(claim) = claim {
                claim.end(&Err(error.clone()), session.shared.engine.runtime().elapsed());
            }
            if wrote {
                session.replies.note_failed(&error);
            }
            refused(&session.shared, &error)
        }
    }
}

fn abort(session: &mut Session) -> Reply {
    if !session.open.is_open() && session.open.aborted().is_none() {
        return Reply::error("ERR TXN ABORT without TXN BEGIN");
    }
    session.open.drop_transaction(&session.shared);
    Reply::OK
}
