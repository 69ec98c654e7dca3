//! A table whose rows are several documents each: two records that name different columns of a row, and a list in one
//! more. It stands in for a driver, and refuses what a driver refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay::change::{Change, apply_all};
use forebay::store::forms::{OnDelete, RowForm};
use forebay::store::memory::Memory;
use forebay::store::{Caps, Commit, CommitOutcome, Form, Outside, ReadError, Store, Write, forms};
use forebay::{Blob, Data, Key, Read, TxnId, Value};
use futures_util::future::BoxFuture;
use futures_util::lock::Mutex as AsyncMutex;

use crate::book::broken;

pub(super) const ROWS: usize = 3;

/// What shares a row: two records, then a list.
pub(super) const DOCUMENTS: [&str; 3] = ["left", "right", "list"];
pub(super) const LIST: usize = 2;

/// A document: its row, and which of that.
pub(super) type Place = (usize, usize);

pub(super) fn key((row, document): Place) -> Key {
    Key::new(0, format!("{}:{row}", DOCUMENTS[document]).as_bytes())
}

pub(super) fn place(key: &Key) -> Place {
    let name = String::from_utf8_lossy(key.name()).into_owned();
    let found = name
        .split_once(':')
        .and_then(|(document, row)| Some((row.parse().ok()?, DOCUMENTS.iter().position(|name| *name == document)?)));
    found.unwrap_or_else(|| broken("rows", format!("{name} is in none")))
}

pub(super) fn blob(text: &str) -> Blob {
    Blob::from(text.as_bytes())
}

/// Whether the list of a new row has an element, if none is given.
fn is_filled(row: usize) -> bool {
    row % 2 == 1
}

fn form((row, document): Place) -> Form {
    match document {
        LIST => Form::List { filled: is_filled(row) },
        _ => {
            let key = [(blob("id"), blob(&row.to_string()))].into_iter().collect();
            Form::Row(RowForm { key, on_delete: OnDelete::Row, ..RowForm::default() })
        }
    }
}

/// One row, or none; a list without elements is no document.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    filled: bool,
    pub(super) there: bool,
    columns: BTreeMap<(usize, Blob), Blob>,
    list: Option<Value>,
}

impl Row {
    /// The row of this number, which is not there.
    pub(super) fn new(row: usize) -> Row {
        Row { filled: is_filled(row), ..Row::default() }
    }

    pub(super) fn apply(&mut self, document: usize, changes: &[Change]) {
        for change in changes {
            let makes = !matches!(change, Change::Delete | Change::UnsetField(_) | Change::Pop(_));
            let is_new = !self.there && makes && !matches!(change, Change::RemoveEqual { .. });
            self.there |= is_new;
            if is_new && self.filled && document != LIST {
                let list = Data::List([blob("0")].into_iter().collect());
                self.list = Some(Value { data: list, expires_at_ms: None });
            }
            match change {
                _ if document == LIST => {
                    let applied = apply_all(&mut self.list, std::slice::from_ref(change));
                    applied.unwrap_or_else(|error| broken("values", error.to_string()));
                }
                Change::Delete => *self = Row { filled: self.filled, ..Row::default() },
                Change::SetField(field, _) if **field == *b"id" => {}
                Change::SetField(field, value) => drop(self.columns.insert((document, field.clone()), value.clone())),
                Change::UnsetField(field) => drop(self.columns.remove(&(document, field.clone()))),
                Change::AddInteger { field: Some(field), delta } => {
                    let column = (document, field.clone());
                    let number = |value: &Blob| std::str::from_utf8(value).ok()?.parse::<i64>().ok();
                    let before = self.columns.get(&column).and_then(number).unwrap_or(0);
                    self.columns.insert(column, blob(&(before + delta).to_string()));
                }
                other => broken("values", format!("no record takes {other:?}")),
            }
        }
    }

    pub(super) fn read(&self, (row, document): Place) -> Option<Value> {
        if document == LIST {
            return self.list.clone();
        }
        let columns = self.columns.iter().filter(|((of, _), _)| *of == document);
        let set = columns.map(|((_, column), value)| Change::SetField(column.clone(), value.clone()));
        let made = [Change::SetField(blob("id"), blob(&row.to_string()))].into_iter().chain(set);
        let (mut value, made) = (None, made.collect::<Vec<_>>());
        let applied = if self.there { apply_all(&mut value, &made) } else { Ok(()) };
        applied.unwrap_or_else(|error| broken("values", error.to_string()));
        value
    }
}

/// The table, whose documents are read from `memory`: those of a row have one version.
pub(super) struct Table {
    memory: Memory,
    rows: Mutex<(Vec<Row>, BTreeSet<TxnId>)>,
    watched: AsyncMutex<bool>,
    incarnation: AtomicU64,
    /// It refuses one of so many transactions; 0: none.
    refuses: AtomicU64,
    mended: AtomicBool,
    refused: Mutex<BTreeSet<TxnId>>,
}

impl Default for Table {
    fn default() -> Table {
        let rows = Mutex::new(((0..ROWS).map(Row::new).collect(), BTreeSet::new()));
        let (incarnation, refuses, mended) = (AtomicU64::new(1), AtomicU64::new(0), AtomicBool::new(false));
        let (memory, watched, refused) = (Memory::new(), AsyncMutex::new(false), Mutex::default());
        Table { memory, rows, watched, incarnation, refuses, mended, refused }
    }
}

impl Table {
    /// It is opened once more.
    pub(super) fn open_again(&self) {
        self.incarnation.fetch_add(1, Ordering::SeqCst);
    }

    /// From now on it refuses one of `refuses` transactions; 0: none.
    pub(super) fn refuse(&self, refuses: u64) {
        self.refuses.store(refuses, Ordering::SeqCst);
    }

    /// It refuses none any more.
    pub(super) fn mend(&self) {
        self.mended.store(true, Ordering::SeqCst);
    }

    /// Whether it has refused this one before.
    pub(super) fn has_refused(&self, id: TxnId) -> bool {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }

    pub(super) fn row(&self, row: usize) -> Row {
        self.rows().0[row].clone()
    }

    fn rows(&self) -> MutexGuard<'_, (Vec<Row>, BTreeSet<TxnId>)> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn apply(&self, commit: &Commit) -> CommitOutcome {
        if self.rows().1.contains(&commit.id) {
            return CommitOutcome::Repeated(Vec::new());
        }
        let (drawn, refuses) = (drawn(commit.id), self.refuses.load(Ordering::SeqCst));
        if refuses > 0 && !self.mended.load(Ordering::SeqCst) && drawn.is_multiple_of(refuses) {
            self.refused.lock().unwrap_or_else(PoisonError::into_inner).insert(commit.id);
            // Or it fails at it, which may pass.
            return match (drawn / refuses).is_multiple_of(3) {
                true => CommitOutcome::Failed("an internal error".into()),
                false => CommitOutcome::Refused("a constraint".into()),
            };
        }
        if let Some(key) = forms::untaken(commit, |key| form(place(key))) {
            return CommitOutcome::Refused(format!("{key:?} is not taken"));
        }
        let (mut rows, mut touched) = (self.rows().0.clone(), BTreeSet::new());
        for write in &commit.writes {
            let (row, document) = place(&write.key);
            rows[row].apply(document, &write.changes);
            touched.insert(row);
        }
        let read = |key: &Key| Read { value: rows[place(key).0].read(place(key)), version: commit.version };
        let differs = |write: &&Write| write.unseen || read(&write.key).value != write.after;
        let changed = commit.writes.iter().filter(differs).map(|write| (write.key.clone(), read(&write.key)));
        let changed: Vec<(Key, Read)> = changed.collect();
        let all = touched.iter().flat_map(|row| (0..DOCUMENTS.len()).map(|document| key((*row, document))));
        let whole =
            |key: Key| Write { after: read(&key).value, key, changes: Default::default(), unseen: false, told: false };
        let made = Commit { writes: all.map(whole).collect(), ..commit.clone() };
        match self.memory.commit(std::slice::from_ref(&made)).await.pop() {
            Some(CommitOutcome::Committed(_)) => {
                let mut state = self.rows();
                state.0 = rows;
                state.1.insert(commit.id);
                CommitOutcome::Committed(changed)
            }
            Some(outcome) => outcome,
            None => broken("the store answers", "it does not"),
        }
    }
}

fn drawn(id: TxnId) -> u64 {
    id.0.sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

impl Store for Table {
    fn caps(&self) -> Caps {
        Caps { ordered: false, owned: false, applies: true }
    }

    fn name(&self) -> String {
        "table".to_owned()
    }

    fn incarnation(&self) -> u64 {
        self.incarnation.load(Ordering::SeqCst)
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        self.memory.get_within(keys, bytes_max)
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        Box::pin(async move {
            let mut outcomes: Vec<CommitOutcome> = Vec::new();
            for commit in group {
                outcomes.push(match outcomes.last().is_none_or(CommitOutcome::is_applied) {
                    true => self.apply(commit).await,
                    false => CommitOutcome::Unavailable("behind one that was not applied".into()),
                });
            }
            outcomes
        })
    }

    fn form(&self, key: &Key) -> Form {
        form(place(key))
    }

    fn beside(&self, key: &Key) -> Vec<Key> {
        let (row, own) = place(key);
        (0..DOCUMENTS.len()).filter(|document| *document != own).map(|document| self::key((row, document))).collect()
    }

    /// It is watched from the start on, and others write nothing.
    fn outside(&self) -> BoxFuture<'_, Option<Outside>> {
        Box::pin(async {
            if !std::mem::replace(&mut *self.watched.lock().await, true) {
                return Some(Outside::Everything);
            }
            std::future::pending().await
        })
    }

    forebay::rest_of_store!(memory);
}
