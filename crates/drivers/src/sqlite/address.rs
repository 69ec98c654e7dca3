//! `sqlite:PATH`.

use std::path::{Path, PathBuf};

use crate::Address;

/// What an address begins with.
pub(super) const SCHEME: &str = "sqlite:";

/// Reads an address.
pub(super) fn read(text: &str) -> Result<Address, String> {
    let path = text.strip_prefix(SCHEME).unwrap_or(text);
    // As other programs have it: an absolute path after two slashes.
    let path = match path.strip_prefix("//") {
        Some(rest) if rest.starts_with('/') => rest,
        Some(_) => return Err("a path has one slash or three after sqlite:, as in sqlite:shop.db".into()),
        None => path,
    };
    if path.is_empty() {
        return Err("the path is missing, as in sqlite:shop.db".into());
    }
    if path == ":memory:" {
        return Err("a database in memory is one program's alone; name a file, or give --store memory".into());
    }
    if path.contains(['?', '\0']) {
        return Err("parameters after the path are not taken; give the path alone, as in sqlite:shop.db".into());
    }
    let name = Path::new(path).file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| format!("{path} is no file's name; name a file, as in sqlite:shop.db"))?;
    Ok(Address::new(text, path.to_owned(), name.to_owned()))
}

/// The path that an address names.
pub(super) fn path(address: &Address) -> PathBuf {
    PathBuf::from(address.place())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_paths() {
        for (text, place, name) in [
            ("sqlite:shop.db", "shop.db", "shop.db"),
            ("sqlite:/var/lib/shop.db", "/var/lib/shop.db", "shop.db"),
            ("sqlite:///var/lib/shop.db", "/var/lib/shop.db", "shop.db"),
            ("sqlite:a b/c", "a b/c", "c"),
        ] {
            let address = read(text).expect(text);
            assert_eq!((address.place(), address.database()), (place, name), "{text}");
        }
        for text in ["sqlite:", "sqlite://host/x", "sqlite::memory:", "sqlite:x?mode=ro", "sqlite:/", "sqlite:.."] {
            read(text).expect_err(text);
        }
    }
}
