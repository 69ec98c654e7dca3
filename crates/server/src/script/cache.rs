//! Scripts by the SHA-1 of their text, as EVALSHA names them.
//!
//! **Invariant.** What is kept is bounded by count and by bytes; for one more, those used longest ago go. One script
//! that is larger than all may be is kept alone.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use sha1::{Digest, Sha1};

/// What an entry takes beside its text.
const ENTRY_BYTES: usize = 256;

/// Hex digits of a SHA-1.
pub(super) fn sha1_hex(bytes: &[u8]) -> String {
    Sha1::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One script.
#[derive(Debug)]
pub struct Script {
    /// Hex digits of the SHA-1 of its text.
    pub sha: String,
    /// Its text, with a first line `#!lua ..` if it had one.
    body: Vec<u8>,
    /// Bytes of that first line, without its end.
    head: usize,
}

impl Script {
    /// One with this text, which is not kept.
    pub(super) fn new(body: &[u8]) -> Script {
        let head = match body.starts_with(b"#!") {
            true => memchr::memchr(b'\n', body).unwrap_or(body.len()),
            false => 0,
        };
        Script { sha: sha1_hex(body), body: body.to_vec(), head }
    }

    /// What of it is Lua: a first line of flags is none, but its end is, so that lines are counted right.
    pub fn code(&self) -> &[u8] {
        &self.body[self.head..]
    }

    /// Whether its first line says that it only reads (`#!lua flags=no-writes`). An error if that line can't be
    /// understood.
    pub fn only_reads(&self) -> Result<bool, String> {
        if self.head == 0 {
            return Ok(false);
        }
        let line = String::from_utf8_lossy(&self.body[2..self.head]).into_owned();
        let mut words = line.split_whitespace();
        let engine = words.next().unwrap_or_default();
        if engine != "lua" {
            return Err(format!("ERR Unexpected engine in script shebang: {engine}"));
        }
        let mut only_reads = false;
        for word in words {
            let Some(flags) = word.strip_prefix("flags=") else {
                return Err(format!("ERR Unknown lua shebang option: {word}"));
            };
            for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
                match flag {
                    "no-writes" => only_reads = true,
                    "allow-oom" | "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                    other => return Err(format!("ERR Unexpected flag in script shebang: {other}")),
                }
            }
        }
        Ok(only_reads)
    }

    fn bytes(&self) -> usize {
        self.body.len() + ENTRY_BYTES
    }
}

/// The scripts that are kept.
pub(super) struct Sources {
    by_sha: HashMap<String, (Arc<Script>, u64)>,
    /// Hashes by when they were last used.
    by_use: BTreeMap<u64, String>,
    uses: u64,
    bytes: usize,
    count_max: usize,
    bytes_max: usize,
}

impl Sources {
    pub(super) fn new(count_max: usize, bytes_max: usize) -> Sources {
        Sources { by_sha: HashMap::new(), by_use: BTreeMap::new(), uses: 0, bytes: 0, count_max, bytes_max }
    }

    fn used(&mut self, sha: &str) -> Option<Arc<Script>> {
        let (script, used) = self.by_sha.get_mut(sha)?;
        self.by_use.remove(used);
        self.uses += 1;
        *used = self.uses;
        self.by_use.insert(self.uses, sha.to_owned());
        Some(script.clone())
    }

    pub(super) fn find(&mut self, sha: &[u8]) -> Option<Arc<Script>> {
        self.used(&hex(sha)?)
    }

    pub(super) fn has(&self, sha: &[u8]) -> bool {
        hex(sha).is_some_and(|sha| self.by_sha.contains_key(&sha))
    }

    pub(super) fn keep(&mut self, body: &[u8]) -> Arc<Script> {
        let script = Arc::new(Script::new(body));
        if let Some(known) = self.used(&script.sha) {
            return known;
        }
        self.bytes += script.bytes();
        self.uses += 1;
        self.by_use.insert(self.uses, script.sha.clone());
        self.by_sha.insert(script.sha.clone(), (script.clone(), self.uses));
        while self.by_sha.len() > 1 && (self.by_sha.len() > self.count_max || self.bytes > self.bytes_max) {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            if let Some((gone, _)) = self.by_sha.remove(&oldest) {
                self.bytes -= gone.bytes();
            }
        }
        script
    }

    pub(super) fn flush(&mut self) {
        self.by_sha.clear();
        self.by_use.clear();
        self.bytes = 0;
    }
}

/// The digits as they are kept; `None` if they are none.
fn hex(sha: &[u8]) -> Option<String> {
    let digits = std::str::from_utf8(sha).ok().filter(|digits| digits.len() == 40)?;
    Some(digits.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_goes() {
        let mut sources = Sources::new(3, 1 << 20);
        let shas: Vec<String> = (0..3).map(|n| sources.keep(format!("return {n}").as_bytes()).sha.clone()).collect();
        assert!(sources.find(shas[0].to_ascii_uppercase().as_bytes()).is_some(), "in capitals too");
        sources.keep(b"return 3");
        let has = |sha: &String| sources.has(sha.as_bytes());
        assert_eq!(shas.iter().map(has).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(sources.keep(b"return 3").sha, sha1_hex(b"return 3"), "one that is kept is kept once");
        assert_eq!(sources.by_sha.len(), 3);
        sources.flush();
        assert!(!sources.has(shas[0].as_bytes()) && sources.bytes == 0);
    }

    #[test]
    fn bytes_are_bounded_and_one_always_has_room() {
        let mut sources = Sources::new(100, 4096);
        for n in 0..50 {
            sources.keep(format!("return '{n:01000}'").as_bytes());
            assert!(sources.bytes <= 4096, "{}", sources.bytes);
        }
        let large = sources.keep(&vec![b' '; 10_000]);
        assert!(sources.has(large.sha.as_bytes()) && sources.by_sha.len() == 1);
    }

    #[test]
    fn a_first_line_of_flags_is_no_lua() {
        let script = Script::new(b"#!lua flags=no-writes,allow-stale\nreturn 1");
        assert_eq!((script.only_reads(), script.code()), (Ok(true), b"\nreturn 1".as_slice()));
        assert_eq!(Script::new(b"return 1").only_reads(), Ok(false));
        assert!(Script::new(b"#!js\n").only_reads().is_err() && Script::new(b"#!lua flags=x\n").only_reads().is_err());
    }
}
