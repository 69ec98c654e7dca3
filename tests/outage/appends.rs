//! The list-append tester: every client appends numbers of its own to lists that all share. Read back, a list tells
//! what was lost, what is there twice, and what came out of order.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use forebay_protocol::Reply;

use crate::common::Connection;

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

/// So many lists.
pub struct Appends {
    lists: usize,
    clients: AtomicU64,
}

impl Appends {
    pub fn new(lists: usize) -> Appends {
        Appends { lists, clients: AtomicU64::new(0) }
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
            let acknowledged = match connection.call(&["RPUSH", &format!("list{list}"), &element]) {
                Reply::Integer(_) => true,
                Reply::Error(text) if text.starts_with(b"STOREDOWN") => continue,
                Reply::Error(text) if text.starts_with(b"TXUNKNOWN") => false,
                other => panic!("{other:?}"),
            };
            told.push(Told { list, client, number, acknowledged });
        }
        told
    }

    /// Panics if anything acknowledged is missing, or anything at all is there twice or out of its client's order.
    pub fn check(&self, told: &[Told], connection: &mut Connection) {
        let acknowledged = told.iter().filter(|told| told.acknowledged).count();
        assert!(acknowledged > 0, "nothing was acknowledged");
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
            for told in told.iter().filter(|told| told.list == list && told.acknowledged) {
                let there = found.get(&told.client).is_some_and(|numbers| numbers.binary_search(&told.number).is_ok());
                assert!(there, "list{list} lost {told:?} of {acknowledged} acknowledged");
            }
        }
    }
}
