//! `forebay man FOLDER`: a manual page of each command, out of the same records as `--help`.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::error::CommandError;
use crate::say;

const EXAMPLES: &str = "\
Examples:
  forebay man ~/.local/share/man/man1
      then `man forebay`, `man forebay-serve`; `make install` and the Debian package bring them";

/// What can be typed.
pub fn command() -> Command {
    Command::new("man").about("Write the manual pages into a folder").after_help(EXAMPLES).arg(
        Arg::new("folder")
            .value_name("FOLDER")
            .required(true)
            .action(ArgAction::Set)
            .value_parser(value_parser!(PathBuf))
            .help("Where to; it is made if it is not there"),
    )
}

/// Writes those of `program` and its commands.
pub fn run(matches: &ArgMatches, program: Command) -> Result<(), CommandError> {
    let Some(folder) = matches.get_one::<PathBuf>("folder") else { return Ok(()) };
    let wrong = |error: std::io::Error| CommandError::Usage(format!("{}: {error}; check FOLDER", folder.display()));
    std::fs::create_dir_all(folder).map_err(wrong)?;
    clap_mangen::generate_to(program, folder).map_err(wrong)?;
    say::result(&format!("the manual pages are in {}; man -l {0}/forebay.1\n", folder.display()))?;
    Ok(())
}
