//! The list-append tester: every client appends separate numbers to lists that all share. Read back, a list tells
//! what was lost, what is there twice, and what came out of order.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forebay_protocol::Reply;
pub use forebay_workload::checkers::appends::Told;
use forebay_workload::checkers::appends::{Fate, judge};

use crate::common::Connection;
use crate::state::PATIENCE;

/// Stops the clients, also if what happens during that panics.
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
    lists: u64,
    clients: AtomicU32,
    acknowledged: AtomicU64,
    refused: AtomicU64,
    lossy: bool,
    pause: Duration,
}

impl Appends {
    pub fn new(lists: u64) -> Appends {
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
        let writer = self.clients.fetch_add(1, Ordering::SeqCst);
        let mut connection = Connection::new(address);
        let mut told = Vec::new();
        let mut number = 0;
        while !stop.load(Ordering::SeqCst) {
            number += 1;
            let next = Told { list: u64::from(number + writer) % self.lists, writer, number, fate: Fate::Unknown };
            let fate = match connection.try_call(&["RPUSH", &format!("list{}", next.list), &next.element()]) {
                Ok(Reply::Integer(_)) => Fate::Acknowledged,
                Ok(Reply::Error(text)) if text.starts_with(b"STOREDOWN") => Fate::Refused,
                Ok(Reply::Error(text)) if text.starts_with(b"TXUNKNOWN") => Fate::Unknown,
                Err(_) if self.lossy => {
                    connection = connected(address);
                    Fate::Silent
                }
                other => panic!("{other:?}"),
            };
            self.acknowledged.fetch_add((fate == Fate::Acknowledged).into(), Ordering::SeqCst);
            self.refused.fetch_add((fate == Fate::Refused).into(), Ordering::SeqCst);
            told.push(Told { fate, ..next });
            std::thread::sleep(self.pause);
        }
        told
    }

    /// Has all lists in the cache, so that appends need nothing of the store.
    pub fn cache(&self, address: SocketAddr) {
        let mut connection = Connection::new(address);
        (0..self.lists).for_each(|list| drop(elements(list, &mut connection)));
    }

    /// Panics if anything acknowledged is missing, or anything at all is there twice or out of its client's order.
    pub fn check(&self, told: &[Told], connection: &mut Connection) {
        self.judge(told, |list| elements(list, connection));
    }

    /// The same, of lists that are read by `read`.
    pub fn judge(&self, told: &[Told], mut read: impl FnMut(u64) -> Vec<Vec<u8>>) {
        let findings = judge(told, &(0..self.lists).map(|list| (list, read(list))).collect());
        assert!(findings.acknowledged > 0, "nothing was acknowledged");
        findings.verdict().unwrap_or_else(|breach| panic!("{breach}"));
    }
}

/// A list, as soon as it can be read.
fn elements(list: u64, connection: &mut Connection) -> Vec<Vec<u8>> {
    let began = Instant::now();
    loop {
        match connection.call(&["LRANGE", &format!("list{list}"), "0", "-1"]) {
            Reply::Array(elements) => return elements.into_iter().map(bytes).collect(),
            // A busy machine lets the database answer late.
            Reply::Error(text) if text.starts_with(b"STOREDOWN") && began.elapsed() < PATIENCE => {}
            other => panic!("list{list} can't be read: {other:?}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn bytes(element: Reply) -> Vec<u8> {
    match element {
        Reply::Bulk(bytes) => bytes.to_vec(),
        other => panic!("{other:?}"),
    }
}
