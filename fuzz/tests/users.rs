//! Files that say who may come in: an error that names no secret, or users that are written as the same users.

use std::path::Path;

use forebay_fuzz::{Choices, text, time};
use forebay_server::access::{Access, Source};

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

/// Passwords that stand in the file as they are.
fn secrets(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let words = text.split(u8::is_ascii_whitespace);
    words.filter(|word| word.len() > 8 && matches!(word[0], b'>' | b'<' | b'#' | b'!')).map(|word| &word[1..])
}

fn look(path: &Path, text: &[u8]) {
    std::fs::write(path, text).expect("room for it");
    drop(Access::open(Source::Password(path.to_owned())));
    match Access::open(Source::Users(path.to_owned())) {
        Ok(access) => {
            let lines = shown(&access);
            std::fs::write(path, lines.concat()).expect("room for it");
            let again = Access::open(Source::Users(path.to_owned()));
            let again = again.unwrap_or_else(|why| panic!("{}\nis written, and refused: {why}", text.escape_ascii()));
            assert_eq!(shown(&again), lines);
            assert_eq!(again.is_open(), access.is_open());
        }
        Err(error) => {
            let error = error.to_string();
            for secret in secrets(text).filter_map(|secret| std::str::from_utf8(secret).ok()) {
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
