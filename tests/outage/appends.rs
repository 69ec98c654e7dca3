//! The list-append tester: every client appends numbers of its own to lists that all share. Read back, a list tells
//! what was lost, what is there twice, and what came out of order.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::state::PATIENCE;

/// What one client was told: the list, its number, and whether it was acknowledged (else it may be there or not).
#[derive(Clone, Debug)]
pub struct Told {
    list: usize,
    client: u64,
    number: u64,
    acknowledged: bool,
}

/// Stops the clients, also if what happens meanwhile panics.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A connection, as soon as there can be one.
pub fn connected(address: SocketAddr) -> Connection {
    let began = Instant::now();
    loop {
        match Connection::try_new(address) {
            Ok(connection) => return connection,
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// So many lists.
pub struct Appends {
    lists: usize,
    clients: AtomicU64,
    acknowledged: AtomicU64,
    refused: AtomicU64,
    lossy: bool,
    pause: Duration,
}

impl Appends {
    pub fn new(lists: usize) -> Appends {
        let (clients, acknowledged, refused) = Default::default();
        Appends { lists, clients, acknowledged, refused, lossy: false, pause: Duration::ZERO }
    }

    /// Connections may be lost: what was sent on them is not acknowledged.
    pub fn over_a_bad_network(self) -> Appends {
        Appends { lossy: true, ..self }
    }

    /// Each client rests so long between two appends.
    pub fn with_pause(self, pause: Duration) -> Appends {
        Appends { pause, ..self }
    }

    /// Appends that were acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Appends that were refused so far.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::SeqCst)
    }

    /// Has `clients` append for as long as `meanwhile` takes.
    pub fn run(&self, address: SocketAddr, clients: usize, meanwhile: impl FnOnce()) -> Vec<Told> {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..clients).map(|_| scope.spawn(|| self.append(address, &stop))).collect();
            let ended = Stopping(&stop);
            meanwhile();
            drop(ended);
            running.into_iter().flat_map(|client| client.join().expect("the client ends well")).collect()
        })
    }

    fn append(&self, address: SocketAddr, stop: &AtomicBool) -> Vec<Told> {
        let client = self.clients.fetch_add(1, Ordering::SeqCst);
        let mut connection = Connection::new(address);
        let mut told = Vec::new();
        let mut number = 0;
        while !stop.load(Ordering::SeqCst) {
            number += 1;
            let list = (number + client) as usize % self.lists;
            let element = format!("{client}:{number}");
            let acknowledged = match connection.try_call(&["RPUSH", &format!("list{list}"), &element]) {
                Ok(Reply::Integer(_)) => true,
                Ok(Reply::Error(text)) if text.starts_with(b"STOREDOWN") => {
                    self.refused.fetch_add(1, Ordering::SeqCst);
                    continue;
                }
                Ok(Reply::Error(text)) if text.starts_with(b"TXUNKNOWN") => false,
                Err(_) if self.lossy => {
                    connection = connected(address);
                    false
                }
                other => panic!("{other:?}"),
            };
            self.acknowledged.fetch_add(acknowledged.into(), Ordering::SeqCst);
            told.push(Told { list, client, number, acknowledged });
            std::thread::sleep(self.pause);
        }
        told
    }

    /// Panics if anything acknowledged is missing, or anything at all is there twice or out of its client's order.
    pub fn check(&self, told: &[Told], connection: &mut Connection) {
        let acknowledged = told.iter().filter(|told| told.acknowledged).count();
        assert!(acknowledged > 0, "nothing was acknowledged");
        let mut told_of: BTreeMap<usize, Vec<&Told>> = BTreeMap::new();
        for told in told.iter().filter(|told| told.acknowledged) {
            told_of.entry(told.list).or_default().push(told);
        }
        for list in 0..self.lists {
            let Reply::Array(elements) = connection.call(&["LRANGE", &format!("list{list}"), "0", "-1"]) else {
                panic!("list{list} can't be read");
            };
            let mut found: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
            for element in &elements {
                let Reply::Bulk(text) = element else { panic!("{element:?}") };
                let text = String::from_utf8_lossy(text);
                let (client, number) = text.split_once(':').expect("client:number");
                found.entry(client.parse().expect("a number")).or_default().push(number.parse().expect("a number"));
            }
            for (client, numbers) in &found {
                let rises = numbers.windows(2).all(|pair| pair[0] < pair[1]);
                assert!(rises, "list{list}: client {client} is there twice or out of order: {numbers:?}");
            }
            for told in told_of.remove(&list).unwrap_or_default() {
                let there = found.get(&told.client).is_some_and(|numbers| numbers.binary_search(&told.number).is_ok());
                assert!(there, "list{list} lost {told:?} of {acknowledged} acknowledged");
            }
        }
    }
}
