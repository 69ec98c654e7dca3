//! redb driven directly: the same groups as write transactions, and nothing else.

use std::path::Path;
use std::time::{Duration, Instant};

use forebay::value::codec::encode_value;
use forebay::{Data, Key, Value};
use forebay_bench::program::process_cpu_seconds;
use redb::{Database, Durability, TableDefinition};

use crate::bed::{Failed, Work};

/// The documents that the commits of one group leave, in order.
pub type Group = Vec<Vec<(Key, Value)>>;

const DOCUMENTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("documents");
const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");

/// Bytes of a row beside the document: tag, version and expiry in front of it, a sum behind.
const HEADER_BYTES: usize = 1 + 16 + 8;
const SUM_BYTES: usize = 4;

/// Bytes of the row of totals.
const TOTALS_BYTES: usize = 8 + 16 + 16 * 8 + SUM_BYTES;

/// Ids that are kept in the log.
const IDS_KEPT: usize = 65_536;

/// Between two flushes where a commit does not flush.
pub const FLUSH_PAUSE: Duration = Duration::from_millis(500);

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Rows of the length of the embedded store's: with a version, an expiry and a sum each, and per group its ids and
    /// totals, by which a repeated commit is known again and a reopened file counts its documents.
    Same,
    /// Key and value alone: neither versions nor ids.
    Plain,
}

/// A database of its own.
pub struct Bare {
    database: Database,
    rows: Rows,
    durability: Durability,
    group: u64,
    /// Ids that the groups from `first_group` on have.
    kept: std::collections::VecDeque<usize>,
    kept_sum: usize,
    /// Rows, made before the clock runs.
    row: Vec<u8>,
}

impl Bare {
    /// A new database in the file `path` with a page cache as large as the embedded store's.
    pub fn create(path: &Path, rows: Rows, durability: Durability, page_cache_bytes: usize) -> Result<Bare, Failed> {
        let database = Database::builder().set_cache_size(page_cache_bytes).create(path)?;
        let (kept, row) = (Default::default(), Vec::new());
        Ok(Bare { database, rows, durability, group: 0, kept, kept_sum: 0, row })
    }

    /// Writes `groups`, one write transaction each.
    pub fn replay(&mut self, groups: &[Group]) -> Result<Work, Failed> {
        let (began, cpu_before) = (Instant::now(), process_cpu_seconds()?);
        let (mut flushed, mut transactions) = (began, 0);
        for group in groups {
            self.write(group)?;
            transactions += group.len() as u64;
            if matches!(self.durability, Durability::None) && flushed.elapsed() > FLUSH_PAUSE {
                self.flush()?;
                flushed = Instant::now();
            }
        }
        let (seconds, cpu_seconds) = (began.elapsed().as_secs_f64(), process_cpu_seconds()? - cpu_before);
        Ok(Work { transactions, seconds, cpu_seconds, latencies: Vec::new() })
    }

    /// Makes durable what is not yet.
    pub fn flush(&self) -> Result<(), Failed> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_quick_repair(true);
        Ok(transaction.commit()?)
    }

    fn write(&mut self, group: &Group) -> Result<(), Failed> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(self.durability)?;
        let mut documents = transaction.open_table(DOCUMENTS)?;
        for (key, value) in group.iter().flatten() {
            self.row.clear();
            match self.rows {
                Rows::Same => {
                    self.row.resize(HEADER_BYTES, 1);
                    encode_value(value, &mut self.row);
                    self.row.resize(self.row.len() + SUM_BYTES, 2);
                    let row_key = [&[key.space()], key.name()].concat();
                    documents.insert(row_key.as_slice(), self.row.as_slice())?;
                }
                Rows::Plain => {
                    let Data::Bytes(bytes) = &value.data else { return Err("a document that is not bytes".into()) };
                    documents.insert(key.name(), &*bytes.joined())?;
                }
            }
        }
        drop(documents);
        self.group += 1;
        if self.rows == Rows::Same {
            self.kept.push_back(group.len());
            self.kept_sum += group.len();
            let mut log = transaction.open_table(LOG)?;
            log.insert(self.group, vec![3; group.len() * 16 + SUM_BYTES].as_slice())?;
            while self.kept_sum > IDS_KEPT {
                let oldest = self.group - self.kept.len() as u64 + 1;
                self.kept_sum -= self.kept.pop_front().unwrap_or(0);
                log.remove(oldest)?;
            }
            log.insert(u64::MAX, [4; TOTALS_BYTES].as_slice())?;
        }
        Ok(transaction.commit()?)
    }
}
