//! The paper's algorithms, one command to cache or store per step.

use crate::check::Step;
use crate::state::{Actor, At, Copied, Delta, Local, Payload, Protocol, State};

use Local::Nothing;

/// The steps of a writer: algorithm 2, its own write, and algorithm 1 when the store fails.
pub fn writer(protocol: Protocol, state: State, index: u8, out: &mut Vec<Step>) {
    let me = Actor::Writer(index);
    let (at, local) = state.place(me);
    let mut step = |what, next| out.push(Step { actor: Some(me), what, next });
    let go = |state: State, at| state.writer(index, at, Nothing);
    match (at, local) {
        (At::Start, _) if state.lease.is_none() => {
            step("takes the lease", go(State { lease: Some(me), ..state.start(index) }, At::LookUpDirty));
        }
        (At::LookUpDirty, _) if state.dirty && protocol == Protocol::Snapshot => {
            step("finds dirty", go(state, At::SnapshotGet));
        }
        (At::LookUpDirty, _) if state.dirty => step("finds dirty", go(state, At::RecoverReadDelta)),
        (At::LookUpDirty, _) => step("finds it clean", go(unless_kept(protocol, state, me), At::OwnWrite)),
        (At::RecoverReadDelta, _) => {
            let ids = state.delta.map(|delta| delta.ids).unwrap_or_default();
            step("reads delta", state.writer(index, At::RecoverApply, Local::Ids(ids)));
        }
        (At::RecoverApply, Local::Ids(ids)) if ids.is_empty() => step("has nothing", go(state, At::RecoverDeleteDirty)),
        (At::RecoverApply, Local::Ids(ids)) => {
            for (what, next, ok) in state.store_write(Payload::Append(ids)) {
                step(what, go(next, if ok { At::RecoverDeleteDirty } else { At::AppendDelta }));
            }
        }
        (At::RecoverDeleteDirty, _) => {
            step("deletes dirty", go(State { dirty: false, ..state }, At::RecoverDeleteDelta));
        }
        (At::RecoverDeleteDelta, _) => {
            let deleted = without_delta(protocol, state);
            step("deletes delta", go(unless_kept(protocol, deleted, me), At::OwnWrite));
        }
        (At::OwnWrite, _) => {
            for (what, next, ok) in state.store_write(Payload::Append(own(index))) {
                step(what, go(next, if ok { At::Acknowledge } else { At::AppendDelta }));
            }
        }
        (At::Acknowledge, _) => step("acknowledges", go(state.release(me).acknowledge(index), At::Done)),
        (At::AppendDelta, _) => step("appends to delta", go(append(protocol, state.release(me), index), At::MarkLease)),
        (At::MarkLease, _) if state.lease.is_none() => {
            step("takes the lease", go(State { lease: Some(me), ..state }, At::MarkDirty));
        }
        (At::MarkDirty, _) => {
            let next = State { dirty: true, ..state }.release(me);
            match state.dirty {
                false => step("adds dirty", go(next, At::AppendTele)),
                true => step("finds dirty, acknowledges", go(next.acknowledge(index), At::Done)),
            }
        }
        (At::AppendTele, _) if state.tele_lease.is_none() => {
            let next = State { tele: true, ..state };
            step("appends to TeleW, acknowledges", go(next.acknowledge(index), At::Done));
        }
        (At::Start | At::MarkLease | At::AppendTele, _) => {}
        _ => snapshot(state, me, At::RecoverDeleteDirty, At::AppendDelta, out),
    }
}

/// The steps of a recovery worker: algorithm 3.
pub fn worker(protocol: Protocol, state: State, index: u8, out: &mut Vec<Step>) {
    let me = Actor::Worker(index);
    let (at, local) = state.place(me);
    let mut step = |what, next| out.push(Step { actor: Some(me), what, next });
    let go = |state: State, at| state.worker(index, at, Nothing);
    match (at, local) {
        (At::Idle, _) if state.tele && state.up => step("sees it in TeleW", go(state, At::SeeDirty)),
        (At::Idle, _) => {}
        (At::SeeDirty, _) if state.dirty => step("finds dirty", go(state, At::TakeLease)),
        (At::SeeDirty, _) => step("finds it clean", go(state, At::TeleLease)),
        (At::TakeLease, _) if state.lease.is_none() => {
            step("takes the lease", go(State { lease: Some(me), ..state }, At::SeeDirtyAgain));
        }
        (At::TakeLease, _) => step("finds the lease taken", go(state, At::Idle)),
        (At::SeeDirtyAgain, _) if state.dirty && protocol == Protocol::Snapshot => {
            step("finds dirty again", go(state, At::SnapshotGet));
        }
        (At::SeeDirtyAgain, _) if state.dirty => step("finds dirty again", go(state, At::ReadDelta)),
        (At::SeeDirtyAgain, _) => step("finds it clean", go(state.release(me), At::TeleLease)),
        (At::ReadDelta, _) => {
            let ids = state.delta.map(|delta| delta.ids).unwrap_or_default();
            step("reads delta", state.worker(index, At::ApplyDelta, Local::Ids(ids)));
        }
        (At::ApplyDelta, Local::Ids(ids)) if ids.is_empty() => step("has nothing", go(state, At::DeleteDirty)),
        (At::ApplyDelta, Local::Ids(ids)) => {
            for (what, next, ok) in state.store_write(Payload::Append(ids)) {
                step(what, if ok { go(next, At::DeleteDirty) } else { go(next.release(me), At::Idle) });
            }
        }
        (At::GiveUp, _) => step("gives up", go(state.release(me), At::Idle)),
        (At::DeleteDirty, _) => step("deletes dirty", go(State { dirty: false, ..state }, At::DeleteDelta)),
        (At::DeleteDelta, _) => {
            step("deletes delta", go(without_delta(protocol, state).release(me), At::TeleLease));
        }
        (At::TeleLease, _) if state.tele_lease.is_none() => {
            let next = State { tele_lease: Some(me), ..state };
            step("leases TeleW, looks", next.worker(index, At::PutTele, Local::Forget(!state.dirty)));
        }
        (At::TeleLease, _) => {}
        (At::PutTele, Local::Forget(forget)) => {
            let tele_lease = state.tele_lease.filter(|holder| *holder != me);
            step("puts TeleW", go(State { tele: state.tele && !forget, tele_lease, ..state }, At::Idle));
        }
        _ => snapshot(state, me, At::DeleteDirty, At::GiveUp, out),
    }
}

fn own(writer: u8) -> crate::state::Numbers {
    crate::state::Numbers::of([writer])
}

fn unless_kept(protocol: Protocol, state: State, me: Actor) -> State {
    if protocol == Protocol::Literal { state.release(me) } else { state }
}

/// Snapshot recovery has deleted it already.
fn without_delta(protocol: Protocol, state: State) -> State {
    if protocol == Protocol::Snapshot { state } else { State { delta: None, ..state } }
}

/// The change is appended to delta; a delta that was not there gets the next uid.
fn append(protocol: Protocol, state: State, id: u8) -> State {
    let fresh = if protocol == Protocol::Snapshot { state.uids + 1 } else { 0 };
    let before = state.delta.unwrap_or(Delta { uid: fresh, ids: own(id).without_first(1) });
    let delta = Delta { ids: before.ids.with(id), ..before };
    State { delta: Some(delta), uids: state.uids.max(delta.uid), ..state }
}

/// Algorithm 4, then `done` or `failed`.
fn snapshot(state: State, me: Actor, done: At, failed: At, out: &mut Vec<Step>) {
    let (at, local) = state.place(me);
    let mut step = |what, next| out.push(Step { actor: Some(me), what, next });
    let go = |state: State, at| state.put(me, at, Nothing);
    match (at, local) {
        (At::SnapshotGet, _) => {
            step("gets the snapshot", state.put(me, At::SnapshotGetDelta, Local::Snapshot(state.snapshot)));
        }
        (At::SnapshotGetDelta, Local::Snapshot(snapshot)) => {
            let delta = state.delta;
            let next = match snapshot {
                None => At::SnapshotBuild,
                Some(snapshot) if delta.is_none_or(|delta| delta.uid != snapshot.uid) => At::SnapshotCompare,
                Some(_) => At::SnapshotDeleteOld,
            };
            step("gets delta", state.put(me, next, Local::SnapshotAndDelta(snapshot, delta)));
        }
        (At::SnapshotCompare | At::SnapshotBuild, Local::SnapshotAndDelta(_, delta)) if !state.up => {
            let nothing_to_do = at == At::SnapshotBuild && delta.is_none();
            match nothing_to_do {
                true => step("finds no delta", go(state, done)),
                false => step("can't read the store", go(state, failed)),
            }
        }
        (At::SnapshotCompare, Local::SnapshotAndDelta(Some(snapshot), _)) => {
            let same = state.store == snapshot.data;
            step("compares", state.put(me, if same { At::SnapshotDeleteOld } else { At::SnapshotOverwrite }, local));
        }
        (At::SnapshotOverwrite, Local::SnapshotAndDelta(Some(snapshot), _)) => {
            for (what, next, ok) in state.store_write(Payload::Overwrite(snapshot.data)) {
                step(what, if ok { next.put(me, At::SnapshotDeleteOld, local) } else { go(next, failed) });
            }
        }
        (At::SnapshotDeleteOld, _) => {
            step("deletes the old snapshot", State { snapshot: None, ..state }.put(me, At::SnapshotBuild, local));
        }
        (At::SnapshotBuild, Local::SnapshotAndDelta(_, None)) => step("finds no delta", go(state, done)),
        (At::SnapshotBuild, Local::SnapshotAndDelta(_, Some(delta))) => {
            let built = Local::Built(delta, state.store.and(delta.ids));
            step("builds a snapshot", state.put(me, At::SnapshotStore, built));
        }
        (At::SnapshotStore, Local::Built(delta, data)) => {
            let next = State { snapshot: Some(Copied { uid: delta.uid, data }), ..state };
            step("stores the snapshot", next.put(me, At::SnapshotDeleteDelta, local));
        }
        (At::SnapshotDeleteDelta, _) => {
            step("deletes delta", State { delta: None, ..state }.put(me, At::SnapshotApply, local));
        }
        (At::SnapshotApply, Local::Built(delta, _)) => {
            for (what, next, ok) in state.store_write(Payload::Append(delta.ids)) {
                step(what, go(next, if ok { At::SnapshotDelete } else { failed }));
            }
        }
        (At::SnapshotDelete, _) => step("deletes the snapshot", go(State { snapshot: None, ..state }, done)),
        other => unreachable!("{other:?} is no place of {me:?}"),
    }
}
