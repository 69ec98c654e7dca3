//! Patterns of keys: text with parts in braces.

use std::fmt;
use std::str::FromStr;

/// Text, then parts that each end where the text behind them begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
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
    /// The texts, each but the last with a part behind it.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.start.as_str()).chain(self.parts.iter().map(|(_, behind)| behind.as_str()))
    }

    /// Parts in braces.
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The columns in the order of the parts: by name where these are just the columns' names, else as they are.
    pub(crate) fn in_order(&self, columns: Vec<String>) -> Result<Vec<String>, String> {
        let names: Vec<&String> = self.parts.iter().map(|(name, _)| name).collect();
        let all = columns.iter().all(|column| names.contains(&column));
        if all && names.iter().all(|name| columns.contains(name)) {
            return Ok(names.into_iter().cloned().collect());
        }
        let crossed = names.iter().zip(&columns).find(|(name, column)| **name != *column && columns.contains(name));
        match crossed {
            None => Ok(columns),
            Some((name, column)) => Err(format!(
                "{{{name}}} stands where the column {column} is; give all parts in braces their columns' names, or \
                 none of them another column's"
            )),
        }
    }

    /// Whether the two differ in the names of their parts only.
    pub(crate) fn same_keys(&self, other: &Pattern) -> bool {
        let behind = |pattern: &Pattern| pattern.parts.iter().map(|(_, behind)| behind.clone()).collect::<Vec<_>>();
        self.start == other.start && behind(self) == behind(other)
    }

    /// Whether each key of `other` is one of these too.
    pub(crate) fn has_all_of(&self, other: &Pattern) -> bool {
        // A character of no pattern: what stands for it may be anything.
        let any = vec!["\u{10fffd}"; other.parts.len()];
        let mut name = other.start.clone();
        other.parts.iter().zip(any).for_each(|((_, behind), any)| name.extend([any, behind.as_str()]));
        self.split(&name).is_some()
    }

    /// Whether some key has both forms.
    pub(crate) fn meets(&self, other: &Pattern) -> bool {
        let (one, two) = (self.pieces(), other.pieces());
        // Whether what is behind `i` and behind `j` can be the same, from the ends on.
        let mut row = vec![false; two.len() + 1];
        for i in (0..=one.len()).rev() {
            let below = std::mem::replace(&mut row, vec![false; two.len() + 1]);
            for j in (0..=two.len()).rev() {
                row[j] = match (one.get(i), two.get(j)) {
                    (None, None) => true,
                    // A part may be empty, or take the other's next.
                    (Some(None), _) => below[j] || (j < two.len() && row[j + 1]),
                    (_, Some(None)) => row[j + 1] || (i < one.len() && below[j]),
                    (Some(Some(a)), Some(Some(b))) => a == b && below[j + 1],
                    _ => false,
                };
            }
        }
        row[0]
    }

    /// Its characters; `None` for a part in braces.
    fn pieces(&self) -> Vec<Option<char>> {
        let mut pieces: Vec<Option<char>> = self.start.chars().map(Some).collect();
        for (_, behind) in &self.parts {
            pieces.push(None);
            pieces.extend(behind.chars().map(Some));
        }
        pieces
    }

    /// The parts of a key's name, if it has this form.
    pub(crate) fn split<'a>(&self, name: &'a str) -> Option<Vec<&'a str>> {
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
    pub(crate) fn join<S: AsRef<str>>(&self, parts: &[S]) -> Option<String> {
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
    fn patterns_meet_or_not() {
        let pattern = |text: &str| text.parse::<Pattern>().expect("a pattern");
        for (one, two, meets, first_has_all) in [
            ("user:{id}", "user:{name}", true, true),
            ("t:{id}", "t:{org}:{id}", true, true),
            ("t:{org}:{id}", "t:{id}", true, false),
            ("{a}:x", "y:{b}", true, false),
            ("a:{x}", "b:{x}", false, false),
            ("a:{x}!", "a:{x}?", false, false),
            ("a{x}b{y}c", "ab{z}c", true, true),
            ("a{x}b{y}c", "a{z}c", true, false),
            ("a:{x}:b", "a:{x}:b:{y}:b", true, true),
            ("ab{x}", "a{x}", true, false),
        ] {
            let (one, two) = (pattern(one), pattern(two));
            assert_eq!((one.meets(&two), two.meets(&one)), (meets, meets), "{one} {two}");
            assert_eq!(one.has_all_of(&two), first_has_all, "{one} {two}");
        }
    }

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
