//! What the server's answers say. Any bytes may come: what is no such answer is an error, never a panic.

use std::sync::Arc;
use std::time::Duration;

use forebay::key::Key;
use forebay::value::{Blob, Data, Hash, List, Set, Value};
use forebay::version::Version;
use forebay_protocol::Reply;

use crate::copy::Copy;
use crate::error::Error;

/// What LEASE GET tells of one key.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The document.
    pub value: Option<Value>,
    /// Its version, or that of its absence.
    pub version: Version,
    /// All up to it was published before the read, and nothing will be published at or below it.
    pub as_of: Option<Version>,
    /// How often others write it, per second.
    pub writes: f64,
    /// How long the document lives, from before the request was sent.
    pub fresh: Option<Duration>,
    /// The document is the one that the request has named.
    pub is_same: bool,
}

/// A key that was read at another version than it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    /// Its name.
    pub name: Vec<u8>,
    /// Its version now.
    pub version: Version,
    /// Whether there is a document.
    pub present: bool,
}

/// What EXEC answers after LEASE CHECK.
#[derive(Clone, Debug, PartialEq)]
pub enum Executed {
    /// What was checked is current, and the commands ran.
    Done {
        /// A reply to each command.
        replies: Vec<Reply>,
        /// Under which version they have written.
        version: Option<Version>,
        /// As of when all that was checked is current.
        as_of: Option<Version>,
    },
    /// Nothing ran: these have changed.
    Stale(Vec<Stale>),
    /// Nothing ran: another transaction was in the way.
    Conflict,
    /// It may have run.
    Unknown(String),
    /// Nothing ran, for this reason.
    Refused(String),
}

/// The bytes of a string; `None` for what is none.
pub fn bytes_of(reply: Reply) -> Option<Blob> {
    match reply {
        Reply::Bulk(bytes) => Some(bytes),
        Reply::Text(text) => Some(Arc::from(text.into_bytes())),
        Reply::Simple(text) => Some(Arc::from(text.as_bytes())),
        _ => None,
    }
}

/// What an error says; `None` for what is none.
pub fn error_of(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Error(text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    }
}

/// What LEASE GET has answered for `count` keys, of whose first the request has named what is in `have`.
pub fn told(reply: Reply, count: usize, have: &[(Key, Arc<Copy>)]) -> Result<Vec<Told>, Error> {
    if let Some(reply) = error_of(&reply) {
        return Err(Error::Refused { what: "LEASE GET", reply });
    }
    let malformed = |why: String| Error::Malformed { what: "LEASE GET", why };
    let Reply::Array(entries) = reply else { return Err(malformed("it is no list".into())) };
    if entries.len() != count {
        return Err(malformed(format!("{} entries for {count} keys", entries.len())));
    }
    let have = have.iter().map(|(_, copy)| Some(&**copy)).chain(std::iter::repeat(None));
    let each = entries.into_iter().zip(have).map(|(entry, have)| told_of(entry, have));
    each.map(|told| told.map_err(|why| malformed(why.into()))).collect()
}

fn told_of(entry: Reply, have: Option<&Copy>) -> Result<Told, &'static str> {
    let Reply::Array(parts) = entry else { return Err("an entry is no list") };
    let parts = <[Reply; 6]>::try_from(parts).map_err(|_| "an entry has not six parts")?;
    let [kind, document, version, as_of, writes, fresh] = parts;
    let (version, present) = bytes_of(version).as_deref().and_then(version_of).ok_or("a version is none")?;
    let is_same = bytes_of(kind.clone()).is_some_and(|kind| *kind == *b"same");
    let value = match have.filter(|_| is_same) {
        Some(copy) if (copy.version, copy.present) != (version, present) => return Err("what is the same has changed"),
        Some(_) if !is_nil(&document) => return Err("what is the same has a document"),
        Some(copy) => copy.value.clone(),
        None => document_of(kind, document)?,
    };
    if present != value.is_some() {
        return Err("version and document disagree on whether there is one");
    }
    let as_of = optional_version(as_of)?;
    let writes = match writes {
        Reply::Nil | Reply::NilArray => 0.0,
        other => number_of(other).ok_or("writes is no number")?,
    };
    let fresh = match fresh {
        Reply::Nil | Reply::NilArray => None,
        Reply::Integer(ms) => Some(Duration::from_millis(ms.try_into().map_err(|_| "fresh-ms is negative")?)),
        _ => return Err("fresh-ms is no number"),
    };
    Ok(Told { value, version, as_of, writes, fresh, is_same })
}

fn is_nil(reply: &Reply) -> bool {
    matches!(reply, Reply::Nil | Reply::NilArray)
}

fn number_of(reply: Reply) -> Option<f64> {
    let number = match reply {
        Reply::Double(number) => number,
        other => std::str::from_utf8(&bytes_of(other)?).ok()?.parse().ok()?,
    };
    (number.is_finite() && number >= 0.0).then_some(number)
}

fn document_of(kind: Reply, document: Reply) -> Result<Option<Value>, &'static str> {
    let kind = bytes_of(kind).ok_or("a type is no word")?;
    let data = match &*kind {
        b"none" => {
            return if is_nil(&document) { Ok(None) } else { Err("an absent key has a document") };
        }
        b"string" => Data::Bytes(bytes_of(document).ok_or("a string is none")?.into()),
        b"hash" => {
            let parts = elements_of(document)?;
            if !parts.len().is_multiple_of(2) {
                return Err("a hash has a field without a value");
            }
            let pairs = parts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
            let hash: Hash = pairs.collect();
            if hash.len() * 2 != parts.len() {
                return Err("a hash has a field twice");
            }
            Data::Hash(hash)
        }
        b"list" => Data::List(elements_of(document)?.into_iter().collect::<List>()),
        b"set" => Data::Set(elements_of(document)?.into_iter().collect::<Set>()),
        _ => return Err("a type is not known"),
    };
    Ok(Some(Value { data, expires_at_ms: None }))
}

fn elements_of(document: Reply) -> Result<Vec<Blob>, &'static str> {
    let (Reply::Array(elements) | Reply::Set(elements)) = document else { return Err("a document is no list") };
    if elements.is_empty() {
        return Err("a document is empty");
    }
    elements.into_iter().map(|element| bytes_of(element).ok_or("an element is no string")).collect()
}

/// `1-3`, or `-1-3` of an absent key; and whether it is present.
pub fn version_of(text: &[u8]) -> Option<(Version, bool)> {
    let text = std::str::from_utf8(text).ok()?;
    let (text, present) = text.strip_prefix('-').map_or((text, true), |text| (text, false));
    Some((text.parse().ok()?, present))
}

/// A version as LEASE CHECK takes it.
pub fn named(version: Version, present: bool) -> String {
    let absent = if present { "" } else { "-" };
    format!("{absent}{version}")
}

fn optional_version(reply: Reply) -> Result<Option<Version>, &'static str> {
    match reply {
        Reply::Nil | Reply::NilArray => Ok(None),
        other => match bytes_of(other).as_deref().and_then(version_of) {
            Some((version, true)) => Ok(Some(version)),
            _ => Err("a version is none"),
        },
    }
}

/// What EXEC has answered for `count` commands, behind a LEASE CHECK and what else was answered `before`.
pub fn executed(before: &[Reply], reply: Reply, count: usize) -> Result<Executed, Error> {
    if let Some(text) = error_of(&reply) {
        return failed(before, text);
    }
    let malformed = |why| Error::Malformed { what: "EXEC", why };
    let Reply::Array(parts) = reply else { return Err(malformed("it is no list".into())) };
    let parts = <[Reply; 3]>::try_from(parts).map_err(|_| malformed("it has not three parts".into()))?;
    let [Reply::Array(replies), version, as_of] = parts else {
        return Err(malformed("its first part is no list".into()));
    };
    if replies.len() != count {
        return Err(malformed(format!("{} replies for {count} commands", replies.len())));
    }
    let version = optional_version(version).map_err(|why| malformed(why.into()))?;
    let as_of = optional_version(as_of).map_err(|why| malformed(why.into()))?;
    Ok(Executed::Done { replies, version, as_of })
}

fn failed(before: &[Reply], text: String) -> Result<Executed, Error> {
    let (code, rest) = text.split_once(' ').unwrap_or((&text, ""));
    Ok(match code {
        "TXSTALE" => Executed::Stale(stale(rest)?),
        "TXCONFLICT" | "TXABORTED" => Executed::Conflict,
        "TXUNKNOWN" => Executed::Unknown(text),
        // The error of what was refused before says why.
        "EXECABORT" => Executed::Refused(before.iter().find_map(error_of).unwrap_or(text)),
        _ => Executed::Refused(text),
    })
}

fn stale(text: &str) -> Result<Vec<Stale>, Error> {
    let malformed = || Error::Malformed { what: "EXEC", why: format!("TXSTALE {}", text.escape_debug()) };
    let words: Vec<&str> = text.split(' ').collect();
    if !words.len().is_multiple_of(2) {
        return Err(malformed());
    }
    let each = words.chunks_exact(2).map(|pair| {
        let (version, present) = version_of(pair[1].as_bytes())?;
        Some(Stale { name: unescaped(pair[0])?, version, present })
    });
    each.collect::<Option<_>>().ok_or_else(malformed)
}

/// A name as TXSTALE tells it: `\xNN` is a byte.
fn unescaped(word: &str) -> Option<Vec<u8>> {
    let mut parts = word.split('\\');
    let mut name = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let digits = part.strip_prefix('x')?;
        let byte = digits.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        name.push(u8::from_str_radix(byte, 16).ok()?);
        name.extend_from_slice(digits.get(2..)?.as_bytes());
    }
    Some(name)
}

/// What became of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It was applied, under this version.
    Committed(Version),
    /// The server knows of no such commit. It was not applied, unless its request is on its way still, or its id is
    /// forgotten: the server remembers a user's last 10,000 for 10 minutes.
    NotKnown,
    /// It is not over yet: ask again.
    Open,
    /// It is kept for the database, or was and could not be applied there: the server's words (`docs/outage.md`).
    Kept(String),
}

/// What TXN BEGIN ID has answered.
pub fn outcome(reply: &Reply) -> Result<Outcome, Error> {
    let refused = |reply: String| Error::Refused { what: "TXN BEGIN ID", reply };
    match reply {
        Reply::Simple(text) if text == "OK" => Ok(Outcome::NotKnown),
        Reply::Simple(text) => match text.strip_prefix("COMMITTED ") {
            None => Ok(Outcome::Kept(text.to_string())),
            Some(version) => match version_of(version.as_bytes()) {
                Some((version, true)) => Ok(Outcome::Committed(version)),
                _ => Err(Error::Malformed { what: "TXN BEGIN ID", why: text.to_string() }),
            },
        },
        Reply::Error(text) if text.starts_with(b"TXCONFLICT") => Ok(Outcome::Open),
        Reply::Error(text) => Err(refused(String::from_utf8_lossy(text).into_owned())),
        _ => Err(Error::Malformed { what: "TXN BEGIN ID", why: "it is no status".into() }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::copies::tests::copy;

    fn version(sequence: u64) -> Version {
        Version { incarnation: 1, sequence }
    }

    fn entry(parts: [Reply; 6]) -> Reply {
        Reply::Array(vec![Reply::Array(parts.to_vec())])
    }

    fn a_string() -> [Reply; 6] {
        let text = |text: &str| Reply::bulk(text.as_bytes());
        [Reply::Simple("string".into()), text("v"), text("1-3"), text("1-5"), text("0.5"), Reply::Integer(7)]
    }

    #[test]
    fn what_lease_get_tells() {
        let [told] = <[Told; 1]>::try_from(told(entry(a_string()), 1, &[]).unwrap()).unwrap();
        assert_eq!(told.value, Some(Value::bytes(*b"v")));
        assert_eq!((told.version, told.as_of), (version(3), Some(version(5))));
        assert_eq!((told.writes, told.fresh), (0.5, Some(Duration::from_millis(7))));
    }

    /// Each part in turn is what it must not be.
    #[test]
    fn what_is_no_answer_is_said() {
        let wrong = [
            (0, Reply::Simple("stream".into())),
            (0, Reply::Simple("none".into())),
            (0, Reply::Simple("hash".into())),
            (1, Reply::Nil),
            (2, Reply::bulk(b"-1-3")),
            (2, Reply::bulk(b"3")),
            (2, Reply::Nil),
            (3, Reply::bulk(b"-1-5")),
            (3, Reply::Integer(5)),
            (4, Reply::bulk(b"often")),
            (4, Reply::Double(f64::NAN)),
            (4, Reply::bulk(b"-1")),
            (5, Reply::Integer(-1)),
            (5, Reply::bulk(b"7")),
        ];
        for (at, part) in wrong {
            let mut parts = a_string();
            parts[at] = part.clone();
            let told = told(entry(parts), 1, &[]);
            assert!(matches!(told, Err(Error::Malformed { .. })), "part {at} {part:?}: {told:?}");
        }
        for reply in [Reply::Nil, Reply::Array(vec![]), Reply::Array(vec![Reply::Nil]), Reply::Integer(1)] {
            assert!(matches!(told(reply, 1, &[]), Err(Error::Malformed { .. })));
        }
        for elements in [vec![], vec![Reply::bulk(b"f")], vec![Reply::bulk(b"f"); 4], vec![Reply::Nil; 2]] {
            let mut parts = a_string();
            (parts[0], parts[1]) = (Reply::Simple("hash".into()), Reply::Array(elements));
            assert!(matches!(told(entry(parts), 1, &[]), Err(Error::Malformed { .. })));
        }
        assert!(matches!(told(Reply::error("LIMIT lease_keys_max 1"), 2, &[]), Err(Error::Refused { .. })));
    }

    /// Of a copy that was named the answer need not bring the document; of another it must.
    #[test]
    fn what_is_the_same() {
        let copy = Arc::new(copy(version(3), None, Instant::now()));
        let have = [(Key::new(0, b"k"), copy.clone())];
        let same = |at: usize, part: Reply| {
            let mut parts = a_string();
            (parts[0], parts[1]) = (Reply::Simple("same".into()), Reply::Nil);
            parts[at] = part;
            entry(parts)
        };
        let [is] = <[Told; 1]>::try_from(told(same(1, Reply::Nil), 1, &have).unwrap()).unwrap();
        assert_eq!((is.value.as_ref(), is.version, is.as_of), (copy.value.as_ref(), version(3), Some(version(5))));
        assert!(is.is_same && is.fresh == Some(Duration::from_millis(7)));
        for wrong in [same(1, Reply::bulk(b"v")), same(2, Reply::bulk(b"1-4")), same(2, Reply::bulk(b"-1-3"))] {
            assert!(matches!(told(wrong, 1, &have), Err(Error::Malformed { .. })));
        }
        assert!(matches!(told(same(1, Reply::Nil), 1, &[]), Err(Error::Malformed { .. })), "none was named");
        let [is] = <[Told; 1]>::try_from(told(entry(a_string()), 1, &have).unwrap()).unwrap();
        assert!(!is.is_same && is.value == Some(Value::bytes(*b"v")));
    }

    #[test]
    fn what_exec_tells() {
        let text = |text: &str| Reply::bulk(text.as_bytes());
        let done = Reply::Array(vec![Reply::Array(vec![Reply::Integer(1)]), text("1-3"), Reply::Nil]);
        let expected = Executed::Done { replies: vec![Reply::Integer(1)], version: Some(version(3)), as_of: None };
        assert_eq!(executed(&[], done.clone(), 1), Ok(expected));
        assert!(matches!(executed(&[Reply::OK], done, 2), Err(Error::Malformed { .. })));
        for reply in [Reply::NilArray, Reply::Array(vec![]), Reply::Array(vec![Reply::Nil; 3]), Reply::OK] {
            assert!(matches!(executed(&[Reply::OK], reply, 0), Err(Error::Malformed { .. })));
        }
        let failed = |text: &'static str| executed(&[Reply::OK], Reply::error(text), 0);
        let stale = vec![
            Stale { name: b"a b\\".to_vec(), version: version(4), present: false },
            Stale { name: b"c".to_vec(), version: version(5), present: true },
        ];
        assert_eq!(failed("TXSTALE a\\x20b\\x5c -1-4 c 1-5"), Ok(Executed::Stale(stale)));
        assert_eq!(failed("TXCONFLICT deadlock"), Ok(Executed::Conflict));
        assert_eq!(failed("TXUNKNOWN 1-2"), Ok(Executed::Unknown("TXUNKNOWN 1-2".into())));
        let refused = Reply::error("LIMIT lease_checks_max 3");
        let said = executed(&[refused], Reply::error("EXECABORT a LEASE CHECK was refused"), 0);
        assert_eq!(said, Ok(Executed::Refused("LIMIT lease_checks_max 3".into())));
        for text in ["TXSTALE", "TXSTALE a", "TXSTALE a b", "TXSTALE a\\y 1-1", "TXSTALE a\\x+1 1-1", "TXSTALE \\x 1-1"]
        {
            assert!(matches!(failed(text), Err(Error::Malformed { .. })), "{text}");
        }
    }

    #[test]
    fn what_became_of_a_commit() {
        let simple = |text: &'static str| outcome(&Reply::Simple(text.into()));
        assert_eq!(simple("OK"), Ok(Outcome::NotKnown));
        assert_eq!(simple("COMMITTED 1-3"), Ok(Outcome::Committed(version(3))));
        assert_eq!(simple("BUFFERED 7"), Ok(Outcome::Kept("BUFFERED 7".into())));
        assert_eq!(outcome(&Reply::error("TXCONFLICT not over")), Ok(Outcome::Open));
        assert!(simple("COMMITTED soon").is_err() && outcome(&Reply::error("STOREDOWN x")).is_err());
    }
}
