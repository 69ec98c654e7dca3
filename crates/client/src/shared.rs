//! What all sessions of a client share: connections, copies and counts; and the messages that are sent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay::key::Key;
use forebay_protocol::Reply;

use crate::answer::{self, Executed, Outcome};
use crate::connection::Batch;
use crate::copies::Copies;
use crate::copy::{Copy, Span};
use crate::error::{CommitId, Error};
use crate::flights::Flights;
use crate::ground::Ground;
use crate::mutation::{Fault, on};
use crate::options::Options;
use crate::pool::{Failed, Pool};
use crate::reads::{Read, Reads};
use crate::statistics::Counts;
use crate::write::Write;

/// Keys of one LEASE GET: what the server takes unless it is told otherwise (`lease-keys-max`).
pub const KEYS_MAX: usize = 1024;

/// How often a message is sent that only reads.
const READ_TRIES: u32 = 3;

/// The shared part of a client.
pub struct Shared {
    pub options: Options,
    pub pool: Pool,
    pub copies: Copies,
    pub counts: Arc<Counts>,
    pub flights: Flights,
}

/// What a commit sends.
pub struct Commit<'t> {
    /// What was read.
    pub reads: &'t Reads,
    /// What is to be written.
    pub writes: &'t [Write],
    /// By which its outcome can be asked for; a transaction that only reads needs none.
    pub id: Option<CommitId>,
}

impl Shared {
    /// With options that were looked at.
    pub fn new(options: Options) -> Result<Shared, Error> {
        let counts = Arc::new(Counts::default());
        let copies = Copies::new(&options, counts.clone())?;
        Ok(Shared { pool: Pool::new(options.clone()), options, copies, counts, flights: Flights::default() })
    }

    /// Clock, timers and chance.
    pub fn ground(&self) -> &Ground {
        &self.options.ground
    }

    /// Waits before attempt `attempt`, from 0: not before the first, then longer each time, by chance.
    pub async fn pause(&self, attempt: u32) {
        if attempt > 0 {
            let most = Duration::from_micros(500 << attempt.min(7));
            self.ground().sleep(most.mul_f64(self.ground().fraction())).await;
        }
    }

    /// Fetches all of `keys` by one message, and keeps copies. It names `have` as well, [`KEYS_MAX`] at most. Of those
    /// that are current it gives back copies as of the answer, and of others what there is now.
    pub async fn fetch(&self, keys: &[Key], have: &[(Key, Arc<Copy>)]) -> Result<BTreeMap<Key, Arc<Copy>>, Error> {
        let first = keys.len().min(KEYS_MAX - have.len().min(KEYS_MAX));
        let (first, others) = keys.split_at(first);
        let requests = std::iter::once((first, have)).chain(others.chunks(KEYS_MAX).map(|keys| (keys, &[][..])));
        let requests: Vec<_> = requests.filter(|(keys, have)| keys.len() + have.len() > 0).collect();
        let mut batch = Batch::default();
        requests.iter().for_each(|(keys, have)| batch.add(&self.lease_get(keys, have)));
        let (replies, span) = self.ask_again(&batch).await?;
        let mut fetched = BTreeMap::new();
        for ((keys, have), reply) in requests.into_iter().zip(replies) {
            let asked = have.iter().map(|(key, _)| key).chain(keys);
            for (key, told) in asked.zip(answer::told(reply, have.len() + keys.len(), have)?) {
                self.copies.heard(span.asked, told.as_of);
                self.counts.missed.add((!told.is_same).into());
                fetched.insert(key.clone(), self.copies.take(key, told, span));
            }
        }
        Ok(fetched)
    }

    /// LEASE GET, with the versions of `have` in front of `keys`.
    fn lease_get(&self, keys: &[Key], have: &[(Key, Arc<Copy>)]) -> Vec<Vec<u8>> {
        let mut words = vec![b"LEASE".to_vec(), b"GET".to_vec(), (have.len() + keys.len()).to_string().into_bytes()];
        words.extend(have.iter().map(|(key, _)| key.name().to_vec()));
        words.extend(keys.iter().map(|key| key.name().to_vec()));
        // A copy that is named is looked at by the server as well: that is a hit there.
        let hits: Vec<u64> = keys.iter().map(|key| self.copies.take_hits(key)).collect();
        if hits.iter().any(|hits| *hits > 0) {
            words.push(b"HITS".to_vec());
            words.extend(have.iter().map(|_| b"0".to_vec()));
            words.extend(hits.iter().map(|hits| hits.to_string().into_bytes()));
        }
        if !have.is_empty() {
            words.push(b"HAVE".to_vec());
            words.extend(have.iter().map(|(_, copy)| answer::named(copy.version, copy.present).into_bytes()));
        }
        words
    }

    /// Sends what only reads, over another connection if one is lost.
    async fn ask_again(&self, batch: &Batch) -> Result<(Vec<Reply>, Span), Error> {
        let mut why = String::new();
        for attempt in 0..READ_TRIES {
            self.pause(attempt).await;
            let asked = self.ground().now();
            match self.pool.ask(batch).await {
                Ok(replies) => return Ok((replies, Span { asked, learned: self.ground().now() })),
                Err(Failed::Unsent(error)) => return Err(error),
                Err(Failed::Unanswered(text)) => why = text,
            }
            self.counts.lost_aborts.add(1);
        }
        Err(Error::Lost { address: self.pool.address().to_owned(), why })
    }

    /// Has what was read compared, and commits: one message. What only reads is sent again if its answer is lost.
    pub async fn commit(&self, commit: &Commit<'_>) -> Result<(Executed, Span), Error> {
        let batch = batch_of(commit);
        let asked = self.ground().now();
        let Some(id) = commit.id else {
            let (replies, span) = self.ask_again(&batch).await?;
            return Ok((last(replies, 0)?, span));
        };
        let unknown = |why| Err(Error::Unknown { id, why });
        match self.pool.ask(&batch).await {
            Ok(replies) => match last(replies, commit.writes.len()) {
                Ok(Executed::Unknown(why)) => unknown(why),
                // What it says is not known: it may say that it is done.
                Err(error) => unknown(error.to_string()),
                Ok(executed) => Ok((executed, Span { asked, learned: self.ground().now() })),
            },
            Err(Failed::Unsent(error)) => Err(error),
            Err(Failed::Unanswered(why)) if on(Fault::LostCommitRepeated) => {
                let id = Some(CommitId(id.0 ^ 1));
                Box::pin(self.commit(&Commit { id, ..*commit }))
                    .await
                    .map_err(|_| Error::Unknown { id: CommitId(0), why })
            }
            Err(Failed::Unanswered(why)) => unknown(why),
        }
    }

    /// Asks what became of a commit. It begins a transaction under the id, and ends it with its connection.
    pub async fn outcome(&self, id: CommitId) -> Result<Outcome, Error> {
        let mut batch = Batch::default();
        batch.add(&["TXN", "BEGIN", "ID", &id.to_string()]);
        match self.pool.ask_alone(&batch).await {
            Ok(replies) => answer::outcome(replies.first().unwrap_or(&Reply::Nil)),
            Err(Failed::Unsent(error)) => Err(error),
            Err(Failed::Unanswered(why)) => Err(Error::Lost { address: self.pool.address().to_owned(), why }),
        }
    }
}

/// LEASE CHECK, MULTI, the commands, EXEC.
fn batch_of(commit: &Commit<'_>) -> Batch {
    let mut batch = Batch::default();
    let mut check = vec![b"LEASE".to_vec(), b"CHECK".to_vec()];
    if let Some(id) = commit.id {
        check.extend([b"ID".to_vec(), id.to_string().into_bytes()]);
    }
    for Read { key, copy, .. } in commit.reads.iter() {
        check.extend([key.name().to_vec(), answer::named(copy.version, copy.present).into_bytes()]);
    }
    batch.add(&check);
    batch.add(&["MULTI"]);
    for write in commit.writes {
        batch.add(&write.words());
    }
    batch.add(&["EXEC"]);
    batch
}

/// What the EXEC behind all other replies says.
fn last(mut replies: Vec<Reply>, count: usize) -> Result<Executed, Error> {
    let exec = replies.pop().unwrap_or(Reply::Nil);
    answer::executed(&replies, exec, count)
}
