//! Transaction types as annotated SQL: each statement is a vertex, and a value that an earlier statement gave makes an
//! edge.
//!
//! Annotations are comments that begin with `@`: `@transaction Name(:parameter, ..)` begins a type, and `@name` names
//! the next statement's vertex. `@after` adds an edge that the SQL does not show. `@let :x = ..` is what the
//! application computes between statements. What a statement selects is known by its column's name, or by the one
//! after AS. A join is an access for each table.
//!
//! `$1` and `?` say nothing of where their value comes from. What does is the column that they are compared with, or
//! that they are assigned to. A file without annotations is read so as well, its literals included (`proposal`).

mod access;
mod columns;
mod compared;
mod joined;
mod proposal;
mod statement;
mod text;
mod transaction;

use forebay::graph::Graph;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use forebay_server::graphs::TYPES_MAX;
use proposal::Proposal;
use statement::Statement;
use text::{Wrong, names, tokens, wrong};
use transaction::Type;

const ANNOTATIONS: &str = "@transaction, @name, @after, @let";

/// The types of a text.
pub fn parse(text: &str) -> Result<Vec<(String, Graph)>, String> {
    read(text).map_err(|Wrong { line, why }| format!("line {line}: {why}"))
}

fn read(text: &str) -> Result<Vec<(String, Graph)>, Wrong> {
    let tokens = tokens(text, 1)?;
    if !tokens.iter().any(|token| annotation(&token.token).is_some()) {
        return Proposal::of(tokens);
    }
    let mut types: Vec<Type> = Vec::new();
    let (mut statement, mut last_line) = (Vec::new(), 1);
    for token in tokens {
        let line = token.span.start.line;
        if let Some(annotation) = annotation(&token.token) {
            if !statement.is_empty() || (line == last_line && types.last().is_some_and(Type::has_statements)) {
                return wrong(line, format!("put '@{annotation}' on a separate line, before its statement"));
            }
            annotate(&mut types, line, annotation)?;
            continue;
        }
        match &token.token {
            Token::Whitespace(_) => {}
            Token::SemiColon => {
                finish(&mut types, std::mem::take(&mut statement))?;
                last_line = line;
            }
            _ => statement.push(token),
        }
    }
    finish(&mut types, statement)?;
    types.into_iter().map(Type::graph).collect()
}

/// What stands behind the `@` of a comment.
fn annotation(token: &Token) -> Option<&str> {
    match token {
        Token::Whitespace(Whitespace::SingleLineComment { comment, .. }) => comment.trim().strip_prefix('@'),
        _ => None,
    }
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
    let names = names(&tokens);
    match statement::read(line, tokens)? {
        Statement::Asks(accesses) if accesses.is_empty() => {
            wrong(line, "reads no table, so it is no access; leave it out")
        }
        Statement::Asks(accesses) => of.add(line, accesses, &names),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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

    /// The types, each as its vertices and edges.
    fn shapes(text: &str) -> Vec<String> {
        let types = parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        let shape = |(name, graph): &(String, Graph)| {
            let vertices: Vec<&str> = graph.vertices().iter().map(|vertex| vertex.name.as_str()).collect();
            let edge =
                |&(from, to): &(u16, u16)| format!("{}>{}", vertices[usize::from(from)], vertices[usize::from(to)]);
            let edges: Vec<String> = graph.edges().iter().map(edge).collect();
            format!("{name}: {}: {}", vertices.join(" "), edges.join(" "))
        };
        types.iter().map(shape).collect()
    }

    #[test]
    fn a_join_is_an_access_for_each_table() {
        let with = |body: &str| shapes(&format!("-- @transaction T(:id)\n{body}")).remove(0);
        // The table whose rows are found by a value is the first, wherever it stands.
        let order = "FROM items AS i JOIN orders o ON i.order_id = o.id LEFT JOIN users u ON u.id = o.user_id";
        let last = "SELECT 1 FROM w WHERE k = :price;\nSELECT 1 FROM x WHERE k = :name";
        assert_eq!(
            with(&format!("SELECT i.price, u.name {order} WHERE o.id = :id;\n{last}")),
            "T: orders items users w x: orders>items orders>users items>w users>x"
        );
        // Tables whose rows are found by values have no order. One without a value waits for what it is joined to.
        assert_eq!(with("SELECT t.a FROM t, u WHERE t.b = :id AND u.b = 7 AND t.c = u.c"), "T: t u: ");
        assert_eq!(with("SELECT t.a FROM t JOIN u USING (c) JOIN v USING (d) WHERE t.b = :id"), "T: t u v: t>u u>v");
        // What may be of either comes from both.
        let unsaid = "SELECT z FROM t JOIN u USING (c) WHERE t.b = :id;\nSELECT 1 FROM w WHERE k = :z";
        assert_eq!(with(unsaid), "T: t u w: t>u u>w");
        let named = "-- @name first, second\n-- @after t\nSELECT u.a FROM v JOIN u USING (c) WHERE u.b = :id";
        assert_eq!(with(&format!("SELECT a FROM t WHERE b = 1;\n{named}")), "T: t first second: t>first first>second");
    }

    #[test]
    fn a_placeholder_stands_for_its_column() {
        let with = |body: &str| shapes(&format!("-- @transaction Deposit\n{body}")).remove(0);
        let account = "SELECT custid AS c FROM account WHERE name = $1;\n";
        assert_eq!(
            with(&format!(
                "{account}SELECT bal FROM savings WHERE custid = $1;\n-- @name w\n\
                 UPDATE savings SET bal = $2 WHERE custid = $1"
            )),
            "Deposit: account savings w: account>savings savings>w"
        );
        // What is not compared for equality, and what no statement has told, comes from outside.
        assert_eq!(with(&format!("{account}SELECT 1 FROM t WHERE custid > ? AND x = ?")), "Deposit: account t: ");
        // The number of a row is known by the table in others; that of another table is another.
        let user = "SELECT * FROM users WHERE name = $1;\nSELECT id FROM Users WHERE mail = $1;\n";
        let order = "SELECT total FROM orders WHERE user_id = ANY($1);\nSELECT 1 FROM items WHERE id IN ($1, $2)";
        assert_eq!(with(&format!("{user}{order}")), "Deposit: users Users orders items: Users>orders");
        // A value by which a row was found is not told by that row.
        let twice = "SELECT id, name FROM users WHERE id = $1;\nSELECT 1 FROM orders WHERE user_id = $1";
        assert_eq!(with(twice), "Deposit: users orders: ");
        let added = "SELECT next FROM counters WHERE name = $1;\nINSERT INTO t (k, next) VALUES ($1, $2)";
        assert_eq!(with(added), "Deposit: counters t: counters>t");
        // A literal is no placeholder there.
        assert_eq!(with(&format!("{account}SELECT 1 FROM t WHERE custid = 7")), "Deposit: account t: ");
    }

    #[test]
    fn what_a_program_sends_is_read_without_annotations() {
        let one = |name: &str, id: u32| {
            format!(
                "SET search_path = app;\nBEGIN;\nSELECT now();\nSELECT custid FROM account WHERE name = '{name}';\n\
                 SELECT bal FROM savings WHERE custid = {id};\n\
                 UPDATE savings SET bal = bal + 5 WHERE custid = {id};\nCOMMIT;\n"
            )
        };
        let other = "START TRANSACTION; SELECT a FROM t WHERE b = 1; SELECT a FROM u WHERE b = 1; END;\n\
                     BEGIN; SELECT a FROM t WHERE b = 2; DELETE FROM u WHERE a = 4; ROLLBACK;\n\
                     BEGIN; SELECT a FROM t WHERE b = 2; COMMIT; SELECT a FROM w WHERE b = 2;\n";
        let bank = "t1: account savings savings#2: account>savings account>savings#2";
        assert_eq!(shapes(&(one("ann", 4) + other + &one("bob", 5))), [bank, "t2: t u: "]);
        let all = "SELECT id FROM users WHERE name = :name; SELECT 1 FROM posts WHERE user_id = :id";
        assert_eq!(shapes(all), ["t1: users posts: users>posts"]);
    }

    #[test]
    fn says_what_is_wrong_and_in_which_line() {
        let with = |body: &str| format!("-- @transaction T(:id)\n{body}");
        for (text, error) in [
            ("", "line 1: no transaction with several accesses"),
            ("\nSELECT a FROM t WHERE b = 1;", "line 1: no transaction with several accesses"),
            ("\nSELECT a FROM t WHERE b = 1;\n-- @transaction T()", "line 2: a statement before any"),
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
            (&with("SELECT a\nFROM t -- @name x\nWHERE b = :id;"), "line 3: put '@name x' on a separate line"),
            (&with("SELECT a FROM t WHERE b = :id; -- @name x"), "line 2: put '@name x' on a separate line"),
            (&with("\nSELECT a FROM t\nWHERE b = :y;"), "line 4: ':y' is neither a parameter nor selected before;"),
            (&with("SELECT * FROM t WHERE b = :id;\nSELECT a FROM u WHERE c = :c;"), "(line 2 selects *:"),
            (&with("SELECT a FROM t WERE b = :id;"), "line 2: Expected: end of statement, found: b"),
            (&with("SELECT a FROM t WHERE\n\n = 3;"), "line 4: Expected: an expression, found: ="),
            (&with("SELECT a FROM"), "line 2: Expected: identifier, found: EOF"),
            (&with("SELECT a, b FROM t"), "line 2: reads all of 't'"),
            (&with("UPDATE t SET a = 1"), "line 2: writes all of 't'"),
            (&with("SELECT a FROM t, u WHERE t.b = :id"), "line 2: reads all of 'u'"),
            (&with("SELECT a FROM t JOIN u ON t.x = u.x"), "line 2: reads all of 't'"),
            (&with("SELECT a FROM t JOIN u ON t.x = u.x WHERE b = :id"), "line 2: 'b' may be a column of each"),
            (&with("SELECT a FROM t JOIN u ON t.x = v.x WHERE t.b = :id"), "line 2: 'v.x': no table has this name"),
            (&with("SELECT a FROM t NATURAL JOIN u WHERE t.b = :id"), "line 2: NATURAL JOIN does not say"),
            (&with("SELECT a FROM t FULL JOIN u ON t.x = u.x WHERE t.b = :id"), "line 2: only JOIN and LEFT JOIN"),
            (&with("SELECT a FROM t JOIN t ON t.x = t.y WHERE t.b = :id"), "line 2: two tables have the name 't'"),
            (&with("UPDATE t SET a = u.a FROM u WHERE t.b = :id"), "line 2: writes by several tables"),
            (&with("-- @name x\nSELECT t.a FROM t JOIN u USING (x) WHERE t.b = :id"), "line 2: 1 names for the acc"),
            ("BEGIN;\nSELECT a FROM t WHERE b = 1", "line 1: the transaction that begins here has no COMMIT"),
            ("BEGIN;\n\nBEGIN;", "line 3: BEGIN within the transaction that begins in line 1"),
            ("SELECT a FROM t WHERE b = 1;\nCREATE TABLE t (a int)", "line 2: only SELECT, INSERT, UPDATE"),
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

    /// A server reads types again while it runs: no file may take its stack.
    #[test]
    fn a_statement_that_nests_deep_is_refused_and_one_of_many_conditions_is_read() {
        let with = |conditions: usize| {
            let more = " AND c = 1".repeat(conditions);
            parse(&format!("-- @transaction T(:id)\nSELECT a FROM t WHERE b = :id{more};"))
        };
        assert_eq!(with(80_000), Err("line 2: a statement of 320009 words is longer than tokens_max 4096".to_owned()));
        assert!(with(1_000).is_ok());
        let nested = format!("SELECT a FROM t WHERE {}b = 1{};", "(".repeat(1_900), ")".repeat(1_900));
        assert!(parse(&nested).is_err_and(|why| why.starts_with("line 1: ")));
    }

    proptest::proptest! {
        /// Whatever a file says, it is read or refused.
        #[test]
        fn nothing_panics(words in proptest::collection::vec(proptest::sample::select(vec![
            "-- @transaction T(:a)\n", "-- @let :b = :a\n", "-- @name x\n", "SELECT", "a", "*", "FROM", "t", "WHERE",
            "=", ":a", ":", ";", "$1", "?", "JOIN", "ON", "USING", "t.a", "u", ",", "AND", "BEGIN;", "COMMIT;", "7",
            "\n", "(", ")", "INSERT INTO", "VALUES", "UPDATE", "SET", "DELETE", "'",
            "\u{e9}", "::",
        ]), 0..40)) {
            let _ = parse(&words.join(" "));
        }
    }
}
