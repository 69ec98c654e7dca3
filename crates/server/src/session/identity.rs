//! Who a session's client is, and whether it may do what it asks for.
//!
//! As in Redis: a client is the user `default` until it authenticates; if that user needs a password, the client is a
//! stranger, who may only authenticate or leave. A change of its user holds from its next command on, one that has been
//! queued in MULTI included; whose user was removed is sent away.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use forebay::key::Key;
use forebay::mutation::{self, Fault};
use forebay_protocol::{Frame, Reply, errors};
use futures_util::future::select;

use super::{Hints, Multi, Session};
use crate::access::denials::Denial;
use crate::access::password::{PASSWORD_WAITING_MAX, WRONG_PASSWORDS_MAX, source_of, wrong_wait};
use crate::access::rights::Denied;
use crate::access::user::User;
use crate::access::{Access, Refused};
use crate::command::{Command, Flag, client_line};
use crate::state::Shared;

/// Who a client is.
pub struct Identity {
    /// Its user, as it was at the epoch.
    user: Arc<User>,
    /// Said a password, or came when none was needed.
    authenticated: bool,
    /// Of [`Access`], when it was last looked at.
    epoch: u64,
    /// May only authenticate.
    stranger: bool,
    /// Something has to be checked before each command.
    guarded: bool,
    /// Wrong passwords since it was last right.
    wrong: u32,
}

impl Identity {
    /// Who a client is that has just come.
    pub fn new(access: &Access) -> Identity {
        let epoch = access.epoch();
        let user = access.default_user();
        let authenticated = user.is_open();
        let guarded = !authenticated || !user.rights.is_everything();
        Identity { user, authenticated, epoch, stranger: !authenticated, guarded, wrong: 0 }
    }

    /// The user's name.
    pub fn name(&self) -> &Arc<str> {
        &self.user.name
    }

    /// The user, as it was last looked at: another one if it has changed since.
    pub fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// Whether users have changed since its commands were checked: its rights may be others.
    pub fn may_have_changed(&self, access: &Access) -> bool {
        self.epoch != access.epoch() && !mutation::on(Fault::RightKeptInWait)
    }

    /// Whether a request that was checked may still run, now that users have changed.
    pub(super) fn may_still(&self, shared: &Shared, command: &'static Command, frame: Frame<'_>) -> bool {
        let known = shared.access.user(self.user.name.as_bytes()).filter(|user| user.id == self.user.id);
        let user = known.filter(|user| self.authenticated || user.is_open());
        let number = shared.table.find_numbered(command.name.as_bytes()).map(|(number, _)| number);
        user.zip(number).is_some_and(|(user, number)| user.rights.check(number, command, frame).is_ok())
    }

    /// The user's number.
    pub fn id(&self) -> u64 {
        self.user.id
    }

    /// Whether its commands have to be checked. What is asked before each command, so no more than this.
    #[inline]
    pub fn is_guarded(&self, access: &Access) -> bool {
        self.guarded || self.epoch != access.epoch()
    }

    /// Whether it may read `key`.
    pub fn may_read(&self, key: &Key) -> bool {
        !self.stranger && self.user.rights.may_read(key.name())
    }

    /// Whether all that it may do is to authenticate.
    pub fn is_stranger(&self) -> bool {
        self.stranger
    }
}

impl Session {
    /// Looks at the users again if they have changed.
    pub fn look_again(&mut self) {
        let access = &self.shared.access;
        let epoch = access.epoch();
        if epoch == self.identity.epoch {
            return;
        }
        let identity = &mut self.identity;
        identity.epoch = epoch;
        let default = access.default_user();
        let found = access.user(identity.user.name.as_bytes()).filter(|user| user.id == identity.user.id);
        match found {
            Some(user) if identity.authenticated => identity.user = user,
            _ if !identity.authenticated => identity.user = default.clone(),
            _ => {
                // Its user is no more.
                identity.authenticated = false;
                (identity.stranger, identity.guarded, identity.epoch) = (true, true, u64::MAX);
                self.closing = true;
                return;
            }
        }
        identity.stranger = !identity.authenticated && !default.is_open();
        identity.guarded = identity.stranger || !identity.user.rights.is_everything();
        if !identity.stranger {
            self.shared.clients.known(&self.client);
        }
    }

    /// From now on the client is `user`, or with `None` whoever one is at first.
    pub fn identify(&mut self, user: Option<Arc<User>>) {
        let before = self.identity.id();
        self.identity = match user {
            Some(user) => Identity { user, authenticated: true, ..Identity::new(&self.shared.access) },
            // Wrong passwords stay counted, or RESET would make a guesser a newcomer.
            None => Identity { wrong: self.identity.wrong, ..Identity::new(&self.shared.access) },
        };
        // What was found may have changed since.
        self.identity.epoch = u64::MAX;
        self.look_again();
        // Hints are what a user has said of its own requests.
        if self.identity.id() != before {
            self.hints = Hints::default();
        }
        self.publish_user();
    }

    /// Tells others who the client is.
    pub fn publish_user(&self) {
        if !self.identity.stranger {
            self.shared.clients.known(&self.client);
        }
        self.client.user.store(self.identity.user.id, Ordering::SeqCst);
        self.client.names().user = self.identity.user.name.clone();
    }

    /// What stands against a request whose command has `number` in the table, if something does.
    pub fn denied(&self, number: usize, command: &'static Command, frame: Frame<'_>) -> Option<Denied> {
        match self.identity.stranger {
            true => (!command.is(Flag::NoAuth)).then_some(Denied::Command(command.name)),
            false => self.identity.user.rights.check(number, command, frame).err(),
        }
    }

    /// Whether a request may run; the error is for the client, and ends or dooms its MULTI as in Redis.
    pub(super) fn guard(&mut self, number: usize, command: &'static Command, frame: Frame<'_>) -> Result<(), Reply> {
        self.look_again();
        if !self.identity.guarded {
            return Ok(());
        }
        let Some(denied) = self.denied(number, command, frame) else { return Ok(()) };
        if !self.identity.stranger {
            let context = if self.multi.queue.is_some() { "multi" } else { "toplevel" };
            self.note_denied(&denied, context);
        }
        let text = self.refusal(&denied);
        if command.name == "exec" {
            self.multi = Multi::default();
            return Err(Reply::error(format!("EXECABORT Transaction discarded because of: {text}")));
        }
        Err(Reply::error(text))
    }

    /// Whether a request that was forgotten may run again: a right may be taken while it waits.
    pub fn guard_again(&mut self, command: &'static Command, frame: Frame<'_>) -> Result<(), Reply> {
        if !self.identity.is_guarded(&self.shared.access) || mutation::on(Fault::RightKeptInWait) {
            return Ok(());
        }
        let Some((number, _)) = self.shared.table.find_numbered(command.name.as_bytes()) else { return Ok(()) };
        self.guard(number, command, frame)
    }

    /// What the client is told of it.
    pub(super) fn refusal(&self, denied: &Denied) -> String {
        match self.identity.stranger {
            true => errors::NOAUTH.to_owned(),
            false => format!("NOPERM {}", reason(&self.identity.user, denied, false)),
        }
    }

    /// Whether a command that was queued may still run.
    pub fn guard_queued(&mut self, command: &'static Command, frame: Frame<'_>) -> Result<(), Reply> {
        if !self.identity.is_guarded(&self.shared.access) {
            return Ok(());
        }
        self.look_again();
        if self.identity.stranger && !mutation::on(Fault::RightKeptInWait) {
            // Its user is no more.
            return Err(Reply::error(errors::NOAUTH));
        }
        let Some((number, _)) = self.shared.table.find_numbered(command.name.as_bytes()) else { return Ok(()) };
        let Some(denied) = self.denied(number, command, frame) else { return Ok(()) };
        self.note_denied(&denied, "multi");
        let why = match denied {
            Denied::Command(_) => "no permission to execute the command or subcommand",
            Denied::Key(_) => "no permission to touch the specified keys",
        };
        Err(Reply::error(format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
             command is no longer allowed for the following reason: {why}"
        )))
    }

    /// Whether a script's client may do what the script asks for.
    #[cfg(feature = "lua")]
    pub(super) fn guard_in_script(
        &mut self,
        number: usize,
        command: &'static Command,
        frame: Frame<'_>,
    ) -> Result<(), Reply> {
        if !self.identity.is_guarded(&self.shared.access) {
            return Ok(());
        }
        self.look_again();
        if self.identity.stranger {
            return Err(Reply::error(errors::NOAUTH));
        }
        let Some(denied) = self.denied(number, command, frame) else { return Ok(()) };
        self.note_denied(&denied, "lua");
        let why = reason(&self.identity.user, &denied, false);
        Err(Reply::error(format!("ERR ACL failure in script: {why}")))
    }

    /// Whether what the open transaction has written may still be: a right may be taken while it is open.
    pub fn guard_written(&mut self) -> Result<(), Reply> {
        if !self.identity.is_guarded(&self.shared.access) {
            return Ok(());
        }
        self.look_again();
        if !self.identity.guarded {
            return Ok(());
        }
        let denied = match self.identity.stranger {
            true => Some(Denied::Command("txn")),
            false => self.open.denied_writes(&self.identity.user.rights),
        };
        let Some(denied) = denied else { return Ok(()) };
        if !self.identity.stranger {
            self.note_denied(&denied, "txn");
        }
        Err(Reply::error(self.refusal(&denied)))
    }

    fn note_denied(&self, denied: &Denied, context: &'static str) {
        let (reason, object) = match denied {
            Denied::Command(name) => ("command", name.as_bytes().to_vec()),
            Denied::Key(key) => ("key", key.clone()),
        };
        let user = self.identity.user.name.to_string();
        self.note(Denial { reason, context, object, user });
    }

    fn note(&self, denial: Denial) {
        let now_ms = self.shared.engine.runtime().now_ms();
        let client = client_line(&self.client, &self.shared, now_ms);
        self.shared.access.denials.add(denial, client.trim_end().to_owned(), now_ms);
    }

    /// AUTH, and HELLO with AUTH.
    pub async fn authenticate(&mut self, name: &[u8], password: &[u8]) -> Result<(), Reply> {
        let shared = self.shared.clone();
        let source = source_of(&self.client.address);
        self.client.checked.store(true, Ordering::SeqCst);
        let answer = shared.access.authenticate(shared.engine.runtime(), &source, name, password).await;
        self.client.checked.store(false, Ordering::SeqCst);
        match answer {
            Ok(user) => {
                self.identify(Some(user));
                match self.closing {
                    false => Ok(()),
                    true => Err(Reply::error(errors::WRONGPASS)),
                }
            }
            Err(Refused::Busy) => Err(Reply::error(format!("LIMIT password_waiting_max {PASSWORD_WAITING_MAX}"))),
            Err(Refused::Wrong) => {
                self.wrong_password(name).await;
                Err(Reply::error(errors::WRONGPASS))
            }
        }
    }

    /// Logs it, and has the client wait: the longer, the more often it was wrong.
    async fn wrong_password(&mut self, name: &[u8]) {
        self.identity.wrong += 1;
        let wrong = self.identity.wrong;
        // What is no user's name may be a password that was typed in the wrong place.
        let known = self.shared.access.user(name).map(|user| user.name.to_string());
        let user = known.unwrap_or_else(|| "(unknown)".into());
        tracing::warn!(client = self.client.id, address = self.client.address, user, wrong, "refused a password");
        self.note(Denial { reason: "auth", context: "toplevel", object: b"AUTH".to_vec(), user });
        if wrong >= WRONG_PASSWORDS_MAX {
            self.closing = true;
        }
        let wait = wrong_wait(wrong);
        let killed = std::pin::pin!(self.client.killed());
        let stopped = std::pin::pin!(self.shared.stopping.wait());
        let waited = self.shared.engine.runtime().sleep(wait);
        select(waited, select(killed, stopped)).await;
    }
}

/// In Redis' words; with `whole`, for an administrator, a key is named.
pub fn reason(user: &User, denied: &Denied, whole: bool) -> String {
    let name = &user.name;
    match denied {
        Denied::Command(command) => format!("User {name} has no permissions to run the '{command}' command"),
        Denied::Key(key) if whole => {
            format!("User {name} has no permissions to access the '{}' key", String::from_utf8_lossy(key))
        }
        Denied::Key(_) => "No permissions to access a key".into(),
    }
}
