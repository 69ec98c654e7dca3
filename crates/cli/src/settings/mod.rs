//! The settings, each declared once, in [`SETTINGS`]. A record gives the flag (`--name`), the name in the environment
//! (`FOREBAY_NAME`), the key in the configuration file, and the help text. [`names`] has the second names of a few.
//! `forebay config` and `docs/configuration.md` are made from the records, too. Defaults stand in
//! [`Settings::default`] alone.
//!
//! A setting goes two steps: [`Typed`] is what was typed, and where; [`Settings`] is what it means, all of it checked.

mod choices;
mod document;
mod error;
mod form;
mod form_of;
mod forms;
mod keys;
mod literal;
mod map;
mod names;
mod number;
mod setting;
mod shadows;
mod shares;
mod store;
mod table;
mod typed;
mod values;

use std::net::SocketAddr;

use forebay::cache::Sample;
use forebay_drivers::OutsideBy;
use forebay_server::shadow::ShadowOptions;

pub use choices::{Drain, LogFormat, LogLevel, OnOutage, StoreChoice, UnwatchedMs};
pub use error::SettingsError;
use form::Form;
pub use names::{is_like, misspelt};
use number::Bytes;
#[cfg(feature = "lab")]
pub use number::{PARTITIONS_MAX, THREADS_MAX};
pub use setting::GROUPS;
pub use table::SETTINGS;
pub use typed::{Origin, Typed, arguments};
pub use values::{MEMORY_BYTES_MIN, Settings};

use crate::secret;

impl Settings {
    /// Reads what was typed and checks it: each setting by itself, then together.
    pub fn validate(typed: &Typed) -> Result<Settings, SettingsError> {
        let mut settings = Settings::default();
        // Where it can't be read that is said below, in its turn.
        if let Some((setting, text, _)) = typed.given().find(|(setting, ..)| setting.name == "memory")
            && (setting.read)(&mut settings, text).is_ok()
        {
            settings.share_memory();
        }
        for (setting, text, origin) in typed.given() {
            (setting.read)(&mut settings, text).map_err(|why| SettingsError::Value {
                place: origin.place(setting),
                text: secret::hidden(text),
                why,
            })?;
        }
        settings.check(typed)?;
        Ok(settings)
    }

    /// How long what is cached of a table that nothing watches is believed; `None`: as long as it is cached.
    pub fn unwatched_after(&self) -> Option<std::time::Duration> {
        let watches = self.outside != OutsideBy::Off;
        let ms = match self.unwatched_ms {
            UnwatchedMs::After(ms) => ms,
            UnwatchedMs::Auto if watches => choices::UNWATCHED_MS,
            UnwatchedMs::Auto | UnwatchedMs::Off => return None,
        };
        Some(std::time::Duration::from_millis(ms))
    }

    /// What the server's shadows are made with; `None`: there are to be none.
    pub fn shadow_options(&self) -> Option<ShadowOptions> {
        (!self.shadows.policies.is_empty()).then(|| ShadowOptions {
            policies: self.shadows.policies.clone(),
            present: self.policy.clone(),
            memory: self.memory,
            bytes_max: usize::try_from(self.shadows.memory).unwrap_or(usize::MAX),
            sample: Sample::one_in(self.shadows.sample as u64),
        })
    }

    /// The addresses that others can reach, and their settings.
    pub fn public(&self) -> Vec<(&'static str, SocketAddr)> {
        let addresses = [("listen", self.listen), ("tls-listen", self.tls_listen), ("http", self.http)];
        let given = addresses.into_iter().filter_map(|(name, address)| Some((name, address?)));
        given.filter(|(_, address)| !address.ip().to_canonical().is_loopback()).collect()
    }

    fn check_tls(&self, wrong: &dyn Fn(&str, String) -> Result<(), SettingsError>) -> Result<(), SettingsError> {
        let files = [("tls-cert", &self.tls_cert), ("tls-key", &self.tls_key), ("tls-client-ca", &self.tls_client_ca)];
        match self.tls_listen {
            Some(_) if self.tls_cert.is_none() || self.tls_key.is_none() => {
                wrong("tls-listen", "that needs a certificate and its key; give --tls-cert and --tls-key".into())
            }
            Some(_) => Ok(()),
            None => match files.iter().find(|(_, file)| file.is_some()) {
                Some((name, _)) => wrong(name, "it is of no use without --tls-listen; give an address".into()),
                None => Ok(()),
            },
        }
    }

    fn check(&self, typed: &Typed) -> Result<(), SettingsError> {
        let wrong = |name: &str, why: String| {
            let (setting, text, origin) = typed.of(name);
            Err(SettingsError::Value { place: origin.place(setting), text: secret::hidden(&text), why })
        };
        if self.listen.is_none() && self.tls_listen.is_none() {
            return wrong("listen", "nothing is left to listen on; give an address, or --tls-listen".into());
        }
        if self.password_file.is_some() && self.users_file.is_some() {
            let why = "there is a users file too; its user `default` says which password that has: give one of the two";
            return wrong("password-file", why.into());
        }
        self.check_tls(&wrong)?;
        if let Some((name, address)) = self.public().first()
            && !self.allow_public_without_password
            && self.password_file.is_none()
            && self.users_file.is_none()
        {
            let local = format!("use 127.0.0.1:{}", address.port());
            let help = match *name {
                // A password is for Redis clients: with one the figures would be as open as without.
                "http" => format!("{local}, and before it a proxy that asks for a password"),
                _ => format!("run `forebay password > FILE` and add --password-file FILE, or {local}"),
            };
            return wrong(name, format!("others can reach this address, and it asks for no password; {help}"));
        }
        if self.memory < MEMORY_BYTES_MIN {
            return wrong("memory", format!("give at least {}", Bytes::show(&MEMORY_BYTES_MIN)));
        }
        if let Some(why) = self.too_many_partitions() {
            return wrong("partitions", why);
        }
        self.shadows.wrong(self.memory, &self.policy).map_or(Ok(()), |(name, why)| wrong(name, why))?;
        store::check(self, &wrong)?;
        if self.breaker.pause_ms > self.breaker.pause_ms_max {
            let most = self.breaker.pause_ms_max;
            return wrong("breaker-pause-ms", format!("that is above breaker-pause-ms-max, which is {most}"));
        }
        if self.txn.lock_wait_ms_min > self.txn.lock_wait_ms_max {
            let most = self.txn.lock_wait_ms_max;
            return wrong("lock-wait-ms-min", format!("that is above lock-wait-ms-max, which is {most}"));
        }
        if self.txn.txn_yield_ms >= self.txn.lock_wait_ms_min {
            let least = self.txn.lock_wait_ms_min;
            let why = "that is not below lock-wait-ms-min, which is";
            return wrong("txn-yield-ms", format!("{why} {least}; lower it, or raise --lock-wait-ms-min and -max"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use forebay::txn::TxnLimits;
    use forebay_server::ServerLimits;

    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_default_reads_back_as_itself() {
        let mut settings = Settings::default();
        for setting in SETTINGS {
            let text = setting.default_text();
            assert_eq!((setting.read)(&mut settings, &text), Ok(()), "{}", setting.name);
            assert_eq!(setting.show(&settings), text, "{}", setting.name);
        }
        assert_eq!(format!("{settings:?}"), format!("{:?}", Settings::default()));
    }

    #[test]
    fn names_are_unique_and_help_says_something() {
        let mut names = HashSet::from(["config", "seconds", "help", "version"]);
        for setting in SETTINGS {
            assert!(names.insert(setting.name), "{} stands twice", setting.name);
            assert!(setting.help().len() > 15, "{}", setting.name);
        }
    }

    #[test]
    fn every_number_has_a_range_and_its_error_says_it() {
        let numbers = SETTINGS.iter().filter(|setting| setting.value.starts_with('N') || setting.value == "SIZE");
        for setting in numbers.filter(|setting| !setting.value.starts_with("NAME")) {
            for wrong in ["18446744073709551615", "-1", "99999999999999999999999", "1e9", ""] {
                let why = (setting.read)(&mut Settings::default(), wrong).expect_err(setting.name);
                assert!(why.starts_with("give ") && why.contains(" to "), "{}: {why}", setting.name);
            }
        }
    }

    /// A limit that is added to the server or to transactions must be added here.
    #[test]
    fn every_limit_is_a_setting() {
        for word in format!("{:?} {:?}", ServerLimits::default(), TxnLimits::default()).split([' ', '{', '}', ',']) {
            // `authenticated` is what a connection is, not what an operator sets.
            let Some(field) = word.strip_suffix(':').filter(|field| !["request", "authenticated"].contains(field))
            else {
                continue;
            };
            let name = field.replace('_', "-");
            assert!(SETTINGS.iter().any(|setting| setting.name == name), "no setting for the limit {field}");
        }
    }
}
