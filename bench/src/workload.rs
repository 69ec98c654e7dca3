//! What is asked of a server, in its protocol, and what its replies must be in all.

use std::io::Write;

use fastrand::Rng;

use crate::replies::{Counts, Protocol};

/// Bytes of a key: four letters and twelve digits.
pub const KEY_BYTES: usize = 16;

/// Keys of one MGET.
pub const MGET_KEYS: u64 = 10;

/// Fields of a hash; together they hold a value's bytes.
pub const HASH_FIELDS: usize = 8;

/// SETs of one MULTI/EXEC.
pub const EXEC_SETS: u64 = 3;

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// GET of a key that is there.
    Get,
    /// GET of a key that is not.
    GetMiss,
    /// SET.
    Set,
    /// GET or SET of keys that are there: of 100 requests so many are SET.
    Mixed(u8),
    /// GET of [`MGET_KEYS`] keys at once.
    Mget,
    /// HSET of one field of a hash of [`HASH_FIELDS`].
    Hset,
    /// HSET of all fields: for preloading.
    HsetAll,
    /// HGETALL of a hash of [`HASH_FIELDS`].
    Hgetall,
    /// MULTI, [`EXEC_SETS`] SETs, EXEC: counted as one request.
    Exec,
}

impl Kind {
    /// As options and tables name it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Get => "get",
            Kind::GetMiss => "get-miss",
            Kind::Set => "set",
            Kind::Mixed(_) => "mixed",
            Kind::Mget => "mget",
            Kind::Hset => "hset",
            Kind::HsetAll => "hset-all",
            Kind::Hgetall => "hgetall",
            Kind::Exec => "exec",
        }
    }

    /// Whether it changes anything.
    pub fn writes(self) -> bool {
        !matches!(self, Kind::Get | Kind::GetMiss | Kind::Mget | Kind::Hgetall)
    }

    /// Whether `protocol` knows it.
    pub fn spoken(self, protocol: Protocol) -> bool {
        protocol == Protocol::Resp
            || matches!(self, Kind::Get | Kind::GetMiss | Kind::Set | Kind::Mixed(_) | Kind::Mget)
    }

    /// Replies to one request.
    pub fn replies(self) -> u64 {
        if self == Kind::Exec { EXEC_SETS + 2 } else { 1 }
    }

    /// Says what is wrong if `requests` of it were not answered by exactly `counts`.
    pub fn check(self, requests: u64, counts: &Counts) -> Result<(), String> {
        let mut wanted = Counts::default();
        match self {
            Kind::Get => wanted.values = requests,
            Kind::GetMiss => wanted.absent = requests,
            Kind::Set => wanted.done = requests,
            Kind::Mget => wanted.values = requests * MGET_KEYS,
            Kind::Hset | Kind::HsetAll => wanted.numbers = requests,
            Kind::Hgetall => wanted.values = requests * 2 * HASH_FIELDS as u64,
            Kind::Exec => (wanted.done, wanted.queued) = (requests * (EXEC_SETS + 1), requests * EXEC_SETS),
            Kind::Mixed(_) if counts.values + counts.done + counts.absent == requests => return Ok(()),
            Kind::Mixed(_) => wanted.values = requests,
        }
        if *counts == wanted {
            return Ok(());
        }
        Err(format!("{requests} requests of {} were answered by {counts:?}, {wanted:?} was right", self.name()))
    }
}

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

/// Makes requests.
pub struct Requests {
    kind: Kind,
    protocol: Protocol,
    keys: u64,
    order: Order,
    value: ValueBytes,
    random: Rng,
    next: u64,
    /// Bytes that values are cut from.
    noise: Vec<u8>,
}

impl Requests {
    /// Requests of `kind` for `keys` keys.
    pub fn new(kind: Kind, protocol: Protocol, keys: u64, order: Order, value: ValueBytes, seed: u64) -> Requests {
        let mut random = Rng::with_seed(seed);
        let noise = (0..2 * value.longest().max(1)).map(|_| random.alphanumeric() as u8).collect();
        Requests { kind, protocol, keys, order, value, random, next: 0, noise }
    }

    fn number(&mut self) -> u64 {
        match self.order {
            Order::Random => self.random.u64(0..self.keys),
            Order::Sequential => {
                self.next += 1;
                (self.next - 1) % self.keys
            }
        }
    }

    /// Appends one request.
    pub fn push(&mut self, out: &mut Vec<u8>) {
        let kind = match self.kind {
            Kind::Mixed(percent) if self.random.u8(0..100) < percent => Kind::Set,
            Kind::Mixed(_) => Kind::Get,
            kind => kind,
        };
        match self.protocol {
            Protocol::Resp => self.push_resp(kind, out),
            Protocol::Memcached => self.push_memcached(kind, out),
        }
    }

    fn push_resp(&mut self, kind: Kind, out: &mut Vec<u8>) {
        match kind {
            Kind::Get | Kind::Mixed(_) => {
                out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
                self.push_key(b"key:", out);
            }
            Kind::GetMiss => {
                out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
                self.push_key(b"not:", out);
            }
            Kind::Set => self.push_set(out),
            Kind::Mget => {
                out.extend_from_slice(b"*11\r\n$4\r\nMGET\r\n");
                (0..MGET_KEYS).for_each(|_| self.push_key(b"key:", out));
            }
            Kind::Hset => {
                out.extend_from_slice(b"*4\r\n$4\r\nHSET\r\n");
                self.push_key(b"has:", out);
                let field = self.random.usize(0..HASH_FIELDS);
                self.push_field(field, out);
            }
            Kind::HsetAll => {
                // Writing to a vector can't fail, here and below.
                let _ = write!(out, "*{}\r\n$4\r\nHSET\r\n", 2 + 2 * HASH_FIELDS);
                self.push_key(b"has:", out);
                (0..HASH_FIELDS).for_each(|field| self.push_field(field, out));
            }
            Kind::Hgetall => {
                out.extend_from_slice(b"*2\r\n$7\r\nHGETALL\r\n");
                self.push_key(b"has:", out);
            }
            Kind::Exec => {
                out.extend_from_slice(b"*1\r\n$5\r\nMULTI\r\n");
                (0..EXEC_SETS).for_each(|_| self.push_set(out));
                out.extend_from_slice(b"*1\r\n$4\r\nEXEC\r\n");
            }
        }
    }

    fn push_set(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
        self.push_key(b"key:", out);
        let length = self.value.draw(&mut self.random);
        let _ = write!(out, "${length}\r\n");
        self.push_value(length, out);
    }

    fn push_key(&mut self, letters: &[u8; 4], out: &mut Vec<u8>) {
        out.extend_from_slice(b"$16\r\n");
        out.extend_from_slice(&key(letters, self.number()));
        out.extend_from_slice(b"\r\n");
    }

    fn push_field(&mut self, field: usize, out: &mut Vec<u8>) {
        let length = (self.value.longest() / HASH_FIELDS).max(1);
        let _ = write!(out, "$2\r\nf{field}\r\n${length}\r\n");
        self.push_value(length, out);
    }

    fn push_value(&mut self, length: usize, out: &mut Vec<u8>) {
        let from = self.random.usize(0..=self.noise.len() - length);
        out.extend_from_slice(&self.noise[from..from + length]);
        out.extend_from_slice(b"\r\n");
    }

    fn push_memcached(&mut self, kind: Kind, out: &mut Vec<u8>) {
        if kind == Kind::Set {
            let number = self.number();
            let length = self.value.draw(&mut self.random);
            out.extend_from_slice(b"set ");
            out.extend_from_slice(&key(b"key:", number));
            let _ = write!(out, " 0 0 {length}\r\n");
            self.push_value(length, out);
            return;
        }
        if kind == Kind::Mget {
            out.extend_from_slice(b"get");
            for _ in 0..MGET_KEYS {
                out.push(b' ');
                out.extend_from_slice(&key(b"key:", self.number()));
            }
            out.extend_from_slice(b"\r\n");
            return;
        }
        out.extend_from_slice(b"mg ");
        out.extend_from_slice(&key(if kind == Kind::GetMiss { b"not:" } else { b"key:" }, self.number()));
        out.extend_from_slice(b" v\r\n");
    }
}

/// The key with this number, behind four letters.
pub fn key(letters: &[u8; 4], number: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..4].copy_from_slice(letters);
    let mut rest = number;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(kind: Kind, protocol: Protocol) -> String {
        let mut requests = Requests::new(kind, protocol, 100_000, Order::Sequential, ValueBytes::Fixed(8), 1);
        let mut out = Vec::new();
        requests.push(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn requests_are_what_their_protocol_says() {
        assert_eq!(one(Kind::Get, Protocol::Resp), "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000000\r\n");
        assert_eq!(one(Kind::GetMiss, Protocol::Memcached), "mg not:000000000000 v\r\n");
        let mget = one(Kind::Mget, Protocol::Memcached);
        assert!(mget.starts_with("get key:000000000000 key:000000000001 ") && mget.ends_with(" key:000000000009\r\n"));
        let set = one(Kind::Set, Protocol::Memcached);
        assert!(set.starts_with("set key:000000000000 0 0 8\r\n") && set.len() == 28 + 10, "{set}");
        let exec = one(Kind::Exec, Protocol::Resp);
        assert_eq!(exec.matches("SET").count() as u64, EXEC_SETS);
        assert!(one(Kind::HsetAll, Protocol::Resp).starts_with("*18\r\n$4\r\nHSET\r\n"));
        assert!(!Kind::Exec.spoken(Protocol::Memcached) && Kind::Mget.spoken(Protocol::Memcached));
    }

    #[test]
    fn a_miss_among_hits_is_seen() {
        let hits = Counts { values: 10, ..Counts::default() };
        assert!(Kind::Get.check(10, &hits).is_ok());
        assert!(Kind::Mget.check(1, &hits).is_ok());
        assert!(Kind::Get.check(10, &Counts { values: 9, absent: 1, ..Counts::default() }).is_err());
        assert!(Kind::Exec.check(1, &Counts { done: 4, queued: 3, ..Counts::default() }).is_ok());
    }

    #[test]
    fn keys_and_lengths_are_what_they_say() {
        assert_eq!(&key(b"key:", 90_210), b"key:000000090210");
        let mut random = Rng::with_seed(7);
        let lengths: Vec<usize> = (0..2000).map(|_| ValueBytes::LogUniform(64, 16_384).draw(&mut random)).collect();
        assert!(lengths.iter().all(|length| (64..=16_384).contains(length)));
        let short = lengths.iter().filter(|length| **length < 1024).count();
        assert!((800..1200).contains(&short), "half of the powers of two lie below: {short}");
    }
}
