//! Who has logged in at the page: random tokens, each for a user as it was then.
//!
//! A session ends with its time, or as soon as its user is changed or no more. So it never has a right that the user
//! has lost, and a new password ends what was opened with the old one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay::mutation::{self, Fault};
use subtle::ConstantTimeEq;

use crate::access::Access;
use crate::access::user::User;

/// Sessions at a time; for one more the oldest goes of the user that has the most.
pub const HTTP_SESSIONS_MAX: usize = 128;

/// A session ends so long after its login.
pub const HTTP_SESSION_WAIT: Duration = Duration::from_secs(12 * 3600);

/// Bytes of a token, all of them random.
const TOKEN_BYTES: usize = 32;

/// The sessions, the oldest first.
#[derive(Default)]
pub(super) struct Sessions(Mutex<Vec<Session>>);

struct Session {
    token: String,
    user: Arc<User>,
    /// Of [`Access`], when its user was last compared.
    epoch: u64,
    until: Duration,
}

impl Session {
    /// Whether it holds still; its user is looked at again where some user has changed.
    fn holds(&mut self, access: &Access, now: Duration) -> bool {
        if now >= self.until {
            return false;
        }
        let epoch = access.epoch();
        if epoch == self.epoch || mutation::on(Fault::ToldByOldRights) {
            return true;
        }
        self.epoch = epoch;
        let user = access.user(self.user.name.as_bytes());
        user.is_some_and(|user| user.on && user.id == self.user.id && user.describe() == self.user.describe())
    }
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, Vec<Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session for `user`; its token, or `None` where the machine has no randomness.
    pub(super) fn open(&self, access: &Access, user: Arc<User>, now: Duration) -> Option<String> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).ok()?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut sessions = self.lock();
        sessions.retain_mut(|session| session.holds(access, now));
        if sessions.len() >= HTTP_SESSIONS_MAX {
            let of = |user: &User| sessions.iter().filter(|session| session.user.id == user.id).count();
            let most = sessions.iter().map(|session| of(&session.user)).max().unwrap_or_default();
            let oldest = sessions.iter().position(|session| of(&session.user) == most);
            oldest.map(|at| sessions.remove(at));
        }
        // Before the user was looked up, so that a change since then is seen.
        sessions.push(Session { token: token.clone(), user, epoch: u64::MAX, until: now + HTTP_SESSION_WAIT });
        Some(token)
    }

    /// Whose session has this token, if it holds still.
    pub(super) fn user(&self, access: &Access, token: &str, now: Duration) -> Option<Arc<User>> {
        let mut sessions = self.lock();
        let at = sessions.iter().position(|session| session.token.as_bytes().ct_eq(token.as_bytes()).into())?;
        if !sessions[at].holds(access, now) {
            sessions.remove(at);
            return None;
        }
        Some(sessions[at].user.clone())
    }

    /// Ends a session.
    pub(super) fn close(&self, token: &str) {
        self.lock().retain(|session| !bool::from(session.token.as_bytes().ct_eq(token.as_bytes())));
    }
}

#[cfg(test)]
mod tests {
    use forebay::runtime::{self, Runtime};

    use super::*;
    use crate::command::PERMISSIONS;

    const NOW: Duration = Duration::from_secs(1);

    fn run<T>(work: impl AsyncFnOnce(Runtime) -> T) -> T {
        let threads = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let runtime = runtime::tokio::runtime(threads.handle().clone());
        threads.block_on(work(runtime))
    }

    async fn user(access: &Access, runtime: &Runtime, name: &str, rules: &[&[u8]]) -> Arc<User> {
        access.set_user(runtime, name, rules).await.unwrap();
        access.user(name.as_bytes()).unwrap()
    }

    #[test]
    fn a_session_ends_with_its_time_its_user_or_a_change_of_that() {
        run(async |runtime| {
            let (access, sessions) = (Access::unprotected(&PERMISSIONS), Sessions::default());
            let bob = user(&access, &runtime, "bob", &[b"on", b"nopass", b"+info"]).await;
            let open = || sessions.open(&access, bob.clone(), NOW).unwrap();
            let (token, other) = (open(), open());
            assert!(token.len() == 2 * TOKEN_BYTES && token != other);
            assert!(sessions.user(&access, &token, NOW).is_some_and(|user| user.id == bob.id));
            assert!(sessions.user(&access, "", NOW).is_none() && sessions.user(&access, &token[1..], NOW).is_none());
            // Another user's change is none of its own.
            user(&access, &runtime, "al", &[b"on"]).await;
            assert!(sessions.user(&access, &token, NOW).is_some());
            sessions.close(&token);
            assert!(sessions.user(&access, &token, NOW).is_none() && sessions.user(&access, &other, NOW).is_some());
            assert!(sessions.user(&access, &other, NOW + HTTP_SESSION_WAIT).is_none(), "its time is over");
            let changed = open();
            user(&access, &runtime, "bob", &[b"-info"]).await;
            assert!(sessions.user(&access, &changed, NOW).is_none());
            let bob = access.user(b"bob").unwrap();
            let removed = sessions.open(&access, bob, NOW).unwrap();
            access.remove_user(b"bob");
            user(&access, &runtime, "bob", &[b"on", b"nopass"]).await;
            assert!(sessions.user(&access, &removed, NOW).is_none(), "a later one of the name is another");
        });
    }

    /// What was opened before the change stays open where the rule is left out.
    #[test]
    fn a_session_kept_for_a_changed_user_is_found() {
        run(async |runtime| {
            let (access, sessions) = (Access::unprotected(&PERMISSIONS), Sessions::default());
            let bob = user(&access, &runtime, "bob", &[b"on", b"nopass", b"+info"]).await;
            let token = sessions.open(&access, bob, NOW).unwrap();
            access.remove_user(b"bob");
            let fault = mutation::put_back(Some(Fault::ToldByOldRights));
            assert!(sessions.user(&access, &token, NOW).is_some(), "the fault does something");
            drop(fault);
            assert!(sessions.user(&access, &token, NOW).is_none());
        });
    }

    #[test]
    fn sessions_are_bounded_and_those_go_first_of_whom_there_are_most() {
        run(async |runtime| {
            let (access, sessions) = (Access::unprotected(&PERMISSIONS), Sessions::default());
            let few = user(&access, &runtime, "few", &[b"on", b"nopass"]).await;
            let many = user(&access, &runtime, "many", &[b"on", b"nopass"]).await;
            let kept = sessions.open(&access, few, NOW).unwrap();
            let tokens: Vec<_> =
                (0..2 * HTTP_SESSIONS_MAX).map(|_| sessions.open(&access, many.clone(), NOW).unwrap()).collect();
            assert_eq!(sessions.lock().len(), HTTP_SESSIONS_MAX);
            assert!(sessions.user(&access, &kept, NOW).is_some() && sessions.user(&access, &tokens[0], NOW).is_none());
            assert!(tokens.last().is_some_and(|token| sessions.user(&access, token, NOW).is_some()));
        });
    }
}
