//! Writing: records are gathered in a block, which is compressed and written when it is full.

use std::io::Write;

use bytes::Bytes;

use super::codec::{Context, encode_definition, encode_record, encode_returned};
use super::layout::{BLOCK_BYTES, BlockHeader, BlockTag, Compression, KEY_BYTES_MAX, encode_header};
use crate::dictionary::{Definition, Dictionary, HintSchema, HintSetDefinition, limit};
use crate::error::TraceError;
use crate::record::{Record, TraceKey};
use crate::words::RETURNED_WORDS_MAX;

/// The fastest level that zstd calls regular: on the path of a server, disk is cheaper than time.
const ZSTD_LEVEL: i32 = 1;

/// Writes one trace. A record costs a few bytes in a buffer; one in some thousands costs compressing and writing a
/// block. Dropped without [`Writer::finish`], the trace reads as cut short.
pub struct Writer<W: Write> {
    output: W,
    compressor: zstd::bulk::Compressor<'static>,
    dictionary: Dictionary,
    context: Context,
    /// Content of the block that is being filled.
    content: Vec<u8>,
    /// Entries in `content`.
    entries: u32,
    compressed: Vec<u8>,
    /// Records of the whole trace.
    records: u64,
    failed: bool,
}

impl<W: Write> Writer<W> {
    /// Begins a trace on `output` by writing its header. `start_unix_us` is the Unix time in microseconds of the
    /// trace's zero, 0 where unknown.
    pub fn create(mut output: W, start_unix_us: u64) -> Result<Writer<W>, TraceError> {
        let failed = |source| TraceError::Write { source };
        output.write_all(&encode_header(start_unix_us)).map_err(failed)?;
        Ok(Writer {
            output,
            compressor: zstd::bulk::Compressor::new(ZSTD_LEVEL).map_err(failed)?,
            dictionary: Dictionary::default(),
            context: Context::default(),
            content: Vec::new(),
            entries: 0,
            compressed: Vec::new(),
            records: 0,
            failed: false,
        })
    }

    /// Adds a record. A refused one (a key beyond [`KEY_BYTES_MAX`], or none where there should be one) leaves the
    /// trace as it was.
    pub fn append(&mut self, record: &Record) -> Result<(), TraceError> {
        self.append_with(record, &[])
    }

    /// As [`Writer::append`], with the first [`RETURNED_WORDS_MAX`] fingerprints of what the access returned
    /// ([`words`](crate::words::words)).
    pub fn append_with(&mut self, record: &Record, returned: &[u64]) -> Result<(), TraceError> {
        match &record.key {
            TraceKey::Bytes(bytes) if bytes.len() > KEY_BYTES_MAX => {
                return Err(limit("key_bytes_max", KEY_BYTES_MAX, bytes.len()));
            }
            key if record.kind.is_access() == (*key == TraceKey::None) => {
                let reason = "an access needs a key, and the end of a transaction has none".to_owned();
                return Err(TraceError::Malformed { offset: self.records, reason });
            }
            _ => {}
        }
        self.open()?;
        if !returned.is_empty() {
            encode_returned(&mut self.content, &returned[..returned.len().min(RETURNED_WORDS_MAX)]);
            self.entries += 1;
        }
        encode_record(&mut self.content, &mut self.context, record);
        self.records += 1;
        self.added()
    }

    /// Says what a hint schema's number means. To say it again changes nothing; another meaning is refused.
    pub fn define_hint_schema(&mut self, id: u32, schema: HintSchema) -> Result<(), TraceError> {
        self.define(Definition::Schema(id, schema))
    }

    /// Says what a hint set's number in later records means; otherwise as [`Writer::define_hint_schema`].
    pub fn define_hint_set(&mut self, id: u32, set: HintSetDefinition) -> Result<(), TraceError> {
        self.define(Definition::Set(id, set))
    }

    /// Names a transaction type; otherwise as [`Writer::define_hint_schema`].
    pub fn define_type(&mut self, id: u16, name: Bytes) -> Result<(), TraceError> {
        self.define(Definition::Type(id, name))
    }

    /// Names a vertex of a transaction type's graph, or of all types' with type 0; otherwise as
    /// [`Writer::define_hint_schema`].
    pub fn define_vertex(&mut self, txn_type: u16, id: u16, name: Bytes) -> Result<(), TraceError> {
        self.define(Definition::Vertex(txn_type, id, name))
    }

    /// Records appended so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Writes what was appended, as a block of its own, and flushes the output. A block that is forced out early
    /// compresses worse: a server does this about once a second, so that being killed costs no more than that.
    pub fn flush(&mut self) -> Result<(), TraceError> {
        self.open()?;
        self.write_entries()?;
        let flushed = self.output.flush();
        self.wrote(flushed)
    }

    /// Writes the rest and the end block, flushes, and hands the output back.
    pub fn finish(mut self) -> Result<W, TraceError> {
        self.open()?;
        self.write_entries()?;
        let records = self.records.to_le_bytes();
        self.write_block(BlockTag::End, Compression::None, &records, records.len(), 0)?;
        self.flush()?;
        Ok(self.output)
    }

    fn define(&mut self, definition: Definition) -> Result<(), TraceError> {
        self.open()?;
        if !self.dictionary.insert(definition.clone())? {
            return Ok(());
        }
        encode_definition(&mut self.content, &definition);
        self.added()
    }

    fn open(&self) -> Result<(), TraceError> {
        if self.failed { Err(TraceError::Closed) } else { Ok(()) }
    }

    /// Counts the entry just encoded, and writes the block once it is full. An entry is far shorter than what lies
    /// between [`BLOCK_BYTES`] and the limit of a block, so no block comes near that limit.
    fn added(&mut self) -> Result<(), TraceError> {
        self.entries += 1;
        if self.content.len() >= BLOCK_BYTES { self.write_entries() } else { Ok(()) }
    }

    fn write_entries(&mut self) -> Result<(), TraceError> {
        if self.entries == 0 {
            return Ok(());
        }
        let content = std::mem::take(&mut self.content);
        let mut compressed = std::mem::take(&mut self.compressed);
        compressed.clear();
        compressed.reserve(zstd::zstd_safe::compress_bound(content.len()));
        // Compressing can fail only for want of memory or room, and the content itself is always right.
        let (compression, stored) = match self.compressor.compress_to_buffer(&content, &mut compressed) {
            Ok(length) if length < content.len() => (Compression::Zstd, &compressed[..length]),
            _ => (Compression::None, &content[..]),
        };
        let written = self.write_block(BlockTag::Entries, compression, stored, content.len(), self.entries);
        self.content = content;
        self.content.clear();
        self.compressed = compressed;
        self.entries = 0;
        self.context = Context::default();
        written
    }

    fn write_block(
        &mut self,
        tag: BlockTag,
        compression: Compression,
        stored: &[u8],
        content: usize,
        entries: u32,
    ) -> Result<(), TraceError> {
        let header = BlockHeader { tag, compression, stored: stored.len() as u32, content: content as u32, entries };
        let written = self.output.write_all(&header.encode(stored)).and_then(|()| self.output.write_all(stored));
        self.wrote(written)
    }

    fn wrote(&mut self, result: std::io::Result<()>) -> Result<(), TraceError> {
        result.map_err(|source| {
            self.failed = true;
            TraceError::Write { source }
        })
    }
}
