//! A line as fields: up to the next comma, or what the header has instead, without the blanks around them, or in quotes
//! (RFC 4180).

use std::borrow::Cow;

/// The fields of a line; after an error there are none.
pub(crate) struct Fields<'a> {
    rest: Option<&'a [u8]>,
    between: u8,
}

/// What may stand between fields, the first of them that the header has.
const BETWEEN: [u8; 3] = *b",;\t";

/// What stands between the fields of this header and of the lines after it.
pub(super) fn between(header: &[u8]) -> u8 {
    BETWEEN.into_iter().find(|between| header.contains(between)).unwrap_or(b',')
}

impl<'a> Fields<'a> {
    pub fn of(line: &'a [u8], between: u8) -> Fields<'a> {
        Fields { rest: Some(line), between }
    }

    /// A tab that stands between fields is no blank.
    fn without_blanks(&self, text: &'a [u8]) -> &'a [u8] {
        let blanks = text.iter().take_while(|byte| byte.is_ascii_whitespace() && **byte != self.between).count();
        &text[blanks..]
    }

    /// What stands in quotes; `behind` is what follows the first.
    fn quoted(&mut self, behind: &'a [u8]) -> Result<Cow<'a, [u8]>, &'static str> {
        let (mut end, mut pairs) = (0, false);
        loop {
            let at = behind[end..].iter().position(|&byte| byte == b'"');
            end += at.ok_or("a quote that does not end in its line")?;
            if behind.get(end + 1) != Some(&b'"') {
                break;
            }
            pairs = true;
            end += 2;
        }
        let after = self.without_blanks(&behind[end + 1..]);
        self.rest = match after.split_first() {
            None => None,
            Some((between, rest)) if *between == self.between => Some(rest),
            Some(_) => return Err("text behind a quote"),
        };
        let field = &behind[..end];
        Ok(if pairs { Cow::Owned(without_pairs(field)) } else { Cow::Borrowed(field) })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Cow<'a, [u8]>, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        let rest = self.without_blanks(rest);
        if let Some(behind) = rest.strip_prefix(b"\"") {
            return Some(self.quoted(behind));
        }
        let end = rest.iter().position(|&byte| byte == self.between);
        self.rest = end.map(|end| &rest[end + 1..]);
        Some(Ok(Cow::Borrowed(rest[..end.unwrap_or(rest.len())].trim_ascii_end())))
    }
}

/// One quote for each two.
fn without_pairs(field: &[u8]) -> Vec<u8> {
    let (mut once, mut bytes) = (Vec::with_capacity(field.len()), field.iter());
    while let Some(&byte) = bytes.next() {
        once.push(byte);
        if byte == b'"' {
            bytes.next();
        }
    }
    once
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields(line: &str) -> Result<Vec<String>, &'static str> {
        let text = |field: Cow<'_, [u8]>| String::from_utf8_lossy(&field).into_owned();
        Fields::of(line.as_bytes(), b',').map(|field| field.map(text)).collect()
    }

    #[test]
    fn quotes_hold_what_commas_and_blanks_would_end() {
        for (line, expected) in [
            ("", &[""][..]),
            (" a b ,,c\r", &["a b", "", "c"]),
            ("\"a,b\", \" c \" ,d", &["a,b", " c ", "d"]),
            ("\"say \"\"yes\"\"\",\"\",\"\"\"\"", &["say \"yes\"", "", "\""]),
            ("a\"b,c", &["a\"b", "c"]),
            ("a,", &["a", ""]),
        ] {
            assert_eq!(fields(line).expect(line), expected, "{line}");
        }
        assert!(fields("a,\"b").is_err_and(|why| why.contains("does not end")));
        assert!(fields("\"a\"b,c").is_err_and(|why| why.contains("behind a quote")));
    }

    #[test]
    fn fields_are_apart_as_the_header_has_them() {
        for (header, expected) in [("a,b;c", b','), ("a;b\tc", b';'), ("a\tb", b'\t'), ("key", b',')] {
            assert_eq!(between(header.as_bytes()), expected, "{header}");
        }
        let line = |line: &'static str, between| Fields::of(line.as_bytes(), between).collect::<Result<Vec<_>, _>>();
        let expected = |fields: &[&'static str]| Ok(fields.iter().map(|field| Cow::from(field.as_bytes())).collect());
        assert_eq!(line("1,5; a ;\"b;c\"", b';'), expected(&["1,5", "a", "b;c"]));
        assert_eq!(line("\t\"a\tb\"\t\t x\r", b'\t'), expected(&["", "a\tb", "", "x"]));
    }

    proptest! {
        #[test]
        fn what_is_quoted_reads_back(given in prop::collection::vec("[ab\", ]{0,6}", 1..6)) {
            let quoted = given.iter().map(|field| format!("\"{}\"", field.replace('"', "\"\"")));
            prop_assert_eq!(fields(&quoted.collect::<Vec<_>>().join(",")).expect("quoted"), given);
        }
    }
}
