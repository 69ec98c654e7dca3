//! What was typed, and where: flags over environment over file over defaults.

use std::env::VarError;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches};
use forebay::runtime::files::{self, NAMED_FILE_BYTES_MAX};
use toml::de::{DeTable, DeValue};

use super::error::SettingsError;
use super::names::{CONFIG_ENVIRONMENT, index_of, nearest};
use super::setting::{GROUPS, Group, Setting};
use super::table::SETTINGS;
use super::values::Settings;

/// The flag that names the configuration file.
const CONFIG: &str = "config";

/// Where a value was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// On the command line.
    Flag,
    /// In the environment, in this variable.
    Environment(String),
    /// In the configuration file, on this line, from 1.
    File(PathBuf, usize),
    /// Nowhere.
    Default,
}

impl Origin {
    /// The place in words, for error texts and `forebay config`.
    pub fn place(&self, setting: &Setting) -> String {
        match self {
            Origin::Flag | Origin::Default => format!("--{}", setting.name),
            Origin::Environment(variable) => variable.clone(),
            Origin::File(file, line) => format!("{} line {line}: {}", file.display(), setting.name),
        }
    }
}

/// For each setting the text that counts and where it was typed, in the order of [`SETTINGS`].
#[derive(Debug)]
pub struct Typed {
    values: Vec<Option<(String, Origin)>>,
}

/// The arguments for `--config` and for all settings but `except`.
pub fn arguments(except: &[&str]) -> Vec<Arg> {
    let config = Arg::new(CONFIG)
        .long(CONFIG)
        .value_name("FILE.toml")
        .help(format!("Read settings from this file; flags and FOREBAY_* variables win [{CONFIG_ENVIRONMENT}]"));
    let mut arguments = vec![config];
    for group in GROUPS {
        for setting in SETTINGS.iter().filter(|setting| setting.group == group && !except.contains(&setting.name)) {
            arguments.push(argument(setting));
        }
    }
    arguments
}

fn argument(setting: &'static Setting) -> Arg {
    let argument = Arg::new(setting.name)
        .long(setting.name)
        .visible_aliases(setting.alias())
        .value_name(setting.value)
        .help(format!("{} [default: {}]", setting.help(), setting.default_text()))
        .help_heading(setting.group.heading())
        .action(ArgAction::Set)
        .hide_short_help(setting.group == Group::Limits);
    // Only these make sense several times; of all others clap says that they don't.
    let argument = if matches!(setting.name, "map" | "keys" | "http-host" | "shadow") {
        argument.action(ArgAction::Append)
    } else {
        argument
    };
    match setting.is_switch() {
        true => argument.num_args(0..=1).default_missing_value("true"),
        false => argument,
    }
}

impl Typed {
    /// Gathers what was typed. `environment` is `std::env::var`, or a test's.
    pub fn gather(
        matches: &ArgMatches,
        environment: &dyn Fn(&str) -> Result<String, VarError>,
    ) -> Result<Typed, SettingsError> {
        let mut typed = Typed { values: vec![None; SETTINGS.len()] };
        let file = match matches.get_one::<String>(CONFIG) {
            Some(file) => Some(file.clone()),
            None => variable(environment, CONFIG_ENVIRONMENT)?,
        };
        if let Some(file) = file.map(PathBuf::from) {
            let text = files::read_text(&file, NAMED_FILE_BYTES_MAX);
            let text = text.map_err(|error| SettingsError::Read { file: file.clone(), error })?;
            typed.read_file(&file, &text)?;
        }
        for (index, setting) in SETTINGS.iter().enumerate() {
            typed.read_variables(index, environment)?;
            // A command leaves out what it has no use for, `demo` its store.
            if let Ok(Some(texts)) = matches.try_get_many::<String>(setting.name) {
                let texts: Vec<String> = texts.cloned().collect();
                typed.values[index] = Some((texts.join("; "), Origin::Flag));
            }
        }
        Ok(typed)
    }

    /// What was typed: setting, text, place.
    pub fn given(&self) -> impl Iterator<Item = (&'static Setting, &str, &Origin)> {
        SETTINGS
            .iter()
            .zip(&self.values)
            .filter_map(|(setting, value)| value.as_ref().map(|(text, origin)| (setting, text.as_str(), origin)))
    }

    /// The setting `name`, its text and where that was typed.
    pub fn of(&self, name: &str) -> (&'static Setting, String, Origin) {
        let index = SETTINGS.iter().position(|setting| setting.name == name).expect("a name of the table");
        let setting = &SETTINGS[index];
        match &self.values[index] {
            Some((text, origin)) => (setting, text.clone(), origin.clone()),
            None => (setting, setting.default_text(), Origin::Default),
        }
    }

    /// Forgets what was typed for `name`: it has its default.
    pub fn forget(&mut self, name: &str) {
        for (setting, value) in SETTINGS.iter().zip(&mut self.values) {
            if setting.name == name {
                *value = None;
            }
        }
    }

    fn read_variables(
        &mut self,
        index: usize,
        environment: &dyn Fn(&str) -> Result<String, VarError>,
    ) -> Result<(), SettingsError> {
        let mut first = None;
        for name in SETTINGS[index].variables() {
            let Some(text) = variable(environment, &name)? else { continue };
            if let Some(first) = first {
                return Err(SettingsError::Twice { place: name, first });
            }
            self.values[index] = Some((text, Origin::Environment(name.clone())));
            first = Some(name);
        }
        Ok(())
    }

    fn read_file(&mut self, file: &Path, text: &str) -> Result<(), SettingsError> {
        let line_of = |offset: usize| 1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
        let table = DeTable::parse(text).map_err(|error| SettingsError::Syntax {
            file: file.into(),
            line: line_of(error.span().map_or(0, |span| span.start)),
            why: error.message().replace('\n', ", "),
        })?;
        // In the order of the file, so that the first mistake is the one reported.
        let mut entries = table.get_ref().iter().collect::<Vec<_>>();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let line = line_of(key.span().start);
            let key: &str = key.get_ref();
            let Some(index) = index_of(key) else {
                let (file, key, advice) = (file.into(), key.into(), nearest(key));
                return Err(SettingsError::UnknownKey { file, line, key, advice });
            };
            let setting = &SETTINGS[index];
            if let Some((_, Origin::File(_, before))) = &self.values[index] {
                let place = format!("{} line {line}: {key}", file.display());
                return Err(SettingsError::Twice { place, first: format!("line {before}") });
            }
            if let Some(listed) = listed(setting, value) {
                let wrong = |(at, why)| SettingsError::Map { file: file.into(), line: line_of(at), why };
                self.values[index] = Some((listed.map_err(wrong)?, Origin::File(file.into(), line)));
                continue;
            }
            let text = plain(value.get_ref()).map_err(|kind| SettingsError::Kind {
                file: file.into(),
                line,
                key: setting.name,
                kind,
                example: example(setting, value.get_ref()),
            })?;
            self.values[index] = Some((text, Origin::File(file.into(), line)));
        }
        Ok(())
    }
}

fn variable(
    environment: &dyn Fn(&str) -> Result<String, VarError>,
    name: &str,
) -> Result<Option<String>, SettingsError> {
    match environment(name) {
        Ok(text) => Ok(Some(text)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(SettingsError::NotText(name.into())),
    }
}

/// A list as one would type it, for the setting that may be one; else what is wrong with it, and where.
fn listed(setting: &Setting, value: &toml::Spanned<DeValue<'_>>) -> Option<Result<String, (usize, String)>> {
    if setting.name == "map" {
        return super::map::of_value(value);
    }
    if setting.name == "keys" {
        return super::keys::of_value(value);
    }
    let _ = (setting, value);
    None
}

/// What the file may say in place of `value`: a whole number in place of a broken one, else the default.
fn example(setting: &Setting, value: &DeValue<'_>) -> String {
    let whole = match value {
        DeValue::Float(number) => number.as_str().split_once('.').map(|(whole, _)| whole.to_owned()),
        _ => None,
    };
    let whole = whole.filter(|whole| (setting.read)(&mut Settings::default(), whole).is_ok());
    setting.literal(&whole.unwrap_or_else(|| setting.default_text()))
}

/// The value as one would type it, or the name of its kind.
fn plain(value: &DeValue<'_>) -> Result<String, &'static str> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => match number.radix() {
            10 => Ok(number.as_str().replace('_', "")),
            _ => Err("number that is not decimal"),
        },
        DeValue::Boolean(value) => Ok(value.to_string()),
        DeValue::Float(_) => Err("float"),
        DeValue::Datetime(_) => Err("date"),
        DeValue::Array(_) => Err("list"),
        DeValue::Table(_) => Err("table"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::choices::{LogFormat, Threads};
    use clap::Command;

    fn gather(flags: &[&str], environment: &[(&str, &str)], file: Option<&str>) -> Result<Typed, SettingsError> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("forebay.toml");
        let mut line = vec!["forebay".to_string()];
        line.extend(flags.iter().map(|flag| flag.to_string()));
        if let Some(text) = file {
            std::fs::write(&path, text).expect("writable");
            line.extend(["--config".to_string(), path.display().to_string()]);
        }
        let matches = Command::new("forebay").args(arguments(&[])).try_get_matches_from(line).expect("flags");
        Typed::gather(&matches, &|name| {
            let found = environment.iter().find(|(known, _)| *known == name);
            found.map(|(_, text)| text.to_string()).ok_or(VarError::NotPresent)
        })
    }

    fn settings(flags: &[&str], environment: &[(&str, &str)], file: Option<&str>) -> Result<Settings, String> {
        let typed = gather(flags, environment, file).map_err(|error| error.to_string())?;
        Settings::validate(&typed).map_err(|error| error.to_string())
    }

    /// The error text without the temporary folder.
    fn error(flags: &[&str], environment: &[(&str, &str)], file: Option<&str>) -> String {
        let text = settings(flags, environment, file).expect_err("refused");
        assert!(!text.contains('\n'), "one line: {text}");
        text.find("forebay.toml line").map_or(text.clone(), |start| text[start..].into())
    }

    #[test]
    fn flags_over_environment_over_file_over_defaults() {
        let file = "memory = \"1GiB\"\nthreads = 3\n\nlog = 'json'\nallow-public-without-password = true\n";
        let environment = [("FOREBAY_MEMORY", "2GiB"), ("FOREBAY_THREADS", "4")];
        let settings = settings(&["--memory", "3GiB"], &environment, Some(file)).expect("valid");
        assert_eq!(settings.memory, 3 << 30);
        assert_eq!(settings.threads, Threads::Count(4));
        assert_eq!(settings.log, LogFormat::Json);
        assert!(settings.allow_public_without_password);
        assert_eq!(settings.partitions, Settings::default().partitions);
        let typed = gather(&["--memory", "3GiB"], &environment, Some(file)).expect("valid");
        assert_eq!(typed.of("memory").2, Origin::Flag);
        assert_eq!(typed.of("threads").2, Origin::Environment("FOREBAY_THREADS".into()));
        assert!(matches!(typed.of("log").2, Origin::File(_, 4)));
        assert_eq!(typed.of("partitions").2, Origin::Default);
    }

    #[test]
    fn flags_with_a_shorter_name_have_both() {
        let settings = settings(&["--stale-on-outage", "7", "--write-back", "8"], &[], None).expect("valid");
        assert_eq!((settings.stale_on_outage_ms_max, settings.write_back_ms), (7, 8));
    }

    #[test]
    fn a_shorter_name_works_in_the_environment_and_in_the_file() {
        let both = [("FOREBAY_STALE_ON_OUTAGE", "off"), ("FOREBAY_WRITE_BACK", "9")];
        let variables = settings(&[], &both, None).expect("valid");
        assert_eq!((variables.stale_on_outage_ms_max, variables.write_back_ms), (0, 9));
        let file = settings(&[], &[], Some("stale-on-outage = 'off'\nwrite-back = 9")).expect("valid");
        assert_eq!((file.stale_on_outage_ms_max, file.write_back_ms), (0, 9));
        assert_eq!(settings(&["--write-back", "1"], &both, None).expect("valid").write_back_ms, 1);
        // The error names what was typed.
        assert!(error(&[], &[("FOREBAY_WRITE_BACK", "x")], None).starts_with("FOREBAY_WRITE_BACK 'x': "));
        let twice =
            "FOREBAY_WRITE_BACK: that is the setting of FOREBAY_WRITE_BACK_MS by another name; give one of them";
        assert_eq!(error(&[], &[("FOREBAY_WRITE_BACK", "1"), ("FOREBAY_WRITE_BACK_MS", "1")], None), twice);
        let twice =
            "forebay.toml line 2: write-back-ms: that is the setting of line 1 by another name; give one of them";
        assert_eq!(error(&[], &[], Some("write-back = 1\nwrite-back-ms = 1")), twice);
        let unknown = error(&[], &[], Some("stale-on-outag = 1"));
        assert!(unknown.ends_with("did you mean 'stale-on-outage'?"), "{unknown}");
    }

    #[test]
    fn what_is_stale_is_served_or_not() {
        let stale = |given: &[&str]| settings(given, &[], None).expect("valid").stale_on_outage_ms_max;
        let default = Settings::default().stale_on_outage_ms_max;
        assert_eq!([stale(&["--stale-on-outage", "on"]), stale(&["--stale-on-outage-ms-max", "on"])], [default; 2]);
        assert_eq!([stale(&["--stale-on-outage", "off"]), stale(&["--stale-on-outage-ms-max", "0"])], [0; 2]);
        let file = settings(&[], &[("FOREBAY_STALE_ON_OUTAGE_MS_MAX", "on")], Some("stale-on-outage-ms-max = 'off'"));
        assert_eq!(file.expect("valid").stale_on_outage_ms_max, default);
        assert!(error(&["--stale-on-outage", "yes"], &[], None).contains("on or off"));
    }

    #[test]
    fn a_wrong_value_is_named_with_its_place() {
        let size = "give a size from 1B to 256TiB, such as 512KiB, 256MiB or 4GiB";
        assert_eq!(error(&["--memory", "12XB"], &[], None), format!("--memory '12XB': {size}"));
        assert_eq!(error(&[], &[("FOREBAY_MEMORY", "")], None), format!("FOREBAY_MEMORY '': {size}"));
        let file = Some("\nmemory = 'lots'");
        assert_eq!(error(&[], &[], file), format!("forebay.toml line 2: memory 'lots': {size}"));
        assert!(settings(&["--memory", "64MiB"], &[], file).is_ok(), "what is overridden is not looked at");
        assert_eq!(error(&["--memory", "512KiB"], &[], None), "--memory '512KiB': give at least 1MiB");
        assert!(
            error(&["--policy", "lru2"], &[], None).starts_with("--policy 'lru2': no policy 'lru2'; choose one of")
        );
    }

    #[test]
    fn an_unknown_key_is_named_with_the_nearest() {
        let unknown = |text: &str| error(&[], &[], Some(text));
        assert_eq!(
            unknown("memory = '1GiB'\nmemroy = '1GiB'"),
            "forebay.toml line 2: unknown key 'memroy'; did you mean 'memory'?"
        );
        assert_eq!(
            unknown("trace_dir = 'x'"),
            "forebay.toml line 1: unknown key 'trace_dir'; did you mean 'trace-dir'?"
        );
        assert_eq!(
            unknown("[replication]\nfactor = 3"),
            "forebay.toml line 1: unknown key 'replication'; `forebay config` lists the keys there are"
        );
    }

    #[test]
    fn mappings_are_given_several_times_or_as_tables() {
        let store = ["--store", "postgres://app@localhost/shop"];
        let (one, two) = ("a:{x} -> b(x)", "c:{y} -> d.e(y) readonly(f)");
        let flags = settings(&[&store[..], &["--map", one, "--map", two]].concat(), &[], None).expect("valid");
        let file = "[[map]]\nkey = 'a:{x}'\ntable = 'b'\ncolumns = ['x']\n[[map]]\nkey = 'c:{y}'\ntable = 'd.e'\n\
            columns = ['y']\nread-only = ['f']\n";
        let tables = settings(&store, &[], Some(file)).expect("valid");
        assert_eq!((flags.maps.len(), &flags.maps), (2, &tables.maps));
        let texts = settings(&store, &[], Some(&format!("map = ['{one}', '{two}']"))).expect("valid");
        assert_eq!(flags.maps, texts.maps);
        assert!(error(&["--map", one], &[], None).contains("names no database"));
        let strange = "[[map]]\nkey = 'a:{x}'\ntable = 'b'\ncolumns = ['col;drop', 'a\"']\nreadonly = ['x; y']\n";
        let strange = error(&store, &[], Some(strange));
        assert!(strange.contains("1 parts in braces and the table 2 columns"), "{strange}");
        for (file, said) in [
            ("[[map]]\nkey = 'a:{x}'\ntable = 'b'", "line 1: [[map]] lacks columns; add columns = [\"id\"]"),
            ("[[map]]\nkey = 'a:{x}'\ntable = 'b'\ncolumns = 'x'", "line 4: columns of [[map]] is no list of names"),
            ("[[map]]\nkey = 'a:{x}'\ntable = 3\ncolumns = ['x']", "line 3: table of [[map]] is no text"),
            ("[[map]]\nkey = 'a:{x}'\ncolums = ['x']", "line 3: [[map]] has no key 'colums'; it has key, table"),
            ("[map]\nkey = 'a:{x}'\ntable = 'b'\ncolumns = ['x']", "write [[map]], in double brackets"),
            ("map = 3", "line 1: give a text, map = "),
        ] {
            let error = error(&store, &[], Some(file));
            assert!(error.contains(said), "{file}: {error}");
        }
        let file = "[[map]]\nkey = 'a:{x}'\ntable = 'b'\ncolumns = ['col;drop']\nreadonly = ['f']\n";
        let quoted = settings(&store, &[], Some(file)).expect("valid");
        assert_eq!(quoted.maps[0].to_string(), "a:{x} -> b(\"col;drop\") readonly(f)");
        for (table, shown) in [("b c.d", "\"b c\".d"), ("\"b c\".\"d.e\"", "\"b c\".\"d.e\""), ("b.\"D\"", "b.D")] {
            let file = format!("[[map]]\nkey = 'a:{{x}}'\ntable = '{table}'\ncolumns = ['x']\n");
            let maps = settings(&store, &[], Some(&file)).expect("valid").maps;
            assert_eq!(maps[0].to_string(), format!("a:{{x}} -> {shown}(x)"));
        }
        assert!(error(&[&store[..], &["--map", "a -> b(x)"]].concat(), &[], None).contains("in braces"));
    }

    #[test]
    fn a_file_that_is_not_understood_is_refused() {
        assert!(error(&[], &[], Some("memory 1GiB")).starts_with("forebay.toml line 1: "));
        assert!(error(&[], &[], Some("threads = 1\nthreads = 2")).starts_with("forebay.toml line 2: "));
        assert_eq!(
            error(&[], &[], Some("threads = 1.5")),
            "forebay.toml line 1: threads is a float; write threads = 1"
        );
        let kind = |text: &str| error(&[], &[], Some(text)).split("; ").nth(1).map(str::to_owned);
        assert_eq!(kind("write-back-ms = 5.5").as_deref(), Some("write write-back-ms = 5"));
        assert_eq!(kind("write-back-ms = 0x5").as_deref(), Some("write write-back-ms = 0"));
        assert_eq!(kind("log = [1]").as_deref(), Some("write log = \"text\""));
        assert!(error(&["--config", "/nowhere/x.toml"], &[], None).starts_with("can't read the configuration"));
    }

    #[test]
    fn only_loopback_without_a_password() {
        let text = error(&["--listen", "0.0.0.0:6379"], &[], None);
        assert!(text.contains("--password-file") && text.contains("127.0.0.1:6379"), "{text}");
        assert!(!text.contains("allow"), "who is in a hurry is not told how to leave the door open: {text}");
        let http = error(&["--http", "[::]:7379"], &[], None);
        assert!(http.starts_with("--http") && http.contains("127.0.0.1:7379") && http.contains("proxy"), "{http}");
        assert!(!http.contains("password-file"), "a password keeps strangers out of the figures of no server: {http}");
        let tls = ["--tls-listen", "10.0.0.1:1", "--tls-cert", "c", "--tls-key", "k"];
        assert!(error(&tls, &[], None).starts_with("--tls-listen"));
        assert!(error(&["--listen", "[::ffff:10.0.0.1]:1"], &[], None).starts_with("--listen"));
        assert!(settings(&["--listen", "[::ffff:127.0.0.1]:1"], &[], None).is_ok());
        assert!(settings(&["--listen", "0.0.0.0:6379", "--allow-public-without-password"], &[], None).is_ok());
        assert!(settings(&["--listen", "0.0.0.0:6379", "--password-file", "p"], &[], None).is_ok());
        assert!(settings(&["--listen", "0.0.0.0:6379"], &[("FOREBAY_USERS_FILE", "u")], None).is_ok());
    }

    #[test]
    fn tls_is_given_whole() {
        assert!(error(&["--tls-listen", "127.0.0.1:1", "--tls-cert", "c"], &[], None).contains("--tls-key"));
        assert!(error(&["--tls-cert", "c"], &[], None).starts_with("--tls-cert 'c': it is of no use without"));
        assert!(error(&["--listen", "off"], &[], None).contains("--tls-listen"));
        let tls = ["--listen", "off", "--tls-listen", "127.0.0.1:1", "--tls-cert", "c", "--tls-key", "k"];
        assert!(settings(&tls, &[], None).is_ok());
        assert!(error(&["--password-file", "p", "--users-file", "u"], &[], None).starts_with("--password-file 'p'"));
    }

    #[test]
    fn settings_are_checked_together() {
        assert!(error(&["--lock-wait-ms-min", "3000"], &[], None).contains("above lock-wait-ms-max, which is 2000"));
        assert_eq!(
            error(&["--memory", "2MiB", "--partitions", "33"], &[], None),
            "--partitions '33': give a whole number from 1 to 32, one for 64KiB of --memory, which is 2MiB"
        );
        assert!(settings(&["--memory", "2MiB", "--partitions", "32"], &[], None).is_ok());
    }
}
