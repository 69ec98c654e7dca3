//! Traces made of traces (`forebay trace convert`, `mix`, `noise`), of any bytes in any format. The result is an
//! error, or a trace that says what its sources say. What was written before an error can be read.

use std::io::Cursor;

use forebay_fuzz::{Choices, First, format, time};
use forebay_trace::tools::{self, Noise};
use forebay_trace::{FORMATS, Record, Records, Source, TraceError, fbt};

/// Records taken of one source.
const RECORDS_MAX: usize = 2_000;

/// What stands between two sources.
const BETWEEN: &[u8] = b"\n--\n";

/// Most sources.
const SOURCES_MAX: usize = 3;

/// Opens one source: a line with the name of its format, then its bytes.
fn open(bytes: &[u8], lenient: bool) -> Option<Records> {
    let mut choices = Choices(bytes);
    let format = format(&mut choices);
    let mut source = Source::new(Cursor::new(choices.0.to_vec()));
    if lenient {
        source.be_lenient();
    }
    let records = (format.open)(source).ok()?;
    Some(Box::new(First { records, left: RECORDS_MAX }))
}

fn split(bytes: &[u8]) -> Vec<&[u8]> {
    let mut sources = Vec::new();
    let mut rest = bytes;
    while sources.len() + 1 < SOURCES_MAX
        && let Some(at) = rest.windows(BETWEEN.len()).position(|window| window == BETWEEN)
    {
        sources.push(&rest[..at]);
        rest = &rest[at + BETWEEN.len()..];
    }
    sources.push(rest);
    sources
}

/// The records that a tool sees: up to an error.
fn sound(bytes: &[u8], lenient: bool) -> Vec<Record> {
    open(bytes, lenient).map(|records| records.map_while(Result::ok).collect()).unwrap_or_default()
}

type Writer = fbt::Writer<Vec<u8>>;

/// Writes with `tool`; what it says, and what was written.
fn written(tool: impl FnOnce(&mut Writer) -> Result<u64, TraceError>) -> (Result<u64, TraceError>, Vec<Record>) {
    let mut writer = Writer::create(Vec::new(), 0).expect("memory");
    let result = tool(&mut writer);
    let count = writer.records();
    let bytes = writer.finish().expect("memory");
    let reader = fbt::Reader::new(Cursor::new(bytes)).expect("what was written can be read");
    let records: Vec<Record> = reader.map(|record| record.expect("what was written can be read")).collect();
    assert_eq!(records.len() as u64, count);
    if let Ok(told) = &result {
        assert_eq!(*told, count);
    }
    (result, records)
}

fn convert(bytes: &[u8], lenient: bool) {
    let Some(mut records) = open(bytes, lenient) else { return };
    let (result, records) = written(|writer| tools::convert(&mut records, writer, || ()));
    let expected = sound(bytes, lenient);
    match result {
        Ok(_) => assert_eq!(records, expected),
        Err(_) => assert!(expected.starts_with(&records), "{records:?}\nof\n{expected:?}"),
    }
}

fn mix(sources: &[&[u8]], lenient: bool) {
    let opened: Option<Vec<Records>> = sources.iter().map(|source| open(source, lenient)).collect();
    let Some(mut opened) = opened else { return };
    let (result, records) = written(|writer| tools::mix(&mut opened, writer));
    if result.is_ok() {
        let accesses = |records: &[Record]| records.iter().filter(|record| record.kind.is_access()).count();
        let least = sources.iter().map(|source| accesses(&sound(source, lenient))).min().unwrap_or_default();
        assert_eq!(accesses(&records), least * sources.len());
    }
}

fn add_noise(bytes: &[u8], noise: Noise, lenient: bool) {
    let Some(mut records) = open(bytes, lenient) else { return };
    let (result, records) = written(|writer| tools::add_noise(&mut records, noise, writer));
    if result.is_ok() {
        let quiet = |records: Vec<Record>| -> Vec<Record> {
            records.into_iter().map(|record| Record { hints: 0, ..record }).collect()
        };
        assert_eq!(quiet(records), quiet(sound(bytes, lenient)));
    }
}

fn to_csv(bytes: &[u8], lenient: bool) {
    let Some(mut records) = open(bytes, lenient) else { return };
    let mut text = Vec::new();
    if let Ok(written) = tools::to_csv(&mut records, &mut text) {
        let csv = FORMATS.iter().find(|format| format.name == "csv").expect("it is in the table");
        let again = (csv.open)(Source::new(Cursor::new(text))).expect("a header");
        let again = again.map(|record| record.expect("what was written can be read"));
        let again: Vec<Record> = again.filter(|record| record.kind.is_access()).collect();
        let expected = sound(bytes, lenient).into_iter().filter(|record| record.kind.is_access());
        let keys =
            |records: Vec<Record>| -> Vec<_> { records.into_iter().map(|record| record.key.to_bytes()).collect() };
        assert_eq!(again.len() as u64, written.requests);
        assert_eq!(keys(again), keys(expected.collect()));
    }
}

#[test]
fn trace_tools() {
    bolero::check!().with_test_time(time()).for_each(|input: &[u8]| {
        let mut choices = Choices(input);
        let shape = choices.byte();
        let lenient = shape & 8 == 8;
        match shape & 7 {
            0 | 1 => convert(choices.0, lenient),
            2 | 3 => mix(&split(choices.0), lenient),
            4 | 5 => {
                let (types, domain) = (choices.below(10), choices.below(300));
                let zipf = f64::from(choices.byte()) / 64.0;
                add_noise(choices.0, Noise { types, domain, zipf, seed: 7 }, lenient);
            }
            _ => to_csv(choices.0, lenient),
        }
    });
}
