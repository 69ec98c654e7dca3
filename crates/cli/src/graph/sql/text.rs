//! The words of a text of SQL, and what is wrong with it.

use sqlparser::dialect::GenericDialect;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

/// What is wrong, and in which line.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) line: u64,
    pub(super) why: String,
}

pub(super) fn wrong<T>(line: u64, why: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { line, why: why.into() })
}

pub(super) fn tokens(text: &str, first_line: u64) -> Result<Vec<TokenWithSpan>, Wrong> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location();
    tokens.map_err(|error| Wrong { line: first_line + error.location.line.saturating_sub(1), why: error.message })
}

/// Names after colons, with their lines.
pub(super) fn names(tokens: &[TokenWithSpan]) -> Vec<(u64, String)> {
    let name = |pair: &[TokenWithSpan]| match (&pair[0].token, &pair[1].token) {
        (Token::Colon, Token::Word(word)) => Some((pair[0].span.start.line, word.value.to_lowercase())),
        _ => None,
    };
    tokens.windows(2).filter_map(name).collect()
}
