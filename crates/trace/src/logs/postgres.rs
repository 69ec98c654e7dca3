//! What PostgreSQL logs of statements with `log_statement` or `log_min_duration_statement`, whichever file has it.

use std::collections::VecDeque;

use bytes::Bytes;

use super::clients::Clients;
use super::left_out::LeftOut;
use super::sql::{Meaning, Statements, keys};
use super::transactions::Transactions;
use crate::date::iso_us;
use crate::input::unexpected;
use crate::lines::Wrong;
use crate::record::{Kind, Record, TraceKey};

/// Most parameters of a statement.
const PARAMETERS_MAX: usize = 65_535;

/// What an entry of the log says.
pub(super) struct Entry<'a> {
    pub time: &'a [u8],
    /// The client's address, or its user where it has none.
    pub client: &'a [u8],
    pub session: &'a [u8],
    pub message: &'a str,
    pub detail: &'a str,
}

/// What is known of a log so far.
#[derive(Default)]
pub(super) struct Postgres {
    clients: Clients,
    transactions: Transactions,
    statements: Statements,
    pub left_out: LeftOut,
}

impl Postgres {
    pub fn entry(&mut self, entry: &Entry<'_>, due: &mut VecDeque<Record>) -> Result<(), Wrong> {
        let time_us = time_us(entry.time).ok_or_else(|| ("time", unexpected(entry.time, "a date of a log")))?;
        let Some((text, cost_us)) = statement(entry.message) else {
            self.left_out.count("an entry that is no statement");
            return Ok(());
        };
        let parameters = parameters(entry.detail);
        let client = self.clients.number(entry.client);
        for meaning in &*self.statements.meanings(text) {
            match meaning {
                Meaning::Begin => self.transactions.begin(entry.session),
                Meaning::Commit => due.extend(self.transactions.end(entry.session, Kind::Committed)),
                Meaning::Rollback => due.extend(self.transactions.end(entry.session, Kind::Aborted)),
                Meaning::Other(why) => self.left_out.count(why),
                Meaning::Access(kind, table, conditions) => {
                    let keys = keys(table, conditions, &parameters);
                    if keys.is_empty() {
                        self.left_out.count("a statement whose parameters are not logged, or are NULL");
                    }
                    for key in keys {
                        let key = TraceKey::Bytes(Bytes::from(key));
                        let (time_us, kind) = (Some(time_us), *kind);
                        let mut record = Record { time_us, kind, key, cost_us, client, ..Record::default() };
                        self.transactions.place(entry.session, &mut record);
                        due.push_back(record);
                    }
                    self.transactions.next_level(entry.session);
                }
            }
        }
        Ok(())
    }
}

/// A log's time, `2026-01-31 12:30:00.250 CET`: with the abbreviation of a zone, which is taken for UTC.
pub(super) fn time_us(text: &[u8]) -> Option<u64> {
    let zone = text.iter().rposition(|&byte| byte == b' ').filter(|&at| at >= b"2026-01-31 ".len());
    let is_name = |zone: &[u8]| zone.iter().all(|byte| byte.is_ascii_uppercase());
    match zone {
        Some(at) if is_name(&text[at + 1..]) => iso_us(&text[..at]),
        Some(at) => iso_us(&[&text[..at], &text[at + 1..]].concat()),
        None => iso_us(text),
    }
}

/// The text of a statement that a message shows, and the microseconds that it took if the message says so.
fn statement(message: &str) -> Option<(&str, Option<u32>)> {
    let (rest, cost_us) = match message.strip_prefix("duration: ") {
        None => (message, None),
        Some(rest) => {
            let (ms, rest) = rest.split_once(" ms")?;
            let us = ms.parse::<f64>().ok().map(|ms| ms * 1e3);
            (rest.trim_start(), us.filter(|us| (0.0..4e9).contains(us)).map(|us| us as u32))
        }
    };
    if let Some(text) = rest.strip_prefix("statement: ") {
        return Some((text, cost_us));
    }
    // `execute name: text`, also `execute fetch from name: text`.
    let (_, text) = rest.strip_prefix("execute ")?.split_once(": ")?;
    Some((text, cost_us))
}

/// Values of parameters, from `parameters: $1 = '42', $2 = NULL`.
fn parameters(detail: &str) -> Vec<Option<String>> {
    let mut values = Vec::new();
    let Some(mut rest) = detail.strip_prefix("parameters: ").or_else(|| detail.strip_prefix("Parameters: ")) else {
        return values;
    };
    while values.len() < PARAMETERS_MAX {
        let Some((_, behind)) = rest.split_once(" = ") else { break };
        rest = match behind.strip_prefix('\'') {
            Some(quoted) => {
                let (value, behind) = unquoted(quoted);
                values.push(Some(value));
                behind
            }
            None => {
                values.push(None);
                behind
            }
        };
    }
    values
}

/// What stands up to the quote that ends it, and what follows; two quotes are one.
fn unquoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('\'') {
        value += before;
        match behind.strip_prefix('\'') {
            None => return (value, behind),
            Some(behind) => rest = behind,
        }
        value.push('\'');
    }
    (value + rest, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_parameters_are_taken_apart() {
        assert_eq!(statement("statement: SELECT 1"), Some(("SELECT 1", None)));
        assert_eq!(statement("duration: 1.234 ms  statement: SELECT 1"), Some(("SELECT 1", Some(1234))));
        assert_eq!(statement("duration: 0.1 ms  execute S_1: BEGIN"), Some(("BEGIN", Some(100))));
        assert_eq!(statement("execute <unnamed>: SELECT ': '"), Some(("SELECT ': '", None)));
        for other in ["connection received", "duration: 0.1 ms", "duration: 0.1 ms  bind <unnamed>: SELECT 1", ""] {
            assert_eq!(statement(other), None, "{other}");
        }
        let values =
            |detail| parameters(detail).into_iter().map(|value| value.unwrap_or("NULL".into())).collect::<Vec<_>>();
        assert_eq!(values("Parameters: $1 = '42', $2 = NULL, $3 = 'it''s, $4 = x'"), ["42", "NULL", "it's, $4 = x"]);
        assert_eq!(values("parameters: $1 = 'cut"), ["cut"]);
        assert!(values("Key (id)=(1) already exists.").is_empty());
    }

    #[test]
    fn times_may_name_a_zone() {
        let us = iso_us(b"2026-01-31T12:30:00.25Z");
        for time in ["2026-01-31 12:30:00.250 UTC", "2026-01-31 12:30:00.25 CET", "2026-01-31 12:30:00.250"] {
            assert_eq!(time_us(time.as_bytes()), us, "{time}");
        }
        assert_eq!(time_us(b"2026-01-31 13:30:00.250 +01"), us);
        assert_eq!(time_us(b"yesterday"), None);
    }
}
