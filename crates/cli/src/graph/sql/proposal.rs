//! Transaction types of SQL without annotations, such as what a program or a log has: `BEGIN .. COMMIT` is a
//! transaction. Those with the same accesses are one type. In a file without BEGIN all is one transaction.

use forebay::graph::Graph;
use forebay_server::graphs::TYPES_MAX;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::statement::{self, Statement};
use super::text::{Wrong, names, wrong};
use super::transaction::Type;

/// The types as far as the text was read.
pub(super) struct Proposal {
    types: Vec<(String, Graph)>,
    /// The transaction that has begun.
    open: Option<Type>,
    /// What stands in none.
    outside: Type,
    /// A BEGIN was read.
    begun: bool,
}

impl Proposal {
    pub(super) fn of(tokens: Vec<TokenWithSpan>) -> Result<Vec<(String, Graph)>, Wrong> {
        let mut proposal = Proposal { types: Vec::new(), open: None, outside: Type::proposed(1), begun: false };
        for statement in tokens.split(|token| token.token == Token::SemiColon) {
            let is_code = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
            proposal.take(statement.iter().filter(is_code).cloned().collect())?;
        }
        if let Some(of) = proposal.open.take() {
            return wrong(of.line, "the transaction that begins here has no COMMIT");
        }
        if !proposal.begun {
            let all = std::mem::replace(&mut proposal.outside, Type::proposed(1));
            proposal.close(all)?;
        }
        match proposal.types.is_empty() {
            true => wrong(
                1,
                "no transaction with several accesses; put BEGIN; and COMMIT; around the statements of one, or \
                 -- @transaction Name(:parameter, ..) before them",
            ),
            false => Ok(proposal.types),
        }
    }

    fn take(&mut self, tokens: Vec<TokenWithSpan>) -> Result<(), Wrong> {
        let Some(line) = tokens.first().map(|token| token.span.start.line) else { return Ok(()) };
        let names = names(&tokens);
        match (statement::read(line, tokens)?, self.open.take()) {
            (Statement::Begins, Some(of)) => {
                wrong(line, format!("BEGIN within the transaction that begins in line {}", of.line))
            }
            (Statement::Begins, None) => {
                (self.open, self.begun) = (Some(Type::proposed(line)), true);
                Ok(())
            }
            (Statement::Commits, Some(of)) => self.close(of),
            (Statement::Commits | Statement::RollsBack, _) => Ok(()),
            (Statement::Sets, open) => {
                self.open = open;
                Ok(())
            }
            (Statement::Asks(accesses), open) => {
                self.open = open;
                self.open.as_mut().unwrap_or(&mut self.outside).add(line, accesses, &names)
            }
        }
    }

    /// Takes a whole transaction in, unless it has one access or its accesses are those of another.
    fn close(&mut self, of: Type) -> Result<(), Wrong> {
        if of.vertices.len() < 2 {
            return Ok(());
        }
        let line = of.line;
        let (_, graph) = of.graph()?;
        if self.types.iter().any(|(_, known)| *known == graph) {
            return Ok(());
        }
        if self.types.len() >= TYPES_MAX {
            return wrong(line, format!("more than {TYPES_MAX} types"));
        }
        self.types.push((format!("t{}", self.types.len() + 1), graph));
        Ok(())
    }
}
