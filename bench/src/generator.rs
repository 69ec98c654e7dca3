//! The load generator: one thread, many connections, a pipeline of requests on each, closed loop.
//!
//! Every connection sends a batch, reads all its replies, checks them, and sends the next. While it runs nothing is
//! allocated. A reply is recognised by its first line and skipped by its length: cheaper than any server can be.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fastrand::Rng;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::program::own_cpu_seconds;

/// Bytes of a key: `key:` and twelve digits.
pub const KEY_BYTES: usize = 16;

/// No reply for so long is a failure.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Bytes read at once.
const INPUT_BYTES: usize = 256 * 1024;

/// How long values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueBytes {
    /// All the same.
    Fixed(usize),
    /// As many of each power of two between the two, both included.
    LogUniform(usize, usize),
}

impl ValueBytes {
    fn draw(self, random: &mut Rng) -> usize {
        match self {
            ValueBytes::Fixed(bytes) => bytes,
            ValueBytes::LogUniform(low, high) => {
                let exponent = (low as f64).log2() + random.f64() * ((high as f64).log2() - (low as f64).log2());
                (exponent.exp2() as usize).clamp(low, high)
            }
        }
    }

    fn longest(self) -> usize {
        match self {
            ValueBytes::Fixed(bytes) | ValueBytes::LogUniform(_, bytes) => bytes,
        }
    }
}

/// Which keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Any key at random, all alike.
    Random,
    /// One after the other, from 0: for preloading.
    Sequential,
}

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Connections.
    pub connections: usize,
    /// Requests of one connection that are sent together.
    pub pipeline: usize,
    /// Keys are numbered from 0 to this.
    pub keys: u64,
    /// Which of them.
    pub order: Order,
    /// Of 100 requests so many are SET, the others GET.
    pub writes_percent: u8,
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
    /// GETs that were answered with a value.
    pub hits: u64,
    /// GETs that were answered with nil.
    pub misses: u64,
    /// SETs that were answered with OK.
    pub writes: u64,
    /// Seconds from the first request to the last reply.
    pub seconds: f64,
    /// Seconds that the generator itself was on its CPU.
    pub own_seconds: f64,
}

impl Outcome {
    /// Requests answered.
    pub fn requests(&self) -> u64 {
        self.hits + self.misses + self.writes
    }

    /// Requests per second.
    pub fn throughput(&self) -> f64 {
        self.requests() as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// How much of the time the generator was busy, 0 to 1.
    pub fn busy(&self) -> f64 {
        self.own_seconds / self.seconds.max(f64::MIN_POSITIVE)
    }
}

/// Sends `load` to the server at `address` and checks every reply.
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
    generator.outcome.seconds = began.elapsed().as_secs_f64();
    generator.outcome.own_seconds = own_cpu_seconds()? - own_began;
    Ok(generator.outcome)
}

struct Generator {
    poll: Poll,
    connections: Vec<Connection>,
    requests: Requests,
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
    replies: Replies,
}

impl Generator {
    fn connect(address: SocketAddr, load: &Load) -> io::Result<Generator> {
        let poll = Poll::new()?;
        let mut connections = Vec::with_capacity(load.connections);
        for number in 0..load.connections {
            let stream = std::net::TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(number), Interest::READABLE | Interest::WRITABLE)?;
            connections.push(Connection { stream, batch: Vec::new(), sent: 0, replies: Replies::default() });
        }
        let requests = Requests::new(*load);
        let input = vec![0; INPUT_BYTES];
        Ok(Generator { poll, connections, requests, input, waiting: 0, outcome: Outcome::default() })
    }

    fn send_all(&mut self) -> io::Result<()> {
        for connection in &mut self.connections {
            if self.requests.fill(connection) {
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
            let count = match connection.stream.read(&mut self.input) {
                Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server has hung up")),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            connection.replies.take(&self.input[..count], &mut self.outcome)?;
            if connection.replies.left > 0 {
                continue;
            }
            if more && self.requests.fill(connection) {
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
        while self.sent < self.batch.len() {
            match self.stream.write(&self.batch[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Makes requests.
struct Requests {
    load: Load,
    random: Rng,
    next: u64,
    left: u64,
    /// Bytes that values are cut from.
    noise: Vec<u8>,
}

impl Requests {
    fn new(load: Load) -> Requests {
        let mut random = Rng::with_seed(load.seed);
        let noise = (0..2 * load.value.longest().max(1)).map(|_| random.alphanumeric() as u8).collect();
        Requests { load, random, next: 0, left: load.requests, noise }
    }

    /// The next batch of a connection; false when all requests have been made.
    fn fill(&mut self, connection: &mut Connection) -> bool {
        let count = self.left.min(self.load.pipeline as u64);
        connection.batch.clear();
        connection.sent = 0;
        connection.replies = Replies { left: count, ..Replies::default() };
        self.left -= count;
        for _ in 0..count {
            self.request(&mut connection.batch);
        }
        count > 0
    }

    fn request(&mut self, out: &mut Vec<u8>) {
        let number = match self.load.order {
            Order::Random => self.random.u64(0..self.load.keys),
            Order::Sequential => {
                self.next += 1;
                (self.next - 1) % self.load.keys
            }
        };
        let percent = self.load.writes_percent;
        let writes = percent == 100 || (percent > 0 && self.random.u8(0..100) < percent);
        out.extend_from_slice(if writes { b"*3\r\n$3\r\nSET\r\n$16\r\n" } else { b"*2\r\n$3\r\nGET\r\n$16\r\n" });
        out.extend_from_slice(&key(number));
        out.extend_from_slice(b"\r\n");
        if writes {
            let length = self.load.value.draw(&mut self.random);
            let from = self.random.usize(0..=self.noise.len() - length);
            // Writing to a vector can't fail.
            let _ = write!(out, "${length}\r\n");
            out.extend_from_slice(&self.noise[from..from + length]);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// The key with this number.
pub fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = *b"key:000000000000";
    let mut rest = number;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Where one connection stands in the replies to its batch.
#[derive(Default)]
struct Replies {
    /// Replies that are still to begin or to end.
    left: u64,
    /// Bytes of a value, its line end included, still to be skipped.
    skip: usize,
    /// The reply's first line as far as it is there.
    line: [u8; 24],
    line_bytes: usize,
}

impl Replies {
    fn take(&mut self, mut bytes: &[u8], outcome: &mut Outcome) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.skip > 0 {
                let skipped = self.skip.min(bytes.len());
                (self.skip, bytes) = (self.skip - skipped, &bytes[skipped..]);
                if self.skip == 0 {
                    self.left -= 1;
                }
                continue;
            }
            if self.left == 0 {
                return Err(io::Error::other("more replies than requests"));
            }
            let ended = bytes[0] == b'\n';
            let room = self.line.get_mut(self.line_bytes);
            *room.ok_or_else(|| io::Error::other("a reply with a long first line"))? = bytes[0];
            (self.line_bytes, bytes) = (self.line_bytes + 1, &bytes[1..]);
            if ended {
                self.line_ended(outcome)?;
            }
        }
        Ok(())
    }

    fn line_ended(&mut self, outcome: &mut Outcome) -> io::Result<()> {
        let line = &self.line[..std::mem::take(&mut self.line_bytes)];
        match line {
            b"+OK\r\n" => outcome.writes += 1,
            b"$-1\r\n" | b"_\r\n" => outcome.misses += 1,
            [b'$', digits @ .., b'\r', b'\n'] => {
                let length = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<usize>().ok());
                let length = length.ok_or_else(|| io::Error::other("a value without a length"))?;
                outcome.hits += 1;
                self.skip = length + 2;
                return Ok(());
            }
            line => return Err(io::Error::other(format!("the server says {}", line.escape_ascii()))),
        }
        self.left -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_counted_however_they_are_cut() {
        let stream = b"$3\r\na\nb\r\n$-1\r\n+OK\r\n$0\r\n\r\n$12\r\n+OK\r\n+OK\r\n12\r\n";
        for cut in 1..=stream.len() {
            let mut replies = Replies { left: 5, ..Replies::default() };
            let mut outcome = Outcome::default();
            for part in stream.chunks(cut) {
                replies.take(part, &mut outcome).unwrap();
            }
            assert_eq!((outcome.hits, outcome.misses, outcome.writes, replies.left), (3, 1, 1, 0), "cut {cut}");
            assert!(replies.take(b"+", &mut outcome).is_err(), "more than was asked");
        }
    }

    #[test]
    fn an_error_is_not_a_reply() {
        let mut replies = Replies { left: 1, ..Replies::default() };
        assert!(replies.take(b"-ERR no\r\n", &mut Outcome::default()).is_err());
    }

    #[test]
    fn keys_and_lengths_are_what_they_say() {
        assert_eq!(&key(90_210), b"key:000000090210");
        let mut random = Rng::with_seed(7);
        let lengths: Vec<usize> = (0..2000).map(|_| ValueBytes::LogUniform(64, 16_384).draw(&mut random)).collect();
        assert!(lengths.iter().all(|length| (64..=16_384).contains(length)));
        let short = lengths.iter().filter(|length| **length < 1024).count();
        assert!((800..1200).contains(&short), "half of the powers of two lie below: {short}");
    }
}
