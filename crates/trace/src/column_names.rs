//! Names that a table's header has in place of ours.

/// Our names of columns, each with the one that the header has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnNames(Vec<(String, String)>);

impl ColumnNames {
    /// These pairs of our name and the header's, in lower case.
    pub(crate) fn of(pairs: Vec<(String, String)>) -> ColumnNames {
        ColumnNames(pairs)
    }

    /// Our name and the header's, of each.
    pub(crate) fn pairs(&self) -> &[(String, String)] {
        &self.0
    }
}
