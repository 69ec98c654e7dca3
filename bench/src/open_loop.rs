//! Latency in an open loop: requests are sent when they are due, whatever became of those before.
//!
//! A request's latency counts from the moment at which it was due, not from the one at which it was sent. What waits
//! because the server, or this generator, is behind has waited (no coordinated omission). The generator never sleeps;
//! how late it was itself is told beside the latencies.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Poll};

use crate::generator::{INPUT_BYTES, SILENCE_MAX, connect, read, write};
use crate::replies::{Counts, Protocol, Replies};
use crate::workload::{Kind, Order, Requests, ValueBytes};

/// Requests looked at between two looks at the sockets.
const BURST_MAX: usize = 16;

/// What is sent: one GET after the other, at equal distances, over all connections in turn.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How the server is spoken to.
    pub protocol: Protocol,
    /// Connections.
    pub connections: usize,
    /// Requests per second, all together.
    pub rate: f64,
    /// For so long.
    pub time: Duration,
    /// Keys are numbered from 0 to this, and all are there.
    pub keys: u64,
    /// Of keys.
    pub seed: u64,
}

/// How long requests took.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// From when each was due to its reply, in ns, ascending.
    due_ns: Vec<u64>,
    /// From when each was due to when it was sent, in ns, ascending.
    behind_ns: Vec<u64>,
}

impl Latencies {
    /// The latency in microseconds that `share` of the requests did not exceed.
    pub fn us(&self, share: f64) -> f64 {
        at(&self.due_ns, share)
    }

    /// Likewise of how late requests were sent.
    pub fn behind_us(&self, share: f64) -> f64 {
        at(&self.behind_ns, share)
    }
}

fn at(sorted: &[u64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).map_or(f64::NAN, |ns| *ns as f64 / 1000.0)
}

struct Connection {
    stream: TcpStream,
    /// What could not be written yet.
    unsent: Vec<u8>,
    /// When those that are not answered were due.
    due: VecDeque<Instant>,
    replies: Replies,
}

/// Sends at `pace` to the server at `address`; every request must find its key.
pub fn run(address: SocketAddr, pace: &Pace) -> io::Result<Latencies> {
    let count = (pace.rate * pace.time.as_secs_f64()) as usize;
    let mut poll = Poll::new()?;
    let mut connections = Vec::with_capacity(pace.connections);
    for number in 0..pace.connections {
        let stream = connect(address, &poll, number)?;
        let replies = Replies::new(pace.protocol);
        connections.push(Connection { stream, unsent: Vec::new(), due: VecDeque::with_capacity(1024), replies });
    }
    let value = ValueBytes::Fixed(1);
    let mut requests = Requests::new(Kind::Get, pace.protocol, pace.keys, Order::Random, value, pace.seed);
    let mut events = Events::with_capacity(pace.connections.max(16));
    let (mut input, mut counts) = (vec![0; INPUT_BYTES], Counts::default());
    let mut latencies = Latencies { due_ns: Vec::with_capacity(count), behind_ns: Vec::with_capacity(count) };
    let (began, mut sent) = (Instant::now(), 0);
    let due_at = |number: usize| began + Duration::from_secs_f64(number as f64 / pace.rate);
    let mut heard = began;
    while latencies.due_ns.len() < count {
        for _ in 0..BURST_MAX {
            let (now, due) = (Instant::now(), due_at(sent));
            if sent == count || due > now {
                break;
            }
            let connection = &mut connections[sent % pace.connections];
            latencies.behind_ns.push((now - due).as_nanos() as u64);
            connection.send(&mut requests, due)?;
            sent += 1;
        }
        poll.poll(&mut events, Some(Duration::ZERO))?;
        for event in &events {
            heard = Instant::now();
            connections[event.token().0].hear(&mut input, &mut counts, &mut latencies.due_ns)?;
        }
        if heard.elapsed() > SILENCE_MAX {
            return Err(io::Error::new(ErrorKind::TimedOut, "the server has fallen silent"));
        }
    }
    Kind::Get.check(count as u64, &counts).map_err(io::Error::other)?;
    latencies.due_ns.sort_unstable();
    latencies.behind_ns.sort_unstable();
    Ok(latencies)
}

impl Connection {
    fn send(&mut self, requests: &mut Requests, due: Instant) -> io::Result<()> {
        requests.push(&mut self.unsent);
        self.due.push_back(due);
        self.replies.left += 1;
        self.write()
    }

    fn write(&mut self) -> io::Result<()> {
        let sent = write(&mut self.stream, &self.unsent)?;
        self.unsent.drain(..sent);
        Ok(())
    }

    fn hear(&mut self, input: &mut [u8], counts: &mut Counts, latencies: &mut Vec<u64>) -> io::Result<()> {
        if !self.unsent.is_empty() {
            self.write()?;
        }
        while let Some(count) = read(&mut self.stream, input)? {
            let before = self.replies.left;
            self.replies.take(&input[..count], counts)?;
            let now = Instant::now();
            for due in self.due.drain(..(before - self.replies.left) as usize) {
                latencies.push((now - due).as_nanos() as u64);
            }
            if count < input.len() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn percentiles_are_those_of_the_sorted() {
        let sorted: Vec<u64> = (1..=1000).map(|us| us * 1000).collect();
        let latencies = Latencies { due_ns: sorted, behind_ns: Vec::new() };
        assert_eq!([0.5, 0.99, 0.999, 1.0].map(|share| latencies.us(share)), [500.0, 990.0, 999.0, 1000.0]);
        assert!(latencies.behind_us(0.5).is_nan());
    }

    /// A server that stands still is not forgiven: what was due in that time has waited.
    #[test]
    fn a_stall_counts_for_all_that_was_due_in_it() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let stall = Duration::from_millis(200);
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = vec![0; 64 * 1024];
            let mut pending = stream.read(&mut bytes).unwrap();
            std::thread::sleep(stall);
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                pending += count;
                let whole = pending / 36;
                pending %= 36;
                stream.write_all(&b"$1\r\nx\r\n".repeat(whole)).unwrap();
            }
        });
        let time = Duration::from_millis(400);
        let protocol = Protocol::Resp;
        let pace = Pace { protocol, connections: 1, rate: 1000.0, time, keys: 10, seed: 1 };
        let latencies = run(address, &pace).unwrap();
        assert_eq!(latencies.due_ns.len(), 400);
        // Half of all requests were due while it stood still; the first waited for all of it.
        assert!(latencies.us(1.0) >= 200_000.0, "{}", latencies.us(1.0));
        assert!(
            latencies.us(0.75) >= 50_000.0,
            "more than a quarter waited for a quarter of it: {}",
            latencies.us(0.75)
        );
    }
}
