//! How a client caches.

use clap::ValueEnum;
use forebay::lease::Leases;

/// How the clients of one measurement cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Configuration {
    /// A plain client without a cache: MGET; WATCH, MGET, MULTI and EXEC.
    Stock,
    /// The library with a cache for the time of one transaction.
    Intra,
    /// The library; copies stay until they are found stale.
    Naive,
    /// A plain client with CLIENT TRACKING. What only reads is not checked: it is not serializable.
    Tracking,
    /// The library, with leases by KAIROS' rule.
    Paper,
    /// The library as it is by default.
    Forebay,
}

impl Configuration {
    /// Its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// The rule of leases, if the library is used; none in it: the default.
    pub fn library(self) -> Option<Option<Leases>> {
        match self {
            Configuration::Stock | Configuration::Tracking => None,
            Configuration::Intra => Some(Some(Leases::None)),
            Configuration::Naive => Some(Some(Leases::Endless)),
            Configuration::Paper => Some(Some(Leases::Paper)),
            Configuration::Forebay => Some(None),
        }
    }
}
