//! Which texts PostgreSQL surely takes for no value of a column, told without asking it. Where it is not sure, nothing
//! is said. Moments that are relative to when they are read are refused: they would be read when the change is applied.

use crate::sql::table::Limit;

/// As C's `isspace`.
pub(super) fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t'..='\r')
}

/// Why `text` is no value of this type, as surely as it can be told here.
pub(in crate::postgres) fn value_refused(type_name: &str, text: &str) -> Option<String> {
    let trimmed = text.trim_matches(is_space);
    let is = match type_name {
        "smallint" => is_integer(trimmed, i64::from(i16::MIN), i64::from(i16::MAX)),
        "integer" => is_integer(trimmed, i64::from(i32::MIN), i64::from(i32::MAX)),
        "bigint" => is_integer(trimmed, i64::MIN, i64::MAX),
        "numeric" | "real" | "double precision" => is_number(trimmed),
        "boolean" => is_boolean(trimmed),
        "uuid" => is_uuid(text),
        "json" | "jsonb" => serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok(),
        "date" | "timestamp without time zone" | "timestamp with time zone" => return moment_refused(text, true),
        "time without time zone" | "time with time zone" => return moment_refused(text, false),
        _ => true,
    };
    (!is).then(|| format!("{} is no {type_name}", shown(text)))
}

/// A text as an error shows it.
fn shown(text: &str) -> String {
    const CHARACTERS_MAX: usize = 40;
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("'{}..'", &text[..end]),
        None => format!("'{text}'"),
    }
}

fn unsigned(text: &str) -> &str {
    text.strip_prefix(['+', '-']).unwrap_or(text)
}

/// Later servers read more than digits: hexadecimal, octal, binary, and underscores between digits.
fn is_newer(text: &str) -> bool {
    let digits = unsigned(text).as_bytes();
    text.contains('_') || matches!(digits, [b'0', b'x' | b'X' | b'o' | b'O' | b'b' | b'B', ..])
}

fn is_integer(text: &str, least: i64, most: i64) -> bool {
    let digits = unsigned(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return is_newer(text);
    }
    text.parse::<i64>().is_ok_and(|number| (least..=most).contains(&number))
}

/// A number with a fraction and an exponent, or a word that stands for one.
fn is_number(text: &str) -> bool {
    let rest = unsigned(text);
    let lower = rest.to_ascii_lowercase();
    if is_newer(text) || lower.starts_with("nan") || lower.starts_with("inf") {
        return true;
    }
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(unsigned(exponent))),
        None => (rest, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent))
}

fn is_boolean(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["true", "false", "yes", "no"].iter().any(|word| begins_boolean(&text, word, 1))
        || begins_boolean(&text, "on", 2)
        || begins_boolean(&text, "off", 2)
        || matches!(text.as_str(), "0" | "1")
}

/// Whether `text` is the beginning of a word for a boolean, of so many letters at least.
pub(super) fn begins_boolean(text: &str, word: &str, least: usize) -> bool {
    text.len() >= least && word.starts_with(text)
}

fn is_uuid(text: &str) -> bool {
    text.bytes().filter(u8::is_ascii_hexdigit).count() == 32
        && text.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'{' | b'}'))
}

/// Words for a moment that depends on when they are read.
const RELATIVE: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];

/// A moment is no moment if it has no digit and no word that stands for one; `dated` if it has a date.
fn moment_refused(text: &str, dated: bool) -> Option<String> {
    let is_word = |word: &&str| !word.is_empty();
    let lower = text.to_ascii_lowercase();
    let mut words = lower.split(|character: char| !character.is_ascii_alphabetic()).filter(is_word);
    if let Some(word) = words.find(|word| RELATIVE.contains(word)) {
        let why = "would be what it is when the database is back; give the moment itself";
        return Some(format!("{} {why}", shown(word)));
    }
    let stands = lower.contains("epoch") || lower.contains("infinity");
    let nothing = dated && !stands && !text.bytes().any(|byte| byte.is_ascii_digit());
    nothing.then(|| format!("{} is no date", shown(text)))
}

/// Why `text`, a value of the column's type, is more than the column holds.
pub(in crate::postgres) fn limit_refused(limit: Option<&Limit>, text: &str) -> Option<String> {
    match limit? {
        Limit::Fraction(_) => None,
        Limit::Labels(labels) => {
            let none = !labels.iter().any(|label| label == text);
            none.then(|| format!("{} is none of {}", shown(text), labels.join(", ")))
        }
        // Spaces at the end are cut off.
        Limit::Characters(most) => {
            let too_long = text.chars().skip(*most).any(|character| character != ' ');
            too_long.then(|| format!("it has more than {most} characters"))
        }
        Limit::Digits { whole, fraction } => {
            let overflows = overflows(text.trim_matches(is_space), *whole, *fraction);
            overflows.then(|| format!("{} has more than {whole} digits before the point", shown(text)))
        }
    }
}

/// Whether a number without an exponent has, rounded to so many digits behind the point, too many before it.
fn overflows(text: &str, whole_max: usize, fraction_max: usize) -> bool {
    if !unsigned(text).bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return false;
    }
    let (whole, fraction) = unsigned(text).split_once('.').unwrap_or((unsigned(text), ""));
    let whole = whole.trim_start_matches('0');
    let nines = |text: &str| text.bytes().all(|byte| byte == b'9');
    let rounds_up = || {
        let kept = fraction.get(..fraction_max).is_some_and(nines);
        nines(whole) && kept && fraction.as_bytes().get(fraction_max).is_some_and(|digit| *digit >= b'5')
    };
    whole.len() > whole_max || (whole.len() == whole_max && rounds_up())
}
