//! The forms of settings: addresses, files, words and the like. Numbers have a file to themselves.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use forebay::policy::{Choice, POLICIES, choose};

use forebay::outage::OnConflict;
use forebay::txn::OnWrite;
use forebay_drivers::{DRIVERS, OutsideBy, driver_of};

use super::choices::{Drain, Durability, LogFormat, LogLevel, OnOutage, StoreChoice, Threads, UnwatchedMs};
use super::form::Form;
use super::number::{MsOrZero, THREADS_MAX};
use crate::secret;

/// The word for a part that is not used.
const OFF: &str = "off";

/// Names of hosts, such as a proxy's: `forebay.example`.
pub struct Hosts;

impl Form<Vec<String>> for Hosts {
    const VALUE: &'static str = "NAME";

    fn choices() -> String {
        "forebay.example, several between commas or with a flag each; or off".into()
    }

    fn read(text: &str) -> Result<Vec<String>, String> {
        if text == OFF {
            return Ok(Vec::new());
        }
        let names = text.split([',', ';']).map(str::trim);
        let fits = |name: &str| {
            let letter = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'.' | b'_');
            !name.is_empty() && name.len() <= 253 && name.bytes().all(letter)
        };
        let wrong = "give names of hosts without scheme and port, such as forebay.example".to_owned();
        names.map(|name| if fits(name) { Ok(name.to_owned()) } else { Err(wrong.clone()) }).collect()
    }

    fn show(value: &Vec<String>) -> String {
        if value.is_empty() { OFF.into() } else { value.join(", ") }
    }
}

/// `127.0.0.1:6379`, `[::1]:6379`, `localhost:6379`.
pub struct Address;

impl Form<SocketAddr> for Address {
    const VALUE: &'static str = "ADDRESS";

    fn read(text: &str) -> Result<SocketAddr, String> {
        if let Ok(address) = text.parse() {
            return Ok(address);
        }
        let mut found = match text.to_socket_addrs() {
            Ok(found) => found.collect::<Vec<_>>(),
            Err(_) => return Err("give an address and a port, such as 127.0.0.1:6379".into()),
        };
        // A name that stands for both: the family that every client tries.
        found.sort_by_key(SocketAddr::is_ipv6);
        found.into_iter().next().ok_or_else(|| "this name has no address".into())
    }

    fn show(value: &SocketAddr) -> String {
        value.to_string()
    }
}

/// An address, or `off`.
pub struct AddressOrOff;

impl Form<Option<SocketAddr>> for AddressOrOff {
    const VALUE: &'static str = "ADDRESS|off";

    fn read(text: &str) -> Result<Option<SocketAddr>, String> {
        match text {
            OFF => Ok(None),
            text => Address::read(text).map(Some).map_err(|why| format!("{why}, or off")),
        }
    }

    fn show(value: &Option<SocketAddr>) -> String {
        value.map_or_else(|| OFF.into(), |address| address.to_string())
    }
}

/// A file, or `off`.
pub struct FileOrOff;

impl Form<Option<PathBuf>> for FileOrOff {
    const VALUE: &'static str = "FILE|off";

    fn read(text: &str) -> Result<Option<PathBuf>, String> {
        match text {
            "" => Err("give a file, or off".into()),
            text => FolderOrOff::read(text),
        }
    }

    fn show(value: &Option<PathBuf>) -> String {
        FolderOrOff::show(value)
    }
}

/// A file or a folder with several, or `off`.
pub struct FilesOrOff;

impl Form<Option<PathBuf>> for FilesOrOff {
    const VALUE: &'static str = "FILE|FOLDER|off";

    fn read(text: &str) -> Result<Option<PathBuf>, String> {
        match text {
            "" => Err("give a file or a folder, or off".into()),
            text => FolderOrOff::read(text),
        }
    }

    fn show(value: &Option<PathBuf>) -> String {
        FolderOrOff::show(value)
    }
}

/// A folder.
pub struct Folder;

impl Form<PathBuf> for Folder {
    const VALUE: &'static str = "FOLDER";

    fn read(text: &str) -> Result<PathBuf, String> {
        match text {
            "" => Err("give a folder".into()),
            OFF => Err("give a folder, ./off if it has that name; --on-outage refuse keeps nothing".into()),
            text => Ok(text.into()),
        }
    }

    fn show(value: &PathBuf) -> String {
        value.display().to_string()
    }
}

/// A folder, or `off`.
pub struct FolderOrOff;

impl Form<Option<PathBuf>> for FolderOrOff {
    const VALUE: &'static str = "FOLDER|off";

    fn read(text: &str) -> Result<Option<PathBuf>, String> {
        match text {
            "" => Err("give a folder, or off".into()),
            OFF => Ok(None),
            text => Ok(Some(text.into())),
        }
    }

    fn show(value: &Option<PathBuf>) -> String {
        value.as_ref().map_or_else(|| OFF.into(), |folder| folder.display().to_string())
    }
}

/// `true` or `false`; as a flag its name alone is `true`.
pub struct Switch;

impl Form<bool> for Switch {
    const VALUE: &'static str = "true|false";

    fn read(text: &str) -> Result<bool, String> {
        text.parse().map_err(|_| "give true or false".into())
    }

    fn show(value: &bool) -> String {
        value.to_string()
    }
}

/// For how long what is cached is believed, in ms: a whole number, or `on` for as long as by default, `off` for not at
/// all.
pub struct StaleMs;

/// What `on` stands for.
pub const STALE_MS: u64 = 3_600_000;

impl Form<u64> for StaleMs {
    const VALUE: &'static str = "N|on|off";

    fn read(text: &str) -> Result<u64, String> {
        match text {
            "on" => Ok(STALE_MS),
            OFF => Ok(0),
            text => MsOrZero::read(text).map_err(|why| format!("{why}, on or off")),
        }
    }

    fn show(value: &u64) -> String {
        value.to_string()
    }
}

/// How long what nothing watches is believed, in ms; `auto`, or `off`.
pub struct UnwatchedWord;

/// Longer than a day is a slip of the finger, and shorter asks more than it saves.
const UNWATCHED_MS: std::ops::RangeInclusive<u64> = 10..=86_400_000;

impl Form<UnwatchedMs> for UnwatchedWord {
    const VALUE: &'static str = "N|auto|off";

    fn read(text: &str) -> Result<UnwatchedMs, String> {
        match (text, text.parse()) {
            ("auto", _) => Ok(UnwatchedMs::Auto),
            (OFF, _) => Ok(UnwatchedMs::Off),
            (_, Ok(ms)) if UNWATCHED_MS.contains(&ms) => Ok(UnwatchedMs::After(ms)),
            _ => Err(format!("give {} to {} ms, auto or off", UNWATCHED_MS.start(), UNWATCHED_MS.end())),
        }
    }

    fn show(value: &UnwatchedMs) -> String {
        match value {
            UnwatchedMs::Auto => "auto".into(),
            UnwatchedMs::Off => OFF.into(),
            UnwatchedMs::After(ms) => ms.to_string(),
        }
    }
}

/// `cores`, or a number of threads.
pub struct ThreadCount;

impl Form<Threads> for ThreadCount {
    const VALUE: &'static str = "N|cores";

    fn read(text: &str) -> Result<Threads, String> {
        match (text, text.parse()) {
            ("cores", _) => Ok(Threads::Cores),
            (_, Ok(count)) if (1..=THREADS_MAX).contains(&count) => Ok(Threads::Count(count)),
            _ => Err(format!("give a number from 1 to {THREADS_MAX}, or cores")),
        }
    }

    fn show(value: &Threads) -> String {
        match value {
            Threads::Cores => "cores".into(),
            Threads::Count(count) => count.to_string(),
        }
    }
}

/// How each driver's database is named.
fn forms() -> Vec<&'static str> {
    DRIVERS.iter().map(|driver| driver.form).collect()
}

/// `a, b, or c`, of one at least.
fn either(forms: &[&str]) -> String {
    match forms.split_last() {
        Some((last, [])) => format!("or {last}"),
        Some((last, others)) => format!("{}, or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// `embedded:PATH`, `memory`, or the address of a database.
pub struct Store;

impl Form<StoreChoice> for Store {
    const VALUE: &'static str = "STORE";

    fn choices() -> String {
        match forms().as_slice() {
            [] => "embedded:PATH or memory".into(),
            forms => format!("embedded:PATH, memory, {}", either(forms)),
        }
    }

    fn read(text: &str) -> Result<StoreChoice, String> {
        match text.split_once(':') {
            Some(("embedded", path)) if !path.is_empty() => Ok(StoreChoice::Embedded(path.into())),
            None if text == "memory" => Ok(StoreChoice::Memory),
            _ if driver_of(text).is_some() => {
                let address = text.parse().map_err(|why| secret::why_refused(text, why))?;
                Ok(StoreChoice::Database(Box::new(address)))
            }
            _ => Err(format!(
                "give embedded:PATH (a file, made if it is not there){} or memory (gone at the end)",
                forms().iter().map(|form| format!(", {form}")).collect::<String>()
            )),
        }
    }

    fn show(value: &StoreChoice) -> String {
        match value {
            StoreChoice::Embedded(path) => format!("embedded:{}", path.display()),
            StoreChoice::Memory => "memory".into(),
            StoreChoice::Database(address) => address.text().into(),
        }
    }
}

/// A policy and its parameters.
pub struct PolicyName;

impl Form<Choice> for PolicyName {
    const VALUE: &'static str = "NAME[:PARAMETER=VALUE,..]";

    fn choices() -> String {
        POLICIES.iter().map(|policy| policy.name).collect::<Vec<_>>().join(", ")
    }

    fn read(text: &str) -> Result<Choice, String> {
        choose(text).map_err(|error| error.to_string())
    }

    fn show(value: &Choice) -> String {
        value.to_string()
    }
}

/// Several policies, or `off`.
pub struct PolicyNames;

impl Form<Vec<Choice>> for PolicyNames {
    const VALUE: &'static str = "NAMES|off";

    fn choices() -> String {
        "lru,s3-fifo:small=0.2,detox, as --policy has them, between commas or with a flag each; or off".into()
    }

    fn read(text: &str) -> Result<Vec<Choice>, String> {
        if text == OFF {
            return Ok(Vec::new());
        }
        let mut names: Vec<String> = Vec::new();
        for part in text.split([',', ';']).map(str::trim) {
            match names.last_mut() {
                // A further parameter of the policy before.
                Some(last) if part.contains('=') && !part.contains(':') => {
                    last.push(',');
                    last.push_str(part);
                }
                _ => names.push(part.to_owned()),
            }
        }
        let mut choices: Vec<Choice> = Vec::new();
        for choice in names.iter().map(|name| PolicyName::read(name)) {
            let choice = choice?;
            if choices.iter().all(|known| known.to_string() != choice.to_string()) {
                choices.push(choice);
            }
        }
        Ok(choices)
    }

    fn show(value: &Vec<Choice>) -> String {
        match value.is_empty() {
            true => OFF.into(),
            false => value.iter().map(Choice::to_string).collect::<Vec<_>>().join(","),
        }
    }
}

/// One word of a few.
macro_rules! words {
    ($form:ident, $type:ident, $value:literal, $($word:literal => $variant:ident),+) => {
        #[doc = concat!("One of ", $value, ".")]
        pub struct $form;

        impl Form<$type> for $form {
            const VALUE: &'static str = $value;

            fn read(text: &str) -> Result<$type, String> {
                match text {
                    $($word => Ok($type::$variant),)+
                    _ => Err(format!("give one of {}", [$($word),+].join(", "))),
                }
            }

            fn show(value: &$type) -> String {
                match value {
                    $($type::$variant => $word.into(),)+
                }
            }
        }
    };
}

words!(OnOutageWord, OnOutage, "buffer|refuse",
    "buffer" => Buffer, "refuse" => Refuse);

words!(OutsideWord, OutsideBy, "triggers|decoding|auto|off",
    "triggers" => Triggers, "decoding" => Decoding, "auto" => Auto, "off" => Off);

words!(DrainWord, Drain, "lanes|serial",
    "lanes" => Lanes, "serial" => Serial);

words!(OnConflictWord, OnConflict, "quarantine|apply",
    "quarantine" => Quarantine, "apply" => Apply);
words!(OnWriteWord, OnWrite, "update|invalidate",
    "update" => Update, "invalidate" => Invalidate);

words!(DurabilityWord, Durability, "always|interval|never",
    "always" => Always, "interval" => Interval, "never" => Never);
words!(LogFormatWord, LogFormat, "text|json", "text" => Text, "json" => Json);
words!(LogLevelWord, LogLevel, "error|warn|info|debug|trace",
    "error" => Error, "warn" => Warn, "info" => Info, "debug" => Debug, "trace" => Trace);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert!(Address::read("6379").is_err());
        assert!(Address::read("127.0.0.1").is_err());
        assert!(Address::read("127.0.0.1:70000").is_err());
        assert_eq!(Address::read("[::1]:1").map(|address| address.to_string()).as_deref(), Ok("[::1]:1"));
        assert_eq!(AddressOrOff::read("off"), Ok(None));
    }

    #[test]
    fn threads() {
        assert_eq!(ThreadCount::read("cores"), Ok(Threads::Cores));
        assert!(ThreadCount::read("0").is_err());
        assert!(ThreadCount::read("1025").is_err());
    }
}
