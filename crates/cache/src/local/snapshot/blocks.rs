//! A file of blocks, each with its length, its number and a checksum.
//!
//! | bytes of a block | meaning |
//! |---|---|
//! | 4 | length of its contents |
//! | 4 | checksum: CRC-32 of the file's number, of the block's number and of its contents |
//! | the rest | its contents |
//!
//! All numbers are little-endian. The number of the file comes by chance, and the first block tells it. So a block of
//! another file, or in another place, does not pass for one of this file.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufReader, BufWriter, Read, Write};

use crate::mutation::{Fault, on};

/// Bytes of a block's length and checksum.
const HEAD: usize = 8;

fn checksum(file: u64, block: u64, contents: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&file.to_le_bytes());
    hasher.update(&block.to_le_bytes());
    hasher.update(contents);
    hasher.finalize()
}

/// Writes the blocks of a file.
#[derive(Debug)]
pub struct BlockWriter<W: Write> {
    out: BufWriter<W>,
    file: u64,
    blocks: u64,
    bytes: u64,
}

impl<W: Write> BlockWriter<W> {
    /// A file that begins with `magic`.
    pub fn new(out: W, magic: &[u8]) -> io::Result<BlockWriter<W>> {
        // Each has other keys.
        let file = RandomState::new().hash_one(magic);
        let mut writer = BlockWriter { out: BufWriter::new(out), file, blocks: 0, bytes: magic.len() as u64 };
        writer.out.write_all(magic)?;
        Ok(writer)
    }

    /// The number of the file, which the first block must begin with.
    pub fn file(&self) -> u64 {
        self.file
    }

    /// Adds a block.
    pub fn block(&mut self, contents: &[u8]) -> io::Result<()> {
        let too_long = |_| io::Error::new(io::ErrorKind::InvalidInput, "an entry of 4 GiB and more has no place");
        let length = u32::try_from(contents.len()).map_err(too_long)?;
        let file = if self.blocks == 0 { 0 } else { self.file };
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(&checksum(file, self.blocks, contents).to_le_bytes())?;
        self.out.write_all(contents)?;
        self.blocks += 1;
        self.bytes += (HEAD + contents.len()) as u64;
        Ok(())
    }

    /// All is written, and was so many bytes.
    pub fn finish(mut self) -> io::Result<u64> {
        self.out.flush()?;
        Ok(self.bytes)
    }
}

/// Why there is no further block.
#[derive(Debug)]
pub enum NoBlock {
    /// The file ends within it.
    Cut,
    /// Its contents are others than were written.
    Changed,
    /// It can't be read.
    Io(io::Error),
}

/// Reads the blocks of a file.
#[derive(Debug)]
pub struct BlockReader<R> {
    from: BufReader<R>,
    file: u64,
    blocks: u64,
    at: u64,
    bytes_max: u32,
}

impl<R: Read> BlockReader<R> {
    /// A reader that stands at the beginning of a file. A block that says that it is longer was changed.
    pub fn new(from: R, bytes_max: u32) -> BlockReader<R> {
        BlockReader { from: BufReader::new(from), file: 0, blocks: 0, at: 0, bytes_max }
    }

    /// Where the next block begins.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The first bytes, which are in no block.
    pub fn magic<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut magic = [0; N];
        self.from.read_exact(&mut magic)?;
        self.at = N as u64;
        Ok(magic)
    }

    /// The first block has told the number of the file.
    pub fn set_file(&mut self, file: u64) {
        self.file = file;
    }

    /// The contents of the next block, in place of what is in `contents`.
    pub fn block(&mut self, contents: &mut Vec<u8>) -> Result<(), NoBlock> {
        let cut = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => NoBlock::Cut,
            _ => NoBlock::Io(error),
        };
        let mut head = [[0; 4]; 2];
        self.from.read_exact(head.as_flattened_mut()).map_err(cut)?;
        let [length, expected] = head.map(u32::from_le_bytes);
        contents.clear();
        if length > self.bytes_max {
            return Err(NoBlock::Changed);
        }
        // As much memory as there are bytes, whatever the length says.
        let taken = self.from.by_ref().take(u64::from(length)).read_to_end(contents).map_err(NoBlock::Io)?;
        if taken < length as usize {
            return Err(NoBlock::Cut);
        }
        if checksum(self.file, self.blocks, contents) != expected && !on(Fault::ChecksumIgnored) {
            return Err(NoBlock::Changed);
        }
        self.blocks += 1;
        self.at += (HEAD + taken) as u64;
        Ok(())
    }
}
