//! What a server answers to the client library: an error, or an answer that says one thing.

use bytes::BytesMut;
use forebay_client::answer::{self, Executed};
use forebay_fuzz::{Choices, text, time};
use forebay_protocol::{Reply, ReplyDecoder, ReplyLimits};

const WORDS: &[&str] = &[
    "*1\r\n",
    "*2\r\n",
    "*3\r\n",
    "*6\r\n",
    "*0\r\n",
    "+none\r\n",
    "+string\r\n",
    "+hash\r\n",
    "+list\r\n",
    "+set\r\n",
    "+same\r\n",
    "~1\r\n",
    "_\r\n",
    "$1\r\nv\r\n",
    "$3\r\n1-1\r\n",
    "$4\r\n-1-1\r\n",
    "$3\r\n0.5\r\n",
    ",nan\r\n",
    ":1\r\n",
    ":-1\r\n",
    "+OK\r\n",
    "+COMMITTED 1-1\r\n",
    "+BUFFERED 7\r\n",
    "-TXSTALE a 1-1 b\\x20 -1-2\r\n",
    "-TXSTALE ",
    "\\x",
    " 1-1",
    "-TXCONFLICT x\r\n",
    "-EXECABORT x\r\n",
    "*1\r\n*6\r\n+string\r\n$1\r\nv\r\n$3\r\n1-1\r\n$3\r\n1-1\r\n$1\r\n0\r\n_\r\n",
    "*3\r\n*1\r\n+OK\r\n$3\r\n1-1\r\n_\r\n",
];

const LIMITS: ReplyLimits = ReplyLimits {
    depth_max: 8,
    elements_max: 1_000,
    bulk_bytes_max: 10_000,
    line_bytes_max: 1_000,
    reply_bytes_max: 20_000,
};

fn look(reply: &Reply) {
    for count in 0..3 {
        if let Ok(told) = answer::told(reply.clone(), count, &[]) {
            assert_eq!(told.len(), count);
            assert!(told.iter().all(|told| told.writes >= 0.0 && told.writes.is_finite()));
        }
        match answer::executed(&[], reply.clone(), count) {
            Ok(Executed::Done { replies, .. }) => assert_eq!(replies.len(), count),
            Ok(Executed::Stale(stale)) => assert!(!stale.is_empty()),
            _ => {}
        }
    }
    let _ = answer::outcome(reply);
}

#[test]
fn answers() {
    bolero::check!().with_test_time(time()).for_each(|input: &[u8]| {
        let mut bytes = BytesMut::from(&*text(&mut Choices(input), WORDS));
        let mut decoder = ReplyDecoder::new(LIMITS);
        while let Ok(Some(reply)) = decoder.decode(&mut bytes) {
            look(&reply);
        }
    });
}
