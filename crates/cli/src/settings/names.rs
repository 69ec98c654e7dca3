//! By which names settings are known: everywhere the same ones, and what is said of a name that none has.

use super::setting::Setting;
use super::table::SETTINGS;

/// The file's name in the environment.
pub(super) const CONFIG_ENVIRONMENT: &str = "FOREBAY_CONFIG";

/// How all variables begin.
const PREFIX: &str = "FOREBAY_";

/// Second names of settings. A flag, a variable and a key of the file may each be written with either.
const ALIASES: [(&str, &str); 2] = [("stale-on-outage-ms-max", "stale-on-outage"), ("write-back-ms", "write-back")];

/// Variables, without their beginning, that tests and scripts read. A server may inherit them, and ignores them.
const OF_TESTS: [&str; 23] = [
    "CASES",
    "CLIENTS_PORT",
    "CLIENTS_PROTOCOL",
    "CLIENTS_REQUIRED",
    "CLIENTS_SERVER",
    "CLIENT_PROCESS",
    "FUZZ_MS",
    "HOSTILE_SECONDS",
    "MODULES",
    "NIGHTLY",
    "NODE_REDIS_SOURCES",
    "REFERENCE",
    "SCHEDULES",
    "SEED",
    "SEEDS",
    "SERVERS",
    "SOAK_SECONDS",
    "SUITE_PASSWORD_PORT",
    "SUITE_PORT",
    "SUITE_REDIS_VERSION",
    "SUITE_REPORT",
    "TRACES",
    "UPDATE_DOCS",
];

impl Setting {
    /// Its second name, if it has one.
    pub fn alias(&self) -> Option<&'static str> {
        ALIASES.iter().find(|(name, _)| *name == self.name).map(|(_, alias)| *alias)
    }

    /// All its names in the environment.
    pub fn variables(&self) -> impl Iterator<Item = String> {
        self.names().map(variable)
    }

    /// All its names as flag and in the file.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        [Some(self.name), self.alias()].into_iter().flatten()
    }
}

fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.replace('-', "_").to_ascii_uppercase())
}

/// Where in [`SETTINGS`] the setting of this name stands.
pub(super) fn index_of(key: &str) -> Option<usize> {
    SETTINGS.iter().position(|setting| setting.names().any(|name| name == key))
}

/// What to say of an unknown key.
pub(super) fn nearest(key: &str) -> String {
    match near(key) {
        Some(near) => format!("did you mean '{near}'?"),
        None => "`forebay config` lists the keys there are".into(),
    }
}

/// The name that may have been meant, if there is one.
fn near(key: &str) -> Option<&'static str> {
    let written = key.replace('_', "-").to_lowercase();
    let nearest =
        SETTINGS.iter().flat_map(Setting::names).min_by_key(|name| strsim::damerau_levenshtein(name, &written));
    nearest.filter(|name| is_like(name, &written))
}

/// Whether `name` may have been meant by what was written. Further off than a third of the word it is another word.
pub fn is_like(name: &str, written: &str) -> bool {
    strsim::damerau_levenshtein(name, written) * 3 <= written.len().max(3)
}

/// What to say of variables that begin like those of settings and have no effect.
pub fn misspelt() -> impl Iterator<Item = String> {
    std::env::vars_os().filter_map(|(name, value)| advice(name.to_str()?, &value.to_string_lossy()))
}

fn advice(name: &str, value: &str) -> Option<String> {
    let key = name.strip_prefix(PREFIX)?;
    let is_setting = || SETTINGS.iter().flat_map(Setting::variables).any(|known| known == name);
    if name == CONFIG_ENVIRONMENT || OF_TESTS.contains(&key) || is_of_cluster(key, value) || is_setting() {
        return None;
    }
    let advice = match near(key) {
        Some(near) => format!("did you mean {}?", variable(near)),
        None => "`forebay config` lists the settings there are".into(),
    };
    Some(format!("{name} is no setting and has no effect; {advice}"))
}

/// Whether a cluster has made the variable: it gives its programs some that are named after services, one of which may
/// be called forebay.
fn is_of_cluster(key: &str, value: &str) -> bool {
    let words = format!("_{key}");
    let of_port = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    let named = words.ends_with("_SERVICE_HOST") || words.contains("_SERVICE_PORT");
    let digit = |rest: &str| rest.starts_with(|first: char| first.is_ascii_digit());
    let part = words.split_once("_PORT_").is_some_and(|(_, rest)| digit(rest));
    named || of_port || part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_no_setting_has_is_told() {
        let said = |name| advice(name, "1");
        let with = |name: &str, rest: &str| Some(format!("{name} is no setting and has no effect; {rest}"));
        assert_eq!(said("FOREBAY_MEMROY"), with("FOREBAY_MEMROY", "did you mean FOREBAY_MEMORY?"));
        let meant = "did you mean FOREBAY_STALE_ON_OUTAGE?";
        assert_eq!(said("FOREBAY_STALE_ON_OUTAG"), with("FOREBAY_STALE_ON_OUTAG", meant));
        let listed = "`forebay config` lists the settings there are";
        for name in ["FOREBAY_FOO", "FOREBAY_REPLICATION_FACTOR", "FOREBAY_"] {
            assert_eq!(said(name), with(name, listed));
        }
        for name in ["FOREBAY_MEMORY", "FOREBAY_WRITE_BACK", "FOREBAY_CONFIG", "FOREBAY_SEED", "MEMROY"] {
            assert_eq!(said(name), None, "{name}");
        }
    }

    #[test]
    fn what_a_cluster_sets_is_not_told() {
        let address = "10.0.0.1";
        let url = "tcp://10.0.0.1:6379";
        for (name, value) in [
            ("FOREBAY_SERVICE_HOST", address),
            ("FOREBAY_SERVICE_PORT", "6379"),
            ("FOREBAY_SERVICE_PORT_REDIS", "6379"),
            ("FOREBAY_HTTP_SERVICE_HOST", address),
            ("FOREBAY_PORT", url),
            ("FOREBAY_PORT_6379_TCP", url),
            ("FOREBAY_PORT_6379_TCP_ADDR", address),
            ("FOREBAY_PORT_6379_TCP_PORT", "6379"),
            ("FOREBAY_PORT_6379_TCP_PROTO", "tcp"),
        ] {
            assert_eq!(advice(name, value), None, "{name}");
        }
        assert!(advice("FOREBAY_PORT", "6380").is_some(), "a port that a user sets");
    }

    #[test]
    fn aliases_are_names_of_settings() {
        for (name, alias) in ALIASES {
            assert!(SETTINGS.iter().any(|setting| setting.name == name), "{name}");
            assert!(SETTINGS.iter().all(|setting| setting.name != alias), "{alias}");
        }
    }

    /// A variable that one more test or script reads is added to [`OF_TESTS`].
    #[test]
    fn variables_of_tests_are_listed() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let mut folders: Vec<_> =
            ["crates", "tests", "scripts", "fuzz", "bench"].map(|name| format!("{root}/{name}").into()).into();
        let mut files = vec![std::path::PathBuf::from(format!("{root}/Makefile"))];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir::<std::path::PathBuf>(folder).expect("a folder").flatten() {
                let kind = entry.file_type().expect("its kind");
                match kind.is_dir() {
                    true if entry.file_name() == "node_modules" || entry.file_name() == "target" => {}
                    true => folders.push(entry.path()),
                    false => files.push(entry.path()),
                }
            }
        }
        // Where the names stand that no program reads.
        let examples = ["names.rs", "typed.rs"];
        let mut seen = std::collections::HashSet::new();
        for file in files.iter().filter(|file| !examples.iter().any(|name| file.ends_with(name))) {
            let Ok(text) = std::fs::read_to_string(file) else { continue };
            for rest in text.split(PREFIX).skip(1) {
                let end = rest.find(|letter: char| !letter.is_ascii_uppercase() && letter != '_').unwrap_or(rest.len());
                let key = rest[..end].trim_end_matches('_');
                // `FOREBAY_` alone is the beginning of any, `FOREBAY_NAME` stands for one.
                if matches!(key, "" | "NAME") {
                    continue;
                }
                seen.insert(key.to_owned());
                assert_eq!(advice(&format!("{PREFIX}{key}"), ""), None, "{}", file.display());
            }
        }
        let gone: Vec<_> = OF_TESTS.iter().filter(|key| !seen.contains(**key)).collect();
        assert!(gone.is_empty(), "no test reads {gone:?}");
    }
}
