//! Encoded documents and changes come back; damaged ones are refused or are another's encoding, never a panic.

mod naive;

use forebay::change::codec::{decode_change, encode_change};
use forebay::value::codec::{decode_value, encode_value};
use forebay::value::pieces::{Decoder, Pieces, encoded_bytes};
use proptest::prelude::*;
use proptest::sample::Index;

/// What the bytes decode to is encoded as these bytes again: nothing is read that is not written so.
fn check_canonical(bytes: &[u8]) -> Result<(), TestCaseError> {
    let mut again = Vec::new();
    if let Ok(value) = decode_value(bytes) {
        encode_value(&value, &mut again);
        prop_assert_eq!(&again, bytes);
    }
    again.clear();
    if let Ok(change) = decode_change(bytes) {
        encode_change(&change, &mut again);
        prop_assert_eq!(&again, bytes);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_value_comes_back(value in naive::value()) {
        let mut bytes = Vec::new();
        encode_value(&value, &mut bytes);
        let decoded = decode_value(&bytes).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(decoded.size(), value.size());
        prop_assert_eq!(decoded, value);
    }

    #[test]
    fn a_change_comes_back(change in naive::change()) {
        let mut bytes = Vec::new();
        encode_change(&change, &mut bytes);
        prop_assert_eq!(decode_change(&bytes), Ok(change));
    }

    /// Whatever pieces it comes in: the same bytes, the same document, and the same is refused.
    #[test]
    fn a_value_goes_in_pieces(
        value in naive::value(),
        edits in prop::collection::vec((any::<Index>(), any::<u8>()), 0..3),
        cut in prop::option::of(any::<Index>()),
        piece in 1..40usize,
    ) {
        let (mut bytes, mut pieced) = (Vec::new(), Vec::new());
        encode_value(&value, &mut bytes);
        let (mut pieces, mut piece_of_it) = (Pieces::of(&value), Vec::new());
        while pieces.fill(&mut piece_of_it) {
            pieced.append(&mut piece_of_it);
        }
        prop_assert_eq!(&pieced, &bytes);
        prop_assert_eq!(encoded_bytes(&value), bytes.len());
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.map_or(bytes.len(), |cut| cut.index(bytes.len())));
        let mut decoder = Decoder::new(bytes.len());
        let fed = bytes.chunks(piece).try_for_each(|piece| decoder.feed(piece));
        prop_assert_eq!(fed.and_then(|()| decoder.end()).ok(), decode_value(&bytes).ok());
    }

    #[test]
    fn a_part_is_refused(value in naive::value(), change in naive::change(), at in any::<Index>()) {
        let mut bytes = Vec::new();
        encode_value(&value, &mut bytes);
        prop_assert!(decode_value(&bytes[..at.index(bytes.len())]).is_err());
        bytes.clear();
        encode_change(&change, &mut bytes);
        prop_assert!(decode_change(&bytes[..at.index(bytes.len())]).is_err());
        bytes.push(0);
        prop_assert!(decode_change(&bytes).is_err());
    }

    #[test]
    fn changed_bytes_are_refused_or_canonical(
        value in naive::value(),
        change in naive::change(),
        edits in prop::collection::vec((any::<Index>(), any::<u8>()), 1..4),
    ) {
        let (mut of_value, mut of_change) = (Vec::new(), Vec::new());
        encode_value(&value, &mut of_value);
        encode_change(&change, &mut of_change);
        for bytes in [&mut of_value, &mut of_change] {
            for (at, byte) in &edits {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            check_canonical(bytes)?;
        }
    }

    #[test]
    fn random_bytes_are_refused_or_canonical(rest in prop::collection::vec(any::<u8>(), 0..64), tag in 0..20u8) {
        check_canonical(&rest)?;
        check_canonical(&[&[1, tag], &rest[..]].concat())?;
    }
}
