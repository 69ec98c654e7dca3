//! Reading, one block at a time.

use std::io::Read;
use std::path::Path;

use super::codec::{Context, Entries, Entry};
use super::layout::{BLOCK_HEADER_BYTES, BlockHeader, BlockTag, Compression, HEADER_BYTES, checksum, decode_header};
use crate::TraceReader;
use crate::dictionary::Dictionary;
use crate::error::TraceError;
use crate::input::{Next, Source, Stream};
use crate::record::Record;

/// Reads one trace; an iterator over its records that ends after an error.
pub struct Reader {
    stream: Stream<Core>,
}

impl Reader {
    /// Begins to read: the header is checked, an unknown version refused.
    pub fn new(reader: impl Read + Send + 'static) -> Result<Reader, TraceError> {
        Reader::from_source(Source::new(reader))
    }

    /// As [`Reader::new`], from a file, which may be compressed as a whole with zstd.
    pub fn open(path: &Path) -> Result<Reader, TraceError> {
        Reader::from_source(Source::open(Source::bytes_of(path)?, path, None, false)?)
    }

    /// Unix time in microseconds of the trace's zero; 0 where unknown.
    pub fn start_unix_us(&self) -> u64 {
        self.stream.reader.start_unix_us
    }

    /// The definitions met so far; those that a record needs stand before it.
    pub fn dictionary(&self) -> &Dictionary {
        &self.stream.reader.dictionary
    }

    /// Fingerprints of the words that the last record returned, where the trace was recorded with them.
    pub fn returned(&self) -> &[u64] {
        &self.stream.reader.returned
    }

    pub(super) fn from_source(mut source: Source) -> Result<Reader, TraceError> {
        let mut header = [0; HEADER_BYTES];
        let filled = source.fill(&mut header)?;
        if filled < header.len() && super::MAGIC.starts_with(&header[..filled.min(super::MAGIC.len())]) {
            return Err(TraceError::Truncated { offset: filled as u64, what: "in its header" });
        }
        let start_unix_us = decode_header(&header)?;
        let core = Core {
            source,
            start_unix_us,
            dictionary: Dictionary::default(),
            decompressor: zstd::bulk::Decompressor::new().map_err(|source| TraceError::Read { offset: 0, source })?,
            context: Context::default(),
            stored: Vec::new(),
            content: Vec::new(),
            at: 0,
            entries: 0,
            block_offset: 0,
            records: 0,
            returned: Vec::new(),
        };
        Ok(Reader { stream: Stream::new(core) })
    }
}

impl TraceReader for Reader {
    fn dictionary(&self) -> Option<&Dictionary> {
        Some(&self.stream.reader.dictionary)
    }

    fn warnings(&self) -> Vec<String> {
        self.stream.warnings()
    }
}

impl Iterator for Reader {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.stream.next()
    }
}

struct Core {
    source: Source,
    start_unix_us: u64,
    dictionary: Dictionary,
    decompressor: zstd::bulk::Decompressor<'static>,
    context: Context,
    stored: Vec<u8>,
    /// Content of the present block, and how far it was read.
    content: Vec<u8>,
    at: usize,
    /// Entries of the present block still to read.
    entries: u32,
    /// Where in the file the present block began.
    block_offset: u64,
    /// Records given out.
    records: u64,
    /// What the last of them returned.
    returned: Vec<u64>,
}

impl Next for Core {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        self.returned.clear();
        loop {
            if self.entries == 0 {
                if !self.returned.is_empty() {
                    return Err(self.malformed("no record follows on what one returned"));
                }
                if self.at != self.content.len() {
                    return Err(self.malformed("bytes are left over in the block"));
                }
                if !self.next_block()? {
                    return Ok(None);
                }
                continue;
            }
            let mut entries = Entries::new(&self.content, self.at);
            let entry = entries.entry(&mut self.context);
            self.at = entries.at();
            self.entries -= 1;
            match entry {
                Ok(Entry::Record(record)) => {
                    self.records += 1;
                    return Ok(Some(record));
                }
                Ok(_) if !self.returned.is_empty() => {
                    return Err(self.malformed("no record follows on what one returned"));
                }
                Ok(Entry::Definition(definition)) => {
                    self.dictionary.insert(definition)?;
                }
                Ok(Entry::Returned(words)) => self.returned = words,
                Err(reason) => return Err(self.malformed(&reason)),
            }
        }
    }

    fn takes_cut(&self) -> bool {
        self.source.is_lenient()
    }
}

impl Core {
    /// Loads the next block of entries; false after the end block.
    fn next_block(&mut self) -> Result<bool, TraceError> {
        self.block_offset = self.source.offset();
        (self.at, self.context) = (0, Context::default());
        self.content.clear();
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        match self.source.fill(&mut bytes)? {
            0 => return Err(self.truncated("before its end block")),
            BLOCK_HEADER_BYTES => {}
            _ => return Err(self.truncated("in the header of a block")),
        }
        let (header, expected) = BlockHeader::decode(&bytes).map_err(|reason| self.malformed(&reason))?;
        self.stored.resize(header.stored as usize, 0);
        if self.source.fill(&mut self.stored)? < self.stored.len() {
            return Err(self.truncated("in the middle of a block"));
        }
        if checksum(&bytes[..16], &self.stored) != expected {
            return Err(self.malformed("the block's checksum does not match"));
        }
        self.decompress(&header)?;
        match header.tag {
            BlockTag::Entries => {
                self.entries = header.entries;
                Ok(true)
            }
            BlockTag::End => self.end().map(|()| false),
        }
    }

    fn decompress(&mut self, header: &BlockHeader) -> Result<(), TraceError> {
        let length = header.content as usize;
        match header.compression {
            Compression::None => std::mem::swap(&mut self.content, &mut self.stored),
            Compression::Zstd => {
                // The buffer has room for what the header promises, and zstd writes no byte beyond it.
                self.content.resize(length, 0);
                let decompressed = self.decompressor.decompress_to_buffer(&self.stored, &mut self.content[..]);
                if !matches!(decompressed, Ok(found) if found == length) {
                    return Err(self.malformed("the block does not decompress to the length that its header says"));
                }
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), TraceError> {
        if self.content != self.records.to_le_bytes() {
            return Err(self.malformed(&format!("the end block tells of other than the {} records read", self.records)));
        }
        self.content.clear();
        if self.source.fill(&mut [0])? != 0 {
            return Err(self.malformed("bytes follow the end block"));
        }
        Ok(())
    }

    fn truncated(&self, what: &'static str) -> TraceError {
        TraceError::Truncated { offset: self.source.offset(), what }
    }

    fn malformed(&self, reason: &str) -> TraceError {
        let reason = format!("{reason} (byte {} of the content of the block that begins there)", self.at);
        TraceError::Malformed { offset: self.block_offset, reason }
    }
}
