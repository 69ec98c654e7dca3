//! What can be wrong with settings: one line each, with the place and the fix.

use std::path::PathBuf;

use thiserror::Error;

/// Settings that can't be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A value that can't be read, or is out of its range.
    #[error("{place} '{text}': {why}")]
    Value {
        /// Flag, variable, or file and line.
        place: String,
        /// What was typed.
        text: String,
        /// What to type instead.
        why: String,
    },
    /// A variable that is not text.
    #[error("{0} is not UTF-8; set it to plain text")]
    NotText(String),
    /// The file can't be read.
    #[error("can't read the configuration {file}: {error}; check --config", file = file.display())]
    Read {
        /// Which file.
        file: PathBuf,
        /// What the machine says.
        error: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{file} line {line}: {why}", file = file.display())]
    Syntax {
        /// Which file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What the parser says.
        why: String,
    },
    /// A key that no setting has.
    #[error("{file} line {line}: unknown key '{key}'; {advice}", file = file.display())]
    UnknownKey {
        /// Which file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The key.
        key: String,
        /// The nearest name, or where the names are.
        advice: String,
    },
    /// Given under both of its names.
    #[error("{place}: that is the setting of {first} by another name; give one of them")]
    Twice {
        /// Where, the second time.
        place: String,
        /// Where, the first time.
        first: String,
    },
    /// A mapping of keys to rows that is not understood.
    #[error("{file} line {line}: {why}", file = file.display())]
    Map {
        /// Which file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong, and what to write.
        why: String,
    },
    /// A value that is neither text nor a whole number nor true or false.
    #[error("{file} line {line}: {key} is a {kind}; write {key} = {example}", file = file.display())]
    Kind {
        /// Which file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The key.
        key: &'static str,
        /// What it is.
        kind: &'static str,
        /// A value that would do, as TOML.
        example: String,
    },
}
