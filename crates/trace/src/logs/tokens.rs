//! A line as words between blanks, where quotes and brackets hold blanks together.

/// A word of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// Up to the next blank.
    Plain(&'a [u8]),
    /// What stands in quotes, as it stands there: a backslash keeps the next byte from ending it.
    Quoted(&'a [u8]),
    /// What stands in brackets.
    Bracketed(&'a [u8]),
    /// A quote or bracket that does not end.
    Open,
}

/// The words of a line.
pub(super) struct Tokens<'a>(pub &'a [u8]);

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let text = self.0.trim_ascii_start();
        let (&first, behind) = text.split_first()?;
        let (end, token): (_, fn(&'a [u8]) -> Token<'a>) = match first {
            b'"' => (quote_end(behind), Token::Quoted),
            b'[' => (bracket_end(behind), Token::Bracketed),
            _ => {
                let end = text.iter().position(|&byte| byte == b' ' || byte == b'\t').unwrap_or(text.len());
                self.0 = &text[end..];
                return Some(Token::Plain(&text[..end]));
            }
        };
        match end {
            Some(end) => {
                self.0 = &behind[end + 1..];
                Some(token(&behind[..end]))
            }
            None => {
                self.0 = &[];
                Some(Token::Open)
            }
        }
    }
}

/// Where the bracket ends: at one that a blank follows, as addresses have their own.
fn bracket_end(text: &[u8]) -> Option<usize> {
    let ends = |at: usize| text[at] == b']' && text.get(at + 1).is_none_or(u8::is_ascii_whitespace);
    (0..text.len()).find(|&at| ends(at))
}

/// Where the quote ends.
fn quote_end(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match text.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// What a quoted word stands for: `\x41` is a byte in hex, `\n` and the like are as in C.
pub(super) fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        let Some((&kind, after)) = behind.split_first().filter(|_| byte == b'\\') else {
            bytes.push(byte);
            continue;
        };
        rest = after;
        match (kind, hex(after)) {
            (b'x', Some(value)) => {
                bytes.push(value);
                rest = &after[2..];
            }
            (b'n', _) => bytes.push(b'\n'),
            (b'r', _) => bytes.push(b'\r'),
            (b't', _) => bytes.push(b'\t'),
            (b'a', _) => bytes.push(7),
            (b'b', _) => bytes.push(8),
            _ => bytes.push(kind),
        }
    }
    bytes
}

/// The byte that two digits stand for.
pub(super) fn hex(text: &[u8]) -> Option<u8> {
    let digits = text.get(..2)?;
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(digits[0])? * 16 + digit(digits[1])?) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_brackets_hold_blanks() {
        let tokens: Vec<Token> = Tokens(b"a  [b c] \"d \\\" e\" f\"g \"h").collect();
        let expected = [
            Token::Plain(b"a"),
            Token::Bracketed(b"b c"),
            Token::Quoted(b"d \\\" e"),
            Token::Plain(b"f\"g"),
            Token::Open,
        ];
        assert_eq!(tokens, expected);
        assert_eq!(unescaped(b"a\\x41\\n\\\"\\\\\\xzz\\"), b"aA\n\"\\xzz\\");
    }
}
