//! Dates and times as texts and programs write them, in microseconds since 1970.

/// Microseconds since 1970 of year, month, day, hour, minute and second of UTC.
pub(crate) fn civil_us([year, month, day, hour, minute, second]: [u64; 6]) -> Option<u64> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let sound = (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=days).contains(&day);
    if !sound || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days of the civil calendar, counted from March so that the leap day is the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let seconds = ((days - 719_468) * 24 + hour) * 3600 + minute * 60 + second;
    Some(seconds * 1_000_000)
}

/// Microseconds since 1970 of a date of ISO 8601 or RFC 3339: `2026-01-31`, `2026-01-31T12:30:00.25+01:00`, a blank in
/// place of the T, `Z` or ` UTC` or nothing for UTC.
pub(crate) fn iso_us(field: &[u8]) -> Option<u64> {
    let mut rest = Rest(field);
    let year = rest.digits(4)?;
    let month = rest.digits_after(b'-')?;
    let day = rest.digits_after(b'-')?;
    if rest.0.is_empty() {
        return civil_us([year, month, day, 0, 0, 0]);
    }
    rest.one_of(b"Tt ")?;
    let hour = rest.digits(2)?;
    let minute = rest.digits_after(b':')?;
    let second = if rest.0.first() == Some(&b':') { rest.digits_after(b':')? } else { 0 };
    let fraction_us = rest.fraction_us()?;
    let us = civil_us([year, month, day, hour, minute, second])?.checked_add(fraction_us)?;
    let (ahead, offset_us) = rest.offset_us()?;
    if ahead { us.checked_sub(offset_us) } else { us.checked_add(offset_us) }
}

/// Microseconds since 1970 of a date as access logs have it: `10/Oct/2000:13:55:36 -0700`.
pub(crate) fn clf_us(field: &[u8]) -> Option<u64> {
    const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut rest = Rest(field);
    let day = rest.digits(2)?;
    rest.one_of(b"/")?;
    let (name, behind) = rest.0.split_at_checked(3)?;
    let month = MONTHS.chunks(3).position(|month| month.eq_ignore_ascii_case(name))? as u64 + 1;
    rest.0 = behind;
    rest.one_of(b"/")?;
    let year = rest.digits(4)?;
    let (hour, minute, second) = (rest.digits_after(b':')?, rest.digits_after(b':')?, rest.digits_after(b':')?);
    rest.one_of(b" ");
    let us = civil_us([year, month, day, hour, minute, second])?;
    let (ahead, offset_us) = rest.offset_us()?;
    if ahead { us.checked_sub(offset_us) } else { us.checked_add(offset_us) }
}

/// That time as a date, in whole seconds of UTC.
pub(crate) fn iso(us: u64) -> String {
    let seconds = us / 1_000_000;
    // The inverse of `civil_us`: days since the first of March of the year 0, in eras of 400 years.
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let (year, time) = (400 * era + year_of_era + next, seconds % 86_400);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", time / 3600, time / 60 % 60, time % 60)
}

/// What is not read yet.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn digits(&mut self, count: usize) -> Option<u64> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        digits.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0')))
    }

    /// Two digits behind this byte.
    fn digits_after(&mut self, mark: u8) -> Option<u64> {
        self.one_of(&[mark])?;
        self.digits(2)
    }

    fn one_of(&mut self, bytes: &[u8]) -> Option<u8> {
        let (&first, rest) = self.0.split_first().filter(|(first, _)| bytes.contains(first))?;
        self.0 = rest;
        Some(first)
    }

    /// Digits beyond the sixth do not count.
    fn fraction_us(&mut self) -> Option<u64> {
        if self.one_of(b".,").is_none() {
            return Some(0);
        }
        let count = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let kept = count.min(6);
        let us = self.digits(kept).filter(|_| count > 0)? * 10_u64.pow(6 - kept as u32);
        self.0 = &self.0[count - kept..];
        Some(us)
    }

    /// Whether the time of day is ahead of UTC's, and by how much; nothing may follow.
    fn offset_us(&mut self) -> Option<(bool, u64)> {
        if let b"" | b"Z" | b"z" | b" UTC" = self.0 {
            return Some((true, 0));
        }
        let ahead = self.one_of(b"+-")? == b'+';
        let hours = self.digits(2)?;
        self.one_of(b":");
        let minutes = if self.0.is_empty() { 0 } else { self.digits(2)? };
        (self.0.is_empty() && hours < 24 && minutes < 60).then_some((ahead, (hours * 60 + minutes) * 60_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_counted() {
        let noon = 951_825_600_000_000;
        for (text, us) in [
            ("1970-01-01", 0),
            ("2000-02-29T12:00:00Z", noon),
            ("2000-02-29 12:00", noon),
            ("2000-02-29t12:00:00.25", noon + 250_000),
            ("2000-02-29 12:00:00,1234567 UTC", noon + 123_456),
            ("2000-02-29T13:30:00+01:30", noon),
            ("2000-02-29T04:00:00.000-0800", noon),
            ("2000-02-29T14:00:00+02", noon),
        ] {
            assert_eq!(iso_us(text.as_bytes()), Some(us), "{text}");
        }
        for wrong in [
            "",
            "1969-12-31",
            "2000-13-01",
            "2026-02-30",
            "2100-02-29",
            "2026-04-31",
            "2000-1-1",
            "2000-01-01T",
            "2000-01-01T24:00",
            "2000-01-01T12",
            "12:00",
            "2000-01-01T12:00:00.",
            "2000-01-01T12:00:00 CET",
            "2000-01-01T12:00:00+1",
            "1970-01-01T00:00+01:00",
            "2000-01-01T12:00Zx",
            "2000-01-01T12:00:00+01:0000",
            "\u{e9}000-01-01",
        ] {
            assert_eq!(iso_us(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn dates_of_access_logs() {
        let us = iso_us(b"2000-10-10T20:55:36Z");
        assert_eq!(clf_us(b"10/Oct/2000:13:55:36 -0700"), us);
        assert_eq!(clf_us(b"10/oct/2000:20:55:36"), us);
        for wrong in ["", "10/Okt/2000:13:55:36 -0700", "32/Oct/2000:13:55:36", "10/Oct/2000", "1/Oct/2000:13:55:36"] {
            assert_eq!(clf_us(wrong.as_bytes()), None, "{wrong}");
        }
    }

    proptest::proptest! {
        #[test]
        fn dates_read_back(seconds in 0..253_402_300_800_u64) {
            let text = iso(seconds * 1_000_000);
            proptest::prop_assert_eq!(iso_us(text.as_bytes()), Some(seconds * 1_000_000), "{}", text);
        }

        /// Whatever stands there, it is a date or none.
        #[test]
        fn nothing_panics(text in "[0-9TZ:.,+-]{0,32}", cut in 0usize..30) {
            iso_us(text.as_bytes());
            clf_us(text.as_bytes());
            let whole = b"2026-11-22T08:30:00.123456+01:00";
            iso_us(&whole[..cut.min(whole.len())]);
        }
    }
}
