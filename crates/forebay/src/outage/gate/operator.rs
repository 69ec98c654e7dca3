//! What an operator decides about quarantined transactions. One decision at a time about each, and none is acted upon
//! before the journal has it: or a restart could give up what was tried again, and has landed.

use std::sync::Arc;

use futures_channel::oneshot;

use super::{Gate, Inner};
use crate::outage::journal::AppendError;
use crate::outage::record::{Record, Standing};

impl Gate {
    /// Has quarantined transactions tried again: this one, or all that nobody else decides about. Answers how many.
    pub fn retry(&self, number: Option<u64>) -> usize {
        let mut state = self.inner.state();
        let numbers: Vec<u64> = match number {
            Some(number) => vec![number],
            None => state.buffer.quarantine_list().into_iter().map(|(number, _)| number).collect(),
        };
        let mut tried = 0;
        for number in numbers {
            if !matches!(state.buffer.standing(number), Some(Standing::Quarantined(_))) || !state.decided.insert(number)
            {
                continue;
            }
            tried += 1;
            let (inner, noted) = (self.inner.clone(), self.inner.note(&Record::Retried { number }));
            self.inner.runtime.spawn(async move {
                let noted = match noted.await {
                    Ok(()) => inner.journal.flush().await,
                    Err(error) => Err(error),
                };
                let mut state = inner.state();
                state.decided.remove(&number);
                match noted {
                    Ok(()) => drop(state.buffer.retry(number)),
                    Err(error) => {
                        tracing::error!(number, %error, "a buffered transaction can't be tried again");
                        state.tickets.wake(number);
                    }
                }
                inner.settle(&mut state);
            });
        }
        tried
    }

    /// Gives a quarantined transaction up, for `reason`; false if it is not quarantined, or is being tried again.
    pub async fn give_up(&self, number: u64, reason: &str) -> Result<bool, AppendError> {
        let (inner, reason) = (self.inner.clone(), reason.to_owned());
        let (sender, done) = oneshot::channel();
        // To its end, whoever waits for it: what the journal has given up must not stay here.
        self.inner.runtime.spawn(async move {
            let _ = sender.send(inner.give_up(number, &reason).await);
        });
        done.await.unwrap_or_else(|_| Err(AppendError::Unknown { why: "its runtime has ended".to_owned() }))
    }
}

impl Inner {
    async fn give_up(self: Arc<Inner>, number: u64, reason: &str) -> Result<bool, AppendError> {
        let noted = {
            let mut state = self.state();
            let quarantined = matches!(state.buffer.standing(number), Some(Standing::Quarantined(_)));
            if !quarantined || !state.decided.insert(number) {
                return Ok(false);
            }
            self.note(&Record::Dropped { number, reason: reason.to_owned() })
        };
        // Before anything is written in its place: a restart must not bring it back.
        let noted = match noted.await {
            Ok(()) => self.journal.flush().await,
            Err(error) => Err(error),
        };
        let mut state = self.state();
        state.decided.remove(&number);
        if noted.is_err() {
            state.tickets.wake(number);
        }
        noted?;
        let Some(keys) = state.buffer.give_up(number) else { return Ok(false) };
        tracing::warn!(number, reason, "a buffered transaction was given up by an operator");
        state.tickets.dropped(number, reason);
        state.counts.dropped += 1;
        state.invalidate(keys);
        self.settle(&mut state);
        Ok(true)
    }
}
