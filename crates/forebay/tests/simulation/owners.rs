//! Two owners of one database, one after the other. The first is cut off, buffers, and finds another owner when the
//! network is whole again, or when it is started again. Its clients are at the gate itself. Each has a separate
//! document and that of the next one, which the second owner writes too. An operator lets what waits go, or decides
//! about each ticket.

mod counted;
mod database;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use forebay::change::Change;
use forebay::mutation::Fault;
use forebay::outage::lossy::Lossy;
use forebay::outage::{
    BreakerSettings, Description, Gate, GateOptions, GateSettings, GivenUp, Journal, JournalOptions, Mode, TicketState,
    seen_incarnation_of,
};
use forebay::runtime::Runtime;
use forebay::runtime::simulated::{Ended, Simulation, SplitMix};
use forebay::store::embedded::Durability;
use forebay::store::suite::write;
use forebay::store::{Commit, CommitOutcome, Resolved, Store};
use forebay::tier::Tier;
use forebay::version::{Mint, OwnerId};
use forebay::{Key, TxnId, Value, Version};

use crate::book::{broken, expect};
use crate::gate::finds;
use crate::tickets::{Ticket, tickets};

use self::database::{Database, Network, Opened};

/// Clients of the first owner, and writes of each.
const CLIENTS: u64 = 3;
const WRITES: u64 = 12;

/// Seeds within which a fault shows.
const SEEDS_OF_FAULTS: u64 = 100;

/// Within which an owner that has nothing to do has to notice that it is none any more.
const NOTICED: Duration = Duration::from_secs(2);

fn key(client: u64) -> Key {
    Key::new(0, format!("k{client}").as_bytes())
}

/// The second document of a client, and the first of the next one: so what it writes of both waits for others.
fn keys(client: u64) -> [Key; 2] {
    [key(client), key((client + 1) % CLIENTS)]
}

fn put(mint: &Mint, keys: &[Key], value: &str) -> Commit {
    let put = |key| write(key, None, vec![Change::Put(Value::bytes(value.as_bytes()))]);
    Commit::new(TxnId(mint.next()), mint.next(), keys.iter().map(put).collect())
}

/// Where the owners live.
type World<'a> = (&'a Runtime, &'a Arc<Database>, &'a Arc<Network>, &'a Lossy);

/// The first owner, started on what its journal has.
async fn first(world: World<'_>) -> (Gate, Arc<Opened>) {
    let (runtime, database, network, _) = world;
    let mut store = None;
    let open = |owner: OwnerId, noted| store.insert(database.open(runtime, network, owner.0, noted)).clone() as _;
    let gate = start(world, open, false).await;
    (gate, store.unwrap_or_else(|| broken("the gate opens", "without a store".to_owned())))
}

/// The first owner, over the store that `open` answers for it and the incarnation that its journal has noted.
async fn start(
    (runtime, _, _, disk): World<'_>,
    open: impl FnOnce(OwnerId, u64) -> Arc<dyn Store>,
    opens_late: bool,
) -> Gate {
    let description = Description { mapping: String::new(), catalogue: String::new() };
    let options = JournalOptions { durability: Durability::Always, bytes_max: 1 << 20, description };
    let opened = Journal::open(runtime.clone(), disk.handle(), options);
    let (journal, mut found) = opened.unwrap_or_else(|error| broken("the journal opens", error.to_string()));
    let owner = *found.remembered.owner.get_or_insert_with(|| OwnerId(u128::from(runtime.random())));
    let noted = journal.remember(found.remembered.clone()).await;
    expect(noted.is_ok(), "the journal notes its owner", || format!("{noted:?}"));
    let breaker = BreakerSettings { failures_to_open: 1, successes_to_close: 1, pause_ms: 1, pause_ms_max: 8 };
    let gate = Gate::open(GateOptions {
        runtime: runtime.clone(),
        store: open(owner, seen_incarnation_of(&found.description)),
        journal,
        found,
        settings: GateSettings { breaker, bytes_max: 1 << 20, ..GateSettings::default() },
        mapping: String::new(),
        opens_late,
    });
    gate.unwrap_or_else(|error| broken("the gate opens", error.to_string()))
}

/// A client of the first owner. Nothing is acknowledged once that one knows that it is none any more. What is answered
/// as not applied goes to `refused`.
async fn client(runtime: Runtime, gate: Gate, store: Arc<Opened>, number: u64, refused: Arc<Mutex<Vec<Value>>>) {
    // What several clients mint must differ.
    let mint = Mint::behind(Version { incarnation: gate.incarnation(), sequence: number * 1_000 });
    for turn in 0..WRITES {
        runtime.sleep(Duration::from_micros(runtime.random() % 2_000)).await;
        let was_fenced = store.fenced().is_some();
        let written = 1 + runtime.random() as usize % 2;
        let value = format!("first {number} {turn}");
        let commit = put(&mint, &keys(number)[..written], &value);
        let outcome = gate.commit(std::slice::from_ref(&commit)).await.pop();
        let kept = matches!(outcome, Some(CommitOutcome::Buffered(_))) && store.fenced().is_some();
        let late = was_fenced
            && outcome
                .as_ref()
                .is_some_and(|outcome| outcome.is_applied() || matches!(outcome, CommitOutcome::Buffered(_)));
        expect(!kept && !late, "a fenced owner acknowledges nothing", || format!("{outcome:?}"));
        let not_applied = match outcome {
            Some(CommitOutcome::Unavailable(_)) => true,
            Some(CommitOutcome::Unknown(_)) => gate.outcome(commit.id).await == Ok(Resolved::NotApplied),
            _ => false,
        };
        if not_applied {
            refused.lock().unwrap_or_else(PoisonError::into_inner).push(Value::bytes(value.as_bytes()));
        }
        let read = gate.get(&[key(number)]).await;
        expect(!was_fenced || read.is_err(), "a fenced owner shows nothing", || format!("{read:?}"));
    }
}

/// What the second owner has written stands in all documents.
async fn is_untouched(database: &Database, what: &str) {
    for number in 0..CLIENTS {
        let value = database.value(&key(number)).await;
        expect(value == Some(Value::bytes(*b"second")), "what came later is not overwritten", || {
            format!("{what}: {number} has {value:?}")
        });
    }
}

/// One run: whether writes waited for a database that had another owner since.
fn run(seed: u64) -> bool {
    to_its_end(seed, two_owners)
}

/// A run of this kind.
fn to_its_end<T: Send + 'static, F: Future<Output = T> + Send>(
    seed: u64,
    work: impl FnOnce(Runtime, SplitMix) -> F + Send + 'static,
) -> T {
    let simulation = Simulation::new(seed);
    let runtime = simulation.runtime();
    let (sender, mut told) = futures_channel::oneshot::channel();
    let ended = simulation.run_to_step(u64::MAX, async move {
        let _ = sender.send(work(runtime, SplitMix::new(seed ^ 0x0b0e)).await);
    });
    expect(ended == Ended::Done, "progress", || format!("{ended:?}"));
    told.try_recv().ok().flatten().unwrap_or_else(|| broken("progress", "the run has no end"))
}

async fn two_owners(runtime: Runtime, mut random: SplitMix) -> bool {
    let database = Database::new();
    let (network, disk) = (Arc::new(Network::default()), Lossy::new());
    let world = (&runtime, &database, &network, &disk);
    let (gate, store) = first(world).await;
    let (mut clients, refused) = (Vec::new(), Arc::new(Mutex::new(Vec::new())));
    for number in 0..CLIENTS {
        let (sender, done) = futures_channel::oneshot::channel();
        clients.push(done);
        let (runtime, gate, store, refused) = (runtime.clone(), gate.clone(), store.clone(), refused.clone());
        runtime.clone().spawn(async move {
            client(runtime, gate, store, number, refused).await;
            let _ = sender.send(());
        });
    }
    let pause = |random: &mut SplitMix| runtime.sleep(Duration::from_micros(random.below(10_000)));
    pause(&mut random).await;
    network.cut.store(true, Ordering::SeqCst);
    pause(&mut random).await;
    let second = database.open(&runtime, &Arc::default(), 2, 0);
    let mint = Mint::new(second.incarnation());
    for number in 0..CLIENTS {
        let outcome = second.commit(&[put(&mint, &[key(number)], "second")]).await.pop();
        expect(outcome.as_ref().is_some_and(CommitOutcome::is_applied), "the second owner writes", || {
            format!("{outcome:?}")
        });
    }
    pause(&mut random).await;
    network.cut.store(false, Ordering::SeqCst);
    for client in clients {
        expect(client.await.is_ok(), "progress", || "a client ended in the middle".to_owned());
    }
    runtime.sleep(NOTICED).await;
    expect(store.fenced().is_some(), "an idle owner notices", || "it does not".to_owned());
    is_untouched(&database, "by a fenced owner").await;
    let waiting = gate.state().amount.transactions;
    drop((gate, store, second));
    // Started again, perhaps killed at once, what waits is applied only if an operator says so.
    for _ in 0..1 + random.below(3) {
        disk.kill();
        let (gate, _store) = first(world).await;
        if random.below(2) == 0 {
            runtime.sleep(Duration::from_micros(random.below(3_000_000))).await;
        }
        is_untouched(&database, "by a start").await;
        let refused = refused.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let kept = tickets(&gate).into_iter().find(|ticket| refused.contains(&ticket.value));
        expect(kept.is_none(), "what was answered as not applied is not kept", || {
            format!("ticket {:?}", kept.map(|kept| kept.number))
        });
        expect(waiting == 0 || gate.state().suspended.is_some(), "a start waits for an operator", || {
            format!("{:?}", gate.state())
        });
    }
    match random.below(2) == 0 {
        true => resumes(world, waiting).await,
        false => decides(world, random).await,
    }
    waiting > 0
}

/// The operator lets all of it go.
async fn resumes(world: World<'_>, waiting: usize) {
    let (runtime, _, _, disk) = world;
    disk.kill();
    let (gate, _store) = first(world).await;
    let resumed = gate.resume().await.is_ok();
    expect(resumed == (waiting > 0), "it is suspended where something waits", || format!("{:?}", gate.state()));
    // What he was told stands, whatever comes then.
    drop((gate, _store));
    disk.kill();
    let (gate, _store) = first(world).await;
    runtime.sleep(NOTICED).await;
    let left = gate.state().amount.transactions;
    expect(left == 0, "an operator's word is enough", || format!("{:?}", gate.state()));
}

/// The operator decides about each ticket, in any order, and the process is killed in the middle. What was not decided
/// stays, what is applied of a document is the beginning of its queue, and with the last ticket all is as ever.
async fn decides(world: World<'_>, mut random: SplitMix) {
    let (runtime, database, network, disk) = world;
    disk.kill();
    let (mut gate, mut store) = first(world).await;
    let mut waiting = tickets(&gate);
    // By document the last ticket that the database has, and its value.
    let mut applied: BTreeMap<Key, (u64, Value)> =
        (0..CLIENTS).map(|number| (key(number), (0, Value::bytes(*b"second")))).collect();
    while !waiting.is_empty() {
        expect(gate.state().suspended.is_some(), "what waits waits for the operator", || format!("{:?}", gate.state()));
        let Ticket { number, keys, value } = waiting.swap_remove(random.below(waiting.len() as u64) as usize);
        let ahead =
            waiting.iter().any(|other| other.number < number && other.keys.iter().any(|key| keys.contains(key)));
        let drops = random.below(3) == 0;
        let done = match drops {
            true => {
                // What can't be given up waits as before.
                network.cut.store(random.below(4) == 0, Ordering::SeqCst);
                let gone = gate.give_up(number, "drill").await;
                network.cut.store(false, Ordering::SeqCst);
                matches!(gone, Ok(GivenUp::Dropped))
            }
            false => {
                let ordered = gate.apply(number).await;
                expect(ordered.is_ok() || ahead, "the first of its documents is applied", || format!("{ordered:?}"));
                ordered.is_ok()
            }
        };
        if done && !drops && random.below(4) > 0 {
            let told = gate.wait_for(number, NOTICED).await;
            expect(matches!(told, TicketState::Applied(_)), "what is applied alone is applied", || format!("{told:?}"));
        } else if random.below(3) == 0 {
            runtime.sleep(Duration::from_micros(random.below(1_500))).await;
            disk.kill();
            drop((gate, store));
            (gate, store) = first(world).await;
            if done && !drops {
                runtime.sleep(NOTICED).await;
                let left = tickets(&gate).iter().any(|ticket| ticket.number == number);
                expect(!left, "what an operator was answered stands", || format!("ticket {number} waits again"));
            }
        } else if done && !drops {
            runtime.sleep(NOTICED).await;
        }
        let is_there = database.value(&keys[0]).await.as_ref() == Some(&value);
        if is_there {
            for key in &keys {
                let before = applied.insert(key.clone(), (number, value.clone()));
                expect(before.is_some_and(|(before, _)| before <= number), "what is applied begins its queue", || {
                    format!("{number} behind a later one of {key}")
                });
            }
        }
        for (key, (last, expected)) in &applied {
            let found = database.value(key).await;
            expect(found.as_ref() == Some(expected), "what was not decided stays", || {
                format!("{key} has {found:?} in place of {last} behind {number}")
            });
        }
        waiting = tickets(&gate);
    }
    let state = gate.state();
    let calm = state.suspended.is_none() && state.mode == Mode::Normal;
    expect(calm, "with the last ticket all is as ever", || format!("{state:?}"));
    let mint = Mint::behind(Version { incarnation: gate.incarnation(), sequence: 1_000_000 });
    let outcome = gate.commit(&[put(&mint, &[key(0)], "third")]).await.pop();
    expect(outcome.as_ref().is_some_and(CommitOutcome::is_applied), "it takes writes", || format!("{outcome:?}"));
    drop(store);
}

#[test]
fn two_owners_of_one_database() {
    let seeds = if std::env::var_os("FOREBAY_NIGHTLY").is_some() { 5_000 } else { 300 };
    let waited = (0..seeds).filter(|seed| run(*seed)).count();
    assert!(waited > 0, "nothing was buffered in any run");
}

/// Each rule left out is noticed.
#[test]
fn the_gate_of_owners() {
    finds(&[Fault::OrderForgotten, Fault::ResumeForgotten].map(|fault| (fault, SEEDS_OF_FAULTS)), run);
    let faults = [Fault::FencedOwnerWrites, Fault::OwnerNotLookedAt, Fault::AppliedOutOfTurn, Fault::RefusedStaysKept];
    finds(&faults.map(|fault| (fault, SEEDS_OF_FAULTS)), run);
    finds(&[(Fault::KeptDenied, 10 * SEEDS_OF_FAULTS)], run);
}
