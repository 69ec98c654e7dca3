//! What the fuzz targets in `tests/` share. `README.md` says how to run them.

use std::time::Duration;

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
