//! One client and the application on it: transactions one after the other, and what became of them.

use std::collections::{BTreeMap, BTreeSet};

use forebay::mutation::{Fault, on};
use forebay::txn::optimistic::{Client, Effect, End, Event, Level, Message, Node, Reason, Served, Stamp};
use forebay::{Data, Key, Value};

use crate::judge::Committed;
use crate::network::Clock;

/// Each client has so many sessions, which take turns by chance.
const SESSIONS: u64 = 2;

/// A transaction of the application, from its beginning to its answer and beyond.
#[derive(Clone, Debug)]
pub struct Record {
    pub committed: Committed,
    pub acknowledged: bool,
}

/// What a transaction does.
#[derive(Clone, Debug)]
pub struct Script {
    pub level: Level,
    /// The levels that it reads, one after the other.
    pub reads: Vec<Vec<Key>>,
    pub writes: Vec<Key>,
}

/// One client.
pub struct Actor {
    pub core: Client,
    pub life: u32,
    pub clock: Clock,
    pub paused_until_us: u64,
    /// The transaction under way: what is left of it, and its record.
    pub current: Option<(Script, u64, usize)>,
    /// How a transaction that reads all keys at the end went.
    pub last: Option<bool>,
    /// Stale keys that were named, and the versions that had been read.
    named: BTreeMap<Key, Stamp>,
    /// Of the other clients: below which stamp they said to have no transaction, and when, by the world's clock.
    low: BTreeMap<u32, (Stamp, u64)>,
}

/// With a fault: a client that has said nothing for so long is not waited for.
const SILENT_US: u64 = 6_000;

/// What the world does for an actor.
pub enum Wanted {
    Send(Node, Message),
    /// The transaction goes on after a while.
    GoOn(u64),
    /// The next one begins after a while.
    Next,
}

impl Actor {
    pub fn new(core: Client, life: u32, clock: Clock) -> Actor {
        Actor {
            core,
            life,
            clock,
            paused_until_us: 0,
            current: None,
            last: None,
            named: BTreeMap::new(),
            low: BTreeMap::new(),
        }
    }

    /// The core does a step at `now_us` of the world.
    pub fn step(&mut self, event: Event, now_us: u64, records: &mut [Record]) -> Result<Vec<Wanted>, String> {
        let effects = self.core.step(event, self.clock.now_us(now_us));
        let mut wanted = Vec::new();
        for effect in effects {
            match effect {
                Effect::Send(to, message) => wanted.push(Wanted::Send(to, message)),
                Effect::Read(txn, served) => {
                    if self.read(txn, served, records)? {
                        wanted.push(Wanted::GoOn(txn));
                    }
                }
                Effect::Ended(txn, end) => {
                    if self.ended(txn, end, now_us, records) {
                        wanted.push(Wanted::Next);
                    }
                }
            }
        }
        Ok(wanted)
    }

    /// Another client has no transaction below `low`. Below which stamp there is none at all (section 4.4), if all
    /// `clients` have said.
    pub fn watermark(&mut self, of: u32, low: Stamp, clients: usize, now_us: u64) -> Option<Stamp> {
        self.low.insert(of, (low, now_us));
        let heard = |(_, heard_us): &&(Stamp, u64)| now_us < heard_us + SILENT_US || !on(Fault::SilentDropped);
        let others = self.low.values().filter(heard).map(|(low, _)| *low);
        let all = self.low.len() + 1 == clients;
        all.then(|| others.chain([self.core.low_water(self.clock.now_us(now_us))]).min()).flatten()
    }

    /// A transaction begins.
    pub fn begin(&mut self, script: Script, txn: u64, now_us: u64, records: &mut Vec<Record>) {
        let session = (txn % SESSIONS) as u32;
        let committed = Committed {
            client: self.life,
            session,
            level: script.level,
            began_us: now_us,
            ended_us: None,
            stamp: Stamp::ZERO,
            reads: Vec::new(),
            writes: script.writes.iter().cloned().collect(),
            number: txn,
        };
        self.core.step(Event::Begin(txn, session, script.level), self.clock.now_us(now_us));
        records.push(Record { committed, acknowledged: false });
        self.current = Some((script, txn, records.len() - 1));
    }

    /// It reads its next level, or commits.
    pub fn go_on(&mut self, txn: u64, now_us: u64, records: &mut [Record]) -> Result<Vec<Wanted>, String> {
        let Some((script, of, record)) = &mut self.current else { return Ok(Vec::new()) };
        if *of != txn {
            return Ok(Vec::new());
        }
        if !script.reads.is_empty() {
            let level = script.reads.remove(0);
            return self.step(Event::Read(txn, level), now_us, records);
        }
        let (writes, record) = (std::mem::take(&mut script.writes), *record);
        for key in writes {
            let value = Value::bytes(txn.to_string().into_bytes());
            self.step(Event::Write(txn, key, Some(value)), now_us, records)?;
        }
        let wanted = self.step(Event::Commit(txn), now_us, records)?;
        let stamp = wanted.iter().find_map(|wanted| match wanted {
            Wanted::Send(_, Message::Validate(asked)) if asked.parties.is_some() => Some(asked.stamp),
            _ => None,
        });
        if let Some(stamp) = stamp {
            records[record].committed.stamp = stamp;
        }
        Ok(wanted)
    }

    /// What was read is noted; whether there is more to do.
    fn read(&mut self, txn: u64, served: Vec<(Key, Served)>, records: &mut [Record]) -> Result<bool, String> {
        let Some((_, _, record)) = self.current.as_ref().filter(|(_, of, _)| *of == txn) else { return Ok(false) };
        for (key, Served { version, value, cached, .. }) in served {
            if cached && self.named.get(&key) == Some(&version) {
                return Err(format!("a copy is used after it was named as stale: {:?}", records[*record]));
            }
            let number = value.map(|value| match &value.data {
                Data::Bytes(bytes) => String::from_utf8_lossy(&bytes.joined()).parse().unwrap_or(u64::MAX),
                _ => u64::MAX,
            });
            records[*record].committed.reads.push((key, version, number));
        }
        Ok(true)
    }

    fn ended(&mut self, txn: u64, end: End, now_us: u64, records: &mut [Record]) -> bool {
        let Some((_, _, record)) = self.current.take_if(|(_, of, _)| *of == txn) else { return false };
        let record = &mut records[record];
        self.named.clear();
        self.last = self.last.map(|_| matches!(end, End::Committed(_)));
        match end {
            End::Committed(stamp) => {
                record.committed.stamp = stamp;
                record.committed.ended_us = Some(now_us);
                record.acknowledged = true;
            }
            End::Aborted(Reason::Stale(keys)) => {
                let keys: BTreeSet<Key> = keys.into_iter().collect();
                let named = record.committed.reads.iter().filter(|(key, ..)| keys.contains(key));
                self.named = named.map(|(key, version, _)| (key.clone(), *version)).collect();
            }
            End::Aborted(_) | End::Unknown(_) => {}
        }
        true
    }
}
