//! What an error says about the commit that it answers. The one rule that must never bend: [`Failure::Unavailable`],
//! [`Failure::Failed`], [`Failure::Conflict`] and [`Failure::Refused`] mean *surely not applied*.
//!
//! A commit is one transaction of the server, and mostly one message. An error of severity ERROR in its answer has
//! aborted that transaction. Anything else (FATAL, a closed socket, no answer in time) may come after the commit was
//! made: the connection ends with it, and whether the commit stands is [`Failure::Unknown`] until its id is asked for.

use std::error::Error as _;

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};

use super::shown;
use crate::sql::failure::Failure;

/// The SQLSTATE that forebay's own check of versions raises, with the places of the overtaken ones in its detail.
pub(super) const OVERTAKEN: &str = "FB001";

/// What stands in place of the places if versions of a table's rows, named behind it, are not kept any more.
pub(super) const UNKEPT: &str = "unkept ";

/// The SQLSTATE with which forebay's own function says that the database has another owner now.
pub(super) const NOT_OWNED: &str = "FB002";

/// What `error` means, as the answer to a commit that was sent.
pub(super) fn of_commit(error: &Error) -> Failure {
    of_commit_to(error, &|_| false)
}

/// The same; those columns may be named of which `is_mapped` says that clients know them.
pub(super) fn of_commit_to(error: &Error, is_mapped: &dyn Fn(&DbError) -> bool) -> Failure {
    let Some(answer) = error.as_db_error() else {
        // The parameters could not be encoded: nothing was sent.
        let sent = !error.to_string().starts_with("error serializing");
        return if sent { Failure::Unknown(told(error)) } else { Failure::Refused(told(error)) };
    };
    let why = shown::told(answer, is_mapped);
    if is_fatal(answer) { Failure::Unknown(why) } else { of_state(answer, why) }
}

fn is_fatal(answer: &DbError) -> bool {
    match answer.parsed_severity() {
        Some(severity) => matches!(severity, Severity::Fatal | Severity::Panic),
        None => !answer.severity().eq_ignore_ascii_case("ERROR"),
    }
}

/// Whether the connection ends with `error`.
pub(super) fn ends(error: &Error) -> bool {
    match error.as_db_error() {
        Some(answer) => is_fatal(answer),
        None => error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>()),
    }
}

/// Classes of SQLSTATE that say of a change that it can't be: unsupported, cardinality, data, constraint, dependent
/// objects, routines, names and rights, views' checks, limits of the program, RAISE in a trigger.
const REFUSING: [&str; 17] =
    ["0A", "0L", "0P", "21", "22", "23", "27", "2B", "2F", "38", "39", "3D", "3F", "42", "44", "54", "P0"];

/// What SQLSTATEs begin with of a server that is there and fails at one transaction: internal errors, corrupted tables
/// and indexes, a table's file that is gone. Another try may succeed. For example, PostgreSQL calls it an internal
/// error when two sessions update one tuple of its catalogue at once.
const FAILING: [&str; 2] = ["XX", "58P01"];

/// States that say that a table is not as it was when its statements were made: its columns, itself, its types.
const ALTERED: [&str; 4] = ["42703", "42P01", "42804", "42883"];

fn of_state(answer: &DbError, why: String) -> Failure {
    let state = answer.code().code();
    match state {
        OVERTAKEN if unkept(answer).is_some() => Failure::Refused(format!(
            "versions of rows of {} are not kept as they were when forebay looked at it: its triggers are \
             disabled, gone, or of another mode, so nothing can be committed that rests on what was read of it; see \
             `forebay store check`, and start forebay again",
            unkept(answer).unwrap_or_default()
        )),
        OVERTAKEN => {
            let places = answer.detail().unwrap_or_default().split(',').filter_map(|place| place.trim().parse().ok());
            Failure::Overtaken(places.collect())
        }
        NOT_OWNED => Failure::NotOwned(answer.message().to_owned()),
        "23505" if answer.constraint() == Some("forebay_applied_id") => Failure::Repeated,
        // statement_completion_unknown; query_canceled, by a time limit of the server: as if no answer came in time.
        "40003" | "57014" => Failure::Unknown(why),
        "55P03" => Failure::InTheWay(why),
        state if state.starts_with("40") => Failure::InTheWay(why),
        state if ALTERED.contains(&state) => Failure::Refused(format!(
            "{why}; if the table was altered, forebay looks it up again within seconds (CACHE RELOAD)"
        )),
        state if REFUSING.iter().any(|class| state.starts_with(class)) => Failure::Refused(why),
        state if FAILING.iter().any(|start| state.starts_with(start)) => Failure::Failed(why),
        _ => Failure::Unavailable(why),
    }
}

/// The table whose versions are not kept any more, if `answer` says so.
fn unkept(answer: &DbError) -> Option<&str> {
    answer.detail().filter(|_| answer.code().code() == OVERTAKEN)?.strip_prefix(UNKEPT)
}

/// Whether a table may not be as it was when its statements were made.
pub(super) fn is_of_altered(error: &Error) -> bool {
    let unkept = error.as_db_error().is_some_and(|answer| unkept(answer).is_some());
    unkept || error.code().is_some_and(|code| ALTERED.contains(&code.code()))
}

/// Whether a lock did not come in time (`lock_timeout`).
pub(super) fn is_locked(error: &Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// Why what was asked for can't be answered, if that says nothing of the server: a table is gone, or may not be read.
pub(super) fn refusal(error: &Error) -> Option<String> {
    match of_commit(error) {
        Failure::Refused(why) => Some(why),
        _ => None,
    }
}

/// Why a connection is not let in, if the fault is in what was given: role, password, database, or that a password is
/// missing. The server is there, and no waiting helps.
pub(super) fn denial(error: &Error) -> Option<String> {
    let given = match error.code().map(|code| code.code()) {
        Some(state) => state.starts_with("28") || state == "3D000" || state == "42501",
        None => {
            ["invalid configuration", "authentication error"].iter().any(|kind| error.to_string().starts_with(kind))
        }
    };
    given.then(|| told_in_full(error))
}

/// An error with its causes, in one line, for anyone: see `shown.rs`.
pub(super) fn told(error: &Error) -> String {
    error.as_db_error().map_or_else(|| causes(error), |answer| shown::told(answer, &|_| false))
}

/// The same for operators at the command line: all that the server says.
pub(super) fn told_in_full(error: &Error) -> String {
    error.as_db_error().map_or_else(|| causes(error), shown::in_full)
}

fn causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text.replace('\n', ", ")
}
