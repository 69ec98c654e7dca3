//! Text with a header line that names its columns, as libCacheSim and CacheLib ship them, or as you write them.
//!
//! The header says what each column is; which names are known stands in [`Column::of`]. Columns of other names are
//! passed over. A field ends at the next comma (or semicolon or tab, where the header has no comma), and blanks
//! around it do not count. Or it stands in quotes.

mod column;
pub(crate) mod fields;
mod given;
pub(crate) mod json_lines;
mod names;
mod row;

use std::borrow::Cow;

use crate::dictionary::Dictionary;
use crate::ends::{Ends, end_of};
use crate::error::TraceError;
use crate::input::{Next, Source, Stream, unexpected};
use crate::record::{Record, TraceKey};
use crate::{Format, Records};
use column::{Column, Named, put};
use fields::{Fields, between};
pub use given::column_names;
use row::Row;
pub use row::{CLIENTS_NAMED_MAX, TYPES_NAMED_MAX};

/// Most columns that a header may name.
pub const COLUMNS_MAX: usize = 64;

/// What programs for tables put before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "csv",
    summary: "text with a header naming its columns: `version,time,op,size,lbn` or `# time, object, size, ..`",
    endings: &[".csv", ".tsv"],
    recognises,
    open,
};

fn open(source: Source) -> Result<Records, TraceError> {
    Ok(Stream::boxed(Csv {
        source,
        columns: Vec::new(),
        between: b',',
        line: Vec::new(),
        row: Row::default(),
        ends: None,
        named: Named::default(),
    }))
}

fn recognises(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let columns = names(line, between(line)).flatten().map(|name| Column::of(&name)).collect::<Vec<_>>();
    let beside =
        |column: &Column| matches!(column, Column::Time | Column::Size | Column::Operation | Column::Transaction);
    columns.iter().any(beside) && columns.iter().any(|column| column.is_key())
}

/// Names in a header line, in lower case.
fn names(line: &[u8], between: u8) -> impl Iterator<Item = Result<String, &'static str>> {
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line).trim_ascii();
    let line = line.strip_prefix(b"#").unwrap_or(line);
    let name = |name: Cow<'_, [u8]>| String::from_utf8_lossy(&name).to_ascii_lowercase();
    Fields::of(line, between).map(move |field| field.map(name))
}

struct Csv {
    source: Source,
    /// Columns with their names, empty before the header was read.
    columns: Vec<(Column, String)>,
    /// What stands between fields.
    between: u8,
    line: Vec<u8>,
    row: Row,
    /// Where there are transactions, and no column says when they end.
    ends: Option<Ends>,
    named: Named,
}

impl Next for Csv {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        if self.columns.is_empty() {
            while self.line.trim_ascii().is_empty() {
                if !self.source.line(&mut self.line)? {
                    return Err(TraceError::Cut { offset: 0, what: "before its header line" });
                }
            }
            self.header()?;
        }
        loop {
            if self.row.left > 0 {
                self.row.left -= 1;
                return Ok(Some(self.row.record.clone()));
            }
            if let Some(kind) = self.row.end.take() {
                return Ok(Some(end_of(&self.row.record, kind)));
            }
            if !self.source.line(&mut self.line)? {
                return Ok(self.ends.as_mut().and_then(Ends::last));
            }
            if self.line.trim_ascii().is_empty() {
                continue;
            }
            self.row = self.row()?;
            if let Some(ends) = self.ends.as_mut().filter(|_| self.row.left > 0)
                && let Some(end) = ends.before(&self.row.record)
            {
                return Ok(Some(end));
            }
        }
    }

    fn source(&self) -> Option<&Source> {
        Some(&self.source).filter(|_| !self.columns.is_empty())
    }

    fn takes_cut(&self) -> bool {
        self.source.is_lenient()
    }

    fn dictionary(&self) -> Option<&Dictionary> {
        self.named.types.are_names().then_some(&self.named.dictionary)
    }

    fn warnings(&self) -> Vec<String> {
        let clients = self.named.clients.numbered().map(|numbered| format!("clients have numbers: {numbered}"));
        self.ends.as_ref().and_then(Ends::warning).into_iter().chain(clients).collect()
    }
}

impl Csv {
    fn header(&mut self) -> Result<(), TraceError> {
        self.between = between(&self.line);
        let named = names(&self.line, self.between)
            .take(COLUMNS_MAX + 1)
            .map(|name| name.map(|name| (given::column(self.source.column_names(), &name), name)));
        let wrong = |reason: String| TraceError::Header { reason };
        let mut columns = named.collect::<Result<Vec<_>, _>>().map_err(|why| wrong(why.to_owned()))?;
        if columns.len() > COLUMNS_MAX {
            return Err(wrong(format!("more columns than columns_max {COLUMNS_MAX}")));
        }
        if let Some(missing) = given::missing(self.source.column_names(), &columns) {
            return Err(wrong(unexpected(
                &self.line,
                &format!("a header with the column '{missing}' that --columns names"),
            )));
        }
        let of_keys: Vec<&str> =
            columns.iter().filter(|(column, _)| column.is_key()).map(|(_, name)| name.as_str()).collect();
        match &of_keys[..] {
            [_] => {}
            [] => {
                return Err(wrong(unexpected(
                    &self.line,
                    "a header: no column is named key (or lbn, id, ..); --columns key=.. says which it is",
                )));
            }
            several => {
                return Err(wrong(format!("{} are all names of the key; rename all but one", several.join(", "))));
            }
        }
        let once = columns.iter().map(|(column, _)| *column).filter(|column| *column != Column::Ignored);
        for known in once {
            let alike: Vec<&str> =
                columns.iter().filter(|(column, _)| *column == known).map(|(_, name)| name.as_str()).collect();
            if alike.len() > 1 {
                return Err(wrong(format!("{} mean the same; rename all but one", alike.join(", "))));
            }
        }
        let has = |wanted| columns.iter().any(|(column, _)| *column == wanted);
        let in_parts = has(Column::ValueSize) && !has(Column::Size);
        self.ends = (has(Column::Transaction) && !has(Column::End)).then(Ends::default);
        for (column, _) in columns.iter_mut().filter(|_| !in_parts) {
            if matches!(column, Column::ValueSize | Column::KeySize) {
                *column = Column::Ignored;
            }
        }
        self.columns = columns;
        Ok(())
    }

    /// What the present line says.
    fn row(&mut self) -> Result<Row, TraceError> {
        let mut row = Row { left: 1, ..Row::default() };
        let mut fields = Fields::of(&self.line, self.between);
        for (column, name) in &self.columns {
            let Some(field) = fields.next() else {
                return Err(self.source.line_error(name, format!("missing, the header names {}", self.columns.len())));
            };
            let field = field.map_err(|why| self.source.line_error(name, why))?;
            put(&mut row, &mut self.named, *column, &field).map_err(|reason| self.source.line_error(name, reason))?;
        }
        if fields.next().is_some() {
            let reason = format!("more fields than the {} that the header names", self.columns.len());
            return Err(self.source.line_error("-", reason));
        }
        let wrong = |of: fn(Column) -> bool, reason: &str| {
            let name = self.columns.iter().find(|(column, _)| of(*column)).map_or("-", |(_, name)| name);
            Err(self.source.line_error(name, reason))
        };
        match (&row.record.key, row.end) {
            (_, Some(_)) if row.record.txn == 0 => wrong(|column| column == Column::End, "no transaction ends here"),
            (TraceKey::None, None) => wrong(Column::is_key, "empty, expected a key"),
            (TraceKey::None, Some(_)) => Ok(Row { left: 0, ..row }),
            _ if row.no_operation => wrong(|column| column == Column::Operation, "empty, expected an operation"),
            _ => Ok(row),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;

    fn read(text: &str) -> (Vec<Record>, Option<String>) {
        let (mut records, mut error) = (Vec::new(), None);
        for record in open(Source::new(std::io::Cursor::new(text.to_owned()))).unwrap() {
            match record {
                Ok(record) => records.push(record),
                Err(found) => error = Some(found.to_string()),
            }
        }
        (records, error)
    }

    #[test]
    fn columns_are_found_by_name() {
        let (records, error) = read("version,time,op,size,lbn\n1,2,2a,512,42\r\n\n1,3.25,28,7,18446744073709551615\n");
        assert_eq!(error, None);
        let (time_us, size) = (Some(2_000_000), Some(512));
        let first = Record { time_us, size, kind: Kind::Write, key: TraceKey::Number(42), ..Record::default() };
        let (time_us, size) = (Some(3_250_000), Some(7));
        let second = Record { time_us, size, key: TraceKey::Number(u64::MAX), ..Record::default() };
        assert_eq!(records, [first, second]);
        let (records, error) = read("# time, object, size, next_access_vtime\n0, 007, 737, -1\n0, a b, 1, 4");
        assert_eq!(error, None);
        let keys: Vec<_> = records.iter().map(|record| record.key.to_bytes()).collect();
        assert_eq!(keys, ["007", "a b"]);
    }

    #[test]
    fn all_that_a_record_has_can_be_named_and_a_row_can_stand_for_many() {
        let (records, error) =
            read("txn,level,vertex,txn_type,client,hints,cost_us,key,op,count\n7,1,2,3,4,5,6,a,set,2\n");
        assert_eq!((records.len(), error), (3, None), "its transaction ends with the trace");
        let Record { txn, level, vertex, txn_type, client, hints, cost_us, .. } = records[1].clone();
        assert_eq!((txn, level, vertex, txn_type, client, hints, cost_us), (7, 1, 2, 3, 4, 5, Some(6)));
        assert!(read("key,count\na,1048577\n").1.expect("too many").contains("requests_per_line_max"));
        assert!(read("key,level\na,65536\n").1.expect("too large").contains("2^16"));
    }

    #[test]
    fn transactions_end_where_a_column_says_so_or_with_the_next() {
        let ends = |text: &str| {
            let (records, error) = read(text);
            assert_eq!(error, None, "{text}");
            let end = |record: &Record| (record.kind, record.txn, record.key == TraceKey::None);
            records.iter().map(end).collect::<Vec<_>>()
        };
        use Kind::{Aborted, Committed, Read, Write};
        let told = ends("txn,op,key,end\n1,read,a,\n1,write,b,commit\n2,read,a,\n3,read,a,\n2,,,abort\n");
        let expected = [
            (Read, 1, false),
            (Write, 1, false),
            (Committed, 1, true),
            (Read, 2, false),
            (Read, 3, false),
            (Aborted, 2, true),
        ];
        assert_eq!(told, expected);
        let told = ends("txn,key\n1,a\n1,b\n2,a\n");
        let first = [(Read, 1, false), (Read, 1, false), (Committed, 1, true)];
        assert_eq!((&told[..3], &told[3..]), (&first[..], &[(Read, 2, false), (Committed, 2, true)][..]));
        for (row, column) in
            [("1,read,a,maybe", "end"), ("0,read,a,commit", "end"), ("1,,a,", "op"), ("1,read,,", "key")]
        {
            let error = read(&format!("txn,op,key,end\n{row}\n")).1.expect(row);
            assert!(error.starts_with(&format!("line 2, column {column}: ")), "{row}: {error}");
        }
    }

    #[test]
    fn clients_and_types_may_have_names() {
        let text =
            "\u{feff}txn,client,txn_type,key,value_size,key_size\r\n1,alice,Balance,a,100,2\r\n2,bob,Pay,b,,\r\n";
        assert!(recognises(format!("\u{feff}time,key,size\n{text}").as_bytes()), "a byte order mark is passed over");
        let mut reader = open(Source::new(std::io::Cursor::new(text))).unwrap();
        let records: Vec<_> = reader.by_ref().map(|record| record.expect("sound")).collect();
        let accesses: Vec<_> = records.iter().filter(|record| record.kind.is_access()).collect();
        let named = |record: &&Record| (record.client, record.txn_type, record.size);
        assert_eq!(accesses.iter().map(named).collect::<Vec<_>>(), [(1, 1, Some(102)), (2, 2, None)]);
        let names = reader.dictionary().expect("types have names");
        assert_eq!((names.txn_type(1).unwrap(), names.txn_type(2).unwrap()), (&"Balance".into(), &"Pay".into()));
        let sized = read("key,key_size,value_size,size\na,5,7,9\n").0;
        assert_eq!(sized[0].size, Some(9), "what is named so is the size");
        let error = read("key,value_size,key_size\na,4294967295,1\n").1.expect("too large");
        assert!(error.contains("column key_size") && error.contains("4 GiB"), "{error}");
        assert!(read("client,key\n7,a\nbob,a\n").1.expect("mixed").contains("as the first row has one"));
    }

    #[test]
    fn malformed_rows_are_named_by_line_and_column() {
        for (row, column) in [
            ("1,2,2a,512", ", column lbn"),
            ("1,2,2a,512,42,9", ""),
            ("1,x,2a,512,42", ", column time"),
            ("1,,2a,512,42", ", column time"),
            ("1,1.,2a,512,42", ", column time"),
            ("1,1.x,2a,512,42", ", column time"),
            ("1,1.1234567x,2a,512,42", ", column time"),
            ("1,18446744073709551616,2a,512,42", ", column time"),
            ("1,2,ff,512,42", ", column op"),
            ("1,2,2a,-5,42", ", column size"),
            ("1,2,2a,4294967296,42", ", column size"),
            ("1,2,2a,.0,42", ", column size"),
            ("1,2,2a,512,abc", ", column lbn"),
            ("1,2,2a,512,", ", column lbn"),
        ] {
            let (records, error) = read(&format!("version,time,op,size,lbn\n1,2,2a,512,42\n{row}\n1,2,2a,512,42\n"));
            assert_eq!(records.len(), 1, "{row}");
            let error = error.expect(row);
            assert!(error.starts_with(&format!("line 3{column}: ")) && error.contains("--lenient"), "{row}: {error}");
        }
    }

    #[test]
    fn a_header_must_name_one_key() {
        for header in ["1,2,3", "time,size", "lbn,object,time", "time,timestamp,key", "\u{fffd}"] {
            let (records, error) = read(&format!("{header}\n1,2,3\n"));
            assert!(records.is_empty(), "{header}");
            let error = error.expect(header);
            assert!(error.starts_with("line 1: ") && error.contains("name the columns"), "{error}");
        }
        assert!(read("tag;cache_key\n1;2\n").1.unwrap().contains("'tag;cache_key' is not a header"));
        assert!(read("key,size,id\n").1.unwrap().contains("key, id are all names of the key"));
        assert_eq!(read("\n \r\nkey\na\n").0.len(), 1, "blank lines before it are passed over");
        assert!(read("\n\n").1.unwrap().contains("cut short"));
        assert!(read("").1.unwrap().contains("cut short"));
        assert!(read(&format!("key{}\n", ",x".repeat(COLUMNS_MAX))).1.unwrap().contains("columns_max"));
    }

    /// As databases, their logs and programs for tables write them.
    #[test]
    fn exports_are_read_as_they_are() {
        let text = "Timestamp,OP,key,size\r\n1772366400123,HGETALL,a,NULL\r\n1772366400123456,Select,b,\\N\r\n\
                    1772366400123456789,DEL,c,nan\n2026-03-01T12:00:00.123456Z,insert,d,512.0\n5,EXPIRE,e,-\n";
        let (records, error) = read(text);
        assert_eq!(error, None);
        let us = 1_772_366_400_123_456;
        let times: Vec<_> = records.iter().filter_map(|record| record.time_us).collect();
        assert_eq!(times, [us - 456, us, us, us, 5_000_000]);
        let kinds: Vec<_> = records.iter().map(|record| record.kind).collect();
        assert_eq!(kinds, [Kind::Read, Kind::Read, Kind::Delete, Kind::Write, Kind::Write]);
        assert_eq!(records.iter().map(|record| record.size).collect::<Vec<_>>(), [None, None, None, Some(512), None]);
        let why = read("key,op\na,FROBNICATE\n").1.expect("no operation");
        assert!(why.contains("'frobnicate' is not") && why.contains("Redis"), "{why}");
    }
}
