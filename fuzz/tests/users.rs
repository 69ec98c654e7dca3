//! Files that say who may come in: an error that names no secret, or users that are written as the same users.

use std::path::Path;

use forebay_fuzz::{Choices, text, time};
use forebay_server::access::{Access, Source};
use forebay_server::command::PERMISSIONS;

const WORDS: &[&str] = &[
    "user a ",
    "user b ",
    "user default ",
    "\n",
    " ",
    "on ",
    "off ",
    "nopass ",
    "reset ",
    "resetpass ",
    "resetkeys ",
    "resetchannels ",
    "allkeys ",
    "allcommands ",
    "nocommands ",
    "allchannels ",
    "~",
    "%R~",
    "%RW~",
    "&",
    "*",
    "k[a-",
    "+",
    "-",
    "@all ",
    "@read ",
    "@dangerous ",
    "get ",
    "client ",
    "client|kill ",
    "config|",
    "set ",
    "#$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$AAAAAAAAAAAAAAAAAAAAAA ",
    "!$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$AAAAAAAAAAAAAAAAAAAAAA ",
    "#$argon2id$v=19$m=",
    ">hunter2-hunter2 ",
];

fn shown(access: &Access) -> Vec<Vec<u8>> {
    let line = |name: &str, rules: Vec<u8>| [b"user ", name.as_bytes(), b" ", &rules, b"\n"].concat();
    access.all().iter().map(|user| line(&user.name, user.describe())).collect()
}

/// Passwords and hashes that stand after the names of users.
fn secrets(text: &[u8]) -> Vec<&str> {
    let lines = || text.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    let words = || lines().flat_map(|line| line.split_ascii_whitespace().enumerate());
    let is_secret = |at: usize, word: &str| at > 1 && word.len() > 8 && word.starts_with(['>', '<', '#', '!']);
    let (secrets, others): (Vec<_>, Vec<_>) = words().partition(|(at, word)| is_secret(*at, word));
    // What is a rule, or stands in a name or a rule of the file, is not secret: `>allcommands`, which errors may name.
    let rules = WORDS.iter().filter(|word| !word.starts_with(['>', '#', '!']));
    let open: Vec<&str> = others.into_iter().map(|(_, word)| word).chain(rules.copied()).collect();
    let known = |secret: &str| open.iter().any(|word| word.contains(secret));
    secrets.into_iter().map(|(_, word)| &word[1..]).filter(|secret| !known(secret)).collect()
}

fn look(path: &Path, text: &[u8]) {
    std::fs::write(path, text).expect("room for it");
    drop(Access::open(Source::Password(path.to_owned()), &PERMISSIONS));
    match Access::open(Source::Users(path.to_owned()), &PERMISSIONS) {
        Ok(access) => {
            let lines = shown(&access);
            std::fs::write(path, lines.concat()).expect("room for it");
            let again = Access::open(Source::Users(path.to_owned()), &PERMISSIONS);
            let again = again.unwrap_or_else(|why| panic!("{}\nis written, and refused: {why}", text.escape_ascii()));
            assert_eq!(shown(&again), lines);
            assert_eq!(again.is_open(), access.is_open());
        }
        Err(error) => {
            // What a hash looks like is no secret.
            let error = error.to_string().replace("$argon2id$v=19$..", "");
            for secret in secrets(text) {
                assert!(!error.contains(secret), "{error}");
            }
        }
    }
}

#[test]
fn users() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("users");
    bolero::check!().with_test_time(time()).for_each(|input: &[u8]| look(&path, &text(&mut Choices(input), WORDS)));
}
