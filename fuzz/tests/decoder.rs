//! What a client sends. However the bytes are cut, equal requests come of them and an equal error, and no more memory
//! is taken than the limits say.

use bytes::BytesMut;
use forebay_fuzz::{Choices, time};
use forebay_protocol::decoder::READ_BYTES;
use forebay_protocol::{Batch, Decoder, Limits, ProtocolError};

const LENGTHS: &[&str] = &["0", "1", "2", "3", "7", "40", "1000", "-1", "01", "+1", "999999999", "4294967296", "x", ""];

const LIMITS: [Limits; 3] = [
    Limits { args_max: 8, bulk_bytes_max: 1_000, inline_bytes_max: 64, request_bytes_max: 2_000, authenticated: true },
    Limits {
        args_max: 100_000,
        bulk_bytes_max: 1 << 20,
        inline_bytes_max: 1 << 16,
        request_bytes_max: 1 << 21,
        authenticated: true,
    },
    Limits {
        args_max: 100_000,
        bulk_bytes_max: 1 << 20,
        inline_bytes_max: 1 << 16,
        request_bytes_max: 1 << 21,
        authenticated: false,
    },
];

/// A stream: as it is, or of pieces that look like requests.
fn stream(choices: &mut Choices<'_>) -> Vec<u8> {
    if choices.byte().is_multiple_of(2) {
        return choices.0.to_vec();
    }
    let mut bytes = Vec::new();
    while choices.any_left() && bytes.len() < 300_000 {
        match choices.below(8) {
            0 => bytes.extend_from_slice(format!("*{}\r\n", choices.one(LENGTHS)).as_bytes()),
            1 => bytes.extend_from_slice(format!("${}\r\n", choices.one(LENGTHS)).as_bytes()),
            2 => bytes.extend_from_slice(&choices.bytes(20)),
            3 => bytes.extend_from_slice(choices.one(&["\r\n", "\n", "\r", "\"", "'", " ", "\\x4", "\0"]).as_bytes()),
            4 => {
                let byte = choices.byte();
                bytes.resize(bytes.len() + choices.below(4_000), byte);
            }
            _ => {
                let args: Vec<_> = (0..1 + choices.below(4)).map(|_| choices.bytes(12)).collect();
                let mut request = BytesMut::new();
                forebay_protocol::encode_command(&mut request, &args);
                bytes.extend_from_slice(&request);
            }
        }
    }
    bytes
}

type Requests = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

fn decode(bytes: &[u8], limits: Limits, mut next: impl FnMut() -> (usize, usize)) -> Requests {
    let mut decoder = Decoder::new(limits);
    let mut buffer = BytesMut::new();
    let mut batch = Batch::default();
    let mut requests: Vec<Vec<Vec<u8>>> = Vec::new();
    let (mut rest, mut largest) = (bytes, 0);
    loop {
        let (chunk, batch_max) = next();
        loop {
            match decoder.decode_batch(&mut buffer, batch_max, &mut batch) {
                Ok(0) => break,
                Ok(_) => requests.extend(batch.frames().map(|frame| frame.args().map(<[u8]>::to_vec).collect())),
                Err(error) => return (requests, Some(error)),
            }
            batch.clear();
        }
        let unfinished = limits.request_bytes_max.max(limits.inline_bytes_max).max(64 << 10) as usize + 64;
        assert!(buffer.len() <= unfinished + chunk.max(4_000), "{} bytes wait unfinished", buffer.len());
        assert!(decoder.memory_bytes() <= 16 * (buffer.len() / 6 + 64).next_power_of_two(), "the decoder's own memory");
        decoder.reserve(&mut buffer, READ_BYTES);
        if rest.is_empty() {
            return (requests, None);
        }
        let (now, later) = rest.split_at(chunk.clamp(1, rest.len()));
        buffer.extend_from_slice(now);
        largest = largest.max(buffer.len());
        rest = later;
        assert!(buffer.capacity() <= 4 * (largest + chunk) + (64 << 10), "{} reserved", buffer.capacity());
    }
}

#[test]
fn decoder() {
    bolero::check!().with_test_time(time()).for_each(|input: &[u8]| {
        let mut choices = Choices(input);
        let limits = LIMITS[choices.below(LIMITS.len())];
        let (mut chunks, batch_max) = (u64::from(choices.word()), 1 + choices.below(40));
        let bytes = stream(&mut choices);
        let whole = decode(&bytes, limits, || (bytes.len(), 1_000));
        let mut cut = || {
            chunks = chunks.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let most = [3, 40, 5_000][(chunks >> 60) as usize % 3];
            (1 + (chunks >> 33) as usize % most, batch_max)
        };
        let pieces = decode(&bytes, limits, &mut cut);
        assert!(pieces == whole, "{pieces:?}\ninstead of\n{whole:?}");
    });
}
