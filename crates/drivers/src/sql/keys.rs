//! Keys that are documents beside rows: `--keys 'session:* -> documents'`. They lie in the table that forebay owns. A
//! commit of both is one transaction of the database.
//!
//! A key of a mapping's form stays that mapping's, well formed or not: one that is mistyped is no document beside the
//! row. All keys of the databases 1 to 15 are documents, for no row has such a key.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use forebay::Key;

use super::glob::{DOCUMENTS, Glob};
use super::mapping::Mapping;

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

/// Which keys are documents, in front of tables.
#[derive(Debug)]
pub(crate) struct Named {
    keys: Vec<Glob>,
    /// The forms of keys of rows.
    forms: Vec<Glob>,
    like: Vec<Vec<u8>>,
    unlike: Vec<Vec<u8>>,
}

impl Named {
    /// None if no keys are.
    pub(crate) fn new(keys: &[Keys], mappings: &[Mapping]) -> Option<Arc<Named>> {
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
    pub(crate) fn has(&self, key: &Key) -> bool {
        let any = |globs: &[Glob]| globs.iter().any(|glob| glob.is(key.name()) || glob.has(key.name()));
        key.space() != 0 || (any(&self.keys) && !any(&self.forms))
    }

    /// The patterns of LIKE of which a document's name has one.
    pub(crate) fn like(&self) -> &Vec<Vec<u8>> {
        &self.like
    }

    /// Those of which it has none.
    pub(crate) fn unlike(&self) -> &Vec<Vec<u8>> {
        &self.unlike
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

#[cfg(test)]
mod tests {
    use super::super::glob::suggested;
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
