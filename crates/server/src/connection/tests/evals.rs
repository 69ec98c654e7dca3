//! Scripts in Lua that hold more than there is room for.

use forebay_protocol::encode_command;

use super::*;

const WRITES: &str =
    "redis.call('INCR', 'runs') for n = 1, 4 do redis.call('SETRANGE', 'b' .. n, 999999, 'x') end return 4";

fn sent(requests: &[&[&str]]) -> BytesMut {
    let mut bytes = BytesMut::new();
    requests.iter().for_each(|words| encode_command(&mut bytes, words));
    bytes
}

/// What is answered to `requests` within a while.
async fn answered(shared: &Arc<Shared>, requests: &[&[&str]], ms: u64) -> String {
    let mut client = connection(shared, &sent(requests));
    let a_while = tokio::time::sleep(std::time::Duration::from_millis(ms));
    tokio::select! {
        ended = client.run() => panic!("the connection has ended: {ended:?}"),
        () = a_while => {}
    }
    String::from_utf8_lossy(client.session.replies.ready_mut()).replace("\r\n", "|")
}

/// It is undone, waits without a lock, and runs again: its writes are done once.
#[tokio::test]
async fn a_script_that_holds_much_waits_for_room() {
    let said = || async {
        let shared = shared_with(TxnLimits { placed_bytes_max: 64 << 20, ..TxnLimits::default() }, |_| {});
        let room = shared.room.documents.try_take(1 << 30, 1 << 30);
        let beside = async {
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            let requests: &[&[&str]] = &[&["GET", "runs"], &["INCR", "runs"], &["SETRANGE", "b1", "1999999", "y"]];
            let said = answered(&shared, requests, 100).await;
            drop(room);
            said
        };
        let (script, beside) = tokio::join!(answered(&shared, &[&["EVAL", WRITES, "0"]], 2_000), beside);
        assert_eq!(script, ":4|");
        assert!(!shared.room.documents.is_taken(), "all of it is given back");
        shared.engine.validate_locks();
        format!("{beside}{}", answered(&shared, &[&["GET", "runs"], &["STRLEN", "b1"]], 100).await)
    };
    assert_eq!(said().await, "$-1|:1|:2000000|$1|2|:2000000|");
    let _fault = mutation::put_back(Some(Fault::ScriptsUncounted));
    assert_eq!(said().await, "$1|1|:2|:2000000|$1|2|:2000000|", "the fault is found");
}
