//! What a client is to be.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use forebay::key::SPACES;
use forebay::lease::{Bounds, Leases};
use rustls::ClientConfig;

use crate::error::Error;
use crate::ground::Ground;
use crate::moment::Level;

/// A password, which no text shows.
#[derive(Clone)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}

/// The options of a [`Client`](crate::Client); [`Options::connect`] makes it.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) address: String,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) user: String,
    pub(crate) password: Option<Secret>,
    pub(crate) space: u8,
    pub(crate) connections_max: usize,
    pub(crate) cache_bytes: usize,
    pub(crate) policy: String,
    pub(crate) leases: Leases,
    pub(crate) popular: Option<f64>,
    pub(crate) level: Level,
    pub(crate) attempts_max: u32,
    pub(crate) reply_time_max: Duration,
    pub(crate) reply_bytes_max: usize,
    pub(crate) ground: Ground,
    /// What all its connections say who they are.
    pub(crate) id: Option<u128>,
    pub(crate) bounds: Bounds,
}

impl Options {
    /// Those of a client of the forebay at `address`, `host:port`.
    pub fn new(address: impl Into<String>) -> Options {
        Options {
            address: address.into(),
            tls: None,
            user: "default".into(),
            password: None,
            space: 0,
            connections_max: 16,
            cache_bytes: 64 << 20,
            policy: "s3-fifo".into(),
            leases: Leases::FOREBAY,
            popular: None,
            level: Level::Session,
            attempts_max: 64,
            reply_time_max: Duration::from_secs(10),
            reply_bytes_max: 256 << 20,
            ground: Ground::default(),
            id: None,
            bounds: Bounds::default(),
        }
    }

    /// Speaks TLS. The server's certificate has to name the host of the address, or its IP address.
    pub fn tls(mut self, config: Arc<ClientConfig>) -> Options {
        self.tls = Some(config);
        self
    }

    /// The user that it authenticates as, with [`Options::password`]; without this, `default`.
    pub fn user(mut self, name: impl Into<String>) -> Options {
        self.user = name.into();
        self
    }

    /// The user's password.
    pub fn password(mut self, password: impl Into<String>) -> Options {
        self.password = Some(Secret(password.into()));
        self
    }

    /// The key space, 0 to 15, as SELECT takes it; 0 without this.
    pub fn space(mut self, space: u8) -> Options {
        self.space = space;
        self
    }

    /// Connections at most; 16 without this. A transaction takes one for each message, not for its whole time.
    pub fn connections_max(mut self, most: usize) -> Options {
        self.connections_max = most;
        self
    }

    /// Bytes of copies at most; 64 MiB without this. With 0 it keeps none.
    pub fn cache_bytes(mut self, most: usize) -> Options {
        self.cache_bytes = most;
        self
    }

    /// The policy that decides which copies stay, by its name in `docs/policies.md`; `s3-fifo` without this.
    pub fn policy(mut self, name: impl Into<String>) -> Options {
        self.policy = name.into();
        self
    }

    /// How the lengths of leases are found; without this, what costs least.
    pub fn leases(mut self, leases: Leases) -> Options {
        self.leases = leases;
        self
    }

    /// Keeps copies only of the documents that are read most: this share of those that are read at all, from 0 to 1.
    /// Without this all are kept that are worth a lease.
    pub fn popular(mut self, share: f64) -> Options {
        self.popular = Some(share);
        self
    }

    /// Keeps a copy only where at least this share of the document's reads is expected to find a fresh one, from 0 to
    /// 1; 0 without this.
    pub fn fresh_min(mut self, share: f64) -> Options {
        self.bounds.fresh_min = share;
        self
    }

    /// Ends leases so early that at most this share of a document's reads is expected to find a stale copy, from 0 to
    /// 1; 1 without this. It is an estimate, and bounds aborts; how old a read may be, [`Options::level`] says.
    pub fn stale_max(mut self, share: f64) -> Options {
        self.bounds.stale_max = share;
        self
    }

    /// How new transactions' reads have to be; [`Level::Session`] without this.
    pub fn level(mut self, level: Level) -> Options {
        self.level = level;
        self
    }

    /// How often a transaction is run before it ends with [`Error::Contention`]; 64 without this.
    pub fn attempts_max(mut self, most: u32) -> Options {
        self.attempts_max = most;
        self
    }

    /// How long an answer, or a connection, may take; 10 s without this. After that the connection counts as lost.
    pub fn reply_time_max(mut self, most: Duration) -> Options {
        self.reply_time_max = most;
        self
    }

    /// Bytes of one answer at most; 256 MiB without this.
    pub fn reply_bytes_max(mut self, most: usize) -> Options {
        self.reply_bytes_max = most;
        self
    }

    /// Runs on a node of a simulated world, and speaks over its network.
    #[doc(hidden)]
    #[cfg(feature = "testing")]
    pub fn simulated(mut self, host: forebay::runtime::simulated::network::Host) -> Options {
        self.ground = Ground::Simulated(host);
        self
    }

    /// Whether they fit together.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |name, why: &str| Err(Error::Option { name, why: why.into() });
        if self.space >= SPACES {
            return wrong("space", &format!("{} is none of 0 to {}", self.space, SPACES - 1));
        }
        if self.connections_max == 0 {
            return wrong("connections_max", "without a connection nothing can be read; choose at least 1");
        }
        if self.attempts_max == 0 {
            return wrong("attempts_max", "a transaction runs at least once; choose at least 1");
        }
        if self.popular.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return wrong("popular", "it is a share; choose one from 0 to 1");
        }
        let Bounds { fresh_min, stale_max } = self.bounds;
        for (name, share) in [("fresh_min", fresh_min), ("stale_max", stale_max)] {
            if !(0.0..=1.0).contains(&share) {
                return wrong(name, "it is a share of the reads; choose one from 0 to 1");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown() {
        let shown = format!("{:?}", Options::new("localhost:6379").user("ann").password("a secret"));
        assert!(shown.contains("ann") && !shown.contains("a secret"), "{shown}");
    }
}
