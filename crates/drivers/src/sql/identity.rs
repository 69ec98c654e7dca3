//! Which database this is and who we are to it. It knows the owner and the incarnation under which it was opened, and
//! the newest commits that were acknowledged. By these every new connection knows whether it reached that database in
//! that state. After a failover or a restored backup it may be an earlier one. Another forebay may have taken it over.
//!
//! **Who has taken it over** is told by ids, never by incarnations: a restored database has had other owners before
//! ours, and an incarnation of our own may be one that we have not heard of, since the answer to raising it was lost.
//! What was never there when we opened the database, and is not us, came since. That is final: the connection is
//! refused, and so is all else from then on ([`Identity::fence`]).
//!
//! One commit is not enough. What a restored database has is all up to some place in its log, and the answer to what
//! stands there last may not be the last answer that came: others, of commits before it, were on their way at the time,
//! one for each connection that writes. So one id is kept of each of as many transactions as there are such
//! connections.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use forebay::store::tombstones::Tombstones;
use forebay::tier::REMEMBERED_IDS_MAX;
use forebay::{Key, TxnId, Version};

use super::owners::Own;
use crate::options::Known;

/// The versions of absent documents beside rows have this bit: no commit's number gets so far. What an outage's journal
/// has of an absence is one in every later run, too.
const ABSENT: u64 = 1 << 61;

/// What a new connection found.
pub(crate) struct Found {
    pub(crate) incarnation: u64,
    /// None where it was never noted: by a forebay older than owners.
    pub(crate) owner: Option<Holder>,
    /// All of our newest acknowledged commits are there.
    pub(crate) there: bool,
}

/// The owner of now, as the database names it.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) owner: String,
    pub(crate) run: String,
    pub(crate) since: String,
    pub(crate) place: String,
}

/// What that means for who opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// It is as it was.
    Same,
    /// It is ours, in this later incarnation.
    Raised(u64),
    /// It was put back to an earlier state.
    Earlier,
}

/// What opening it has found.
pub(crate) struct Opening {
    /// As whom it was opened.
    pub(crate) own: Own,
    pub(crate) incarnation: u64,
    /// The runs of all owners before.
    pub(crate) earlier: Vec<String>,
    /// Other owners since it was opened last with the journal that is known.
    pub(crate) owned_since: Option<String>,
    /// It is in an earlier state than was known.
    pub(crate) went_back: bool,
}

/// Whose database it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Ours,
    /// One of those before us: it was put back to a state before ours.
    Earlier,
    /// Somebody's who came since.
    Others,
}

/// What the driver remembers of the database that it opened.
pub(crate) struct Identity {
    own: Own,
    /// The incarnation of the opening, and the runs of the owners that were known then.
    opened_in: u64,
    earlier: Vec<String>,
    /// Who came between the opening before and this one.
    owned_since: Option<String>,
    fenced: OnceLock<String>,
    incarnation: AtomicU64,
    /// What the names of our connections begin with.
    prefix: String,
    /// Oldest first.
    acknowledged: Mutex<VecDeque<TxnId>>,
    acknowledged_max: usize,
    /// It was opened in an earlier state than was known.
    went_back: bool,
    absent: Mutex<Tombstones>,
    /// Others write to the same database: what was read as absent may be checked by a later process.
    marks_absence: bool,
}

impl Identity {
    /// Of a database that was opened just now, as it was `known` to be or as it was before that, for so many who write
    /// at a time. Beside rows a document's absence is marked as such.
    pub(crate) fn new(opened: &Opening, known: &Known, writers: usize, marks_absence: bool) -> Identity {
        let acknowledged_max = writers.clamp(1, REMEMBERED_IDS_MAX);
        let known = if opened.went_back { &[][..] } else { &known.acknowledged };
        let known = &known[known.len().saturating_sub(acknowledged_max)..];
        let incarnation = opened.incarnation;
        Identity {
            own: opened.own.clone(),
            opened_in: incarnation,
            earlier: opened.earlier.clone(),
            owned_since: opened.owned_since.clone(),
            fenced: OnceLock::new(),
            incarnation: AtomicU64::new(incarnation),
            prefix: format!("forebay {incarnation}."),
            acknowledged: Mutex::new(known.iter().copied().collect()),
            acknowledged_max,
            went_back: opened.went_back,
            absent: Mutex::new(Tombstones::new(incarnation)),
            marks_absence,
        }
    }

    /// As whom it was opened.
    pub(crate) fn own(&self) -> &Own {
        &self.own
    }

    /// What our sessions are known by to the statements that commit.
    pub(crate) fn run(&self) -> &str {
        &self.own.run
    }

    /// Who owned it between the opening before and this one.
    pub(crate) fn owned_since(&self) -> Option<&str> {
        self.owned_since.as_deref()
    }

    /// Who has taken the database over.
    pub(crate) fn fenced(&self) -> Option<&str> {
        self.fenced.get().map(String::as_str)
    }

    /// The database is another's from now on, for good.
    pub(crate) fn fence(&self, why: String) {
        if self.fenced.set(why).is_ok() {
            tracing::error!(
                owner = self.own.owner,
                incarnation = self.incarnation(),
                "{}; this one answers NOTOWNER to reads and writes until it is started again",
                self.fenced().unwrap_or_default()
            );
        }
    }

    /// Under which commits are minted now.
    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation.load(Ordering::SeqCst)
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether it was opened in an earlier state than was known.
    pub(crate) fn went_back(&self) -> bool {
        self.went_back
    }

    /// The newest commits that were acknowledged, oldest first; all of them are there as long as it is the same state.
    pub(crate) fn acknowledged(&self) -> Vec<TxnId> {
        self.newest().iter().copied().collect()
    }

    fn newest(&self) -> MutexGuard<'_, VecDeque<TxnId>> {
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transaction of the database that entered `id` is about to be acknowledged, before its connection is used
    /// again.
    pub(crate) fn acknowledge(&self, id: TxnId) {
        let mut newest = self.newest();
        if newest.len() == self.acknowledged_max {
            newest.pop_front();
        }
        newest.push_back(id);
    }

    fn absent(&self) -> MutexGuard<'_, Tombstones> {
        self.absent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The version of the absence of `key`.
    pub(crate) fn absence(&self, key: &Key) -> Version {
        let version = self.absent().absence(key).version;
        match self.marks_absence {
            true => Version { sequence: version.sequence | ABSENT, ..version },
            false => version,
        }
    }

    /// Whether `version` is that of the absence of `key`; where absences are marked, of any of its absences.
    pub(crate) fn is_absence(&self, key: &Key, version: Version) -> bool {
        match self.marks_absence {
            true => version.sequence & ABSENT != 0,
            false => self.absence(key) == version,
        }
    }

    /// `key` is about to be deleted at `version`. Said before the delete is sent, since its answer may be lost; the
    /// version counts only once the key is absent.
    pub(crate) fn deleting(&self, key: &Key, version: Version) {
        let mut absent = self.absent();
        // A commit that is sent again says an older one.
        if absent.absence(key).version < version {
            absent.insert(key.clone(), version, 0);
        }
    }

    /// All of `space` is about to be deleted at `version`.
    pub(crate) fn clearing(&self, space: u8, version: Version) {
        self.absent().raise_floor(space, version, 0);
    }

    fn whose(&self, found: &Found) -> Whose {
        match &found.owner {
            Some(owner) if owner.run == self.own.run => Whose::Ours,
            // Of before this opening, or of a forebay that notes no owners, as it was before this opening.
            Some(owner) if self.earlier.contains(&owner.run) => Whose::Earlier,
            None if found.incarnation < self.opened_in => Whose::Earlier,
            _ => Whose::Others,
        }
    }

    /// An error if the database is another's.
    pub(crate) fn refuse_others(&self, found: &Found) -> Result<(), String> {
        if self.fenced.get().is_none() && self.whose(found) == Whose::Others {
            let by = match &found.owner {
                Some(Holder { owner, since, place, .. }) => format!("owner {owner} of {since} from {place}"),
                None => "one of an older version".to_owned(),
            };
            let incarnation = found.incarnation;
            self.fence(format!("another forebay has taken this database over: {by}, incarnation {incarnation}"));
        }
        self.fenced().map_or(Ok(()), |why| Err(why.to_owned()))
    }

    /// What `found` says of the database: an error if it is another's.
    pub(crate) fn judge(&self, found: &Found) -> Result<Judged, String> {
        self.refuse_others(found)?;
        let (ours, whose) = (self.incarnation(), self.whose(found));
        Ok(match whose == Whose::Ours {
            true if found.incarnation == ours && found.there => Judged::Same,
            // We have raised it, and the answer was lost.
            true if found.incarnation > ours => Judged::Raised(found.incarnation),
            _ => Judged::Earlier,
        })
    }

    /// The database was found in an earlier state: from now on it is in the incarnation `raised`.
    pub(crate) fn went_back_to(&self, raised: u64) {
        tracing::error!(
            incarnation = raised,
            newest = self.newest().iter().max().map(|id| id.to_string()),
            "the database has lost acknowledged commits: it was restored, or a standby that lagged took over; going on \
             from what it holds, and all that is cached is dropped"
        );
        *self.absent() = Tombstones::new(raised);
        self.newest().clear();
        self.incarnation.store(raised, Ordering::SeqCst);
    }
}
