//! Accesses to rows, as the statements of a transaction make them.

use sqlparser::ast::{ObjectName, SelectItem};

use super::compared::{self, Condition, Side};

/// What a graph needs of the rows that a statement asks of one table.
pub(super) struct Access {
    pub table: String,
    pub writes: bool,
    /// Columns by name, or by the one after AS, in lower case.
    pub gives: Vec<String>,
    /// Columns by the table's name of them.
    pub columns: Vec<String>,
    /// It gives columns that it does not name.
    pub star: bool,
    /// Accesses of the statement before it that tell by what it finds its rows.
    pub after: Vec<usize>,
    /// The names after colons by which it finds its rows.
    pub names: Vec<String>,
    /// Columns that are compared with a value whose name is not told, and whether that is a literal.
    pub compared: Vec<(String, bool)>,
}

impl Access {
    pub(super) fn new(table: String, writes: bool) -> Access {
        let (gives, columns, names) = (Vec::new(), Vec::new(), Vec::new());
        Access { table, writes, gives, columns, star: false, after: Vec::new(), names, compared: Vec::new() }
    }

    /// Of what is written.
    pub(super) fn writing(
        table: String,
        by: impl IntoIterator<Item = Condition>,
        returning: Option<&[SelectItem]>,
    ) -> Access {
        let mut access = Access::new(table, true);
        access.compare(by.into_iter().map(|condition| (condition.column.name, condition.is)));
        returning.unwrap_or(&[]).iter().for_each(|item| access.give(item));
        access
    }

    /// Takes in what its columns are compared with.
    pub(super) fn compare(&mut self, by: impl Iterator<Item = (String, Side)>) {
        for (column, is) in by {
            match is {
                Side::Name(name) => self.names.push(name),
                Side::Placeholder => self.compared.push((column, false)),
                Side::Literal => self.compared.push((column, true)),
                Side::Column(_) => {}
            }
        }
    }

    /// Takes in what it gives.
    pub(super) fn give(&mut self, item: &SelectItem) {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let name = compared::column(expr).map(|column| column.name);
                self.gives.extend(name.clone());
                self.columns.extend(name);
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                self.gives.push(alias.value.to_lowercase());
                self.columns.extend(compared::column(expr).map(|column| column.name));
            }
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => self.star = true,
            _ => {}
        }
    }
}

/// A name without its schema.
pub(super) fn last(name: &ObjectName) -> String {
    name.0.last().and_then(|part| part.as_ident()).map_or_else(|| name.to_string(), |name| name.value.clone())
}
