//! As much of JSON as the dashboard's records need: numbers, texts, and what stands between commas.

use std::fmt::Write;

/// Appends a number; what JSON has no number for is null.
pub(super) fn number(out: &mut String, value: f64) {
    match value.is_finite() {
        true => _ = write!(out, "{value}"),
        false => out.push_str("null"),
    }
}

/// Appends a text in quotes.
pub(super) fn text(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            // Lines of an event must not end within it.
            letter if letter.is_control() => _ = write!(out, "\\u{:04x}", u32::from(letter)),
            letter => out.push(letter),
        }
    }
    out.push('"');
}

/// Appends `items` between commas, each as `one` writes it.
pub(super) fn list<T>(out: &mut String, items: impl IntoIterator<Item = T>, mut one: impl FnMut(&mut String, T)) {
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        one(out, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_json_can_not_say_is_said_otherwise() {
        let mut out = String::new();
        list(&mut out, [1.0, 0.25, f64::NAN, f64::INFINITY, 1e18], number);
        list(&mut out, ["a\"b\\c", "\n\u{7f}\u{85}", "\u{e4}"], text);
        let expected = "1,0.25,null,null,1000000000000000000\"a\\\"b\\\\c\",\"\\u000a\\u007f\\u0085\",\"\u{e4}\"";
        assert_eq!(out, expected);
    }
}
