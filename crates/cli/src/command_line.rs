//! What can be typed, and help that teaches.

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command, value_parser};
use clap_complete::Shell;

use crate::{around, check, demo, doctor, man, password, settings};

const EXAMPLES: &str = "\
Examples:
  forebay demo                              look at it: a server, a small shop at work, figures
  forebay serve                             serve 127.0.0.1:6379, data in ./forebay.redb
  redis-cli SET user:1 hello                any Redis client will do, unmodified
  forebay sim trace.lis                     which policy, and how much memory
  forebay replay trace.lis --preload        send a recorded trace through it
  forebay bench --workload ycsb-b           put a workload on it, and measure
  forebay config > forebay.toml             all settings, as a file
  forebay doctor --config forebay.toml      what is in the way of serving with it

A connection that sends TXN BEGIN reads and writes in a transaction up to its
TXN COMMIT.

Each setting is a flag (--memory 1GiB), a variable (FOREBAY_MEMORY=1GiB) or a
line of the file that --config names (memory = \"1GiB\"): flags win over variables
over the file over defaults.";

const SERVE_EXAMPLES: &str = "\
Examples:
  forebay serve
      data in ./forebay.redb, safe on disk before each OK
  forebay serve --store memory --listen 127.0.0.1:0
      for tests: nothing stays, any free port
  forebay serve --memory 4GiB --policy w-tinylfu
      a larger cache, another policy
  forebay serve --durability interval --sync-ms 200
      faster writes; a crash may cost the last 200 ms
  forebay serve --store postgres://app@localhost/shop --map 'user:{id} -> users(id)'
      in front of a table of PostgreSQL: HGETALL user:1 is a row
  forebay serve --config forebay.toml --log json
      as a service

SIGTERM or Ctrl-C stops it: requests that have arrived are answered, the store
is flushed. A second one ends it at once, which loses nothing that was
acknowledged with --durability always.

Exit codes: 0 stopped as asked, 1 failed while serving, 2 refused to start
(stderr says why and what to change).";

const DEMO_EXAMPLES: &str = "\
Examples:
  forebay demo                    until Ctrl-C
  forebay demo --seconds 30       for half a minute
  forebay demo --policy sieve --memory 16MiB

If the usual ports are taken it takes free ones. Its data lies in a temporary
folder and is removed at the end.";

const CONFIG_EXAMPLES: &str = "\
Examples:
  forebay config
      what `forebay serve` would use here
  forebay config --config forebay.toml
      check a file; exit code 2 and one line if it is wrong
  forebay config --memory 1GiB > forebay.toml
      begin a file";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  forebay completions bash > ~/.local/share/bash-completion/completions/forebay
  forebay completions zsh > ~/.zfunc/_forebay
  forebay completions fish > ~/.config/fish/completions/forebay.fish";

/// The whole command line.
pub fn command() -> Command {
    let command = Command::new("forebay")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A transactional cache between applications and their data store, for any Redis client")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .max_term_width(110)
        .subcommand(
            Command::new("serve")
                .about("Serve Redis clients from memory, with serializable transactions over the store")
                .after_help(SERVE_EXAMPLES)
                .args(settings::arguments(&[])),
        )
        .subcommand(
            Command::new("demo")
                .about("Serve a temporary store with a small shop at work on it, and show figures")
                .after_help(DEMO_EXAMPLES)
                .arg(
                    Arg::new(demo::SECONDS)
                        .long(demo::SECONDS)
                        .value_name("N")
                        .value_parser(value_parser!(u64).range(1..))
                        .help("Stop by itself after so many seconds"),
                )
                .args(settings::arguments(demo::CHOOSES)),
        )
        .subcommands(around::commands())
        .subcommand(check::command())
        .subcommand(
            Command::new("config")
                .about("Print the effective settings and where each came from")
                .after_help(CONFIG_EXAMPLES)
                .args(settings::arguments(&[])),
        )
        .subcommand(doctor::command())
        .subcommand(password::command())
        .subcommand(
            Command::new("completions")
                .about("Print the completion script for a shell")
                .after_help(COMPLETIONS_EXAMPLES)
                .arg(
                    Arg::new("shell")
                        .value_name("SHELL")
                        .required(true)
                        .action(ArgAction::Set)
                        .value_parser(value_parser!(Shell))
                        .help("Which shell"),
                ),
        )
        .subcommand(man::command());
    with_negative_numbers(command)
}

/// A number below zero is a value that is out of range, and refused as such: clap would take it for another flag, and
/// advise to write `-- -1`.
fn with_negative_numbers(command: Command) -> Command {
    let taken = |argument: Arg| match argument.get_action().takes_values() && !argument.is_positional() {
        true => argument.allow_negative_numbers(true),
        false => argument,
    };
    command.mut_args(taken).mut_subcommands(with_negative_numbers)
}

/// Leaves out commands that an error proposes and that are not like what was typed: clap knows no other word for it.
pub fn with_near_names(mut error: clap::Error) -> clap::Error {
    let typed = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(typed)) => typed.clone(),
        _ => return error,
    };
    if let Some(ContextValue::Strings(names)) = error.remove(ContextKind::SuggestedSubcommand) {
        let near: Vec<String> = names.into_iter().filter(|name| settings::is_like(name, &typed)).collect();
        if !near.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near));
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_command_that_may_be_meant_is_proposed() {
        let said = |word: &str| {
            let error = command().try_get_matches_from(["forebay", word]).expect_err("no command");
            with_near_names(error).to_string()
        };
        assert!(said("nosuch").contains("'nosuch'") && !said("nosuch").contains("similar"), "{}", said("nosuch"));
        assert!(said("sevre").contains("'serve'"), "{}", said("sevre"));
    }

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn a_number_below_zero_is_a_value_out_of_range() {
        for line in [
            &["forebay", "sim", "a.fbt", "--seed", "-1"][..],
            &["forebay", "sim", "a.fbt", "--threads", "-1"],
            &["forebay", "trace", "noise", "a.fbt", "--types", "-1", "--out", "b.fbt"],
            &["forebay", "workload", "ycsb-a", "--out", "a.fbt", "--transactions", "-3"],
            &["forebay", "bench", "--workload", "ycsb-a", "--seconds", "-1"],
            &["forebay", "demo", "--seconds", "-1"],
        ] {
            let said = command().try_get_matches_from(line).expect_err("out of range").to_string();
            assert!(said.contains("invalid value '-") && !said.contains("-- -"), "{said}");
        }
    }
}
