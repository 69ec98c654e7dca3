//! Requests as MONITOR and SLOWLOG show them, without secrets.

use forebay::mutation::{self, Fault};
use forebay_protocol::Frame;

use crate::command::{Command, Keys, Table, config};

/// Bytes of an argument that a line shows.
pub const MONITOR_ARG_BYTES_MAX: usize = 4096;

/// Arguments that a line shows.
pub const MONITOR_ARGS_MAX: usize = 128;

/// The line that shows a request: `+1700000000.123000 [0 127.0.0.1:50000] "SET" "k" "v"`.
pub fn line(now_ms: u64, space: u8, address: &str, table: &Table, command: &Command, frame: Frame<'_>) -> Vec<u8> {
    let mut line = format!("+{}.{:06} [{space} {address}]", now_ms / 1000, now_ms % 1000 * 1000).into_bytes();
    for (n, arg) in redacted(table, command, frame).enumerate() {
        if n == MONITOR_ARGS_MAX {
            line.extend_from_slice(format!(" ... ({} more arguments)", frame.len() - n).as_bytes());
            break;
        }
        line.push(b' ');
        quote(&mut line, arg);
    }
    line.extend_from_slice(b"\r\n");
    line
}

/// Where the command begins that a request is about: behind the words of COMMAND GETKEYS, and behind a command without
/// keys that was put before one that takes secrets; or at 0.
fn asked_about(command: &Command, frame: Frame<'_>) -> usize {
    let is = |n: usize, word: &str| frame.get(n).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    let mut at = 0;
    while is(at, "command") && (is(at + 1, "getkeys") || is(at + 1, "getkeysandflags")) {
        at += 2;
    }
    let misplaced = at == 0
        && matches!(command.keys, Keys::None)
        && !matches!(command.name, "auth" | "hello")
        && ["auth", "hello", "acl", "config"].iter().any(|word| is(1, word));
    if mutation::on(Fault::AskedAboutShown) { 0 } else { at + usize::from(misplaced) }
}

/// The arguments of a request, secrets replaced: for all that shows requests. They are secret as well where it only
/// asks about a command with them. What is behind a word that was mistyped may be one.
pub fn redacted<'a>(table: &Table, command: &Command, frame: Frame<'a>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let begin = asked_about(command, frame);
    let name = if begin > 0 { frame.arg(begin).to_ascii_lowercase() } else { command.name.as_bytes().to_vec() };
    let own = frame.args().skip(begin + 1);
    // Counted from the command's own first argument.
    let from = match name.as_slice() {
        b"auth" => Some(0),
        b"hello" => secret_of_hello(own),
        name => frame.get(begin + 1).and_then(|subcommand| match table.names_subcommand(name, subcommand) {
            // The word itself may be one, where the subcommand was left out.
            false => Some(usize::from(!matches!(name, b"acl" | b"config"))),
            true => secret_of_family(name, &subcommand.to_ascii_lowercase(), own),
        }),
    };
    let from = from.map_or(usize::MAX, |from| begin + 1 + from);
    frame.args().enumerate().map(move |(n, arg)| if n >= from { b"(redacted)".as_slice() } else { arg })
}

/// Whether it looks like a rule of ACL SETUSER that has a password, or the hash of one.
fn is_rule(arg: &[u8]) -> bool {
    matches!(arg.first(), Some(b'>' | b'<' | b'#' | b'!'))
}

/// All behind AUTH is secret: it may be a name, with the option itself further on. So is all behind what is no option.
fn secret_of_hello<'a>(own: impl Iterator<Item = &'a [u8]> + Clone) -> Option<usize> {
    let auth = own.clone().position(|arg| arg.eq_ignore_ascii_case(b"auth")).map(|at| at + 1);
    let is_option = |arg: &[u8]| arg.eq_ignore_ascii_case(b"setname");
    let mut at = usize::from(own.clone().next().is_some_and(|version| version.iter().all(u8::is_ascii_digit)));
    while own.clone().nth(at).is_some_and(is_option) {
        at += 2;
    }
    // What stands there is no option, unless it is AUTH.
    let none = own.clone().nth(at).filter(|arg| !arg.eq_ignore_ascii_case(b"auth")).map(|_| at);
    auth.into_iter().chain(none).min()
}

/// Which argument of a subcommand is the first that may be secret; the subcommand itself is 0.
fn secret_of_family<'a>(name: &[u8], subcommand: &[u8], own: impl Iterator<Item = &'a [u8]> + Clone) -> Option<usize> {
    match (name, subcommand) {
        // A rule may be a password, and stand where a name is missing; DRYRUN may be of one of the others.
        (b"acl", b"setuser" | b"dryrun") => Some(if own.clone().nth(1).is_some_and(is_rule) { 1 } else { 2 }),
        (b"config", _) => {
            let unknown = |(at, arg): (usize, &[u8])| {
                at > 0 && (names_a_secret(arg) || (subcommand == b"set" && at % 2 == 1 && !config::is_setting(arg)))
            };
            own.enumerate().position(unknown).map(|at| at + 1)
        }
        _ => None,
    }
}

/// Redis' settings whose values are secret: `requirepass`, `masterauth`, `tls-key-file-pass` and their kind.
fn names_a_secret(setting: &[u8]) -> bool {
    let setting = setting.to_ascii_lowercase();
    [b"pass", b"auth"].iter().any(|word| setting.windows(word.len()).any(|part| part == *word))
}

/// Appends `arg` in quotes, as Redis does.
fn quote(line: &mut Vec<u8>, arg: &[u8]) {
    line.push(b'"');
    for byte in &arg[..arg.len().min(MONITOR_ARG_BYTES_MAX)] {
        match byte {
            b'\\' | b'"' => line.extend_from_slice(&[b'\\', *byte]),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            7 => line.extend_from_slice(b"\\a"),
            8 => line.extend_from_slice(b"\\b"),
            b' '..=b'~' => line.push(*byte),
            byte => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    line.push(b'"');
    if arg.len() > MONITOR_ARG_BYTES_MAX {
        line.extend_from_slice(format!("... ({} more bytes)", arg.len() - MONITOR_ARG_BYTES_MAX).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use forebay_protocol::{Batch, Decoder, Limits};

    const PLAIN: &[(&str, &str)] = &[
        ("AUTH SECRET", "AUTH (redacted)"),
        ("auth bob SECRET", "auth (redacted) (redacted)"),
        ("HELLO 3 AUTH bob SECRET SETNAME x", "HELLO 3 AUTH (redacted) (redacted) (redacted) (redacted)"),
        ("HELLO 3 SETNAME x AUTH bob SECRET", "HELLO 3 SETNAME x AUTH (redacted) (redacted)"),
        ("HELLO 3 SETNAME auth AUTH SECRET", "HELLO 3 SETNAME auth (redacted) (redacted)"),
        ("HELLO 3 AUTH x AUTH b SECRET", "HELLO 3 AUTH (redacted) (redacted) (redacted) (redacted)"),
        ("ACL SETUSER bob on >SECRET", "ACL SETUSER bob (redacted) (redacted)"),
        ("ACL DRYRUN bob AUTH SECRET", "ACL DRYRUN bob (redacted) (redacted)"),
        ("CONFIG SET slowlog-max-len 1 RequirePass SECRET", "CONFIG SET slowlog-max-len 1 RequirePass (redacted)"),
        ("CONFIG SET tls-key-file-pass SECRET", "CONFIG SET tls-key-file-pass (redacted)"),
        ("CONFIG SET slowlog-max-len 1 2 requirepass SECRET", "CONFIG SET slowlog-max-len 1 2 (redacted) (redacted)"),
        ("CONFIG SET requirepass a SECRET", "CONFIG SET requirepass (redacted) (redacted)"),
        ("CONFIG GET requirepass SECRET", "CONFIG GET requirepass (redacted)"),
        ("CONFIG GET maxmemory timeout", "CONFIG GET maxmemory timeout"),
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 1"),
        ("ACL SETUSER >SECRET on", "ACL SETUSER (redacted) (redacted)"),
        ("SET auth SECRET", "SET auth SECRET"),
        ("HELLO 3 SETNAME x", "HELLO 3 SETNAME x"),
        ("CLIENT SETNAME auth", "CLIENT SETNAME auth"),
        ("OBJECT ENCODING auth", "OBJECT ENCODING auth"),
        ("TXN LOCK auth config", "TXN LOCK auth config"),
        ("ACL HELP", "ACL HELP"),
        ("COMMAND GETKEYS SET auth SECRET", "COMMAND GETKEYS SET auth SECRET"),
    ];

    const ABOUT: &[(&str, &str)] = &[
        ("COMMAND GETKEYS AUTH bob SECRET", "COMMAND GETKEYS AUTH (redacted) (redacted)"),
        ("command getkeysandflags HELLO 3 AUTH b SECRET", "command getkeysandflags HELLO 3 AUTH (redacted) (redacted)"),
        (
            "COMMAND GETKEYS CONFIG SET maxmemory 1 requirepass SECRET",
            "COMMAND GETKEYS CONFIG SET maxmemory 1 requirepass (redacted)",
        ),
        (
            "COMMAND GETKEYS COMMAND GETKEYS ACL SETUSER bob >SECRET",
            "COMMAND GETKEYS COMMAND GETKEYS ACL SETUSER bob (redacted)",
        ),
    ];

    const MISTYPED: &[(&str, &str)] = &[
        ("ACL SETUSRE bob on >SECRET", "ACL (redacted) (redacted) (redacted) (redacted)"),
        ("ACL SECRET", "ACL (redacted)"),
        ("CONFIG SECRET", "CONFIG (redacted)"),
        ("ACL >SECRET", "ACL (redacted)"),
        ("CONFIG SETT requirepass SECRET", "CONFIG (redacted) (redacted) (redacted)"),
        ("CONFIG SET requirepas SECRET", "CONFIG SET requirepas (redacted)"),
        ("TXN AUTH SECRET", "TXN AUTH (redacted)"),
        ("TXN ACL SETUSER bob >SECRET", "TXN ACL (redacted) (redacted) (redacted)"),
        ("CLIENT AUTH bob SECRET", "CLIENT AUTH (redacted) (redacted)"),
        ("OBJECT AUTH SECRET", "OBJECT AUTH (redacted)"),
        ("INFO AUTH SECRET", "INFO AUTH (redacted)"),
        ("INFO ACL SETUSER bob >SECRET", "INFO ACL SETUSER bob (redacted)"),
        ("HELLO bob SECRET", "HELLO (redacted) (redacted)"),
        ("HELLO 3 ATUH bob SECRET", "HELLO 3 (redacted) (redacted) (redacted)"),
        ("HELLO 3 SETNAME x ATUH bob SECRET", "HELLO 3 SETNAME x (redacted) (redacted) (redacted)"),
    ];

    #[test]
    fn secrets_are_not_shown() {
        let table = crate::command::table();
        let are = |(request, expected): &(&str, &str)| {
            let mut batch = Batch::default();
            let mut input = BytesMut::from(format!("{request}\r\n").as_bytes());
            Decoder::new(Limits::default()).decode_batch(&mut input, 1, &mut batch).unwrap();
            let frame = batch.frame(0);
            let parts: Vec<_> = redacted(&table, table.find(frame.arg(0)).unwrap(), frame).collect();
            let shown = String::from_utf8(parts.join(&b' ')).unwrap();
            assert!(shown == *expected || mutation::on(Fault::AskedAboutShown), "{shown}");
            shown == *expected
        };
        for container in table.containers() {
            let none = if ["acl", "config"].contains(&container) { "(redacted)" } else { "NONE" };
            let shown = format!("{container} {none} (redacted) (redacted)");
            assert!(are(&(&format!("{container} NONE auth SECRET"), &shown)));
        }
        assert!([PLAIN, ABOUT, MISTYPED].concat().iter().all(are));
        let _fault = mutation::put_back(Some(Fault::AskedAboutShown));
        assert!(PLAIN.iter().all(are) && !ABOUT.iter().any(are), "the fault is found");
    }
}
