//! EXEC: the queued commands as one transaction.

use forebay::key::KeyRef;
use forebay::mutation::{self, Fault};
use forebay::txn::{Ahead, Documents, Executed, Mode, Plan, PlannedLock, TxnError, Wanted, Watched, take_long};
use forebay_protocol::{Frame, Reply, errors};
use futures_util::future::BoxFuture;
use smallvec::SmallVec;

use crate::command::{Call, Effect, Known, Run, lease, refused};
use crate::given::Claim;
use crate::session::{
    Answers, Queue, Session, Turns, any_unseen, compare, in_order, not_seen, rolled_back, tell_nothing,
};

pub(super) fn exec<'a>(session: &'a mut Session, _: Frame<'a>) -> BoxFuture<'a, Reply> {
    Box::pin(async move {
        let needs = session.parts.over.take();
        let Some(queue) = session.multi.queue.take() else { return Reply::error(errors::EXEC_WITHOUT_MULTI) };
        let watched = session.multi.take_watched();
        if queue.doomed {
            return Reply::error(errors::EXECABORT);
        }
        let (watched, claim) = match watched {
            Ok(watched) => watched,
            Err(refused) => return refused,
        };
        if let Err(gone) = session.take_answers(needs).await {
            return gone;
        }
        let (mut script, space) = (Script { queue, watched, claim }, session.space);
        let reply = exec_within(session, &mut script).await;
        let had_no_room = session.had_no_room();
        if had_no_room || reply.is_error() {
            // Nothing of it is done, SELECT included.
            session.space = if mutation::on(Fault::UndoneSelectStays) { session.space } else { space };
        }
        if had_no_room {
            let Script { queue, watched, claim } = script;
            session.multi.put_back(queue, watched, claim);
        }
        reply
    })
}

/// What EXEC runs, what it compares first, and the id under which it commits.
struct Script {
    queue: Queue,
    watched: Vec<Watched>,
    claim: Option<Claim>,
}

/// Runs a script if there is room for its answers. If not, nothing of it is done, and `session.parts.over` says how
/// much they take: hundreds of clients may ask for megabytes each in a request of a kilobyte.
async fn exec_within(session: &mut Session, script: &mut Script) -> Reply {
    let queue = &script.queue;
    // Watching nothing and only reading: served without a lock if all is cached.
    let plain = script.watched.is_empty() && script.claim.is_none() && !queue.has_scripts();
    if plain
        && !session.unsettled()
        && let Some(done) = exec_published(session, queue).await
    {
        return compared(session, queue, done).await;
    }
    if plain
        && queue.is_short()
        && let Some(done) = exec_at_once(session, queue)
    {
        return compared(session, queue, done).await;
    }
    // Boxed, because it takes kilobytes, which else would be moved for each EXEC that is over at once.
    Box::pin(exec_locked(session, script)).await
}

/// Runs a script under locks, after what is watched was compared.
async fn exec_locked(session: &mut Session, script: &mut Script) -> Reply {
    let Script { queue, watched, claim } = script;
    // Before anything is compared: what is found current is so as of it.
    let checked = watched.iter().any(|watched| watched.checked).then(|| session.shared.engine.as_of());
    if let Some(refused) = session.too_wide(queue.locks().len()) {
        return refused;
    }
    let (mut plan, mut any_expired) = (plan_of(session, queue, watched.clone(), claim), false);
    let shared = session.shared.clone();
    match execute(session, &mut plan, queue, &mut any_expired).await {
        Ok(Executed::Done((reply, _), _)) if session.parts.over.is_some() => reply,
        Ok(Executed::Done(done, mut committing)) => {
            session.turn = committing.take_turn();
            if let Some(claim) = claim.take() {
                claim.follow(committing.witness(), shared.engine.runtime());
            }
            // Rows that others write to have the numbers of their tables.
            let owned = shared.engine.store().caps().owned;
            let version = committing.id().map(|id| id.0).filter(|_| owned);
            session.committing = Some((committing, false));
            let reply = compared(session, queue, done).await;
            match checked {
                Some(as_of) => {
                    let as_of = as_of.filter(|as_of| !any_expired && shared.engine.stands(*as_of));
                    lease::validated(reply, version, as_of)
                }
                None => reply,
            }
        }
        Ok(Executed::WatchFailed) => Reply::NilArray,
        Ok(Executed::Stale(stale)) => lease::stale(&stale),
        Err(error) => {
            session.parts.over = None;
            if let Some(claim) = claim.take() {
                claim.end(&Err(error.clone()), shared.engine.runtime().elapsed());
            }
            if plan.locks.iter().any(|lock| lock.mode == Mode::Exclusive) {
                session.replies.note_failed(&error);
            }
            refused(&shared, &error)
        }
    }
}

/// Executes what is queued as one transaction, as `plan` says. `any_expired`: one of its documents is absent since it
/// has expired, so that no version says from when on what was checked is current.
async fn execute(
    session: &mut Session,
    plan: &mut Plan,
    queue: &Queue,
    any_expired: &mut bool,
) -> Result<Executed<Done>, TxnError> {
    #[cfg(feature = "lua")]
    if queue.has_scripts() {
        // What its scripts load is not looked at, so no version is told.
        *any_expired = true;
        let executed = session.run_steps(plan, crate::session::Steps::Queue(queue)).await?;
        return Ok(match executed {
            Executed::Done(reply, committing) => Executed::Done((reply, Vec::new()), committing),
            Executed::WatchFailed => Executed::WatchFailed,
            Executed::Stale(stale) => Executed::Stale(stale),
        });
    }
    let (context, shared, mut ahead) = (session.context(), session.shared.clone(), Ahead::default());
    // Of what is not known nobody can say whether it has changed.
    let may_be_blind =
        plan.watched.is_empty() && queue.commands.iter().any(|queued| session.takes_blind(queued.command));
    loop {
        let body = |documents: &mut Documents| {
            *any_expired = documents.any_expired();
            run_queue(session, queue, documents)
        };
        match shared.engine.execute_locked(plan, context, &mut ahead, body).await {
            Err(TxnError::StoreDown(_)) if !plan.blind && may_be_blind => plan.blind = true,
            executed => return executed,
        }
    }
}

/// What a script is going to lock, load and compare.
fn plan_of(session: &Session, queue: &Queue, watched: Vec<Watched>, claim: &Option<Claim>) -> Plan {
    let shared = |watched: &Watched| PlannedLock { key: watched.key.clone(), mode: Mode::Shared, load: true };
    let mut locks = queue.locks();
    locks.extend(watched.iter().map(shared));
    Plan {
        locks: in_order(locks),
        watched,
        given: claim.as_ref().map(Claim::given_id),
        strict: session.strict,
        name: "exec",
        caller: session.waiting_client(),
        bodies: queue.commands.len(),
        bytes_max: Some(session.shared.limits.txn_bytes_max),
        keeps_turn: true,
        ..Plan::default()
    }
}

/// The replies of a script, and which of them have still to be compared with their patterns.
type Done = (Reply, Vec<usize>);

/// The answer to a script.
async fn compared(session: &Session, queue: &Queue, (mut answer, uncompared): Done) -> Reply {
    for number in uncompared {
        if let (Reply::Array(replies), Some(queued)) = (&mut answer, queue.commands.get(number))
            && let Some(reply) = replies.get_mut(number)
        {
            let whole = std::mem::replace(reply, Reply::Nil);
            let compared = compare(queued.command, queued.request.frame(), whole, Turns::new(session));
            *reply = Box::pin(compared).await;
        }
    }
    answer
}

/// Serves a script whose keys nobody else uses over a store that never waits, at once.
fn exec_at_once(session: &mut Session, queue: &Queue) -> Option<Done> {
    let shared = session.shared.clone();
    if !shared.engine.commits_at_once() {
        return None;
    }
    let mut wanted = SmallVec::<[Wanted<'_>; 8]>::new();
    for queued in &queue.commands {
        let frame = queued.request.frame();
        let load = queued.command.effect(frame)? != Effect::Blind;
        queued.command.each_key(frame, queued.space, &mut |key| wanted.push(Wanted { key, load }));
    }
    wanted.sort_unstable_by_key(|wanted| wanted.key);
    wanted.dedup_by(|next, kept| {
        kept.load |= next.load && next.key == kept.key;
        next.key == kept.key
    });
    let context = session.context();
    let done = shared.engine.execute_at_once(&wanted, &context, |documents| run_each(session, queue, documents))?;
    Some(done.map_or_else(|error| (refused(&shared, &error), Vec::new()), |(done, _)| done))
}

/// Runs the queued commands on `documents`; the first that fails undoes all. What takes long is done aside.
fn run_queue(session: &mut Session, queue: &Queue, documents: &mut Documents) -> Result<Done, Done> {
    match take_long(documents.held_bytes(), queue.commands.len()) {
        true => session.shared.engine.runtime().clone().aside(|| run_each(session, queue, documents)),
        false => run_each(session, queue, documents),
    }
}

fn run_each(session: &mut Session, queue: &Queue, documents: &mut Documents) -> Result<Done, Done> {
    let mut replies = Vec::with_capacity(queue.commands.len());
    let mut uncompared = Vec::new();
    let (mut answers, room) = (Answers::empty(), session.parts.answers);
    // It may have run before, on other documents.
    session.parts.over = None;
    let bytes_max = session.shared.limits.client_reply_bytes_max;
    for (n, queued) in queue.commands.iter().enumerate() {
        let frame = queued.request.frame();
        let permitted = session.guard_queued(queued.command, frame);
        let unseen = documents.any_unseen() && any_unseen(queued.command, frame, queued.space, documents);
        let blocked =
            if unseen && !session.takes_blind(queued.command) { not_seen(queued.command, frame) } else { None };
        let answer = match (queued.command.body(), &queued.command.run) {
            _ if permitted.is_err() => permitted.map(|()| Reply::OK),
            _ if blocked.is_some() => Err(blocked.unwrap_or(Reply::Nil)),
            (Some(body), _) => {
                let chance = session.chance_for(queued.command);
                if queued.command.effect(frame) == Some(Effect::Read) {
                    queued.command.each_key(frame, queued.space, &mut |key| documents.tell(key));
                }
                let known = Known::Documents(documents);
                let mut call = Call { chance, ..Call::new(frame, queued.space, known) };
                let answer = body(&mut call);
                uncompared.extend(call.uncompared.then_some(n));
                answer
            }
            (None, Run::Session(body)) => Ok(body(session, frame)),
            (None, _) => Err(Reply::error(format!("ERR {} inside MULTI is not allowed", queued.command.name))),
        };
        let answer = if unseen { tell_nothing(answer) } else { answer };
        // Counted as they come: what would never be sent, or takes too much memory, must not be built either.
        let answer = answer.and_then(|reply| {
            session.within_txn_bytes(documents.held_bytes())?;
            answers.add(&reply);
            if answers.bytes > bytes_max {
                return Err(Reply::error(format!("LIMIT client_reply_bytes_max {bytes_max}")));
            }
            Ok(reply)
        });
        match answer {
            Ok(Reply::Error(text)) | Err(Reply::Error(text)) => {
                return Err((rolled_back(n, queued.command, frame, &text), Vec::new()));
            }
            // Without room for all, what they take is summed up.
            Ok(_) | Err(_) if answers.exceeds(room) => replies = Vec::new(),
            Ok(reply) | Err(reply) => replies.push(reply),
        }
    }
    if answers.exceeds(room) {
        session.parts.over = Some(answers);
        return Err((Reply::Nil, Vec::new()));
    }
    Ok((Reply::Array(replies), uncompared))
}

/// Serves a script that only reads without a lock, if all its keys are cached.
async fn exec_published(session: &mut Session, queue: &Queue) -> Option<Done> {
    let mut keys = SmallVec::<[KeyRef<'_>; 8]>::new();
    for queued in &queue.commands {
        let frame = queued.request.frame();
        match queued.command.effect(frame) {
            Some(Effect::Read) => queued.command.each_key(frame, queued.space, &mut |key| keys.push(key)),
            Some(_) => return None,
            None => {}
        }
    }
    if keys.is_empty() {
        return None;
    }
    keys.sort_unstable();
    keys.dedup();
    let mut documents = session.shared.engine.read_published(&keys, &session.context())?;
    if take_long(documents.held_bytes(), queue.commands.len()) {
        session.shared.engine.runtime().clone().leave().await;
    }
    Some(run_queue(session, queue, &mut documents).unwrap_or_else(|error| error))
}
