//! PostgreSQL's log with `log_destination = jsonlog`.

use std::borrow::Cow;
use std::collections::VecDeque;

use serde::Deserialize;

use super::left_out::LeftOut;
use super::postgres::{Entry, Postgres};
use super::{Log, most_lines, open};
use crate::Format;
use crate::lines::Wrong;
use crate::record::Record;

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "postgres-jsonlog",
    summary: "PostgreSQL's jsonlog with `log_statement = all`, as its csvlog",
    endings: &[],
    recognises: |head| most_lines(head, |line| parse(line).is_ok()),
    open: |source| Ok(open(source, JsonLog::default())),
};

#[derive(Default)]
struct JsonLog(Postgres);

/// The fields that count.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    timestamp: Cow<'a, str>,
    #[serde(borrow)]
    error_severity: Cow<'a, str>,
    #[serde(borrow, default)]
    user: Cow<'a, str>,
    #[serde(borrow, default)]
    remote_host: Cow<'a, str>,
    #[serde(borrow, default)]
    session_id: Cow<'a, str>,
    #[serde(borrow, default)]
    message: Cow<'a, str>,
    #[serde(borrow, default)]
    detail: Cow<'a, str>,
}

fn parse(line: &[u8]) -> Result<Fields<'_>, Wrong> {
    serde_json::from_slice(line).map_err(|error| ("-", format!("no entry of a jsonlog: {error}")))
}

impl Log for JsonLog {
    fn entry(&mut self, text: &[u8], due: &mut VecDeque<Record>) -> Result<(), Wrong> {
        let fields = parse(text)?;
        if fields.error_severity.is_empty() {
            return Err(("error_severity", "empty, expected LOG, ERROR or the like".into()));
        }
        let client = if fields.remote_host.is_empty() { &fields.user } else { &fields.remote_host };
        let entry = Entry {
            time: fields.timestamp.as_bytes(),
            client: client.as_bytes(),
            session: fields.session_id.as_bytes(),
            message: &fields.message,
            detail: &fields.detail,
        };
        self.0.entry(&entry, due)
    }

    fn left_out(&self) -> &LeftOut {
        &self.0.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::read;
    use crate::record::Kind;

    #[test]
    fn statements_become_accesses() {
        let line = |message: &str, detail: &str| {
            format!(
                "{{\"timestamp\":\"2026-01-31 12:30:00.250 UTC\",\"user\":\"app\",\"dbname\":\"shop\",\"pid\":71,\
                 \"remote_host\":\"10.0.0.5\",\"session_id\":\"a.1\",\"error_severity\":\"LOG\",\
                 \"message\":\"{message}\"{detail}}}\n"
            )
        };
        let text = line("execute <unnamed>: DELETE FROM t\\n WHERE k = $1", ",\"detail\":\"Parameters: $1 = 'a'\"")
            + &line("duration: 0.5 ms  statement: SELECT 1 FROM \\\"T\\\" WHERE id = 1", "");
        let (records, error) = read(&FORMAT, &text);
        assert_eq!(error, None);
        let told: Vec<_> = records.iter().map(|r| (r.kind, r.key.to_bytes(), r.cost_us)).collect();
        assert_eq!(told, [(Kind::Delete, "t:k=a".into(), None), (Kind::Read, "T:1".into(), Some(500))]);
        assert!((FORMAT.recognises)(text.as_bytes()) && !(FORMAT.recognises)(b"{\"key\":1}\n"));
        let error = read(&FORMAT, "{\"timestamp\":\"now\",\"error_severity\":\"LOG\"}\n").1.expect("no time");
        assert!(error.starts_with("line 1, column time: 'now' is not a date"), "{error}");
    }
}
