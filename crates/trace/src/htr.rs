//! HTR1: page requests of a DBMS with typed hints. A JSON header says what hint sets mean; then come the byte planes of
//! page numbers and of hint sets' numbers, each over all requests.
//!
//! Because of the planes all of it is in memory, 6 bytes for each request.

use bytes::Bytes;
use serde::Deserialize;

use crate::dictionary::{Dictionary, HintSchema, HintSetDefinition};
use crate::error::TraceError;
use crate::input::{Next, Source, Stream};
use crate::record::{Kind, Record, TraceKey};
use crate::{Format, Records};

/// First bytes of every file.
const MAGIC: &[u8; 5] = b"HTR1\n";
/// Most bytes of the header.
pub const HEADER_BYTES_MAX: usize = 32 << 20;
/// Most requests in one file.
pub const REQUESTS_MAX: usize = 1 << 28;
/// Byte planes: four of page numbers, two of hint sets.
const PLANES: usize = 6;
/// Bytes that are read at once, so that a header that lies about its length makes no large buffer.
const CHUNK_BYTES: usize = 1 << 20;
/// The number of the one schema.
const SCHEMA: u32 = 1;

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "htr",
    summary: "HTR1: page requests with typed hints of a DBMS, as byte planes behind a JSON header",
    endings: &[".htr"],
    recognises: |head| head.starts_with(MAGIC),
    open,
};

#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    name: String,
    n: usize,
    page_bytes: Option<u32>,
    page_space: Option<u64>,
    hint_types: Vec<HintType>,
    hintsets: Vec<Vec<usize>>,
    read_reqtypes: Vec<usize>,
}

#[derive(Deserialize)]
struct HintType {
    name: String,
    values: Vec<String>,
}

/// The hint type that says what a request does.
const REQUEST_TYPE: &str = "reqtype";

struct Htr {
    planes: Vec<u8>,
    requests: usize,
    at: usize,
    page_bytes: Option<u32>,
    page_space: u64,
    /// By hint set: whether it reads.
    reads: Vec<bool>,
    dictionary: Dictionary,
}

fn open(mut source: Source) -> Result<Records, TraceError> {
    let mut start = [0; MAGIC.len() + 4];
    let truncated = |source: &Source, what| TraceError::Cut { offset: source.offset(), what };
    if source.fill(&mut start)? < start.len() {
        return Err(truncated(&source, "in its header"));
    }
    let [m @ .., a, b, c, d] = start;
    if &m != MAGIC {
        return Err(malformed(0, "this is no HTR1 trace, its first 5 bytes are others"));
    }
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    limit("header_bytes_max", HEADER_BYTES_MAX, length)?;
    let header = take(&mut source, length)?;
    if header.len() < length {
        return Err(truncated(&source, "in its header"));
    }
    let header: Header = serde_json::from_slice(&header)
        .map_err(|error| malformed(start.len() as u64, &format!("the header is no such object: {error}")))?;
    limit("requests_max", REQUESTS_MAX, header.n)?;
    let dictionary = dictionary(&header)?;
    let reads = reads(&header)?;
    let planes = take(&mut source, PLANES * header.n)?;
    if planes.len() < PLANES * header.n {
        return Err(truncated(&source, "in its byte planes"));
    }
    Ok(Stream::boxed(Htr {
        planes,
        requests: header.n,
        at: 0,
        page_bytes: header.page_bytes,
        page_space: header.page_space.unwrap_or(u64::MAX),
        reads,
        dictionary,
    }))
}

/// Up to `length` bytes, as many as there are.
fn take(source: &mut Source, length: usize) -> Result<Vec<u8>, TraceError> {
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let filled = bytes.len();
        bytes.resize((filled + CHUNK_BYTES).min(length), 0);
        let count = source.fill(&mut bytes[filled..])?;
        if filled + count < bytes.len() {
            bytes.truncate(filled + count);
            break;
        }
    }
    Ok(bytes)
}

/// Hint sets get their index plus 1 as number, because 0 is none.
fn dictionary(header: &Header) -> Result<Dictionary, TraceError> {
    let mut dictionary = Dictionary::default();
    let text = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let types = header.hint_types.iter().map(|hint| text(&hint.name)).collect();
    dictionary.define_schema(SCHEMA, HintSchema { client: 0, name: text(&header.name), types })?;
    for (index, set) in header.hintsets.iter().enumerate() {
        if set.len() != header.hint_types.len() {
            return Err(malformed(0, &format!("hint set {index} has {} values", set.len())));
        }
        let value = |(hint, &value): (&HintType, &usize)| hint.values.get(value).map(|value| text(value));
        let values: Option<Vec<Bytes>> = header.hint_types.iter().zip(set).map(value).collect();
        let values = values.ok_or_else(|| malformed(0, &format!("hint set {index} has a value that is not listed")))?;
        dictionary.define_set(index as u32 + 1, HintSetDefinition { schema: SCHEMA, values })?;
    }
    Ok(dictionary)
}

fn reads(header: &Header) -> Result<Vec<bool>, TraceError> {
    let of_type = header.hint_types.iter().position(|hint| hint.name == REQUEST_TYPE);
    let of_type = of_type.ok_or_else(|| malformed(0, "no hint type is named reqtype"))?;
    Ok(header.hintsets.iter().map(|set| header.read_reqtypes.contains(&set[of_type])).collect())
}

impl Next for Htr {
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        if self.at == self.requests {
            return Ok(None);
        }
        let at = self.at;
        self.at += 1;
        let [a, b, c, d, low, high] = [0, 1, 2, 3, 4, 5].map(|plane| self.planes[plane * self.requests + at]);
        let (page, set) = (u64::from(u32::from_le_bytes([a, b, c, d])), u16::from_le_bytes([low, high]));
        if page >= self.page_space {
            return Err(malformed(at as u64, &format!("request {at}: page {page} is beyond {}", self.page_space)));
        }
        let Some(&reads) = self.reads.get(usize::from(set)) else {
            return Err(malformed(at as u64, &format!("request {at}: hint set {set} is not in the header")));
        };
        Ok(Some(Record {
            kind: if reads { Kind::Read } else { Kind::Write },
            key: TraceKey::Number(page),
            size: self.page_bytes,
            hints: u32::from(set) + 1,
            ..Record::default()
        }))
    }

    fn dictionary(&self) -> Option<&Dictionary> {
        Some(&self.dictionary)
    }
}

fn malformed(offset: u64, reason: &str) -> TraceError {
    TraceError::Malformed { offset, reason: reason.to_owned() }
}

fn limit(name: &'static str, limit: usize, found: usize) -> Result<(), TraceError> {
    let exceeded = TraceError::Limit { name, limit: limit as u64, found: found as u64 };
    if found > limit { Err(exceeded) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"name":"t","n":2,"page_bytes":8192,"page_space":300,"read_reqtypes":[0],
        "hint_types":[{"name":"object","values":["a","b"]},{"name":"reqtype","values":["read","write"]}],
        "hintsets":[[0,0],[1,1]]}"#;

    fn file(header: &str, planes: &[u8]) -> Vec<u8> {
        [&MAGIC[..], &(header.len() as u32).to_le_bytes(), header.as_bytes(), planes].concat()
    }

    fn error(bytes: Vec<u8>) -> String {
        match open(Source::new(std::io::Cursor::new(bytes))) {
            Ok(records) => records.filter_map(Result::err).next().map_or_else(String::new, |error| error.to_string()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn planes_are_requests_and_hints_have_names() {
        let planes = [1, 44, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
        let mut records = open(Source::new(std::io::Cursor::new(file(HEADER, &planes)))).expect("sound");
        let first = records.next().expect("two").expect("sound");
        assert_eq!((first.key, first.kind, first.hints, first.size), (TraceKey::Number(1), Kind::Write, 2, Some(8192)));
        let second = records.next().expect("two").expect("sound");
        assert_eq!((second.key, second.kind, second.hints), (TraceKey::Number(44), Kind::Read, 1));
        assert!(records.next().is_none());
        let dictionary = records.dictionary().expect("hints");
        assert_eq!(dictionary.hint_set(2).expect("defined").values, ["b", "write"]);
    }

    #[test]
    fn what_is_wrong_is_told_and_allocates_nothing() {
        let sound = [1, 44, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
        assert!(error(file(HEADER, &sound[1..])).contains("cut short"));
        assert!(error(file(HEADER, &[9; 12])).contains("is beyond 300"));
        assert!(error(file(&HEADER.replace("[1,1]", "[1,2]"), &sound)).contains("not listed"));
        assert!(error(file(&HEADER.replace("[1,1]", "[1]"), &sound)).contains("has 1 values"));
        assert!(error(file(&HEADER.replace("\"n\":2", "\"n\":99999999999"), &sound)).contains("requests_max"));
        assert!(error(file(&HEADER.replace("\"n\":2", "\"n\":99999999"), &sound)).contains("cut short"));
        assert!(error(file(&HEADER.replace("reqtype", "other"), &sound)).contains("reqtype"));
        assert!(error([&MAGIC[..], &u32::MAX.to_le_bytes()].concat()).contains("header_bytes_max"));
        assert!(error(b"HTR2\n....".to_vec()).contains("no HTR1"));
    }
}
