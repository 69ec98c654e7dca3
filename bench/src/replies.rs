//! Replies are recognised by their first line and skipped by their length: cheaper than any server can be.

use std::io;

/// Longest first line of a reply.
const LINE_BYTES_MAX: usize = 64;

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Redis' RESP2.
    Resp,
    /// memcached's: `set`, `get` of several keys at once, `mg` of one: it answers pipelined `get` one by one.
    Memcached,
}

/// What replies there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Values, those within arrays included.
    pub values: u64,
    /// Nils; with memcached, answers without a value.
    pub absent: u64,
    /// `OK`, or `STORED`.
    pub done: u64,
    /// `QUEUED`.
    pub queued: u64,
    /// Integers.
    pub numbers: u64,
}

impl Counts {
    /// Adds those of another connection or run.
    pub fn add(&mut self, other: &Counts) {
        self.values += other.values;
        self.absent += other.absent;
        self.done += other.done;
        self.queued += other.queued;
        self.numbers += other.numbers;
    }
}

/// Where one connection stands in the replies that it waits for.
pub struct Replies {
    protocol: Protocol,
    /// Replies that are still to begin or to end.
    pub left: u64,
    /// Elements of the present reply that are still to begin or to end, if it is an array.
    elements: u64,
    /// Whether the present answer of memcached has a value.
    found: bool,
    /// Bytes of a value, its line end included, still to be skipped.
    skip: usize,
    /// Whether the value that is being skipped ends something that was awaited.
    counts: bool,
    /// The line as far as it is there.
    line: [u8; LINE_BYTES_MAX],
    line_bytes: usize,
}

impl Replies {
    /// None awaited.
    pub fn new(protocol: Protocol) -> Replies {
        Replies {
            protocol,
            left: 0,
            elements: 0,
            found: false,
            skip: 0,
            counts: false,
            line: [0; LINE_BYTES_MAX],
            line_bytes: 0,
        }
    }

    /// Takes in what has arrived.
    pub fn take(&mut self, mut bytes: &[u8], counts: &mut Counts) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.skip > 0 {
                let skipped = self.skip.min(bytes.len());
                (self.skip, bytes) = (self.skip - skipped, &bytes[skipped..]);
                if self.skip == 0 && self.counts {
                    self.one_ended();
                }
                continue;
            }
            if self.left == 0 {
                return Err(io::Error::other("more replies than requests"));
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (part, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            let room = self.line.get_mut(self.line_bytes..self.line_bytes + part.len());
            room.ok_or_else(|| io::Error::other("a reply with a long first line"))?.copy_from_slice(part);
            (self.line_bytes, bytes) = (self.line_bytes + part.len(), rest);
            if end.is_some() {
                self.line_ended(counts)?;
            }
        }
        Ok(())
    }

    /// A value, or something else that is not an array, is there as a whole.
    fn one_ended(&mut self) {
        self.elements = self.elements.saturating_sub(1);
        if self.elements == 0 {
            self.left -= 1;
        }
    }

    fn line_ended(&mut self, counts: &mut Counts) -> io::Result<()> {
        let line = &self.line[..std::mem::take(&mut self.line_bytes)];
        let Some(line) = line.strip_suffix(b"\r\n") else { return Err(unexpected(line)) };
        match self.protocol {
            Protocol::Resp => match line {
                b"+OK" => counts.done += 1,
                b"+QUEUED" => counts.queued += 1,
                b"$-1" | b"_" => counts.absent += 1,
                [b'$', digits @ ..] => {
                    self.skip = number(digits).ok_or_else(|| unexpected(line))? + 2;
                    self.counts = true;
                    counts.values += 1;
                    return Ok(());
                }
                [b':', ..] => counts.numbers += 1,
                // An array within another is not awaited; `one_ended` is for an empty one.
                [b'*', digits @ ..] if self.elements == 0 => {
                    self.elements = number(digits).ok_or_else(|| unexpected(line))? as u64;
                    if self.elements > 0 {
                        return Ok(());
                    }
                }
                line => return Err(unexpected(line)),
            },
            Protocol::Memcached => match line {
                b"STORED" => counts.done += 1,
                b"END" => counts.absent += u64::from(!std::mem::take(&mut self.found)),
                [b'V', b'A', b'L', b'U', b'E', b' ', ..] => {
                    let digits = line.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
                    self.skip = number(digits).ok_or_else(|| unexpected(line))? + 2;
                    (self.found, self.counts) = (true, false);
                    counts.values += 1;
                    return Ok(());
                }
                b"EN" => counts.absent += 1,
                [b'V', b'A', b' ', digits @ ..] => {
                    self.skip = number(digits).ok_or_else(|| unexpected(line))? + 2;
                    self.counts = true;
                    counts.values += 1;
                    return Ok(());
                }
                line => return Err(unexpected(line)),
            },
        }
        self.one_ended();
        Ok(())
    }
}

fn unexpected(line: &[u8]) -> io::Error {
    io::Error::other(format!("the server says {}", line.escape_ascii()))
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(protocol: Protocol, stream: &[u8], left: u64, wanted: Counts) {
        for cut in 1..=stream.len() {
            let mut replies = Replies::new(protocol);
            replies.left = left;
            let mut counts = Counts::default();
            for part in stream.chunks(cut) {
                replies.take(part, &mut counts).unwrap();
            }
            assert_eq!((counts, replies.left), (wanted, 0), "cut {cut}");
            assert!(replies.take(b"+", &mut counts).is_err(), "more than was asked");
        }
    }

    #[test]
    fn replies_are_counted_however_they_are_cut() {
        let stream = b"$3\r\na\nb\r\n$-1\r\n+OK\r\n$0\r\n\r\n$12\r\n+OK\r\n+OK\r\n12\r\n:5\r\n*0\r\n";
        counted(Protocol::Resp, stream, 7, Counts { values: 3, absent: 1, done: 1, numbers: 1, ..Counts::default() });
        let arrays = b"+QUEUED\r\n*3\r\n+OK\r\n$1\r\nx\r\n$-1\r\n*1\r\n$1\r\ny\r\n";
        counted(Protocol::Resp, arrays, 3, Counts { values: 2, absent: 1, done: 1, queued: 1, ..Counts::default() });
        let memcached = b"VALUE key:000000000001 0 5\r\nEND\r\n\r\nVALUE k 0 1\r\nx\r\nEND\r\nEND\r\nSTORED\r\n\
            VA 2\r\nxy\r\nEN\r\n";
        counted(Protocol::Memcached, memcached, 5, Counts { values: 3, absent: 2, done: 1, ..Counts::default() });
    }

    #[test]
    fn an_error_is_not_a_reply() {
        for (protocol, line) in [(Protocol::Resp, "-ERR no\r\n"), (Protocol::Memcached, "SERVER_ERROR no\r\n")] {
            let mut replies = Replies::new(protocol);
            replies.left = 1;
            assert!(replies.take(line.as_bytes(), &mut Counts::default()).is_err());
        }
    }
}
