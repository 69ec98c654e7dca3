//! Who may come in, and what they may do.
//!
//! * `password.rs`: hashes of passwords, how they are checked, and how few at a time;
//! * `permissions.rs`: commands and categories that there are;
//! * `rights.rs`: commands, categories and key patterns that a user has;
//! * `user.rs`: a user, and the rules that make one;
//! * `file.rs`: the file with one password, and the file with users;
//! * `denials.rs`: the latest refusals, for ACL LOG.
//!
//! [`Access`] holds the users. A user is never changed but replaced, and the epoch then rises. A session keeps the user
//! that it found, with one flag that says whether anything is to be checked at all. It looks again when the epoch is
//! another. So a command of a client that may do everything pays one load and two branches.

pub mod denials;
mod file;
pub mod password;
mod pattern;
pub mod permissions;
pub mod rights;
pub mod user;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use forebay::runtime::Runtime;
use futures_util::lock::Mutex;

use denials::Denials;
pub use file::{AccessError, Source, line as users_file_line};
use password::{PASSWORD_REST, PasswordError, PasswordHash, Turns, check_nobody};
use permissions::Permissions;
pub use user::USERS_MAX;
use user::{DEFAULT, Rule, User, Users};

/// The users, and who was refused.
pub struct Access {
    /// What may be permitted.
    pub permissions: &'static Permissions,
    users: RwLock<Users>,
    epoch: AtomicU64,
    turns: Turns,
    /// Hashes that were computed to check passwords.
    hashes: Arc<AtomicU64>,
    source: Source,
    /// Others can reach the server: nobody may come in without a password.
    closed: bool,
    /// Held while the file is written: of two writers one might bring back what the other has changed.
    saving: Arc<Mutex<()>>,
    /// The latest refusals.
    pub denials: Denials,
}

/// Why someone is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No such user, user is off, or another password.
    Wrong,
    /// Too many passwords wait for their check.
    Busy,
}

/// Why a user can't be changed: at which rule, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// Number of the rule, from 0.
    pub at: usize,
    /// Redis' reason where Redis has one.
    pub why: String,
}

impl Access {
    /// One user, who may do everything and needs no password.
    pub fn unprotected(permissions: &'static Permissions) -> Access {
        let users = Users::from([(Arc::from(DEFAULT), Arc::new(User::unprotected(permissions)))]);
        Access::over(Source::None, users, permissions)
    }

    fn over(source: Source, users: Users, permissions: &'static Permissions) -> Access {
        Access {
            permissions,
            users: RwLock::new(users),
            epoch: AtomicU64::new(0),
            turns: Turns::default(),
            hashes: Arc::default(),
            source,
            closed: false,
            saving: Arc::default(),
            denials: Denials::default(),
        }
    }

    /// The users of `source`.
    pub fn open(source: Source, permissions: &'static Permissions) -> Result<Access, AccessError> {
        let users = source.read(permissions)?;
        Ok(Access::over(source, users, permissions))
    }

    /// From now on refuses to read users again of whom one needs no password.
    pub fn kept_closed(self) -> Access {
        Access { closed: true, ..self }
    }

    fn read(&self) -> RwLockReadGuard<'_, Users> {
        self.users.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// For a change: sessions look at their users again.
    fn write(&self) -> RwLockWriteGuard<'_, Users> {
        let users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that who sees the new epoch waits for the change.
        self.epoch.fetch_add(1, Ordering::SeqCst);
        users
    }

    /// Rises with every change of a user.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The user of this name.
    pub fn user(&self, name: &[u8]) -> Option<Arc<User>> {
        self.read().get(std::str::from_utf8(name).ok()?).cloned()
    }

    /// The user that connections are which have said nothing.
    pub fn default_user(&self) -> Arc<User> {
        // There always is one; where it was lost nobody comes in.
        self.user(DEFAULT.as_bytes()).unwrap_or_else(|| Arc::new(User::new(DEFAULT, self.permissions)))
    }

    /// All users by name.
    pub fn all(&self) -> Vec<Arc<User>> {
        self.read().values().cloned().collect()
    }

    /// Where the users come from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Whether a client comes in without a password.
    pub fn is_open(&self) -> bool {
        self.read().values().any(|user| user.is_open())
    }

    /// Hashes that were computed to check passwords.
    pub fn hashes(&self) -> u64 {
        self.hashes.load(Ordering::Relaxed)
    }

    /// The user `name`, if that is its password. `source` is where the client comes from ([`password::source_of`]).
    /// A wrong password costs as many hashes whoever it is for, and if there is no such user: as many as the user with
    /// the most passwords has.
    pub async fn authenticate(
        &self,
        runtime: &Runtime,
        source: &str,
        name: &[u8],
        password: &[u8],
    ) -> Result<Arc<User>, Refused> {
        if let Some(user) = self.known(name, password) {
            return Ok(user);
        }
        let user = self.user(name).filter(|user| user.on);
        let turn = self.turns.take(source).await.ok_or(Refused::Busy)?;
        let most = self.read().values().map(|user| user.passwords.len()).max().unwrap_or_default().max(1);
        let (password, hashes) = (Box::<[u8]>::from(password), self.hashes.clone());
        let checked = runtime.blocking(move || {
            let count = || hashes.fetch_add(1, Ordering::Relaxed);
            let known = user.as_ref().map_or(&[][..], |user| &user.passwords);
            let hash = known.iter().find(|hash| {
                count();
                hash.is(&password)
            });
            let hash = hash.cloned();
            if hash.is_none() {
                (known.len()..most).for_each(|_| {
                    count();
                    check_nobody(&password);
                });
            }
            // The turn has come along, so that it is not over before the hash is, although the client may be gone.
            (hash, turn)
        });
        let (hash, turn) = checked.await;
        let Some(hash) = hash else {
            // Guesses must not take the machine: the turn rests before it is another's.
            runtime.sleep(PASSWORD_REST).await;
            drop(turn);
            return Err(Refused::Wrong);
        };
        // As the user is now: it took a while.
        let user = self.user(name).filter(|user| user.on);
        user.filter(|user| user.passwords.iter().any(|known| known.text() == hash.text())).ok_or(Refused::Wrong)
    }

    /// The user with this password, where that is known without a hash.
    pub fn known(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        let seen = |user: &Arc<User>| user.any_password || user.passwords.iter().any(|hash| hash.seen(password));
        self.user(name).filter(|user| user.on).filter(seen)
    }

    /// Changes a user, or makes one, by all of `rules` or by none.
    pub async fn set_user(&self, runtime: &Runtime, name: &str, rules: &[&[u8]]) -> Result<(), RuleError> {
        let rules = self.hashed(runtime, name, rules).await?;
        let mut users = self.write();
        let mut user = match users.get(name) {
            Some(user) => User::clone(user),
            None if users.len() >= USERS_MAX => {
                return Err(RuleError { at: 0, why: format!("LIMIT users_max {USERS_MAX}") });
            }
            None => User::new(name, self.permissions),
        };
        for (at, rule) in rules.iter().enumerate() {
            user.apply(rule).map_err(|why| RuleError { at, why })?;
        }
        // What would be refused at the start is so now.
        if self.closed && user.is_open() && !users.get(name).is_some_and(|known| known.is_open()) {
            let why = "others can reach this server, and the user would need no password; give it one, or start with \
                       --allow-public-without-password";
            return Err(RuleError { at: rules.len().saturating_sub(1), why: why.into() });
        }
        users.insert(user.name.clone(), Arc::new(user));
        Ok(())
    }

    /// The rules with their passwords hashed. Those that add or remove one take as long as checks of all there are.
    async fn hashed(&self, runtime: &Runtime, name: &str, rules: &[&[u8]]) -> Result<Vec<Rule>, RuleError> {
        let mut ready = Vec::with_capacity(rules.len());
        for (at, rule) in rules.iter().enumerate() {
            let [sign @ (b'>' | b'<'), password @ ..] = rule else {
                ready.push(Rule::Plain((*rule).into()));
                continue;
            };
            let why = |why: String| RuleError { at, why };
            let added = ready.iter().filter_map(|rule| match rule {
                Rule::AddPassword(hash) => hash.clone(),
                _ => None,
            });
            let user = self.user(name.as_bytes());
            let known: Vec<_> = user.iter().flat_map(|user| user.passwords.iter().cloned()).chain(added).collect();
            let turn =
                self.turns.take("").await.ok_or_else(|| why("too many passwords wait for their check".into()))?;
            let (add, password) = (*sign == b'>', Box::<[u8]>::from(password));
            let rule = runtime.blocking(move || {
                let _turn = turn;
                let known = known.into_iter().find(|hash| hash.is(&password));
                match (add, known) {
                    (true, Some(known)) => Ok(Rule::AddPassword(Some(known))),
                    (true, None) => PasswordHash::make(&password).map(|hash| Rule::AddPassword(Some(hash.into()))),
                    (false, known) => Ok(Rule::RemovePassword(known.map(|hash| hash.text().into()))),
                }
            });
            ready.push(rule.await.map_err(|error: PasswordError| why(error.to_string()))?);
        }
        Ok(ready)
    }

    /// Removes a user; whoever is it must be sent away.
    pub fn remove_user(&self, name: &[u8]) -> Option<Arc<User>> {
        let name = std::str::from_utf8(name).ok()?;
        self.write().remove(name)
    }

    /// Reads the source again, all of it or nothing. Users that are no longer there: whoever is one must be sent away.
    pub async fn reload(&self, runtime: &Runtime) -> Result<Vec<Arc<User>>, AccessError> {
        let (source, permissions) = (self.source.clone(), self.permissions);
        let read = runtime.blocking(move || source.read(permissions)).await?;
        if let Some(user) = read.values().find(|user| self.closed && user.is_open()) {
            return Err(AccessError::Open { user: user.name.clone() });
        }
        let mut users = self.write();
        let old = std::mem::take(&mut *users);
        for (name, user) in read {
            // A user of the same name is the same: its connections stay, and what is known of its passwords.
            let user = match old.get(&name) {
                Some(known) => Arc::new(User::clone(&user).in_place_of(known)),
                None => user,
            };
            users.insert(name, user);
        }
        Ok(old.into_iter().filter(|(name, _)| !users.contains_key(name)).map(|(_, user)| user).collect())
    }

    /// Writes the users to the users' file.
    pub async fn save(&self, runtime: &Runtime) -> Result<(), AccessError> {
        let saving = self.saving.clone().lock_owned().await;
        let (source, users) = (self.source.clone(), self.all());
        let written = runtime.blocking(move || {
            // It has come along: the client may be gone before the file is written.
            let _saving = saving;
            source.write(&users)
        });
        written.await
    }
}
