//! Lines of the plugin `test_decoding`, as far as keys of mapped rows stand in them:
//!
//! ```text
//! table public.users: INSERT: id[integer]:1 name[text]:'it''s'
//! table public.users: UPDATE: old-key: id[integer]:1 new-tuple: id[integer]:2 name[text]:'it''s'
//! table public.users: DELETE: id[integer]:2
//! table public.users, public.pets: TRUNCATE: (no-flags)
//! ```
//!
//! Of the row before, only what the table's replica identity names is there, and no column that is NULL.

use std::borrow::Cow;

/// What a line says about the documents of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Rows with these keys were written; a key that is NULL in part is left out.
    Keys(Vec<Vec<String>>),
    /// Rows were written and nobody can say which.
    Unclear,
}

/// The tables that a line of TRUNCATE names, as it names them; none if it is another line.
pub(super) fn truncated(line: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let Some(mut rest) = line.strip_prefix("table ") else { return names };
    while let Some(length) = qualified(rest) {
        names.push(&rest[..length]);
        rest = &rest[length..];
        match rest.strip_prefix(", ") {
            Some(next) => rest = next,
            None if rest.starts_with(": TRUNCATE: ") => return names,
            None => break,
        }
    }
    Vec::new()
}

/// What a line says about the table of this name, whose documents have these key columns; `None` if it is about
/// something else. `identified`: the replica identity has all of them.
pub(super) fn said(line: &str, table: &str, key: &[String], identified: bool) -> Option<Said> {
    let rest = line.strip_prefix("table ")?.strip_prefix(table)?.strip_prefix(": ")?;
    let (what, rest) = rest.split_once(": ").or_else(|| rest.split_once(':'))?;
    let keys = match what {
        "INSERT" => Columns(rest).key(key).ok().map(|(found, _)| vec![found]),
        "UPDATE" => updated(rest, key, identified),
        "DELETE" => Columns(rest).old_key(key, identified).map(|(found, _)| vec![found]),
        _ => return None,
    };
    Some(keys.map_or(Said::Unclear, |keys| Said::Keys(keys.into_iter().flatten().collect())))
}

/// The keys before and after an UPDATE. Without an old one it is the same, if the identity would have told.
fn updated(rest: &str, key: &[String], identified: bool) -> Option<Vec<Option<Vec<String>>>> {
    let Some(old) = rest.strip_prefix("old-key: ") else {
        return Columns(rest).key(key).ok().filter(|_| identified).map(|(found, _)| vec![found]);
    };
    let (before, rest) = Columns(old).old_key(key, identified)?;
    let (after, _) = Columns(rest.strip_prefix("new-tuple: ")?).key(key).ok()?;
    Some(vec![before, after])
}

/// Length of a name in double quotes, or of one that needs none.
fn identifier(text: &str) -> Option<usize> {
    let Some(quoted) = text.strip_prefix('"') else {
        let length = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        return Some(length).filter(|length| *length > 0);
    };
    closing(quoted, '"').map(|at| at + 2)
}

/// Length of a schema's name and a table's.
fn qualified(text: &str) -> Option<usize> {
    let schema = identifier(text)?;
    let table = identifier(text[schema..].strip_prefix('.')?)?;
    Some(schema + 1 + table)
}

/// Where the closing quote stands; one that belongs to the text is doubled.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find(quote)?;
        if !text[at + 1..].starts_with(quote) {
            return Some(at);
        }
        from = at + 2;
    }
}

/// A column's value.
enum Value<'a> {
    Null,
    Text(Cow<'a, str>),
    /// It is the same as before, and too long to be repeated.
    Unsaid,
}

/// A line that ends early, or has another form.
struct Strange;

/// What is left of a list of columns.
struct Columns<'a>(&'a str);

impl<'a> Columns<'a> {
    /// The next column; `None` at the end, or where another list begins.
    fn next(&mut self) -> Result<Option<(Cow<'a, str>, Value<'a>)>, Strange> {
        let rest = self.0;
        if rest.is_empty() || rest.starts_with("new-tuple: ") || rest.starts_with('(') {
            return Ok(None);
        }
        let length = identifier(rest).ok_or(Strange)?;
        let name = match rest[..length].strip_prefix('"') {
            Some(quoted) => Cow::Owned(quoted[..quoted.len() - 1].replace("\"\"", "\"")),
            None => Cow::Borrowed(&rest[..length]),
        };
        let mut kind = rest[length..].strip_prefix('[').ok_or(Strange)?;
        // A type's name may be quoted, and hold what would end it.
        loop {
            let at = kind.find(['"', ']']).ok_or(Strange)?;
            let found = &kind[at..];
            kind = match found.strip_prefix('"') {
                Some(quoted) => &quoted[closing(quoted, '"').ok_or(Strange)? + 1..],
                None => &found[1..],
            };
            if found.starts_with("]:") {
                break;
            }
        }
        let (value, rest) = value(&kind[1..])?;
        self.0 = rest.strip_prefix(' ').unwrap_or(rest);
        Ok(Some((name, value)))
    }

    /// The values of the key's columns, `None` if one is NULL, and what stands behind all columns.
    fn found(mut self, key: &[String]) -> Result<(Vec<Option<Value<'a>>>, &'a str), Strange> {
        let mut values: Vec<Option<Value<'a>>> = key.iter().map(|_| None).collect();
        while let Some((name, value)) = self.next()? {
            if let Some(at) = key.iter().position(|column| *column == name) {
                values[at] = Some(value);
            }
        }
        Ok((values, self.0))
    }

    /// The key in a row that is there as a whole.
    fn key(self, key: &[String]) -> Result<(Option<Vec<String>>, &'a str), Strange> {
        let (values, rest) = self.found_first(key)?;
        let mut texts = Vec::with_capacity(key.len());
        for value in values {
            match value.ok_or(Strange)? {
                Value::Text(text) => texts.push(text.into_owned()),
                Value::Null => return Ok((None, rest)),
                Value::Unsaid => return Err(Strange),
            }
        }
        Ok((Some(texts), rest))
    }

    /// As [`Columns::found`], but a long row need not be read behind its key.
    fn found_first(mut self, key: &[String]) -> Result<(Vec<Option<Value<'a>>>, &'a str), Strange> {
        let mut values: Vec<Option<Value<'a>>> = key.iter().map(|_| None).collect();
        let mut missing = key.len();
        while missing > 0
            && let Some((name, value)) = self.next()?
        {
            if let Some(at) = key.iter().position(|column| *column == name) {
                missing -= usize::from(values[at].replace(value).is_none());
            }
        }
        Ok((values, self.0))
    }

    /// The key in what the replica identity tells of a row before: what is not there is NULL, if it is a part.
    fn old_key(self, key: &[String], identified: bool) -> Option<(Option<Vec<String>>, &'a str)> {
        if !identified || self.0.starts_with("(no-tuple-data)") {
            return None;
        }
        let (values, rest) = self.found(key).ok()?;
        let mut texts = Vec::with_capacity(key.len());
        for value in values {
            match value {
                Some(Value::Text(text)) => texts.push(text.into_owned()),
                Some(Value::Null) | None => return Some((None, rest)),
                Some(Value::Unsaid) => return None,
            }
        }
        Some((Some(texts), rest))
    }
}

/// The value at the beginning of `text`, and what stands behind it.
fn value(text: &str) -> Result<(Value<'_>, &str), Strange> {
    if let Some(quoted) = text.strip_prefix('\'').or_else(|| text.strip_prefix("B'")) {
        let end = closing(quoted, '\'').ok_or(Strange)?;
        let value = &quoted[..end];
        let value = if value.contains('\'') { Cow::Owned(value.replace("''", "'")) } else { Cow::Borrowed(value) };
        return Ok((Value::Text(value), &quoted[end + 1..]));
    }
    let (value, rest) = text.split_at(text.find(' ').unwrap_or(text.len()));
    Ok(match value {
        "null" => (Value::Null, rest),
        "unchanged-toast-datum" => (Value::Unsaid, rest),
        value => (Value::Text(Cow::Borrowed(value)), rest),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(keys: &[&[&str]]) -> Option<Said> {
        Some(Said::Keys(keys.iter().map(|key| key.iter().map(|part| (*part).to_owned()).collect()).collect()))
    }

    #[test]
    fn keys_stand_in_lines() {
        let name = "public.\"Us ers\"";
        let key = ["I d".to_owned(), "n".to_owned()];
        let said = |line: &str| said(line, name, &key, true);
        let insert =
            "table public.\"Us ers\": INSERT: \"I d\"[text]:'a''b\\c: DELETE: ' a[integer[]]:'{1,2}' n[integer]:7";
        assert_eq!(said(insert), keys(&[&["a'b\\c: DELETE: ", "7"]]));
        let null = "table public.\"Us ers\": INSERT: \"I d\"[text]:null n[integer]:7";
        assert_eq!(said(null), keys(&[]), "no document");
        let moved = "table public.\"Us ers\": UPDATE: old-key: \"I d\"[text]:'new-tuple: ' n[integer]:7 \
                     new-tuple: x[\"t]: y\"]:'it''s' \"I d\"[text]:'b' n[integer]:8";
        assert_eq!(said(moved), keys(&[&["new-tuple: ", "7"], &["b", "8"]]));
        let kept = "table public.\"Us ers\": UPDATE: b[bit]:B'101' n[integer]:-7 \"I d\"[text]:'' long[text]:'cut o";
        assert_eq!(said(kept), keys(&[&["", "-7"]]), "what stands behind the key may be cut off");
        assert_eq!(said("table public.\"Us ers\": DELETE: \"I d\"[text]:'b' n[integer]:8"), keys(&[&["b", "8"]]));
        assert_eq!(said("table public.\"Us ers\": DELETE: n[integer]:8"), keys(&[]), "NULLs are left out");
        for unclear in [
            "table public.\"Us ers\": DELETE: (no-tuple-data)",
            "table public.\"Us ers\": UPDATE: \"I d\"[text]:unchanged-toast-datum n[integer]:1",
            "table public.\"Us ers\": INSERT: \"I d\"[text]:'cut o",
            "table public.\"Us ers\": INSERT: ",
        ] {
            assert_eq!(said(unclear), Some(Said::Unclear), "{unclear}");
        }
        assert_eq!(said("table public.users: INSERT: id[integer]:1"), None);
        assert_eq!(said("COMMIT"), None);
    }

    #[test]
    fn an_identity_without_the_key_says_nothing_of_the_row_before() {
        let key = ["email".to_owned()];
        let said = |line: &str| said(line, "public.users", &key, false);
        assert_eq!(said("table public.users: INSERT: id[integer]:1 email[text]:'a'"), keys(&[&["a"]]));
        for line in [
            "table public.users: UPDATE: id[integer]:1 email[text]:'a'",
            "table public.users: UPDATE: old-key: id[integer]:1 new-tuple: id[integer]:2 email[text]:'a'",
            "table public.users: DELETE: id[integer]:1",
        ] {
            assert_eq!(said(line), Some(Said::Unclear), "{line}");
        }
    }

    fn quoted(name: &str) -> String {
        format!("\"{}\"", name.replace('"', "\"\""))
    }

    /// Columns as the plugin writes them.
    fn written(columns: &[(String, Option<String>)], skip_nulls: bool) -> String {
        let mut text = String::new();
        for (name, value) in columns.iter().filter(|(_, value)| !skip_nulls || value.is_some()) {
            let value = value.as_ref().map_or("null".into(), |value| format!("'{}'", value.replace('\'', "''")));
            text.push_str(&format!(" {}[\"k]:\"]:{value}", quoted(name)));
        }
        text
    }

    proptest::proptest! {
        /// Whatever stands in names and values, the key that was written is read.
        #[test]
        fn what_is_written_is_read(
            names in proptest::collection::hash_set("[a'\"\\[\\]: ]{1,4}", 2..5),
            old in proptest::collection::vec(proptest::option::of("[a'\"\\[\\]: (]{0,6}"), 5),
            new in proptest::collection::vec(proptest::option::of("[a'\"\\[\\]: (]{0,6}"), 5),
            at in 0usize..5,
        ) {
            let names: Vec<String> = names.into_iter().collect();
            let at = at % names.len();
            let row = |values: &[Option<String>]| -> Vec<(String, Option<String>)> {
                names.iter().cloned().zip(values.iter().cloned()).collect()
            };
            let (table, key) = (format!("public.{}", quoted(&names[0])), [names[at].clone()]);
            let found = |values: &[&[Option<String>]]| -> Option<Said> {
                Some(Said::Keys(values.iter().filter_map(|row| Some(vec![row[at].clone()?])).collect()))
            };
            let (before, after) = (written(&row(&old), true), written(&row(&new), false));
            let insert = format!("table {table}: INSERT:{after}");
            proptest::prop_assert_eq!(said(&insert, &table, &key, true), found(&[&new]));
            let update = format!("table {table}: UPDATE: old-key:{before} new-tuple:{after}");
            proptest::prop_assert_eq!(said(&update, &table, &key, true), found(&[&old, &new]));
            let delete = format!("table {table}: DELETE:{before}");
            proptest::prop_assert_eq!(said(&delete, &table, &key, true), found(&[&old]));
            proptest::prop_assert!(truncated(&insert).is_empty() && truncated(&update).is_empty());
            let truncate = format!("table public.x, {table}: TRUNCATE: cascade");
            proptest::prop_assert_eq!(truncated(&truncate), ["public.x", table.as_str()]);
        }
    }

    #[test]
    fn truncate_names_tables() {
        let line = "table public.\"Us, e\"\"rs\", public.part: TRUNCATE: restart_seqs cascade";
        assert_eq!(truncated(line), ["public.\"Us, e\"\"rs\"", "public.part"]);
        assert!(truncated("table public.a: INSERT: x[text]:': TRUNCATE: ('").is_empty());
        assert!(truncated("COMMIT").is_empty());
    }
}
