//! Why a simulation did not take place.

use std::path::{Path, PathBuf};

use forebay::graph::GraphError;
use forebay::policy::PolicyError;
use forebay_trace::{TraceError, TraceReader};
use thiserror::Error;

use crate::hints::listed;
use crate::optimum;

/// Why a simulation did not take place.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LabError {
    /// The trace.
    #[error("{}: {error}", path.display())]
    Trace {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        error: TraceError,
    },
    /// The policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A size that makes no sense.
    #[error("size '{given}': {advice}")]
    Size {
        /// As it was given.
        given: String,
        /// What to give in its place.
        advice: &'static str,
    },
    /// A graph that does not fit the trace.
    #[error("transaction type '{name}': {error}")]
    Graph {
        /// The type's name.
        name: String,
        /// What is wrong with it.
        error: GraphError,
    },
    /// No graph is of a type that the trace has.
    #[error(
        "{}: --graphs: no transactions of type {}; {}", path.display(), names.join(", "),
        if known.is_empty() { "its transactions have no types".to_owned() } else { listed(known) }
    )]
    NoGraph {
        /// Which trace.
        path: PathBuf,
        /// The types that there are graphs of.
        names: Vec<String>,
        /// Those that it has.
        known: Vec<String>,
    },
    /// The trace is too large to try all choices.
    #[error(
        "{}: an optimum is found by trying all choices, of at most {keys_max} keys (this trace has {keys}) and \
         {states_max} states of the cache: cut the trace, or leave out --optimum",
        path.display(), keys_max = optimum::KEYS_MAX, states_max = optimum::STATES_MAX
    )]
    TooLarge {
        /// Which.
        path: PathBuf,
        /// Its keys.
        keys: usize,
    },
    /// A hint type that the trace does not have.
    #[error("{}: no hint type '{name}'; {}", path.display(), listed(known))]
    HintType {
        /// Which trace.
        path: PathBuf,
        /// The type that was named.
        name: String,
        /// Those that it has.
        known: Vec<String>,
    },
    /// Nothing is left of the trace.
    #[error("{}: no requests; is it empty, or --sample too small?", .0.display())]
    Empty(PathBuf),
    /// The trace is cut short before its first request is whole, or all of it asks a cache for nothing.
    #[error("{}: no requests in it: {why}; get the whole file, or name its format with --trace-format", path.display())]
    Cut {
        /// Which.
        path: PathBuf,
        /// What its reader says.
        why: String,
    },
    /// All of the trace was passed over.
    #[error(
        "{}: no requests, {skipped} malformed records were passed over, the first: {first}; is it of another format?",
        path.display()
    )]
    AllMalformed {
        /// Which.
        path: PathBuf,
        /// Its records.
        skipped: u64,
        /// What is wrong with the first.
        first: String,
    },
    /// Bytes are to be counted, and no size is known.
    #[error(
        "{}: no key has a size, so bytes cannot be counted: leave out --unit bytes, or give the trace sizes (in CSV a \
         column size)", .0.display()
    )]
    NoSizes(PathBuf),
}

impl LabError {
    /// Of a trace without a request.
    pub(crate) fn empty(path: &Path, trace: &dyn TraceReader) -> LabError {
        let (path, why) = (path.to_owned(), trace.warnings().join("; "));
        match trace.skipped() {
            0 if !why.is_empty() => LabError::Cut { path, why },
            0 => LabError::Empty(path),
            skipped => {
                let first = trace.first_skipped().unwrap_or_default().to_owned();
                LabError::AllMalformed { path, skipped, first }
            }
        }
    }
}
