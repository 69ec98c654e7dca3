//! The list-append tester: every client appends numbers of its own to lists that all share. Read back, a list tells
//! what was lost, what is there twice, and what came out of order.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use forebay_protocol::Reply;
pub use forebay_workload::checkers::appends::Told;
use forebay_workload::checkers::appends::{Fate, judge};

use crate::common::Connection;

/// Stops the clients, also if what happens meanwhile panics.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// So many lists.
pub struct Appends {
    lists: u64,
    clients: AtomicU32,
}

impl Appends {
    pub fn new(lists: u64) -> Appends {
        Appends { lists, clients: AtomicU32::new(0) }
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
            let fate = match connection.call(&["RPUSH", &format!("list{}", next.list), &next.element()]) {
                Reply::Integer(_) => Fate::Acknowledged,
                Reply::Error(text) if text.starts_with(b"STOREDOWN") => Fate::Refused,
                Reply::Error(text) if text.starts_with(b"TXUNKNOWN") => Fate::Unknown,
                other => panic!("{other:?}"),
            };
            told.push(Told { fate, ..next });
        }
        told
    }

    /// Panics if anything acknowledged is missing, or anything at all is there twice or out of its client's order.
    pub fn check(&self, told: &[Told], connection: &mut Connection) {
        let mut read = |list: u64| match connection.call(&["LRANGE", &format!("list{list}"), "0", "-1"]) {
            Reply::Array(elements) => elements.into_iter().map(bytes).collect(),
            other => panic!("list{list} can't be read: {other:?}"),
        };
        let findings = judge(told, &(0..self.lists).map(|list| (list, read(list))).collect());
        assert!(findings.acknowledged > 0, "nothing was acknowledged");
        findings.verdict().unwrap_or_else(|breach| panic!("{breach}"));
    }
}

fn bytes(element: Reply) -> Vec<u8> {
    match element {
        Reply::Bulk(bytes) => bytes.to_vec(),
        other => panic!("{other:?}"),
    }
}
