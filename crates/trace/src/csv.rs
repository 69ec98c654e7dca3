//! Text with a header line that names its columns, as libCacheSim and CacheLib ship them, or as you write them.
//!
//! The header says what each column is; which names are known stands in [`Column::of`]. Columns of other names are
//! passed over. There is no quoting: a field ends at the next comma, and blanks around it do not count.

use bytes::Bytes;

use crate::ends::{Ends, end_of};
use crate::error::TraceError;
use crate::input::{Next, Source, Stream, decimal, seconds, unexpected};
use crate::lines::REQUESTS_PER_LINE_MAX;
use crate::record::{Kind, Record, TraceKey};
use crate::{Format, Records};

/// Most columns that a header may name.
pub const COLUMNS_MAX: usize = 64;

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "csv",
    summary: "text with a header naming its columns: `version,time,op,size,lbn` or `# time, object, size, ..`",
    endings: &[".csv"],
    recognises,
    open,
};

fn open(source: Source) -> Result<Records, TraceError> {
    Ok(Stream::boxed(Csv { source, columns: Vec::new(), line: Vec::new(), row: Row::default(), ends: None }))
}

fn recognises(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let columns = names(line).map(|name| Column::of(&name)).collect::<Vec<_>>();
    columns.len() > 1 && columns.contains(&Column::Time) && columns.iter().any(|column| column.is_key())
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// Seconds, with decimals if need be.
    Time,
    /// A block number.
    Block,
    /// A key: a number where it is written as one, else its bytes.
    Key,
    /// Bytes.
    Size,
    /// SCSI operation code in hex, or a word.
    Operation,
    /// How many requests the row stands for.
    Count,
    /// Microseconds that fetching costs.
    Cost,
    /// A number that stands in the record of this name.
    Client,
    /// As above.
    Hints,
    /// As above.
    Transaction,
    /// As above.
    Type,
    /// As above.
    Level,
    /// As above.
    Vertex,
    /// As above: the key space.
    Space,
    /// Bytes that forebay's cache charges.
    Charge,
    /// Whether the transaction ends with this row, and how.
    End,
    /// Something else.
    Ignored,
}

impl Column {
    fn of(name: &str) -> Column {
        match name {
            "time" | "timestamp" | "clock_time" | "op_time" => Column::Time,
            "lbn" => Column::Block,
            "object" | "object_id" | "obj_id" | "key" | "id" | "block_id" => Column::Key,
            "size" | "object_size" | "obj_size" | "io_size" => Column::Size,
            "op" | "op_name" => Column::Operation,
            "op_count" | "count" => Column::Count,
            "cost_us" => Column::Cost,
            "client" => Column::Client,
            "hints" => Column::Hints,
            "txn" => Column::Transaction,
            "txn_type" => Column::Type,
            "level" => Column::Level,
            "vertex" => Column::Vertex,
            "space" => Column::Space,
            "charge" => Column::Charge,
            "end" => Column::End,
            _ => Column::Ignored,
        }
    }

    fn is_key(self) -> bool {
        matches!(self, Column::Block | Column::Key)
    }
}

/// Names in a header line, in lower case.
fn names(line: &[u8]) -> impl Iterator<Item = String> {
    let line = line.trim_ascii();
    let line = line.strip_prefix(b"#").unwrap_or(line);
    line.split(|&byte| byte == b',').map(|name| String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase())
}

struct Csv {
    source: Source,
    /// Columns with their names, empty before the header was read.
    columns: Vec<(Column, String)>,
    line: Vec<u8>,
    row: Row,
    /// Where there are transactions, and no column says when they end.
    ends: Option<Ends>,
}

/// What a row says.
#[derive(Default)]
struct Row {
    record: Record,
    /// How many more requests it stands for.
    left: u64,
    /// How its transaction ends with it.
    end: Option<Kind>,
    /// It says no operation, which only an end may.
    no_operation: bool,
}

impl Next for Csv {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        if self.columns.is_empty() {
            if !self.source.line(&mut self.line)? {
                return Err(TraceError::Cut { offset: 0, what: "before its header line" });
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

    fn warning(&self) -> Option<String> {
        self.ends.as_ref().and_then(Ends::warning)
    }
}

impl Csv {
    fn header(&mut self) -> Result<(), TraceError> {
        let columns: Vec<_> = names(&self.line).take(COLUMNS_MAX + 1).map(|name| (Column::of(&name), name)).collect();
        if columns.len() > COLUMNS_MAX {
            let reason = format!("more columns than columns_max {COLUMNS_MAX}");
            return Err(self.source.line_error("-", reason));
        }
        let keys = columns.iter().filter(|(column, _)| column.is_key()).count();
        if keys != 1 {
            let found = unexpected(&self.line, "a header with one key column (lbn, object, obj_id, key or id)");
            return Err(self.source.line_error("-", format!("{found}, it has {keys}")));
        }
        let once = columns.iter().map(|(column, _)| *column).filter(|column| *column != Column::Ignored);
        for known in once {
            if let Some((_, name)) = columns.iter().filter(|(column, _)| *column == known).nth(1) {
                return Err(self.source.line_error(name, "a second column of the same meaning"));
            }
        }
        let has = |wanted| columns.iter().any(|(column, _)| *column == wanted);
        self.ends = (has(Column::Transaction) && !has(Column::End)).then(Ends::default);
        self.columns = columns;
        Ok(())
    }

    /// What the present line says.
    fn row(&self) -> Result<Row, TraceError> {
        let mut row = Row { left: 1, ..Row::default() };
        let mut fields = self.line.split(|&byte| byte == b',');
        for (column, name) in &self.columns {
            let Some(field) = fields.next() else {
                return Err(self.source.line_error(name, format!("missing, the header names {}", self.columns.len())));
            };
            put(&mut row, *column, field.trim_ascii()).map_err(|reason| self.source.line_error(name, reason))?;
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

fn put(row: &mut Row, column: Column, field: &[u8]) -> Result<(), String> {
    let record = &mut row.record;
    // What is not known may be left empty; whether a key may be shows the rest of the row.
    let optional = matches!(column, Column::Size | Column::Cost | Column::Charge | Column::End);
    if field.is_empty() && (optional || column.is_key()) {
        return Ok(());
    }
    match column {
        Column::Time => record.time_us = Some(seconds(field)?),
        Column::Block => record.key = TraceKey::Number(decimal(field)?),
        Column::Key => record.key = key(field),
        Column::Size => record.size = Some(number(field, "a size in bytes below 2^32")?),
        Column::Operation if field.is_empty() => row.no_operation = true,
        Column::Operation => record.kind = operation(field)?,
        Column::Count => {
            let count = decimal(field)?;
            if count > REQUESTS_PER_LINE_MAX {
                return Err(format!("{count} requests are more than requests_per_line_max {REQUESTS_PER_LINE_MAX}"));
            }
            row.left = count;
        }
        Column::Cost => record.cost_us = Some(number(field, "microseconds below 2^32")?),
        Column::Client => record.client = number(field, "a number below 2^32")?,
        Column::Hints => record.hints = number(field, "a number below 2^32")?,
        Column::Transaction => record.txn = decimal(field)?,
        Column::Type => record.txn_type = number(field, "a number below 2^16")?,
        Column::Level => record.level = number(field, "a number below 2^16")?,
        Column::Vertex => record.vertex = number(field, "a number below 2^16")?,
        Column::Space => record.space = number(field, "a number below 2^8")?,
        Column::Charge => record.charged = Some(number(field, "a size in bytes below 2^32")?),
        Column::End => row.end = Some(end(field)?),
        Column::Ignored => {}
    }
    Ok(())
}

/// How a transaction ends.
fn end(field: &[u8]) -> Result<Kind, String> {
    match &field.to_ascii_lowercase()[..] {
        b"commit" | b"committed" => Ok(Kind::Committed),
        b"abort" | b"aborted" => Ok(Kind::Aborted),
        _ => Err(unexpected(field, "commit, abort, or nothing")),
    }
}

/// A number of the type that is asked for.
fn number<T: TryFrom<u64>>(field: &[u8], expected: &str) -> Result<T, String> {
    T::try_from(decimal(field)?).map_err(|_| unexpected(field, expected))
}

/// A number only if it is written as numbers are printed, so that `7` and `007` stay two keys.
fn key(field: &[u8]) -> TraceKey {
    match decimal(field) {
        Ok(number) if field == b"0" || field[0] != b'0' => TraceKey::Number(number),
        _ => TraceKey::Bytes(Bytes::copy_from_slice(field)),
    }
}

/// SCSI READ and WRITE in their forms of 6, 10, 12 and 16 bytes, or a word.
fn operation(field: &[u8]) -> Result<Kind, String> {
    let field = field.to_ascii_lowercase();
    // CacheLib's block traces name an operation and a class of it.
    let word = field.split(|&byte| byte == b'.').next().unwrap_or_default();
    let kind = match word {
        b"28" | b"8" | b"08" | b"a8" | b"88" | b"r" | b"read" | b"get" | b"get_lease" | b"getchunkdata" => Kind::Read,
        b"2a" | b"a" | b"0a" | b"aa" | b"8a" | b"w" | b"write" | b"set" | b"set_lease" | b"put" | b"putchunk" => {
            Kind::Write
        }
        b"d" | b"delete" | b"del" => Kind::Delete,
        b"prefetch" => Kind::Prefetch,
        b"demote" => Kind::Demote,
        _ => return Err(unexpected(&field, "a SCSI READ (28) or WRITE (2a) code, or read, write or delete")),
    };
    Ok(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn malformed_rows_are_named_by_line_and_column() {
        for (row, column) in [
            ("1,2,2a,512", "lbn"),
            ("1,2,2a,512,42,9", "-"),
            ("1,x,2a,512,42", "time"),
            ("1,,2a,512,42", "time"),
            ("1,1.,2a,512,42", "time"),
            ("1,1.x,2a,512,42", "time"),
            ("1,1.1234567x,2a,512,42", "time"),
            ("1,18446744073709551615,2a,512,42", "time"),
            ("1,2,ff,512,42", "op"),
            ("1,2,2a,-5,42", "size"),
            ("1,2,2a,4294967296,42", "size"),
            ("1,2,2a,512,abc", "lbn"),
            ("1,2,2a,512,", "lbn"),
        ] {
            let (records, error) = read(&format!("version,time,op,size,lbn\n1,2,2a,512,42\n{row}\n1,2,2a,512,42\n"));
            assert_eq!(records.len(), 1, "{row}");
            let error = error.expect(row);
            assert!(error.starts_with(&format!("line 3, column {column}: ")), "{row}: {error}");
        }
    }

    #[test]
    fn a_header_must_name_one_key() {
        for header in ["1,2,3", "time,size", "lbn,object,time", "time,timestamp,key", "", "\u{fffd}"] {
            let (records, error) = read(&format!("{header}\n1,2,3\n"));
            assert!(records.is_empty(), "{header}");
            assert!(error.expect(header).starts_with("line 1, column "), "{header}");
        }
        assert!(read("").1.unwrap().contains("cut short"));
        assert!(read(&format!("key{}\n", ",x".repeat(COLUMNS_MAX))).1.unwrap().contains("columns_max"));
    }
}
