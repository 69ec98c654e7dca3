//! One statement: which tables it asks for rows, whether it writes, and the names of what it gives.

use sqlparser::ast::{
    Expr, FromTable, Insert, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement as Parsed,
    TableFactor, TableObject, TableWithJoins,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::access::{Access, last};
use super::compared::{self, Column, Condition, conditions};
use super::joined::From;
use super::text::{Wrong, wrong};

/// Most words and signs of a statement: conditions nest as deep as they are many, and the stack is not that deep.
const TOKENS_MAX: usize = 4096;

/// What a statement is.
pub(super) enum Statement {
    Begins,
    Commits,
    RollsBack,
    /// It says how others are read, and asks for no rows.
    Sets,
    Asks(Vec<Access>),
}

pub(super) fn read(line: u64, tokens: Vec<TokenWithSpan>) -> Result<Statement, Wrong> {
    if tokens.len() > TOKENS_MAX {
        return wrong(line, format!("a statement of {} words is longer than tokens_max {TOKENS_MAX}", tokens.len()));
    }
    let queries: Vec<u64> = tokens.iter().filter(|token| is_select(&token.token)).map(|t| t.span.start.line).collect();
    let mut parser = Parser::new(&GenericDialect {}).with_tokens_with_locations(tokens);
    let parsed = parser.parse_statement().map_err(|error| syntax(line, &error.to_string()))?;
    let next = parser.next_token();
    if next.token != Token::EOF {
        return wrong(next.span.start.line, format!("Expected: end of statement, found: {}", next.token));
    }
    let own = usize::from(matches!(parsed, Parsed::Query(_)));
    if let Some(nested) = queries.get(own) {
        return wrong(
            *nested,
            "a query inside a statement is a separate access: write it as a statement before, and \
                               use what it selects as :column",
        );
    }
    let writes = |access: Access| Ok(Statement::Asks(vec![access]));
    match parsed {
        Parsed::StartTransaction { .. } => Ok(Statement::Begins),
        Parsed::Commit { .. } => Ok(Statement::Commits),
        Parsed::Rollback { .. } => Ok(Statement::RollsBack),
        Parsed::Set(_) => Ok(Statement::Sets),
        Parsed::Query(query) => select(line, &query).map(Statement::Asks),
        Parsed::Insert(insert) => inserted(line, &insert).and_then(writes),
        Parsed::Update(update) => {
            let table = if update.from.is_some() { several(line) } else { only(line, &[update.table]) }?;
            let by = keyed(line, "writes", &table, update.selection.as_ref())?;
            let by = by.into_iter().chain(compared::assigned(&update.assignments));
            writes(Access::writing(table, by, update.returning.as_deref()))
        }
        Parsed::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            let table = if delete.using.is_some() { several(line) } else { only(line, from) }?;
            let by = keyed(line, "writes", &table, delete.selection.as_ref())?;
            writes(Access::writing(table, by, delete.returning.as_deref()))
        }
        _ => wrong(line, "only SELECT, INSERT, UPDATE and DELETE ask for rows; BEGIN and COMMIT may stand around them"),
    }
}

fn is_select(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.keyword == Keyword::SELECT)
}

/// The parser's own words, which name a line at their end if they can.
fn syntax(line: u64, text: &str) -> Wrong {
    let text = text.strip_prefix("sql parser error: ").unwrap_or(text);
    let located = text.rsplit_once(" at Line: ").and_then(|(why, place)| {
        let line = place.split(',').next()?.trim().parse().ok()?;
        Some(Wrong { line, why: why.to_owned() })
    });
    located.unwrap_or_else(|| Wrong { line, why: text.to_owned() })
}

fn several<T>(line: u64) -> Result<T, Wrong> {
    wrong(line, "writes by several tables at once; read the others before it, and use what they select as :column")
}

fn keyed(line: u64, does: &str, table: &str, selection: Option<&Expr>) -> Result<Vec<Condition>, Wrong> {
    match selection {
        Some(selection) => Ok(conditions(selection)),
        None => wrong(line, format!("{does} all of '{table}', which is no access by key; add a WHERE")),
    }
}

/// The name of the one table.
fn only(line: u64, tables: &[TableWithJoins]) -> Result<String, Wrong> {
    match tables {
        [TableWithJoins { relation: TableFactor::Table { name, args: None, .. }, joins }] if joins.is_empty() => {
            Ok(last(name))
        }
        [one] if one.joins.is_empty() => wrong(line, "writes something else than a table"),
        _ => several(line),
    }
}

fn select(line: u64, query: &Query) -> Result<Vec<Access>, Wrong> {
    let select: &Select = match (&query.with, &*query.body) {
        (None, SetExpr::Select(select)) => select,
        _ => return wrong(line, "only a plain SELECT is an access by key"),
    };
    if select.into.is_some() {
        return wrong(line, "SELECT .. INTO: leave INTO out; what is selected is known by its column's name");
    }
    if select.from.is_empty() {
        return Ok(Vec::new());
    }
    let from = From::read(line, &select.from)?;
    if let Some(table) = from.only() {
        let mut access = Access::new(table.to_owned(), false);
        let by = keyed(line, "reads", table, select.selection.as_ref())?;
        access.compare(by.into_iter().map(|condition| (condition.column.name, condition.is)));
        select.projection.iter().for_each(|item| access.give(item));
        return Ok(vec![access]);
    }
    let (mut accesses, places) = from.accesses(select.selection.as_ref().map(conditions).unwrap_or_default())?;
    for item in &select.projection {
        let of = match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => compared::column(expr),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                Some(Column { table: Some(last(name).to_lowercase()), name: "*".to_owned() })
            }
            _ => None,
        };
        match of.filter(|column| column.table.is_some()) {
            Some(column) => accesses[places[from.place(&column)?]].give(item),
            // It may be any one's.
            None => accesses.iter_mut().for_each(|access| access.give(item)),
        }
    }
    Ok(accesses)
}

fn inserted(line: u64, insert: &Insert) -> Result<Access, Wrong> {
    let TableObject::TableName(name) = &insert.table else {
        return wrong(line, "writes something else than a table");
    };
    let rows = match insert.source.as_ref().map(|source| &*source.body) {
        Some(SetExpr::Values(values)) => &values.rows[..],
        _ => &[],
    };
    let by = rows.iter().flat_map(|row| insert.columns.iter().zip(&**row));
    let by = by.filter_map(|(column, value)| compared::inserted(column, value));
    Ok(Access::writing(last(name), by, insert.returning.as_deref()))
}
