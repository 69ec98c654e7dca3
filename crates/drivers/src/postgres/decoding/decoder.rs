//! Where the reading of the server's log stands, and what of it is to be told.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use forebay::Key;
use forebay::store::Outside;
use tokio::task::JoinHandle;

use super::slot::Source;
use crate::postgres::session::Session;
use crate::sql::watching::Own;

/// Keys of one look, and of transactions that are not visible yet; with more, the whole cache goes.
pub(super) const KEYS_MAX: usize = 65_536;

/// What is visible now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) end: u64,
    pub(super) open: Vec<u64>,
}

impl Snapshot {
    /// Reads the text of a `pg_snapshot`: `10:20:10,14,15`.
    pub(super) fn parse(text: &str) -> Option<Snapshot> {
        let mut parts = text.split(':').skip(1);
        let end = parts.next()?.parse().ok()?;
        let open = parts.next()?.split(',').filter(|number| !number.is_empty());
        Some(Snapshot { end, open: open.map(str::parse).collect::<Result<_, _>>().ok()? })
    }

    pub(super) fn has_ended(&self, number: u64) -> bool {
        number < self.end && !self.open.contains(&number)
    }

    /// The whole number of a transaction of which the log has the lower half.
    pub(super) fn whole(&self, low: u32) -> u64 {
        let whole = (self.end & !u64::from(u32::MAX)) | u64::from(low);
        match whole.abs_diff(self.end) < 1 << 31 {
            true => whole,
            false if whole > self.end => whole.saturating_sub(1 << 32),
            false => whole + (1 << 32),
        }
    }
}

/// What a transaction wrote that the log has.
pub(super) struct Written {
    pub(super) number: u64,
    /// `None`: nobody knows.
    pub(super) keys: Option<Vec<Key>>,
}

/// Where reading the log stands.
#[derive(Default)]
pub(in crate::postgres) struct Decoder {
    pub(super) slot: String,
    /// Up to where we took the log out of it.
    pub(super) place: String,
    pub(super) session: Option<Session>,
    pub(super) sources: Vec<Source>,
    /// The snapshot behind the last look.
    pub(super) snapshot: Snapshot,
    /// Decoded, and not visible yet.
    pub(super) held: Vec<Written>,
    /// Open when we began, and not decoded since.
    pub(super) open: BTreeSet<u64>,
    /// How long the last look took.
    pub(super) took: Duration,
    /// The newest that was asked for when it began.
    pub(super) asked: u64,
}

/// What an answer of the log says, before it is known which of it is visible.
#[derive(Default)]
pub(super) struct Decoded {
    pub(super) written: Vec<(u32, Option<Vec<Key>>)>,
    pub(super) ended: HashSet<u32>,
    pub(super) keys: usize,
}

impl Decoded {
    pub(super) fn add(&mut self, number: u32, keys: Option<Vec<Key>>) {
        let count = keys.as_ref().map_or(0, Vec::len);
        let keys = keys.filter(|_| self.keys + count <= KEYS_MAX);
        self.keys += if keys.is_some() { count } else { 0 };
        match self.written.last_mut() {
            // A transaction's lines stand together.
            Some((last, all)) if *last == number => match (all.as_mut(), keys) {
                (Some(all), Some(more)) => all.extend(more),
                _ => *all = None,
            },
            _ => self.written.push((number, keys)),
        }
    }
}

impl Decoder {
    /// Takes what the log said, and answers what of it is to be told: what `now`, taken behind it, sees.
    pub(super) fn take(&mut self, decoded: Decoded, now: Snapshot, own: &Own) -> Outside {
        let ended: HashSet<u64> = decoded.ended.iter().map(|low| now.whole(*low)).collect();
        for (low, keys) in decoded.written {
            let number = now.whole(low);
            let keys = keys.map(|keys| keys.into_iter().filter(|key| !own.was_ours(number, key)).collect());
            self.held.push(Written { number, keys });
        }
        // Ended before this look began, and this look did not have it: the log had it before we did, or it was undone.
        let before = std::mem::replace(&mut self.snapshot, now);
        self.open.retain(|number| !ended.contains(number));
        let decoded = self.open.len();
        self.open.retain(|number| !before.has_ended(*number));
        let mut everything = self.open.len() < decoded;
        let (mut keys, snapshot) = (Vec::new(), &self.snapshot);
        self.held.retain_mut(|written| {
            let visible = snapshot.has_ended(written.number);
            if visible {
                match written.keys.take() {
                    Some(of_one) => keys.extend(of_one),
                    None => everything = true,
                }
            }
            !visible
        });
        let held: usize = self.held.iter().map(|written| written.keys.as_ref().map_or(0, Vec::len)).sum();
        if held > KEYS_MAX {
            self.held.iter_mut().for_each(|written| written.keys = None);
        }
        if everything || keys.len() > KEYS_MAX {
            return Outside::Everything;
        }
        keys.sort_unstable();
        keys.dedup();
        Outside::Keys(keys)
    }
}

/// The decoder, or the task that has it.
pub(in crate::postgres) enum Decoding {
    Idle(Box<Decoder>),
    AtWork(JoinHandle<(Box<Decoder>, Result<Outside, String>)>),
}

impl Default for Decoding {
    fn default() -> Decoding {
        Decoding::Idle(Box::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new(0, name.as_bytes())
    }

    fn decoded(of: &[(u32, &str)]) -> Decoded {
        let mut decoded = Decoded::default();
        for (number, name) in of {
            decoded.add(*number, Some(vec![key(name)]));
            decoded.ended.insert(*number);
        }
        decoded
    }

    fn at(text: &str) -> Snapshot {
        Snapshot::parse(text).expect("a snapshot")
    }

    #[test]
    fn snapshots_are_read() {
        assert_eq!(at("10:20:10,14"), Snapshot { end: 20, open: vec![10, 14] });
        assert_eq!(at("10:10:"), Snapshot { end: 10, open: Vec::new() });
        assert!(Snapshot::parse("10:20").is_none() && Snapshot::parse("a:b:c").is_none());
        let snapshot = at("10:20:10,14");
        assert!(snapshot.has_ended(9) && snapshot.has_ended(11) && !snapshot.has_ended(14) && !snapshot.has_ended(20));
        let late = at("8589934590:8589934600:");
        // The newest may not have ended for any snapshot yet.
        assert_eq!((late.whole(7), late.whole(8), late.whole(u32::MAX)), (8_589_934_599, 8_589_934_600, 8_589_934_591));
    }

    /// What the log has is told when it is visible, not before.
    #[test]
    fn what_is_not_visible_yet_is_held() {
        let (mut decoder, own) = (Decoder { snapshot: at("10:10:"), ..Decoder::default() }, Own::default());
        let told = decoder.take(decoded(&[(10, "a"), (11, "b")]), at("10:12:10"), &own);
        assert_eq!(told, Outside::Keys(vec![key("b")]));
        assert_eq!(decoder.take(Decoded::default(), at("10:13:10"), &own), Outside::Keys(Vec::new()));
        assert_eq!(decoder.take(Decoded::default(), at("13:13:"), &own), Outside::Keys(vec![key("a")]));
        assert!(decoder.held.is_empty());
    }

    /// The log may have had a transaction before we began, and nobody could see it.
    #[test]
    fn who_was_open_at_the_beginning_is_waited_for() {
        let own = Own::default();
        let begin = || Decoder { snapshot: at("10:12:10,11"), open: [10, 11].into(), ..Decoder::default() };
        let mut decoder = begin();
        assert_eq!(decoder.take(decoded(&[(10, "a")]), at("11:12:11"), &own), Outside::Keys(vec![key("a")]));
        assert_eq!(decoder.take(Decoded::default(), at("12:12:"), &own), Outside::Keys(Vec::new()), "it may come yet");
        assert_eq!(decoder.take(Decoded::default(), at("12:12:"), &own), Outside::Everything);
        assert_eq!(decoder.take(Decoded::default(), at("12:12:"), &own), Outside::Keys(Vec::new()));
    }

    #[test]
    fn what_is_ours_is_not_told() {
        let (mut decoder, mut own) = (Decoder { snapshot: at("10:10:"), ..Decoder::default() }, Own::default());
        own.add(10, vec![key("a")]);
        let told = decoder.take(decoded(&[(10, "a"), (10, "cascade")]), at("11:11:"), &own);
        assert_eq!(told, Outside::Keys(vec![key("cascade")]));
    }

    #[test]
    fn what_is_too_much_is_everything() {
        let mut decoder = Decoder { snapshot: at("10:10:"), ..Decoder::default() };
        let mut many = Decoded::default();
        (0..=KEYS_MAX).for_each(|number| many.add(10, Some(vec![key(&number.to_string())])));
        assert_eq!(decoder.take(many, at("11:11:"), &Own::default()), Outside::Everything);
    }
}
