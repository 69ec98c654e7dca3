//! Versions and transaction ids: one notion of order for commits, caches, optimistic checks and outages.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

/// The version of a document: rises per key in commit order and is never reused. 16 bytes: the incarnation of the
/// node that minted it, then a sequence number. Shown as `incarnation-sequence`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Rises by one with each opening of the store.
    pub incarnation: u64,
    /// Rises with each commit of one incarnation.
    pub sequence: u64,
}

/// The identity of one commit, by which a store tells a repeated commit from a new one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxnId(pub Version);

/// 128 random bits that name an owner of a store which outlives the processes that use it: one journal's life,
/// whichever process has it open. Of two owners that use a store one after the other, each may have acknowledged
/// writes that the other knows nothing of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnerId(pub u128);

impl Version {
    /// Below every version that is ever minted: what an untouched store says of a key that it never had.
    pub const ZERO: Version = Version { incarnation: 0, sequence: 0 };

    /// The greatest version below this one that a mint may have given out.
    pub fn before(self) -> Version {
        match self.sequence.checked_sub(1) {
            Some(sequence) => Version { sequence, ..self },
            None => Version { incarnation: self.incarnation.saturating_sub(1), sequence: u64::MAX },
        }
    }

    /// Big-endian bytes, ordered as versions are.
    pub fn to_bytes(self) -> [u8; 16] {
        ((u128::from(self.incarnation) << 64) | u128::from(self.sequence)).to_be_bytes()
    }

    /// The inverse of [`Version::to_bytes`].
    pub fn from_bytes(bytes: [u8; 16]) -> Version {
        let word = u128::from_be_bytes(bytes);
        Version { incarnation: (word >> 64) as u64, sequence: word as u64 }
    }
}

/// Mints versions and ids.
#[derive(Debug)]
pub struct Mint {
    incarnation: AtomicU64,
    sequence: AtomicU64,
}

impl Mint {
    /// A mint for `incarnation`, which no mint had before.
    pub fn new(incarnation: u64) -> Mint {
        Mint::behind(Version { incarnation, sequence: 0 })
    }

    /// A mint for versions behind `newest`, in its incarnation.
    pub fn behind(newest: Version) -> Mint {
        Mint { incarnation: AtomicU64::new(newest.incarnation), sequence: AtomicU64::new(newest.sequence) }
    }

    /// A version greater than all that this mint has given out.
    pub fn next(&self) -> Version {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        Version { incarnation: self.incarnation(), sequence }
    }

    /// The last version that it gave out; what it gives out next is greater.
    pub fn newest(&self) -> Version {
        Version { incarnation: self.incarnation(), sequence: self.sequence.load(Ordering::Acquire) }
    }

    /// The incarnation under which it mints.
    pub fn incarnation(&self) -> u64 {
        self.incarnation.load(Ordering::SeqCst)
    }

    /// Goes on above `newest` as well, in its incarnation if that is later; true if it is.
    pub fn raise(&self, newest: Version) -> bool {
        self.sequence.fetch_max(newest.sequence, Ordering::SeqCst);
        self.incarnation.fetch_max(newest.incarnation, Ordering::SeqCst) < newest.incarnation
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.incarnation, self.sequence)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Version, String> {
        let parse = |part: &str| part.parse::<u64>().map_err(|error| format!("'{text}' is no version: {error}"));
        let (incarnation, sequence) =
            text.split_once('-').ok_or_else(|| format!("'{text}' is no version: expected incarnation-sequence"))?;
        Ok(Version { incarnation: parse(incarnation)?, sequence: parse(sequence)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_order_and_text_round_trips() {
        let low = Version { incarnation: 1, sequence: u64::MAX };
        let high = Version { incarnation: 2, sequence: 0 };
        assert!(low < high && low.to_bytes() < high.to_bytes());
        assert_eq!(Version::from_bytes(low.to_bytes()), low);
        assert_eq!(high.to_string().parse::<Version>(), Ok(high));
        assert!("7".parse::<Version>().is_err());
    }

    #[test]
    fn a_mint_rises() {
        let mint = Mint::new(4);
        assert!(Version::ZERO < mint.next() && mint.next() < mint.next());
        let before = mint.next();
        let raised = |incarnation, sequence| mint.raise(Version { incarnation, sequence });
        assert!(raised(5, 0) && !raised(5, 0) && !raised(4, 7));
        assert!(before < mint.next() && mint.next() > Version { incarnation: 5, sequence: 7 });
    }
}
