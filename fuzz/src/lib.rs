//! What the fuzz targets in `tests/` share. `README.md` says how to run them.

use std::time::Duration;

use forebay_trace::dictionary::Dictionary;
use forebay_trace::{FORMATS, Format, Record, Records, TraceError, TraceReader};

// What measures coverage refers to the fuzzer, which only a binary with bolero in it has.
use bolero as _;

/// How long each target tries random inputs in a plain test run, in ms, unless `FOREBAY_FUZZ_MS` says otherwise.
pub const FUZZ_MS: u64 = 2_000;

/// How long a target is to try random inputs; a fuzzer that measures coverage has its own limit.
pub fn time() -> Duration {
    let given = std::env::var("FOREBAY_FUZZ_MS").ok().and_then(|ms| ms.parse().ok());
    Duration::from_millis(given.unwrap_or(FUZZ_MS))
}

/// Takes an input apart into choices. It never ends: behind the last byte come zeros.
pub struct Choices<'a>(pub &'a [u8]);

impl Choices<'_> {
    /// Whether there is more to come.
    pub fn any_left(&self) -> bool {
        !self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((byte, rest)) => {
                self.0 = rest;
                *byte
            }
            None => 0,
        }
    }

    /// A number below `limit`, which is at most 65,536.
    pub fn below(&mut self, limit: usize) -> usize {
        let low = usize::from(self.byte());
        if limit <= 256 { low % limit } else { (low << 8 | usize::from(self.byte())) % limit }
    }

    /// A number of 32 bits.
    pub fn word(&mut self) -> u32 {
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    /// One of `all`.
    pub fn one<'t, T: ?Sized>(&mut self, all: &[&'t T]) -> &'t T {
        all[self.below(all.len())]
    }

    /// Up to `limit` of the bytes that come.
    pub fn bytes(&mut self, limit: usize) -> Vec<u8> {
        let length = self.below(limit + 1).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes.to_vec()
    }
}

/// A text: what follows the first byte, or pieces of it between `words` if that byte is odd.
pub fn text(choices: &mut Choices<'_>, words: &[&str]) -> Vec<u8> {
    if choices.byte().is_multiple_of(2) {
        return choices.0.to_vec();
    }
    let mut text = Vec::new();
    while choices.any_left() {
        match choices.below(6) {
            0 => text.extend_from_slice(&choices.bytes(8)),
            _ => text.extend_from_slice(choices.one(words).as_bytes()),
        }
    }
    text
}

/// The format that the first line of an input names; else the first byte chooses it.
pub fn format(choices: &mut Choices<'_>) -> &'static Format {
    let (line, rest) = match choices.0.iter().position(|byte| *byte == b'\n') {
        Some(at) => (&choices.0[..at], &choices.0[at + 1..]),
        None => (choices.0, &[][..]),
    };
    if let Some(named) = FORMATS.iter().find(|format| format.name.as_bytes() == line) {
        choices.0 = rest;
        return named;
    }
    FORMATS[choices.below(FORMATS.len())]
}

/// The first records of a trace: one line of a text can stand for a million.
pub struct First {
    /// The trace.
    pub records: Records,
    /// How many are left.
    pub left: usize,
}

impl Iterator for First {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        self.records.next()
    }
}

impl TraceReader for First {
    fn dictionary(&self) -> Option<&Dictionary> {
        self.records.dictionary()
    }

    fn skipped(&self) -> u64 {
        self.records.skipped()
    }
}
