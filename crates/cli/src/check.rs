//! `forebay check`: whether a store file is sound, all of it.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use forebay::store::embedded::check;

use crate::error::CommandError;
use crate::say;

const EXAMPLES: &str = "\
Examples:
  forebay check forebay.redb         after a disk error, or of a backup before it is needed

It reads the whole file, compares every page and every row with its checksum and the tables with each other. It
changes nothing. No server may have the file open: stop it first, or check a copy.

Exit codes: 0 the file is sound, 2 it is not, or can't be read (stderr says why).";

/// What can be typed.
pub fn command() -> Command {
    Command::new("check").about("Check a store file from its first byte to its last").after_help(EXAMPLES).arg(
        Arg::new("file")
            .value_name("FILE")
            .required(true)
            .action(ArgAction::Set)
            .value_parser(value_parser!(PathBuf))
            .help("The file that --store embedded:FILE names"),
    )
}

/// Checks the file and says what it holds.
pub fn run(matches: &ArgMatches) -> Result<(), CommandError> {
    let Some(path) = matches.get_one::<PathBuf>("file") else { return Ok(()) };
    if !path.exists() {
        let why = format!("{}: there is no such file; give the one that --store embedded:FILE names", path.display());
        return Err(CommandError::Usage(why));
    }
    let checked = check(path)?;
    let documents: u64 = checked.documents.iter().sum();
    say::result(&format!("{} is sound: {}\n", path.display(), counted(documents)))?;
    Ok(())
}

fn counted(documents: u64) -> String {
    match documents {
        1 => "1 document".to_owned(),
        _ => format!("{documents} documents"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_document_is_one() {
        assert_eq!([0, 1, 2].map(counted), ["0 documents", "1 document", "2 documents"]);
    }
}
