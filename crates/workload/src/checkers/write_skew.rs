//! Write skew: two keys whose sum must not fall below 0, each transaction reads both and takes from one.
//!
//! Under snapshots two transactions may each find enough and take from different keys; only a serializable system
//! prevents it. Who finds too little fills both up again, so that a run never comes to rest.

use futures_util::future::BoxFuture;

use super::bank::account_for;
use super::transact::{self, Place, Style, call, close, open};
use super::{Attempt, Event, Op, Stopped, Summary, Violation, Workload};
use crate::client::{Client, ClientError};

/// What each key begins with, and is filled up by.
pub const VALUE_FIRST: i64 = 20;

/// The workload.
pub struct WriteSkew {
    prefix: String,
    pairs: u64,
    styles: Vec<Style>,
    place: Place,
}

impl WriteSkew {
    /// So many pairs of keys, at least one, under `prefix`; transactions in these styles, at least one.
    pub fn new(prefix: &str, pairs: u64, styles: &[Style]) -> WriteSkew {
        WriteSkew { prefix: prefix.to_owned(), pairs: pairs.max(1), styles: styles.to_vec(), place: Place::default() }
    }

    /// With the numbers in a field of each key.
    pub fn in_field(self, field: &str) -> WriteSkew {
        WriteSkew { place: Place::field(field), ..self }
    }

    fn key(&self, number: u64) -> String {
        format!("{}:{}:{}", self.prefix, number / 2, if number.is_multiple_of(2) { 'x' } else { 'y' })
    }

    async fn take(
        &self,
        client: &mut Client,
        random: &mut fastrand::Rng,
        attempt: &mut Attempt,
        style: Style,
    ) -> Result<(), Stopped> {
        let pair = random.u64(..self.pairs);
        let keys = [2 * pair, 2 * pair + 1];
        let amount = random.i64(1..=VALUE_FIRST);
        attempt.name = match style {
            Style::Txn => "take by TXN",
            Style::Multi => "take by WATCH",
        };
        open(client, attempt, style, "take", &keys.map(|key| self.key(key))).await?;
        let mut values = [0; 2];
        for (key, value) in keys.into_iter().zip(&mut values) {
            *value = transact::number("GET", &call(client, &self.place.get(&self.key(key))).await?)?;
            attempt.ops.push(Op::Read { key, value: *value });
        }
        let additions = match values[0] + values[1] >= amount {
            true => vec![(random.usize(..2), -amount)],
            false => vec![(0, VALUE_FIRST), (1, VALUE_FIRST)],
        };
        let mut sets = Vec::new();
        for (side, delta) in additions {
            attempt.ops.push(Op::Add { key: keys[side], delta });
            sets.push(self.place.set(&self.key(keys[side]), values[side] + delta));
        }
        close(client, attempt, style, &sets).await
    }

    async fn look(&self, client: &mut Client, attempt: &mut Attempt, pair: u64) -> Result<(), Stopped> {
        attempt.name = "look by MGET";
        let keys = [2 * pair, 2 * pair + 1];
        let values = self.place.get_all(client, attempt, &keys.map(|key| self.key(key))).await?;
        attempt.ops.extend(keys.into_iter().zip(values).map(|(key, value)| Op::Read { key, value }));
        Ok(())
    }
}

impl Workload for WriteSkew {
    fn name(&self) -> &'static str {
        "write skew"
    }

    fn setup<'a>(&'a self, client: &'a mut Client) -> BoxFuture<'a, Result<(), ClientError>> {
        Box::pin(async move {
            for key in 0..2 * self.pairs {
                client.demand(&self.place.set(&self.key(key), VALUE_FIRST)).await?;
            }
            Ok(())
        })
    }

    fn step<'a>(
        &'a self,
        client: &'a mut Client,
        random: &'a mut fastrand::Rng,
        attempt: &'a mut Attempt,
    ) -> BoxFuture<'a, Result<(), Stopped>> {
        Box::pin(async move {
            match random.choice(&self.styles).copied() {
                Some(style) if random.u8(..4) > 0 => self.take(client, random, attempt, style).await,
                _ => self.look(client, attempt, random.u64(..self.pairs)).await,
            }
        })
    }

    fn finish<'a>(&'a self, client: &'a mut Client, attempt: &'a mut Attempt) -> BoxFuture<'a, Result<(), Stopped>> {
        Box::pin(async move {
            for pair in 0..self.pairs {
                self.look(client, attempt, pair).await?;
            }
            attempt.name = "last look";
            Ok(())
        })
    }

    fn check(&self, history: &[Event]) -> Result<Summary, Violation> {
        for event in history.iter().filter(|event| event.committed()) {
            let reads: Vec<(u64, i64)> = event.reads().collect();
            for [(_, x), (_, y)] in reads.as_chunks().0 {
                let sum = x + y;
                if sum < 0 {
                    return Err(Violation::new(format!("a pair's sum is {sum}, seen by {event}")));
                }
            }
        }
        account_for((0..2 * self.pairs).map(|key| (key, VALUE_FIRST)).collect(), history)?;
        Ok(Summary::of(history))
    }
}
