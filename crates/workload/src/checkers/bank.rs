//! Bank: transfers between accounts, and auditors who must always find the same sum.
//!
//! A sum alone does not show a transfer that was lost on both sides. So the last look is also compared with all
//! acknowledged transfers, account by account.

use std::collections::HashMap;

use futures_util::future::BoxFuture;

use super::transact::{self, Place, Style, begin, call, close, commit, open, script};
use super::{Attempt, Event, Op, Stopped, Summary, Violation, Workload};
use crate::client::{Client, ClientError, refused};

/// What each account begins with.
pub const BALANCE_FIRST: i64 = 100;

/// The largest transfer.
const TRANSFER_MAX: i64 = 10;

/// The workload.
pub struct Bank {
    prefix: String,
    accounts: u64,
    styles: Vec<Style>,
    place: Place,
    checked: bool,
    adding: bool,
}

impl Bank {
    /// So many accounts, at least two, under `prefix`; transactions in these styles.
    pub fn new(prefix: &str, accounts: u64, styles: &[Style]) -> Bank {
        Bank {
            prefix: prefix.to_owned(),
            accounts: accounts.max(2),
            styles: styles.to_vec(),
            place: Place::default(),
            checked: false,
            adding: false,
        }
    }

    /// With the balances in a field of each key.
    pub fn in_field(self, field: &str) -> Bank {
        Bank { place: Place::field(field), ..self }
    }

    /// With auditors that have all that they have read compared at the end (`TXN BEGIN READONLY CHECKED`): where other
    /// programs write too, the others may find what never was.
    pub fn checked(self) -> Bank {
        Bank { checked: true, ..self }
    }

    /// With transfers that look at nothing and add, as often as they are told to: accounts may be overdrawn. What is
    /// added travels as that, so nothing that others write in between stands in its way.
    pub fn adding(self) -> Bank {
        Bank { adding: true, ..self }
    }

    fn key(&self, account: u64) -> String {
        format!("{}:{account}", self.prefix)
    }

    fn keys(&self) -> Vec<String> {
        (0..self.accounts).map(|account| self.key(account)).collect()
    }

    fn gets(&self) -> Vec<Vec<String>> {
        self.keys().iter().map(|key| self.place.get(key)).collect()
    }

    async fn balances_by_txn(
        &self,
        client: &mut Client,
        attempt: &mut Attempt,
        options: &[&str],
    ) -> Result<Vec<i64>, Stopped> {
        begin(client, attempt, options).await?;
        let mut balances = Vec::new();
        for get in self.gets() {
            balances.push(transact::number("GET", &call(client, &get).await?)?);
        }
        commit(client, attempt).await?;
        Ok(balances)
    }

    async fn balances_checked(&self, client: &mut Client, attempt: &mut Attempt) -> Result<Vec<i64>, Stopped> {
        self.balances_by_txn(client, attempt, &["READONLY", "CHECKED", "TYPE", "audit"]).await
    }

    async fn transfer(
        &self,
        client: &mut Client,
        random: &mut fastrand::Rng,
        attempt: &mut Attempt,
        style: Style,
    ) -> Result<(), Stopped> {
        let from = random.u64(..self.accounts);
        let to = (from + random.u64(1..self.accounts)) % self.accounts;
        let amount = random.i64(1..=TRANSFER_MAX);
        if self.adding {
            return self.add(client, attempt, style, [(from, -amount), (to, amount)]).await;
        }
        attempt.name = match style {
            Style::Txn => "transfer by TXN",
            Style::Multi => "transfer by WATCH",
        };
        open(client, attempt, style, "transfer", &[self.key(from), self.key(to)]).await?;
        let mut balances = [0; 2];
        for (account, balance) in [from, to].into_iter().zip(&mut balances) {
            *balance = transact::number("GET", &call(client, &self.place.get(&self.key(account))).await?)?;
            // Without locks, what was read is only worth what EXEC says.
            attempt.ops.push(Op::Read { key: account, value: *balance });
        }
        if balances[0] < amount {
            attempt.name = "transfer without means";
            return match style {
                Style::Txn => commit(client, attempt).await,
                Style::Multi => Err(Stopped::Aborted("MEANS are missing".to_owned())),
            };
        }
        attempt.ops.push(Op::Add { key: from, delta: -amount });
        attempt.ops.push(Op::Add { key: to, delta: amount });
        let sets = [
            self.place.set(&self.key(from), balances[0] - amount),
            self.place.set(&self.key(to), balances[1] + amount),
        ];
        close(client, attempt, style, &sets).await
    }

    async fn add(
        &self,
        client: &mut Client,
        attempt: &mut Attempt,
        style: Style,
        deltas: [(u64, i64); 2],
    ) -> Result<(), Stopped> {
        attempt.ops.extend(deltas.map(|(key, delta)| Op::Add { key, delta }));
        let adds = deltas.map(|(account, delta)| self.place.add(&self.key(account), delta));
        match style {
            Style::Txn => {
                attempt.name = "transfer added by TXN";
                begin(client, attempt, &["TYPE", "transfer"]).await?;
                close(client, attempt, style, &adds).await
            }
            Style::Multi => {
                attempt.name = "transfer added by MULTI";
                script(client, attempt, &adds).await.map(|_| ())
            }
        }
    }

    async fn audit(
        &self,
        client: &mut Client,
        random: &mut fastrand::Rng,
        attempt: &mut Attempt,
    ) -> Result<(), Stopped> {
        let balances = match random.u8(..3) {
            _ if self.checked => {
                attempt.name = "audit by TXN CHECKED";
                self.balances_checked(client, attempt).await?
            }
            0 if self.styles.contains(&Style::Txn) => {
                attempt.name = "audit by TXN READONLY";
                self.balances_by_txn(client, attempt, &["READONLY", "TYPE", "audit"]).await?
            }
            1 => {
                attempt.name = "audit by MULTI";
                let replies = script(client, attempt, &self.gets()).await?;
                replies.iter().map(|reply| transact::number("GET", reply)).collect::<Result<_, _>>()?
            }
            _ => {
                attempt.name = "audit by MGET";
                self.place.get_all(client, attempt, &self.keys()).await?
            }
        };
        self.note(&balances, attempt);
        Ok(())
    }

    fn note(&self, balances: &[i64], attempt: &mut Attempt) {
        let reads = balances.iter().zip(0..);
        attempt.ops.extend(reads.map(|(value, key)| Op::Read { key, value: *value }));
    }
}

impl Workload for Bank {
    fn name(&self) -> &'static str {
        "bank"
    }

    fn setup<'a>(&'a self, client: &'a mut Client) -> BoxFuture<'a, Result<(), ClientError>> {
        Box::pin(async move {
            for account in 0..self.accounts {
                client.demand(&self.place.set(&self.key(account), BALANCE_FIRST)).await?;
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
                Some(style) if random.u8(..4) > 0 => self.transfer(client, random, attempt, style).await,
                _ => self.audit(client, random, attempt).await,
            }
        })
    }

    fn finish<'a>(&'a self, client: &'a mut Client, attempt: &'a mut Attempt) -> BoxFuture<'a, Result<(), Stopped>> {
        Box::pin(async move {
            attempt.name = "last look";
            let balances = match self.checked {
                true => self.balances_checked(client, attempt).await?,
                false => self.place.get_all(client, attempt, &self.keys()).await?,
            };
            if balances.len() as u64 != self.accounts {
                return Err(refused("MGET", &forebay_protocol::Reply::Integer(balances.len() as i64)).into());
            }
            self.note(&balances, attempt);
            Ok(())
        })
    }

    fn check(&self, history: &[Event]) -> Result<Summary, Violation> {
        let sum_first = BALANCE_FIRST * self.accounts as i64;
        for event in history.iter().filter(|event| event.committed()) {
            let balances: Vec<i64> = event.reads().map(|(_, balance)| balance).collect();
            if let Some(balance) = balances.iter().find(|balance| **balance < 0 && !self.adding) {
                return Err(Violation::new(format!("an account holds {balance}, seen by {event}")));
            }
            let sum: i64 = balances.iter().sum();
            // Of two accounts a transfer sees all.
            if balances.len() as u64 == self.accounts && sum != sum_first {
                return Err(Violation::new(format!("the sum is {sum}, not {sum_first}, seen by {event}")));
            }
        }
        let first = (0..self.accounts).map(|account| (account, BALANCE_FIRST)).collect();
        account_for(first, history)?;
        Ok(Summary::of(history))
    }
}

/// The last look must be what the first values and all acknowledged changes make, but for changes of transactions of
/// unknown outcome, any of which may or may not be in it.
pub(super) fn account_for(first: HashMap<u64, i64>, history: &[Event]) -> Result<(), Violation> {
    let last = history.iter().max_by_key(|event| event.invoked);
    let Some(last) = last.filter(|event| event.name == "last look") else {
        return Err(Violation::new("the history ends without a last look at the keys"));
    };
    // Per key: what it must hold, and by how much at most it may be below and above.
    let mut expected: HashMap<u64, (i64, i64, i64)> =
        first.into_iter().map(|(key, value)| (key, (value, 0, 0))).collect();
    for event in history {
        for (key, delta) in event.additions() {
            let (value, below, above) = expected.entry(key).or_default();
            match event.committed() {
                true => *value += delta,
                false if event.unknown() => {
                    *below += delta.min(0);
                    *above += delta.max(0);
                }
                false => {}
            }
        }
    }
    for (key, seen) in last.reads() {
        let (value, below, above) = expected.get(&key).copied().unwrap_or_default();
        if seen < value + below || seen > value + above {
            let slack = if (below, above) == (0, 0) { String::new() } else { format!(" ({below}..+{above})") };
            let why = format!("key {key} holds {seen} at last; what was acknowledged makes {value}{slack}");
            return Err(Violation::new(why));
        }
    }
    Ok(())
}
