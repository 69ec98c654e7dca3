use crate::error::CommandError;
use clap::ArgMatches;
pub const SECONDS: &str = "seconds";
pub fn run(_: &ArgMatches) -> Result<(), CommandError> {
    Ok(())
}
