//! How large a cache is.

use forebay::policy::Unit;

use crate::lab_error::LabError;

/// A cache's size.
#[derive(Clone, Debug, PartialEq)]
pub struct Size {
    /// As it was given.
    pub given: String,
    value: SizeValue,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum SizeValue {
    /// Of the unique keys, or of the footprint.
    Share(f64),
    Units(u64),
}

impl Size {
    /// Reads `10%`, `5000`, or with bytes as unit `64MiB`.
    pub fn parse(text: &str, unit: Unit) -> Result<Size, LabError> {
        let given = text.trim();
        let wrong = || LabError::Size { given: given.to_owned(), advice: advice(given, unit) };
        if let Some(percent) = given.strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
            if !(percent > 0.0 && percent <= 100_000.0) {
                return Err(wrong());
            }
            return Ok(Size { given: given.to_owned(), value: SizeValue::Share(percent / 100.0) });
        }
        let digits = given.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let factor: u64 = match &given[digits.len()..].to_ascii_lowercase()[..] {
            "" => 1,
            "k" | "kib" if unit == Unit::Bytes => 1 << 10,
            "m" | "mib" if unit == Unit::Bytes => 1 << 20,
            "g" | "gib" if unit == Unit::Bytes => 1 << 30,
            "t" | "tib" if unit == Unit::Bytes => 1 << 40,
            _ => return Err(wrong()),
        };
        let number: u64 = digits.trim().parse().map_err(|_| wrong())?;
        let units = number.checked_mul(factor).filter(|&units| units > 0).ok_or_else(wrong)?;
        Ok(Size { given: given.to_owned(), value: SizeValue::Units(units) })
    }

    /// Objects or bytes of the whole trace.
    pub(crate) fn units(&self, whole: u64) -> u64 {
        match self.value {
            SizeValue::Share(share) => ((whole as f64 * share) as u64).max(1),
            SizeValue::Units(units) => units,
        }
    }
}

/// What to write in place of something that is no size.
fn advice(given: &str, unit: Unit) -> &'static str {
    let ending = given.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).to_ascii_lowercase();
    match &ending[..] {
        "k" | "kib" | "m" | "mib" | "g" | "gib" | "t" | "tib"
            if unit == Unit::Entries && ending.len() < given.len() =>
        {
            "that counts bytes: add --unit bytes, or give a number of objects (5000) or a share of them (10%)"
        }
        "kb" | "mb" | "gb" | "tb" => "give bytes in KiB, MiB, GiB or TiB, with --unit bytes",
        _ if unit == Unit::Bytes => "give a share of the footprint (10%) or whole bytes (64MiB, 1536KiB), above 0",
        _ => "give a share of the keys (10%) or objects (5000), above 0, or with --unit bytes a size (64MiB)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let units = |text: &str, unit| Size::parse(text, unit).map(|size| size.units(1000));
        assert_eq!(units("10%", Unit::Entries).expect("a share"), 100);
        assert_eq!(units("0.01%", Unit::Entries).expect("a share"), 1);
        assert_eq!(units(" 64 ", Unit::Entries).expect("objects"), 64);
        assert_eq!(units("64MiB", Unit::Bytes).expect("bytes"), 64 << 20);
        for wrong in ["", "0", "%", "-1%", "0%", "64MiB", "10 percent", "1e3", "99999999999999999999"] {
            assert!(Size::parse(wrong, Unit::Entries).is_err(), "{wrong}");
        }
        assert!(Size::parse("99999999999999T", Unit::Bytes).is_err());
        let why = |text, unit| Size::parse(text, unit).expect_err(text).to_string();
        assert!(why("10GiB", Unit::Entries).contains("add --unit bytes"));
        assert!(why("10GB", Unit::Bytes).contains("GiB") && why("10GB", Unit::Entries).contains("--unit bytes"));
        assert!(why("0%", Unit::Entries).contains("above 0") && why("1.5MiB", Unit::Bytes).contains("1536KiB"));
    }
}
