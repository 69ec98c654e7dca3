//! Numbers for what a text trace may name.

use std::collections::HashMap;

use crate::dictionary::NAME_BYTES_MAX;
use crate::input::{decimal, unexpected};

/// What a column has: numbers, or names, as its first row says; so a name never gets a number that another row means.
#[derive(Default)]
pub(crate) enum Names {
    /// No row was read.
    #[default]
    Unknown,
    /// Numbers.
    Numbers,
    /// Names, numbered from 1 in the order in which they come.
    Named(HashMap<Box<[u8]>, u32>),
}

/// Names that are listed with their numbers.
const SHOWN_MAX: u32 = 8;

impl Names {
    pub fn are_names(&self) -> bool {
        matches!(self, Names::Named(_))
    }

    /// The first names with their numbers, if there are names.
    pub fn numbered(&self) -> Option<String> {
        let Names::Named(names) = self else { return None };
        let mut first: Vec<_> = names.iter().filter(|(_, number)| **number <= SHOWN_MAX).collect();
        first.sort_unstable_by_key(|(_, number)| **number);
        let shown: Vec<String> =
            first.iter().map(|(name, number)| format!("{} is {number}", name.escape_ascii())).collect();
        let more = if names.len() > shown.len() { format!(", .. ({} in all)", names.len()) } else { String::new() };
        Some(shown.join(", ") + &more)
    }

    /// The number of what a field has, and whether it is the new number of a name; at most `names_max` get one, which
    /// is called `limit`.
    pub fn number(&mut self, field: &[u8], (limit, names_max): (&str, u32)) -> Result<(u64, bool), String> {
        if matches!(self, Names::Unknown) && !field.is_empty() {
            *self = if field.iter().all(u8::is_ascii_digit) { Names::Numbers } else { Names::Named(HashMap::new()) };
        }
        let Names::Named(names) = self else {
            let number = decimal(field).map_err(|reason| match field.first() {
                Some(first) if !first.is_ascii_digit() => unexpected(field, "a number, as the first row has one"),
                _ => reason,
            })?;
            return Ok((number, false));
        };
        if let Some(&number) = names.get(field) {
            return Ok((u64::from(number), false));
        }
        if field.is_empty() {
            return Err("empty, expected a name".to_owned());
        }
        if field.len() > NAME_BYTES_MAX {
            return Err(format!("a name of more than name_bytes_max {NAME_BYTES_MAX} bytes"));
        }
        if names.len() as u32 >= names_max {
            return Err(format!("more different names than {limit} {names_max}; give numbers"));
        }
        let number = names.len() as u32 + 1;
        names.insert(field.into(), number);
        Ok((u64::from(number), true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_row_says_what_a_column_has() {
        let mut names = Names::default();
        let mut number = |field: &str| names.number(field.as_bytes(), ("three_max", 3));
        assert_eq!([number("ann"), number("7"), number("ann")], [Ok((1, true)), Ok((2, true)), Ok((1, false))]);
        assert!(number("").is_err());
        assert_eq!(number("bob"), Ok((3, true)));
        assert!(number("cyd").is_err_and(|reason| reason.contains("three_max 3")));
        assert!(number(&"x".repeat(NAME_BYTES_MAX + 1)).is_err_and(|reason| reason.contains("name_bytes_max")));
        assert_eq!(names.numbered().as_deref(), Some("ann is 1, 7 is 2, bob is 3"));
        let mut numbers = Names::default();
        let mut number = |field: &str| numbers.number(field.as_bytes(), ("three_max", 3));
        assert!(number("").is_err());
        assert_eq!([number("900"), number("7")], [Ok((900, false)), Ok((7, false))]);
        assert!(number("ann").is_err_and(|reason| reason.contains("as the first row has one")));
    }
}
