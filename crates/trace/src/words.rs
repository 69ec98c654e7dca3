//! The words of keys and of what was read, as fingerprints. By them `forebay graph --infer` finds which access told a
//! client the key of a later one.
//!
//! A word is a run of ASCII letters and digits and of bytes beyond ASCII; all else parts words: `stock:17:4` has three,
//! as has `{"item":"4","at":17}`. Of a number's leading zeros nothing is left, so that `0017` is `17`. A fingerprint
//! hides no word from who guesses at it.

use crate::record::mix;

/// Most words of one access that are recorded: the first, each once.
pub const RETURNED_WORDS_MAX: usize = 256;

/// Fingerprints of the words of `text`, in their order.
pub fn words(text: &[u8]) -> impl Iterator<Item = u64> {
    let parts = |byte: &u8| !(byte.is_ascii_alphanumeric() || *byte >= 0x80);
    text.split(parts).filter(|word| !word.is_empty()).map(fingerprint)
}

fn fingerprint(word: &[u8]) -> u64 {
    let zeros = match word.iter().all(u8::is_ascii_digit) {
        true => word.iter().take_while(|digit| **digit == b'0').count().min(word.len() - 1),
        false => 0,
    };
    let hashed = word[zeros..]
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    mix(hashed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<u64> {
        words(text.as_bytes()).collect()
    }

    #[test]
    fn words_are_what_stands_between_signs() {
        assert_eq!(all("stock:17:4"), [all("stock"), all("17"), all("4")].concat());
        assert_eq!(
            all("{\"at\":17, \"name\":\"J\u{fc}rg\"}"),
            [all("at"), all("17"), all("name"), all("J\u{fc}rg")].concat()
        );
        assert_eq!((all("0017"), all("000"), all("a0017")), (all("17"), all("0"), all("a0017")));
        assert_ne!(all("a0017"), all("a17"));
        assert!(all("").is_empty() && all(" :-{}").is_empty());
    }
}
