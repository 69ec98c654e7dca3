//! One LEASE GET for all transactions of a client that miss a key at once.
//!
//! **Invariant.** An attempt waits for another one's request only if that was sent at or after the moment from which it
//! may use copies. It is given the copy itself, with the moment at which its request was sent. So all that decides at
//! the end of a transaction is what it would be for a kept copy. An answer that is too old for a level costs a message,
//! and is never taken for a new one. A document that has expired by the time its answer comes is asked for again: when
//! the transaction began it may have been gone.
//!
//! No request waits for another: each attempt sends its own first, and then waits for those of others. A request whose
//! sender is gone has no answer, and those that wait send their own.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use forebay::key::Key;
use futures_util::FutureExt;
use futures_util::future::Shared as Told;
use tokio::sync::oneshot;

use crate::copy::Copy;
use crate::mutation::{Fault, on};

/// The answer of a request, once it is there. All that wait for it are told, in the order in which they came.
pub(crate) type Answer = Told<oneshot::Receiver<Arc<Copy>>>;

/// Requests that are on their way.
#[derive(Default)]
pub struct Flights(Mutex<HashMap<Key, Flight>>);

struct Flight {
    /// It was sent at this moment or later.
    began: Instant,
    answer: Answer,
}

/// Those of one attempt: over when this is dropped.
pub(crate) struct Own<'s> {
    flights: &'s Flights,
    /// The keys that are asked for, and where their answers go.
    pub(crate) requests: BTreeMap<Key, (Answer, oneshot::Sender<Arc<Copy>>)>,
}

impl Own<'_> {
    /// They are over; where their answers go.
    pub(crate) fn end(&mut self) -> impl Iterator<Item = (Key, oneshot::Sender<Arc<Copy>>)> {
        let mut flights = self.flights.lock();
        for (key, (answer, _)) in &self.requests {
            // A later one may have taken its place.
            if flights.get(key).is_some_and(|flight| answer.ptr_eq(&flight.answer)) {
                flights.remove(key);
            }
        }
        drop(flights);
        std::mem::take(&mut self.requests).into_iter().map(|(key, (_, sender))| (key, sender))
    }
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        drop(self.end());
    }
}

impl Flights {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Flight>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of `keys`, those whose requests the caller has to send, and the answers to wait for of the others.
    pub(crate) fn join(&self, keys: &[Key], since: Option<Instant>, now: Instant) -> (Own<'_>, Vec<(Key, Answer)>) {
        let (mut requests, mut others) = (BTreeMap::new(), Vec::new());
        let mut flights = self.lock();
        for key in keys {
            let serves =
                |flight: &&Flight| since.is_none_or(|since| flight.began >= since) || on(Fault::FlightOfBefore);
            if let Some(flight) = flights.get(key).filter(serves) {
                others.push((key.clone(), flight.answer.clone()));
                continue;
            }
            let (sender, receiver) = oneshot::channel();
            let answer = receiver.shared();
            requests.insert(key.clone(), (answer.clone(), sender));
            flights.insert(key.clone(), Flight { began: now, answer });
        }
        (Own { flights: self, requests }, others)
    }
}
