//! What a user may do: which commands, on which keys. Rules are those of Redis 7 without selectors: `+get -@dangerous
//! ~user:* %R~shop:*`.

use forebay::key::Key;
use forebay_protocol::Frame;

use super::pattern::Pattern;
use super::permissions::{CATEGORIES, Permissions};
use crate::command::Command;

/// Patterns of keys, or of channels, that one user has.
pub const PATTERNS_MAX: usize = 256;

/// Bytes of one of them: each is compared with each key of each request.
const PATTERN_BYTES_MAX: usize = 1024;

/// Steps that one byte of a key takes at most, over all of its patterns of keys. A step is about a nanosecond.
pub const PATTERNS_WORK_MAX: usize = 64;

/// Redis' words for rules that it does not take.
pub const SYNTAX: &str = "Syntax error";
const UNKNOWN: &str = "Unknown command or category name in ACL";
const AFTER_ALL_KEYS: &str = "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not \
    have any effect. Try 'resetkeys' to start with an empty list of patterns";
const AFTER_ALL_CHANNELS: &str = "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and \
    does not have any effect. Try 'resetchannels' to start with an empty list of channels";

/// Why a request is not permitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The command, or the subcommand, by its whole name.
    Command(&'static str),
    /// This key.
    Key(Vec<u8>),
}

/// Keys whose names match, and what may be done to them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    read: bool,
    write: bool,
    pattern: Pattern,
}

/// What a user may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// All that there are.
    pub(super) permissions: &'static Permissions,
    /// Whether the rules begin with all commands.
    from_all: bool,
    /// The rules since then, `+get` or `-@admin`, without those that later ones have made void.
    rules: Vec<String>,
    /// By the number of the permission: what the rules come to.
    permitted: Vec<bool>,
    all_commands: bool,
    /// Some of them read.
    reads: bool,
    all_keys: bool,
    keys: Vec<KeyPattern>,
    all_channels: bool,
    channels: Vec<Box<[u8]>>,
}

impl Rights {
    /// Nothing.
    pub fn none(permissions: &'static Permissions) -> Rights {
        Rights {
            permissions,
            from_all: false,
            rules: Vec::new(),
            permitted: vec![false; permissions.list.len()],
            all_commands: false,
            reads: false,
            all_keys: false,
            keys: Vec::new(),
            all_channels: false,
            channels: Vec::new(),
        }
    }

    /// Everything.
    pub fn all(permissions: &'static Permissions) -> Rights {
        let mut rights = Rights::none(permissions);
        rights.every_command(true);
        (rights.all_keys, rights.all_channels) = (true, true);
        rights
    }

    /// Whether nothing is refused, so that nothing need be checked.
    pub fn is_everything(&self) -> bool {
        self.all_commands && self.all_keys
    }

    /// Takes one rule in; the error is Redis' reason.
    pub fn apply(&mut self, rule: &[u8]) -> Result<(), &'static str> {
        match rule {
            b"allcommands" | b"+@all" => self.every_command(true),
            b"nocommands" | b"-@all" => self.every_command(false),
            b"allkeys" | b"~*" => (self.all_keys, self.keys) = (true, Vec::new()),
            b"resetkeys" => (self.all_keys, self.keys) = (false, Vec::new()),
            b"allchannels" | b"&*" => (self.all_channels, self.channels) = (true, Vec::new()),
            b"resetchannels" => (self.all_channels, self.channels) = (false, Vec::new()),
            [b'~', pattern @ ..] => return self.key_pattern(true, true, pattern),
            [b'%', rest @ ..] => {
                let tilde = rest.iter().position(|byte| *byte == b'~').ok_or(SYNTAX)?;
                let (read, write) = match rest[..tilde].to_ascii_uppercase().as_slice() {
                    b"R" => (true, false),
                    b"W" => (false, true),
                    b"RW" | b"WR" => (true, true),
                    _ => return Err(SYNTAX),
                };
                return self.key_pattern(read, write, &rest[tilde + 1..]);
            }
            [b'&', pattern @ ..] => return self.channel(pattern),
            [sign @ (b'+' | b'-'), name @ ..] => return self.command_rule(*sign == b'+', name),
            _ => return Err(SYNTAX),
        }
        Ok(())
    }

    fn every_command(&mut self, permitted: bool) {
        self.from_all = permitted;
        self.rules.clear();
        self.permitted.fill(permitted);
        (self.all_commands, self.reads) = (permitted, permitted);
    }

    fn key_pattern(&mut self, read: bool, write: bool, pattern: &[u8]) -> Result<(), &'static str> {
        if self.all_keys {
            return Err(AFTER_ALL_KEYS);
        }
        check_pattern(pattern)?;
        if let Some(known) = self.keys.iter_mut().find(|known| *known.pattern.text() == *pattern) {
            (known.read, known.write) = (known.read || read, known.write || write);
            return Ok(());
        }
        if self.keys.len() >= PATTERNS_MAX {
            return Err("LIMIT patterns_max 256");
        }
        let pattern = Pattern::new(pattern);
        let work: usize = self.keys.iter().map(|known| known.pattern.work_per_byte()).sum();
        if work + pattern.work_per_byte() > PATTERNS_WORK_MAX {
            return Err("LIMIT patterns_work_max 64");
        }
        self.keys.push(KeyPattern { read, write, pattern });
        Ok(())
    }

    fn channel(&mut self, pattern: &[u8]) -> Result<(), &'static str> {
        if self.all_channels {
            return Err(AFTER_ALL_CHANNELS);
        }
        check_pattern(pattern)?;
        if self.channels.len() >= PATTERNS_MAX {
            return Err("LIMIT patterns_max 256");
        }
        if !self.channels.iter().any(|known| **known == *pattern) {
            self.channels.push(pattern.into());
        }
        Ok(())
    }

    fn command_rule(&mut self, add: bool, name: &[u8]) -> Result<(), &'static str> {
        let name = std::str::from_utf8(name).map_err(|_| UNKNOWN)?.to_ascii_lowercase();
        let sign = if add { '+' } else { '-' };
        let category = name.strip_prefix('@');
        if category.is_some_and(|category| !CATEGORIES.contains(&category)) {
            return Err(UNKNOWN);
        }
        let family = format!("{name}|");
        // A category of Redis may have no command here.
        let mut found = category.is_some();
        for (permission, permitted) in self.permissions.list.iter().zip(&mut self.permitted) {
            let meant = match category {
                Some(category) => permission.categories.contains(&category),
                None => permission.name == name || permission.name.starts_with(&family),
            };
            if meant {
                (found, *permitted) = (true, add);
            }
        }
        if !found {
            return Err(UNKNOWN);
        }
        // Of the earlier rules those go that this one makes void.
        self.rules.retain(|rule| rule[1..] != name && (category.is_some() || !rule[1..].starts_with(&family)));
        self.rules.push(format!("{sign}{name}"));
        self.all_commands = self.permitted.iter().all(|permitted| *permitted);
        let mut permitted = self.permissions.list.iter().zip(&self.permitted).filter(|(_, permitted)| **permitted);
        self.reads = permitted.any(|(permission, _)| permission.categories.contains(&"read"));
        Ok(())
    }

    /// Whether a request is permitted, whose command has `number` in the table and whose arity fits.
    pub fn check(&self, number: usize, command: &'static Command, frame: Frame<'_>) -> Result<(), Denied> {
        if !self.all_commands {
            let Some(needed) = self.permissions.needed(number, command, frame) else { return Ok(()) };
            let permissions = &self.permissions.list[needed.clone()];
            if !permissions[0].open && !self.permitted[needed].contains(&true) {
                return Err(Denied::Command(&permissions[0].name));
            }
        }
        if self.all_keys {
            return Ok(());
        }
        let (mut n, mut denied) = (0, None);
        command.each_key(frame, 0, &mut |key| {
            let (reads, writes) = command.access(frame, n);
            n += 1;
            if denied.is_none() && !self.permits_key(key.name, reads, writes) {
                denied = Some(key.name.to_vec());
            }
        });
        denied.map_or(Ok(()), |key| Err(Denied::Key(key)))
    }

    /// Whether what a transaction has written is permitted still: its commands, by number in the table, and its keys.
    pub fn check_written<'k>(&self, commands: &[usize], keys: impl Iterator<Item = &'k Key>) -> Result<(), Denied> {
        let permissions = commands.iter().map(|number| self.permissions.of_whole(*number));
        let refused = |at: &usize| !self.permitted[*at] && !self.permissions.list[*at].open;
        if !self.all_commands
            && let Some(at) = permissions.into_iter().find(refused)
        {
            return Err(Denied::Command(&self.permissions.list[at].name));
        }
        let mut keys = keys.filter(|key| !self.all_keys && !self.permits_key(key.name(), false, true));
        keys.next().map_or(Ok(()), |key| Err(Denied::Key(key.name().to_vec())))
    }

    /// Whether a command, or a subcommand, is permitted by its whole name: `get`, `cache|stats`.
    pub fn permits(&self, name: &str) -> bool {
        let mut list = self.permissions.list.iter().zip(&self.permitted);
        self.all_commands || list.any(|(known, permitted)| known.name == name && (*permitted || known.open))
    }

    /// Whether what `key` holds, and so its name, may be read: by some command that reads.
    pub fn may_read(&self, key: &[u8]) -> bool {
        (self.all_commands || self.reads) && (self.all_keys || self.permits_key(key, true, false))
    }

    /// As in Redis one pattern must permit all of it: `%R~a* %W~ab*` does not permit to read and write `abc`.
    fn permits_key(&self, key: &[u8], reads: bool, writes: bool) -> bool {
        self.keys.iter().any(|known| (known.read || !reads) && (known.write || !writes) && known.pattern.matches(key))
    }

    /// The rules on commands, as ACL GETUSER shows them.
    pub fn commands(&self) -> String {
        let mut text = String::from(if self.from_all { "+@all" } else { "-@all" });
        for rule in &self.rules {
            text.push(' ');
            text.push_str(rule);
        }
        text
    }

    /// The patterns of keys, as ACL GETUSER shows them.
    pub fn keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let shown = self.keys.iter().map(|known| match (known.read, known.write) {
            (true, true) => [b"~", known.pattern.text()].concat(),
            (true, false) => [b"%R~", known.pattern.text()].concat(),
            _ => [b"%W~", known.pattern.text()].concat(),
        });
        shown.collect::<Vec<_>>().join(&b' ')
    }

    /// The patterns of channels, as ACL GETUSER shows them. There are no channels yet.
    pub fn channels(&self) -> Vec<u8> {
        match self.all_channels {
            true => b"&*".to_vec(),
            false => self.channels.iter().map(|known| [b"&", &**known].concat()).collect::<Vec<_>>().join(&b' '),
        }
    }

    /// All of it as rules, in the order in which Redis lists them.
    pub fn describe(&self) -> Vec<u8> {
        let mut parts = vec![self.keys()];
        if !self.all_channels {
            parts.push(b"resetchannels".to_vec());
        }
        parts.extend([self.channels(), self.commands().into_bytes()]);
        parts.retain(|part| !part.is_empty());
        parts.join(&b' ')
    }
}

/// It has to fit on a line of the users' file.
fn check_pattern(pattern: &[u8]) -> Result<(), &'static str> {
    match pattern {
        _ if pattern.len() > PATTERN_BYTES_MAX => Err("LIMIT pattern_bytes_max 1024"),
        _ if pattern.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0) => Err(SYNTAX),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::PERMISSIONS;
    use forebay_protocol::{Batch, Decoder, Limits};
    use proptest::prelude::*;

    fn rights(rules: &str) -> Rights {
        let mut rights = Rights::none(&PERMISSIONS);
        for rule in rules.split_ascii_whitespace() {
            rights.apply(rule.as_bytes()).unwrap_or_else(|why| panic!("{rule}: {why}"));
        }
        rights
    }

    fn check(rights: &Rights, request: &str) -> Result<(), Denied> {
        let mut batch = Batch::default();
        let mut input = bytes::BytesMut::from(format!("{request}\r\n").as_bytes());
        Decoder::new(Limits::default()).decode_batch(&mut input, 1, &mut batch).unwrap();
        let frame = batch.frame(0);
        let (number, command) = crate::command::table().find_numbered(frame.arg(0)).unwrap();
        assert!(command.arity_fits(frame.len()), "{request}");
        rights.check(number, command, frame)
    }

    fn permitted(rules: &str, requests: &str) {
        for request in requests.split(';') {
            assert_eq!(check(&rights(rules), request.trim()), Ok(()), "{rules}: {request}");
        }
    }

    fn refused(rules: &str, requests: &str) {
        for request in requests.split(';') {
            assert!(check(&rights(rules), request.trim()).is_err(), "{rules}: {request}");
        }
    }

    #[test]
    fn commands_and_categories() {
        permitted("~* +get", "GET k; AUTH x; HELLO 3; QUIT; RESET");
        refused("~* +get", "SET k v; PING; CONFIG GET x; CONFIG HELP; MULTI");
        permitted("~* +@all -@dangerous", "GET k; SET k v; CLIENT ID; CLIENT SETNAME x; ACL WHOAMI; MEMORY USAGE k");
        refused("~* +@all -@dangerous", "FLUSHALL; KEYS *; CONFIG SET a b; CLIENT KILL x; ACL LIST; INFO; MONITOR");
        permitted("~* +@read -get", "MGET k; SCAN 0; STRLEN k; EXISTS k");
        refused("~* +@read -get", "GET k; SET k v; INCR k; FLUSHDB");
        permitted("~* +config|get -@read", "CONFIG GET x; CONFIG HELP; config Get x");
        refused("~* +config|get", "CONFIG SET a b; CONFIG RESETSTAT");
        permitted("~* +config -config|set", "CONFIG GET x; CONFIG REWRITE");
        refused("~* +config -config|set", "CONFIG SET a b");
        permitted("~* +get", "CONFIG NOSUCH; CLIENT MAINT_NOTIFICATIONS ON; MEMORY NOSUCH k");
        permitted("~* +@geo +@all -@geo -@scripting -@stream", "GET k; CONFIG GET x");
        assert_eq!(check(&rights("+get"), "CONFIG GET x"), Err(Denied::Command("config|get")));
        assert_eq!(check(&rights("+get"), "SET k v"), Err(Denied::Command("set")));
    }

    #[test]
    fn keys_by_what_is_done_to_them() {
        permitted("+@all ~a*", "GET a; SET ab c; MSET a 1 ab 2; DEL a; PING; COPY a ab");
        refused("+@all ~a*", "GET b; SET b a; MSET a 1 b 2; MGET a b; COPY a b; RENAME b a; WATCH b; MEMORY USAGE b");
        refused("+@all ~a*", "OBJECT ENCODING b; CACHE EXPLAIN b; SET b v GET");
        permitted("+@all %R~r* %W~w*", "GET r; SET w v; COPY r w; HSET w f v; SET w v NX; EXISTS w; TTL r; LPUSH w a");
        refused("+@all %R~r* %W~w*", "SET r v; GET w; SET w v GET; INCR w; COPY w r; RENAME r w; LPOP w; HGET w f");
        refused("+@all %R~x* %W~xy*", "INCR xyz");
        permitted("+@all %R~x* %W~x*", "INCR xyz");
        assert_eq!(check(&rights("+@all ~a"), "MGET a b"), Err(Denied::Key(b"b".to_vec())));
        refused("+@all", "GET k");
    }

    #[test]
    fn rules_are_shown_as_redis_shows_them() {
        for (rules, shown) in [
            ("", "resetchannels -@all"),
            ("~a* %R~r* +get -get +@read +config|get -@dangerous &x", "~a* %R~r* resetchannels &x -@all -get +@read"),
            ("+config|get +config|set +config ~*", "~* resetchannels -@all +config"),
            ("+config -config|set", "resetchannels -@all +config -config|set"),
            ("+@all -get +get allkeys &*", "~* &* +@all +get"),
            ("%R~a %W~a", "~a resetchannels -@all"),
            ("+@all nocommands", "resetchannels -@all"),
            ("+@all -@geo -@geo", "resetchannels +@all -@geo"),
        ] {
            let described = String::from_utf8(rights(rules).describe()).unwrap();
            // Redis also leaves out what a later category takes back; here the rules stand as they were given.
            assert!(described.starts_with(shown), "{rules}: {described}");
        }
        assert_eq!(Rights::all(&PERMISSIONS).describe(), b"~* &* +@all");
        assert!(rights("~* +@all -get +get").is_everything() && !rights("~* +@all -get").is_everything());
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for (rule, why) in [
            ("foo", SYNTAX),
            ("", SYNTAX),
            ("%X~a", SYNTAX),
            ("%R", SYNTAX),
            ("~a b", SYNTAX),
            ("+nosuch", UNKNOWN),
            ("+@nosuch", UNKNOWN),
            ("+config|nosuch", UNKNOWN),
            ("+get|x", UNKNOWN),
            ("+", UNKNOWN),
            ("+|", UNKNOWN),
        ] {
            assert_eq!(rights("").apply(rule.as_bytes()), Err(why), "{rule}");
        }
        assert_eq!(rights("~*").apply(b"~a"), Err(AFTER_ALL_KEYS));
        let mut many = rights("");
        for n in 0..PATTERNS_MAX {
            assert_eq!(many.apply(format!("~{n}").as_bytes()), Ok(()));
        }
        assert!(many.apply(b"~one more").is_err() && many.apply(b"%R~7").is_ok());
        let mut work = rights("");
        for n in 0..PATTERNS_WORK_MAX {
            assert_eq!(work.apply(format!("~*:{n}:*").as_bytes()), Ok(()));
        }
        assert_eq!(work.apply(b"~*:more:*"), Err("LIMIT patterns_work_max 64"));
        assert_eq!((work.apply(b"~user:*"), work.apply(b"~*:7:*")), (Ok(()), Ok(())));
    }

    proptest! {
        /// What is shown makes the same rights again, and rights follow from the last rule that speaks of a command.
        #[test]
        fn shown_rules_make_the_same(rules in prop::collection::vec(prop::sample::select(vec![
            "+@all", "-@all", "+@read", "-@read", "+@dangerous", "-@dangerous", "+get", "-get", "+config", "-config",
            "+config|get", "-config|get", "~a*", "%R~b", "%W~b", "resetkeys", "&c", "allchannels", "resetchannels",
        ]), 0..12)) {
            let mut made = Rights::none(&PERMISSIONS);
            for rule in &rules {
                let _ = made.apply(rule.as_bytes());
            }
            let again = rights(&String::from_utf8(made.describe()).unwrap());
            prop_assert_eq!(&again.permitted, &made.permitted);
            prop_assert_eq!(again, made);
            let get = PERMISSIONS.list.iter().position(|permission| permission.name == "get").unwrap();
            let last = rules.iter().rev().find(|rule| matches!(&rule[1..], "@all" | "@read" | "get"));
            prop_assert_eq!(again_permits(&rules, get), last.is_some_and(|rule| rule.starts_with('+')));
        }
    }

    fn again_permits(rules: &[&str], permission: usize) -> bool {
        let mut made = Rights::none(&PERMISSIONS);
        for rule in rules {
            let _ = made.apply(rule.as_bytes());
        }
        made.permitted[permission]
    }
}
