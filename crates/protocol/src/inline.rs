//! The quoting rules of inline commands (what a person types into telnet), as Redis' `sdssplitargs` has them:
//!
//! - words are separated by white space;
//! - in double quotes `\n`, `\r`, `\t`, `\b`, `\a` and `\xHH` stand for one byte, and a backslash before any other byte
//!   stands for that byte;
//! - in single quotes only `\'` is an escape;
//! - a quote may begin inside a word (`a"b c"` is one word), but after a closing quote the word must end.
//!
//! What a word stands for is never longer than the word, so it is written in place. Inline requests share the buffer
//! that they arrived in, as all others do.
//!
//! One departure: a line with a control byte other than a tab is no command, see [`is_foreign`]. Redis treats the line
//! as a C string, so that a NUL byte makes it wait for a line that never ends.

use crate::request::Span;

/// A quote was not closed, or was followed by something other than white space.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unbalanced;

/// Splits `line`, unescaping in place, and appends where each word lies. `line` is at most `u32::MAX` bytes.
pub(crate) fn split(line: &mut [u8], words: &mut Vec<Span>) -> Result<(), Unbalanced> {
    let mut read = 0;
    loop {
        while line.get(read).is_some_and(|byte| is_space(*byte)) {
            read += 1;
        }
        if read == line.len() {
            return Ok(());
        }
        let start = read;
        let mut write = read;
        while let Some(&byte) = line.get(read) {
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => break,
                b'"' | b'\'' => {
                    (read, write) = unquote(line, read, write)?;
                    break;
                }
                _ => {
                    line[write] = byte;
                    read += 1;
                    write += 1;
                }
            }
        }
        words.push((start as u32, write as u32));
    }
}

/// Unescapes the quoted part that opens at `read` and writes it at `write`; answers where both have come.
fn unquote(line: &mut [u8], mut read: usize, mut write: usize) -> Result<(usize, usize), Unbalanced> {
    let quote = line[read];
    read += 1;
    loop {
        let byte = *line.get(read).ok_or(Unbalanced)?;
        let next = line.get(read + 1).copied();
        if byte == quote {
            return if next.is_none_or(is_space) { Ok((read + 1, write)) } else { Err(Unbalanced) };
        }
        let (value, length) = match (quote, byte, next) {
            (b'"', b'\\', Some(escape)) => escaped(escape, line.get(read + 2..read + 4)),
            (b'\'', b'\\', Some(b'\'')) => (b'\'', 2),
            _ => (byte, 1),
        };
        line[write] = value;
        write += 1;
        read += length;
    }
}

/// What a backslash and `escape` stand for, and how many bytes the whole escape takes.
fn escaped(escape: u8, two_digits: Option<&[u8]>) -> (u8, usize) {
    if let (b'x', Some(&[high, low])) = (escape, two_digits)
        && let (Some(high), Some(low)) = ((high as char).to_digit(16), (low as char).to_digit(16))
    {
        return ((high * 16 + low) as u8, 4);
    }
    let value = match escape {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    };
    (value, 2)
}

/// Whether an inline command never has this byte. A TLS ClientHello begins with 0x16, and lines within it (a session
/// ticket, say) may be whatever somebody has chosen.
pub(crate) fn is_foreign(byte: u8) -> bool {
    byte.is_ascii_control() && !matches!(byte, b'\t' | b'\r' | b'\n')
}

/// C's `isspace` in the "C" locale.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, Unbalanced> {
        let mut line = line.to_vec();
        let mut spans = Vec::new();
        split(&mut line, &mut spans)?;
        Ok(spans.iter().map(|(start, end)| line[*start as usize..*end as usize].to_vec()).collect())
    }

    /// The naive model: one word after another is cut off the front, into memory of its own.
    fn model(mut rest: &[u8]) -> Result<Vec<Vec<u8>>, Unbalanced> {
        let mut words = Vec::new();
        loop {
            rest = &rest[rest.iter().take_while(|byte| b" \t\n\x0b\x0c\r".contains(byte)).count()..];
            if rest.is_empty() {
                return Ok(words);
            }
            let plain = rest.iter().take_while(|byte| !b" \t\n\r\"'".contains(byte)).count();
            let mut word = rest[..plain].to_vec();
            rest = &rest[plain..];
            if let [quote @ (b'"' | b'\''), tail @ ..] = rest {
                rest = tail;
                loop {
                    let (piece, tail): (u8, &[u8]) = match (quote, rest) {
                        (_, []) => return Err(Unbalanced),
                        (b'"', [b'\\', b'x', high, low, tail @ ..])
                            if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
                        {
                            let digits = String::from_utf8(vec![*high, *low]).unwrap();
                            (u8::from_str_radix(&digits, 16).unwrap(), tail)
                        }
                        (b'"', [b'\\', escape, tail @ ..]) => {
                            let table = b"n\nr\rt\tb\x08a\x07";
                            let found = table.chunks(2).find(|pair| pair[0] == *escape);
                            (found.map_or(*escape, |pair| pair[1]), tail)
                        }
                        (b'\'', [b'\\', b'\'', tail @ ..]) => (b'\'', tail),
                        (_, [byte, tail @ ..]) if byte == quote => {
                            rest = tail;
                            break;
                        }
                        (_, [byte, tail @ ..]) => (*byte, tail),
                    };
                    word.push(piece);
                    rest = tail;
                }
                if rest.first().is_some_and(|byte| !b" \t\n\x0b\x0c\r".contains(byte)) {
                    return Err(Unbalanced);
                }
            }
            words.push(word);
        }
    }

    #[test]
    fn as_redis_was_seen_to_split() {
        type Case<'a> = (&'a [u8], Option<&'a [&'a [u8]]>);
        let cases: [Case; 12] = [
            (b"ECHO \"a b\"", Some(&[b"ECHO", b"a b"])),
            (b"ECHO \"a b\"c", None),
            (b"ECHO \"a", None),
            (b"ECHO 'a'b", None),
            (b"ECHO 'a\\'b\\n'", Some(&[b"ECHO", b"a'b\\n"])),
            (b"ECHO \"\\x41\\n\\r\\t\\b\\a\\q\\\\\\\"\"", Some(&[b"ECHO", b"A\n\r\t\x08\x07q\\\""])),
            (b"ECHO a\"b c\" d", Some(&[b"ECHO", b"ab c", b"d"])),
            (b"ECHO ''", Some(&[b"ECHO", b""])),
            (b"ECHO a\x0bb", Some(&[b"ECHO", b"a\x0bb"])),
            (b"\x0bPING", Some(&[b"PING"])),
            (b"ECHO \"\\x4g\"", Some(&[b"ECHO", b"x4g"])),
            (b"PI\rNG  ", Some(&[b"PI", b"NG"])),
        ];
        for (line, expected) in cases {
            let expected = expected.map(|words| words.iter().map(|word| word.to_vec()).collect()).ok_or(Unbalanced);
            assert_eq!(words(line), expected, "{:?}", String::from_utf8_lossy(line));
        }
    }

    proptest! {
        #[test]
        fn splits_as_the_model(line in proptest::collection::vec(
            prop_oneof![proptest::sample::select(b"\"'\\ xntab4F\r\t\x0b".to_vec()), any::<u8>()], 0..40)) {
            prop_assert_eq!(words(&line), model(&line));
        }
    }
}
