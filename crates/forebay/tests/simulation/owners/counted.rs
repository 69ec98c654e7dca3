//! Both owners add to one document, and what the first one adds waits. The first starts again behind its engine, before
//! or after it reaches the database. Once it knows that another was there, it shows what that one wrote with what waits
//! on top. What is committed then, and by a transaction that began before, loses nothing of either.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use forebay::cache::{CacheOptions, Context};
use forebay::change::Change;
use forebay::key::KeyRef;
use forebay::mutation::Fault;
use forebay::outage::Gate;
use forebay::outage::lossy::Lossy;
use forebay::policy::choose;
use forebay::runtime::Runtime;
use forebay::runtime::simulated::SplitMix;
use forebay::store::late::{Catalogue, Late, NotOpened};
use forebay::store::suite::write;
use forebay::store::{Caps, Commit, CommitOutcome, Form, Store};
use forebay::txn::{Ahead, Engine, EngineOptions, Mode, PlannedLock, Transaction, TxnKind};
use forebay::version::{Mint, OwnerId};
use forebay::{Data, Key, TxnId, Value, Version};
use futures_util::future::BoxFuture;

use super::database::Database;
use super::{NOTICED, SEEDS_OF_FAULTS, World, first, start, to_its_end};
use crate::book::{broken, expect};
use crate::gate::finds;

/// What the owners add.
const FIRST: i64 = 5;
const SECOND: i64 = 100;

/// Within which what was shown before is not shown any more.
const SOON: Duration = Duration::from_millis(1);

/// What the database can do.
const CAPS: Caps = Caps { ordered: false, owned: true, applies: true };

fn counter() -> Key {
    Key::new(0, b"counter")
}

fn number(of: i64) -> Value {
    Value::bytes(of.to_string().as_bytes())
}

fn shown(value: Option<&Value>) -> i64 {
    let text = match value.map(|value| &value.data) {
        None => return 0,
        Some(Data::Bytes(bytes)) => String::from_utf8(bytes.joined().to_vec()).ok(),
        Some(_) => None,
    };
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| broken("values", format!("{value:?} is no number")))
}

fn add(mint: &Mint, before: i64, delta: i64) -> Commit {
    let write = write(&counter(), Some(&number(before)), vec![Change::AddInteger { field: None, delta }]);
    Commit::new(TxnId(mint.next()), mint.next(), vec![write])
}

/// The generic table, as it is known before it is reached.
struct Documents;

impl Catalogue for Documents {
    fn has_documents(&self) -> bool {
        true
    }

    fn owns(&self, _key: &Key) -> bool {
        true
    }

    fn lane(&self, _key: &Key) -> Option<u32> {
        None
    }

    fn references(&self, _key: &Key, _changes: &[Change]) -> Vec<Key> {
        Vec::new()
    }

    fn refuses(&self, _commit: &Commit) -> Option<String> {
        None
    }

    fn form(&self, _key: &Key) -> Form {
        Form::Document
    }

    fn beside(&self, _key: &Key) -> Vec<Key> {
        Vec::new()
    }

    fn text_of(&self, _key: KeyRef<'_>, _value: &Value) -> Option<Vec<u8>> {
        None
    }

    fn changes_of_text(&self, _key: KeyRef<'_>, _text: &[u8]) -> Option<Result<Vec<Change>, String>> {
        None
    }

    fn as_stored(&self, _key: KeyRef<'_>, change: Change) -> Change {
        change
    }
}

/// The first owner, which reaches its database when the network lets it.
async fn first_late(world: World<'_>) -> Gate {
    let (runtime, database, network, _) = world;
    let (caps, runtime, database, network) = (CAPS, runtime.clone(), database.clone(), network.clone());
    let open = move |owner: OwnerId, noted: u64| -> Arc<dyn Store> {
        let open = move || -> BoxFuture<'static, Result<Arc<dyn Store>, NotOpened>> {
            let (runtime, database, network) = (runtime.clone(), database.clone(), network.clone());
            Box::pin(async move {
                runtime.sleep(Duration::from_micros(runtime.random() % 400)).await;
                match network.cut.load(Ordering::SeqCst) {
                    true => Err(NotOpened::Unreachable("the network is cut".to_owned())),
                    false => Ok(database.open(&runtime, &network, owner.0, noted) as Arc<dyn Store>),
                }
            })
        };
        Arc::new(Late::new(caps, "contested".to_owned(), "cut".to_owned(), Box::new(open), Box::new(Documents)))
    };
    start(world, open, true).await
}

/// The first owner with an engine before it.
struct Front {
    gate: Gate,
    engine: Engine,
}

impl Front {
    async fn start(world: World<'_>, late: bool) -> Front {
        let gate = if late { first_late(world).await } else { first(world).await.0 };
        let policy = choose("lru").unwrap_or_else(|why| broken("policies", why.to_string())).policy;
        let cache = CacheOptions { budget_bytes: 1 << 16, partitions: 1, policy, policy_values: Vec::new() };
        let engine = Engine::new(EngineOptions::new(world.0.clone(), Arc::new(gate.clone()), cache));
        engine.start_watching();
        Front { gate, engine }
    }

    fn is_suspended(&self) -> bool {
        self.gate.state().suspended.is_some()
    }

    /// Reads the counter in `transaction`, for writing.
    async fn read_in(transaction: &mut Transaction) -> Option<i64> {
        let lock = PlannedLock { key: counter(), mode: Mode::Exclusive, load: true };
        transaction.prepare_command(&[lock], &mut Ahead::default()).await.ok()?;
        Some(shown(transaction.documents().value(counter().borrow()).ok()?))
    }

    /// Adds one to what it reads, and commits when `thought` is done; whether that was acknowledged.
    async fn add(&self, thought: impl Future<Output = ()>) -> bool {
        let mut transaction = self.engine.begin(TxnKind::Interactive, Context::default());
        let Some(read) = Front::read_in(&mut transaction).await else { return false };
        thought.await;
        transaction.documents_mut().change(counter().borrow(), Change::Put(number(read + 1))).ok();
        let Ok(committing) = transaction.commit().await else { return false };
        committing.wait().await.is_ok()
    }

    /// What is shown, if anything is. One that finds the store reopened is run again.
    async fn read(&self) -> Option<i64> {
        match self.read_once().await {
            Some(read) => Some(read),
            None => self.read_once().await,
        }
    }

    /// Likewise, from the cache where that has it.
    async fn read_once(&self) -> Option<i64> {
        let key = counter();
        if let Some(documents) = self.engine.read_published(&[key.borrow()], &Context::default()) {
            return documents.value(key.borrow()).ok().map(shown);
        }
        let mut transaction = self.engine.begin(TxnKind::Interactive, Context::default());
        let lock = PlannedLock { key: key.clone(), mode: Mode::Shared, load: true };
        transaction.prepare_command(&[lock], &mut Ahead::default()).await.ok()?;
        let read = shown(transaction.documents().value(key.borrow()).ok()?);
        transaction.commit().await.ok()?.wait().await.ok()?;
        Some(read)
    }
}

/// Of the counter, as it is shown.
async fn version(gate: &Gate) -> Option<Version> {
    let read = gate.get(&[counter()]).await.ok().and_then(|mut reads| reads.pop());
    read.map(|read| read.version)
}

/// Who has read the counter under one of these versions, before the second owner's write was known, has not read it as
/// it is.
async fn is_stale(gate: &Gate, before: &[Version], what: &str) {
    for version in before {
        let stale = gate.check(&[(counter(), *version)]).await;
        expect(stale.as_ref().is_ok_and(|stale| *stale == [counter()]), "a version is of one document", || {
            format!("{what}: {version}: {stale:?}")
        });
    }
}

/// The counter's version does not go back in one incarnation. What was applied before a start may turn out to have an
/// earlier one: then the store says under which version it was.
async fn rises(gate: &Gate, newest: &mut Option<Version>) {
    let version = version(gate).await;
    let goes_back = |(now, before): (Version, Version)| now.incarnation == before.incarnation && now < before;
    expect(!version.zip(*newest).is_some_and(goes_back), "versions of a document rise", || {
        format!("{version:?} after {newest:?}")
    });
    *newest = version.or(*newest);
}

/// What waits when the first owner starts again: the second one has written since. The version under which the first
/// one has shown it.
async fn both_add((runtime, database, network, disk): World<'_>) -> Option<Version> {
    let world = (runtime, database, network, disk);
    let (gate, store) = first(world).await;
    let mint = Mint::behind(Version { incarnation: gate.incarnation(), sequence: 1_000 });
    let put = Commit::new(TxnId(mint.next()), mint.next(), vec![write(&counter(), None, vec![Change::Put(number(0))])]);
    let outcome = gate.commit(&[put]).await.pop();
    expect(outcome.as_ref().is_some_and(CommitOutcome::is_applied), "it takes writes", || format!("{outcome:?}"));
    network.cut.store(true, Ordering::SeqCst);
    // The first may be refused, which says that the database is away.
    let mut outcome = None;
    for _ in 0..8 {
        outcome = gate.commit(&[add(&mint, 0, FIRST)]).await.pop();
        if matches!(outcome, Some(CommitOutcome::Buffered(_))) {
            break;
        }
    }
    let kept = matches!(outcome, Some(CommitOutcome::Buffered(_))) && gate.state().amount.transactions == 1;
    expect(kept, "what can't be sent is kept", || format!("{outcome:?} {:?}", gate.state()));
    let before = version(&gate).await;
    let second = database.open(runtime, &Arc::default(), 2, 0);
    let outcome = second.commit(&[add(&Mint::new(second.incarnation()), 0, SECOND)]).await.pop();
    expect(outcome.as_ref().is_some_and(CommitOutcome::is_applied), "the second owner writes", || {
        format!("{outcome:?}")
    });
    disk.kill();
    drop((gate, store));
    before
}

/// One run. Nothing is left waiting in the end, and the sum is in the database.
async fn two_add(runtime: Runtime, mut random: SplitMix) {
    let (database, network, disk) = (Database::new(), Arc::default(), Lossy::new());
    let world = (&runtime, &database, &network, &disk);
    let mut before: Vec<Version> = both_add(world).await.into_iter().collect();
    let late = random.below(2) == 0;
    network.cut.store(late, Ordering::SeqCst);
    let mut front = Front::start(world, late).await;
    let mut sum = FIRST + SECOND;
    if late {
        let read = front.read().await;
        expect(read == Some(FIRST), "without the database the journal is shown", || format!("{read:?}"));
        before.extend(version(&front.gate).await);
        let found = async {
            network.cut.store(false, Ordering::SeqCst);
            while !front.is_suspended() {
                runtime.sleep(Duration::from_micros(20)).await;
            }
        };
        match random.below(2) == 0 {
            true => sum += i64::from(front.add(found).await),
            false => found.await,
        }
        runtime.sleep(SOON).await;
    }
    is_stale(&front.gate, &before, "suspended").await;
    let mut newest = None;
    for _ in 0..1 + random.below(4) {
        runtime.sleep(Duration::from_micros(random.below(5_000))).await;
        let read = front.read().await;
        expect(read == Some(sum), "what another owner wrote is in what is shown", || format!("{read:?}, not {sum}"));
        sum += i64::from(random.below(3) == 0 && front.add(runtime.sleep(SOON)).await);
        rises(&front.gate, &mut newest).await;
    }
    let cut = random.below(2) == 0;
    network.cut.store(cut, Ordering::SeqCst);
    let resumed = front.gate.resume().await;
    expect(resumed.is_ok(), "an operator says so", || format!("{resumed:?}"));
    if cut {
        disk.kill();
        drop(front);
        (front, newest) = (Front::start(world, true).await, None);
    }
    for turn in 0..20 {
        let read = front.read().await;
        expect(read.is_none_or(|read| read == sum), "what is resumed is on top of what another owner wrote", || {
            format!("{read:?}, not {sum}")
        });
        runtime.sleep(Duration::from_micros(random.below(2_000))).await;
        if turn == 5 {
            network.cut.store(false, Ordering::SeqCst);
        }
        sum += i64::from(random.below(4) == 0 && front.add(runtime.sleep(SOON)).await);
        rises(&front.gate, &mut newest).await;
    }
    runtime.sleep(NOTICED).await;
    is_stale(&front.gate, &before, "applied").await;
    let (read, state) = (front.read().await, front.gate.state());
    let stored = shown(database.value(&counter()).await.as_ref());
    expect(read == Some(sum) && stored == sum && state.amount.transactions == 0, "all is applied", || {
        format!("{read:?} is read and {stored} stored, not {sum}: {state:?}")
    });
}

#[test]
fn two_owners_that_add_to_one_document() {
    let seeds = if std::env::var_os("FOREBAY_NIGHTLY").is_some() { 10_000 } else { 500 };
    (0..seeds).for_each(|seed| to_its_end(seed, two_add));
}

/// Each rule left out is noticed.
#[test]
fn the_gate_of_owners_that_add() {
    let faults = [
        Fault::FoundTakenForKnown,
        Fault::ResumedTakenForKnown,
        Fault::WrittenToAnotherState,
        Fault::CachedOfAnotherState,
        Fault::VersionKeptForAnotherState,
        Fault::MintedBelowRenamed,
    ];
    finds(&faults.map(|fault| (fault, SEEDS_OF_FAULTS)), |seed| to_its_end(seed, two_add));
}
