//! `forebay password`: the hash of a password, for `--password-file` and for the users' file.

use std::io::{IsTerminal, Read};

use clap::Command;
use forebay_server::access::password::PasswordHash;

use crate::error::CommandError;
use crate::say;

/// Bytes of a password; before it is authenticated, a client may not send more at once.
const PASSWORD_BYTES_MAX: usize = 16 << 10;

const EXAMPLES: &str = "\
Examples:
  forebay password > password.hash              asks for the password, twice
  openssl rand -hex 24 | tee secret | forebay password > password.hash
                                                one that nobody has to remember
  forebay serve --password-file password.hash   clients say AUTH, or redis-cli
                                                --askpass

For a users' file put # before the hash:
  user alice on #$argon2id$.. ~shop:* +@all -@dangerous";

/// What can be typed.
pub fn command() -> Command {
    Command::new("password")
        .about("Print the hash of a password, read from the terminal or from standard input")
        .after_help(EXAMPLES)
}

/// Reads a password and prints its hash.
pub fn run() -> Result<(), CommandError> {
    let password = match std::io::stdin().is_terminal() {
        true => ask()?,
        false => read()?,
    };
    let failed = |why: &str| Err(CommandError::Password(why.into()));
    match password.as_slice() {
        [] => return failed("the password is empty"),
        password if password.len() > PASSWORD_BYTES_MAX => return failed("the password is longer than 16 KiB"),
        password if password.contains(&b'\n') => return failed("the password has more than one line"),
        _ => {}
    }
    let hash = PasswordHash::make(&password).map_err(|error| CommandError::Password(error.to_string()))?;
    say::result(&format!("{}\n", hash.text()))?;
    Ok(())
}

fn ask() -> Result<Vec<u8>, CommandError> {
    let failed = |error: std::io::Error| CommandError::Password(format!("can't read from the terminal: {error}"));
    let first = rpassword::prompt_password("Password: ").map_err(failed)?;
    match rpassword::prompt_password("Again: ").map_err(failed)? == first {
        true => Ok(first.into_bytes()),
        false => Err(CommandError::Password("the two are not the same".into())),
    }
}

/// All of standard input, without the end of its line.
fn read() -> Result<Vec<u8>, CommandError> {
    let mut password = Vec::new();
    let read = std::io::stdin().take(PASSWORD_BYTES_MAX as u64 + 3).read_to_end(&mut password);
    read.map_err(|error| CommandError::Password(format!("can't read standard input: {error}")))?;
    for end in *b"\n\r" {
        password.pop_if(|last| *last == end);
    }
    Ok(password)
}
