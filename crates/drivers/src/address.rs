//! Where a database is, as `--store` says it.

/// The address of a database that one of the drivers knows; it holds no password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    text: String,
    place: String,
    database: String,
}

impl Address {
    /// An address that a driver has read: `text` as given, the place in short, the name of the database there.
    pub(crate) fn new(text: &str, place: String, database: String) -> Address {
        Address { text: text.to_owned(), place, database }
    }

    /// As it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Host and database in short, for people.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The name of the database.
    pub fn database(&self) -> &str {
        &self.database
    }
}
