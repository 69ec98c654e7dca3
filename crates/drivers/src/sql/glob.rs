//! Patterns of keys in which a part stands for anything.

use forebay::Key;

/// What keys that no mapping names may be.
pub(crate) const DOCUMENTS: &str = "documents";

/// Longest beginning of a key that an error suggests as a pattern.
const SUGGESTED_BYTES_MAX: usize = 64;

/// Texts of which each is followed by anything, but for the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob(Vec<Vec<u8>>);

/// A byte of no pattern, since these are UTF-8.
const ANYTHING: u8 = 0xff;

impl Glob {
    /// Of texts with anything between them.
    pub(crate) fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Glob {
        Glob(texts.map(|text| text.as_bytes().to_vec()).collect())
    }

    /// `*` and parts in braces stand for anything.
    pub(crate) fn of_text(text: &str) -> Result<Glob, String> {
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
    pub(crate) fn has(&self, name: &[u8]) -> bool {
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
    pub(crate) fn is(&self, name: &[u8]) -> bool {
        matches!(self.0.as_slice(), [only] if only == name)
    }

    /// Whether it has each key that `other` has.
    pub(crate) fn has_all_of(&self, other: &Glob) -> bool {
        let name = other.0.join(&ANYTHING);
        self.is(&name) || self.has(&name)
    }

    /// The pattern of LIKE.
    pub(crate) fn like(&self) -> Vec<u8> {
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

/// The setting that has a key like `key` kept as a document, as one would type it.
pub(crate) fn suggested(key: &Key) -> String {
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
