//! Answers of the database as texts.

/// The texts of an answer, whichever way it was asked for.
pub(in crate::postgres) trait Texts {
    fn text(&self, at: usize) -> Option<&str>;
}

impl Texts for tokio_postgres::Row {
    fn text(&self, at: usize) -> Option<&str> {
        self.try_get(at).ok().flatten()
    }
}

impl Texts for tokio_postgres::SimpleQueryRow {
    fn text(&self, at: usize) -> Option<&str> {
        self.try_get(at).ok().flatten()
    }
}

/// The place that the answer's first column names.
pub(in crate::postgres) fn place_of(row: &impl Texts) -> Option<usize> {
    row.text(0)?.strip_prefix('=')?.parse().ok()
}
