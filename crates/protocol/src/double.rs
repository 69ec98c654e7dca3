//! How Redis prints a floating point number in a reply.
//!
//! Redis after 7.0 prints the fewest digits that read back as the same number. They are laid out as in its `fpconv`
//! library (the rules below were read there). Redis 7.0 prints 17 digits (`%.17g`: 0.1 comes as 0.10000000000000001).
//! Clients parse either. Where `fpconv`'s algorithm now and then needs a digit more than necessary, we do not.

use std::io::Write;

/// Bytes of the longest number: a sign, 17 digits and 7 zeros.
pub const DOUBLE_BYTES_MAX: usize = 25;

/// Appends `value` as Redis prints it: `3`, `0.1`, `1e+30`, `inf`, `-inf`, `nan`.
///
/// Plain digits up to 7 zeros at the end, a decimal point up to 6 decimals or for exponents above -4, the scientific
/// form otherwise.
pub fn write_double(value: f64, out: &mut Vec<u8>) {
    if value.is_nan() {
        return out.extend_from_slice(b"nan");
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    if value.is_infinite() {
        return out.extend_from_slice(b"inf");
    }
    if value == 0.0 {
        return out.push(b'0');
    }
    let mut text = [0_u8; 32];
    let (digits, exponent) = shortest(value.abs(), &mut text);
    // The value is the digits, read as an integer, times ten to the power of `scale`.
    let scale = exponent - (digits.len() as i32 - 1);
    if scale >= 0 && exponent < digits.len() as i32 + 7 {
        out.extend_from_slice(digits);
        out.resize(out.len() + scale as usize, b'0');
    } else if scale < 0 && (scale > -7 || exponent.abs() < 4) {
        let whole = digits.len() as i32 + scale;
        if whole <= 0 {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + whole.unsigned_abs() as usize, b'0');
            out.extend_from_slice(digits);
        } else {
            let (whole, decimals) = digits.split_at(whole as usize);
            out.extend_from_slice(whole);
            out.push(b'.');
            out.extend_from_slice(decimals);
        }
    } else {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        out.extend_from_slice(itoa::Buffer::new().format(exponent.unsigned_abs()).as_bytes());
    }
}

/// The shortest digits of a positive, finite value, without a point, and the exponent of the first of them.
fn shortest(value: f64, text: &mut [u8; 32]) -> (&[u8], i32) {
    let mut rest = &mut text[..];
    // At most 17 digits, a point, `e` and 4 bytes of exponent: it fits, and what did not would be cut off.
    let _ = write!(rest, "{value:e}");
    let length = 32 - rest.len();
    let mark = memchr::memchr(b'e', &text[..length]).unwrap_or(length);
    let exponent = text[(mark + 1).min(length)..length].iter().fold((0, 1), |(number, sign), byte| match byte {
        b'-' => (number, -1),
        digit => (number * 10 + i32::from(digit - b'0'), sign),
    });
    if mark > 1 {
        // "d.ddd" becomes "dddd".
        text.copy_within(2..mark, 1);
        (&text[..mark - 1], exponent.0 * exponent.1)
    } else {
        (&text[..1], exponent.0 * exponent.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(value: f64) -> String {
        let mut out = Vec::new();
        write_double(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn layouts() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (3.25, "3.25"),
            (100.0, "100"),
            (1e7, "10000000"),
            (1e8, "1e+8"),
            (123e7, "1230000000"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (1.5e-7, "1.5e-7"),
            (0.0001234567, "1.234567e-4"),
            (0.001234567891, "0.001234567891"),
            (-1.0000000000000001e23, "-100000000000000010000000"),
            (1e30, "1e+30"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ];
        for (value, expected) in cases {
            assert_eq!(text(value), expected);
        }
    }

    proptest! {
        #[test]
        fn reads_back_as_the_same_number(bits in any::<u64>(), small in -1e6..1e6_f64) {
            for value in [f64::from_bits(bits), small, (small * 100.0).round() / 100.0] {
                let back: f64 = text(value).parse().unwrap();
                prop_assert!(back.to_bits() == value.to_bits() || back.is_nan() && value.is_nan());
                prop_assert!(text(value).len() <= DOUBLE_BYTES_MAX);
            }
        }
    }
}
