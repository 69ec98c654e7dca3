use bytes::Buf;
use futures_util::FutureExt;

use super::*;

/// A large reply behind a commit is encoded when it comes, and stands where it belongs.
#[test]
fn large_replies_stand_in_their_order() {
    let large = Reply::Text("x".repeat(2 * LARGE_BYTES));
    let list = Reply::Array(vec![Reply::Integer(7); 2 * LARGE_ITEMS]);
    assert!([&large, &list].iter().all(|reply| is_large(reply, LARGE_BYTES)) && !is_large(&Reply::OK, LARGE_BYTES));
    let all = [Reply::OK, large.clone(), Reply::Integer(1), list.clone(), large, list];
    let (mut expected, mut replies) = (BytesMut::new(), Replies::new(usize::MAX));
    for (number, reply) in all.iter().enumerate() {
        reply.encode(Protocol::Resp2, &mut expected);
        match number % 3 {
            0 => replies.push_after(Some(reply.clone()), Committing::nothing(), false, Protocol::Resp2),
            1 => replies.push(reply, Protocol::Resp2),
            _ => replies.push_after(Some(reply.clone()), Committing::nothing(), false, Protocol::Resp2),
        }
    }
    assert!(replies.settle().now_or_never().is_some());
    assert!(*replies.ready_mut() == expected);
    assert!(replies.is_turn() && !replies.is_turn());
}

#[test]
fn what_is_taken_of_a_large_reply_is_given_back() {
    let (mut replies, mut expected) = (Replies::new(usize::MAX), BytesMut::new());
    let large = Reply::Text((0..400_000).map(|number| format!("{number} ")).collect());
    large.encode(Protocol::Resp2, &mut expected);
    replies.push(&large, Protocol::Resp2);
    let mut taken = BytesMut::new();
    while taken.len() < expected.len() {
        let ready = replies.ready_mut();
        let step = ready.len().min(50_000);
        taken.extend_from_slice(&ready.split_to(step));
        replies.written(step);
        let Queue { ready, written, .. } = replies.own();
        let (left, kept) = (ready.len(), ready.capacity() + *written);
        assert!(kept <= left + left / 2 + LARGE_BYTES + step, "{kept} bytes for {left}");
    }
    assert!(taken == expected && replies.bytes() == 0);
}

/// Of small replies that a client takes in part, what is left keeps little.
#[test]
fn what_is_left_of_small_replies_keeps_little() {
    let kept = || {
        let mut replies = Replies::new(usize::MAX);
        (0..10_000).for_each(|_| replies.push(&Reply::Integer(7), Protocol::Resp2));
        let written = replies.bytes() - 100;
        replies.ready_mut().advance(written);
        replies.written(written);
        let Queue { ready, written, .. } = replies.own();
        (ready.len(), ready.capacity() + *written)
    };
    assert_eq!(kept(), (100, 100));
    let _fault = mutation::put_back(Some(Fault::WrittenKept));
    assert!(kept().1 > 30_000, "the fault is found");
}

#[test]
fn a_reply_that_is_too_large_is_an_error() {
    let mut replies = Replies::new(LARGE_BYTES);
    let large = Reply::Text("x".repeat(2 * LARGE_BYTES));
    replies.push_after(Some(large), Committing::nothing(), false, Protocol::Resp2);
    replies.push(&Reply::OK, Protocol::Resp2);
    assert!(replies.settle().now_or_never().is_some());
    assert_eq!(&replies.ready_mut()[..], b"-LIMIT client_reply_bytes_max 262144\r\n+OK\r\n");
}
