use crate::error::CommandError;
use clap::{ArgMatches, Command};
pub fn command() -> Command {
    Command::new("replay")
}
pub fn run(_: &ArgMatches) -> Result<(), CommandError> {
    Ok(())
}
