//! Texts in the form in which PostgreSQL shows the value that they stand for. So what waits for the database is shown,
//! and computed with, as it will be in the table.
//!
//! | type | for example |
//! |---|---|
//! | smallint, integer, bigint | `007`, ` +7` is `7` |
//! | real, double precision | `2.0` is `2` |
//! | numeric with a scale | with two digits behind the point `2` is `2.00`, `1.255` is `1.26` |
//! | boolean | `yes`, `T`, `1` is `true` |
//! | uuid | capitals are small letters, `-` stands where it does |
//! | date, time, timestamp | see `moments` |
//!
//! **Invariant.** What comes out is what the database makes of what goes in. A text of which that is not sure stays.

use forebay::value::Blob;

use super::moments;
use super::value_refused::{begins_boolean, is_space, value_refused};
use crate::sql::table::Limit;

/// `text`, a value of this type, as the database shows it.
pub(in crate::postgres) fn shown_as(type_name: &str, limit: Option<&Limit>, text: Blob) -> Blob {
    let Ok(given) = std::str::from_utf8(&text) else { return text };
    if value_refused(type_name, given).is_some() {
        return text;
    }
    let trimmed = given.trim_matches(is_space);
    let shown = match (type_name, limit) {
        ("smallint" | "integer" | "bigint", _) => trimmed.parse::<i64>().ok().map(|number| number.to_string()),
        ("numeric", Some(Limit::Digits { fraction, .. })) => rounded(trimmed, *fraction),
        ("double precision", _) => {
            trimmed.parse::<f64>().ok().filter(|x| is_plain(x.abs(), 1e15)).map(|x| x.to_string())
        }
        ("real", _) => trimmed.parse::<f32>().ok().filter(|x| is_plain(x.abs().into(), 1e6)).map(|x| x.to_string()),
        ("boolean", _) => boolean(trimmed).map(|is| is.to_string()),
        ("uuid", _) => uuid(given),
        (_, Some(Limit::Fraction(digits))) => moments::shown(type_name, Some(*digits), trimmed),
        _ => moments::shown(type_name, None, trimmed),
    };
    shown.filter(|shown| shown != given).map_or_else(|| text.clone(), |shown| Blob::from(shown.as_bytes()))
}

/// Whether PostgreSQL shows a number of this size without an exponent.
fn is_plain(size: f64, below: f64) -> bool {
    size == 0.0 || (1e-4..below).contains(&size)
}

/// A number without an exponent, with so many digits behind the point; half of one is rounded away from zero.
fn rounded(text: &str, scale: usize) -> Option<String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !all(whole) || !all(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let up = fraction.as_bytes().get(scale).is_some_and(|digit| *digit >= b'5');
    let kept = fraction.bytes().chain(std::iter::repeat(b'0')).take(scale);
    let mut number: Vec<u8> = std::iter::once(b'0').chain(whole.bytes()).chain(kept).collect();
    if up {
        for digit in number.iter_mut().rev() {
            *digit = if *digit == b'9' { b'0' } else { *digit + 1 };
            if *digit != b'0' {
                break;
            }
        }
    }
    let text = String::from_utf8(number).ok()?;
    let (whole, fraction) = text.split_at(text.len() - scale);
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let is_zero = whole == "0" && fraction.bytes().all(|digit| digit == b'0');
    let (sign, point) = (if is_zero { "" } else { sign }, if scale == 0 { "" } else { "." });
    Some(format!("{sign}{whole}{point}{fraction}"))
}

fn boolean(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let stands_for = |words: [(&str, usize); 3], digit: &str| {
        text == digit || words.iter().any(|(word, least)| begins_boolean(&text, word, *least))
    };
    let (yes, no) =
        (stands_for([("true", 1), ("yes", 1), ("on", 2)], "1"), stands_for([("false", 1), ("no", 1), ("off", 2)], "0"));
    (yes != no).then_some(yes)
}

/// With `-` where it stands, or with none.
fn uuid(text: &str) -> Option<String> {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let digits = text.replace('-', "");
    if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let (mut left, mut groups) = (digits.as_str(), Vec::new());
    for length in GROUPS {
        let (group, rest) = left.split_at(length);
        groups.push(group);
        left = rest;
    }
    let shown = groups.join("-");
    (text == digits || text == shown).then(|| shown.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_away_from_zero() {
        for (text, scale, shown) in [
            ("2", 2, "2.00"),
            ("1.255", 2, "1.26"),
            ("-1.255", 2, "-1.26"),
            ("9.995", 2, "10.00"),
            ("0.004", 2, "0.00"),
            ("-0.004", 2, "0.00"),
            (".5", 0, "1"),
            ("-.4", 0, "0"),
            ("+007.", 1, "7.0"),
            ("0", 3, "0.000"),
        ] {
            assert_eq!(rounded(text, scale).as_deref(), Some(shown), "{text} {scale}");
        }
        for text in ["", ".", "1e2", "NaN", "1_0", "0x1", "--1", "1.2.3"] {
            assert_eq!(rounded(text, 2), None, "{text}");
        }
    }

    #[test]
    fn words_stand_for_truth() {
        assert_eq!(["t", "TRUE", "y", "on", "1"].map(boolean), [Some(true); 5]);
        assert_eq!(["f", "False", "n", "of", "OFF", "0"].map(boolean), [Some(false); 6]);
        assert_eq!(["o", "", "2", "truely"].map(boolean), [None; 4]);
    }

    #[test]
    fn ids_are_in_small_letters() {
        let id = "0AB70000-0000-0000-0000-00000000000F";
        let shown = id.to_ascii_lowercase();
        assert_eq!([id, &id.replace('-', "")].map(uuid), [Some(shown.clone()), Some(shown)]);
        for other in ["{0AB70000-0000-0000-0000-00000000000F}", "0AB7-00000000-0000-0000-00000000000F", "0", ""] {
            assert_eq!(uuid(other), None, "{other}");
        }
    }
}
