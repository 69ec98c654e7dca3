//! Scripts of MULTI whose answers have no room, or that are refused.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::crowd::Counted;

/// An EXEC that is refused since its client has gone ends its MULTI: nothing of it is done with the next one. What a
/// refused WATCH would have compared is not known, so the EXEC after it is refused.
#[tokio::test]
async fn a_refused_exec_ends_its_multi() {
    let sent = |begin: &str| {
        let many = " k".repeat(100);
        format!("{begin}{many}\r\nMULTI\r\nINCR a\r\nMGET{many}\r\nEXEC\r\nMULTI\r\nINCR b\r\nEXEC\r\n")
    };
    let done = |begin: &'static str| async move {
        let shared = shared(|_| {});
        let _taken = shared.room.underway.try_take(64 << 20, 64 << 20);
        let mut gone = connection(&shared, sent(begin).as_bytes());
        gone.wire.goes = true;
        gone.run().await.expect("it is served to its end");
        let mut other = connection(&shared, b"MGET a b\r\n");
        goes_on(&mut other).await;
        String::from_utf8_lossy(other.session.replies.ready_mut()).into_owned()
    };
    // The first EXEC needs room, and the second does not.
    assert_eq!(done("ECHO").await, "*2\r\n$-1\r\n$1\r\n1\r\n");
    assert_eq!(done("WATCH").await, "*2\r\n$-1\r\n$1\r\n1\r\n");
    let _fault = mutation::put_back(Some(Fault::RefusedExecStays));
    assert_eq!(done("ECHO").await, "*2\r\n$-1\r\n$-1\r\n", "the fault is found");
}

/// A client that sends nothing more has the answers of its script if there is room for them.
#[tokio::test]
async fn a_script_with_long_answers_is_served_when_its_client_has_sent_all() {
    let answered = |taken: usize| async move {
        let shared = shared(|_| {});
        let _taken = (taken > 0).then(|| shared.room.scripts.try_take(taken, taken));
        let script = "MULTI\r\nLRANGE l 0 -1\r\nLRANGE l 0 -1\r\nEXEC\r\n";
        let mut client = connection(&shared, format!("RPUSH l{}\r\n{script}", " e".repeat(900)).as_bytes());
        client.wire.goes = true;
        client.run().await.expect("it is served to its end");
        shared.figures.bytes_out.load(Ordering::Relaxed)
    };
    assert!(answered(0).await > 2 * 900 * 7);
    assert!(answered(64 << 20).await < 200, "it is refused what it would have to wait for");
    let _fault = mutation::put_back(Some(Fault::ScriptAnswersUncounted));
    assert!(answered(64 << 20).await > 2 * 900 * 7, "the fault is found");
}

/// Answers become longer while they wait for room. All of them are given in the end.
#[tokio::test]
async fn answers_that_become_longer_have_room_in_the_end() {
    let answered = || async {
        let shared = shared(|options| {
            (options.limits.client_reply_bytes_max, options.limits.replies_bytes_max) = (4 << 20, 4 << 20);
        });
        let script = format!("MULTI\r\nGET var\r\n{}EXEC\r\n", "GET v\r\n".repeat(10)).repeat(5);
        let set = |key: &str, length: usize| format!("SET {key} {}\r\n", "x".repeat(length)).into_bytes();
        goes_on(&mut connection(&shared, &set("v", 60_000))).await;
        let clients = (0..12).map(|_| {
            let client = shared.clients.add("127.0.0.1:1".into(), String::new(), 0, 1000).unwrap();
            Connection::new(Sips::new(&[script.as_bytes(), b"QUIT\r\n"].concat(), 60_000), shared.clone(), client)
        });
        let mut clients: Vec<_> = clients.collect();
        let served = futures_util::future::join_all(clients.iter_mut().map(Connection::run));
        let written = async {
            for count in 1..10_000 {
                let mut writer = connection(&shared, &set("var", count % 400 * 400));
                let some = async {
                    for _ in 0..5 {
                        tokio::task::yield_now().await;
                    }
                };
                tokio::select! { biased; _ = writer.run() => {}, () = some => {} }
                shared.clients.remove(writer.client.id);
            }
        };
        tokio::select! { biased; served = served => served.iter().all(Result::is_ok), () = written => false }
    };
    assert!(answered().await);
    let _fault = mutation::put_back(Some(Fault::ForgottenKeepsRoom));
    assert!(!answered().await, "the fault is found");
}

async fn some_turns() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

/// All the room for replies, as another client has it.
fn all_room(shared: &Arc<Shared>) -> Counted {
    let other = shared.clients.add("127.0.0.1:2".into(), String::new(), 0, 1000).unwrap();
    let all = Counted::new(shared.clone(), other);
    assert!(all.reserve(0, shared.limits.replies_bytes_max));
    all
}

/// What a half-closed client is answered to `sent`. Its script waits for room, and then `meanwhile` happens.
async fn answered(sent: String, shared: &Arc<Shared>, meanwhile: impl Future<Output = ()>) -> String {
    let all = all_room(shared);
    let mut client = connection(shared, sent.as_bytes());
    client.wire.goes = true;
    let happens = async {
        some_turns().await;
        meanwhile.await;
        all.settle(0);
        some_turns().await;
    };
    let _ = futures_util::future::join(client.run(), happens).await;
    String::from_utf8_lossy(&client.wire.took).into_owned()
}

/// A script whose answers need room, with `more` in it.
fn long_script(more: &str) -> String {
    format!("SET v {}\r\nMULTI\r\n{more}{}EXEC\r\n", "x".repeat(60_000), "GET v\r\n".repeat(8))
}

/// Its client has sent all that it will, and it is refused when it is to run again. What comes behind it is answered.
#[tokio::test]
async fn what_comes_behind_a_script_that_is_refused_is_answered() {
    let script = long_script(&format!("MGET{}\r\n", " k".repeat(100))).replace("EXEC", "SELECT 3\r\nEXEC");
    let sent = || format!("{script}SET a 1\r\nMULTI\r\nGET a\r\nEXEC\r\nSELECT 0\r\nGET a\r\n");
    let refused = || async {
        let shared = shared(|_| {});
        let (room, mut taken) = (shared.room.underway.clone(), None);
        let answers = answered(sent(), &shared, async { taken = room.try_take(64 << 20, 64 << 20) }).await;
        answers.split_once("-TXCONFLICT its client has gone while it waited for room\r\n").expect(&answers).1.to_owned()
    };
    assert_eq!(refused().await, "+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n$1\r\n1\r\n+OK\r\n$1\r\n1\r\n");
    let _fault = mutation::put_back(Some(Fault::UndoneSelectStays));
    assert!(refused().await.ends_with("+OK\r\n$-1\r\n"), "the fault is found");
}

/// EXEC waits for room, and a pause begins. EXEC runs again when the pause has ended.
#[tokio::test]
async fn a_script_that_waited_for_room_waits_out_a_pause() {
    let done = || async {
        let shared = shared(|_| {});
        let (runtime, seen) = (shared.engine.runtime().clone(), Arc::new(AtomicBool::new(false)));
        let paused = async { shared.pause.begin(60_000, true, &runtime, &shared.attention) };
        let looks = async {
            some_turns().await;
            some_turns().await;
            some_turns().await;
            let mut other = connection(&shared, b"EXISTS c\r\n");
            goes_on(&mut other).await;
            seen.store(&other.session.replies.ready_mut()[..] == b":1\r\n", Ordering::Relaxed);
            shared.pause.end(&shared.attention);
        };
        let (answers, ()) =
            futures_util::future::join(answered(long_script("INCR c\r\n"), &shared, paused), looks).await;
        assert!(answers.contains("*9\r\n:1\r\n"), "{answers:.200}");
        seen.load(Ordering::Relaxed)
    };
    assert!(!done().await, "it is done in the pause");
    let _fault = mutation::put_back(Some(Fault::PauseForgotten));
    assert!(done().await, "the fault is found");
}

/// EXEC waits for room, and its user loses the right to it, or to a key that it writes.
#[tokio::test]
async fn a_script_that_waited_for_room_needs_its_right_still() {
    let done = |rule: &'static [u8]| async move {
        let shared = shared(|_| {});
        let runtime = shared.engine.runtime().clone();
        let taken = async { shared.access.set_user(&runtime, "default", &[rule]).await.unwrap() };
        let answers = answered(long_script("INCR c\r\n") + "PING\r\n", &shared, taken).await;
        let mut other = connection(&shared, b"EXISTS c\r\n");
        goes_on(&mut other).await;
        let exists = other.session.replies.ready_mut()[..] == b":1\r\n"[..];
        (answers.rsplit_once("+QUEUED\r\n").expect(&answers).1.to_owned(), exists)
    };
    let (answers, exists) = done(b"-exec").await;
    assert!(answers.starts_with("-EXECABORT ") && answers.ends_with("+PONG\r\n") && !exists, "{answers:.200}");
    let (answers, exists) = done(b"-incr").await;
    assert!(answers.contains("NOPERM ") && !exists, "{answers:.200}");
    let _fault = mutation::put_back(Some(Fault::RightKeptInWait));
    assert!(done(b"-exec").await.1, "the fault is found");
}

/// A cached read waits for room, and its user loses the right to it. What is written then is not shown.
#[tokio::test]
async fn a_read_that_waited_for_room_needs_its_right_still() {
    let read = |rule: &'static [u8]| async move {
        let shared = shared(|_| {});
        let value = "x".repeat(600_000);
        let sent = format!("*3\r\n$3\r\nSET\r\n$1\r\nv\r\n$600000\r\n{value}\r\nGET v\r\nPING\r\n");
        let runtime = shared.engine.runtime().clone();
        let taken = async { shared.access.set_user(&runtime, "default", &[rule]).await.unwrap() };
        answered(sent, &shared, taken).await
    };
    for rule in [&b"-get"[..], b"resetkeys"] {
        let answers = read(rule).await;
        assert!(answers.starts_with("+OK\r\n-NOPERM ") && answers.ends_with("+PONG\r\n"), "{answers:.200}");
    }
    let _fault = mutation::put_back(Some(Fault::RightKeptInWait));
    assert!(read(b"-get").await.contains("xxx"), "the fault is found");
}
