//! One statement: which table it asks for rows, whether it writes, and the names of what it gives.

use sqlparser::ast::{
    Expr, FromTable, Insert, ObjectName, Query, Select, SelectItem, SetExpr, Statement as Parsed, TableFactor,
    TableObject, TableWithJoins,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{Wrong, wrong};

/// What a graph needs of a statement.
pub(super) struct Statement {
    pub table: String,
    pub writes: bool,
    /// Columns by name or alias, in lower case.
    pub gives: Vec<String>,
    /// It gives columns that it does not name.
    pub star: bool,
}

/// `None` for what begins or ends a transaction.
pub(super) fn read(line: u64, tokens: Vec<TokenWithSpan>) -> Result<Option<Statement>, Wrong> {
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
    match parsed {
        Parsed::StartTransaction { .. } | Parsed::Commit { .. } | Parsed::Rollback { .. } => Ok(None),
        Parsed::Query(query) => select(line, &query).map(Some),
        Parsed::Insert(insert) => inserted(line, &insert).map(Some),
        Parsed::Update(update) => {
            let table = if update.from.is_some() { several(line) } else { only(line, &[update.table]) }?;
            keyed(line, "writes", &table, update.selection.as_ref())?;
            Ok(Some(Statement::writing(table, update.returning.as_deref())))
        }
        Parsed::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            let table = if delete.using.is_some() { several(line) } else { only(line, from) }?;
            keyed(line, "writes", &table, delete.selection.as_ref())?;
            Ok(Some(Statement::writing(table, delete.returning.as_deref())))
        }
        _ => wrong(line, "only SELECT, INSERT, UPDATE and DELETE ask for rows; BEGIN and COMMIT may stand around them"),
    }
}

impl Statement {
    fn new(table: String, writes: bool, columns: &[SelectItem]) -> Statement {
        let gives = columns.iter().filter_map(|item| match item {
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.value.to_lowercase()),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => Some(names.last()?.value.to_lowercase()),
            SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.to_lowercase()),
            _ => None,
        });
        let star = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
        Statement { table, writes, gives: gives.collect(), star: columns.iter().any(star) }
    }

    fn writing(table: String, returning: Option<&[SelectItem]>) -> Statement {
        Statement::new(table, true, returning.unwrap_or(&[]))
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
    wrong(
        line,
        "reads several tables at once; write a statement for each, the later ones with what the earlier ones select as \
         :column",
    )
}

fn keyed(line: u64, does: &str, table: &str, selection: Option<&Expr>) -> Result<(), Wrong> {
    match selection {
        Some(_) => Ok(()),
        None => wrong(line, format!("{does} all of '{table}', which is no access by key; add a WHERE")),
    }
}

/// The name of the one table.
fn only(line: u64, tables: &[TableWithJoins]) -> Result<String, Wrong> {
    match tables {
        [] => wrong(line, "reads no table, so it is no access; leave it out"),
        [TableWithJoins { relation, joins }] if joins.is_empty() => match relation {
            TableFactor::Table { name, args: None, .. } => Ok(last(name)),
            _ => wrong(line, "reads something else than a table"),
        },
        _ => several(line),
    }
}

/// A name without its schema.
fn last(name: &ObjectName) -> String {
    name.0.last().and_then(|part| part.as_ident()).map_or_else(|| name.to_string(), |name| name.value.clone())
}

fn select(line: u64, query: &Query) -> Result<Statement, Wrong> {
    let select: &Select = match (&query.with, &*query.body) {
        (None, SetExpr::Select(select)) => select,
        _ => return wrong(line, "only a plain SELECT from one table is an access"),
    };
    if select.into.is_some() {
        return wrong(line, "SELECT .. INTO: leave INTO out; what is selected is known by its column's name");
    }
    let table = only(line, &select.from)?;
    keyed(line, "reads", &table, select.selection.as_ref())?;
    Ok(Statement::new(table, false, &select.projection))
}

fn inserted(line: u64, insert: &Insert) -> Result<Statement, Wrong> {
    match &insert.table {
        TableObject::TableName(name) => Ok(Statement::writing(last(name), insert.returning.as_deref())),
        _ => wrong(line, "writes something else than a table"),
    }
}
