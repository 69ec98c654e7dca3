//! What is told of an error of the database. Redis clients, tickets and the journal get it: they may see less of a
//! table than its constraints and triggers do.
//!
//! **Invariant.** No value of a row is in it, and no name of a column that no mapping shows. The server's detail has
//! whole rows and keys; its own words have values (class 22), and so has whatever a trigger or function raises. So of
//! constraints and data the words are ours, made of names; of all else the server's, unless a function was at work.
//! What the server said stands in the log at level debug.

use tokio_postgres::error::DbError;

/// An error of the database in one line; `is_mapped` says whether the column that it names may be.
pub(super) fn told(answer: &DbError, is_mapped: &dyn Fn(&DbError) -> bool) -> String {
    let state = answer.code().code();
    tracing::debug!(said = in_full(answer), "PostgreSQL answers with an error");
    let text = match state.get(..2) {
        Some("23") => of_constraint(answer, state, is_mapped(answer)),
        Some("22") => of_data(state).to_owned(),
        _ if state == "P0001" || answer.where_().is_some() => {
            "a trigger or function of the database raised an error".to_owned()
        }
        _ => answer.message().replace('\n', ", "),
    };
    format!("{text} (SQLSTATE {state})")
}

/// All that the server says.
pub(super) fn in_full(answer: &DbError) -> String {
    let mut text = answer.message().replace('\n', ", ");
    for more in [answer.detail(), answer.hint()].into_iter().flatten() {
        text = format!("{text}; {}", more.replace('\n', ", "));
    }
    format!("{text} (SQLSTATE {})", answer.code().code())
}

/// As the server says it, where these are all its words.
fn of_constraint(answer: &DbError, state: &str, names_column: bool) -> String {
    let table = answer.table();
    if state == "23502" {
        let column = match answer.column().filter(|_| names_column) {
            Some(column) => format!("column \"{column}\""),
            None => "a column".to_owned(),
        };
        let of_table = table.map_or_else(String::new, |table| format!(" of relation \"{table}\""));
        return format!("null value in {column}{of_table} violates not-null constraint");
    }
    let Some(constraint) = answer.constraint() else { return "a constraint is violated".to_owned() };
    match (state, table) {
        ("23505", _) => format!("duplicate key value violates unique constraint \"{constraint}\""),
        ("23503", Some(table)) => format!("table \"{table}\": foreign key constraint \"{constraint}\" is violated"),
        ("23514", Some(table)) => {
            format!("new row for relation \"{table}\" violates check constraint \"{constraint}\"")
        }
        _ => format!("constraint \"{constraint}\" is violated"),
    }
}

fn of_data(state: &str) -> &'static str {
    match state {
        "22001" => "a value is too long for its column",
        "22003" => "a number is out of range for its column",
        "22007" | "22008" => "a text is no date or time, or one out of range",
        "22P02" => "a text is no value of its column's type",
        "22021" | "22P05" => "a text has characters that the database can't keep",
        _ => "a value does not fit",
    }
}
