//! Texts of values: bytes as digits, a list as one text.

use std::fmt::Write;

/// An array as its text.
pub(crate) fn array_text<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> String {
    let mut array = String::from("{");
    for (at, text) in texts.enumerate() {
        array.push_str(if at == 0 { "" } else { "," });
        match text {
            Some(text) if text.contains(['"', '\\']) => {
                let _ = write!(array, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
            }
            Some(text) => {
                array.push('"');
                array.push_str(text);
                array.push('"');
            }
            None => array.push_str("NULL"),
        }
    }
    array.push('}');
    array
}

/// Bytes as the text of a `bytea`, without quotes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("\\x");
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// The bytes whose digits, without `\\x`, are `text`.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if digits.len().is_multiple_of(2) { digits.chunks(2).map(pair).collect() } else { None }
}
