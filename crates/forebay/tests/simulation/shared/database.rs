//! The database of these runs. All its documents are counters.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay::change::apply_all;
use forebay::key::KeyRef;
use forebay::runtime::Runtime;
use forebay::store::memory::Memory;
use forebay::store::suite::write;
use forebay::store::{Caps, Commit, CommitOutcome, Outside, ReadError, ReadWithIds, Store, Write};
use forebay::{Change, Data, Key, Read, TxnId, Value, Version};
use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::lock::Mutex as AsyncMutex;

use crate::book::{broken, expect};

/// The incarnation under which others' ids are.
const OTHERS: u64 = 1 << 20;

pub struct Shared {
    runtime: Runtime,
    memory: Memory,
    /// It makes changes to what it holds by then, and tells all that came of them.
    applies: bool,
    /// It can tell which commits a document has in it.
    tells_ids: bool,
    /// When each write of a document came, one after the other: the n-th made it n.
    writes: Mutex<BTreeMap<Key, Vec<Duration>>>,
    /// The number of the newest version: each write has a greater one, whoever it is by.
    newest: AtomicU64,
    told: UnboundedSender<Outside>,
    telling: AsyncMutex<UnboundedReceiver<Outside>>,
    asked: AtomicU64,
}

impl Shared {
    /// One with nothing in it.
    pub fn new(runtime: &Runtime, applies: bool, tells_ids: bool) -> Shared {
        let (told, telling) = unbounded();
        Shared {
            runtime: runtime.clone(),
            memory: Memory::new(),
            applies,
            tells_ids,
            writes: Mutex::default(),
            newest: AtomicU64::new(0),
            told,
            telling: AsyncMutex::new(telling),
            asked: AtomicU64::new(0),
        }
    }

    pub fn writes(&self) -> MutexGuard<'_, BTreeMap<Key, Vec<Duration>>> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn takes(&self, us_max: u64) {
        self.runtime.sleep(Duration::from_micros(self.runtime.random() % us_max)).await;
    }

    /// One commit: what it writes is one more than what was there. It answers with what was written, mostly.
    async fn apply(&self, commit: &Commit) -> CommitOutcome {
        let sequence = commit.version.sequence.max(self.newest.load(Ordering::SeqCst) + 1);
        let mut commit = Commit { version: Version { incarnation: 1, sequence }, ..commit.clone() };
        if self.applies {
            self.make(&mut commit).await;
        }
        let outcome = self.memory.commit(std::slice::from_ref(&commit)).await.pop();
        let outcome = outcome.unwrap_or_else(|| broken("the store answers", "it does not"));
        if !outcome.is_applied() {
            return outcome;
        }
        self.newest.store(sequence, Ordering::SeqCst);
        let now = self.runtime.elapsed();
        for written in &commit.writes {
            let (number, mut writes) = (number(written.after.as_ref()), self.writes());
            let before = writes.entry(written.key.clone()).or_default();
            // Several of ours may have become one.
            let made = if self.applies { added(&written.changes) } else { 1 };
            before.extend(std::iter::repeat_n(now, made));
            expect(number == before.len(), "no write is lost", || {
                format!("{} is {number} by write {}", written.key, before.len())
            });
        }
        let read = |write: &Write| (write.key.clone(), Read { value: write.after.clone(), version: commit.version });
        let told = self.applies || !self.runtime.random().is_multiple_of(8);
        CommitOutcome::Committed(commit.writes.iter().filter(|_| told).map(read).collect())
    }

    /// What its changes make of what is there.
    async fn make(&self, commit: &mut Commit) {
        for write in &mut commit.writes {
            let reads = self.memory.get(std::slice::from_ref(&write.key)).await.unwrap_or_default();
            write.after = reads.into_iter().next().and_then(|read| read.value);
            let made = apply_all(&mut write.after, &write.changes);
            expect(made.is_ok(), "changes fit", || format!("{made:?}"));
            write.unseen = false;
        }
    }

    /// Another program adds one.
    pub async fn others_write(&self, key: &Key) {
        let next = self.number(key) + 1;
        let put = Change::Put(Value::bytes(next.to_string().into_bytes()));
        let sequence = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let id = TxnId(Version { incarnation: OTHERS, sequence });
        let commit = Commit::new(id, Version::ZERO, vec![write(key, None, vec![put])]);
        let outcome = self.apply(&commit).await;
        expect(outcome.is_applied(), "others write", || format!("{outcome:?}"));
        if is_watched(key.borrow()) {
            self.tell(Outside::Keys(vec![key.clone()]));
        }
    }

    fn tell(&self, news: Outside) {
        // Nobody listens any more at the end of a run.
        let _ = self.told.unbounded_send(news);
    }

    pub fn number(&self, key: &Key) -> usize {
        self.writes().get(key).map_or(0, Vec::len)
    }

    pub fn numbers(&self) -> BTreeMap<Key, usize> {
        self.writes().iter().map(|(key, writes)| (key.clone(), writes.len())).collect()
    }
}

pub fn is_watched(key: KeyRef<'_>) -> bool {
    key.name.starts_with(b"seen")
}

pub fn number(value: Option<&Value>) -> usize {
    match value.map(|value| &value.data) {
        None => 0,
        Some(Data::Bytes(text)) => {
            let parsed = std::str::from_utf8(&text.joined()).ok().and_then(|text| text.parse().ok());
            parsed.unwrap_or_else(|| broken("values", format!("{text:?} is no number")))
        }
        Some(other) => broken("values", format!("{other:?} is no number")),
    }
}

/// How many writes became these changes.
fn added(changes: &[Change]) -> usize {
    let of = |change: &Change| match change {
        Change::AddInteger { delta, .. } => *delta as usize,
        _ => 1,
    };
    changes.iter().map(of).sum()
}

impl Store for Shared {
    fn caps(&self) -> Caps {
        Caps { ordered: false, owned: false, applies: self.applies }
    }

    fn name(&self) -> String {
        "shared".to_owned()
    }

    fn incarnation(&self) -> u64 {
        1
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        Box::pin(async move {
            self.takes(400).await;
            let reads = self.memory.get_within(keys, bytes_max).await;
            self.takes(400).await;
            reads
        })
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        Box::pin(async move {
            self.takes(400).await;
            let mut outcomes: Vec<CommitOutcome> = Vec::new();
            for commit in group {
                outcomes.push(match outcomes.last().is_none_or(CommitOutcome::is_applied) {
                    true => self.apply(commit).await,
                    false => CommitOutcome::Unavailable("behind one that was not applied".into()),
                });
            }
            self.takes(3_000).await;
            outcomes
        })
    }

    fn check<'a>(&'a self, checks: &'a [(Key, Version)]) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        Box::pin(async move {
            self.takes(400).await;
            let overtaken = self.memory.check(checks).await;
            self.takes(400).await;
            overtaken
        })
    }

    fn outside(&self) -> BoxFuture<'_, Option<Outside>> {
        Box::pin(async {
            let news = self.telling.lock().await.next().await;
            self.takes(1_000).await;
            news
        })
    }

    fn sync(&self) -> Option<u64> {
        let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.tell(Outside::Synced(number));
        Some(number)
    }

    fn unwatched(&self) -> Vec<String> {
        vec!["unseen".to_owned()]
    }

    fn unwatched_place(&self, key: KeyRef<'_>) -> Option<usize> {
        (!is_watched(key)).then_some(0)
    }

    fn get_with_ids<'a>(
        &'a self,
        asked: &'a [(Key, Vec<TxnId>)],
    ) -> BoxFuture<'a, Result<Option<Vec<ReadWithIds>>, ReadError>> {
        match self.tells_ids {
            true => self.memory.get_with_ids(asked),
            false => Box::pin(std::future::ready(Ok(None))),
        }
    }

    forebay::rest_of_store!(memory but get_with_ids);
}
