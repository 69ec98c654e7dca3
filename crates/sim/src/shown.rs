//! Numbers as people read them.

/// A whole number with thin spaces between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut text = digits[..first].to_owned();
    for at in (first..digits.len()).step_by(3) {
        if at > 0 {
            text.push('\u{2009}');
        }
        text += &digits[at..at + 3];
    }
    text
}

/// Bytes in the largest unit that leaves something before the point.
pub(crate) fn bytes(number: u64) -> String {
    let (mut value, mut unit) = (number as f64, 0);
    while value >= 1024.0 && unit < 4 {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{number} B"),
        _ => format!("{value:.1} {}", ["B", "KiB", "MiB", "GiB", "TiB"][unit]),
    }
}
