//! The error texts that client libraries and their tests read. They choose their exceptions by the first word, and
//! some of them by the rest. (ioredis and Jedis fall back to RESP2 when HELLO is answered by "unknown command".) Word
//! for word as redis-server 7.0.15 answers, without the `-` and the line end; [`crate::Reply::error`] takes each.
//!
//! Seen there, and easily assumed otherwise:
//! - a command's name is echoed in lower case and, for a subcommand, with its family's (`config|get`), in
//!   [`wrong_arguments`] and [`invalid_expire`]. In [`unknown_command`] and [`unknown_subcommand`] it is echoed as
//!   the client wrote it.
//! - what is echoed ends at a NUL byte and at 128 bytes; CR and LF become spaces; other bytes pass unchanged;
//! - an unknown command and wrong arguments are reported before the lack of authentication is;
//! - they also doom a MULTI ([`EXECABORT`]); a nested MULTI, or WATCH in MULTI, is refused and dooms nothing;
//! - `MSET a b c` and `HSET h f v g` are [`wrong_arguments`], `HMSET` likewise; `AUTH a b c` is [`SYNTAX`];
//! - without a password configured, `AUTH x` is [`AUTH_WITHOUT_PASSWORD`] but `AUTH default x`, for a user who needs
//!   none, succeeds, and an unknown user is [`WRONGPASS`].

use crate::reply::Reply;

/// A command met a key of another type.
pub const WRONGTYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
/// HELLO asked for a protocol other than 2 and 3.
pub const NOPROTO: &str = "NOPROTO unsupported protocol version";
/// A command before authentication.
pub const NOAUTH: &str = "NOAUTH Authentication required.";
/// HELLO without AUTH before authentication. As Redis 7.2 says it.
pub const NOAUTH_HELLO: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
    HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol \
    version at the same time";
/// AUTH, or HELLO with AUTH, failed.
pub const WRONGPASS: &str = "WRONGPASS invalid username-password pair or user is disabled.";
/// AUTH with a password where none is configured.
pub const AUTH_WITHOUT_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the default \
    user. Are you sure your configuration is correct?";
/// EXEC after a command that could not be queued.
pub const EXECABORT: &str = "EXECABORT Transaction discarded because of previous errors.";
/// EXEC outside MULTI.
pub const EXEC_WITHOUT_MULTI: &str = "ERR EXEC without MULTI";
/// DISCARD outside MULTI.
pub const DISCARD_WITHOUT_MULTI: &str = "ERR DISCARD without MULTI";
/// MULTI in MULTI; the transaction goes on.
pub const MULTI_NESTED: &str = "ERR MULTI calls can not be nested";
/// WATCH in MULTI; the transaction goes on.
pub const WATCH_IN_MULTI: &str = "ERR WATCH inside MULTI is not allowed";
/// An option that does not exist or does not fit the others, or a missing value of one.
pub const SYNTAX: &str = "ERR syntax error";
/// An argument or a value is not a 64-bit integer as [`crate::decoder::parse_integer`] takes it.
pub const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
/// LPOP, RPOP or SPOP with a count that is negative or not a number.
pub const NOT_POSITIVE: &str = "ERR value is out of range, must be positive";
/// An argument or a value is not a floating point number.
pub const NOT_A_FLOAT: &str = "ERR value is not a valid float";
/// HINCRBY on a field that holds something else.
pub const HASH_NOT_AN_INTEGER: &str = "ERR hash value is not an integer";
/// HINCRBYFLOAT on a field that holds something else.
pub const HASH_NOT_A_FLOAT: &str = "ERR hash value is not a float";
/// INCR and its kind, HINCRBY included, past 64 bits.
pub const OVERFLOW: &str = "ERR increment or decrement would overflow";
/// DECRBY by the least integer, which has no opposite.
pub const DECREMENT_OVERFLOW: &str = "ERR decrement would overflow";
/// INCRBYFLOAT to, or by, what is no finite number.
pub const INCREMENT_NOT_FINITE: &str = "ERR increment would produce NaN or Infinity";
/// HINCRBYFLOAT by what is no finite number.
pub const NOT_FINITE: &str = "ERR value is NaN or Infinity";
/// RENAME and its kind of a key that is not there.
pub const NO_SUCH_KEY: &str = "ERR no such key";
/// COPY of a key onto itself.
pub const SAME_OBJECT: &str = "ERR source and destination objects are the same";
/// SELECT or COPY with a database that does not exist.
pub const DATABASE_RANGE: &str = "ERR DB index is out of range";
/// SETRANGE with a negative offset.
pub const OFFSET_RANGE: &str = "ERR offset is out of range";
/// SETRANGE or APPEND past the largest string.
pub const STRING_TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
/// SCAN with a cursor that is no number.
pub const INVALID_CURSOR: &str = "ERR invalid cursor";
/// EXPIRE with NX and another condition.
pub const EXPIRE_NX: &str = "ERR NX and XX, GT or LT options at the same time are not compatible";
/// EXPIRE with GT and LT.
pub const EXPIRE_GT_LT: &str = "ERR GT and LT options at the same time are not compatible";
/// HELLO with a version that is no number.
pub const HELLO_VERSION: &str = "ERR Protocol version is not an integer or out of range";
/// CLIENT SETNAME, or HELLO with SETNAME.
pub const CLIENT_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";
/// CLIENT KILL of an address that nobody has.
pub const NO_SUCH_CLIENT: &str = "ERR No such client";
/// CLIENT KILL ID with what is no id.
pub const CLIENT_ID: &str = "ERR client-id should be greater than 0";
/// SSCAN with an option of HSCAN.
pub const NO_VALUES_OF_SET: &str = "ERR NOVALUES option can only be used in HSCAN";
/// CLIENT KILL MAXAGE with a number below 1.
pub const CLIENT_AGE: &str = "ERR maxage should be greater than 0";
/// CLIENT KILL MAXAGE with what is no number.
pub const CLIENT_AGE_NOT_AN_INTEGER: &str = "ERR maxage is not an integer or out of range";
/// CLIENT PAUSE, or WAIT, with a timeout that is no number.
pub const TIMEOUT_NOT_AN_INTEGER: &str = "ERR timeout is not an integer or out of range";
/// WAIT with a negative timeout.
pub const TIMEOUT_NEGATIVE: &str = "ERR timeout is negative";
/// OBJECT FREQ where frequencies are not counted.
pub const NO_FREQUENCY: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
    that when switching between policies at runtime LRU and LFU data will take some time to adjust.";
/// EVALSHA of a script that is not kept.
pub const NOSCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";
/// EVAL with a negative number of keys.
pub const KEYS_NEGATIVE: &str = "ERR Number of keys can't be negative";
/// EVAL with more keys than arguments.
pub const KEYS_TOO_MANY: &str = "ERR Number of keys can't be greater than number of args";
/// SCRIPT KILL where none runs.
pub const NOTBUSY: &str = "NOTBUSY No scripts in execution right now.";
/// COMMAND GETKEYS of what is no command.
pub const INVALID_COMMAND: &str = "ERR Invalid command specified";
/// COMMAND GETKEYS of a command without keys.
pub const COMMAND_WITHOUT_KEYS: &str = "ERR The command has no key arguments";
/// COMMAND GETKEYS of a command with too few arguments, or too many.
pub const COMMAND_ARGUMENTS: &str = "ERR Invalid number of arguments specified for command";
/// The server has not yet read its data; clients wait and try again. Read in the source, not provoked.
pub const LOADING: &str = "LOADING Redis is loading the dataset in memory";

/// What is echoed of a client's bytes, and where the echo of all arguments together stops.
const ECHO_BYTES_MAX: usize = 128;

/// `bytes` as C's `%.*s` prints it: up to a NUL byte, at most `bytes_max`.
fn echo(bytes: &[u8], bytes_max: usize) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(bytes_max)];
    &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]
}

/// No command has this name. The arguments are echoed, each in quotes with a space after it, until 128 bytes are
/// full; the one that reaches the limit is cut, but keeps its closing quote.
pub fn unknown_command<'a>(name: &[u8], args: impl IntoIterator<Item = &'a [u8]>) -> Reply {
    let mut text = [b"ERR unknown command '", echo(name, ECHO_BYTES_MAX), b"', with args beginning with: "].concat();
    let start = text.len();
    for arg in args {
        let echoed = text.len() - start;
        if echoed >= ECHO_BYTES_MAX {
            break;
        }
        text.push(b'\'');
        text.extend_from_slice(echo(arg, ECHO_BYTES_MAX - echoed));
        text.extend_from_slice(b"' ");
    }
    Reply::error(text)
}

/// The family `command` has no such subcommand. Its name is shown in capitals, the subcommand's as it came.
pub fn unknown_subcommand(command: &str, subcommand: &[u8]) -> Reply {
    let command = command.to_ascii_uppercase();
    let subcommand = echo(subcommand, ECHO_BYTES_MAX);
    Reply::error([b"ERR unknown subcommand '", subcommand, b"'. Try ", command.as_bytes(), b" HELP."].concat())
}

/// Too few arguments, too many, or one without its partner. `command` is the record's name, `get` or `config|get`.
pub fn wrong_arguments(command: &str) -> Reply {
    Reply::error(format!("ERR wrong number of arguments for '{}' command", command.to_ascii_lowercase()))
}

/// EXEC with arguments; it ends the transaction.
pub fn exec_wrong_arguments() -> Reply {
    Reply::error("EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command")
}

/// An expiry that is not positive where it must be, or past what 64 bits of milliseconds hold.
pub fn invalid_expire(command: &str) -> Reply {
    Reply::error(format!("ERR invalid expire time in '{}' command", command.to_ascii_lowercase()))
}

/// EXPIRE with an option that it does not have.
pub fn unsupported_option(option: &[u8]) -> Reply {
    Reply::error([b"ERR Unsupported option ", echo(option, usize::MAX)].concat())
}

/// HELLO with an option that it does not have, or that lacks its arguments.
pub fn hello_option(option: &[u8]) -> Reply {
    Reply::error([b"ERR Syntax error in HELLO option '", echo(option, usize::MAX), b"'"].concat())
}

/// CONFIG SET of a parameter that does not exist, or without its value. It may be a setting of the start.
pub fn config_unknown(parameter: &[u8]) -> Reply {
    let parameter = echo(parameter, usize::MAX);
    let start = b"'; forebay's settings are given at its start, see forebay serve --help";
    Reply::error([&b"ERR Unknown option or number of arguments for CONFIG SET - '"[..], parameter, start].concat())
}

/// CONFIG SET of a parameter to what it does not take; `reason` ends the sentence.
pub fn config_refused(parameter: &str, reason: &str) -> Reply {
    Reply::error(format!("ERR CONFIG SET failed (possibly related to argument '{parameter}') - {reason}"))
}

/// A command that a RESP2 connection with subscriptions may not send.
pub fn only_subscriptions(command: &str) -> Reply {
    let command = command.to_ascii_lowercase();
    Reply::error(format!(
        "ERR Can't execute '{command}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
         this context"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::Protocol;
    use bytes::BytesMut;

    fn text(reply: Reply) -> String {
        let mut out = BytesMut::new();
        reply.encode(Protocol::Resp2, &mut out);
        let text: String = out.iter().map(|byte| *byte as char).collect();
        text.strip_suffix("\r\n").unwrap().to_string()
    }

    fn unknown(name: &[u8], args: &[&[u8]]) -> String {
        text(unknown_command(name, args.iter().copied()))
    }

    /// Each expected text is what redis-server 7.0.15 answered to just these arguments.
    #[test]
    fn unknown_commands_as_redis_was_seen_to_answer() {
        let head = "-ERR unknown command 'FOO', with args beginning with: ";
        assert_eq!(unknown(b"FOO", &[]), head);
        assert_eq!(unknown(b"FOO", &[b"a", b"b"]), format!("{head}'a' 'b' "));
        let long = |length: usize| vec![b'a'; length];
        let shown = |length: usize| "a".repeat(length);
        assert_eq!(unknown(b"FOO", &[&long(200), b"b"]), format!("{head}'{}' ", shown(128)));
        assert_eq!(
            unknown(b"FOO", &[&long(100), &long(100), b"c"]),
            format!("{head}'{}' '{}' ", shown(100), shown(25))
        );
        assert_eq!(unknown(b"FOO", &[&long(125), &long(100), b"c"]), format!("{head}'{}' ", shown(125)));
        assert_eq!(unknown(b"FOO", &[&long(124), b"bcd", b"c"]), format!("{head}'{}' 'b' ", shown(124)));
        assert_eq!(unknown(b"FOO", &[&long(122), b"b", b"c"]), format!("{head}'{}' 'b' ", shown(122)));
        let name = "-ERR unknown command 'FO  O  ', with args beginning with: ";
        assert_eq!(unknown(b"FO\r\nO\r\n", &[b"a\r\nb", b"c\0d", b"\xff"]), format!("{name}'a  b' 'c' '\u{ff}' "));
        assert_eq!(unknown(b"F\0OO", &[b"x"]), "-ERR unknown command 'F', with args beginning with: 'x' ");
        let long_name = format!("-ERR unknown command '{}', with args beginning with: ", shown(128));
        assert_eq!(unknown(&long(200), &[]), long_name);
    }

    #[test]
    fn other_texts_as_redis_was_seen_to_answer() {
        let cases = [
            (unknown_subcommand("client", b"foo"), "-ERR unknown subcommand 'foo'. Try CLIENT HELP."),
            (unknown_subcommand("client", b"f\r\no\r\n"), "-ERR unknown subcommand 'f  o  '. Try CLIENT HELP."),
            (unknown_subcommand("CLIENT", b"a\0b"), "-ERR unknown subcommand 'a'. Try CLIENT HELP."),
            (wrong_arguments("GET"), "-ERR wrong number of arguments for 'get' command"),
            (wrong_arguments("config|get"), "-ERR wrong number of arguments for 'config|get' command"),
            (invalid_expire("SETEX"), "-ERR invalid expire time in 'setex' command"),
            (unsupported_option(b"FOO"), "-ERR Unsupported option FOO"),
            (hello_option(b"AUTH"), "-ERR Syntax error in HELLO option 'AUTH'"),
            (
                config_unknown(b"foo"),
                "-ERR Unknown option or number of arguments for CONFIG SET - 'foo'; forebay's settings are given at \
                 its start, see forebay serve --help",
            ),
            (
                config_refused("maxmemory", "argument must be a memory value"),
                "-ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value",
            ),
            (
                only_subscriptions("GET"),
                "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
                 this context",
            ),
        ];
        for (reply, expected) in cases {
            assert_eq!(text(reply), expected);
        }
    }
}
