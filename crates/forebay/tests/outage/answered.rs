//! What an operator was answered stands: through a kill, beside another operator, and until the store is another than
//! the one that was looked at.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use forebay::outage::{ApplyError, DropError, Gate, GivenUp, ResumeError, Standing, TicketState};
use forebay::runtime::Runtime;
use forebay::store::{CommitOutcome, Store};
use forebay::tier::memory::Memory;
use futures_util::future::join;

use crate::gate::{Database, commit, open_as, open_in, put, put_in, simulated};

const WHILE: Duration = Duration::from_secs(2);

struct World {
    memory: Memory,
    database: Arc<Database>,
    runtime: Runtime,
    gate: Gate,
}

impl World {
    /// A gate that waits for an operator, with one ticket for each of `names`, from 1 on.
    async fn suspended(runtime: Runtime, names: &[&str]) -> World {
        let (memory, database) = (Memory::new(1 << 20), Database::new(&runtime, true));
        let gate = open_in(&memory, &runtime, &database);
        database.inner.set_down(true);
        for (at, name) in names.iter().enumerate() {
            let kept = commit(&gate, put(at as u64 + 2, name)).await;
            assert!(matches!(kept, CommitOutcome::Buffered(ref kept) if kept.ticket == at as u64 + 1), "{kept:?}");
        }
        drop(gate);
        database.inner.set_down(false);
        database.went_back.store(true, Ordering::SeqCst);
        let gate = open_in(&memory, &runtime, &database);
        runtime.sleep(WHILE).await;
        assert!(gate.state().suspended.is_some());
        // Of the later starts none finds anything new.
        database.went_back.store(false, Ordering::SeqCst);
        World { memory, database, runtime, gate }
    }

    /// The process is killed, and started again.
    fn killed(self) -> World {
        let World { memory, database, runtime, gate } = self;
        drop(gate);
        let gate = open_in(&memory, &runtime, &database);
        World { memory, database, runtime, gate }
    }

    /// It is away for long enough to be known as away.
    async fn goes_away(&self) {
        self.database.inner.set_down(true);
        assert!(matches!(commit(&self.gate, put(1000, "other")).await, CommitOutcome::Buffered(_)));
    }

    fn standing(&self, ticket: u64) -> Option<Standing> {
        self.gate.with_buffer(|buffer| buffer.standing(ticket))
    }

    async fn is_applied(&self, ticket: u64) {
        self.runtime.sleep(WHILE).await;
        assert_eq!(self.standing(ticket), None, "it is done without another word");
        let told = self.gate.ticket(ticket);
        assert!(matches!(told, TicketState::Applied(_) | TicketState::Over), "{told:?}");
        self.gate.validate();
    }
}

#[test]
fn an_apply_that_was_answered_outlives_a_kill() {
    simulated(|runtime| async move {
        let world = World::suspended(runtime, &["a", "b"]).await;
        world.goes_away().await;
        assert_eq!(world.gate.apply(1).await, Ok(()));
        assert_eq!((world.standing(1), world.standing(2)), (Some(Standing::Ordered), Some(Standing::Waiting)));
        assert_eq!(world.gate.apply(1).await, Ok(()), "it is so");
        let world = world.killed();
        assert_eq!(world.standing(1), Some(Standing::Ordered));
        world.database.inner.set_down(false);
        world.is_applied(1).await;
        assert_eq!(world.standing(2), Some(Standing::Waiting));
        assert!(world.gate.state().suspended.is_some(), "the others wait");
    });
}

#[test]
fn a_resume_that_was_answered_outlives_a_kill() {
    simulated(|runtime| async move {
        let world = World::suspended(runtime, &["a"]).await;
        world.goes_away().await;
        assert_eq!(world.gate.resume().await, Ok(()));
        let world = world.killed();
        assert_eq!(world.gate.state().suspended, None);
        world.database.inner.set_down(false);
        world.is_applied(1).await;
    });
}

/// With the first answer since the start an operator has to decide again: what he said before would be forgotten then.
#[test]
fn nothing_is_resumed_before_the_store_was_reached() {
    simulated(|runtime| async move {
        let World { memory, database, runtime, gate } = World::suspended(runtime, &["a"]).await;
        drop(gate);
        database.inner.set_down(true);
        database.incarnation.store(0, Ordering::SeqCst);
        let gate = open_as(&memory, &runtime, &database, true);
        runtime.sleep(WHILE).await;
        assert_eq!(gate.resume().await, Err(ResumeError::NotReached));
        assert!(gate.state().suspended.is_some());
        database.incarnation.store(4, Ordering::SeqCst);
        database.inner.set_down(false);
        runtime.sleep(WHILE).await;
        assert!(gate.state().suspended.is_some());
        assert_eq!(gate.resume().await, Ok(()));
        let world = World { memory, database, runtime, gate };
        world.is_applied(1).await;
    });
}

/// Of both at once one is answered, and that one counts.
#[test]
fn of_apply_and_drop_the_first_counts() {
    simulated(|runtime| async move {
        let mut won = [0; 2];
        for apply_first in [true, false] {
            let world = World::suspended(runtime.clone(), &["a"]).await;
            let (one, other) = (world.gate.clone(), world.gate.clone());
            let late = Duration::from_micros(1);
            let apply = async {
                world.runtime.sleep(if apply_first { Duration::ZERO } else { late }).await;
                one.apply(1).await
            };
            let give_up = async {
                world.runtime.sleep(if apply_first { late } else { Duration::ZERO }).await;
                other.give_up(1, "why").await
            };
            let (applied, gone) = join(apply, give_up).await;
            let dropped = matches!(gone, Ok(GivenUp::Dropped));
            assert_ne!(applied.is_ok(), dropped, "{applied:?} {gone:?}");
            won[usize::from(dropped)] += 1;
            world.runtime.sleep(WHILE).await;
            match dropped {
                true => assert_eq!(world.gate.ticket(1), TicketState::Dropped("why".to_owned())),
                false => world.is_applied(1).await,
            }
        }
        assert_eq!(won, [1, 1]);
    });
}

/// Nor does a DROP that fails cancel what was ordered: of its own ticket or of one behind that.
#[test]
fn a_drop_that_fails_cancels_no_apply() {
    simulated(|runtime| async move {
        let world = World::suspended(runtime, &["a", "b"]).await;
        world.goes_away().await;
        let CommitOutcome::Buffered(later) = commit(&world.gate, put(1001, "b")).await else { panic!("it is kept") };
        assert_eq!(world.gate.apply(2).await, Ok(()));
        assert_eq!(world.gate.apply(later.ticket).await, Ok(()), "behind one that is ordered");
        assert_eq!(world.gate.give_up(2, "why").await, Ok(GivenUp::NotQuarantined));
        assert!(matches!(world.gate.give_up(1, "why").await, Err(DropError::Away(_))));
        assert_eq!(world.standing(1), Some(Standing::Waiting));
        world.database.inner.set_down(false);
        world.is_applied(2).await;
        world.is_applied(later.ticket).await;
        assert_eq!(world.standing(1), Some(Standing::Waiting));
    });
}

/// What comes later for its document does not become one with what is ordered.
#[test]
fn what_is_ordered_is_not_merged() {
    simulated(|runtime| async move {
        let (memory, database) = (Memory::new(1 << 20), Database::new(&runtime, true));
        let gate = open_in(&memory, &runtime, &database);
        let world = World { memory, database, runtime, gate };
        world.goes_away().await;
        assert!(matches!(commit(&world.gate, put(2, "a")).await, CommitOutcome::Buffered(_)));
        // It comes back as it was long ago, and goes again.
        world.database.incarnation.store(3, Ordering::SeqCst);
        world.database.inner.set_down(false);
        world.runtime.sleep(WHILE).await;
        assert!(world.gate.state().suspended.is_some());
        world.database.inner.set_down(true);
        assert!(matches!(
            commit(&world.gate, put_in(3, world.gate.minted() + 1, "other")).await,
            CommitOutcome::Buffered(_)
        ));
        world.runtime.sleep(WHILE).await;
        world.gate.fail_for(WHILE);
        assert_eq!(world.gate.apply(2).await, Ok(()));
        let CommitOutcome::Buffered(later) = commit(&world.gate, put_in(3, world.gate.minted() + 2, "a")).await else {
            panic!("it is kept")
        };
        assert_eq!(world.gate.part_of(2), 2);
        world.database.inner.set_down(false);
        world.runtime.sleep(WHILE).await;
        world.is_applied(2).await;
        assert_eq!(world.standing(later.ticket), Some(Standing::Waiting));
    });
}

/// It is another store then than the one that was compared.
#[test]
fn what_was_decided_about_another_state_is_forgotten() {
    simulated(|runtime| async move {
        let world = World::suspended(runtime, &["a"]).await;
        world.goes_away().await;
        assert_eq!(world.gate.apply(1).await, Ok(()));
        world.database.incarnation.store(9, Ordering::SeqCst);
        world.database.inner.set_down(false);
        world.runtime.sleep(WHILE).await;
        assert_eq!(world.standing(1), Some(Standing::Waiting));
        let world = world.killed();
        world.runtime.sleep(WHILE).await;
        assert_eq!(world.standing(1), Some(Standing::Waiting), "not only until the next start");
        assert_eq!(world.gate.apply(7).await, Err(ApplyError::NotWaiting));
        assert_eq!(world.gate.apply(1).await, Ok(()));
        world.is_applied(1).await;
    });
}
