//! The load generator: one thread, many connections, a pipeline of requests on each, closed loop.
//!
//! Every connection sends a batch, reads all its replies, checks them, and sends the next. While it runs nothing is
//! allocated.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::program::own_cpu_seconds;
use crate::replies::{Counts, Protocol, Replies};
use crate::workload::{Kind, Order, Requests, ValueBytes};

/// No reply for so long is a failure.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Bytes read at once.
pub(crate) const INPUT_BYTES: usize = 256 * 1024;

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// What is asked.
    pub kind: Kind,
    /// How.
    pub protocol: Protocol,
    /// Connections.
    pub connections: usize,
    /// Requests of one connection that are sent together.
    pub pipeline: usize,
    /// Keys are numbered from 0 to this.
    pub keys: u64,
    /// Which of them.
    pub order: Order,
    /// Length of the values that are written.
    pub value: ValueBytes,
    /// It ends after so long..
    pub time: Duration,
    /// ..or after so many requests.
    pub requests: u64,
    /// Seed of keys and lengths.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Requests answered.
    pub requests: u64,
    /// By what.
    pub counts: Counts,
    /// Seconds from the first request to the last reply.
    pub seconds: f64,
    /// Seconds that the generator itself was on its CPU.
    pub own_seconds: f64,
}

impl Outcome {
    /// Requests per second.
    pub fn throughput(&self) -> f64 {
        self.requests as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// How much of the time the generator was busy, 0 to 1.
    pub fn busy(&self) -> f64 {
        self.own_seconds / self.seconds.max(f64::MIN_POSITIVE)
    }
}

/// Sends `load` to the server at `address` and checks that the replies are all that `load.kind` is answered by.
pub fn run(address: SocketAddr, load: &Load) -> io::Result<Outcome> {
    let mut generator = Generator::connect(address, load)?;
    let (began, own_began) = (Instant::now(), own_cpu_seconds()?);
    generator.send_all()?;
    let mut events = Events::with_capacity(load.connections.max(16));
    while generator.waiting > 0 {
        generator.poll.poll(&mut events, Some(SILENCE_MAX))?;
        if events.is_empty() {
            return Err(io::Error::new(ErrorKind::TimedOut, "the server has fallen silent"));
        }
        for event in &events {
            let more = began.elapsed() < load.time;
            generator.serve(event.token().0, more)?;
        }
    }
    let mut outcome = generator.outcome;
    outcome.seconds = began.elapsed().as_secs_f64();
    outcome.own_seconds = own_cpu_seconds()? - own_began;
    load.kind.check(outcome.requests, &outcome.counts).map_err(io::Error::other)?;
    Ok(outcome)
}

struct Generator {
    poll: Poll,
    connections: Vec<Connection>,
    batches: Batches,
    input: Vec<u8>,
    /// Connections whose batch is not answered.
    waiting: usize,
    outcome: Outcome,
}

struct Connection {
    stream: TcpStream,
    /// The batch; what lies before `sent` is on its way.
    batch: Vec<u8>,
    sent: usize,
    /// Requests in it.
    requests: u64,
    replies: Replies,
}

/// Connects without waiting for anything later.
pub(crate) fn connect(address: SocketAddr, poll: &Poll, number: usize) -> io::Result<TcpStream> {
    let stream = std::net::TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let mut stream = TcpStream::from_std(stream);
    poll.registry().register(&mut stream, Token(number), Interest::READABLE | Interest::WRITABLE)?;
    Ok(stream)
}

/// Reads once; `None` if nothing is there.
pub(crate) fn read(stream: &mut TcpStream, input: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match stream.read(input) {
            Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server has hung up")),
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes as much of `bytes` as goes; how much went.
pub(crate) fn write(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

impl Generator {
    fn connect(address: SocketAddr, load: &Load) -> io::Result<Generator> {
        let poll = Poll::new()?;
        let mut connections = Vec::with_capacity(load.connections);
        for number in 0..load.connections {
            let stream = connect(address, &poll, number)?;
            let replies = Replies::new(load.protocol);
            connections.push(Connection { stream, batch: Vec::new(), sent: 0, requests: 0, replies });
        }
        let requests = Requests::new(load.kind, load.protocol, load.keys, load.order, load.value, load.seed);
        let batches = Batches { load: *load, requests, left: load.requests };
        let input = vec![0; INPUT_BYTES];
        Ok(Generator { poll, connections, batches, input, waiting: 0, outcome: Outcome::default() })
    }

    fn send_all(&mut self) -> io::Result<()> {
        for connection in &mut self.connections {
            if self.batches.fill(connection) {
                self.waiting += 1;
                connection.write()?;
            }
        }
        Ok(())
    }

    /// Reads what a connection has got; sends its next batch when this one is answered, if there is to be `more`.
    fn serve(&mut self, number: usize, more: bool) -> io::Result<()> {
        let connection = &mut self.connections[number];
        connection.write()?;
        while connection.replies.left > 0 {
            let Some(count) = read(&mut connection.stream, &mut self.input)? else { return Ok(()) };
            connection.replies.take(&self.input[..count], &mut self.outcome.counts)?;
            if connection.replies.left > 0 {
                continue;
            }
            self.outcome.requests += connection.requests;
            if more && self.batches.fill(connection) {
                connection.write()?;
                // Its replies are not there yet; a poll tells when they are.
                if count < self.input.len() {
                    return Ok(());
                }
            } else {
                self.waiting -= 1;
            }
        }
        Ok(())
    }
}

impl Connection {
    fn write(&mut self) -> io::Result<()> {
        if self.sent < self.batch.len() {
            self.sent += write(&mut self.stream, &self.batch[self.sent..])?;
        }
        Ok(())
    }
}

/// Makes batches of requests.
struct Batches {
    load: Load,
    requests: Requests,
    left: u64,
}

impl Batches {
    /// The next batch of a connection; false when all requests have been made.
    fn fill(&mut self, connection: &mut Connection) -> bool {
        let count = self.left.min(self.load.pipeline as u64);
        connection.batch.clear();
        connection.sent = 0;
        connection.requests = count;
        connection.replies.left = count * self.load.kind.replies();
        self.left -= count;
        for _ in 0..count {
            self.requests.push(&mut connection.batch);
        }
        count > 0
    }
}
