//! Transaction types as annotated SQL: each statement is a vertex, and a value that an earlier statement gave makes an
//! edge.
//!
//! Annotations are comments that begin with `@`: `@transaction Name(:parameter, ..)` begins a type, and `@name` names
//! the next statement's vertex. `@after` adds an edge that the SQL does not show. `@let :x = ..` is what the
//! application computes between statements. What a statement selects is known by its column's name, or by the one
//! after AS.

mod statement;

use std::collections::{BTreeMap, BTreeSet};

use forebay::graph::{Graph, VERTICES_MAX, Vertex};
use sqlparser::dialect::GenericDialect;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Whitespace};

use forebay_server::graphs::TYPES_MAX;
use statement::Statement;

const ANNOTATIONS: &str = "@transaction, @name, @after, @let";

/// What is wrong, and in which line.
#[derive(Debug)]
struct Wrong {
    line: u64,
    why: String,
}

fn wrong<T>(line: u64, why: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { line, why: why.into() })
}

/// The types of a text.
pub(super) fn parse(text: &str) -> Result<Vec<(String, Graph)>, String> {
    read(text).map_err(|Wrong { line, why }| format!("line {line}: {why}"))
}

fn tokens(text: &str, first_line: u64) -> Result<Vec<TokenWithSpan>, Wrong> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location();
    tokens.map_err(|error| Wrong { line: first_line + error.location.line.saturating_sub(1), why: error.message })
}

fn read(text: &str) -> Result<Vec<(String, Graph)>, Wrong> {
    let mut types: Vec<Type> = Vec::new();
    let (mut statement, mut last_line) = (Vec::new(), 1);
    for token in tokens(text, 1)? {
        let line = token.span.start.line;
        match &token.token {
            Token::Whitespace(Whitespace::SingleLineComment { comment, .. }) => {
                let Some(annotation) = comment.trim().strip_prefix('@') else { continue };
                if !statement.is_empty() || (line == last_line && types.last().is_some_and(Type::has_statements)) {
                    return wrong(line, format!("put '@{annotation}' on a line of its own, before its statement"));
                }
                annotate(&mut types, line, annotation)?;
            }
            Token::Whitespace(_) => {}
            Token::SemiColon => {
                finish(&mut types, std::mem::take(&mut statement))?;
                last_line = line;
            }
            _ => statement.push(token),
        }
    }
    finish(&mut types, statement)?;
    if types.is_empty() {
        return wrong(1, "no transaction type; begin with a comment -- @transaction Name(:parameter, ..)");
    }
    types.into_iter().map(Type::graph).collect()
}

fn annotate(types: &mut Vec<Type>, line: u64, annotation: &str) -> Result<(), Wrong> {
    let (word, rest) = annotation.split_once(char::is_whitespace).unwrap_or((annotation, ""));
    let rest = rest.trim();
    if word == "transaction" {
        if types.len() >= TYPES_MAX {
            return wrong(line, format!("more than {TYPES_MAX} types"));
        }
        if let Some(last) = types.last() {
            last.check_waiting()?;
        }
        types.push(Type::begin(line, rest)?);
        if let Some((last, others)) = types.split_last()
            && others.iter().any(|other| other.name == last.name)
        {
            return wrong(line, format!("two types have the name '{}'", last.name));
        }
        return Ok(());
    }
    let Some(of) = types.last_mut() else {
        return wrong(line, format!("'@{word}' before any -- @transaction Name(..)"));
    };
    match word {
        "name" if !rest.is_empty() => of.next_name = Some((line, rest.to_owned())),
        "after" if !rest.is_empty() => {
            of.next_after.extend(rest.split(',').map(|name| (line, name.trim().to_owned())));
        }
        "let" => of.let_be(line, rest)?,
        "name" | "after" => return wrong(line, format!("write '@{word} NAME'")),
        _ => return wrong(line, format!("unknown annotation '@{word}'; there are {ANNOTATIONS}")),
    }
    Ok(())
}

fn finish(types: &mut [Type], tokens: Vec<TokenWithSpan>) -> Result<(), Wrong> {
    let Some(line) = tokens.first().map(|token| token.span.start.line) else { return Ok(()) };
    let Some(of) = types.last_mut() else {
        return wrong(line, "a statement before any -- @transaction Name(:parameter, ..)");
    };
    let names = placeholders(&tokens)?;
    match statement::read(line, tokens)? {
        Some(statement) => of.add(line, statement, &names),
        None => Ok(()),
    }
}

/// Names after colons, with their lines.
fn placeholders(tokens: &[TokenWithSpan]) -> Result<Vec<(u64, String)>, Wrong> {
    let mut names = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let line = token.span.start.line;
        match (&token.token, tokens.get(at + 1).map(|next| &next.token)) {
            (Token::Placeholder(text), _) => {
                return wrong(line, format!("'{text}' does not say where its value comes from; write a name, as :id"));
            }
            (Token::Colon, Some(Token::Word(word))) => names.push((line, word.value.to_lowercase())),
            _ => {}
        }
    }
    Ok(names)
}

/// Where a value comes from.
#[derive(Clone)]
struct Origin {
    line: u64,
    /// Statements whose results determine it; none for a parameter.
    from: BTreeSet<u16>,
    /// Another statement gave the same name, in this line.
    again: Option<u64>,
    parameter: bool,
}

/// One transaction type as far as it was read.
#[derive(Default)]
struct Type {
    name: String,
    line: u64,
    vertices: Vec<Vertex>,
    edges: BTreeSet<(u16, u16)>,
    /// By vertex all that determine it, over however many steps.
    ancestors: Vec<BTreeSet<u16>>,
    known: BTreeMap<String, Origin>,
    /// Line of a statement that selects columns without naming them.
    star: Option<u64>,
    next_name: Option<(u64, String)>,
    next_after: Vec<(u64, String)>,
}

impl Type {
    /// `Name(:a, :b)`, or a name alone.
    fn begin(line: u64, text: &str) -> Result<Type, Wrong> {
        let (name, list) = match text.split_once('(') {
            None => (text, ""),
            Some((name, list)) => match list.trim_end().strip_suffix(')') {
                Some(list) => (name.trim_end(), list),
                None => return wrong(line, "a ')' is missing at the end of the parameters"),
            },
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return wrong(line, "write '@transaction Name(:parameter, ..)'");
        }
        let mut known = BTreeMap::new();
        for parameter in list.split(',').map(str::trim).filter(|parameter| !parameter.is_empty()) {
            let Some(parameter) = parameter.strip_prefix(':') else {
                return wrong(line, format!("parameter '{parameter}': write ':{parameter}', as in the statements"));
            };
            let origin = Origin { line, from: BTreeSet::new(), again: None, parameter: true };
            known.insert(parameter.to_lowercase(), origin);
        }
        let name = name.to_owned();
        Ok(Type { name, line, known, ..Type::default() })
    }

    fn has_statements(&self) -> bool {
        !self.vertices.is_empty()
    }

    /// The statements that determine `:name`.
    fn origin(&self, line: u64, name: &str) -> Result<&BTreeSet<u16>, Wrong> {
        match self.known.get(name) {
            Some(Origin { from, again: None, .. }) => Ok(from),
            Some(Origin { line: first, again: Some(again), .. }) => wrong(
                line,
                format!("':{name}' may be the one of line {first} or of line {again}; give one another name with AS"),
            ),
            None => {
                let star =
                    self.star.map_or(String::new(), |line| format!(" (line {line} selects *: write the columns out)"));
                let own = &self.name;
                wrong(
                    line,
                    format!(
                        "':{name}' is neither a parameter nor selected before{star}; add it to @transaction \
                         {own}(..), select it AS {name} in an earlier statement, or say -- @let :{name} = .."
                    ),
                )
            }
        }
    }

    fn let_be(&mut self, line: u64, text: &str) -> Result<(), Wrong> {
        let shape = || Wrong { line, why: "write '@let :name = :other + ..'".to_owned() };
        let (name, value) = text.split_once('=').ok_or_else(shape)?;
        let name = name.trim().strip_prefix(':').filter(|name| !name.is_empty()).ok_or_else(shape)?.to_lowercase();
        if let Some(origin) = self.known.get(&name) {
            return wrong(line, format!("':{name}' is already what line {} says; choose another name", origin.line));
        }
        let mut from = BTreeSet::new();
        for (_, other) in placeholders(&tokens(value, line)?)? {
            from.extend(self.origin(line, &other)?);
        }
        self.known.insert(name, Origin { line, from, again: None, parameter: false });
        Ok(())
    }

    fn add(&mut self, line: u64, statement: Statement, names: &[(u64, String)]) -> Result<(), Wrong> {
        let number = self.vertices.len() as u16;
        if self.vertices.len() >= VERTICES_MAX {
            return wrong(line, format!("'{}' has more than {VERTICES_MAX} statements", self.name));
        }
        let taken = |name: &str| self.vertices.iter().position(|vertex| vertex.name == name);
        let name = match self.next_name.take() {
            Some((line, name)) if taken(&name).is_some() => {
                return wrong(line, format!("two statements of '{}' have the name '{name}'", self.name));
            }
            Some((_, name)) => name,
            None => {
                let numbered = (2..).map(|again| format!("{}#{again}", statement.table));
                let mut names = std::iter::once(statement.table.clone()).chain(numbered);
                names.find(|name| taken(name).is_none()).unwrap_or_default()
            }
        };
        let mut before = BTreeSet::new();
        for (line, other) in &self.next_after {
            match taken(other) {
                Some(other) => before.insert(other as u16),
                None => return wrong(*line, format!("@after: no earlier statement has the name '{other}'")),
            };
        }
        for (line, name) in names {
            before.extend(self.origin(*line, name)?);
        }
        self.next_after.clear();
        // What an edge says that a path says as well makes no difference to critical lengths, only to the picture.
        let all: BTreeSet<u16> = before.iter().flat_map(|&v| &self.ancestors[usize::from(v)]).copied().collect();
        self.edges.extend(before.difference(&all).map(|&from| (from, number)));
        self.ancestors.push(before.union(&all).copied().collect());
        self.vertices.push(Vertex { name, writes: statement.writes });
        self.star = if statement.star { Some(line) } else { self.star };
        for column in statement.gives {
            let origin = Origin { line, from: BTreeSet::from([number]), again: None, parameter: false };
            let known = self.known.entry(column).or_insert(origin);
            // A parameter's name stays the parameter's.
            if known.line != line && !known.parameter {
                known.again = Some(line);
            }
        }
        Ok(())
    }

    /// An annotation that no statement followed.
    fn check_waiting(&self) -> Result<(), Wrong> {
        match self.next_name.as_ref().or(self.next_after.first()) {
            Some((line, name)) => wrong(*line, format!("no statement follows for '{name}'")),
            None => Ok(()),
        }
    }

    fn graph(self) -> Result<(String, Graph), Wrong> {
        self.check_waiting()?;
        if self.vertices.is_empty() {
            return wrong(self.line, format!("'{}' has no statement", self.name));
        }
        let edges: Vec<(u16, u16)> = self.edges.into_iter().collect();
        let graph = Graph::new(self.vertices, &edges);
        graph.map(|graph| (self.name, graph)).map_err(|error| Wrong { line: self.line, why: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Edges = BTreeSet<(String, String)>;

    fn edges(graph: &Graph) -> Edges {
        let name = |v: u16| graph.vertices()[usize::from(v)].name.clone();
        graph.edges().iter().map(|&(from, to)| (name(from), name(to))).collect()
    }

    fn shape(graph: &Graph) -> (BTreeSet<(String, bool)>, Edges) {
        (graph.vertices().iter().map(|vertex| (vertex.name.clone(), vertex.writes)).collect(), edges(graph))
    }

    #[test]
    fn smallbank_in_sql_is_the_generated_one() {
        let types = parse(include_str!("../../../../testdata/sql/smallbank.sql")).expect("sound");
        let workload = forebay_workload::generate::workload("smallbank").expect("it is there");
        let known = (workload.types)(workload.defaults.1);
        assert_eq!(types.len(), known.len());
        for ((name, graph), of) in types.iter().zip(&known) {
            let generated = of.graph().expect("not a loop").expect("sound");
            assert_eq!((name.as_str(), shape(graph)), (of.name, shape(&generated)));
        }
    }

    #[test]
    fn payment_waits_for_the_customer_found_by_name() {
        let types = parse(include_str!("../../../../testdata/sql/tpcc-payment.sql")).expect("sound");
        let names: Vec<&str> = types.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["PaymentById", "PaymentByName"]);
        let edges = edges(&types[1].1);
        let has = |from: &str, to: &str| edges.contains(&(from.to_owned(), to.to_owned()));
        assert!(has("customer_name", "customer") && has("customer", "w:customer") && has("warehouse", "w:history"));
        assert!(!has("warehouse", "district") && !has("customer_name", "warehouse"), "{edges:?}");
        let plain = |at: usize| types[at].1.critical_length(&forebay::graph::VertexSet::EMPTY);
        assert_eq!((plain(0), plain(1)), (2, 3));
    }

    #[test]
    fn values_come_from_parameters_columns_and_lets() {
        let text = "-- @transaction T(:ID)\nBEGIN;\nSELECT t.a, max(b) AS B2 FROM t WHERE id = :id;\n\
            -- @let :sum = :a + :b2\nUPDATE u SET x = :sum WHERE id = :id;\n-- @name gone\n-- @after t\n\
            DELETE FROM v WHERE id IN (:id, 7);\nINSERT INTO w (k) VALUES (:id) RETURNING k AS new;\nCOMMIT;\n\
            SELECT 1 FROM t WHERE id = :new";
        let (name, graph) = parse(text).expect("sound").remove(0);
        let names: Vec<(&str, bool)> = graph.vertices().iter().map(|v| (v.name.as_str(), v.writes)).collect();
        assert_eq!(name, "T");
        assert_eq!(names, [("t", false), ("u", true), ("gone", true), ("w", true), ("t#2", false)]);
        assert_eq!(graph.edges(), [(0, 1), (0, 2), (3, 4)]);
    }

    #[test]
    fn says_what_is_wrong_and_in_which_line() {
        let with = |body: &str| format!("-- @transaction T(:id)\n{body}");
        for (text, error) in [
            ("", "line 1: no transaction type"),
            ("\nSELECT a FROM t WHERE b = 1;", "line 2: a statement before any"),
            ("-- @transaction", "line 1: write '@transaction Name"),
            ("-- @transaction T(id)", "line 1: parameter 'id': write ':id'"),
            ("-- @transaction T(:id", "line 1: a ')' is missing"),
            ("-- @name a", "line 1: '@name' before any"),
            ("\n-- @transaction T()\n", "line 2: 'T' has no statement"),
            (&with("-- @colour red"), "line 2: unknown annotation '@colour'; there are @transaction, @name"),
            (&with("-- @name"), "line 2: write '@name NAME'"),
            (&with("-- @name a\n"), "line 2: no statement follows for 'a'"),
            (&with("-- @let x = 1"), "line 2: write '@let :name"),
            (&with("-- @let :id = 1"), "line 2: ':id' is already what line 1 says"),
            (&with("-- @let :x = 'a"), "line 2: Unterminated string"),
            (&with("SELECT a\nFROM t -- @name x\nWHERE b = :id;"), "line 3: put '@name x' on a line of its own"),
            (&with("SELECT a FROM t WHERE b = :id; -- @name x"), "line 2: put '@name x' on a line of its own"),
            (&with("\nSELECT a FROM t\nWHERE b = :y;"), "line 4: ':y' is neither a parameter nor selected before;"),
            (&with("SELECT * FROM t WHERE b = :id;\nSELECT a FROM u WHERE c = :c;"), "(line 2 selects *:"),
            (&with("SELECT a FROM t WHERE b = $1;"), "line 2: '$1' does not say where its value"),
            (&with("SELECT a FROM t WHERE b = ?;"), "line 2: '?' does not say where its value"),
            (&with("SELECT a FROM t WERE b = :id;"), "line 2: Expected: end of statement, found: b"),
            (&with("SELECT a FROM t WHERE\n\n = 3;"), "line 4: Expected: an expression, found: ="),
            (&with("SELECT a FROM"), "line 2: Expected: identifier, found: EOF"),
            (&with("SELECT a, b FROM t"), "line 2: reads all of 't'"),
            (&with("UPDATE t SET a = 1"), "line 2: writes all of 't'"),
            (&with("SELECT a FROM t\nJOIN u ON t.x = u.x WHERE t.b = :id"), "line 2: reads several tables at once"),
            (&with("SELECT a FROM t, u WHERE t.b = :id"), "line 2: reads several tables at once"),
            (&with("SELECT a FROM t WHERE b =\n (SELECT 1)"), "line 3: a query inside a statement"),
            (&with("INSERT INTO t SELECT a FROM u WHERE b = :id"), "line 2: a query inside a statement"),
            (&with("SELECT a FROM t WHERE b = 1 UNION SELECT 2"), "line 2: a query inside a statement"),
            (&with("CREATE TABLE t (a int)"), "line 2: only SELECT, INSERT, UPDATE and DELETE"),
            (&with("SELECT 1"), "line 2: reads no table"),
            (&with("SELECT a FROM t WHERE b = 'x"), "line 2: Unterminated string"),
            (&with("-- @after x\nSELECT a FROM t WHERE b = :id"), "line 2: @after: no earlier statement"),
            (
                &with("-- @name a\nSELECT a FROM t WHERE b = 1;\n-- @name a\nSELECT a FROM t WHERE b = 1"),
                "line 4: two statements of 'T' have the name 'a'",
            ),
            (
                &with("SELECT x FROM t WHERE b = 1;\nSELECT x FROM u WHERE b = 1;\nSELECT y FROM v WHERE b = :x"),
                "line 4: ':x' may be the one of line 2 or of line 3",
            ),
            (
                &with("SELECT a FROM t WHERE b = 1;\n-- @transaction T(:id)\nSELECT a FROM t WHERE b = 1;"),
                "line 3: two types have the name 'T'",
            ),
        ] {
            let said = parse(text).expect_err(text);
            assert!(said.contains(error), "{text}: {said}");
        }
    }

    proptest::proptest! {
        /// Whatever a file says, it is read or refused.
        #[test]
        fn nothing_panics(words in proptest::collection::vec(proptest::sample::select(vec![
            "-- @transaction T(:a)\n", "-- @let :b = :a\n", "-- @name x\n", "SELECT", "a", "*", "FROM", "t", "WHERE",
            "=", ":a", ":", ";", "\n", "(", ")", "INSERT INTO", "VALUES", "UPDATE", "SET", "DELETE", "'",
            "\u{e9}", "::",
        ]), 0..40)) {
            let _ = parse(&words.join(" "));
        }
    }
}
