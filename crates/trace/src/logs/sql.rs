//! What a statement asks for: rows of tables by what their columns have to be.

use std::collections::HashMap;
use std::sync::Arc;

use sqlparser::ast::{
    BinaryOperator, Expr, FromTable, Ident, Insert, ObjectName, Query, SetExpr, Statement, TableFactor, TableObject,
    TableWithJoins, UnaryOperator, Value,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Tokenizer;

use crate::record::Kind;

/// Most words and signs of a statement that is looked at: longer ones are loads of rows.
const TOKENS_MAX: usize = 4096;

/// Conditions of a statement, and rows of an INSERT, that are looked at.
const CONDITIONS_MAX: usize = 1024;

/// Statements with parameters whose meaning is kept.
const KEPT_MAX: usize = 1024;

/// The column by whose value alone a row is known.
const ID: &str = "id";

/// What a statement does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Meaning {
    /// A transaction begins.
    Begin,
    /// It takes effect.
    Commit,
    /// It is undone.
    Rollback,
    /// Rows of a table are read, written or deleted: by any of these conditions.
    Access(Kind, String, Vec<Vec<(String, Operand)>>),
    /// It asks for no rows by their values; why.
    Other(&'static str),
}

/// What a column has to be.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    /// This.
    Literal(String),
    /// What this parameter is.
    Parameter(usize),
}

/// Statements, of which those with parameters are kept: they come again.
#[derive(Default)]
pub(super) struct Statements(HashMap<String, Arc<Vec<Meaning>>>);

impl Statements {
    /// What a text of one or several statements does.
    pub fn meanings(&mut self, text: &str) -> Arc<Vec<Meaning>> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let meanings = Arc::new(meanings(text));
        if text.contains('$') {
            if self.0.len() >= KEPT_MAX {
                self.0.clear();
            }
            self.0.insert(text.to_owned(), meanings.clone());
        }
        meanings
    }
}

/// Keys of the rows that these conditions name, each `table:value` of an id, or `table:column=value,..`.
pub(super) fn keys(table: &str, conditions: &[Vec<(String, Operand)>], parameters: &[Option<String>]) -> Vec<String> {
    let value = |operand: &Operand| match operand {
        Operand::Literal(text) => Some(text.clone()),
        Operand::Parameter(number) => parameters.get(number.checked_sub(1)?)?.clone(),
    };
    let key = |row: &Vec<(String, Operand)>| {
        if let Some((_, operand)) = row.iter().find(|(column, _)| column == ID) {
            return value(operand).map(|value| format!("{table}:{value}"));
        }
        let mut parts: Vec<(&str, String)> =
            row.iter().map(|(column, operand)| Some((column.as_str(), value(operand)?))).collect::<Option<_>>()?;
        parts.sort_unstable();
        let parts: Vec<String> = parts.into_iter().map(|(column, value)| format!("{column}={value}")).collect();
        (!parts.is_empty()).then(|| format!("{table}:{}", parts.join(",")))
    };
    conditions.iter().filter_map(key).collect()
}

fn meanings(text: &str) -> Vec<Meaning> {
    let dialect = PostgreSqlDialect {};
    let Ok(tokens) = Tokenizer::new(&dialect, text).tokenize_with_location() else {
        return vec![Meaning::Other("a statement that is not understood")];
    };
    if tokens.len() > TOKENS_MAX {
        return vec![Meaning::Other("a statement of more than 4096 words")];
    }
    match Parser::new(&dialect).with_tokens_with_locations(tokens).parse_statements() {
        Ok(statements) => statements.iter().map(meaning).collect(),
        Err(_) => vec![Meaning::Other("a statement that is not understood")],
    }
}

fn meaning(statement: &Statement) -> Meaning {
    match statement {
        Statement::StartTransaction { .. } => Meaning::Begin,
        Statement::Commit { .. } => Meaning::Commit,
        Statement::Rollback { savepoint: None, .. } => Meaning::Rollback,
        Statement::Query(query) => selected(query),
        Statement::Insert(insert) => inserted(insert),
        Statement::Update(update) => {
            let tables: Vec<&TableFactor> = factors(std::slice::from_ref(&update.table)).collect();
            asked(Kind::Write, &tables, update.selection.as_ref())
        }
        Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            let tables: Vec<&TableFactor> = factors(from).collect();
            asked(Kind::Delete, &tables, delete.selection.as_ref())
        }
        _ => Meaning::Other("a statement that is no SELECT, INSERT, UPDATE or DELETE"),
    }
}

fn selected(query: &Query) -> Meaning {
    match &*query.body {
        SetExpr::Select(select) => {
            let tables: Vec<&TableFactor> = factors(&select.from).collect();
            asked(Kind::Read, &tables, select.selection.as_ref())
        }
        _ => Meaning::Other("a query of queries"),
    }
}

/// All tables of a FROM.
fn factors(tables: &[TableWithJoins]) -> impl Iterator<Item = &TableFactor> {
    tables
        .iter()
        .flat_map(|table| std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation)))
}

/// The table whose rows the conditions name: of several the first that has one.
fn asked(kind: Kind, tables: &[&TableFactor], selection: Option<&Expr>) -> Meaning {
    const WITHOUT: Meaning = Meaning::Other("a statement without column = value");
    let Some(selection) = selection else { return WITHOUT };
    let equal = equalities(selection);
    for table in tables {
        let TableFactor::Table { name, alias, args: None, .. } = table else { continue };
        let table = last(name);
        let names = [Some(table.as_str()), alias.as_ref().map(|alias| alias.name.value.as_str())];
        let of_table = |qualifier: &Option<String>| match qualifier {
            None => tables.len() == 1,
            Some(qualifier) => names.iter().flatten().any(|name| name.eq_ignore_ascii_case(qualifier)),
        };
        let mine: Vec<&Equality> = equal.iter().filter(|equality| of_table(&equality.qualifier)).collect();
        let alternatives = conditions(&mine);
        if !alternatives.is_empty() {
            return Meaning::Access(kind, table, alternatives);
        }
    }
    WITHOUT
}

/// A column that has to be one of some values.
struct Equality {
    qualifier: Option<String>,
    column: String,
    values: Vec<Operand>,
}

/// What rows have to be: an id decides alone; a list counts where nothing else is said.
fn conditions(equal: &[&Equality]) -> Vec<Vec<(String, Operand)>> {
    let pair = |equality: &Equality, value: &Operand| (equality.column.clone(), value.clone());
    let one_of = |equality: &Equality| -> Vec<Vec<_>> {
        equality.values.iter().map(|value| vec![pair(equality, value)]).collect()
    };
    if let Some(id) = equal.iter().find(|equality| equality.column == ID) {
        return one_of(id);
    }
    let single: Vec<_> = equal
        .iter()
        .filter_map(|equality| match &equality.values[..] {
            [value] => Some(pair(equality, value)),
            _ => None,
        })
        .collect();
    match (single.is_empty(), equal.first()) {
        (false, _) => vec![single],
        (true, Some(list)) => one_of(list),
        (true, None) => Vec::new(),
    }
}

/// What all have to hold together, as far as it is a column and a value.
fn equalities(selection: &Expr) -> Vec<Equality> {
    let (mut open, mut found) = (vec![selection], Vec::new());
    while let Some(expression) = open.pop() {
        if found.len() >= CONDITIONS_MAX {
            break;
        }
        match expression {
            Expr::Nested(inner) => open.push(inner),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => open.extend([&**left, &**right]),
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
                let sides = column(left).zip(operand(right)).or_else(|| column(right).zip(operand(left)));
                found.extend(sides.map(|((qualifier, column), value)| Equality {
                    qualifier,
                    column,
                    values: vec![value],
                }));
            }
            Expr::InList { expr, list, negated: false } => {
                let values: Option<Vec<Operand>> = list.iter().take(CONDITIONS_MAX).map(operand).collect();
                let sides = column(expr).zip(values);
                found.extend(sides.map(|((qualifier, column), values)| Equality { qualifier, column, values }));
            }
            _ => {}
        }
    }
    // In the order in which they stand.
    found.reverse();
    found
}

fn name(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

fn column(expression: &Expr) -> Option<(Option<String>, String)> {
    match expression {
        Expr::Identifier(ident) => Some((None, name(ident))),
        Expr::CompoundIdentifier(idents) => {
            let (column, before) = idents.split_last()?;
            Some((before.last().map(name), name(column)))
        }
        Expr::Nested(inner) => column(inner),
        Expr::Cast { expr, .. } => column(expr),
        _ => None,
    }
}

fn operand(expression: &Expr) -> Option<Operand> {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(text) => text.strip_prefix('$')?.parse().ok().map(Operand::Parameter),
            Value::Number(text, _) => Some(Operand::Literal(text.to_string())),
            Value::Boolean(truth) => Some(Operand::Literal(truth.to_string())),
            Value::Null => None,
            other => other.clone().into_string().map(Operand::Literal),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match operand(expr)? {
            Operand::Literal(text) => Some(Operand::Literal(format!("-{text}"))),
            Operand::Parameter(_) => None,
        },
        Expr::Nested(inner) => operand(inner),
        Expr::Cast { expr, .. } => operand(expr),
        _ => None,
    }
}

/// A name without its schema.
fn last(name: &ObjectName) -> String {
    name.0.last().and_then(|part| part.as_ident()).map_or_else(|| name.to_string(), self::name)
}

/// Rows by their id, or by the first column that is named.
fn inserted(insert: &Insert) -> Meaning {
    const WITHOUT: Meaning = Meaning::Other("an INSERT whose rows have no column id");
    let TableObject::TableName(table) = &insert.table else { return WITHOUT };
    let Some(SetExpr::Values(values)) = insert.source.as_ref().map(|query| &*query.body) else { return WITHOUT };
    let columns: Vec<String> =
        insert.columns.iter().filter_map(|name| Some(self::name(name.0.last()?.as_ident()?))).collect();
    let at = columns.iter().position(|column| column == ID).unwrap_or(0);
    let Some(column) = columns.get(at) else { return WITHOUT };
    let rows: Vec<Vec<(String, Operand)>> = values
        .rows
        .iter()
        .take(CONDITIONS_MAX)
        .filter_map(|row| Some(vec![(column.clone(), operand(row.content.get(at)?)?)]))
        .collect();
    if rows.is_empty() { WITHOUT } else { Meaning::Access(Kind::Write, last(table), rows) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(text: &str) -> Vec<String> {
        let parameters = [Some("7".to_owned()), Some("x".to_owned()), None];
        let tell = |meaning: &Meaning| match meaning {
            Meaning::Access(kind, table, conditions) => {
                format!("{kind:?} {}", keys(table, conditions, &parameters).join(" "))
            }
            Meaning::Other(_) => "-".to_owned(),
            other => format!("{other:?}"),
        };
        Statements::default().meanings(text).iter().map(tell).collect()
    }

    #[test]
    fn statements_name_rows() {
        for (text, expected) in [
            ("SELECT * FROM shop.Users WHERE id = 5", &["Read users:5"][..]),
            ("select name from users u where u.id = $1::bigint and u.deleted = false", &["Read users:7"]),
            ("SELECT 1 FROM \"Orders\" WHERE (user_id = $1) AND state = 'paid'", &["Read Orders:state=paid,user_id=7"]),
            ("SELECT 1 FROM a JOIN b ON a.id = b.a_id WHERE b.id = -3", &["Read b:-3"]),
            ("SELECT 1 FROM t WHERE id IN (1, '2', $2) FOR UPDATE", &["Read t:1 t:2 t:x"]),
            ("UPDATE t SET a = 1 WHERE 'it''s' = k", &["Write t:k=it's"]),
            ("DELETE FROM t WHERE id = $1", &["Delete t:7"]),
            ("DELETE FROM t WHERE id = $3", &["Delete "]),
            ("INSERT INTO t (a, id) VALUES (1, 2), (3, $1) ON CONFLICT DO NOTHING", &["Write t:2 t:7"]),
            ("INSERT INTO t (k, v) VALUES ('a', 2)", &["Write t:k=a"]),
            ("BEGIN; SELECT 1 FROM t WHERE id = 1; COMMIT", &["Begin", "Read t:1", "Commit"]),
            ("ROLLBACK", &["Rollback"]),
            ("ROLLBACK TO SAVEPOINT a", &["-"]),
            ("SELECT 1 FROM t", &["-"]),
            ("SELECT 1 FROM t WHERE a > 1 OR id = 3", &["-"]),
            ("INSERT INTO t VALUES (1)", &["-"]),
            ("SET search_path = a", &["-"]),
            ("no SQL at all", &["-"]),
            ("SELECT 'x", &["-"]),
        ] {
            assert_eq!(told(text), expected, "{text}");
        }
        // As deep as a statement may be that is looked at.
        let deep = |more: &str, times: usize| format!("SELECT 1 FROM t WHERE id = 1{}", more.repeat(times));
        assert_eq!(told(&deep(" AND a = 1", TOKENS_MAX / 8 - 4)).len(), 1);
        for more in [" + 1", "::int", " OR 1", "[1]", " IS NULL", " COLLATE a"] {
            assert_eq!(told(&deep(more, 1000)).len(), 1, "{more}");
            assert_eq!(told(&deep(more, 2000)).len(), 1, "{more}");
        }
        let long = format!("SELECT 1 FROM t WHERE id = 1{}", " + 1".repeat(100_000));
        assert_eq!(told(&long), ["-"]);
        assert_eq!(told(&format!("SELECT 1 FROM t WHERE {}1{}", "(".repeat(2000), ")".repeat(2000))), ["-"]);
    }

    proptest! {
        /// Whatever a text says, it is read or left out.
        #[test]
        fn nothing_panics(words in prop::collection::vec(prop::sample::select(vec![
            "SELECT", "*", "FROM", "t", "WHERE", "id", "=", "$1", "$", "$99999999999999999999", "AND", "IN", "(", ")",
            "INSERT INTO", "VALUES", "UPDATE", "SET", "DELETE", "'", "\"", ";", "-", "::int", "\u{e9}", "BEGIN", ",",
        ]), 0..40)) {
            told(&words.join(" "));
        }
    }
}
