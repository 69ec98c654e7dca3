//! Requests that take long: others are served meanwhile, and they end when nobody waits for them.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::Forebay;
use crate::{Scene, bulk_request, until};

/// The longest that a client waits for a reply.
pub struct Clock {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<(u32, Duration)>,
}

impl Clock {
    pub fn new(scene: &Scene) -> Clock {
        let ends = Arc::new(AtomicBool::new(false));
        let (end, mut connection) = (ends.clone(), Connection::new(scene.address()));
        let thread = std::thread::spawn(move || {
            let (mut count, mut worst) = (0, Duration::ZERO);
            while !end.load(Ordering::Relaxed) {
                let began = Instant::now();
                assert_eq!(connection.call(&["PING"]), Reply::Simple("PONG".into()));
                (count, worst) = (count + 1, worst.max(began.elapsed()));
                std::thread::sleep(Duration::from_millis(1));
            }
            (count, worst)
        });
        Clock { ends, thread }
    }

    pub fn end(self, what: &str) {
        self.ends.store(true, Ordering::Relaxed);
        let (count, worst) = self.thread.join().expect("it is served");
        println!("{what}: the other client was served {count} times, the longest took {} ms", worst.as_millis());
    }
}

/// A member that matches only in its last byte, wherever the pattern is tried.
pub fn slow_pattern(length: usize) -> String {
    format!("*{}[xy]*z", "[ab]".repeat(length))
}

#[test]
fn patterns_over_long_names_give_others_their_turn() {
    for threads in ["1", "2"] {
        let scene = Scene::new(&["--threads", threads]);
        let mut connection = Connection::new(scene.address());
        let member = "a".repeat(300_000);
        assert_eq!(connection.call(&["SADD", "s", &member]), Reply::Integer(1));
        for number in 0..20 {
            let key = format!("{number:0>5}{}", "a".repeat(60_000));
            assert_eq!(connection.call(&["SET", &key, "v"]), Reply::Simple("OK".into()));
        }
        let clock = Clock::new(&scene);
        let pattern = slow_pattern(50);
        let nothing = Reply::Array(vec![Reply::bulk(&b"0"[..]), Reply::Array(Vec::new())]);
        assert_eq!(connection.call(&["SSCAN", "s", "0", "MATCH", &pattern]), nothing);
        assert_eq!(connection.call(&["KEYS", &pattern]), Reply::Array(Vec::new()));
        // The same in a script, and where it matches.
        for command in [&["MULTI"][..], &["SSCAN", "s", "0", "MATCH", &pattern], &["SSCAN", "s", "0", "MATCH", "a*"]] {
            connection.call(command);
        }
        let Reply::Array(replies) = connection.call(&["EXEC"]) else { panic!("two replies") };
        assert_eq!(replies[0], nothing);
        assert!(matches!(&replies[1], Reply::Array(parts) if parts[1] != Reply::Array(Vec::new())));
        // Longer than any name: known at once.
        assert_eq!(connection.call(&["KEYS", &"*?".repeat(62_000)]), Reply::Array(Vec::new()));
        clock.end(&format!("patterns, {threads} threads"));
        scene.others_are_served("");
    }
}

/// The pattern of a rule is compared with each key of a request: two hundred such keys took a minute.
#[test]
fn rules_over_long_keys_give_others_their_turn() {
    for threads in ["1", "2"] {
        let scene = Scene::new(&["--threads", threads]);
        let mut connection = Connection::new(scene.address());
        let (ok, rule) = (Reply::Simple("OK".into()), format!("~*{}:*", "[0-9a-f]".repeat(32)));
        assert_eq!(connection.call(&["ACL", "SETUSER", "u", "on", "nopass", &rule, "+@all"]), ok);
        assert_eq!(connection.call(&["AUTH", "u", "any"]), ok);
        let key = |end: &str| format!("{}{}{end}", "a".repeat(59_960), "0".repeat(32));
        let (permitted, other) = (key(":"), key(""));
        let clock = Clock::new(&scene);
        let keys = [&["EXISTS"][..], &vec![permitted.as_str(); 200]].concat();
        assert_eq!(connection.call(&keys), Reply::Integer(0));
        let refused = connection.call(&[&keys[..], &[&other]].concat());
        assert!(matches!(&refused, Reply::Error(text) if text.starts_with(b"NOPERM")), "{refused:?}");
        clock.end(&format!("rules, {threads} threads"));
        scene.others_are_served("");
    }
}

/// A call that nothing stops, of a script, does not keep the process from its end.
#[test]
fn a_call_that_nothing_stops_ends_with_the_process() {
    let mut forebay = Forebay::start("memory", &["--script-ms-max", "100"]);
    let script = "return ('a'):rep(1e6):find('.-b')";
    let told = Connection::new(forebay.address).call(&["EVAL", script, "0"]);
    assert_eq!(told, Reply::error("LIMIT script_ms_max 100"));
    forebay.terminate();
}

#[test]
fn a_long_request_ends_with_its_client() {
    let scene = Scene::new(&["--threads", "1"]);
    let mut connection = Connection::new(scene.address());
    assert_eq!(connection.call(&["SADD", "s", &"a".repeat(4_000_000)]), Reply::Integer(1));
    // Hours of work.
    let endless = bulk_request(&["SSCAN", "s", "0", "MATCH", &slow_pattern(20_000)]);
    let clock = Clock::new(&scene);
    let mut streams: Vec<_> = (0..3).map(|_| scene.connect()).collect();
    let mut ids = Vec::new();
    for stream in &mut streams {
        stream.write_all(&endless).expect("it is read");
        ids.push(stream.local_addr().expect("an address").to_string());
    }
    let listed = |connection: &mut Connection| match connection.call(&["CLIENT", "LIST"]) {
        Reply::Bulk(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("CLIENT LIST: {other:?}"),
    };
    until("they are there", || ids.iter().all(|id| listed(&mut connection).contains(id)));
    assert_eq!(connection.call(&["CLIENT", "KILL", &ids[0]]), Reply::Simple("OK".into()));
    until("the killed one is gone", || !listed(&mut connection).contains(&ids[0]));
    drop(streams.swap_remove(1));
    until("the closed one is gone", || !listed(&mut connection).contains(&ids[1]));
    clock.end("requests without an end");
    assert!(listed(&mut connection).contains(&ids[2]), "nothing else ends it");
    assert_eq!(connection.call(&["CLIENT", "KILL", &ids[2]]), Reply::Simple("OK".into()));
    scene.others_are_served("");
}

#[test]
fn wide_requests_do_not_hold_others_up() {
    let scene = Scene::new(&["--threads", "2"]);
    let mut connection = Connection::new(scene.address());
    let keys: Vec<String> = (0..30_000).map(|number| format!("wide:{number}")).collect();
    let request = |name: &'static str, every: &[&'static str]| -> Vec<String> {
        let args =
            keys.iter().flat_map(|key| std::iter::once(key.clone()).chain(every.iter().map(|arg| (*arg).into())));
        std::iter::once(name.to_owned()).chain(args).collect()
    };
    let clock = Clock::new(&scene);
    let mut call = |request: Vec<String>| {
        let args: Vec<&str> = request.iter().map(String::as_str).collect();
        connection.call(&args)
    };
    assert_eq!(call(request("EXISTS", &[])), Reply::Integer(0));
    assert_eq!(call(request("MSET", &["value"])), Reply::Simple("OK".into()));
    assert_eq!(call(request("EXISTS", &[])), Reply::Integer(30_000));
    let Reply::Array(values) = call(request("MGET", &[])) else { panic!("values") };
    assert!(values.len() == 30_000 && values.iter().all(|value| *value == Reply::bulk(&b"value"[..])));
    assert_eq!(call(request("DEL", &[])), Reply::Integer(30_000));
    clock.end("wide requests");
    scene.others_are_served("");
}
