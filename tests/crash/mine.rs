//! One client of the crash test: its operations on separate keys, and which states they may leave.

use std::collections::HashMap;

use forebay_protocol::Reply;
use forebay_workload::client::{Client, Says};

/// Operations that a client pipelines at most.
const BATCH_MAX: usize = 8;

/// Fields of the large hash, and bytes of each value.
const FIELDS: usize = 200;
const FIELD_BYTES: usize = 60;

/// What an operation does; `number` is that of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// MULTI: three keys get the number, the counter of all purchases rises, their list grows.
    Purchase,
    /// One DEL of the three keys.
    Delete,
    /// INCR of a counter.
    Count,
    /// RPUSH of the number.
    Push,
    /// HSET of all fields of a large hash to the number.
    Fill,
}

#[derive(Clone, Copy, Debug)]
struct Op {
    kind: Kind,
    number: u64,
    /// What the counter of all purchases was, if the purchase was acknowledged.
    ticket: Option<u64>,
}

/// What a client's own keys hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// In all three keys.
    triple: Option<u64>,
    count: u64,
    /// In the list of the round.
    list: Vec<u64>,
    /// In all fields of the hash.
    hash: Option<u64>,
}

/// A client with what it knows.
pub struct Mine {
    /// Which client.
    pub number: u32,
    round: u32,
    next: u64,
    /// What its keys held when the round began.
    before: State,
    /// Operations sent in this round, but those that were refused.
    ops: Vec<Op>,
    /// How many of the first of them were acknowledged.
    acknowledged: usize,
    /// How many of the first of them are there, once that is settled.
    left: usize,
}

/// The list of a round's purchases.
pub fn purchases(round: u32) -> String {
    format!("purchases:{round}")
}

fn triple(number: u32) -> [String; 3] {
    ["a", "b", "c"].map(|part| format!("{part}:{number}"))
}

fn list(number: u32, round: u32) -> String {
    format!("list:{number}:{round}")
}

impl State {
    fn apply(&mut self, op: &Op) {
        match op.kind {
            Kind::Purchase => self.triple = Some(op.number),
            Kind::Delete => self.triple = None,
            Kind::Count => self.count += 1,
            Kind::Push => self.list.push(op.number),
            Kind::Fill => self.hash = Some(op.number),
        }
    }

    /// Reads a client's keys; panics at halves.
    pub async fn read(client: &mut Client, number: u32, round: u32) -> State {
        let mut ask = async |args: &[String]| client.demand(args).await.expect("a read is answered");
        let number_of = |reply: &Reply| reply.number().map(|value| value as u64);
        let numbers = |reply: &Reply| reply.items().expect("a list").into_iter().map(number_of).collect::<Vec<_>>();
        let three = numbers(&ask(&[&["MGET".to_owned()][..], &triple(number)].concat()).await);
        assert!(three.iter().all(|value| *value == three[0]), "client {number}: half of a transaction: {three:?}");
        let count = number_of(&ask(&["GET".to_owned(), format!("count:{number}")]).await).unwrap_or(0);
        let list = ask(&["LRANGE".to_owned(), list(number, round), "0".to_owned(), "-1".to_owned()]).await;
        let list = numbers(&list).into_iter().flatten().collect();
        let fields = ask(&["HVALS".to_owned(), format!("hash:{number}")]).await;
        let fields = numbers(&fields);
        let whole = fields.is_empty() || fields.len() == FIELDS;
        let hash = fields.first().copied().flatten();
        assert!(whole && fields.iter().all(|value| *value == hash), "client {number}: half of a HSET: {fields:?}");
        State { triple: three[0], count, list, hash }
    }
}

impl Mine {
    /// A client that has done nothing.
    pub fn new(number: u32) -> Mine {
        let (before, ops) = (State::default(), Vec::new());
        Mine { number, round: 0, next: 1, before, ops, acknowledged: 0, left: 0 }
    }

    /// Begins a round.
    pub fn begin(&mut self, round: u32) {
        for op in self.ops.drain(..).take(self.left) {
            self.before.apply(&op);
        }
        self.before.list.clear();
        (self.round, self.acknowledged, self.left) = (round, 0, 0);
    }

    /// Operations of this round that were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged
    }

    /// Purchases of this round that are there.
    pub fn bought(&self) -> u64 {
        self.ops[..self.left].iter().filter(|op| op.kind == Kind::Purchase).count() as u64
    }

    /// Sends batches until the server is gone.
    pub async fn load(&mut self, address: &str, mut random: fastrand::Rng) {
        let Ok(mut client) = Client::connect(address).await else { return };
        loop {
            let first = self.ops.len();
            for _ in 0..random.usize(1..=BATCH_MAX) {
                let kinds = [Kind::Purchase, Kind::Purchase, Kind::Delete, Kind::Count, Kind::Push, Kind::Fill];
                let kind = kinds[random.usize(..kinds.len())];
                let op = Op { kind, number: self.next, ticket: None };
                self.next += 1;
                self.queue(&mut client, &op);
                // Before it is sent: from now on it may be there.
                self.ops.push(op);
            }
            if client.flush().await.is_err() {
                return;
            }
            for _ in first..self.ops.len() {
                let Some(reply) = answer(&mut client, self.ops[self.acknowledged].kind).await else { return };
                self.note(&reply);
            }
        }
    }

    fn queue(&self, client: &mut Client, op: &Op) {
        let number = op.number.to_string();
        match op.kind {
            Kind::Purchase => {
                client.queue(&["MULTI"]);
                for key in triple(self.number) {
                    client.queue(&["SET", &key, &number]);
                }
                client.queue(&["INCR", "tickets"]);
                client.queue(&["RPUSH", &purchases(self.round), &format!("{}:{number}", self.number)]);
                client.queue(&["EXEC"]);
            }
            Kind::Delete => client.queue(&[&["DEL".to_owned()][..], &triple(self.number)].concat()),
            Kind::Count => client.queue(&["INCR", &format!("count:{}", self.number)]),
            Kind::Push => client.queue(&["RPUSH", &list(self.number, self.round), &number]),
            Kind::Fill => {
                let value = format!("{number:0>FIELD_BYTES$}");
                let fields = (0..FIELDS).flat_map(|field| [format!("field:{field}"), value.clone()]);
                let head = ["HSET".to_owned(), format!("hash:{}", self.number)];
                client.queue(&head.into_iter().chain(fields).collect::<Vec<_>>());
            }
        }
    }

    /// Takes the answer to the first operation that has none.
    fn note(&mut self, reply: &Reply) {
        match reply {
            Reply::Error(text) => {
                let text = String::from_utf8_lossy(text);
                // Surely not applied; anything else is no answer that these operations may get.
                assert!(text.starts_with("TXCONFLICT"), "{:?}: {text}", self.ops[self.acknowledged]);
                self.ops.remove(self.acknowledged);
            }
            reply => {
                let op = &mut self.ops[self.acknowledged];
                if let (Kind::Purchase, Some(items)) = (op.kind, reply.items()) {
                    op.ticket = Some(items[3].number().expect("INCR answers a number") as u64);
                }
                self.acknowledged += 1;
            }
        }
    }

    /// Finds the first part of the operations that explains what is there, and so what of this round is left: with
    /// `whole` at least all that was acknowledged. Returns how many operations are left.
    pub fn settle(
        &mut self,
        seen: &State,
        purchases: &[(u32, u64)],
        tickets_before: u64,
        whole: bool,
    ) -> Result<usize, String> {
        let lowest = if whole { self.acknowledged } else { 0 };
        let mut state = self.before.clone();
        self.ops[..lowest].iter().for_each(|op| state.apply(op));
        // The counter of all purchases tells which of ours are there where deletes hide it.
        let ours: Vec<u64> =
            purchases.iter().filter(|(client, _)| *client == self.number).map(|(_, number)| *number).collect();
        let mut left = lowest;
        while state != *seen || self.bought_in(left) != ours {
            let Some(op) = self.ops.get(left) else {
                let (acked, sent) = (self.acknowledged, self.ops.len());
                let last = &self.ops[self.ops.len().saturating_sub(12)..];
                return Err(format!(
                    "no first part of {sent} operations, {acked} of them acknowledged, leaves {seen:?} and the \
                     purchases {ours:?}; before: {:?}; the last operations: {last:?}",
                    self.before
                ));
            };
            state.apply(op);
            left += 1;
        }
        self.left = left;
        self.tickets_agree(purchases, tickets_before)?;
        Ok(left)
    }

    fn bought_in(&self, left: usize) -> Vec<u64> {
        self.ops[..left].iter().filter(|op| op.kind == Kind::Purchase).map(|op| op.number).collect()
    }

    /// An acknowledged purchase was told its place among all purchases: there it stands, or it and all after it are
    /// gone.
    fn tickets_agree(&self, purchases: &[(u32, u64)], tickets_before: u64) -> Result<(), String> {
        let places: HashMap<u64, (u32, u64)> = (tickets_before + 1..).zip(purchases.iter().copied()).collect();
        for op in &self.ops {
            let Some(ticket) = op.ticket else { continue };
            match places.get(&ticket) {
                Some(place) if *place != (self.number, op.number) => {
                    return Err(format!("{op:?} was acknowledged as number {ticket}, which is {place:?}"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The reply that decides about an operation; `None` if the connection broke before it came.
async fn answer(client: &mut Client, kind: Kind) -> Option<Reply> {
    let before = if kind == Kind::Purchase { 6 } else { 0 };
    for _ in 0..before {
        let queued = client.receive().await.ok()?;
        assert!(queued == Reply::OK || queued == Reply::Simple("QUEUED".into()), "{queued:?}");
    }
    let reply = client.receive().await.ok()?;
    let fits = match (kind, &reply) {
        (_, Reply::Error(_)) => true,
        (Kind::Purchase, Reply::Array(items)) => items.len() == 5,
        (Kind::Purchase, _) => false,
        (_, reply) => matches!(reply, Reply::Integer(_)),
    };
    assert!(fits, "{kind:?}: {reply:?}");
    Some(reply)
}
