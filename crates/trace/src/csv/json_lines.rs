//! Objects of JSON, one in each line, whose fields are the columns of a table: logs as programs write them.
//!
//! A field of an object within has the names of both, `request.path`. What a field means says its name, as in a CSV.

use serde_json::{Map, Value};

use super::column::{Column, Named, put};
use super::given;
use super::row::Row;
use crate::dictionary::Dictionary;
use crate::ends::{Ends, end_of};
use crate::error::TraceError;
use crate::input::{HEAD_BYTES, Next, Source, Stream};
use crate::record::{Record, TraceKey};
use crate::{Format, Records};

/// Objects within objects.
const DEPTH_MAX: usize = 8;

/// Fields that are listed where none of them is the key.
const SHOWN_MAX: usize = 12;

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "json-lines",
    summary: "an object in each line; its fields are columns as a CSV has them, or as --columns says",
    endings: &[".jsonl", ".ndjson"],
    recognises,
    open,
};

fn recognises(head: &[u8]) -> bool {
    let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let is_object = |line: &[u8]| serde_json::from_slice::<Map<String, Value>>(line).is_ok();
    match lines.next() {
        // A line that is longer than the head can't be told to be whole.
        Some(line) if line.len() >= HEAD_BYTES => line.starts_with(b"{\""),
        Some(line) => is_object(line),
        None => false,
    }
}

fn open(source: Source) -> Result<Records, TraceError> {
    Ok(Stream::boxed(JsonLines {
        source,
        line: Vec::new(),
        row: Row::default(),
        ends: Ends::default(),
        named: Named::default(),
        half: None,
    }))
}

struct JsonLines {
    source: Source,
    line: Vec<u8>,
    row: Row,
    /// Of transactions whose rows do not say when they end.
    ends: Ends,
    named: Named,
    /// The last line, if it is a part of one.
    half: Option<u64>,
}

impl Next for JsonLines {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            if self.row.left > 0 {
                self.row.left -= 1;
                return Ok(Some(self.row.record.clone()));
            }
            if let Some(kind) = self.row.end.take() {
                return Ok(Some(end_of(&self.row.record, kind)));
            }
            if !self.source.line(&mut self.line)? {
                return Ok(self.ends.last());
            }
            if self.line.trim_ascii().is_empty() {
                continue;
            }
            match self.row() {
                Ok(row) => self.row = row,
                Err(_) if !self.source.line_is_whole() => {
                    self.half = Some(self.source.line_number());
                    continue;
                }
                Err((column, reason)) => return Err(self.source.line_error(&column, reason)),
            }
            let goes_on = self.row.left > 0 && self.row.end.is_none() && self.row.record.txn != 0;
            if let Some(end) = self.ends.before(&self.row.record).filter(|_| goes_on) {
                return Ok(Some(end));
            }
        }
    }

    fn source(&self) -> Option<&Source> {
        Some(&self.source)
    }

    fn dictionary(&self) -> Option<&Dictionary> {
        self.named.types.are_names().then_some(&self.named.dictionary)
    }

    fn warnings(&self) -> Vec<String> {
        let half = self.half.map(|line| format!("line {line} is the last and a part of one, and is left out"));
        self.ends.warning().into_iter().chain(half).collect()
    }
}

impl JsonLines {
    /// What the present line says; else in which field something is wrong, and what.
    fn row(&mut self) -> Result<Row, (String, String)> {
        let object: Map<String, Value> = serde_json::from_slice(&self.line)
            .map_err(|error| ("-".to_owned(), format!("no object of JSON: {error}")))?;
        let mut fields = Vec::new();
        flatten("", &object, DEPTH_MAX, &mut fields);
        let mut row = Row { left: 1, ..Row::default() };
        let mut met: Vec<(Column, &str)> = Vec::new();
        for (name, value) in &fields {
            let column = self.column(name);
            // Loggers call how bad it is a level.
            let other = column == Column::Level && value.is_string();
            if other || column == Column::Ignored || value.is_null() {
                continue;
            }
            let alike = |other: &&(Column, &str)| other.0 == column || other.0.is_key() && column.is_key();
            if let Some((_, other)) = met.iter().find(alike) {
                let why = format!("{other} and {name} mean the same; --columns {}=.. says which counts", word(column));
                return Err((name.clone(), why));
            }
            met.push((column, name));
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            put(&mut row, &mut self.named, column, text.trim().as_bytes()).map_err(|why| (name.clone(), why))?;
        }
        match (&row.record.key, row.end) {
            (TraceKey::None, Some(_)) if row.record.txn != 0 => Ok(Row { left: 0, ..row }),
            (TraceKey::None, _) => Err(("-".to_owned(), self.without_key(&fields))),
            (_, Some(_)) if row.record.txn == 0 => Err(("end".to_owned(), "no transaction ends here".to_owned())),
            _ => Ok(row),
        }
    }

    /// What a field means: where --columns is given, only what it names means anything.
    fn column(&self, name: &str) -> Column {
        let (given, name) = (self.source.column_names(), name.to_ascii_lowercase());
        match given.pairs().is_empty() || given.pairs().iter().any(|(_, theirs)| *theirs == name) {
            true => given::column(given, &name),
            false => Column::Ignored,
        }
    }

    /// Why there is no key.
    fn without_key(&self, fields: &[(String, &Value)]) -> String {
        let names: Vec<&str> = fields.iter().take(SHOWN_MAX).map(|(name, _)| name.as_str()).collect();
        let names = names.join(", ").escape_debug().to_string();
        let dots = if fields.len() > SHOWN_MAX { ", .." } else { "" };
        let given = self.source.column_names().pairs().iter().find(|(ours, _)| Column::of(ours).is_key());
        match given {
            Some((_, theirs)) => format!("no field '{theirs}', which --columns names as the key, only {names}{dots}"),
            None => format!("no field is named key; --columns key=.. says which it is, of {names}{dots}"),
        }
    }
}

/// A name that --columns takes.
fn word(column: Column) -> &'static str {
    match column {
        Column::Time => "time",
        Column::Size => "size",
        Column::Operation => "op",
        Column::Count => "count",
        column if column.is_key() => "key",
        _ => "NAME",
    }
}

/// The fields of an object and of those within, by their names.
fn flatten<'a>(before: &str, object: &'a Map<String, Value>, depth: usize, fields: &mut Vec<(String, &'a Value)>) {
    for (name, value) in object {
        let name = if before.is_empty() { name.clone() } else { format!("{before}.{name}") };
        match value {
            Value::Object(inner) if depth > 1 => flatten(&name, inner, depth - 1, fields),
            Value::Object(_) | Value::Array(_) => {}
            value => fields.push((name, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::read;
    use crate::record::Kind;
    use crate::{TraceOptions, column_names, open_bytes};
    use std::path::Path;

    fn with_columns(columns: &str, text: &str) -> (Vec<Record>, Option<String>) {
        let options = TraceOptions { columns: column_names(columns).expect("pairs"), ..TraceOptions::default() };
        let bytes = Box::new(std::io::Cursor::new(text.to_owned()));
        let (mut records, mut error) = (Vec::new(), None);
        for record in open_bytes(bytes, Path::new("a.log"), &options).expect("opened") {
            match record {
                Ok(record) => records.push(record),
                Err(found) => error = Some(found.to_string()),
            }
        }
        (records, error)
    }

    #[test]
    fn fields_are_columns() {
        let text = "{\"time\":\"10/Oct/2000:13:55:36 -0700\",\"op\":\"GET\",\"key\":\"/a\",\"size\":7,\"x\":[1],\
                    \"level\":\"info\"}\n\n\
                    {\"key\":9,\"size\":null,\"client\":\"ann\"}\n";
        let (records, error) = read(&FORMAT, text);
        assert_eq!(error, None);
        let key = TraceKey::Bytes("/a".into());
        let first = Record { time_us: Some(971_211_336_000_000), key, size: Some(7), ..Record::default() };
        assert_eq!(records, [first, Record { key: TraceKey::Number(9), client: 1, ..Record::default() }]);
        assert!((FORMAT.recognises)(text.as_bytes()) && !(FORMAT.recognises)(b"{1}\n{2}\n"));
    }

    #[test]
    fn columns_name_any_field() {
        let text = "{\"ts\":1.5,\"request\":{\"Path\":\"/a\",\"method\":\"PUT\"},\"bytes\":\"12\",\"key\":\"no\"}\n";
        let columns = "key=request.path,op=request.method,size=bytes,time=ts";
        let (records, error) = with_columns(columns, text);
        let of = |record: &Record| (record.kind, record.key.to_bytes(), record.size, record.time_us);
        assert_eq!(error, None);
        assert_eq!(of(&records[0]), (Kind::Write, "/a".into(), Some(12), Some(1_500_000)));
        let error = with_columns("key=path", text).1.expect("none");
        assert!(error.starts_with("line 1: no field 'path', which --columns names as the key, only bytes, key,"));
    }

    #[test]
    fn rows_of_transactions_end_as_in_a_csv() {
        let text = "{\"txn\":1,\"key\":\"a\"}\n{\"txn\":1,\"key\":\"b\"}\n{\"txn\":2,\"key\":\"a\"}\n";
        let kinds: Vec<_> = read(&FORMAT, text).0.iter().map(|record| (record.kind, record.txn)).collect();
        let (read_, ended) = (Kind::Read, Kind::Committed);
        assert_eq!(kinds, [(read_, 1), (read_, 1), (ended, 1), (read_, 2), (ended, 2)]);
    }

    #[test]
    fn malformed_lines_are_named() {
        for (line, why) in [
            ("{", "line 1: no object of JSON"),
            ("[1]", "line 1: no object of JSON"),
            ("{\"size\":1,\"a\\u0007\":2}", "line 1: no field is named key; --columns key=.. says which it is, of "),
            ("{\"key\":\"a\",\"size\":-1}", "line 1, column size: "),
            ("{\"key\":\"a\",\"id\":\"b\"}", "line 1, column key: id and key mean the same; --columns key=.."),
            ("{\"key\":\"a\",\"end\":\"commit\"}", "line 1, column end: no transaction"),
        ] {
            let error = read(&FORMAT, &format!("{line}\n")).1.expect(line);
            assert!(error.starts_with(why), "{line}: {error}");
            assert_eq!(read(&FORMAT, line), (vec![], None), "half of it, {line}");
        }
        let deep = "{\"a\":".repeat(200) + "1" + &"}".repeat(200) + "\n";
        assert!(read(&FORMAT, &deep).1.is_some());
    }
}
