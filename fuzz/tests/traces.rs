//! Trace files of every format, damaged or made up: records or an error, never a panic; an error is the
//! end.

use std::io::Write;

use forebay_fuzz::{Choices, format, time};
use forebay_trace::{FORMATS, Kind, Record, TraceKey, TraceOptions, fbt};

/// Records looked at: one line of a text can stand for a million.
const RECORDS_MAX: usize = 20_000;

/// A valid trace of forebay's own format.
fn written(choices: &mut Choices<'_>) -> Vec<u8> {
    let Ok(mut writer) = fbt::Writer::create(Vec::new(), u64::from(choices.word())) else { return Vec::new() };
    for _ in 0..choices.below(60) {
        let key = match choices.byte() % 3 {
            0 => TraceKey::Number(u64::from(choices.word())),
            _ => TraceKey::Bytes(choices.bytes(30).into()),
        };
        let kind = if choices.byte().is_multiple_of(2) { Kind::Read } else { Kind::Write };
        let _ = writer.append(&Record { key, kind, ..Record::default() });
    }
    writer.finish().unwrap_or_default()
}

fn read(bytes: &[u8], name: &str, options: &TraceOptions) {
    let mut file = tempfile::Builder::new().suffix(name).tempfile().expect("a temporary file");
    file.write_all(bytes).expect("room for it");
    let format = &options.format;
    if let Ok(records) = forebay_trace::open_with(file.path(), options) {
        let mut after_error = false;
        for record in records.take(RECORDS_MAX) {
            assert!(!after_error, "{format:?}: it goes on after an error");
            after_error = record.is_err();
        }
    }
}

#[test]
fn traces() {
    bolero::check!().with_test_time(time()).for_each(|input: &[u8]| {
        let mut choices = Choices(input);
        let format = format(&mut choices).name;
        let shape = choices.byte();
        let mut bytes = if shape & 1 == 0 { choices.0.to_vec() } else { written(&mut choices) };
        if shape & 1 == 1 {
            for _ in 0..choices.below(4) {
                let at = choices.word() as usize % bytes.len().max(1);
                match (choices.byte() % 4, bytes.get_mut(at)) {
                    (0, _) => bytes.truncate(at),
                    (1, Some(byte)) => *byte ^= 1 << (at % 8),
                    (_, Some(byte)) => *byte = choices.byte(),
                    (_, None) => {}
                }
            }
        }
        if shape & 2 == 2 {
            bytes = zstd::encode_all(&bytes[..], 1).unwrap_or_default();
            if let (true, Some(at)) = (shape & 4 == 4, bytes.len().checked_sub(1 + choices.below(50))) {
                bytes[at] ^= 1 << (shape >> 5);
            }
        }
        let forced = if shape & 1 == 1 { "fbt" } else { format };
        let format = (shape & 8 == 0).then(|| forced.to_owned());
        read(
            &bytes,
            if shape & 2 == 2 { ".zst" } else { "" },
            &TraceOptions { format, lenient: shape & 16 == 16, ..TraceOptions::default() },
        );
    });
}

/// Where the fuzzer begins.
#[test]
fn the_corpus_has_a_sound_trace_of_each_format() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/__fuzz__/traces/corpus");
    for format in FORMATS {
        let path = folder.join(format!("sound-{}", format.name));
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut choices = Choices(&bytes);
        assert_eq!((forebay_fuzz::format(&mut choices).name, choices.byte()), (format.name, 0));
        let source = forebay_trace::Source::new(std::io::Cursor::new(choices.0.to_vec()));
        let records = (format.open)(source).unwrap_or_else(|error| panic!("{}: {error}", format.name));
        let records = records.collect::<Result<Vec<_>, _>>().unwrap_or_else(|error| panic!("{}: {error}", format.name));
        assert!(records.len() > 2, "{}: {} records", format.name, records.len());
    }
}
