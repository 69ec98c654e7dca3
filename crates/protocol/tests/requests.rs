//! Requests: whatever was encoded is decoded, however the bytes are cut, and nothing that arrives costs more than it
//! weighs.

use bytes::BytesMut;
use forebay_protocol::decoder::READ_BYTES;
use forebay_protocol::{Batch, Decoder, Limits, ProtocolError, encode_command};
use proptest::collection::vec;
use proptest::prelude::*;

type Requests = Vec<Vec<Vec<u8>>>;

const LIMITS: Limits =
    Limits { args_max: 50, bulk_bytes_max: 4000, inline_bytes_max: 100, request_bytes_max: 8000, authenticated: true };

/// Decodes `input` in pieces that end at `cuts`, request by request or by batch.
fn decode(
    input: &[u8],
    cuts: &[usize],
    limits: Limits,
    requests_max: Option<usize>,
) -> (Requests, Option<ProtocolError>) {
    let (mut decoder, mut batch, mut buffer) = (Decoder::new(limits), Batch::default(), BytesMut::new());
    let mut requests = Requests::new();
    let mut start = 0;
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (input.len() + 1)).collect();
    ends.push(input.len());
    ends.sort();
    for end in ends {
        decoder.reserve(&mut buffer, READ_BYTES);
        buffer.extend_from_slice(&input[start..end]);
        start = end;
        loop {
            let count = match requests_max {
                Some(requests_max) => decoder.decode_batch(&mut buffer, requests_max, &mut batch),
                None => decoder.decode(&mut buffer).map(|request| {
                    requests.extend(request.iter().map(|request| request.args().map(<[u8]>::to_vec).collect()));
                    usize::from(request.is_some())
                }),
            };
            match count {
                Ok(0) => break,
                Ok(_) => requests.extend(batch.frames().map(|frame| frame.args().map(<[u8]>::to_vec).collect())),
                Err(error) => return (requests, Some(error)),
            }
        }
        assert!(decoder.memory_bytes() <= 4 * input.len() + 64, "{} bytes", decoder.memory_bytes());
        assert!(buffer.capacity() <= 4 * input.len() + 2 * 16 * 1024, "{} bytes", buffer.capacity());
    }
    (requests, None)
}

fn args() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(prop_oneof![9 => vec(any::<u8>(), 0..20), 1 => vec(any::<u8>(), 0..2000)], 1..12)
}

/// Bytes that resemble requests: whole ones, broken ones and noise.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let tokens: Vec<&[u8]> =
        vec![b"*", b"$", b"\r\n", b"\n", b"\r", b"1", b"3", b"0", b"-1", b"99", b"\"", b"'", b"\\x41", b" ", b"GET"];
    let piece = prop_oneof![
        6 => proptest::sample::select(tokens).prop_map(<[u8]>::to_vec),
        2 => Just(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".to_vec()),
        1 => Just(b"*1\r\n$4\r\n".to_vec()),
        1 => Just(b"PING\r\n".to_vec()),
        1 => vec(any::<u8>(), 0..6),
        1 => Just(b"*49\r\n".iter().copied().chain(b"$0\r\n\r\n".repeat(49)).collect()),
        1 => Just(b"$3999\r\n".to_vec()),
    ];
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded(requests in vec(args(), 0..8), cuts in vec(any::<usize>(), 0..8)) {
        let mut bytes = BytesMut::new();
        for args in &requests {
            encode_command(&mut bytes, args);
        }
        for requests_max in [None, Some(1), Some(3), Some(100)] {
            let decoded = decode(&bytes, &cuts, Limits::default(), requests_max);
            prop_assert_eq!(&decoded, &(requests.clone(), None));
        }
    }

    #[test]
    fn how_the_bytes_are_cut_does_not_matter(input in noise(), cuts in vec(any::<usize>(), 0..20)) {
        let whole = decode(&input, &[], LIMITS, None);
        let single_bytes: Vec<usize> = (0..input.len()).collect();
        for cuts in [&cuts, &single_bytes] {
            prop_assert_eq!(&decode(&input, cuts, LIMITS, None), &whole);
            prop_assert_eq!(&decode(&input, cuts, LIMITS, Some(2)), &whole);
        }
        prop_assert_eq!(&decode(&input, &[], LIMITS, Some(usize::MAX)), &whole);
    }

    #[test]
    fn any_bytes_are_taken_or_refused(input in vec(any::<u8>(), 0..300), marked in any::<bool>()) {
        let input = if marked { [b"*2\r\n$".as_slice(), &input].concat() } else { input };
        let (requests, _) = decode(&input, &[], LIMITS, Some(7));
        prop_assert!(requests.iter().flatten().map(Vec::len).sum::<usize>() <= input.len());
        prop_assert!(requests.iter().all(|request| !request.is_empty()));
    }
}

/// A request of a megabyte, byte by byte, as one argument, as many, and as one line: were any byte looked at again for
/// each that follows, this would take hours.
#[test]
fn byte_by_byte_is_linear() {
    const BYTES: usize = 1_000_000;
    let many = [format!("*{}\r\n", BYTES / 6).into_bytes(), b"$0\r\n\r\n".repeat(BYTES / 6)].concat();
    let mut one = BytesMut::new();
    encode_command(&mut one, &["SET", &"x".repeat(BYTES)]);
    let line = ["ECHO ".as_bytes(), &vec![b'x'; BYTES], b"\n"].concat();
    let limits = Limits { inline_bytes_max: 2 << 20, ..Limits::default() };
    for input in [many, one.to_vec(), line] {
        let mut decoder = Decoder::new(limits);
        let mut buffer = BytesMut::new();
        let (last, head) = input.split_last().unwrap();
        for byte in head {
            buffer.extend_from_slice(&[*byte]);
            assert_eq!(decoder.decode(&mut buffer), Ok(None));
        }
        buffer.extend_from_slice(&[*last]);
        assert!(decoder.decode(&mut buffer).unwrap().is_some());
    }
}

/// TLS on the plain port: the first byte says so, and nothing behind it is a request, however it is cut.
#[test]
fn a_control_byte_ends_an_inline_command() {
    let limits = Limits { inline_bytes_max: 64, ..Limits::default() };
    let long = [&[b'x'; 64][..], b"\x16\r\nPING\r\n"].concat();
    let cases: [(&[u8], usize, ProtocolError); 5] = [
        (b"\x16\x03\x01\x02\x00\x01\r\nPING\r\n", 0, ProtocolError::Foreign(0x16)),
        (b"PING\r\n\0PING\r\n", 1, ProtocolError::Foreign(0)),
        (b"*1\r\n$4\r\nPING\r\nPI\x01NG\r\nPING\r\n", 1, ProtocolError::Foreign(1)),
        (b"ECHO \"a\x7f\r\n", 0, ProtocolError::Foreign(0x7f)),
        (&long, 0, ProtocolError::InlineSize),
    ];
    for (bytes, served, expected) in cases {
        for cut in 1..=bytes.len() {
            let (mut decoder, mut buffer, mut requests, mut error) = (Decoder::new(limits), BytesMut::new(), 0, None);
            for part in bytes.chunks(cut) {
                buffer.extend_from_slice(part);
                while error.is_none() {
                    match decoder.decode(&mut buffer) {
                        Ok(Some(_)) => requests += 1,
                        Ok(None) => break,
                        Err(found) => error = Some(found),
                    }
                }
            }
            assert_eq!((requests, error), (served, Some(expected.clone())), "{} cut at {cut}", bytes.escape_ascii());
        }
    }
}
