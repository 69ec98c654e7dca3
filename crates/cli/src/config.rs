//! `forebay config`: the effective value of each setting and where it came from, as a file that `--config` takes.

use clap::ArgMatches;
use forebay::runtime;

use crate::error::CommandError;
use crate::node;
use crate::say;
use crate::settings::{self, GROUPS, Origin, SETTINGS, Settings, Typed};

/// Where the origin begins on a line, so that the values can be read down the page.
const ORIGIN_COLUMN: usize = 42;

/// Checks the settings and the files that they name, and prints them.
pub fn run(matches: &ArgMatches) -> Result<(), CommandError> {
    let typed = Typed::gather(matches, &|name| std::env::var(name))?;
    let settings = Settings::validate(&typed)?;
    let threads = node::threads(1, settings.memory)?;
    node::check_files(&settings, &runtime::tokio::runtime(threads.handle().clone()))?;
    settings::misspelt().for_each(|said| say::note(format_args!("forebay: {said}")));
    say::result(&file(&typed, &settings))?;
    Ok(())
}

fn file(typed: &Typed, settings: &Settings) -> String {
    let mut text = format!("# forebay {}: effective settings\n", env!("CARGO_PKG_VERSION"));
    for group in GROUPS {
        text.push_str(&format!("\n# {}\n", group.heading()));
        for setting in SETTINGS.iter().filter(|setting| setting.group == group) {
            let origin = match typed.of(setting.name).2 {
                Origin::Default => "default".to_string(),
                Origin::Environment(variable) => variable,
                Origin::Flag => format!("--{}", setting.name),
                Origin::File(file, line) => format!("{} line {line}", file.display()),
            };
            let line = format!("{} = {}", setting.name, setting.literal(&setting.show(settings)));
            text.push_str(&format!("{line:ORIGIN_COLUMN$} # {}\n", origin.escape_debug()));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::arguments;
    use clap::Command;
    use std::env::VarError;

    fn gather(line: &[&str]) -> Typed {
        let matches = Command::new("forebay").args(arguments(&[])).get_matches_from(line);
        Typed::gather(&matches, &|_| Err(VarError::NotPresent)).expect("settings")
    }

    #[test]
    fn what_is_printed_reads_back_as_the_same() {
        let typed = gather(&["forebay", "--store", "embedded:a \"b\" \\c\n\u{7f}", "--threads", "3", "--http", "off"]);
        let settings = Settings::validate(&typed).expect("valid");
        let text = file(&typed, &settings);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("x.toml");
        std::fs::write(&path, &text).expect("writable");
        let again = gather(&["forebay", "--config", path.to_str().expect("UTF-8")]);
        let again = Settings::validate(&again).expect("valid");
        assert_eq!(format!("{settings:?}"), format!("{again:?}"));
        assert!(text.contains("threads = 3 ") && text.contains("# --threads"), "{text}");
    }
}
