//! The corrected protocol. Everything of a document is on one shard of the cache, one atomic command each. Every
//! store write has a token, from the first attempt on. Every claim has a fence.

use crate::check::Step;
use crate::state::{Actor, At, Local, Payload, State};

use Local::Nothing;

/// The steps of a writer.
pub fn writer(state: State, index: u8, out: &mut Vec<Step>) {
    let me = Actor::Writer(index);
    let (at, local) = state.place(me);
    let mut step = |what, next| out.push(Step { actor: Some(me), what, next });
    let go = |state: State, at| state.writer(index, at, Nothing);
    match (at, local) {
        (At::Start, _) if !state.queue.is_empty() => {
            let (started, token) = (state.start(index), state.token + 1);
            let queue = started.queue.with(index).with(token);
            step("finds a queue, buffers behind it", go(State { token, queue, ..started }, At::BufferedAck));
        }
        (At::Start, _) if state.lease.is_none() => {
            let (started, token, fence) = (state.start(index), state.token + 1, state.fence + 1);
            let next = State { token, fence, lease: Some(me), ..started };
            step("takes the lease and a token", next.writer(index, At::OwnWrite, Local::Token { token, fence }));
        }
        (At::OwnWrite, Local::Token { token, .. }) => {
            for (what, next, ok) in state.store_write(Payload::Conditional { id: index, token }) {
                step(what, next.writer(index, if ok { At::Acknowledge } else { At::AppendDelta }, local));
            }
        }
        // "ok" means that the condition held and it was applied, or that it did not; reading back tells which.
        (At::Acknowledge, _) if state.store.contains(index) => {
            step("acknowledges", go(state.release(me).acknowledge(index), At::Done));
        }
        (At::Acknowledge, _) => step("was superseded, answers an error", go(state.release(me), At::Done)),
        (At::AppendDelta, Local::Token { token, fence }) => {
            if state.lease == Some(me) && state.fence == fence {
                let queue = state.queue.with(index).with(token);
                step("buffers under the same token", go(State { queue, ..state }.release(me), At::BufferedAck));
            } else {
                step("may not buffer, its lease is stale; answers unknown", go(state, At::Done));
            }
        }
        (At::BufferedAck, _) => step("acknowledges", go(state.acknowledge(index), At::Done)),
        _ => {}
    }
}

/// The steps of a recovery worker.
pub fn worker(state: State, index: u8, out: &mut Vec<Step>) {
    let me = Actor::Worker(index);
    let (at, local) = state.place(me);
    let mut step = |what, next| out.push(Step { actor: Some(me), what, next });
    let claim =
        |state: State, at, fence, queue, applied| state.worker(index, at, Local::Claim { fence, queue, applied });
    match (at, local) {
        (At::Idle, _) if !state.queue.is_empty() && state.up && state.lease.is_none() => {
            let fence = state.fence + 1;
            let next = State { fence, lease: Some(me), ..state };
            step("claims the queue", claim(next, At::ClaimApply, fence, state.queue, 0));
        }
        (At::ClaimApply, Local::Claim { fence, queue, applied }) if 2 * applied == queue.len() => {
            step("has applied all", claim(state, At::ClaimDone, fence, queue, applied));
        }
        (At::ClaimApply, Local::Claim { fence, queue, applied }) => {
            let payload = Payload::Conditional { id: queue.at(2 * applied), token: queue.at(2 * applied + 1) };
            for (what, next, ok) in state.store_write(payload) {
                step(
                    what,
                    match ok {
                        true => claim(next, At::ClaimApply, fence, queue, applied + 1),
                        false => claim(next, At::ClaimDone, fence, queue, applied),
                    },
                );
            }
        }
        (At::ClaimDone, Local::Claim { fence, applied, .. }) => {
            let done = |state: State| state.worker(index, At::Idle, Nothing);
            if state.lease == Some(me) && state.fence == fence {
                let queue = state.queue.without_first(2 * applied);
                step("trims the queue", done(State { queue, ..state }.release(me)));
            } else {
                step("may not trim, its fence is stale", done(state));
            }
        }
        _ => {}
    }
}
