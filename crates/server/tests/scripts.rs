//! EVAL and its kind: what a script sees and does, what bounds it, who may use it, and that it is one transaction.

mod support;
#[path = "scripts/together.rs"]
mod together;

use std::sync::Arc;

use bytes::BytesMut;
use forebay_protocol::encode_command;
use forebay_server::Shared;
use support::{Peer, server};

/// What the server answers to one request.
async fn ask(peer: &mut Peer, args: &[&str]) -> String {
    let mut bytes = BytesMut::new();
    encode_command(&mut bytes, args);
    peer.raw(&bytes).await
}

/// What a script answers that has no keys.
async fn eval(peer: &mut Peer, script: &str) -> String {
    ask(peer, &["EVAL", script, "0"]).await
}

async fn check(peer: &mut Peer, cases: &[(&str, &str)]) {
    for (script, expected) in cases {
        assert_eq!(eval(peer, script).await, *expected, "{script}");
    }
}

fn plain() -> Arc<Shared> {
    server(|_| {})
}

#[tokio::test]
async fn values_become_replies_as_in_redis() {
    let shared = plain();
    let mut peer = Peer::new(&shared);
    check(
        &mut peer,
        &[
            ("return 3.99", ":3|"),
            ("return -3.99", ":-3|"),
            ("return 'a\\r\\nb'", "$4|a|b|"),
            ("return true", ":1|"),
            ("return false", "$-1|"),
            ("return nil", "$-1|"),
            ("return", "$-1|"),
            ("return {1, 2, nil, 3}", "*2|:1|:2|"),
            ("return {1, {2, 'a'}, false, true}", "*4|:1|*2|:2|$1|a|$-1|:1|"),
            ("return {ok = 'fine'}", "+fine|"),
            ("return {err = 'MY error'}", "-MY error|"),
            ("return redis.status_reply('a b')", "+a b|"),
            ("return redis.error_reply('nospace')", "-ERR nospace|"),
            ("return redis.error_reply('-FOO bar')", "-FOO bar|"),
            ("return {double = 3.5}", "$3|3.5|"),
            ("return {map = {a = 1}}", "*2|$1|a|:1|"),
            ("return function() end", "$-1|"),
            ("local a = {} a[1] = a return a", "-ERR reached lua stack limit|"),
            ("return redis.call('SET', 'k', 3.3)", "+OK|"),
            ("return redis.call('GET', 'k')", "$18|3.2999999999999998|"),
            ("return redis.call('SET', 'k', 10 / 2).ok", "$2|OK|"),
            ("return redis.call('INCR', 'k') + 0.9", ":6|"),
            ("return type(redis.call('GET', 'none'))", "$7|boolean|"),
            (
                "return type(redis.pcall('GET')) .. redis.pcall('NOSUCH').err",
                "$49|tableERR Unknown Redis command called from script|",
            ),
            ("redis.call('HSET', 'h', 'f', 'v') return redis.call('HGETALL', 'h')", "*2|$1|f|$1|v|"),
            ("redis.setresp(3) return redis.call('HGETALL', 'h').map.f", "$1|v|"),
            ("redis.setresp(3) return redis.call('GET', 'none') == nil", ":1|"),
        ],
    )
    .await;
}

#[tokio::test]
async fn the_library_is_that_of_redis() {
    let shared = plain();
    let mut peer = Peer::new(&shared);
    check(
        &mut peer,
        &[
            ("return redis.sha1hex('')", "$40|da39a3ee5e6b4b0d3255bfef95601890afd80709|"),
            (
                "return cjson.encode({1, 'a\"/', true, cjson.null, {}, {x = 1.5}})",
                "$34|[1,\"a\\\"\\/\",true,null,{},{\"x\":1.5}]|",
            ),
            ("return cjson.decode('{\"a\": [1, 2.5, null, \"x\"]}').a[4]", "$1|x|"),
            ("return tostring(cjson.decode('[null]')[1] == cjson.null)", "$4|true|"),
            ("return {bit.band(0xff, 0x0f), bit.bor(1, 2), bit.bxor(3, 1), bit.bnot(0)}", "*4|:15|:3|:2|:-1|"),
            ("return {bit.lshift(1, 31), bit.rshift(-1, 28), bit.arshift(-8, 1)}", "*3|:-2147483648|:15|:-4|"),
            ("return {bit.tohex(255), bit.tohex(-1, -4)}", "*2|$8|000000ff|$4|FFFF|"),
            ("return redis.LOG_WARNING + redis.REPL_ALL", ":6|"),
            ("redis.log(redis.LOG_DEBUG, 'one', 2) return 1", ":1|"),
            ("return table.concat({1, 2}, ',') .. ('x'):rep(3) .. math.floor(2.5)", "$7|1,2xxx2|"),
            ("return {('a.b'):find('.', 1, true)}", "*2|:2|:2|"),
            ("local t = {1, 3} table.insert(t, 2, 2) return t", "*3|:1|:2|:3|"),
            ("return loadstring('return 7')()", ":7|"),
            ("local c = coroutine.wrap(function() coroutine.yield(redis.call('PING').ok) end) return c()", "$4|PONG|"),
            ("return _VERSION", "$7|Lua 5.1|"),
            ("return os.clock() >= 0", ":1|"),
        ],
    )
    .await;
    assert_eq!(
        ask(&mut peer, &["EVAL", "return {KEYS[1], ARGV[2], #ARGV}", "1", "k", "a", "b"]).await,
        "*3|$1|k|$1|b|:2|"
    );
}

#[tokio::test]
async fn a_script_reaches_nothing_but_its_keys() {
    let shared = plain();
    let mut peer = Peer::new(&shared);
    for name in ["io", "debug", "package", "require", "dofile", "loadfile", "print", "module", "getfenv", "x"] {
        let said = eval(&mut peer, &format!("return {name}")).await;
        let expected =
            format!("-ERR user_script:1: Script attempted to access nonexistent global variable '{name}' script: ");
        assert!(said.starts_with(&expected) && said.ends_with(", on @user_script:1.|"), "{said}");
    }
    for (script, expected) in [
        ("\nx = 1", "-ERR user_script:2: Attempt to modify a readonly table script: "),
        ("return os.execute('true')", "-ERR user_script:1: attempt to call field 'execute' (a nil value) script: "),
        ("return loadstring('\\27Lua')()", "-ERR user_script:1: attempt to call a nil value script: "),
        (
            "return string.dump(function() end)",
            "-ERR user_script:1: attempt to call field 'dump' (a nil value) script: ",
        ),
        ("setmetatable(_G, {})", "-ERR user_script:1: cannot change a protected metatable script: "),
        ("return redis.call('NOSUCH')", "-ERR Unknown Redis command called from script script: "),
        ("return redis.call('GET')", "-ERR Wrong number of args calling Redis command from script script: "),
        ("return redis.call()", "-ERR Please specify at least one argument for this redis lib call script: "),
        ("return redis.call({})", "-ERR Lua redis lib command arguments must be strings or integers script: "),
        ("error('boom')", "-ERR user_script:1: boom script: "),
        ("error({err = 'MY own'})", "-MY own script: "),
        ("error()", "-ERR nil script: "),
        ("return redis.call('SELECT', 100)", "-ERR DB index is out of range script: "),
        ("this is no Lua", "-ERR Error compiling script (new function): user_script:1: '=' expected near 'is'|"),
        ("\u{1b}Lua", "-ERR Error compiling script (new function): "),
        ("local x = (' '):find(('a?'):rep(5000)) return x", "-ERR user_script:1: pattern too long script: "),
        (
            "table.insert({}, -2000000000, 1)",
            "-ERR user_script:1: bad argument #2 to 'insert' (position out of bounds)",
        ),
    ] {
        let said = eval(&mut peer, script).await;
        assert!(said.starts_with(expected), "{script}: {said}");
    }
    let refused = [
        "MULTI",
        "EXEC",
        "TXN BEGIN",
        "WATCH a",
        "SUBSCRIBE a",
        "AUTH a",
        "HELLO",
        "CLIENT ID",
        "CACHE STATS",
        "CONFIG GET maxmemory",
        "EVAL 1 0",
        "SCRIPT FLUSH",
        "KEYS *",
        "SHUTDOWN",
        "INFO",
        "ACL WHOAMI",
        "QUIT",
        "RESET",
    ];
    for command in refused {
        let args = command.split(' ').map(|arg| format!("'{arg}'")).collect::<Vec<_>>().join(",");
        let said = eval(&mut peer, &format!("return redis.call({args})")).await;
        assert!(said.starts_with("-ERR This Redis command is not allowed from script script: "), "{command}: {said}");
    }
    // What one leaves behind another does not find.
    check(
        &mut peer,
        &[("rawset(_G, 'left', 1) string.sub = nil return left", ":1|"), ("return rawget(_G, 'left')", "$-1|")],
    )
    .await;
    assert_eq!(eval(&mut peer, "return ('ab'):sub(1, 1)").await, "$1|a|");
}

#[tokio::test]
async fn an_error_undoes_all_that_was_written() {
    let shared = plain();
    let mut peer = Peer::new(&shared);
    peer.say("SET a 1\nLPUSH l x").await;
    let scripts = [
        "redis.call('SET', 'a', 2) error('boom')",
        "redis.call('SET', 'a', 2) redis.call('INCR', 'l')",
        "redis.call('SET', 'a', 2) redis.pcall('INCR', 'l') return redis.error_reply('told')",
        "pcall(redis.call, 'SET', 'a', 2) return {err = 'ERR told'}",
        "redis.call('SET', 'a', 2) return redis.pcall('INCR', 'l')",
    ];
    for script in scripts {
        let said = eval(&mut peer, script).await;
        assert!(said.starts_with('-'), "{said}");
        assert_eq!(peer.say("GET a").await, "$1|1|", "{script}");
    }
    // What the script has dealt with does not end it, and of the command that failed nothing is done.
    let kept = "redis.call('SET', 'a', 2) local r = redis.pcall('INCR', 'l') return {r.err, redis.call('GET', 'a')}";
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    assert_eq!(eval(&mut peer, kept).await, format!("*2|${}|{wrong}|$1|2|", wrong.len()));
    assert_eq!(peer.say("GET a\nLRANGE l 0 -1").await, "$1|2|*1|$1|x|");
    let caught = "local ok, e = pcall(redis.call, 'INCR', 'l') return {tostring(ok), e}";
    assert_eq!(eval(&mut peer, caught).await, format!("*2|$5|false|${}|{wrong}|", wrong.len()));
}

#[tokio::test]
async fn scripts_are_kept_by_their_hash() {
    let shared = plain();
    let mut peer = Peer::new(&shared);
    let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    let none = "-NOSCRIPT No matching script. Please use EVAL.|";
    assert_eq!(ask(&mut peer, &["EVALSHA", sha, "0"]).await, none);
    assert_eq!(ask(&mut peer, &["SCRIPT", "LOAD", "return 1"]).await, format!("$40|{sha}|"));
    assert_eq!(ask(&mut peer, &["EVALSHA", &sha.to_uppercase(), "0"]).await, ":1|");
    assert_eq!(ask(&mut peer, &["SCRIPT", "EXISTS", sha, "x"]).await, "*2|:1|:0|");
    assert_eq!(ask(&mut peer, &["SCRIPT", "LOAD", "no Lua"]).await.get(..12), Some("-ERR Error c"));
    assert_eq!(ask(&mut peer, &["SCRIPT", "FLUSH", "ASYNC"]).await, "+OK|");
    assert_eq!(ask(&mut peer, &["EVALSHA", sha, "0"]).await, none);
    assert_eq!(eval(&mut peer, "return 1").await, ":1|");
    assert_eq!(ask(&mut peer, &["EVALSHA_RO", sha, "0"]).await, ":1|", "EVAL keeps what it runs");
    assert_eq!(ask(&mut peer, &["SCRIPT", "KILL"]).await, "-NOTBUSY No scripts in execution right now.|");
    for (count, why) in [
        ("x", "value is not an integer or out of range"),
        ("3", "Number of keys can't be greater than number of args"),
        ("-1", "Number of keys can't be negative"),
    ] {
        assert_eq!(ask(&mut peer, &["EVAL", "return 1", count, "a"]).await, format!("-ERR {why}|"));
    }
    let keys = ask(&mut peer, &["COMMAND", "GETKEYS", "EVAL", "return 1", "2", "a", "b", "c"]).await;
    assert_eq!(keys, "*2|$1|a|$1|b|");
    assert!(ask(&mut peer, &["COMMAND", "INFO", "EVALSHA"]).await.contains("|+@scripting|"));
}

#[tokio::test]
async fn what_only_reads_does_not_write() {
    let shared = plain();
    let mut peer = Peer::new(&shared);
    let refused = "-ERR Write commands are not allowed from read-only scripts. script: ";
    let said = ask(&mut peer, &["EVAL_RO", "return redis.call('SET', KEYS[1], 1)", "1", "k"]).await;
    assert!(said.starts_with(refused), "{said}");
    let said = eval(&mut peer, "#!lua flags=no-writes\nreturn redis.call('SET', 'k', 1)").await;
    assert!(said.starts_with(refused) && said.ends_with("on @user_script:2.|"), "{said}");
    assert_eq!(ask(&mut peer, &["EVAL_RO", "return redis.call('GET', KEYS[1])", "1", "k"]).await, "$-1|");
}

#[tokio::test]
async fn one_that_never_ends_is_stopped_and_others_are_served() {
    let shared = server(|options| {
        options.limits.script_ms_max = 100;
        options.limits.scripts_max = 1;
    });
    let mut peer = Peer::new(&shared);
    let mut other = Peer::new(&shared);
    for script in [
        "while true do end",
        "while true do pcall(error) end",
        "while true do pcall(function() while true do end end) end",
        "local function f() while true do end end while true do coroutine.wrap(f)() end",
        "redis.call('SET', 'k', 1) while true do redis.pcall('PING') end",
        "while true do pcall(string.rep, 'x', 1e9) end",
        "return table.sort({3, 2, 1, 5, 4}, function() while true do end end)",
        "local function f() return f() end return f()",
        // Each call is one instruction, and takes long.
        "local t = {} for n = 1, 20000 do t[n] = n end while true do cjson.encode(t) end",
        "local t = {} for n = 1, 20000 do t[n] = n end while true do table.sort(t) end",
        "local s = ('x'):rep(1e6) while true do s:upper() end",
        "local function h() while true do end end while true do xpcall(error, h) end",
    ] {
        let (said, served) = tokio::join!(eval(&mut peer, script), other.say("SET o 1\nGET o"));
        assert_eq!((said.as_str(), served.as_str()), ("-LIMIT script_ms_max 100|", "+OK|$1|1|"), "{script}");
        // Its thread has gone: there is one place.
        assert_eq!(eval(&mut other, "return redis.call('GET', 'k')").await, "$-1|", "{script}");
    }
    shared.engine.validate_locks();
}

#[tokio::test]
async fn memory_and_depth_are_bounded() {
    let shared = server(|options| options.limits.script_bytes_max = 2 << 20);
    let mut peer = Peer::new(&shared);
    let limit = "-LIMIT script_bytes_max 2097152";
    for script in [
        "return string.rep('x', 2147483647)",
        "local t = {} while true do t[#t + 1] = ('x'):rep(100) .. #t end",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} for n = 1, 30 do t = {t, t} end return t",
        "return ('%s'):rep(100000):gsub('.', ('x'):rep(1000))",
        "return cjson.encode({('x'):rep(700000), ('x'):rep(700000), ('y'):rep(700000), ('z'):rep(700001)})",
        "collectgarbage('stop') while true do local t = {} end",
        // One string that stands in many places is copied for each.
        "local s, t = ('x'):rep(1e6), {} for n = 1, 1e4 do t[n] = s end return cjson.encode(t)",
        "local t = {} for n = 1, 30 do t = {t, t} end return cjson.encode(t)",
        "local s, t = ('x'):rep(1e6), {} for n = 1, 3000 do t[n] = s end return redis.call('MSET', unpack(t))",
    ] {
        let said = eval(&mut peer, script).await;
        assert!(said.starts_with(limit), "{script}: {}", &said[..said.len().min(200)]);
    }
    for (script, why) in [
        ("local function f() return 1 + f() end return f()", "stack overflow"),
        (
            "local s = 'return ' .. ('('):rep(1000) .. '1' .. (')'):rep(1000) return loadstring(s)()",
            "attempt to call a nil value",
        ),
        ("local t = {} for n = 1, 1000 do t = {t} end return cjson.encode(t)", "excessive depth"),
        ("return cjson.decode(('['):rep(1000))", "recursion limit"),
        ("return unpack({}, 1, 1e8)", "too many results to unpack"),
        ("return unpack({}, 0, 2147483647)", "too many results to unpack"),
        ("return unpack({}, -2147483648, 2147483647)", "too many results to unpack"),
        ("return unpack({}, 0/0, 2147483647)", "too many results to unpack"),
    ] {
        let said = eval(&mut peer, script).await;
        assert!(said.starts_with("-ERR ") && said.contains(why), "{script}: {said}");
    }
    for (script, expected) in [
        ("return select('#', pcall(unpack, {}, 1, 200))", ":201|"),
        ("return select('#', unpack({1, 2, 3}, nil, 2)) * 10 + select('#', unpack({1, 2, 3}, 2))", ":22|"),
        ("local f f = function() return coroutine.resume(coroutine.create(f)) end return (f())", ":1|"),
        ("local d = 0 local function f() d = d + 1 return coroutine.wrap(f)() end pcall(f) return d", ":198|"),
        ("local d = 0 local function f() d = d + 1 return (pcall(f)) end f() return d", ":198|"),
        ("return #('a'):rep(2048):match(('a?'):rep(2048))", ":2048|"),
    ] {
        assert_eq!(eval(&mut peer, script).await, expected, "{script}");
    }
    assert_eq!(eval(&mut peer, "return pcall(string.rep, 'x', 2147483647)").await, "$-1|", "it may be caught");
    assert_eq!(eval(&mut peer, "return 1").await, ":1|");
}

#[tokio::test]
async fn script_kill_stops_what_runs() {
    let shared = server(|options| options.limits.scripts_max = 1);
    let (mut peer, mut other) = (Peer::new(&shared), Peer::new(&shared));
    let killed = async {
        loop {
            tokio::task::yield_now().await;
            match ask(&mut other, &["SCRIPT", "KILL"]).await.as_str() {
                "+OK|" => break,
                said => assert!(said.starts_with("-NOTBUSY"), "{said}"),
            }
        }
    };
    let mut third = Peer::new(&shared);
    let loaded = async {
        // It needs no place, so it does not wait for scripts.
        for n in 0..4 {
            assert!(ask(&mut third, &["SCRIPT", "LOAD", &format!("return {n}")]).await.starts_with("$40|"));
        }
        killed.await;
    };
    let (said, ()) = tokio::join!(eval(&mut peer, "redis.call('SET', 'k', 1) while true do end"), loaded);
    assert_eq!(said, "-ERR Error running script: Script killed by user with SCRIPT KILL.|");
    assert_eq!(peer.say("GET k").await, "$-1|");
}

#[tokio::test]
async fn each_command_is_checked_for_its_user() {
    let shared = plain();
    let mut admin = Peer::new(&shared);
    admin.say("SET own:1 1\nSET other 1").await;
    admin.say("ACL SETUSER ann on nopass ~own:* +@scripting +get +set -hget").await;
    admin.say("ACL SETUSER bob on nopass ~* +get").await;
    let mut ann = Peer::new(&shared);
    assert_eq!(ann.say("AUTH ann x").await, "+OK|");
    assert_eq!(eval(&mut ann, "return redis.call('GET', 'own:1')").await, "$1|1|");
    let said = eval(&mut ann, "return redis.call('GET', 'other')").await;
    assert!(said.starts_with("-ERR ACL failure in script: No permissions to access a key script: "), "{said}");
    let said = eval(&mut ann, "redis.call('SET', 'own:1', 2) return redis.call('HGET', 'own:1', 'f')").await;
    let expected = "-ERR ACL failure in script: User ann has no permissions to run the 'hget' command script: ";
    assert!(said.starts_with(expected), "{said}");
    assert_eq!(ann.say("GET own:1").await, "$1|1|");
    let said = ask(&mut ann, &["EVAL", "return 1", "1", "other"]).await;
    assert_eq!(said, "-NOPERM No permissions to access a key|", "declared keys are checked before");
    let mut bob = Peer::new(&shared);
    assert_eq!(bob.say("AUTH bob x").await, "+OK|");
    assert_eq!(eval(&mut bob, "return 1").await, "-NOPERM User bob has no permissions to run the 'eval' command|");
}

#[tokio::test]
async fn exec_runs_scripts_in_its_transaction() {
    let shared = plain();
    let mut peer = Peer::new(&shared);
    peer.say("MULTI\nSET a 1").await;
    let script = "redis.call('INCR', KEYS[1]) return redis.call('INCR', 'b')";
    assert_eq!(ask(&mut peer, &["EVAL", script, "1", "a"]).await, "+QUEUED|");
    assert_eq!(peer.say("GET a\nGET b\nEXEC").await, "+QUEUED|+QUEUED|*4|+OK|:1|$1|2|$1|1|");
    peer.say("MULTI\nSET a 5").await;
    eval(&mut peer, "redis.call('SET', 'b', 7) error('boom')").await;
    let said = peer.say("EXEC").await;
    assert!(said.starts_with("-EXECABORT rolled back: command 2 (EVAL ") && said.contains("boom"), "{said}");
    assert_eq!(peer.say("GET a\nGET b").await, "$1|2|$1|1|");
    // A watched key that another has changed ends it.
    let mut other = Peer::new(&shared);
    peer.say("WATCH a\nMULTI").await;
    eval(&mut peer, "return redis.call('SET', 'b', 7)").await;
    other.say("SET a 9").await;
    assert_eq!(peer.say("EXEC\nGET b").await, "*-1|$1|1|");
    peer.say("TXN BEGIN").await;
    assert_eq!(eval(&mut peer, "return 1").await, "-ERR EVAL inside TXN is not allowed|");
    assert_eq!(peer.say("TXN ABORT").await, "+OK|");
}
