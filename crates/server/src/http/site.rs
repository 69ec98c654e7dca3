//! What all requests for the page share, and who may see it.
//!
//! A visitor is the user of its session, or the user `default` where that needs no password. The visitor needs the
//! rights to run INFO and CACHE STATS: the page shows what these tell, and nothing of what is cached.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::COOKIE;

use super::history::History;
use super::places::Places;
use super::sessions::Sessions;
use crate::access::user::User;
use crate::state::Shared;

/// Pages that are kept up to date at a time. The other connections of `HTTP_CONNECTIONS_MAX` are never theirs, so that
/// health and Prometheus find a place.
pub const HTTP_STREAMS_MAX: usize = 16;

/// Logins that wait for the check of their password.
pub const HTTP_LOGINS_MAX: usize = 16;

/// Those of them that one source has ([`crate::access::password::source_of`]).
pub const HTTP_LOGINS_SOURCE_MAX: usize = 4;

/// A connection that has not sent the head of a request by then is closed; also one that idles between two.
pub const HTTP_HEADER_WAIT: Duration = Duration::from_secs(10);

/// What a visitor may run.
const RIGHTS: [&str; 2] = ["info", "cache|stats"];

/// The page's state.
pub(super) struct Site {
    pub shared: Arc<Shared>,
    /// Names by which browsers may ask, beside addresses and localhost.
    pub hosts: Box<[String]>,
    pub sessions: Sessions,
    pub history: History,
    pub streams: Places,
    pub logins: Places,
    /// The cookie's name. It has the port, since browsers send cookies to each port of a host.
    pub cookie: String,
}

/// Why someone sees no figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// There is no session, and the user `default` needs a password.
    LogIn,
    /// The user has not the rights.
    NoRight,
}

impl Site {
    pub(super) fn new(shared: Arc<Shared>, hosts: &[String], port: u16) -> Site {
        Site {
            shared,
            hosts: hosts.into(),
            sessions: Sessions::default(),
            history: History::new(),
            streams: Places::new(HTTP_STREAMS_MAX, HTTP_STREAMS_MAX),
            logins: Places::new(HTTP_LOGINS_MAX, HTTP_LOGINS_SOURCE_MAX),
            cookie: format!("forebay-{port}"),
        }
    }

    /// The token in a request's cookies.
    pub(super) fn token(&self, headers: &HeaderMap) -> Option<String> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.cookie).map(|(_, token)| token.to_owned())
    }

    /// Whether who has this token, or none, may see figures now; the user's name if the token is a session's.
    pub(super) fn admits(&self, token: Option<&str>) -> Result<Option<Arc<str>>, Closed> {
        let (access, now) = (&self.shared.access, self.shared.engine.runtime().elapsed());
        let known = token.and_then(|token| self.sessions.user(access, token, now));
        let name = known.as_ref().map(|user| user.name.clone());
        let user = known.or_else(|| Some(access.default_user()).filter(|user| user.is_open()));
        match user {
            None => Err(Closed::LogIn),
            Some(user) if may_see(&user) => Ok(name),
            Some(_) => Err(Closed::NoRight),
        }
    }
}

fn may_see(user: &User) -> bool {
    RIGHTS.iter().all(|right| user.rights.permits(right))
}

/// One connection, as its requests see it.
pub(super) struct Caller {
    pub address: SocketAddr,
    /// Wrong passwords that it has sent.
    pub wrong: AtomicU32,
    /// It is being answered, and must not make room for another.
    pub busy: Arc<AtomicBool>,
}

/// While this lives its connection makes room for no other.
pub(super) struct Busy(Arc<AtomicBool>);

impl Busy {
    pub(super) fn new(busy: &Arc<AtomicBool>) -> Busy {
        busy.store(true, Ordering::SeqCst);
        Busy(busy.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}
