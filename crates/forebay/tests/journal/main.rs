//! The journal against a naive model: under crashes of machine and process, failing and full disks, and damage.
//!
//! * `crashes`: what is left is a prefix; what was acknowledged is in it, or reported as lost.
//! * `damage`: bits that flip, files that are cut.
//! * `faces`: limits, groups, rewriting, the file system's own folder.
//! * `length`: what was cut off is missed. `space`: full disks that get room again.
//! * `tiers`: what is not a journal and keeps the same.

mod crashes;
mod damage;
mod faces;
mod length;
mod naive;
mod space;
mod tiers;

use std::sync::{Arc, Mutex};

use forebay::outage::lossy::Lossy;
use forebay::outage::{AppendError, Description, Found, Journal, JournalOptions, Loss, OpenError, Record};
use forebay::runtime::simulated::{Ended, Simulation};
use forebay::store::embedded::Durability;
use naive::Naive;

/// A sixteenth of it is what makes a file worth rewriting.
const BYTES_MAX: u64 = 64 << 10;

fn options(durability: Durability) -> JournalOptions {
    let description = Description { mapping: "user:{id} -> users(id)".to_owned(), catalogue: "users".to_owned() };
    JournalOptions { durability, bytes_max: BYTES_MAX, description }
}

/// A journal in a simulated process.
struct Life {
    simulation: Simulation,
    journal: Journal,
    found: Option<Found>,
}

impl Life {
    fn open(disk: &Lossy, seed: u64, options: JournalOptions) -> Result<Life, OpenError> {
        let simulation = Simulation::new(seed);
        let (journal, found) = Journal::open(simulation.runtime(), disk.handle(), options)?;
        Ok(Life { simulation, journal, found: Some(found) })
    }

    /// Runs what `make` makes of the journal to its end.
    fn run<T: Send + 'static, F: Future<Output = T> + Send + 'static>(&self, make: impl FnOnce(Journal) -> F) -> T {
        let answer = Arc::new(Mutex::new(None));
        let (to, future) = (Arc::clone(&answer), make(self.journal.clone()));
        let ended = self.simulation.run(async move {
            let value = future.await;
            *to.lock().unwrap() = Some(value);
        });
        assert_eq!(ended, Ended::Done);
        answer.lock().unwrap().take().unwrap()
    }

    /// Appends all, one behind the other without waiting between; answers in order.
    fn append(&self, records: Vec<Record>) -> Vec<Result<(), AppendError>> {
        self.run(|journal| async move {
            let waiting: Vec<_> = records.into_iter().map(|record| journal.append(record)).collect();
            futures_util::future::join_all(waiting).await
        })
    }

    fn flush(&self) -> Result<(), AppendError> {
        self.run(|journal| async move { journal.flush().await })
    }

    /// What opening found to be pending.
    fn pending(&mut self) -> Result<Naive, OpenError> {
        let found = self.found.take().expect("asked once");
        let pending: Result<Vec<_>, OpenError> = found.pending.collect();
        let pending = pending?.into_iter().map(|pending| (pending.buffered.number, pending));
        Ok(Naive(pending.collect(), found.dropped))
    }

    fn lost(&self) -> Option<Loss> {
        self.found.as_ref().and_then(|found| found.lost)
    }
}
