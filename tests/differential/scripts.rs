//! Scripts: what they are answered, word for word. Each runs on both servers, in RESP2 and in RESP3.

use forebay_protocol::Reply;

use crate::common::process::Forebay;
use crate::common::{Connection, start_redis};

/// Scripts with the keys `a` and `b` and the arguments `1` and `x y`. Each begins with what the ones before have left.
const SCRIPTS: &[&str] = &[
    "return 1",
    "return 1.99",
    "return -0.5",
    "return 1e300",
    "return '' .. 1e15 .. 0.1 .. 100",
    "return {1, 'two', {3, {4}}, false, true, 'gone', nil, 'never'}",
    "return {}",
    "return {ok = 'a\\nb'}",
    "return {err = 'ERR a\\r\\nb'}",
    "return {err = 'nospace'}",
    "return {double = 1.5}",
    "return {big_number = '123'}",
    "return {map = {}}",
    "return {set = {x = true}}",
    "return {verbatim_string = {format = 'txt', string = 'said'}}",
    "redis.setresp(3) return {true, false}",
    "redis.setresp(3) return redis.call('HGETALL', KEYS[2])",
    "return redis.status_reply('fine')",
    "return redis.error_reply('one')",
    "return redis.error_reply('ONE two')",
    "return redis.error_reply('-ONE two')",
    "return {KEYS[1], KEYS[2], KEYS[3], ARGV[1]}",
    "return #KEYS + #ARGV",
    "return redis.call('SET', KEYS[1], ARGV[2])",
    "return redis.call('GET', KEYS[1])",
    "return redis.call('STRLEN', KEYS[1]) / 2",
    "return redis.call('HSET', KEYS[2], 'f', 1, 'g', 2.5)",
    "return redis.call('HMGET', KEYS[2], 'f', 'g', 'h')",
    "return redis.call('HGETALL', KEYS[2])",
    "local f = redis.call('HINCRBYFLOAT', KEYS[2], 'f', 0.25) return f .. type(f)",
    "return redis.call('TYPE', KEYS[2])",
    "return redis.call('TYPE', KEYS[2]).ok",
    "return redis.pcall('INCR', KEYS[2])",
    "return redis.call('INCR', KEYS[2])",
    "local r = redis.pcall('INCR', KEYS[2]) return type(r) .. r.err",
    "local ok, e = pcall(redis.call, 'INCR', KEYS[2]) return tostring(ok) .. type(e) .. e",
    "local ok, e = pcall(error, 'boom') return tostring(ok) .. tostring(e)",
    "local ok, e = pcall(error, {err = 'MINE'}) return e",
    "return xpcall(function() return 1 end, function() return 2 end) and 3",
    "local _, e = xpcall(function() error('deep') end, function(said) return said .. '!' end) return e",
    "return redis.call('SADD', KEYS[1] .. 's', 'm')",
    "return redis.call('SMEMBERS', KEYS[1] .. 's')",
    "redis.setresp(3) return redis.call('SMEMBERS', KEYS[1] .. 's').set.m",
    "return redis.call('RPUSH', KEYS[1] .. 'l', 1, 2, 3.5)",
    "return redis.call('LRANGE', KEYS[1] .. 'l', 0, -1)",
    "return redis.call('DEL', KEYS[1] .. 'l', KEYS[1] .. 's')",
    "redis.call('SELECT', 3) redis.call('SET', 'in3', 1) return redis.call('DEL', 'in3')",
    "return redis.call('PING')",
    "return redis.call('ECHO', 5)",
    "return redis.call('NOSUCH', 1)",
    "return redis.pcall('NOSUCH', 1)",
    "\n\nreturn redis.call('GET')",
    "local x = 1\nredis.call('GET')\nreturn x",
    "return redis.call('MULTI')",
    "return redis.call('EVAL', 'return 1', 0)",
    "return redis.call('SUBSCRIBE', 'a')",
    "return redis.call('CONFIG', 'GET', 'maxmemory')",
    "return redis.call('HELLO')",
    "return redis.call('CLIENT', 'ID')",
    "return redis.call()",
    "return redis.call({})",
    "return redis.call('SET', KEYS[1], true)",
    "return redis.log(1)",
    "return redis.log('x', 'y')",
    "return redis.log(redis.LOG_DEBUG, 'y')",
    "return redis.sha1hex()",
    "return redis.sha1hex('abc')",
    "return redis.setresp(4)",
    "return redis.replicate_commands()",
    "return nosuch",
    "nosuch = 1",
    "local function f() nosuch = 1 end\nf()",
    "return print",
    "return io",
    "return require('x')",
    "error()",
    "error('boom')",
    "error('boom', 0)",
    "error({err = 'MINE own', ignored = 1})",
    "error(12)",
    "return 1 + nil",
    "return nil .. 'x'",
    "return #5",
    "this is no script",
    "return '",
    "return loadstring('return 1 +')",
    "return loadstring('return 2')()",
    "return tostring(1e15) .. tostring(2^53) .. tostring(1/3)",
    "return string.format('%5.1f|%d|%s|%q', 1.25, 3, 'x', 'a\\nb')",
    "return ('hello world'):gsub('o', '0')",
    "return {('key:12'):match('^(%a+):(%d+)$')}",
    "return {('a,b,c'):find(',', 3, true)}",
    "local t = {3, 1, 2} table.sort(t) return t",
    "local t = {1, 2} table.insert(t, 1, 0) table.remove(t) return t",
    "return table.concat({1, 2.5, 'x'}, '-')",
    "return math.max(1, 2.9) .. math.floor(-1.5)",
    "local n = 0 for k in pairs({a = 1, b = 2}) do n = n + 1 end return n",
    "return select('#', unpack({1, 2, 3}))",
    "local c = coroutine.create(function(x) coroutine.yield(x + 1) error('in it') end) \
     local _, y = coroutine.resume(c, 1) local ok, e = coroutine.resume(c) return {y, tostring(ok), e}",
    "return cjson.encode({1, 2, {a = 'x\\\"/\\\\\\n'}, cjson.null, true})",
    "return cjson.encode({})",
    "return cjson.encode({[1] = 1, [3] = 3})",
    "return cjson.encode({x = 1.5})",
    "return cjson.encode(1e15) .. cjson.encode(1/3) .. cjson.encode('\\1\\127')",
    "local v = cjson.decode('{\"a\": [1, 2.5, null, \"\\\\u00e9\"], \"b\": false}') \
     return {v.a[1], tostring(v.a[2]), tostring(v.a[3]), v.a[4], tostring(v.b), #v.a}",
    "return cjson.encode(cjson.decode('[1e3, 12345678901234567890]'))",
    "return {bit.band(7, 12), bit.bor(1, 8), bit.bxor(5, 1), bit.bnot(1), bit.lshift(1, 33), bit.tobit(2^32 + 5)}",
    "return {bit.rshift(-1, 1), bit.arshift(-16, 2), bit.rol(1, 31), bit.ror(1, 1), bit.bswap(1), bit.tobit(3.7)}",
    "return {bit.tohex(-1), bit.tohex(255, 2), bit.tohex(171, -4)}",
    "return redis.call('EXISTS', KEYS[1], KEYS[2])",
    "return redis.call('DEL', KEYS[1], KEYS[2])",
];

#[test]
fn scripts_are_answered_as_in_redis() {
    let Some(redis) = start_redis() else {
        eprintln!("SKIPPED: no redis-server in the PATH, so nothing was compared");
        return;
    };
    let forebay = Forebay::start("memory", &[]);
    let mut failures = Vec::new();
    for resp3 in [false, true] {
        let mut pair = [Connection::new(redis.address), Connection::new(forebay.address)];
        if resp3 {
            pair.iter_mut().for_each(|connection| assert!(matches!(connection.call(&["HELLO", "3"]), Reply::Map(_))));
        }
        for script in SCRIPTS {
            let [redis, forebay] =
                pair.each_mut().map(|server| server.call(&["EVAL", script, "2", "a", "b", "1", "x y"]));
            if redis != forebay {
                failures.push(format!("{script}\n  redis:   {redis:?}\n  forebay: {forebay:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} answers differ:\n{}", failures.len(), failures.join("\n"));
}
