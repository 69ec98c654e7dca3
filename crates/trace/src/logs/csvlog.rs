//! PostgreSQL's log with `log_destination = csvlog`.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::clients::without_port;
use super::left_out::LeftOut;
use super::postgres::{Entry, Postgres, time_us};
use super::{Log, open};
use crate::Format;
use crate::csv::fields::Fields;
use crate::lines::Wrong;
use crate::record::Record;

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "postgres-csvlog",
    summary: "PostgreSQL's csvlog with `log_statement = all`: what statements ask for by column = value",
    endings: &[".csv"],
    recognises,
    open: |source| Ok(open(source, CsvLog::default())),
};

/// Columns that count, by place.
const TIME: usize = 0;
const USER: usize = 1;
const CLIENT: usize = 4;
const SESSION: usize = 5;
const SEVERITY: usize = 11;
const MESSAGE: usize = 13;
const DETAIL: usize = 14;

/// Columns of the first release that has such a log.
const COLUMNS_MIN: usize = 22;

/// What is wrong with an entry may be.
const SEVERITIES: [&[u8]; 9] =
    [b"LOG", b"ERROR", b"FATAL", b"PANIC", b"WARNING", b"NOTICE", b"INFO", b"DEBUG", b"STATEMENT"];

#[derive(Default)]
struct CsvLog(Postgres);

fn recognises(head: &[u8]) -> bool {
    let fields: Vec<Cow<'_, [u8]>> = Fields::of(head, b',').take(SEVERITY + 1).map_while(Result::ok).collect();
    fields.len() > SEVERITY && time_us(&fields[TIME]).is_some() && is_severity(&fields[SEVERITY])
}

fn is_severity(field: &[u8]) -> bool {
    SEVERITIES.iter().any(|severity| field.starts_with(severity))
}

impl Log for CsvLog {
    fn entry(&mut self, text: &[u8], due: &mut VecDeque<Record>) -> Result<(), Wrong> {
        let fields: Result<Vec<Cow<'_, [u8]>>, &str> = Fields::of(text, b',').take(COLUMNS_MIN).collect();
        let fields = fields.map_err(|why| ("-", why.to_owned()))?;
        if fields.len() < COLUMNS_MIN {
            return Err(("-", format!("{} columns, expected at least {COLUMNS_MIN} of a csvlog", fields.len())));
        }
        if !is_severity(&fields[SEVERITY]) {
            return Err(("error_severity", crate::input::unexpected(&fields[SEVERITY], "LOG, ERROR or the like")));
        }
        let host = without_port(&fields[CLIENT]);
        let message = String::from_utf8_lossy(&fields[MESSAGE]);
        let detail = String::from_utf8_lossy(&fields[DETAIL]);
        let entry = Entry {
            time: &fields[TIME],
            client: if host.is_empty() { &fields[USER] } else { host },
            session: &fields[SESSION],
            message: &message,
            detail: &detail,
        };
        self.0.entry(&entry, due)
    }

    fn has_long_quotes(&self) -> bool {
        true
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

    fn line(session: &str, message: &str, detail: &str) -> String {
        format!(
            "2026-01-31 12:30:00.250 UTC,\"app\",\"shop\",71,\"10.0.0.5:5123\",{session},1,\"SELECT\",\
             2026-01-31 12:00:00 UTC,4/5,0,LOG,00000,\"{message}\",\"{detail}\",,,,,,,,\"\",\"client backend\",,0\n"
        )
    }

    #[test]
    fn statements_become_accesses_and_sessions_transactions() {
        let text = line("a.1", "statement: BEGIN", "")
            + &line("a.1", "execute <unnamed>: SELECT *\n  FROM \"\"users\"\" WHERE id = $1", "parameters: $1 = '5'")
            + &line("b.2", "statement: SELECT 1 FROM users WHERE id = 5", "")
            + &line("a.1", "statement: UPDATE users SET a = 'x' WHERE id = 5", "")
            + &line("a.1", "statement: COMMIT", "")
            + &line("a.1", "connection authorized", "");
        let (records, error) = read(&FORMAT, &text);
        assert_eq!(error, None);
        let told: Vec<_> = records.iter().map(|r| (r.kind, r.txn, r.level, r.client)).collect();
        use Kind::{Committed, Read, Write};
        assert_eq!(told, [(Read, 1, 0, 1), (Read, 0, 0, 1), (Write, 1, 1, 1), (Committed, 1, 1, 1)]);
        assert!(records[..3].iter().all(|record| record.key.to_bytes() == "users:5"));
        assert_eq!(records[0].time_us, Some(1_769_862_600_250_000));
        assert!((FORMAT.recognises)(text.as_bytes()) && !(FORMAT.recognises)(b"time,key,size\n1,2,3\n"));
    }

    #[test]
    fn malformed_entries_are_named_and_half_a_one_at_the_end_is_none() {
        let whole = line("a.1", "statement: SELECT 1 FROM t WHERE id = 5", "");
        for cut in [30, 100, whole.len() - 60] {
            let (records, error) = read(&FORMAT, &(whole.clone() + &whole[..cut]));
            assert_eq!((records.len(), error), (1, None), "{cut}");
        }
        let error = read(&FORMAT, &format!("a,b\n{whole}")).1.expect("no entry");
        assert!(error.starts_with("line 1: 2 columns, expected at least 22"), "{error}");
        // A quote that does not end swallows no more than its bound.
        let swallowed = format!("\"{}", whole.repeat(8_000));
        assert!(read(&FORMAT, &swallowed).1.is_some_and(|error| error.contains("a quote that does not end")));
    }
}
