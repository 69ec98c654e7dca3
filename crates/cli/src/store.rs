//! `forebay store`: what a database has to have before `forebay serve` can stand in front of it.

use clap::{Arg, ArgAction, ArgMatches, Command};
use forebay_drivers::{OutsideBy, VersionMode};

use crate::error::CommandError;
use crate::say;
use crate::settings::{self, Settings, Typed};
use crate::{database, node};

const PRINT: &str = "print";
const VERSION: &str = "version";

const EXAMPLES: &str = "\
Examples:
  forebay store check --store postgres://app@localhost/shop --map 'user:{id} -> users(id)'
      what is well, what is in the way and how to mend it; changes nothing
  forebay store init --store postgres://app@localhost/shop --map 'user:{id} -> users(id)'
      add a version column and triggers to the mapped tables, so that what other programs write is seen
  forebay store init --print --version side --store .. --map ..
      what it would run, for the database's administrator; `side` leaves the tables' columns as they are
  forebay store drop-slot --store postgres://app@localhost/shop
      when `serve --outside decoding` is not to come back, so that the server keeps no log for it

Exit codes: 0 well, 1 there are problems, 2 the database can't be looked at.";

/// What can be typed.
pub fn command() -> Command {
    Command::new("store")
        .about("Check or prepare the database that --store names")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("check")
                .about("Look at the server, forebay's schema and the mapped tables")
                .args(settings::arguments(&[])),
        )
        .subcommand(
            Command::new("init")
                .about("Make forebay's schema, and what keeps versions of mapped rows")
                .disable_version_flag(true)
                .arg(Arg::new(PRINT).long(PRINT).action(ArgAction::SetTrue).help("Print the statements, run nothing"))
                .arg(
                    Arg::new(VERSION)
                        .long(VERSION)
                        .value_name("column|side|none")
                        .value_parser(|text: &str| text.parse::<VersionMode>())
                        .help("Where versions of rows are kept [default: as now; at first column, with decoding none]"),
                )
                .args(settings::arguments(&[])),
        )
        .subcommand(
            Command::new("drop-slot")
                .about("Drop the replication slot of --outside decoding, for which the server keeps its log")
                .args(settings::arguments(&[])),
        )
}

/// Checks or prepares.
pub fn run(matches: &ArgMatches) -> Result<(), CommandError> {
    let Some((what, matches)) = matches.subcommand() else { return Ok(()) };
    let typed = Typed::gather(matches, &|name| std::env::var(name))?;
    let settings = Settings::validate(&typed)?;
    settings::misspelt().for_each(|said| say::note(format_args!("forebay: {said}")));
    let (driver, mut options) = database::named(&settings)?;
    let runtime = node::threads(1, settings.memory)?;
    if what == "check" {
        let checked = runtime.block_on((driver.check)(options))?;
        let well = checked.notes.iter().map(|line| format!("ok       {line}\n"));
        let doubtful = checked.warnings.iter().map(|line| format!("warning  {line}\n"));
        let wrong = checked.problems.iter().map(|line| format!("problem  {line}\n"));
        say::result(&well.chain(doubtful).chain(wrong).collect::<String>())?;
        return match checked.problems.len() {
            0 => Ok(()),
            1 => Err(CommandError::Failed("1 problem; mend it, then check again".into())),
            count => Err(CommandError::Failed(format!("{count} problems; mend them, then check again"))),
        };
    }
    if what == "drop-slot" {
        let dropped = match driver.drop_slot {
            Some(drop_slot) => runtime.block_on(drop_slot(options))?,
            None => false,
        };
        let said = match dropped {
            true => "the replication slot is gone, and the server keeps no log for it",
            false => "there is no replication slot of forebay's",
        };
        say::result(&format!("{said}\n"))?;
        return Ok(());
    }
    let mode = matches.get_one::<VersionMode>(VERSION).copied();
    // What is decoded needs nothing in the tables.
    let unsaid = match settings.outside {
        OutsideBy::Decoding => VersionMode::None,
        _ => VersionMode::Column,
    };
    options.mappings =
        options.mappings.into_iter().map(|mapping| mapping.with_version(mode, VersionMode::Auto)).collect();
    if matches.get_flag(PRINT) {
        say::result(&runtime.block_on((driver.script)(options, unsaid))?)?;
        return Ok(());
    }
    let place = options.address.place().to_owned();
    runtime.block_on((driver.init)(options, unsaid))?;
    say::result(&format!("{place} is ready\n"))?;
    Ok(())
}
