//! A user: name, passwords, rights; and the rules that make one, as ACL SETUSER and the users' file have them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::password::PasswordHash;
use super::permissions::Permissions;
use super::rights::{Rights, SYNTAX};

/// Users at a time.
pub const USERS_MAX: usize = 10_000;

/// Passwords that one user has at a time.
pub const PASSWORDS_MAX: usize = 8;

/// Bytes of a user's name.
pub const USER_NAME_BYTES_MAX: usize = 256;

/// The user that every connection is until it says otherwise.
pub const DEFAULT: &str = "default";

/// Redis' words for a password that is not there to be removed.
pub const NO_SUCH_PASSWORD: &str = "The password you are trying to remove from the user does not exist";

/// A user as it is at one moment; a change makes another.
#[derive(Clone)]
pub struct User {
    /// Tells a user from a later one of the same name.
    pub id: u64,
    /// Its name.
    pub name: Arc<str>,
    /// Whether one can authenticate as it.
    pub on: bool,
    /// Whether any password will do.
    pub any_password: bool,
    /// Hashes of its passwords.
    pub passwords: Vec<Arc<PasswordHash>>,
    /// What it may do.
    pub rights: Rights,
}

/// The users by name.
pub(super) type Users = BTreeMap<Arc<str>, Arc<User>>;

/// One change of a user.
pub enum Rule {
    /// `>secret`, hashed: `None` if the user has this password already.
    AddPassword(Option<Arc<PasswordHash>>),
    /// `<secret`, by its hash; `None` if the user has no such password.
    RemovePassword(Option<Box<str>>),
    /// Any other, as it was given.
    Plain(Box<[u8]>),
}

impl User {
    /// A user who may nothing, as ACL SETUSER makes one.
    pub fn new(name: &str, permissions: &'static Permissions) -> User {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        User {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            name: name.into(),
            on: false,
            any_password: false,
            passwords: Vec::new(),
            rights: Rights::none(permissions),
        }
    }

    /// The user `default` as it is where nobody has said otherwise: no password, everything permitted.
    pub fn unprotected(permissions: &'static Permissions) -> User {
        let rights = Rights::all(permissions);
        User { on: true, any_password: true, rights, ..User::new(DEFAULT, permissions) }
    }

    /// The same, read again: it is the user `known`, and a password that was verified once stays so.
    pub fn in_place_of(self, known: &User) -> User {
        let of = |hash: Arc<PasswordHash>| {
            let same = known.passwords.iter().find(|known| known.text() == hash.text());
            same.cloned().unwrap_or(hash)
        };
        User { id: known.id, passwords: self.passwords.into_iter().map(of).collect(), ..self }
    }

    /// Whether one is this user without saying a password.
    pub fn is_open(&self) -> bool {
        self.on && self.any_password
    }

    /// Takes one rule in; the error is Redis' reason where Redis has one.
    pub fn apply(&mut self, rule: &Rule) -> Result<(), String> {
        match rule {
            Rule::AddPassword(hash) => return self.add_password(hash.clone()),
            Rule::RemovePassword(text) => return self.remove_password(text.as_deref()),
            Rule::Plain(rule) => match &**rule {
                b"on" => self.on = true,
                b"off" => self.on = false,
                b"nopass" => (self.any_password, self.passwords) = (true, Vec::new()),
                b"resetpass" => (self.any_password, self.passwords) = (false, Vec::new()),
                b"reset" => {
                    (self.on, self.any_password, self.passwords) = (false, false, Vec::new());
                    self.rights = Rights::none(self.rights.permissions);
                }
                // Said by clients for Redis: there is nothing to sanitize here, and there are no selectors.
                b"sanitize-payload" | b"skip-sanitize-payload" | b"clearselectors" => {}
                [b'#', text @ ..] => return self.add_password(Some(Arc::new(read_hash(text)?))),
                [b'!', text @ ..] => return self.remove_password(std::str::from_utf8(text).ok()),
                [b'(', ..] => return Err("selectors are not supported".into()),
                rule => return self.rights.apply(rule).map_err(str::to_owned),
            },
        }
        Ok(())
    }

    fn add_password(&mut self, hash: Option<Arc<PasswordHash>>) -> Result<(), String> {
        self.any_password = false;
        let Some(hash) = hash.filter(|hash| self.passwords.iter().all(|known| known.text() != hash.text())) else {
            return Ok(());
        };
        if self.passwords.len() >= PASSWORDS_MAX {
            return Err(format!("LIMIT passwords_max {PASSWORDS_MAX}"));
        }
        self.passwords.push(hash);
        Ok(())
    }

    fn remove_password(&mut self, text: Option<&str>) -> Result<(), String> {
        let found = self.passwords.iter().position(|known| Some(known.text()) == text);
        self.passwords.remove(found.ok_or(NO_SUCH_PASSWORD)?);
        Ok(())
    }

    /// All of it as rules: `on #$argon2id$.. ~* &* +@all`. Read again they make the same user.
    pub fn describe(&self) -> Vec<u8> {
        let mut text = String::from(if self.on { "on" } else { "off" });
        if self.any_password {
            text.push_str(" nopass");
        }
        for hash in &self.passwords {
            text.push_str(" #");
            text.push_str(hash.text());
        }
        text.push(' ');
        [text.into_bytes(), self.rights.describe()].concat()
    }
}

fn read_hash(text: &[u8]) -> Result<PasswordHash, String> {
    let text = std::str::from_utf8(text).map_err(|_| SYNTAX)?;
    PasswordHash::read(text).map_err(|error| error.to_string())
}

/// The name of a user, if it can be one. A sign of a password or of its hash stands in none: the name, or a space, was
/// forgotten, and names are shown.
pub fn name(text: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(text).ok()?;
    let is_none = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '>' | '<' | '#' | '!');
    let fits = text.len() <= USER_NAME_BYTES_MAX && !text.contains(is_none);
    (fits && !text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::PERMISSIONS;

    const HASH: &str = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$AAAAAAAAAAAAAAAAAAAAAA";

    fn user(rules: &str) -> Result<User, String> {
        let mut user = User::new("alice", &PERMISSIONS);
        for rule in rules.split_ascii_whitespace() {
            user.apply(&Rule::Plain(rule.as_bytes().into()))?;
        }
        Ok(user)
    }

    fn described(rules: &str) -> String {
        String::from_utf8(user(rules).unwrap().describe()).unwrap()
    }

    #[test]
    fn rules_make_a_user_and_are_shown_again() {
        for (rules, shown) in [
            ("", "off resetchannels -@all"),
            ("on nopass allkeys +@all allchannels", "on nopass ~* &* +@all"),
            (&format!("on #{HASH} #{HASH} +get"), &*format!("on #{HASH} resetchannels -@all +get")),
            (&format!("on nopass #{HASH}"), &format!("on #{HASH} resetchannels -@all")),
            (&format!("on #{HASH} nopass"), "on nopass resetchannels -@all"),
            (&format!("#{HASH} !{HASH}"), "off resetchannels -@all"),
            ("on nopass ~* +@all reset", "off resetchannels -@all"),
            ("on nopass resetpass sanitize-payload", "on resetchannels -@all"),
        ] {
            assert_eq!(described(rules), shown, "{rules}");
            assert_eq!(described(shown), shown);
        }
        assert_eq!(User::unprotected(&PERMISSIONS).describe(), b"on nopass ~* &* +@all");
        assert!(!user("on resetpass").unwrap().is_open() && !user("off nopass").unwrap().is_open());
    }

    #[test]
    fn what_can_not_be_is_refused() {
        assert_eq!(user(&format!("!{HASH}")).err().as_deref(), Some(NO_SUCH_PASSWORD));
        assert!(user("#abc").err().is_some_and(|why| why.contains("forebay password")));
        assert!(user("(+get").err().is_some_and(|why| why.contains("selectors")));
        assert_eq!(user("foo").err().as_deref(), Some(SYNTAX));
        // Salts that differ in their last letter.
        let hash = |n: usize| format!("#{} ", HASH.replace("bHQ$", &format!("bH{}$", &"AEIMQUYcg"[n..n + 1])));
        let many: String = (0..PASSWORDS_MAX + 1).map(hash).collect();
        assert!(user(&many).err().is_some_and(|why| why.contains("passwords_max")), "{many}");
        for wrong in ["", "a b", "a\0", "a\nb", &"x".repeat(257)] {
            assert!(name(wrong.as_bytes()).is_none(), "{wrong:?}");
        }
        assert!(name(b"\xff").is_none() && name("\u{e4}rger:1".as_bytes()).is_some());
    }
}
