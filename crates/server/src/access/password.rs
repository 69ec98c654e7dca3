//! Passwords: what is kept of them, how they are made and checked.
//!
//! Only argon2 hashes are kept. To compute one takes tens of milliseconds and megabytes, on purpose; so few are
//! computed at a time, and sources of connections take turns. A password that was right once is remembered as a keyed
//! hash, under a key that this process alone knows. So clients that connect again do not pay.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use argon2::password_hash::phc;
use argon2::{Argon2, Params, PasswordHasher, PasswordVerifier};
use blake2::Blake2sMac256;
use blake2::digest::{KeyInit, Mac};
use futures_channel::oneshot;
use subtle::ConstantTimeEq;
use thiserror::Error;

/// Hashes that are computed at a time, each with some 19 MiB.
pub const PASSWORD_CHECKS_MAX: usize = 2;

/// How long a turn rests after a wrong password.
pub const PASSWORD_REST: Duration = Duration::from_millis(100);

/// Wrong passwords after which a connection is closed.
pub const WRONG_PASSWORDS_MAX: u32 = 16;

/// The answer to the first wrong password of a connection waits so long, that to each further one twice as long.
const WRONG_WAIT: Duration = Duration::from_millis(50);

/// But not longer than this.
const WRONG_WAIT_MAX: Duration = Duration::from_secs(2);

/// Checks of passwords that wait for their turn; one more is refused, or a waiting one of the source that has the most.
pub const PASSWORD_WAITING_MAX: usize = 4096;

/// Checks of one source ([`source_of`]) that wait for their turn.
pub const PASSWORD_WAITING_SOURCE_MAX: usize = 512;

/// The most memory that a hash which someone else has made may ask for, in KiB.
pub const PASSWORD_MEMORY_KIB_MAX: u32 = 256 << 10;

/// The most passes over that memory.
pub const PASSWORD_PASSES_MAX: u32 = 32;

/// Checked against when there is no such user, so that the answer takes as long as it would if there were.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$Zm9yZWJheS1ub2JvZHkh$0fSe1Cpiz0pqyrHWKgUwUiZ2ZMx7AqKFrS4UfcNeYN8";

/// Why there is no password hash.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PasswordError {
    /// Not in the form of a hash.
    #[error("not an argon2 hash in PHC form ($argon2id$v=19$..); make one with `forebay password`")]
    NotAHash,
    /// To check it would take more than it is worth.
    #[error(
        "a hash that costs more than m={PASSWORD_MEMORY_KIB_MAX} KiB or t={PASSWORD_PASSES_MAX}; make one with \
         `forebay password`"
    )]
    TooCostly,
    /// The machine has no memory or no randomness for it.
    #[error("can't hash a password: {0}; give the process more memory")]
    Machine(String),
}

type Tag = [u8; 32];

/// A key that this process alone knows; `None` if the machine has no randomness, and then nothing is remembered.
fn key() -> Option<&'static Tag> {
    static KEY: OnceLock<Option<Tag>> = OnceLock::new();
    let made = KEY.get_or_init(|| {
        let mut key = [0; 32];
        getrandom::fill(&mut key).is_ok().then_some(key)
    });
    made.as_ref()
}

fn tag(password: &[u8]) -> Option<Tag> {
    let mac = Blake2sMac256::new_from_slice(key()?).ok()?;
    Some(mac.chain_update(password).finalize().into_bytes().into())
}

/// The hash of a password.
pub struct PasswordHash {
    text: Box<str>,
    parsed: phc::PasswordHash,
    /// The password in a keyed hash, once it was seen.
    seen: OnceLock<Tag>,
}

impl PasswordHash {
    /// Reads a hash in PHC form: `$argon2id$v=19$m=19456,t=2,p=1$salt$hash`.
    pub fn read(text: &str) -> Result<PasswordHash, PasswordError> {
        let parsed = phc::PasswordHash::new(text).map_err(|_| PasswordError::NotAHash)?;
        let complete = parsed.salt.is_some() && parsed.hash.is_some();
        if !text.starts_with("$argon2") || !complete {
            return Err(PasswordError::NotAHash);
        }
        let params = Params::try_from(&parsed).map_err(|_| PasswordError::NotAHash)?;
        if params.m_cost() > PASSWORD_MEMORY_KIB_MAX || params.t_cost() > PASSWORD_PASSES_MAX {
            return Err(PasswordError::TooCostly);
        }
        Ok(PasswordHash { text: text.into(), parsed, seen: OnceLock::new() })
    }

    /// Makes the hash of a password, with a salt of its own. Takes tens of milliseconds.
    pub fn make(password: &[u8]) -> Result<PasswordHash, PasswordError> {
        let made = Argon2::default().hash_password(password);
        let parsed = made.map_err(|error| PasswordError::Machine(error.to_string()))?;
        let hash = PasswordHash { text: parsed.to_string().into(), parsed, seen: OnceLock::new() };
        hash.remember(password);
        Ok(hash)
    }

    /// Its PHC form.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether this is the password, as far as is known without computing a hash.
    pub fn seen(&self, password: &[u8]) -> bool {
        match (self.seen.get(), tag(password)) {
            (Some(seen), Some(tag)) => seen.ct_eq(&tag).into(),
            _ => false,
        }
    }

    /// Whether this is the password. May take tens of milliseconds.
    pub fn is(&self, password: &[u8]) -> bool {
        // Another check of the same password may have waited before this one.
        let right = self.seen(password) || Argon2::default().verify_password(password, &self.parsed).is_ok();
        if right {
            self.remember(password);
        }
        right
    }

    fn remember(&self, password: &[u8]) {
        if let Some(tag) = tag(password) {
            // If it is there already it is the same.
            let _ = self.seen.set(tag);
        }
    }
}

/// How long the answer to a connection's wrong password waits, if it is the `wrong`th, from 1.
pub fn wrong_wait(wrong: u32) -> Duration {
    WRONG_WAIT.saturating_mul(1 << wrong.saturating_sub(1).min(10)).min(WRONG_WAIT_MAX)
}

/// Takes as long as a check of a password, for a user whom there is not.
pub fn check_nobody(password: &[u8]) {
    let hash = phc::PasswordHash::new(NOBODY);
    let _ = std::hint::black_box(hash.map(|hash| Argon2::default().verify_password(password, &hash)));
}

/// Where a client comes from, as far as turns go: its address without the port, and of IPv6 the network alone, since
/// whoever has one address there has 2^64 of them.
pub fn source_of(address: &str) -> String {
    match address.parse::<SocketAddr>().map(|address| address.ip().to_canonical()) {
        Ok(IpAddr::V6(ip)) => {
            let [a, b, c, d, ..] = ip.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
        Ok(ip) => ip.to_string(),
        Err(_) => address.to_owned(),
    }
}

/// Gives turns to those who want to compute a hash: one source after the other, however many connections it has.
#[derive(Clone, Default)]
pub struct Turns(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    running: usize,
    waiting: usize,
    sources: VecDeque<(Box<str>, VecDeque<oneshot::Sender<Turn>>)>,
}

/// A turn, over when it is dropped.
pub struct Turn(Turns);

impl Waiting {
    /// Refuses the check that came last of the source that has the most, unless `source` would then have as many.
    fn refuse_one(&mut self, source: &str) -> bool {
        let own = self.sources.iter().find(|(known, _)| **known == *source).map_or(0, |(_, queue)| queue.len());
        let longest = self.sources.iter_mut().map(|(_, queue)| queue).max_by_key(|queue| queue.len());
        let Some(longest) = longest.filter(|queue| queue.len() > own + 1) else { return false };
        // Whoever waits for what is dropped is told that there is no turn.
        drop(longest.pop_back());
        self.waiting -= 1;
        true
    }
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn of `source`; `None`: too many wait already.
    pub async fn take(&self, source: &str) -> Option<Turn> {
        let receiver = {
            let mut waiting = self.lock();
            if waiting.running < PASSWORD_CHECKS_MAX {
                waiting.running += 1;
                return Some(Turn(self.clone()));
            }
            if waiting.waiting >= PASSWORD_WAITING_MAX && !waiting.refuse_one(source) {
                return None;
            }
            let (sender, receiver) = oneshot::channel();
            match waiting.sources.iter_mut().find(|(known, _)| **known == *source) {
                Some((_, queue)) if queue.len() >= PASSWORD_WAITING_SOURCE_MAX => return None,
                Some((_, queue)) => queue.push_back(sender),
                None => waiting.sources.push_back((source.into(), VecDeque::from([sender]))),
            }
            waiting.waiting += 1;
            receiver
        };
        receiver.await.ok()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        loop {
            let sender = {
                let mut waiting = self.0.lock();
                let Some((source, mut queue)) = waiting.sources.pop_front() else {
                    waiting.running -= 1;
                    return;
                };
                let before = queue.len();
                let next = std::iter::from_fn(|| queue.pop_front()).find(|sender| !sender.is_canceled());
                waiting.waiting -= before - queue.len();
                if !queue.is_empty() {
                    waiting.sources.push_back((source, queue));
                }
                next
            };
            // Not under the lock: a turn that nobody wants any more is dropped here and looks for the next itself.
            if let Some(sender) = sender {
                let _ = sender.send(Turn(self.0.clone()));
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    /// As cheap as argon2 may be.
    const CHEAP: &str = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$AAAAAAAAAAAAAAAAAAAAAA";

    #[test]
    fn a_password_is_known_by_its_hash_and_seen_only_when_it_was_right() {
        let hash = PasswordHash::make(b"secret").unwrap();
        assert!(hash.seen(b"secret") && !hash.seen(b"Secret"));
        let again = PasswordHash::read(hash.text()).unwrap();
        assert!(!again.seen(b"secret"), "nothing of it is in the text");
        assert!(!again.is(b"") && !again.is(b"secret\0") && !again.seen(b""));
        assert!(again.is(b"secret") && again.seen(b"secret") && !again.seen(b"secre"));
        assert!(!hash.text().contains("secret"));
        assert_ne!(PasswordHash::make(b"secret").unwrap().text(), hash.text(), "salted");
    }

    #[test]
    fn what_is_no_hash_is_refused() {
        assert!(PasswordHash::read(CHEAP).is_ok());
        for text in
            ["", "secret", "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ", "$pbkdf2-sha256$i=1$c29tZXNhbHQ$AAAAAAAAAAAA"]
        {
            assert_eq!(PasswordHash::read(text).err(), Some(PasswordError::NotAHash), "{text}");
        }
        for costly in ["m=1048576,t=1", "m=8,t=33"] {
            let text = CHEAP.replace("m=8,t=1", costly);
            assert_eq!(PasswordHash::read(&text).err(), Some(PasswordError::TooCostly), "{text}");
        }
    }

    #[test]
    fn nobody_has_a_password() {
        let hash = phc::PasswordHash::new(NOBODY).unwrap();
        let cost = Params::try_from(&hash).unwrap();
        assert_eq!((cost.m_cost(), cost.t_cost()), (Params::DEFAULT_M_COST, Params::DEFAULT_T_COST));
    }

    #[test]
    fn a_source_is_an_address_or_a_network() {
        for (address, source) in [
            ("192.0.2.7:50000", "192.0.2.7"),
            ("[::ffff:192.0.2.7]:50000", "192.0.2.7"),
            ("[2001:db8:1:2:3:4:5:6]:50000", "2001:db8:1:2::/64"),
            ("[2001:db8:1:2::9]:1", "2001:db8:1:2::/64"),
            ("client", "client"),
        ] {
            assert_eq!(source_of(address), source);
        }
    }

    /// A flood that fills all places takes none from those who are few.
    #[test]
    fn where_too_many_wait_those_are_refused_who_are_most() {
        let turns = Turns::default();
        let running: Vec<_> = (0..PASSWORD_CHECKS_MAX).map(|_| turns.take("a").now_or_never().flatten()).collect();
        let sources = PASSWORD_WAITING_MAX / PASSWORD_WAITING_SOURCE_MAX;
        let names: Vec<String> = (0..sources).map(|number| format!("flood {number}")).collect();
        let waiting = |source: &str| {
            let (turns, source) = (turns.clone(), source.to_owned());
            let mut turn = Box::pin(async move { turns.take(&source).await }.fuse());
            (&mut turn).now_or_never().is_none().then_some(turn)
        };
        let flood = names.iter().flat_map(|name| std::iter::repeat_n(name, PASSWORD_WAITING_SOURCE_MAX));
        let mut flood: Vec<_> = flood.map(|name| waiting(name).expect("there is room")).collect();
        assert_eq!(turns.lock().waiting, PASSWORD_WAITING_MAX);
        let mut few: Vec<_> = (0..3).map(|_| waiting("few").expect("others have more")).collect();
        assert_eq!(turns.lock().waiting, PASSWORD_WAITING_MAX);
        let refused = flood.iter_mut().filter_map(|turn| turn.now_or_never()).filter(Option::is_none).count();
        assert_eq!(refused, 3);
        assert!(waiting(&names[0]).is_none(), "it has as many as any");
        // Each turn that ends goes to the next source.
        drop(running);
        for _ in 0..sources {
            drop(flood.iter_mut().find_map(|turn| turn.now_or_never().flatten()));
        }
        assert!(few.iter_mut().any(|turn| turn.now_or_never().flatten().is_some()), "no turn within a round");
    }

    #[test]
    fn sources_take_turns_and_too_many_are_refused() {
        let turns = Turns::default();
        let mut running: Vec<_> =
            (0..PASSWORD_CHECKS_MAX).map(|_| turns.take("a").now_or_never().flatten().unwrap()).collect();
        let mut flood: VecDeque<_> = (0..PASSWORD_WAITING_SOURCE_MAX).map(|_| Box::pin(turns.take("a"))).collect();
        assert!(flood.iter_mut().all(|turn| turn.now_or_never().is_none()));
        assert!(turns.take("a").now_or_never().is_some_and(|turn| turn.is_none()), "refused");
        let mut other = Box::pin(turns.take("b"));
        assert!((&mut other).now_or_never().is_none());
        // One of the flood, then the other source; those that have gone are passed over.
        drop(flood.drain(..100));
        drop(running.pop());
        let first = flood.iter_mut().filter_map(|turn| turn.now_or_never().flatten()).collect::<Vec<_>>();
        assert_eq!(first.len(), 1);
        drop(first);
        assert!((&mut other).now_or_never().flatten().is_some());
        drop((running, flood, other));
        let left = turns.lock();
        assert_eq!((left.running, left.waiting), (0, 0));
        drop(left);
        assert!(turns.take("a").now_or_never().flatten().is_some());
    }
}
