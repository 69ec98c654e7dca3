//! Replies: what was encoded is decoded, but for what RESP2 cannot say, however the bytes are cut.

use bytes::{Bytes, BytesMut};
use forebay_protocol::double::write_double;
use forebay_protocol::{Protocol, Reply, ReplyDecoder, ReplyError, ReplyLimits};
use proptest::collection::vec;
use proptest::prelude::*;

fn reply() -> impl Strategy<Value = Reply> {
    let leaf = prop_oneof![
        "[ -~]{0,20}".prop_map(|text| Reply::Simple(text.into())),
        vec(any::<u8>(), 0..20).prop_map(Reply::error),
        any::<i64>().prop_map(Reply::Integer),
        (-200..200_i64).prop_map(Reply::Integer),
        vec(any::<u8>(), 0..150).prop_map(|bytes| Reply::bulk(&bytes)),
        any::<String>().prop_map(Reply::Text),
        Just(Reply::Nil),
        Just(Reply::NilArray),
        any::<f64>().prop_filter("nan differs from itself", |value| !value.is_nan()).prop_map(Reply::Double),
        any::<bool>().prop_map(Reply::Boolean),
        "-?[0-9]{1,40}".prop_map(|digits| Reply::BigNumber(digits.into())),
        ("[a-z]{3}", any::<String>()).prop_map(|(format, text)| Reply::Verbatim(format.into(), text)),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Reply::Array),
            vec(inner.clone(), 0..6).prop_map(Reply::Set),
            vec(inner.clone(), 0..6).prop_map(Reply::Push),
            vec((inner.clone(), inner.clone()), 0..4).prop_map(Reply::Map),
            vec((inner.clone(), inner), 0..4).prop_map(Reply::Pairs),
        ]
    })
}

/// What a client can know of `reply`: the table of `reply.rs`, said a second time.
fn as_received(reply: &Reply, protocol: Protocol) -> Reply {
    let all = |items: &[Reply]| items.iter().map(|item| as_received(item, protocol)).collect::<Vec<_>>();
    let old = protocol == Protocol::Resp2;
    match reply {
        Reply::Error(text) => {
            let clean = |byte: &u8| if b"\r\n".contains(byte) { b' ' } else { *byte };
            Reply::Error(text.iter().map(clean).collect::<Bytes>())
        }
        Reply::Text(text) => Reply::bulk(text.as_bytes()),
        Reply::NilArray if !old => Reply::Nil,
        Reply::Boolean(yes) if old => Reply::Integer(i64::from(*yes)),
        Reply::BigNumber(text) if old => Reply::bulk(text.as_bytes()),
        Reply::Verbatim(_, text) if old => Reply::bulk(text.as_bytes()),
        Reply::Double(value) if old => {
            let mut text = Vec::new();
            write_double(*value, &mut text);
            Reply::bulk(&text)
        }
        Reply::Array(items) => Reply::Array(all(items)),
        Reply::Set(items) | Reply::Push(items) if old => Reply::Array(all(items)),
        Reply::Set(items) => Reply::Set(all(items)),
        Reply::Push(items) => Reply::Push(all(items)),
        Reply::Map(pairs) => {
            let keys_and_values = pairs.iter().flat_map(|(key, value)| [key.clone(), value.clone()]);
            let received = all(&keys_and_values.collect::<Vec<_>>());
            match protocol {
                Protocol::Resp2 => Reply::Array(received),
                Protocol::Resp3 => {
                    Reply::Map(received.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
                }
            }
        }
        Reply::Pairs(pairs) => {
            let pairs = pairs.iter().map(|(first, second)| all(&[first.clone(), second.clone()]));
            Reply::Array(if old { pairs.flatten().collect() } else { pairs.map(Reply::Array).collect() })
        }
        other => other.clone(),
    }
}

fn decode(input: &[u8], cuts: &[usize], limits: ReplyLimits) -> (Vec<Reply>, Option<ReplyError>) {
    let (mut decoder, mut buffer, mut replies) = (ReplyDecoder::new(limits), BytesMut::new(), Vec::new());
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (input.len() + 1)).collect();
    ends.push(input.len());
    ends.sort();
    let mut start = 0;
    for end in ends {
        buffer.extend_from_slice(&input[start..end]);
        start = end;
        loop {
            match decoder.decode(&mut buffer) {
                Ok(Some(reply)) => replies.push(reply),
                Ok(None) => break,
                Err(error) => return (replies, Some(error)),
            }
        }
    }
    (replies, None)
}

/// Bytes of memory that a decoded reply takes, near enough.
fn memory_bytes(reply: &Reply) -> usize {
    let content = match reply {
        Reply::Simple(text) | Reply::BigNumber(text) => text.len(),
        Reply::Error(text) => text.len(),
        Reply::Bulk(bytes) => bytes.len(),
        Reply::Part(_, range) => range.len(),
        Reply::Parts(parts) => parts.iter().map(|(_, range)| range.len()).sum(),
        Reply::Verbatim(_, text) => text.len(),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => {
            items.iter().map(memory_bytes).sum::<usize>() + (items.capacity() - items.len()) * size_of::<Reply>()
        }
        Reply::Map(pairs) => pairs.iter().map(|(key, value)| memory_bytes(key) + memory_bytes(value)).sum(),
        _ => 0,
    };
    content + size_of::<Reply>()
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded(replies in vec(reply(), 0..4), cuts in vec(any::<usize>(), 0..8)) {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let mut bytes = BytesMut::new();
            for reply in &replies {
                let before = bytes.len();
                reply.encode(protocol, &mut bytes);
                prop_assert!(bytes.len() - before <= reply.encoded_bytes_max());
            }
            let expected: Vec<Reply> = replies.iter().map(|reply| as_received(reply, protocol)).collect();
            prop_assert_eq!(decode(&bytes, &cuts, ReplyLimits::default()), (expected, None));
        }
    }

    #[test]
    fn any_bytes_are_taken_or_refused(pieces in vec(prop_oneof![
        8 => proptest::sample::select(vec![
            "*2\r\n", "%1\r\n", "|1\r\n", "~3\r\n", ">1\r\n", "$3\r\nabc\r\n", "_\r\n", "+a\r\n", "=5\r\ntxt:a\r\n",
            "*0\r\n", ",1\r\n", "$", "\r", "\n", "*999\r\n", "!1\r\n-\r\n",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..4),
    ], 0..60)) {
        let input = pieces.concat();
        let limits = ReplyLimits { depth_max: 8, elements_max: 1000, ..ReplyLimits::default() };
        let whole = decode(&input, &[], limits);
        let single_bytes: Vec<usize> = (0..input.len()).collect();
        let pieces = decode(&input, &single_bytes, limits);
        prop_assert_eq!(&whole, &pieces);
        // The least element is of 3 bytes, and a vector of them has at most four times the room it needs.
        let memory: usize = whole.0.iter().map(memory_bytes).sum();
        prop_assert!(memory <= input.len() * 2 * size_of::<Reply>(), "{memory} for {}", input.len());
    }
}

#[test]
fn byte_by_byte_is_linear() {
    let big = Reply::bulk(&vec![b'x'; 1_000_000]);
    let many = Reply::Array(vec![Reply::Integer(1); 200_000]);
    for reply in [big, many] {
        let mut bytes = BytesMut::new();
        reply.encode(Protocol::Resp3, &mut bytes);
        let mut decoder = ReplyDecoder::new(ReplyLimits::default());
        let mut buffer = BytesMut::new();
        let (last, head) = bytes.split_last().unwrap();
        for byte in head {
            buffer.extend_from_slice(&[*byte]);
            assert_eq!(decoder.decode(&mut buffer), Ok(None));
        }
        buffer.extend_from_slice(&[*last]);
        assert_eq!(decoder.decode(&mut buffer), Ok(Some(reply)));
    }
}
