//! The two documents, and clients that write to them as transactions do: under locks, from what they have read.

use std::sync::{Arc, Mutex};

use forebay::change::{Changes, apply_all};
use forebay::outage::Gate;
use forebay::store::{Commit, CommitOutcome, Outside, Resolved, Store, Write};
use forebay::{Change, Data, Key, Read, TxnId, Value, Version};
use futures_channel::oneshot;

use crate::book::{Book, Told};

/// A list; each write adds its name at the end.
pub fn parents() -> Key {
    Key::new(0, b"a")
}

/// A hash; each write adds 1 to the field of its name.
pub fn children() -> Key {
    Key::new(0, b"b")
}

/// A client that writes once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// What it adds.
    pub name: &'static str,
    /// To the list.
    pub a: bool,
    /// To the hash.
    pub b: bool,
    /// It has read the hash, whether it writes it or not.
    pub reads_b: bool,
    /// It writes what it does not know, if it can't be read.
    pub blind: bool,
    /// It deletes the hash and makes it again with what it held.
    pub remakes: bool,
}

pub fn key_of(document: usize) -> Key {
    if document == 0 { parents() } else { children() }
}

/// What a document shows: the list's elements in order, the hash's fields as often as they count.
pub fn counts(value: Option<&Value>) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match value.map(|value| &value.data) {
        None => Vec::new(),
        Some(Data::List(list)) => list.iter().map(|element| text(element)).collect(),
        Some(Data::Hash(hash)) => {
            let times = |(field, count): (&forebay::Blob, &forebay::Blob)| {
                std::iter::repeat_n(text(field), text(count).parse().expect("fields are small numbers"))
            };
            hash.iter().flat_map(times).collect()
        }
        Some(other) => panic!("a document became {other:?}"),
    }
}

impl Client {
    pub fn documents(&self) -> impl Iterator<Item = usize> {
        [(0, self.a), (1, self.b)].into_iter().filter(|(_, writes)| *writes).map(|(document, _)| document)
    }

    pub fn locks(&self) -> impl Iterator<Item = usize> {
        [(0, self.a), (1, self.b || self.reads_b)].into_iter().filter(|(_, locks)| *locks).map(|(at, _)| at)
    }

    /// What it does to a document that holds `value`.
    fn changes(&self, document: usize, value: Option<&Value>) -> Changes {
        let mut changes = Changes::new();
        if let (1, true, Some(Value { data: Data::Hash(hash), .. })) = (document, self.remakes, value) {
            changes.push(Change::Delete);
            changes.extend(hash.iter().map(|(field, count)| Change::SetField(field.clone(), count.clone())));
        }
        changes.push(self.change(document));
        changes
    }

    pub fn change(&self, document: usize) -> Change {
        let name: forebay::Blob = self.name.as_bytes().into();
        match document {
            0 => Change::Push(forebay::change::End::Right, name),
            _ => Change::AddInteger { field: Some(name), delta: 1 },
        }
    }
}

/// What the gate says may be out of date is dropped from the cache. What is doubtful too: to compare it is the engine's
/// work, of which the simulation knows.
pub async fn forget(gate: Gate, book: Arc<Mutex<Book>>) {
    while let Some(outside) = gate.outside().await {
        let mut book = book.lock().unwrap();
        for document in [0, 1] {
            let key = key_of(document);
            let cached = &mut book.cached[document];
            match &outside {
                Outside::Keys(keys) | Outside::Applied(keys) if !keys.contains(&key) => {}
                Outside::Synced(_) => {}
                Outside::Keys(_)
                | Outside::Applied(_)
                | Outside::Everything
                | Outside::OutOfSight
                | Outside::Doubtful => *cached = None,
                Outside::Restamped(documents) => {
                    for (_, shown, stored) in documents.iter().filter(|(named, ..)| *named == key) {
                        match cached {
                            Some(read) if read.version == *shown => read.version = *stored,
                            _ => {}
                        }
                    }
                }
            }
        }
    }
}

/// One client's transaction, from its locks on.
pub async fn work(gate: Gate, book: Arc<Mutex<Book>>, at: usize, client: Client, owned: bool) {
    let told = write(&gate, &book, at, client, owned).await;
    book.lock().unwrap().told[at] = told;
}

async fn write(gate: &Gate, book: &Mutex<Book>, at: usize, client: Client, owned: bool) -> Told {
    let mut reads = Vec::new();
    for document in client.locks() {
        let cached = book.lock().unwrap().cached[document].clone();
        let read = match cached {
            Some(read) => Some(read),
            None => match gate.get(&[key_of(document)]).await {
                Ok(mut read) => Some(read.remove(0)),
                // It needs no reply, and changes what it does not know.
                Err(_) if client.blind && !owned => None,
                Err(_) => return Told::Failed,
            },
        };
        book.lock().unwrap().cached[document] = read.clone();
        reads.push((document, read));
    }
    let version = {
        let mut book = book.lock().unwrap();
        book.minted += 1;
        Version { incarnation: gate.incarnation(), sequence: book.minted }
    };
    if client.reads_b && !client.b {
        let read = reads.iter().find(|(document, _)| *document == 1);
        book.lock().unwrap().read_b[at] = read.and_then(|(_, read)| Some(read.as_ref()?.value.clone()));
    }
    let mut commit = Commit::new(TxnId(version), version, Vec::new());
    for (document, read) in reads {
        let key = key_of(document);
        let unseen = read.is_none();
        if let Some(read) = read.as_ref().filter(|_| !owned) {
            commit.checks.push((key.clone(), read.version));
        }
        if client.documents().any(|written| written == document) {
            let mut after = read.and_then(|read| read.value);
            let changes = client.changes(document, after.as_ref());
            if apply_all(&mut after, &changes).is_err() {
                return Told::Failed;
            }
            commit.writes.push(Write { key, changes, after, unseen, told: false });
        }
    }
    book.lock().unwrap().ids[at] = Some(commit.id);
    let outcome = gate.commit(std::slice::from_ref(&commit)).await.remove(0);
    settle(gate, book, at, client, commit, outcome).await
}

async fn settle(
    gate: &Gate,
    book: &Mutex<Book>,
    at: usize,
    client: Client,
    commit: Commit,
    outcome: CommitOutcome,
) -> Told {
    let set = |reads: Vec<(Key, Read)>| {
        let mut book = book.lock().unwrap();
        for (key, read) in reads {
            let document = usize::from(key == children());
            book.cached[document] = Some(read);
        }
    };
    let forget = || client.locks().for_each(|document| book.lock().unwrap().cached[document] = None);
    let written = |write: &Write| (write.key.clone(), Read { value: write.after.clone(), version: commit.version });
    match outcome {
        CommitOutcome::Committed(told) => {
            set(commit.writes.iter().filter(|write| !write.unseen).map(written).collect());
            set(told);
            Told::Acknowledged
        }
        CommitOutcome::Repeated(since) => {
            forget();
            set(since.into_iter().map(|since| (since.key, since.read)).collect());
            Told::Acknowledged
        }
        CommitOutcome::Buffered(kept) => {
            book.lock().unwrap().tickets[at] = Some(kept.ticket);
            set(kept.reads);
            Told::Acknowledged
        }
        CommitOutcome::Unknown(_) => loop {
            let (sender, asked) = oneshot::channel();
            {
                let mut book = book.lock().unwrap();
                (book.told[at], book.asks[at]) = (Told::InDoubt, Some(sender));
            }
            let _ = asked.await;
            match gate.outcome(commit.id).await {
                Ok(resolved) => {
                    forget();
                    break if resolved == Resolved::Applied { Told::Acknowledged } else { Told::Failed };
                }
                Err(_) => continue,
            }
        },
        CommitOutcome::Full(_) => {
            book.lock().unwrap().full += 1;
            Told::Failed
        }
        CommitOutcome::Conflict(_) => {
            forget();
            Told::Failed
        }
        CommitOutcome::Refused(_) | CommitOutcome::Failed(_) | CommitOutcome::Unavailable(_) => Told::Failed,
    }
}
