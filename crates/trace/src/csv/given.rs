//! What columns mean of a table whose header has other names for them.

use super::column::Column;
use crate::column_names::ColumnNames;

/// Most names that can be given.
const GIVEN_MAX: usize = 32;

/// Reads `key=cache_key,size=bytes`. Says what is wrong with anything else.
pub fn column_names(text: &str) -> Result<ColumnNames, String> {
    let pair = |part: &str| {
        let (ours, theirs) = part.split_once('=')?;
        let named = |name: &str| name.trim().to_ascii_lowercase();
        Some((named(ours), named(theirs))).filter(|(_, theirs)| !theirs.is_empty())
    };
    let pairs: Option<Vec<_>> = text.split(',').map(pair).collect();
    let pairs = pairs.ok_or("give our names of columns with yours, as in key=cache_key,size=bytes")?;
    if pairs.len() > GIVEN_MAX {
        return Err(format!("give at most {GIVEN_MAX} names"));
    }
    if let Some((unknown, _)) = pairs.iter().find(|(ours, _)| Column::of(ours) == Column::Ignored) {
        return Err(format!("'{unknown}' is no column of ours: key, time, op, size, client, txn, .."));
    }
    let twice = |(at, (ours, theirs)): (usize, &(String, String))| {
        let again = |(other, of): &&(String, String)| alike(Column::of(other), Column::of(ours)) || of == theirs;
        pairs[..at].iter().find(again).map(|_| format!("'{ours}={theirs}' was given before, or means the same"))
    };
    match pairs.iter().enumerate().find_map(twice) {
        Some(why) => Err(why),
        None => Ok(ColumnNames::of(pairs)),
    }
}

/// What a header's column of this name is. One that is given stands for all that would mean the same.
pub(super) fn column(given: &ColumnNames, name: &str) -> Column {
    if let Some((ours, _)) = given.pairs().iter().find(|(_, theirs)| theirs == name) {
        return Column::of(ours);
    }
    let column = Column::of(name);
    if given.pairs().iter().any(|(ours, _)| alike(Column::of(ours), column)) { Column::Ignored } else { column }
}

/// The first name that is given and that a header does not have.
pub(super) fn missing<'a>(given: &'a ColumnNames, header: &[(Column, String)]) -> Option<&'a str> {
    let found = |theirs: &str| header.iter().any(|(_, name)| name == theirs);
    given.pairs().iter().map(|(_, theirs)| theirs.as_str()).find(|theirs| !found(theirs))
}

fn alike(one: Column, other: Column) -> bool {
    one == other || one.is_key() && other.is_key()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_in_pairs() {
        let given = column_names("key=Cache_Key, size=bytes").expect("two");
        let names = ["cache_key", "bytes", "time", "id", "lbn", "size"].map(|name| column(&given, name));
        assert_eq!(names[..3], [Column::Key, Column::Size, Column::Time]);
        assert_eq!(names[3..], [Column::Ignored; 3]);
        let header = [(Column::Key, "cache_key".to_owned())];
        assert_eq!(missing(&given, &header), Some("bytes"));
        for (wrong, why) in [
            ("", "key=cache_key"),
            ("key", "key=cache_key"),
            ("key=", "key=cache_key"),
            ("kye=a", "'kye' is no column of ours"),
            ("key=a,object=b", "'object=b' was given before"),
            ("key=a,size=a", "'size=a' was given before"),
        ] {
            assert!(column_names(wrong).expect_err(wrong).contains(why), "{wrong}");
        }
    }
}
