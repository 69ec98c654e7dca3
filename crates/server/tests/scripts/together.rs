//! Scripts beside other clients: nothing is lost, nothing is seen by halves, and who is in the way yields.

use std::time::Duration;

use bytes::BytesMut;
use forebay::runtime::simulated::SplitMix;
use forebay_protocol::encode_command;

use crate::support::{Peer, server};
use crate::{ask, eval, plain};

/// Two clients that count through scripts lose no count, whether the keys are declared or met in opposite orders.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn scripts_in_each_others_way_run_again() {
    const CLIENTS: usize = 4;
    const ROUNDS: usize = 50;
    let shared = plain();
    let declared = "local n = tonumber(redis.call('GET', KEYS[1]) or 0) redis.call('SET', KEYS[1], n + 1)";
    let met = "for _, key in ipairs(ARGV) do redis.call('SET', key, (redis.call('GET', key) or 0) + 1) end";
    let mut clients = Vec::new();
    for n in 0..CLIENTS {
        let shared = shared.clone();
        clients.push(tokio::spawn(async move {
            let mut peer = Peer::new(&shared);
            for _ in 0..ROUNDS {
                assert_eq!(ask(&mut peer, &["EVAL", declared, "1", "count"]).await, "$-1|");
                let keys = if n % 2 == 0 { ["x", "y"] } else { ["y", "x"] };
                while ask(&mut peer, &["EVAL", met, "0", keys[0], keys[1]]).await != "$-1|" {}
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    let all = (CLIENTS * ROUNDS).to_string();
    let expected = format!("${0}|{all}|", all.len()).repeat(3);
    assert_eq!(Peer::new(&shared).say("GET count\nGET x\nGET y").await, expected);
    shared.engine.validate();
    assert_eq!(shared.engine.locked_keys(), 0);
}

/// What a pipeline has written before is seen, and what a script has written is seen behind it.
#[tokio::test]
async fn a_script_in_a_pipeline_has_its_place() {
    let shared = plain();
    let mut peer = Peer::new(&shared);
    let mut bytes = BytesMut::new();
    encode_command(&mut bytes, &["SET", "k", "1"]);
    encode_command(&mut bytes, &["EVAL", "return redis.call('INCR', KEYS[1])", "1", "k"]);
    encode_command(&mut bytes, &["GET", "k"]);
    assert_eq!(peer.raw(&bytes).await, "+OK|:2|$1|2|");
    // SELECT in a script is the script's.
    assert_eq!(eval(&mut peer, "redis.call('SELECT', 1) redis.call('SET', 'k', 'other') return 1").await, ":1|");
    assert_eq!(peer.say("GET k\nSELECT 1\nGET k").await, "$1|2|+OK|$5|other|");
}

/// A script that waits for what an interactive transaction holds is served: that one yields to it, as to any command.
#[tokio::test]
async fn a_transaction_yields_to_a_script() {
    let shared = plain();
    let (mut holder, mut peer) = (Peer::new(&shared), Peer::new(&shared));
    assert_eq!(holder.say("TXN BEGIN\nSET k held").await, "+OK|+OK|");
    assert_eq!(ask(&mut peer, &["EVAL", "return redis.call('SET', KEYS[1], 'x')", "1", "k"]).await, "+OK|");
    assert!(holder.say("TXN COMMIT").await.starts_with("-TXABORTED wounded: EVAL k waited "));
    // So does one that has only read what the script is about to write.
    assert_eq!(holder.say("TXN BEGIN\nGET k").await, "+OK|$1|x|");
    assert_eq!(ask(&mut peer, &["EVAL", "return redis.call('APPEND', KEYS[1], 'y')", "1", "k"]).await, ":2|");
    assert!(holder.say("TXN COMMIT").await.starts_with("-TXABORTED wounded: EVAL k waited "));
    shared.engine.validate_locks();
}

/// A script whose session goes away in the middle of it changes nothing, and gives its place back.
#[tokio::test]
async fn one_whose_client_has_gone_changes_nothing() {
    let shared = server(|options| options.limits.scripts_max = 1);
    let mut peer = Peer::new(&shared);
    let endless = "redis.call('SET', KEYS[1], 1) while true do end";
    let request = ["EVAL", endless, "1", "k"];
    let left = tokio::time::timeout(Duration::from_millis(50), ask(&mut peer, &request)).await;
    assert!(left.is_err());
    drop(peer);
    let mut other = Peer::new(&shared);
    assert_eq!(ask(&mut other, &["EVAL", "return redis.call('GET', KEYS[1])", "1", "k"]).await, "$-1|");
    assert_eq!(shared.engine.locked_keys(), 0);
}

/// What a script does is shown to MONITOR, as Redis shows it.
#[tokio::test]
async fn monitor_shows_what_a_script_does() {
    let shared = plain();
    let (mut watcher, mut peer) = (Peer::new(&shared), Peer::new(&shared));
    assert_eq!(watcher.say("MONITOR").await, "+OK|");
    eval(&mut peer, "return redis.call('SET', 'k', 'v')").await;
    watcher.session.take_shown();
    let shown = String::from_utf8_lossy(watcher.session.replies.ready_mut()).into_owned();
    assert!(shown.contains("[0 lua] \"SET\" \"k\" \"v\""), "{shown}");
}

/// Money that scripts move between accounts is all there, whoever counts it and however: declared keys or met ones,
/// scripts that fail half way, EXEC with a script in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whoever_counts_sees_whole_transfers() {
    const ACCOUNTS: u64 = 6;
    const ROUNDS: usize = 60;
    const TRANSFER: &str = "local names = #KEYS > 0 and KEYS or {ARGV[2], ARGV[3]} \
        if names[1] == names[2] then return 0 end \
        redis.call('DECRBY', names[1], ARGV[1]) if ARGV[1] == '7' then error('half way') end \
        return redis.call('INCRBY', names[2], ARGV[1])";
    const COUNT: &str = "local sum = 0 for n = 0, 5 do sum = sum + redis.call('GET', 'a' .. n) end return sum";
    let shared = plain();
    let mut bank = Peer::new(&shared);
    for account in 0..ACCOUNTS {
        bank.say(&format!("SET a{account} 100")).await;
    }
    let mut clients = Vec::new();
    for seed in 0..4 {
        let shared = shared.clone();
        clients.push(tokio::spawn(async move {
            let (mut peer, mut dice) = (Peer::new(&shared), SplitMix::new(seed));
            for round in 0..ROUNDS {
                let [from, to] = [(); 2].map(|()| format!("a{}", dice.below(ACCOUNTS)));
                let amount = dice.below(10).to_string();
                let declared = ["EVAL", TRANSFER, "2", &from, &to, &amount];
                let met = ["EVAL", TRANSFER, "0", &amount, &from, &to];
                match dice.below(3) {
                    0 => drop(ask(&mut peer, &declared).await),
                    1 => drop(ask(&mut peer, &met).await),
                    _ => {
                        peer.say("MULTI\nINCRBY a0 3").await;
                        ask(&mut peer, &met).await;
                        peer.say("DECRBY a0 3\nEXEC").await;
                    }
                }
                let seen = match round % 3 {
                    0 => ask(&mut peer, &["EVAL_RO", COUNT, "0"]).await,
                    1 => ask(&mut peer, &["EVAL", COUNT, "2", "a5", "a0"]).await,
                    _ => {
                        let all = peer.say("MGET a0 a1 a2 a3 a4 a5").await;
                        let numbers = all.split('|').filter_map(|text| text.parse::<i64>().ok());
                        format!(":{}|", numbers.sum::<i64>())
                    }
                };
                assert!(seen == ":600|" || seen.starts_with("-TXCONFLICT"), "{seen}");
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(ask(&mut bank, &["EVAL_RO", COUNT, "0"]).await, ":600|");
    shared.engine.validate();
    assert_eq!(shared.engine.locked_keys(), 0);
}

/// A script that finds no place says so in the end, and one in a call that can't be stopped is named.
#[tokio::test]
async fn one_that_finds_no_place_says_so() {
    let shared = server(|options| (options.limits.script_ms_max, options.limits.scripts_max) = (50, 1));
    let (mut stuck, mut peer) = (Peer::new(&shared), Peer::new(&shared));
    // It takes some seconds.
    let long = "return ('a'):rep(80):find(('a-'):rep(4) .. 'b')";
    assert_eq!(eval(&mut stuck, long).await, "-LIMIT script_ms_max 50|");
    let killed = ask(&mut peer, &["SCRIPT", "KILL"]).await;
    assert!(killed.starts_with("-BUSY 1 scripts were told to stop"), "{killed}");
    assert_eq!(eval(&mut peer, "return 1").await, "-TXCONFLICT scripts_max 1: none of them ended for 200 ms, retry|");
}
