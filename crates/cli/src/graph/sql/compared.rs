//! What a statement's columns are compared with: that says where the values come from by which it finds its rows.

use sqlparser::ast::{Assignment, AssignmentTarget, BinaryOperator, Expr, ObjectName, Value};

/// A column as it is written, in lower case.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// The table's name or alias, if it says one.
    pub table: Option<String>,
    pub name: String,
}

/// What a column is compared with, or what is assigned to it.
#[derive(Clone, Debug)]
pub(super) enum Side {
    Column(Column),
    /// `:name`.
    Name(String),
    /// `$1` or `?`.
    Placeholder,
    Literal,
}

/// Two of them that are equal.
#[derive(Debug)]
pub(super) struct Condition {
    pub column: Column,
    pub is: Side,
}

/// What all rows that `expr` selects have in common.
pub(super) fn conditions(expr: &Expr) -> Vec<Condition> {
    let mut found = Vec::new();
    gather(expr, &mut found);
    found
}

fn gather(expr: &Expr, found: &mut Vec<Condition>) {
    match expr {
        Expr::Nested(inner) => gather(inner, found),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            gather(left, found);
            gather(right, found);
        }
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right }
        | Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => found.extend(equal(left, right)),
        Expr::InList { expr, list, negated: false } => found.extend(list.iter().filter_map(|one| equal(expr, one))),
        _ => {}
    }
}

fn equal(left: &Expr, right: &Expr) -> Option<Condition> {
    match (column(left), column(right)) {
        (Some(column), _) => Some(Condition { column, is: side(right)? }),
        (None, Some(column)) => Some(Condition { column, is: side(left)? }),
        (None, None) => None,
    }
}

/// What `SET column = ..` assigns, as far as it names a value from outside of the statement.
pub(super) fn assigned(assignments: &[Assignment]) -> Vec<Condition> {
    let single = |target: &AssignmentTarget| match target {
        AssignmentTarget::ColumnName(name) => named(name),
        AssignmentTarget::Tuple(_) => None,
    };
    let each = |assignment: &Assignment| of_value(single(&assignment.target)?, &assignment.value);
    assignments.iter().filter_map(each).collect()
}

/// Likewise of a column that a row is inserted with.
pub(super) fn inserted(column: &ObjectName, value: &Expr) -> Option<Condition> {
    of_value(named(column)?, value)
}

fn of_value(column: Column, value: &Expr) -> Option<Condition> {
    let is = side(value).filter(|side| !matches!(side, Side::Column(_))).or_else(|| inside(value))?;
    Some(Condition { column, is })
}

/// A placeholder within what is computed.
fn inside(expr: &Expr) -> Option<Side> {
    match expr {
        Expr::BinaryOp { left, right, .. } => inside(left).or_else(|| inside(right)),
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } | Expr::UnaryOp { expr: inner, .. } => inside(inner),
        _ => side(expr).filter(|side| matches!(side, Side::Placeholder)),
    }
}

fn side(expr: &Expr) -> Option<Side> {
    match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } | Expr::UnaryOp { expr: inner, .. } => side(inner),
        Expr::TypedString(_) => Some(Side::Literal),
        Expr::Value(value) => Some(match &value.value {
            Value::Placeholder(text) => match text.strip_prefix(':') {
                Some(name) => Side::Name(name.to_lowercase()),
                None => Side::Placeholder,
            },
            _ => Side::Literal,
        }),
        _ => column(expr).map(Side::Column),
    }
}

pub(super) fn column(expr: &Expr) -> Option<Column> {
    match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => column(inner),
        Expr::Identifier(name) => Some(Column { table: None, name: name.value.to_lowercase() }),
        Expr::CompoundIdentifier(names) => {
            let (name, before) = names.split_last()?;
            let table = before.last().map(|table| table.value.to_lowercase());
            Some(Column { table, name: name.value.to_lowercase() })
        }
        _ => None,
    }
}

fn named(name: &ObjectName) -> Option<Column> {
    let name = name.0.last()?.as_ident()?;
    Some(Column { table: None, name: name.value.to_lowercase() })
}
