//! Keys that are documents beside rows: `--keys 'session:* -> documents'`. They lie in the table that forebay owns. A
//! commit of both is one transaction of the database.
//!
//! A key of a mapping's form stays that mapping's, well formed or not: one that is mistyped is no document beside the
//! row. All keys of the databases 1 to 15 are documents, for no row has such a key.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use forebay::Key;
use tokio_postgres::types::ToSql;

use super::mapping::Mapping;

/// What such keys may be.
const DOCUMENTS: &str = "documents";

/// Longest beginning of a key that an error suggests as a pattern.
const SUGGESTED_BYTES_MAX: usize = 64;

/// Keys of one pattern are documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    text: String,
    glob: Glob,
}

impl FromStr for Keys {
    type Err = String;

    fn from_str(text: &str) -> Result<Keys, String> {
        let example = "'session:* -> documents'";
        let pattern = text.trim_start();
        let (pattern, target) = match pattern.strip_prefix("->") {
            Some(target) => ("", target),
            None => pattern.rsplit_once(" ->").ok_or_else(|| format!("give PATTERN -> documents, as in {example}"))?,
        };
        match (pattern.trim(), target.trim()) {
            ("", _) => Err(format!("the pattern is empty; '*' stands for all keys, as in {example}")),
            (pattern, DOCUMENTS) => Ok(Keys { text: pattern.to_owned(), glob: Glob::of_text(pattern)? }),
            (pattern, "memory") => {
                Err(format!("'memory' is not built yet: use documents, as in '{pattern} -> {DOCUMENTS}'"))
            }
            (pattern, "") => Err(format!("what these keys are is missing; give '{pattern} -> {DOCUMENTS}'")),
            (_, target) => Err(format!("keys can't be '{target}'; give documents, as in {example}")),
        }
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {DOCUMENTS}", self.text)
    }
}

/// Texts of which each is followed by anything, but for the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glob(Vec<Vec<u8>>);

/// A byte of no pattern, since these are UTF-8.
const ANYTHING: u8 = 0xff;

impl Glob {
    /// Of texts with anything between them.
    pub(super) fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Glob {
        Glob(texts.map(|text| text.as_bytes().to_vec()).collect())
    }

    /// `*` and parts in braces stand for anything.
    fn of_text(text: &str) -> Result<Glob, String> {
        let (mut texts, mut rest) = (Vec::new(), text);
        while let Some((before, behind)) = rest.split_once(['*', '{']) {
            texts.push(before);
            rest = match rest.as_bytes()[before.len()] {
                b'{' => behind.split_once('}').ok_or("a closing brace is missing in the pattern")?.1,
                _ => behind,
            };
        }
        texts.push(rest);
        Ok(Glob::new(texts.into_iter()))
    }

    /// Whether it has a key of this name.
    fn has(&self, name: &[u8]) -> bool {
        let Some(([first, middle @ ..], last)) = self.0.split_last().map(|(last, rest)| (rest, last)) else {
            return false;
        };
        let Some(mut rest) = name.strip_prefix(first.as_slice()).and_then(|rest| rest.strip_suffix(last.as_slice()))
        else {
            return false;
        };
        middle.iter().all(|text| match rest.windows(text.len().max(1)).position(|part| part.starts_with(text)) {
            Some(at) => {
                rest = &rest[at + text.len()..];
                true
            }
            None => text.is_empty(),
        })
    }

    /// Whether it is one name alone, and this.
    fn is(&self, name: &[u8]) -> bool {
        matches!(self.0.as_slice(), [only] if only == name)
    }

    /// Whether it has each key that `other` has.
    fn has_all_of(&self, other: &Glob) -> bool {
        let name = other.0.join(&ANYTHING);
        self.is(&name) || self.has(&name)
    }

    /// The pattern of LIKE.
    fn like(&self) -> Vec<u8> {
        let escaped = |text: &Vec<u8>| {
            let mut escaped = Vec::with_capacity(text.len());
            for byte in text {
                if matches!(byte, b'%' | b'_' | b'\\') {
                    escaped.push(b'\\');
                }
                escaped.push(*byte);
            }
            escaped
        };
        self.0.iter().map(escaped).collect::<Vec<_>>().join(&b'%')
    }
}

/// Which keys are documents, in front of tables.
#[derive(Debug)]
pub(super) struct Named {
    keys: Vec<Glob>,
    /// The forms of keys of rows.
    forms: Vec<Glob>,
    like: Vec<Vec<u8>>,
    unlike: Vec<Vec<u8>>,
}

impl Named {
    /// None if no keys are.
    pub(super) fn new(keys: &[Keys], mappings: &[Mapping]) -> Option<Arc<Named>> {
        if keys.is_empty() || mappings.is_empty() {
            return None;
        }
        let keys: Vec<Glob> = keys.iter().map(|keys| keys.glob.clone()).collect();
        let forms: Vec<Glob> = mappings.iter().map(Mapping::glob).collect();
        let like = |globs: &[Glob]| globs.iter().map(Glob::like).collect();
        let (like, unlike) = (like(&keys), like(&forms));
        Some(Arc::new(Named { keys, forms, like, unlike }))
    }

    /// Whether `key` is a document.
    pub(super) fn has(&self, key: &Key) -> bool {
        let any = |globs: &[Glob]| globs.iter().any(|glob| glob.is(key.name()) || glob.has(key.name()));
        key.space() != 0 || (any(&self.keys) && !any(&self.forms))
    }

    /// The condition that a document of the own table has to meet to be one of these, where `$at` and the next
    /// parameter are [`Named::parameters`].
    pub(super) fn condition(at: usize) -> String {
        format!("(space <> 0 OR name LIKE ANY (${at}::bytea[]) AND NOT name LIKE ANY (${}::bytea[]))", at + 1)
    }

    pub(super) fn parameters(&self) -> [&(dyn ToSql + Sync); 2] {
        [&self.like, &self.unlike]
    }
}

/// What is wrong with `keys` beside these mappings: one line each, which says what to do.
pub fn contradictions(keys: &[Keys], mappings: &[Mapping]) -> Vec<String> {
    if mappings.is_empty() {
        let line = |keys: &Keys| format!("'{keys}': without --map all keys are documents; leave it out, or give --map");
        return keys.first().map(line).into_iter().collect();
    }
    let claimed = |keys: &Keys| {
        let mapping = mappings.iter().find(|mapping| mapping.glob().has_all_of(&keys.glob))?;
        Some(format!(
            "'{keys}': each such key has the form of --map '{mapping}' and stays its row; give other keys, or leave it \
             out"
        ))
    };
    keys.iter().filter_map(claimed).collect()
}

/// The setting that has a key like `key` kept as a document, as one would type it.
pub(super) fn suggested(key: &Key) -> String {
    let name = std::str::from_utf8(key.name()).unwrap_or_default();
    let prefix = match name.split_once(':') {
        Some((prefix, _)) => format!("{prefix}:*"),
        None => name.to_owned(),
    };
    let plain = |character: char| character.is_alphanumeric() || "*:._-/@#".contains(character);
    let is_plain = !prefix.is_empty() && prefix.len() <= SUGGESTED_BYTES_MAX && prefix.chars().all(plain);
    let pattern = if is_plain && !name.contains('*') { prefix } else { "*".to_owned() };
    format!("--keys '{pattern} -> {DOCUMENTS}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Keys {
        text.parse().expect(text)
    }

    fn mapping(text: &str) -> Mapping {
        text.parse().expect(text)
    }

    #[test]
    fn what_is_given_reads_back_or_is_refused() {
        for text in ["session:* -> documents", "a{b}c -> documents", "* -> documents", "config -> documents"] {
            assert_eq!(keys(text).to_string(), text);
        }
        for (text, part) in [
            ("session:*", "give PATTERN -> documents"),
            ("session:* -> memory", "'memory' is not built yet: use documents"),
            ("session:* -> table", "can't be 'table'; give documents"),
            ("session:* ->", "give 'session:* -> documents'"),
            (" -> documents", "the pattern is empty"),
            ("-> documents", "the pattern is empty"),
            ("a{b -> documents", "a closing brace is missing"),
        ] {
            let error = text.parse::<Keys>().expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_key_of_a_mappings_form_stays_its_row() {
        let mappings = [mapping("user:{id} -> users(id)"), mapping("m:{a}:{b}! -> t(a, b)")];
        let named = Named::new(&[keys("* -> documents")], &mappings).expect("keys");
        for (name, is_document) in [
            (&b"user:1"[..], false),
            (b"user:abc", false),
            (b"user:\xff", false),
            (b"user", true),
            (b"user:", false),
            (b"m:1!", true),
            (b"m:1:2!", false),
            (b"m:1:2", true),
            (b"", true),
            (b"\xff\xfe", true),
        ] {
            assert_eq!(named.has(&Key::new(0, name)), is_document, "{name:?}");
            assert!(named.has(&Key::new(1, name)), "{name:?}");
        }
        let named = Named::new(&[keys("s:* -> documents"), keys("a*b*c -> documents")], &mappings).expect("keys");
        for (name, is_document) in [
            ("s:", true),
            ("s:1", true),
            ("s", false),
            ("abc", true),
            ("axbxc", true),
            ("acb", false),
            ("abxcx", false),
            ("ab", false),
        ] {
            assert_eq!(named.has(&Key::new(0, name.as_bytes())), is_document, "{name}");
        }
        assert!(Named::new(&[], &mappings).is_none());
    }

    #[test]
    fn what_contradicts_a_mapping_is_said() {
        let mappings = [mapping("user:{id} -> users(id)")];
        let lines = |text: &str| contradictions(&[keys(text)], &mappings);
        for text in ["user:* -> documents", "user:{id} -> documents", "user:1 -> documents", "user:*:cart -> documents"]
        {
            let lines = lines(text);
            assert!(lines.len() == 1 && lines[0].contains("has the form of --map 'user:{id} -> users(id)'"), "{text}");
        }
        for text in ["* -> documents", "user* -> documents", "users:* -> documents"] {
            assert_eq!(lines(text), Vec::<String>::new(), "{text}");
        }
        let alone = contradictions(&[keys("a -> documents")], &[]);
        assert!(alone.len() == 1 && alone[0].contains("without --map"), "{alone:?}");
    }

    #[test]
    fn a_suggestion_can_be_typed() {
        for (name, pattern) in
            [("session:1:2", "session:*"), ("config", "config"), ("a'b:c", "*"), ("", "*"), ("a{b}:c", "*")]
        {
            let suggested = suggested(&Key::new(0, name.as_bytes()));
            assert_eq!(suggested, format!("--keys '{pattern} -> documents'"), "{name}");
            let text = suggested.trim_start_matches("--keys '").trim_end_matches('\'').to_owned();
            let named = Named::new(&[keys(&text)], &[mapping("user:{id} -> users(id)")]).expect("keys");
            assert!(named.has(&Key::new(0, name.as_bytes())), "{name}");
        }
    }

    #[test]
    fn patterns_of_like_escape_what_they_must() {
        assert_eq!(keys("a_b%{x}\\* -> documents").glob.like(), b"a\\_b\\%%\\\\%".to_vec());
    }
}
