//! Files that say who may come in: one password, or users.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use super::permissions::Permissions;
use super::user::{self, DEFAULT, Rule, USERS_MAX, User, Users};

/// Bytes of a file with users.
pub const USERS_FILE_BYTES_MAX: u64 = 64 << 20;

/// Where the users come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Nowhere: one user, who may do everything and needs no password.
    #[default]
    None,
    /// A file that holds the hash of one password, that of the user `default`.
    Password(PathBuf),
    /// A file with a user on each line, as ACL LIST shows them.
    Users(PathBuf),
}

/// Why the users can't be read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AccessError {
    /// The file can't be read.
    #[error("can't read {file}: {error}", file = file.display())]
    Read {
        /// Which file.
        file: PathBuf,
        /// What the machine says.
        error: io::Error,
    },
    /// The file can't be written.
    #[error("can't write {file}: {error}", file = file.display())]
    Write {
        /// Which file.
        file: PathBuf,
        /// What the machine says.
        error: io::Error,
    },
    /// A line that says nothing that is understood.
    #[error("{file} line {line}: {why}", file = file.display())]
    Line {
        /// Which file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// The file would let everyone in who reaches the server.
    #[error("the user {user} needs no password, and others can reach this server; give it one, or turn it off")]
    Open {
        /// Who has no password.
        user: Arc<str>,
    },
    /// There is no file with users.
    #[error("no file with users; start with --users-file FILE")]
    NoFile,
}

impl Source {
    /// Reads the users.
    pub(super) fn read(&self, permissions: &'static Permissions) -> Result<Users, AccessError> {
        match self {
            Source::None => Ok(Users::from([(Arc::from(DEFAULT), Arc::new(User::unprotected(permissions)))])),
            Source::Password(file) => read_password(file, &text(file)?, permissions),
            Source::Users(file) => read_users(file, &text(file)?, permissions),
        }
    }

    /// Writes the users, all of them or, if that fails, none.
    pub(super) fn write(&self, users: &[Arc<User>]) -> Result<(), AccessError> {
        let Source::Users(file) = self else { return Err(AccessError::NoFile) };
        let mut text = Vec::new();
        for user in users {
            text.extend_from_slice(&line(user));
            text.push(b'\n');
        }
        replace(file, &text).map_err(|error| AccessError::Write { file: file.clone(), error })
    }
}

/// A user as a line of the file, and of ACL LIST.
pub fn line(user: &User) -> Vec<u8> {
    [format!("user {} ", user.name).into_bytes(), user.describe()].concat()
}

fn text(file: &Path) -> Result<Vec<u8>, AccessError> {
    let failed = |error| AccessError::Read { file: file.into(), error };
    forebay::runtime::files::read(file, USERS_FILE_BYTES_MAX).map_err(failed)
}

/// Beside the file, then in its place: a crash leaves the old one or the new one.
fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    // Not a file that someone else has put there, whom it may still be open to.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut new = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    new.write_all(text)?;
    new.sync_all()?;
    fs::rename(&beside, file)?;
    // The name is safe when its folder is.
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(folder)?.sync_all()
}

/// The lines that say something, with their numbers.
fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).zip(1..);
    lines.filter(|(line, _)| !line.is_empty() && !line.starts_with(b"#")).map(|(line, number)| (number, line))
}

fn read_password(file: &Path, text: &[u8], permissions: &'static Permissions) -> Result<Users, AccessError> {
    let wrong = |line: usize, why: &str| AccessError::Line { file: file.into(), line, why: why.into() };
    let mut lines = lines(text);
    let (number, hash) = lines.next().ok_or_else(|| wrong(1, "no hash; make one with `forebay password`"))?;
    if let Some((number, _)) = lines.next() {
        return Err(wrong(number, "a second password; a file with several users is given with --users-file"));
    }
    let mut user = User { any_password: false, ..User::unprotected(permissions) };
    let rule = Rule::Plain([b"#", hash].concat().into());
    user.apply(&rule).map_err(|why| wrong(number, &why))?;
    Ok(Users::from([(user.name.clone(), Arc::new(user))]))
}

fn read_users(file: &Path, text: &[u8], permissions: &'static Permissions) -> Result<Users, AccessError> {
    let mut users = Users::new();
    for (line, text) in lines(text) {
        let wrong = |why: String| AccessError::Line { file: file.into(), line, why };
        let user = read_user(text, permissions).map_err(wrong)?;
        if users.len() >= USERS_MAX {
            return Err(wrong(format!("more than {USERS_MAX} users")));
        }
        if let Some(user) = users.insert(user.name.clone(), Arc::new(user)) {
            return Err(wrong(format!("the user {} a second time", user.name)));
        }
    }
    // Redis would let everyone in as a `default` that the file does not mention. Who writes a file wants it to decide.
    users.entry(DEFAULT.into()).or_insert_with(|| Arc::new(User::new(DEFAULT, permissions)));
    Ok(users)
}

/// The word at this place of a line as it may be shown: where a space was forgotten, a password or its hash stands in
/// its midst. Where a sign was forgotten it is one.
fn without_secret(place: usize, word: &[u8]) -> String {
    let signed = matches!(word, [b'+' | b'-' | b'~' | b'%' | b'&' | b'@', ..]);
    match word.iter().position(|byte| matches!(byte, b'>' | b'<' | b'#' | b'!')) {
        Some(at) => format!("{}..", String::from_utf8_lossy(&word[..at])),
        None if signed => String::from_utf8_lossy(word).into_owned(),
        None => format!("word {place}"),
    }
}

fn read_user(line: &[u8], permissions: &'static Permissions) -> Result<User, String> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    if words.next() != Some(b"user") {
        return Err("a line is: user NAME RULE ..".into());
    }
    let name = words.next().and_then(user::name).ok_or("a line is: user NAME RULE ..")?;
    let mut user = User::new(name, permissions);
    // Behind `user` and the name.
    for (place, word) in (3..).zip(words) {
        if matches!(word, [b'>' | b'<', ..]) {
            // Not shown: it may be the password of somebody.
            return Err("a password stands here as its hash, #$argon2id$..; make it with `forebay password`".into());
        }
        let refused = |why: String| format!("{}: {why}", without_secret(place, word));
        user.apply(&Rule::Plain(word.into())).map_err(|why| match word {
            [b'#' | b'!', ..] => why,
            _ => refused(why),
        })?;
    }
    Ok(user)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::PERMISSIONS;

    const HASH: &str = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$AAAAAAAAAAAAAAAAAAAAAA";

    fn users(text: &str) -> Result<Vec<String>, String> {
        let read = read_users(Path::new("users"), text.as_bytes(), &PERMISSIONS).map_err(|error| error.to_string())?;
        Ok(read.values().map(|user| String::from_utf8(line(user)).unwrap()).collect())
    }

    #[test]
    fn a_file_makes_users_and_is_written_as_the_same() {
        let text = format!("# who\n\nuser bob on #{HASH} ~a* -@all +@read\r\n  user default off\nuser al on nopass\n");
        let expected = [
            "user al on nopass resetchannels -@all".to_owned(),
            format!("user bob on #{HASH} ~a* resetchannels -@all +@read"),
            "user default off resetchannels -@all".to_owned(),
        ];
        assert_eq!(users(&text).unwrap(), expected);
        let folder = tempfile::tempdir().unwrap();
        let source = Source::Users(folder.path().join("users"));
        let read = read_users(Path::new("users"), text.as_bytes(), &PERMISSIONS).unwrap();
        let read: Vec<_> = read.into_values().collect();
        source.write(&read).unwrap();
        source.write(&read).unwrap();
        let again: Vec<_> = source.read(&PERMISSIONS).unwrap().into_values().map(|user| line(&user)).collect();
        assert_eq!(again, read.iter().map(|user| line(user)).collect::<Vec<_>>());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    /// As Redis does not: who forgets the default user has not let everyone in.
    #[test]
    fn nobody_comes_in_whom_the_file_does_not_name() {
        assert_eq!(users("user bob on nopass ~* +@all").unwrap()[1], "user default off resetchannels -@all");
        assert_eq!(users("").unwrap(), ["user default off resetchannels -@all"]);
    }

    #[test]
    fn mistakes_are_told_with_their_line_and_without_secrets() {
        let error = |text: &str| users(text).unwrap_err();
        assert_eq!(error("\nuser a on +nosuch"), "users line 2: +nosuch: Unknown command or category name in ACL");
        assert_eq!(error("user a\nuser a"), "users line 2: the user a a second time");
        assert_eq!(error("usr a"), "users line 1: a line is: user NAME RULE ..");
        assert_eq!(error("user"), "users line 1: a line is: user NAME RULE ..");
        let secret = error("user a on >hunter2 +@all");
        assert!(secret.contains("forebay password") && !secret.contains("hunter2"), "{secret}");
        assert!(!error("user a on #hunter2").contains("hunter2"));
        assert_eq!(error("user a on hunter2"), "users line 1: word 4: Syntax error");
        assert!(error("user >hunter2 on").contains("user NAME RULE") && !error("user >hunter2 on").contains("hunter2"));
        assert!(error("user a on>hunter2").starts_with("users line 1: on..: "));
        let password = |text: &str| {
            read_password(Path::new("password"), text.as_bytes(), &PERMISSIONS)
                .map(drop)
                .map_err(|error| error.to_string())
        };
        assert_eq!(password(&format!("{HASH}\n")), Ok(()));
        assert!(password("").unwrap_err().contains("forebay password"));
        assert!(!password("hunter2").unwrap_err().contains("hunter2"));
        assert!(password(&format!("{HASH}\n{HASH}")).unwrap_err().starts_with("password line 2"));
        assert!(matches!(Source::None.write(&[]), Err(AccessError::NoFile)));
    }
}
