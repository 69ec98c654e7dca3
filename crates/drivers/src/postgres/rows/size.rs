//! Rows that are long. A row goes to the database and comes from it whole, and is in memory several times on its way.
//! So there is a most that a row may be, and a row above [`LARGE_BYTES`] waits for room before it is read.
//!
//! **Invariant.** No statement answers with a row of more than [`Table::row_bytes_max`] bytes: in the place of its long
//! columns stands its size. It is counted as it travels: each column as its text, in which bytes are two digits each.
//!
//! [`LARGE_BYTES`]: crate::postgres::sql::LARGE_BYTES

use tokio_postgres::{Client, Error};

use super::texts::Texts;
use crate::sql::table::{Column, Kind, Limit, ReadOnly, Table, quoted};

/// Types whose values are short.
const SHORT: [&str; 13] = [
    "boolean",
    "\"char\"",
    "cidr",
    "date",
    "inet",
    "interval",
    "macaddr",
    "money",
    "time with time zone",
    "time without time zone",
    "timestamp with time zone",
    "timestamp without time zone",
    "uuid",
];

/// Most characters of a column that is short.
const SHORT_CHARACTERS: usize = 1024;

/// For so long rows are counted that are too large, ms: a count goes through the whole table.
pub(in crate::postgres) const COUNTED_MS: u32 = 2000;

impl Column {
    fn is_long(&self) -> bool {
        let short = match (&self.kind, &self.limit) {
            (Kind::Integer | Kind::Number, _) | (_, Some(Limit::Labels(_))) => true,
            (_, Some(Limit::Characters(most))) => *most <= SHORT_CHARACTERS,
            _ => SHORT.contains(&self.type_name.as_str()) || self.read_only == Some(ReadOnly::Key),
        };
        !short
    }

    /// Bytes of its value in the row `t`; of most types told without reading the value.
    fn bytes(&self) -> String {
        let name = quoted(&self.name);
        match self.kind {
            Kind::Bytes => format!("coalesce(2 * octet_length(t.{name})::bigint, 0)"),
            _ => format!("coalesce(octet_length(t.{name}::text)::bigint, 0)"),
        }
    }
}

impl Table {
    /// Bytes of the long columns of the row `t`; none if it has no such column.
    pub(super) fn bytes(&self) -> Option<String> {
        let long: Vec<String> = self.fields.iter().filter(|column| column.is_long()).map(Column::bytes).collect();
        (!long.is_empty()).then(|| long.join(" + "))
    }

    /// What is read of the row `t` if it has at most `bytes_max` bytes, and its size behind that if it has more; and
    /// what is to be joined for it.
    pub(super) fn read_within(&self, bytes_max: usize) -> (String, String) {
        let bytes = self.bytes().filter(|_| i64::try_from(bytes_max).is_ok());
        let column = |column: &Column| match bytes.is_some() && column.is_long() {
            true => format!("CASE WHEN s.bytes <= {bytes_max} THEN {} END", self.read_column(column)),
            false => self.read_column(column),
        };
        let mut columns: Vec<String> = self.fields.iter().map(column).collect();
        columns.push(match bytes {
            Some(_) => format!("CASE WHEN s.bytes > {bytes_max} THEN s.bytes::text END"),
            None => "NULL::text".to_owned(),
        });
        let joined = bytes.map(|bytes| format!(" LEFT JOIN LATERAL (SELECT {bytes} AS bytes OFFSET 0) s ON true"));
        (columns.join(", "), joined.unwrap_or_default())
    }

    /// The size of a row that [`Table::read_within`] has left out.
    pub(super) fn left_out(&self, row: &impl Texts) -> Option<usize> {
        row.text(3 + self.fields.len())?.parse().ok()
    }

    /// How many rows are too large to be read; none if that could not be counted in `time_ms`.
    async fn count_too_large(&self, client: &Client, time_ms: u32) -> Result<Option<i64>, Error> {
        let Some(bytes) = self.bytes().filter(|_| i64::try_from(self.row_bytes_max).is_ok()) else {
            return Ok(Some(0));
        };
        // Long values of an ordinary table lie beside it.
        const BESIDE: &str = "SELECT relkind <> 'r' OR reltoastrelid = 0 OR pg_relation_size(reltoastrelid) > 0 \
                              FROM pg_class WHERE oid = $1";
        if !client.query_opt(BESIDE, &[&self.oid]).await?.is_none_or(|row| row.get(0)) {
            return Ok(Some(0));
        }
        client.batch_execute(&format!("BEGIN; SET LOCAL statement_timeout = {time_ms}")).await?;
        let count = format!("SELECT count(*) FROM {} t WHERE {bytes} > {}", self.name, self.row_bytes_max);
        let counted = client.query_one(&count, &[]).await.and_then(|row| row.try_get(0));
        client.batch_execute("ROLLBACK").await?;
        match counted {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.as_db_error().is_some() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What is to be known of rows that are too large to be read, counted for at most `time_ms` in each table.
pub(in crate::postgres) async fn too_large(
    client: &Client,
    tables: &[Table],
    time_ms: u32,
) -> Result<Vec<String>, Error> {
    let mut lines = Vec::new();
    for table in tables {
        let (name, most) = (&table.name, table.row_bytes_max);
        match table.count_too_large(client, time_ms).await? {
            Some(0) => {}
            Some(count) => lines.push(format!(
                "{count} rows of {name} have more than {most} bytes (row-bytes-max): who reads them is refused; raise \
                 it, or --memory, which it follows"
            )),
            None => lines.push(format!(
                "whether rows of {name} have more than {most} bytes (row-bytes-max) could not be counted in {time_ms} \
                 ms; who reads one is refused"
            )),
        }
    }
    Ok(lines)
}
