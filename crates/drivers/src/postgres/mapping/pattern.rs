//! Patterns of keys: text with parts in braces.

use std::fmt;
use std::str::FromStr;

/// Text, then parts that each end where the text behind them begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::postgres) struct Pattern {
    start: String,
    /// Name, and the text behind it.
    parts: Vec<(String, String)>,
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        let mut pieces = text.split('{');
        let start = pieces.next().unwrap_or_default().to_owned();
        let mut parts = Vec::new();
        for piece in pieces {
            let (name, behind) = piece.split_once('}').ok_or("a closing brace is missing in the key")?;
            parts.push((name.to_owned(), behind.to_owned()));
        }
        let inner = parts.len().saturating_sub(1);
        if parts.is_empty() {
            return Err("a key needs a part in braces, as in user:{id}".into());
        }
        if parts[..inner].iter().any(|(_, behind)| behind.is_empty()) {
            return Err("two parts in braces need some text between them".into());
        }
        Ok(Pattern { start, parts })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.start)?;
        self.parts.iter().try_for_each(|(name, behind)| write!(f, "{{{name}}}{behind}"))
    }
}

impl Pattern {
    /// Parts in braces.
    pub(in crate::postgres) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The parts of a key's name, if it has this form.
    pub(in crate::postgres) fn split<'a>(&self, name: &'a str) -> Option<Vec<&'a str>> {
        let mut rest = name.strip_prefix(self.start.as_str())?;
        let mut found = Vec::with_capacity(self.parts.len());
        for (at, (_, behind)) in self.parts.iter().enumerate() {
            let last = at + 1 == self.parts.len();
            let (part, after) = match last {
                true => (rest.strip_suffix(behind.as_str())?, ""),
                false => rest.split_once(behind.as_str())?,
            };
            found.push(part);
            rest = after;
        }
        Some(found)
    }

    /// The name of the key with these parts; `None` if it would read as another's, or if they are not as many.
    pub(in crate::postgres) fn join<S: AsRef<str>>(&self, parts: &[S]) -> Option<String> {
        let mut name = self.start.clone();
        for ((_, behind), part) in self.parts.iter().zip(parts) {
            name.push_str(part.as_ref());
            name.push_str(behind);
        }
        let again = self.split(&name)?;
        again.into_iter().eq(parts.iter().map(AsRef::as_ref)).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_split_and_join() {
        let pattern: Pattern = "m:{a}:{b}!".parse().expect("a pattern");
        assert_eq!(pattern.split("m:1:2:3!"), Some(vec!["1", "2:3"]));
        assert_eq!(pattern.split("m:1!"), None);
        assert_eq!(pattern.split("x:1:2!"), None);
        assert_eq!(pattern.join(&["1", "2:3"]).as_deref(), Some("m:1:2:3!"));
        assert_eq!(pattern.join(&["1:2", "3"]), None, "it would be read as 1 and 2:3");
        assert_eq!((pattern.join(&["1"]), pattern.join(&["1", "2", "3"])), (None, None));
        assert_eq!("user:{id}".parse::<Pattern>().expect("a pattern").split("user:"), Some(vec![""]));
    }
}
