//! What `redis-cli MONITOR` prints, of Redis, Valkey or forebay.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

use super::clients::Clients;
use super::left_out::LeftOut;
use super::tokens::{Token, Tokens, unescaped};
use super::transactions::Transactions;
use super::{Log, most_lines, open};
use crate::Format;
use crate::input::{decimal, seconds, unexpected};
use crate::lines::Wrong;
use crate::record::{Kind, Record, TraceKey};

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "redis-monitor",
    summary: "what `redis-cli MONITOR` prints: `1339518083.107412 [0 127.0.0.1:60866] \"SET\" \"key\" \"value\"`",
    endings: &[],
    recognises: |head| most_lines(head, |line| line == b"OK" || Entry::of(line).is_ok()),
    open: |source| Ok(open(source, Monitor::new())),
};

/// Which arguments of a command are keys.
#[derive(Clone, Copy)]
enum Keys {
    /// The first.
    First,
    /// The first two.
    Two,
    /// All.
    All,
    /// Every second, the others are values.
    Pairs,
}

/// Commands of one kind, by which of their arguments are keys. What reads and writes is a write.
const COMMANDS: [(Kind, Keys, &str); 9] = [
    (
        Kind::Read,
        Keys::First,
        "get strlen getrange substr ttl pttl expiretime pexpiretime type dump getbit bitcount bitpos bitfield_ro hget \
         hmget hgetall hexists hkeys hvals hlen hstrlen hscan hrandfield lrange lindex llen lpos smembers sismember \
         smismember scard srandmember sscan zrange zrangebyscore zrangebylex zrevrange zrevrangebyscore zrevrangebylex \
         zscore zmscore zrank zrevrank zcard zcount zlexcount zscan zrandmember xrange xrevrange xlen xpending geopos \
         geodist geohash geosearch georadius_ro georadiusbymember_ro sort_ro json.get json.mget json.type",
    ),
    (Kind::Read, Keys::All, "mget exists touch sinter sunion sdiff pfcount"),
    (
        Kind::Write,
        Keys::First,
        "set setex psetex setnx getset getex append incr decr incrby decrby incrbyfloat setrange setbit bitfield pfadd \
         expire pexpire expireat pexpireat persist restore hset hmset hsetnx hincrby hincrbyfloat hdel hexpire \
         hpexpire hpersist hgetdel hgetex hsetex lpush lpushx rpush rpushx lpop rpop lset ltrim lrem linsert sadd srem \
         spop zadd zrem zincrby zpopmin zpopmax zremrangebyscore zremrangebyrank zremrangebylex xadd xdel xtrim xack \
         geoadd georadius georadiusbymember sort json.set json.del json.numincrby json.arrappend json.merge",
    ),
    (Kind::Write, Keys::Two, "rename renamenx copy smove lmove blmove rpoplpush brpoplpush zrangestore geosearchstore"),
    (Kind::Write, Keys::All, "sinterstore sunionstore sdiffstore pfmerge"),
    (Kind::Write, Keys::Pairs, "mset msetnx"),
    (Kind::Delete, Keys::First, "getdel"),
    (Kind::Delete, Keys::All, "del unlink"),
    // What ends and begins transactions has no keys.
    (Kind::Committed, Keys::All, "multi exec discard"),
];

/// Commands that ask for no key.
const WITHOUT_KEYS: &str = "acl auth bgrewriteaof bgsave client cluster command config dbsize debug echo eval evalsha \
                            eval_ro evalsha_ro fcall fcall_ro flushall flushdb function hello info keys lastsave \
                            latency lolwut memory module monitor object ping psubscribe psync publish pubsub \
                            punsubscribe quit randomkey readonly readwrite replconf replicaof reset role save scan \
                            script select shutdown slaveof slowlog spublish ssubscribe subscribe sunsubscribe sync \
                            time unsubscribe unwatch wait waitaof watch";

struct Monitor {
    commands: HashMap<&'static str, Option<(Kind, Keys)>>,
    clients: Clients,
    transactions: Transactions,
    left_out: LeftOut,
}

/// A command that was done.
struct Entry<'a> {
    time_us: u64,
    space: u8,
    client: &'a [u8],
    name: String,
    arguments: Tokens<'a>,
}

impl<'a> Entry<'a> {
    fn of(line: &'a [u8]) -> Result<Entry<'a>, Wrong> {
        let mut tokens = Tokens(line);
        let time_us = match tokens.next() {
            Some(Token::Plain(time)) => seconds(time).map_err(|reason| ("time", reason))?,
            _ => return Err(("time", "missing, expected seconds".into())),
        };
        let Some(Token::Bracketed(from)) = tokens.next() else {
            return Err(("client", "missing, expected [database address]".into()));
        };
        let at = from.iter().position(|&byte| byte == b' ').unwrap_or(from.len());
        let (database, client) = (&from[..at], from[at..].trim_ascii());
        let space = decimal(database).ok().and_then(|number| u8::try_from(number).ok());
        let space = space.ok_or_else(|| ("client", unexpected(database, "the number of a database, 0 to 255")))?;
        let name = match tokens.next() {
            Some(Token::Quoted(name)) => String::from_utf8_lossy(name).to_ascii_lowercase(),
            Some(Token::Open) => return Err(("command", "a quote that does not end in its line".into())),
            _ => return Err(("command", "missing, expected a command in quotes".into())),
        };
        Ok(Entry { time_us, space, client, name, arguments: tokens })
    }

    /// The arguments, without what stands for bytes that no terminal shows.
    fn arguments(self) -> Result<Vec<Vec<u8>>, Wrong> {
        let argument = |token: Token<'_>| match token {
            Token::Quoted(text) => Ok(unescaped(text)),
            Token::Open => Err(("arguments", "a quote that does not end in its line".to_owned())),
            _ => Err(("arguments", "an argument without quotes".to_owned())),
        };
        self.arguments.map(argument).collect()
    }
}

impl Monitor {
    fn new() -> Monitor {
        let with_keys = COMMANDS
            .into_iter()
            .flat_map(|(kind, keys, names)| names.split_ascii_whitespace().map(move |name| (name, Some((kind, keys)))));
        let without = WITHOUT_KEYS.split_ascii_whitespace().map(|name| (name, None));
        Monitor {
            commands: with_keys.chain(without).collect(),
            clients: Clients::default(),
            transactions: Transactions::default(),
            left_out: LeftOut::default(),
        }
    }
}

impl Log for Monitor {
    fn entry(&mut self, text: &[u8], due: &mut VecDeque<Record>) -> Result<(), Wrong> {
        if text == b"OK" {
            return Ok(());
        }
        let entry = Entry::of(text)?;
        let Some(known) = self.commands.get(entry.name.as_str()).copied() else {
            self.left_out.count(&format!("command {} that is not known", entry.name.to_ascii_uppercase()));
            return Ok(());
        };
        let (client, time_us, space) = (entry.client, Some(entry.time_us), entry.space);
        let Some((kind, keys)) = known else {
            self.left_out.count(&format!("command {}", entry.name.to_ascii_uppercase()));
            return Ok(());
        };
        if kind == Kind::Committed {
            match entry.name.as_str() {
                "multi" => self.transactions.begin(client),
                "exec" => due.extend(self.transactions.end(client, Kind::Committed)),
                _ => due.extend(self.transactions.end(client, Kind::Aborted)),
            }
            return Ok(());
        }
        let (name, number) = (entry.name.clone(), self.clients.number(client));
        let arguments = entry.arguments()?;
        let places: Vec<usize> = match keys {
            Keys::First => vec![0],
            Keys::Two => vec![0, 1],
            Keys::All => (0..arguments.len().max(1)).collect(),
            Keys::Pairs => (0..arguments.len().max(1)).step_by(2).collect(),
        };
        let are_there = places.iter().all(|place| *place < arguments.len());
        if !are_there {
            return Err(("arguments", format!("{} without its key", name.to_ascii_uppercase())));
        }
        for place in places {
            let key = &arguments[place];
            let size = value(&name, &arguments, place).map(|value| key.len() + value);
            let size = size.map(|size| u32::try_from(size).unwrap_or(u32::MAX));
            let key = TraceKey::Bytes(Bytes::copy_from_slice(key));
            let mut record = Record { time_us, kind, key, space, size, client: number, ..Record::default() };
            self.transactions.place(client, &mut record);
            due.push_back(record);
        }
        Ok(())
    }

    fn left_out(&self) -> &LeftOut {
        &self.left_out
    }
}

/// Bytes of the value that a command puts in place of all there was, if it does.
fn value(name: &str, arguments: &[Vec<u8>], key: usize) -> Option<usize> {
    let at = match name {
        "set" | "setnx" | "getset" | "mset" | "msetnx" => key + 1,
        "setex" | "psetex" => 2,
        _ => return None,
    };
    arguments.get(at).map(Vec::len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::read;

    #[test]
    fn commands_become_accesses() {
        let text = "OK\n1339518083.107412 [0 127.0.0.1:60866] \"set\" \"a\\x00\\\"\" \"value\"\n\
                    1339518083.2 [3 [::1]:1] \"MGET\" \"a\" \"b\"\n1339518084.0 [0 lua] \"del\" \"a\"\n\
                    1339518084.0 [0 unix:/tmp/s] \"ping\"\n1339518084.0 [0 unix:/tmp/s] \"frobnicate\" \"a\"\n\
                    1339518084.0 [0 unix:/tmp/s] \"mset\" \"a\" \"12\" \"b\" \"\"\n";
        let (records, error) = read(&FORMAT, text);
        assert_eq!(error, None);
        let told: Vec<_> = records.iter().map(|r| (r.kind, r.key.to_bytes(), r.space, r.size, r.client)).collect();
        let expected = [
            (Kind::Write, &b"a\0\""[..], 0, Some(8), 1),
            (Kind::Read, b"a", 3, None, 2),
            (Kind::Read, b"b", 3, None, 2),
            (Kind::Delete, b"a", 0, None, 3),
            (Kind::Write, b"a", 0, Some(3), 4),
            (Kind::Write, b"b", 0, Some(1), 4),
        ];
        assert_eq!(
            told,
            expected.map(|(kind, key, space, size, client)| (kind, Bytes::from(key), space, size, client))
        );
        assert_eq!(records[0].time_us, Some(1_339_518_083_107_412));
        assert!((FORMAT.recognises)(text.as_bytes()));
    }

    #[test]
    fn multi_and_exec_are_a_transaction() {
        let line = |client: u32, command: &str| format!("1.5 [0 127.0.0.1:{client}] {command}\n");
        let text = line(1, "\"MULTI\"")
            + &line(2, "\"GET\" \"x\"")
            + &line(1, "\"GET\" \"a\"")
            + &line(1, "\"SET\" \"b\" \"1\"")
            + &line(1, "\"EXEC\"")
            + &line(2, "\"MULTI\"")
            + &line(2, "\"DISCARD\"")
            + &line(1, "\"GET\" \"a\"");
        let (records, error) = read(&FORMAT, &text);
        assert_eq!(error, None);
        let told: Vec<_> = records.iter().map(|r| (r.kind, r.txn, r.client)).collect();
        use Kind::{Committed, Read, Write};
        assert_eq!(told, [(Read, 0, 1), (Read, 1, 2), (Write, 1, 2), (Committed, 1, 2), (Read, 0, 2)]);
    }

    #[test]
    fn malformed_lines_are_named() {
        for (line, column) in [
            ("yesterday [0 a] \"get\" \"a\"", "time"),
            ("1.5 \"get\" \"a\"", "client"),
            ("1.5 [x a] \"get\" \"a\"", "client"),
            ("1.5 [300 a] \"get\" \"a\"", "client"),
            ("1.5 [0 a] get a", "command"),
            ("1.5 [0 a] \"get\"", "arguments"),
            ("1.5 [0 a] \"get\" \"a", "arguments"),
            ("1.5 [0 a] \"get\" a", "arguments"),
        ] {
            let error = read(&FORMAT, &format!("{line}\n")).1.expect(line);
            assert!(error.starts_with(&format!("line 1, column {column}: ")), "{line}: {error}");
            assert_eq!(read(&FORMAT, line), (vec![], None), "half of it, {line}");
        }
    }
}
