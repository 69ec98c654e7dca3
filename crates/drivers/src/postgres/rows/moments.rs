//! Dates and times in the form in which PostgreSQL shows them, in the settings of forebay's sessions: ISO, UTC.
//!
//! | type | given | shown |
//! |---|---|---|
//! | date | `2026-01-05T10:00` | `2026-01-05` |
//! | time | `10:00` | `10:00:00` |
//! | timestamp | `2026-01-05T10:00:00.500` | `2026-01-05 10:00:00.5` |
//! | timestamp with time zone | `2026-01-05T10:00:00Z` | `2026-01-05 10:00:00+00` |
//!
//! **Invariant.** What is shown is what the database shows of a text that it takes. Of other forms nothing is said:
//! names of months, zones that are not UTC, a fraction that would be rounded.

/// The digits of a second's fraction that PostgreSQL keeps, unless the type says fewer.
const FRACTION_DIGITS: usize = 6;

/// `text` as a value of this type, which keeps so many digits of a second's `fraction`; `None` where that is not sure.
pub(super) fn shown(type_name: &str, fraction: Option<usize>, text: &str) -> Option<String> {
    let fraction = fraction.unwrap_or(FRACTION_DIGITS);
    if type_name == "time without time zone" {
        return time(text, fraction);
    }
    let (date, rest) = text.split_at_checked("yyyy-mm-dd".len())?;
    if !is_like(date, "dddd-dd-dd") || date.starts_with("0000") {
        return None;
    }
    let time = match rest.strip_prefix(['T', ' ']) {
        Some(rest) => time(utc(rest), fraction)?,
        None if rest.is_empty() => "00:00:00".to_owned(),
        None => return None,
    };
    match type_name {
        "date" => Some(date.to_owned()),
        "timestamp without time zone" => Some(format!("{date} {time}")),
        "timestamp with time zone" => Some(format!("{date} {time}+00")),
        _ => None,
    }
}

/// Without the words for UTC.
fn utc(time: &str) -> &str {
    ["Z", "+00:00", "+00"].iter().find_map(|zone| time.strip_suffix(zone)).unwrap_or(time)
}

/// Hours and minutes, with or without seconds and their fraction.
fn time(text: &str, fraction_max: usize) -> Option<String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = match whole.len() {
        5 if fraction.is_empty() && !text.contains('.') => format!("{whole}:00"),
        _ => whole.to_owned(),
    };
    let is_fraction = fraction.len() <= fraction_max && fraction.bytes().all(|byte| byte.is_ascii_digit());
    // Sixty seconds, and the twenty-fourth hour, are another moment's.
    let is_sound = is_like(&whole, "dd:dd:dd") && whole[..2] < *"24" && whole[3..5] < *"60" && whole[6..] < *"60";
    let kept = fraction.trim_end_matches('0');
    let point = if kept.is_empty() { "" } else { "." };
    (is_sound && is_fraction && !text.ends_with('.')).then(|| format!("{whole}{point}{kept}"))
}

/// Whether a digit stands for each `d` of `form`, and all else as it is.
fn is_like(text: &str, form: &str) -> bool {
    let fits = |(byte, form): (u8, u8)| if form == b'd' { byte.is_ascii_digit() } else { byte == form };
    text.len() == form.len() && text.bytes().zip(form.bytes()).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_sure_stays() {
        let stamp = |text: &str| shown("timestamp without time zone", None, text);
        assert_eq!(stamp("2026-01-05T10:00:00.500Z").as_deref(), Some("2026-01-05 10:00:00.5"));
        for text in [
            "",
            "2026-01-05T",
            "2026-01-05 24:00",
            "2026-01-05 10:60",
            "2026-01-05 10:00:60",
            "2026-1-5",
            "0000-01-05",
            "2026-01-05 10:00:00.1234567",
            "2026-01-05 10:00+02",
            "2026-01-05T10:00:00.",
            "2026-01-05x",
            "20260105",
            "2026-01-05 10.5",
            "2026-01-0\u{e9}",
        ] {
            assert_eq!(stamp(text), None, "{text}");
        }
        assert_eq!(shown("time without time zone", Some(2), "10:00:00.123"), None);
        assert_eq!(shown("time without time zone", Some(2), "10:00:00.10").as_deref(), Some("10:00:00.1"));
    }
}
