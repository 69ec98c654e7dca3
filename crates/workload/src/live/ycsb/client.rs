//! One client of YCSB: draws an action and a record, and does it in RESP or SQL.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fastrand::Rng;
use forebay_protocol::Reply;
use futures_util::future::BoxFuture;

use super::rows::{FIELDS, Ycsb, columns, field, value, whole_record};
use crate::client::{Client, Says};
use crate::live::{Actor, Ended, Failure, Param, Session, Sql};
use crate::ycsb::{Chooser, Step};

pub(super) struct YcsbClient {
    shared: Arc<Ycsb>,
    chooser: Chooser,
    random: Rng,
    step: Step,
    /// What it inserts.
    inserted: u64,
}

impl YcsbClient {
    pub fn new(shared: Arc<Ycsb>, random: Rng) -> YcsbClient {
        let chooser = Chooser::new(shared.mix, shared.records, shared.there.load(Ordering::Relaxed));
        YcsbClient { shared, chooser, random, step: Step::Read(0), inserted: 0 }
    }

    async fn resp(&mut self, client: &mut Client) -> Result<Ended, Failure> {
        let shared = self.shared.clone();
        match self.step {
            Step::Read(number) | Step::Modify(number) => {
                let reply = client.demand(&["HGETALL", &shared.key(number)]).await?;
                Ok(found(reply.items().is_some_and(|items| !items.is_empty())))
            }
            Step::Update(number) => {
                let (name, text) = (field(self.random.usize(..FIELDS)), value(&mut self.random));
                client.demand(&["HMSET", &shared.key(number), &name, &text]).await?;
                Ok(Ended::Done)
            }
            Step::Insert => {
                client.demand(&whole_record(shared.key(self.inserted), &mut self.random)).await?;
                Ok(Ended::Done)
            }
            Step::Scan(start, count) => {
                let end = (start + count).min(shared.there.load(Ordering::Relaxed));
                let keys = (start..end).map(|number| shared.key(number));
                let reply = match shared.rows.load(Ordering::Relaxed) {
                    true => client.demand(&std::iter::once("MGET".to_owned()).chain(keys).collect::<Vec<_>>()).await?,
                    false => hashes(client, keys).await?,
                };
                let first = reply.items().unwrap_or_default().first().map(|first| match first.items() {
                    Some(fields) => !fields.is_empty(),
                    None => first.bytes().is_some(),
                });
                Ok(found(first.unwrap_or(false)))
            }
        }
    }

    async fn sql(&mut self, sql: &mut Sql) -> Result<Ended, Failure> {
        let shared = self.shared.clone();
        match self.step {
            Step::Read(number) | Step::Modify(number) => {
                // What is read to be changed in the same transaction is locked, so that no other change is lost.
                let lock = matches!(self.step, Step::Modify(_)) && shared.transactions;
                let text = format!(
                    "SELECT {} FROM usertable WHERE id = $1{}",
                    columns(field),
                    if lock { " FOR UPDATE" } else { "" }
                );
                Ok(found(sql.query(&text, &[Param::Text(&shared.id(number))]).await?.count() == 1))
            }
            Step::Update(number) => {
                let text = format!("UPDATE usertable SET {} = $2 WHERE id = $1", field(self.random.usize(..FIELDS)));
                let (id, value) = (shared.id(number), value(&mut self.random));
                Ok(found(sql.execute(&text, &[Param::Text(&id), Param::Text(&value)]).await? == 1))
            }
            Step::Insert => {
                let id = shared.id(self.inserted);
                let values: Vec<String> = (0..FIELDS).map(|_| value(&mut self.random)).collect();
                let params: Vec<Param<'_>> =
                    std::iter::once(Param::Text(&id)).chain(values.iter().map(|value| Param::Text(value))).collect();
                let text = format!(
                    "INSERT INTO usertable (id, {}) VALUES ($1, {})",
                    columns(field),
                    columns(|number| format!("${}", number + 2))
                );
                sql.execute(&text, &params).await?;
                Ok(Ended::Done)
            }
            Step::Scan(start, count) => {
                let text = format!("SELECT id, {} FROM usertable WHERE id >= $1 ORDER BY id LIMIT $2", columns(field));
                let params = [Param::Text(&shared.id(start)), Param::Number(count as i64)];
                Ok(found(sql.query(&text, &params).await?.count() > 0))
            }
        }
    }

    /// One command or statement.
    async fn once(&mut self, session: &mut Session) -> Result<Ended, Failure> {
        match session {
            Session::Resp(client) => self.resp(client).await,
            Session::Sql(sql) => self.sql(sql).await,
        }
    }

    /// Reads, then updates the same record.
    async fn modify(&mut self, number: u64, session: &mut Session) -> Result<Ended, Failure> {
        let read = self.once(session).await?;
        self.step = Step::Update(number);
        let updated = self.once(session).await?;
        Ok(if read == Ended::Missing { read } else { updated })
    }

    async fn modify_in_transaction(&mut self, number: u64, session: &mut Session) -> Result<Ended, Failure> {
        session.begin().await?;
        match self.modify(number, session).await {
            Ok(Ended::Missing) => session.commit().await.map(|_| Ended::Missing),
            Ok(_) => session.commit().await,
            Err(failure) => Err(session.abort(failure).await),
        }
    }
}

fn found(there: bool) -> Ended {
    if there { Ended::Done } else { Ended::Missing }
}

/// HGETALL of all keys, at one moment.
async fn hashes(client: &mut Client, keys: impl Iterator<Item = String>) -> Result<Reply, Failure> {
    client.queue(&["MULTI"]);
    keys.for_each(|key| client.queue(&["HGETALL", &key]));
    client.queue(&["EXEC"]);
    let last = client.replies().await?.pop();
    Failure::unless_error(last.unwrap_or(Reply::Nil))
}

impl Actor for YcsbClient {
    fn choose(&mut self) -> &'static str {
        self.step = self.chooser.next(self.shared.there.load(Ordering::Relaxed), &mut self.random);
        if self.step == Step::Insert {
            self.inserted = self.shared.next.fetch_add(1, Ordering::Relaxed);
        }
        match self.step {
            Step::Read(_) => "read",
            Step::Update(_) => "update",
            Step::Insert => "insert",
            Step::Scan(..) => "scan",
            Step::Modify(_) => "read-modify-write",
        }
    }

    fn act<'a>(&'a mut self, session: &'a mut Session) -> BoxFuture<'a, Result<Ended, Failure>> {
        Box::pin(async move {
            let ended = match self.step {
                Step::Modify(number) if self.shared.transactions => self.modify_in_transaction(number, session).await,
                Step::Modify(number) => self.modify(number, session).await,
                _ => self.once(session).await,
            };
            if self.step == Step::Insert {
                self.shared.inserted(self.inserted);
            }
            ended
        })
    }

    fn lost(&mut self, _: bool) {
        if self.step == Step::Insert {
            self.shared.inserted(self.inserted);
        }
    }
}
