//! Who has owned a database, and who we are to it.

use crate::options::Known;

/// As whom this process has opened the database.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    /// The journal's, or the run's where there is no journal.
    pub(crate) owner: String,
    /// This opening: drawn for it, never used again.
    pub(crate) run: String,
    /// What it acknowledges may lie in a journal beside it.
    pub(crate) journal: bool,
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) owner: String,
    pub(crate) run: String,
    pub(crate) journal: bool,
    /// The last under which it had the database.
    pub(crate) incarnation: u64,
    pub(crate) since: String,
    pub(crate) place: String,
}

impl Owner {
    pub(crate) fn told(&self) -> String {
        format!("owner {} of {} from {}", self.owner, self.since, self.place)
    }
}

/// The owners that are known, the last first.
pub(crate) struct Owners(pub(crate) Vec<Owner>);

impl Owners {
    pub(crate) fn runs(&self) -> Vec<String> {
        self.0.iter().map(|owner| owner.run.clone()).collect()
    }

    /// The incarnation of the last owner that was noted; 0 if none ever was.
    fn newest(&self) -> u64 {
        self.0.first().map_or(0, |owner| owner.incarnation)
    }

    /// The other owners since the opening that is `known`, of a database that is in incarnation `found`. A start raises
    /// the incarnation before its journal notes it, so what is above the noted one counts only if its owner is another.
    pub(crate) fn since(&self, own: &Own, found: u64, known: &Known) -> Option<String> {
        known.owner?;
        let ours = self.0.iter().find(|owner| owner.owner == own.owner).map(|owner| owner.incarnation);
        let noted = match known.incarnation {
            // A journal in which writes wait, and that never noted an opening.
            0 if known.waiting => ours.unwrap_or(0),
            0 => return None,
            noted => noted,
        };
        let came = |owner: &&Owner| owner.owner != own.owner && owner.incarnation > noted;
        let mut others: Vec<String> = self.0.iter().filter(came).map(Owner::told).collect();
        // Who raises it and notes no owner is older than owners; before our first row it may have been us.
        if ours.is_some() && found > self.newest() && found > noted {
            others.insert(0, format!("a forebay of an older version, incarnation {found}"));
        }
        (!others.is_empty()).then(|| others.join(", "))
    }

    /// Logs a warning where the last owner was another one with a journal: writes may wait there. That owner has ended,
    /// since it would hold the database's lock.
    pub(crate) fn warn_of_the_last(&self, own: &Own, found: u64, known: &Known) {
        let last = self.0.first().filter(|owner| owner.incarnation == found);
        let who = match last {
            Some(last) if last.owner == own.owner || !last.journal => return,
            Some(last) => last.told(),
            // The owner before was older than owners: perhaps we were it.
            None if found == 0 || (self.0.is_empty() && known.incarnation > 0) => return,
            None => "a forebay of an older version".to_owned(),
        };
        tracing::warn!(
            last = who,
            owner = own.owner,
            "another forebay had this database last: writes that it has buffered, if any, are not here but in its own \
             journal"
        );
    }
}
