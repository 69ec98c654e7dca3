//! A row's key as one text, as `forebay_rows` has it: what SQLite's `quote()` makes of each column, joined by commas.
//! All versions of SQLite that other programs bring have that function.

use crate::sql::table::{Column, Kind, quoted};

/// The text as an SQL expression over the row `row`.
pub(super) fn expression<'a>(row: &str, columns: impl Iterator<Item = &'a Column>) -> String {
    let parts: Vec<String> = columns.map(|column| format!("quote({row}.{})", quoted(&column.name))).collect();
    parts.join("||','||")
}

/// The text of a key with these parts.
pub(super) fn text(columns: &[Column], parts: &[&str]) -> String {
    let part = |(column, part): (&Column, &&str)| match column.kind {
        Kind::Integer => (*part).to_owned(),
        _ => format!("'{}'", part.replace('\'', "''")),
    };
    columns.iter().zip(parts).map(part).collect::<Vec<_>>().join(",")
}

/// The parts of a key with this text; none if one is NULL or of a kind that no key has.
pub(in crate::sqlite) fn parts(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        match rest.strip_prefix('\'') {
            Some(quoted) => {
                let mut part = String::new();
                let mut left = quoted;
                loop {
                    let end = left.find('\'')?;
                    part.push_str(&left[..end]);
                    left = &left[end + 1..];
                    match left.strip_prefix('\'') {
                        Some(more) => {
                            part.push('\'');
                            left = more;
                        }
                        None => break,
                    }
                }
                parts.push(part);
                rest = left;
            }
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                rest[..end].parse::<i64>().ok()?;
                parts.push(rest[..end].to_owned());
                rest = &rest[end..];
            }
        }
        if rest.is_empty() {
            return Some(parts);
        }
        rest = rest.strip_prefix(',')?;
    }
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn texts_are_taken_apart() {
        for (text, expected) in [
            ("7", Some(vec!["7"])),
            ("-7,'a'", Some(vec!["-7", "a"])),
            ("'it''s','',3", Some(vec!["it's", "", "3"])),
            ("'a,b'", Some(vec!["a,b"])),
            ("NULL", None),
            ("7,NULL", None),
            ("1.5", None),
            ("X'00'", None),
            ("'open", None),
            ("", None),
        ] {
            let expected = expected.map(|parts| parts.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(parts(text), expected, "{text}");
        }
    }
}
