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

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a block's length and checksum.
const HEAD: usize = 8;

fn checksum(file: u64, block: u64, contents: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&file.to_le_bytes());
    hasher.update(&block.to_le_bytes());
    hasher.update(contents);
    hasher.finalize()
}

/// Writes a file beside the one that it replaces when it is whole.
pub(super) struct Writer {
    out: BufWriter<File>,
    /// Removed again, unless it took its place.
    temporary: Option<PathBuf>,
    path: PathBuf,
    file: u64,
    blocks: u64,
    pub bytes: u64,
}

impl Writer {
    /// A file that begins with `magic`, for `path`.
    pub fn new(path: &Path, magic: &[u8]) -> io::Result<Writer> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it names no file"))?;
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let mut beside = name.to_os_string();
        beside.push(format!(".{}-{number}.tmp", std::process::id()));
        let temporary = path.with_file_name(beside);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // Values, and the seeds of hashes, are nothing for other users.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let out = BufWriter::new(options.open(&temporary)?);
        let file = RandomState::new().hash_one(number);
        let path = path.to_path_buf();
        let mut writer = Writer { out, temporary: Some(temporary), path, file, blocks: 0, bytes: magic.len() as u64 };
        writer.out.write_all(magic)?;
        Ok(writer)
    }

    /// The number of the file, which the first block must begin with.
    pub fn file(&self) -> u64 {
        self.file
    }

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

    /// The file is whole, is on the disk, and takes its place.
    pub fn finish(mut self) -> io::Result<u64> {
        self.out.flush()?;
        self.out.get_ref().sync_all()?;
        if let Some(temporary) = &self.temporary {
            std::fs::rename(temporary, &self.path)?;
        }
        self.temporary = None;
        // So that a crash does not bring the old one back.
        #[cfg(unix)]
        if let Some(folder) = self.path.parent() {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            File::open(folder)?.sync_all()?;
        }
        Ok(self.bytes)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            // Nothing more can be done about a file that stays.
            _ = std::fs::remove_file(temporary);
        }
    }
}

/// Why there is no further block.
#[derive(Debug)]
pub(super) enum NoBlock {
    /// The file ends within it.
    Cut,
    /// Its contents are others than were written.
    Changed,
    Io(io::Error),
}

pub(super) struct Reader<R> {
    from: BufReader<R>,
    file: u64,
    blocks: u64,
    /// Where the next block begins.
    pub at: u64,
}

impl<R: Read> Reader<R> {
    pub fn new(from: R) -> Reader<R> {
        Reader { from: BufReader::new(from), file: 0, blocks: 0, at: 0 }
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
        // As much memory as there are bytes, whatever the length says.
        let taken = self.from.by_ref().take(u64::from(length)).read_to_end(contents).map_err(NoBlock::Io)?;
        if taken < length as usize {
            return Err(NoBlock::Cut);
        }
        if checksum(self.file, self.blocks, contents) != expected {
            return Err(NoBlock::Changed);
        }
        self.blocks += 1;
        self.at += (HEAD + taken) as u64;
        Ok(())
    }
}
