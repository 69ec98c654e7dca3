//! Forebay's own trace format, `fbt`: what a policy may know of each access, compact, and safe against a killed writer.
//!
//! A header, then blocks, each with its length and checksum and compressed by itself, then an end block. A writer that
//! was killed leaves whole blocks and no end block: [`Reader`] gives all their records and then
//! [`TraceError::Truncated`]. Hint schemas, hint sets and the names of transaction types and vertices stand among the
//! records, before their first use, in the [`Dictionary`](crate::dictionary::Dictionary).
//! `docs/trace-format-fbt.md` has every byte.

mod codec;
mod layout;
mod reader;
mod writer;

pub use layout::{BLOCK_BYTES, BLOCK_BYTES_MAX, KEY_BYTES_MAX, MAGIC, VERSION};
pub use reader::Reader;
pub use writer::Writer;

use crate::error::TraceError;
use crate::input::Source;
use crate::{Format, Records};

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "fbt",
    summary: "forebay's own: transactions, levels, vertices, hints, clients, times, sizes and keys; described below",
    endings: &[".fbt"],
    recognises: |head| head.starts_with(&MAGIC),
    open,
};

fn open(source: Source) -> Result<Records, TraceError> {
    Ok(Box::new(Reader::from_source(source)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::layout::{BlockHeader, BlockTag, Compression, encode_header};
    use super::*;

    /// A file of one block whose checksums are right, whatever its content is.
    fn file(header: BlockHeader, stored: &[u8]) -> Vec<u8> {
        [&encode_header(0)[..], &header.encode(stored), stored].concat()
    }

    fn read(file: Vec<u8>) -> (usize, Option<TraceError>) {
        let records: Vec<_> = Reader::new(std::io::Cursor::new(file)).unwrap().collect();
        let good = records.iter().filter(|record| record.is_ok()).count();
        (good, records.into_iter().find_map(Result::err))
    }

    fn entries(compression: Compression, stored: &[u8], content: usize, entries: u32) -> Vec<u8> {
        let (stored_length, content) = (stored.len() as u32, content as u32);
        let header = BlockHeader { tag: BlockTag::Entries, compression, stored: stored_length, content, entries };
        file(header, stored)
    }

    proptest! {
        /// Behind a right checksum may stand anything that a program wrote wrongly.
        #[test]
        fn any_content_is_records_or_an_error(content in prop::collection::vec(any::<u8>(), 0..300), count: u8) {
            let (good, error) = read(entries(Compression::None, &content, content.len(), u32::from(count)));
            prop_assert!(good <= usize::from(count));
            prop_assert!(error.is_some(), "there is no end block");
            read(entries(Compression::Zstd, &content, 300, u32::from(count)));
        }

        /// Changed records: closer to what is right than bytes by chance.
        #[test]
        fn changed_entries_are_records_or_an_error(
            numbers in prop::collection::vec(any::<u64>(), 1..50), at: prop::sample::Index, byte: u8,
        ) {
            let mut content = Vec::new();
            let mut context = codec::Context::default();
            for &number in &numbers {
                let key = crate::TraceKey::Bytes(bytes::Bytes::from(number.to_string()));
                let record = crate::Record { key, time_us: Some(number), txn: number, ..Default::default() };
                codec::encode_record(&mut content, &mut context, &record);
            }
            let at = at.index(content.len());
            content[at] = byte;
            let (good, error) = read(entries(Compression::None, &content, content.len(), numbers.len() as u32));
            prop_assert!(good <= numbers.len() && error.is_some());
        }
    }

    #[test]
    fn lengths_that_lie_are_told_and_allocate_nothing() {
        let record = [0x80, 0, 5];
        let compressed = zstd::bulk::compress(&[0; 1000], 1).unwrap();
        for (file, reason) in [
            (entries(Compression::None, &record, 3, u32::MAX), "goes beyond its block"),
            (entries(Compression::None, &record, 3, 0), "left over"),
            (entries(Compression::None, &record, 4, 1), "without compression"),
            (entries(Compression::Zstd, &compressed, BLOCK_BYTES_MAX + 1, 1), "block_bytes_max"),
            (entries(Compression::Zstd, &compressed, 999, 1), "does not decompress"),
            (entries(Compression::Zstd, &compressed, 1001, 1), "does not decompress"),
        ] {
            let error = read(file).1.unwrap();
            assert!(matches!(error, TraceError::Malformed { offset: 24, .. }), "{error}");
            assert!(error.to_string().contains(reason), "{error}");
        }
        let header = BlockHeader {
            tag: BlockTag::Entries,
            compression: Compression::Zstd,
            stored: u32::MAX,
            content: 1,
            entries: 1,
        };
        assert!(read(file(header, &[])).1.unwrap().to_string().contains("block_bytes_max"));
    }

    #[test]
    fn the_end_block_counts_the_records() {
        let end = |count: u64| {
            let header =
                BlockHeader { tag: BlockTag::End, compression: Compression::None, stored: 8, content: 8, entries: 0 };
            file(header, &count.to_le_bytes())
        };
        assert!(read(end(0)).1.is_none());
        assert!(read(end(1)).1.unwrap().to_string().contains("end block"));
    }

    /// The bytes that `docs/trace-format.md` describes, one by one.
    #[test]
    fn the_format_is_the_documented_one() {
        let mut writer = Writer::create(Vec::new(), 0x0102_0304).unwrap();
        writer.define_vertex(2, 3, "cart".into()).unwrap();
        let key = crate::TraceKey::Bytes("k".into());
        let record = crate::Record { key, kind: crate::Kind::Write, time_us: Some(100), txn: 1, ..Default::default() };
        let record = crate::Record { size: Some(300), charged: Some(352), space: 1, txn_type: 2, vertex: 3, ..record };
        writer.append_with(&record, &[0x0807_0605_0403_0201]).unwrap();
        let bytes = writer.finish().unwrap();
        let content = *b"\x04\x02\x03\x04cart\x05\x01\x01\x02\x03\x04\x05\x06\x07\x08\
            \xb1\xb3\x01\xc8\x01\xac\x02\xe0\x02\x02\x02\x00\x03\x01k";
        assert_eq!(bytes[..20], *b"\x89FBT\r\n\x1a\n\x03\0\0\0\x04\x03\x02\x01\0\0\0\0");
        assert_eq!(bytes[24..40], [1, 0, 0, 0, 33, 0, 0, 0, 33, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(bytes[44..77], content);
        assert_eq!(bytes[77..93], [2, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[97..], 1_u64.to_le_bytes());
    }
}
