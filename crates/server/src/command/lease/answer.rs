//! The answer to a LEASE GET: `[type, document, version, as-of, writes, fresh-ms]` of each key. Where the client has
//! the document, the type is `same`, and nil stands for it.
//!
//! It is described once. A small answer is written to the connection's bytes at once, since most are of one short
//! document. Of a large one a [`Reply`] is made, which shares the documents, and is charged before it is encoded.

use bytes::BytesMut;

use forebay::mutation::{self, Fault};
use forebay::read::Read;
use forebay::txn::Leased;
use forebay::value::{Blob, Bytes, Data, Kind, Value};
use forebay::version::Version;
use forebay_protocol::reply::{write_bulk, write_header, write_integer};
use forebay_protocol::{Protocol, Reply};
use smallvec::SmallVec;

use crate::command::bulk_of;

/// Bytes of the longest version: two numbers of 20 digits, and a sign for each.
const VERSION_BYTES_MAX: usize = 42;

/// Bytes of the longest rate: ten digits, a point, and six.
const RATE_BYTES_MAX: usize = 17;

/// The greatest rate that is told.
const RATE_MAX: f64 = 1e9;

/// What an entry takes at most without its document.
const ENTRY_BYTES_MAX: usize = 192;

/// What an element of a document takes at most besides its bytes.
const HEADER_BYTES_MAX: usize = 32;

/// Bytes above which an answer is not written at once.
const SMALL_BYTES: usize = 128 << 10;

/// Versions that a client has, and whether the key was present at each.
pub(super) type Have = SmallVec<[(Version, bool); 2]>;

/// A short text, put together without an allocation.
struct Short<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Short<N> {
    #[inline]
    fn new() -> Short<N> {
        Short { bytes: [0; N], len: 0 }
    }

    /// Adds `part`, for which there must be room.
    #[inline]
    fn push(&mut self, part: &[u8]) {
        let end = self.len + part.len();
        self.bytes[self.len..end].copy_from_slice(part);
        self.len = end;
    }

    /// Adds the digits of `number`, for which there must be room.
    #[inline]
    fn push_number(&mut self, number: u64) {
        let mut digits = 1;
        let mut rest = number / 10;
        while rest > 0 {
            (rest, digits) = (rest / 10, digits + 1);
        }
        self.push_digits(number, digits);
    }

    /// Adds the last so many digits of `number`, with zeros before them, for which there must be room.
    #[inline]
    fn push_digits(&mut self, mut number: u64, digits: usize) {
        let end = self.len + digits;
        for place in self.bytes[self.len..end].iter_mut().rev() {
            *place = b'0' + (number % 10) as u8;
            number /= 10;
        }
        self.len = end;
    }

    #[inline]
    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn into_text(self) -> String {
        String::from_utf8_lossy(self.as_bytes()).into_owned()
    }
}

/// What is answered to one LEASE GET.
pub(super) struct Answer {
    /// What was read.
    pub leased: Leased,
    /// How often others write each document, per second.
    pub writes: SmallVec<[f64; 4]>,
    /// What the client has of the first keys.
    pub have: Have,
}

impl Answer {
    /// Whether it is written at once: it takes at most `bytes_max`, and is short.
    pub(super) fn is_small(&self, bytes_max: usize) -> bool {
        let elements = |value: &Value| match &value.data {
            Data::Bytes(_) => 1,
            Data::Hash(hash) => 1 + 2 * hash.len(),
            Data::List(list) => 1 + list.len(),
            Data::Set(set) => 1 + set.len(),
        };
        let document = |value: &Value| value.size() + HEADER_BYTES_MAX * elements(value);
        let entry = |(at, read): (usize, &Read)| match &read.value {
            Some(value) if !self.is_same(at, read) => ENTRY_BYTES_MAX + document(value),
            _ => ENTRY_BYTES_MAX,
        };
        let bytes = self.leased.reads.iter().enumerate().map(entry).sum::<usize>();
        HEADER_BYTES_MAX + bytes <= bytes_max.min(SMALL_BYTES)
    }

    /// Whether the client has what was read of the key at `at`. An expired document keeps its version, and is absent.
    #[inline]
    fn is_same(&self, at: usize, read: &Read) -> bool {
        self.have.get(at).is_some_and(|(version, present)| {
            let alike = *present == read.value.is_some() || mutation::on(Fault::HaveIgnoresExpiry);
            *version == read.version && alike
        })
    }

    /// Appends it to `out`.
    pub(super) fn write(&self, protocol: Protocol, out: &mut BytesMut) {
        let mut written = Written { out, protocol, line: Short::new() };
        self.put(&mut written);
        written.flush();
    }

    /// The answer as a reply.
    pub(super) fn reply(&self) -> Reply {
        let mut built = Built { open: Vec::new(), done: Reply::Nil };
        self.put(&mut built);
        built.done
    }

    #[inline]
    fn put(&self, put: &mut impl Put) {
        let as_of = self.leased.as_of.map(|as_of| named(as_of, true));
        put.list(self.leased.reads.len());
        for ((at, read), writes) in self.leased.reads.iter().enumerate().zip(&self.writes) {
            match &read.value {
                _ if self.is_same(at, read) => put.same(),
                Some(value) => {
                    put.entry(Some(value.kind()));
                    document(&value.data, put);
                }
                None => {
                    put.entry(None);
                    put.nil();
                }
            }
            put.text(named(read.version, read.value.is_some()).as_bytes());
            match &as_of {
                Some(as_of) => put.text(as_of.as_bytes()),
                None => put.nil(),
            }
            put.text(per_second(*writes).as_bytes());
            match read.value.as_ref().and_then(|value| value.expires_at_ms) {
                Some(at) => put.integer(at.saturating_sub(self.leased.now_ms) as i64),
                None => put.nil(),
            }
        }
    }
}

/// A byte string as it is; a hash as its fields, each with its value behind it; a list or set as its elements.
#[inline]
fn document(data: &Data, put: &mut impl Put) {
    match data {
        Data::Bytes(bytes) => put.bytes(bytes),
        Data::Hash(hash) => {
            put.list(2 * hash.len());
            for (field, value) in hash.iter() {
                put.element(field);
                put.element(value);
            }
        }
        Data::List(list) => {
            put.list(list.len());
            list.iter().for_each(|element| put.element(element));
        }
        Data::Set(set) => {
            put.list(set.len());
            set.iter().for_each(|member| put.element(member));
        }
    }
}

/// Where an answer goes, part by part.
trait Put {
    /// So many of the following parts are a list.
    fn list(&mut self, items: usize);
    /// A list of six begins, with a type.
    fn entry(&mut self, kind: Option<Kind>);
    /// A list of six begins, with what the client has.
    fn same(&mut self);
    /// A document that is one byte string.
    fn bytes(&mut self, bytes: &Bytes);
    /// A part of a document.
    fn element(&mut self, element: &Blob);
    /// A text of at most 99 bytes.
    fn text(&mut self, text: &[u8]);
    fn integer(&mut self, number: i64);
    fn nil(&mut self);
}

/// The bytes themselves. Short parts are put together first, so that the buffer is asked for room seldom.
struct Written<'o> {
    out: &'o mut BytesMut,
    protocol: Protocol,
    line: Short<ENTRY_BYTES_MAX>,
}

impl Written<'_> {
    /// What follows the short parts that were put together.
    #[inline]
    fn flush(&mut self) -> &mut BytesMut {
        self.out.extend_from_slice(self.line.as_bytes());
        self.line.len = 0;
        self.out
    }

    /// The line, with room for so many bytes.
    #[inline]
    fn line(&mut self, bytes: usize) -> &mut Short<ENTRY_BYTES_MAX> {
        if self.line.len + bytes > ENTRY_BYTES_MAX {
            self.flush();
        }
        &mut self.line
    }
}

impl Put for Written<'_> {
    #[inline]
    fn list(&mut self, items: usize) {
        match u8::try_from(items) {
            Ok(items @ ..10) => self.line(4).push(&[b'*', b'0' + items, b'\r', b'\n']),
            _ => write_header(self.flush(), b'*', items as u64),
        }
    }

    #[inline]
    fn entry(&mut self, kind: Option<Kind>) {
        let line = self.line(16);
        match kind {
            Some(Kind::Bytes) => line.push(b"*6\r\n+string\r\n"),
            Some(Kind::Hash) => line.push(b"*6\r\n+hash\r\n"),
            Some(Kind::List) => line.push(b"*6\r\n+list\r\n"),
            Some(Kind::Set) => line.push(b"*6\r\n+set\r\n"),
            None => line.push(b"*6\r\n+none\r\n"),
        }
    }

    #[inline]
    fn same(&mut self) {
        self.line(16).push(b"*6\r\n+same\r\n");
        self.nil();
    }

    #[inline]
    fn bytes(&mut self, bytes: &Bytes) {
        match bytes.whole() {
            Some((shared, range)) => write_bulk(self.flush(), shared.get(range).unwrap_or_default()),
            None => {
                let protocol = self.protocol;
                bulk_of(bytes).encode(protocol, self.flush());
            }
        }
    }

    fn element(&mut self, element: &Blob) {
        write_bulk(self.flush(), element);
    }

    #[inline]
    fn text(&mut self, text: &[u8]) {
        let line = self.line(text.len() + 7);
        match text.len() {
            short @ ..10 => line.push(&[b'$', b'0' + short as u8, b'\r', b'\n']),
            long => line.push(&[b'$', b'0' + (long / 10) as u8, b'0' + (long % 10) as u8, b'\r', b'\n']),
        }
        line.push(text);
        line.push(b"\r\n");
    }

    fn integer(&mut self, number: i64) {
        write_integer(self.flush(), number);
    }

    #[inline]
    fn nil(&mut self) {
        match self.protocol {
            Protocol::Resp2 => self.line(5).push(b"$-1\r\n"),
            Protocol::Resp3 => self.line(3).push(b"_\r\n"),
        }
    }
}

/// A reply. It shares the documents.
struct Built {
    /// Lists that are not complete, each with how many items it will have.
    open: Vec<(usize, Vec<Reply>)>,
    done: Reply,
}

impl Built {
    fn add(&mut self, mut reply: Reply) {
        while let Some((items, mut list)) = self.open.pop() {
            list.push(reply);
            if list.len() < items {
                return self.open.push((items, list));
            }
            reply = Reply::Array(list);
        }
        self.done = reply;
    }
}

impl Put for Built {
    fn list(&mut self, items: usize) {
        match items {
            0 => self.add(Reply::Array(Vec::new())),
            items => self.open.push((items, Vec::with_capacity(items))),
        }
    }

    fn entry(&mut self, kind: Option<Kind>) {
        self.list(6);
        self.add(Reply::Simple(kind.map_or("none", Kind::name).into()));
    }

    fn same(&mut self) {
        self.list(6);
        self.add(Reply::Simple("same".into()));
        self.nil();
    }

    fn bytes(&mut self, bytes: &Bytes) {
        self.add(bulk_of(bytes));
    }

    fn element(&mut self, element: &Blob) {
        self.add(Reply::Bulk(element.clone()));
    }

    fn text(&mut self, text: &[u8]) {
        self.add(Reply::Text(String::from_utf8_lossy(text).into_owned()));
    }

    fn integer(&mut self, number: i64) {
        self.add(Reply::Integer(number));
    }

    fn nil(&mut self) {
        self.add(Reply::Nil);
    }
}

/// A version as it travels: with a `-` before it where its key is absent.
#[inline]
fn named(version: Version, present: bool) -> Short<VERSION_BYTES_MAX> {
    let mut text = Short::new();
    if !present {
        text.push(b"-");
    }
    text.push_number(version.incarnation);
    text.push(b"-");
    text.push_number(version.sequence);
    text
}

/// A version as a text: with a `-` before it where its key is absent.
pub(super) fn version_text(version: Version, present: bool) -> String {
    named(version, present).into_text()
}

/// A rate, with six digits behind the point. Above [`RATE_MAX`] it is that.
#[inline]
fn per_second(rate: f64) -> Short<RATE_BYTES_MAX> {
    let millionths = (rate.clamp(0.0, RATE_MAX) * 1e6 + 0.5) as u64;
    let mut text = Short::new();
    text.push_number(millionths / 1_000_000);
    text.push(b".");
    text.push_digits(millionths % 1_000_000, 6);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_six_digits_behind_the_point() {
        for rate in [0.0, 0.0000004, 0.0000006, 0.05, 0.999_999_4, 0.999_999_6, 1.0, 12.5, 1_234.567_891, 1e9] {
            assert_eq!(per_second(rate).into_text(), format!("{rate:.6}"));
        }
        assert_eq!(per_second(1e30).into_text(), "1000000000.000000");
        assert_eq!(per_second(f64::NAN).into_text(), "0.000000");
    }

    #[test]
    fn numbers_are_written_as_they_are() {
        for number in [0, 1, 9, 10, 99, 100, 12_345, u64::MAX - 1, u64::MAX] {
            let mut text = Short::<20>::new();
            text.push_number(number);
            assert_eq!(text.into_text(), number.to_string());
        }
    }

    #[test]
    fn the_longest_entry_has_room() {
        let most = Version { incarnation: u64::MAX, sequence: u64::MAX };
        assert_eq!(version_text(most, false).len(), VERSION_BYTES_MAX);
        assert_eq!(per_second(f64::MAX).len, RATE_BYTES_MAX);
    }

    fn value_of(data: Data) -> Value {
        Value { data, expires_at_ms: None }
    }

    fn read(value: Option<Value>, sequence: u64) -> Read {
        Read { value, version: Version { incarnation: u64::MAX >> (sequence % 60), sequence } }
    }

    /// What is written is what the reply encodes to, in both protocols, and no longer than was said.
    #[test]
    fn bytes_and_reply_are_alike() {
        let blob = |text: &str| Blob::from(text.as_bytes());
        let texts = (0..300).map(|n| "x".repeat(n)).collect::<Vec<_>>();
        let mut documents = vec![None, Some(Value::bytes(&b""[..]))];
        documents.extend(texts.iter().map(|text| Some(Value::bytes(text.as_bytes()))));
        documents.push(Some(Value::bytes(&[7; 100_000][..])));
        for count in [1, 2, 9, 10, 200] {
            let elements = || texts.iter().take(count).map(|text| blob(text));
            documents.push(Some(value_of(Data::List(elements().collect()))));
            documents.push(Some(value_of(Data::Set(elements().collect()))));
            documents.push(Some(value_of(Data::Hash(elements().map(|field| (field.clone(), field)).collect()))));
        }
        documents.push(Some(Value { expires_at_ms: Some(1_500), ..Value::bytes(&b"v"[..]) }));
        let mut answers: Vec<Vec<Option<Value>>> = documents.iter().map(|document| vec![document.clone()]).collect();
        answers.push(documents[..40].to_vec());
        for (number, documents) in (0..).zip(answers) {
            let reads = documents.into_iter().map(|document| read(document, number)).collect::<Vec<_>>();
            let as_of = (number % 3 > 0).then_some(Version { incarnation: 1, sequence: number << 40 });
            let writes = SmallVec::from_elem(0.1 * number as f64, reads.len());
            // Of every fifth answer the client has some, or has others.
            let have = reads.iter().filter(|_| number % 5 == 0).step_by(2);
            let have = have.map(|read| (read.version, read.value.is_some() || number % 2 == 0)).collect();
            let answer = Answer { leased: Leased { as_of, reads: reads.into(), now_ms: 1_000 }, writes, have };
            for protocol in [Protocol::Resp2, Protocol::Resp3] {
                let (mut written, mut encoded) = (BytesMut::new(), BytesMut::new());
                answer.write(protocol, &mut written);
                answer.reply().encode(protocol, &mut encoded);
                assert_eq!(written, encoded);
                assert!(!answer.is_small(written.len() - 1), "{number}: {} bytes", written.len());
            }
        }
    }
}
