//! Batches that arrive at the store, and what it says of them.

use forebay::store::CommitOutcome;
use forebay::{Key, Read};

use super::{Answer, KEYS, Kind, Way, World, key, nth};

impl World {
    /// The store is asked for a document, and what reads it is buffered.
    fn asks(&mut self, asked: usize) {
        self.buffer.suspect([&key(asked)].into_iter());
        self.open(&[asked], &[((asked + 1) % KEYS, Kind::Change)], true);
        self.commit(usize::MAX, Way::Buffer, false);
        self.journal(usize::MAX, false);
    }

    pub(super) fn land(&mut self, which: usize, applied: usize, told: usize, answer: Answer) {
        if self.carried.is_empty() {
            return;
        }
        let mut batch = self.carried.remove(nth(which, self.carried.len()));
        let (mut changed, mut stopped) = (Vec::<Vec<(Key, Read)>>::new(), None);
        let (mut part, mut unknown) = (0, false);
        self.database.begin();
        for place in 0..batch.numbers.len().min(applied) {
            let (number, commit) = (batch.numbers[place], batch.commits[place].clone());
            let again = self.database.has(commit.id);
            if let Some((_, key)) = answer.between.filter(|(before, _)| *before == place) {
                self.others(key, Kind::Change, false);
                self.database.begin();
                part = place;
            }
            // What is told is of one transaction of the store, but for what it had already.
            if again || place == told {
                self.database.begin();
            }
            self.disturbed |= place == told && self.trigger && !self.unproven_of(&batch, place).is_empty();
            let txn = self.txns[&number].clone();
            let mut outcome = self.apply(Some(number), &txn, &commit);
            if !outcome.is_applied() {
                stopped = Some((number, outcome));
                break;
            }
            self.landed.insert(number);
            unknown |= place >= told;
            if unknown {
                self.disturbed |= self.trigger && self.unnamed.contains(&number);
                continue;
            }
            if let (CommitOutcome::Repeated(since), true) = (&mut outcome, answer.unread) {
                since.clear();
                self.disturbed |= self.trigger;
            }
            changed.push(batch.told(place, outcome));
            part = if again { place + 1 } else { part };
            let looked = changed[part..].iter_mut().flatten();
            looked.for_each(|(key, read)| *read = self.database.get(key));
        }
        // What did not arrive with what it was sent behind was not checked, and nobody knows that it will not land yet.
        let unheard = unknown || answer.crashes;
        self.disturbed |= self.trigger && unheard && batch.commits.iter().skip(applied).any(|c| !self.is_checked(c));
        if stopped.is_none() && !unknown && answer.refuses {
            let next = batch.numbers.get(changed.len()).zip(batch.commits.get(changed.len()));
            let refused = next.filter(|(_, commit)| !self.database.has(commit.id));
            stopped = refused.map(|(number, _)| (*number, CommitOutcome::Refused("it will not".into())));
        }
        if let Some(asked) = answer.asked {
            self.asks(asked);
        }
        let heads = self.buffer.heads(&batch, &changed);
        heads.into_iter().for_each(|record| self.note(record));
        if answer.crashes {
            return self.restart();
        }
        self.buffer.applied(&batch, &changed);
        for number in batch.numbers.iter().take(changed.len()) {
            self.journal.remove(number);
            self.txns.remove(number);
        }
        self.buffer.finish(batch, unknown);
        match stopped.filter(|_| !unknown) {
            Some((number, CommitOutcome::Conflict(keys))) => self.overtaken(number, &keys),
            Some((number, _)) => self.set_aside(number),
            None => {}
        }
    }
}
