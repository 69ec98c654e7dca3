//! Numbers as Redis reads, adds and prints them.
//!
//! Floats are its `long double`: on x86-64 the x87 extended format, 64 bits of mantissa and 15 of exponent. That
//! arithmetic is done here in integers of any size, rounded once to the nearest (ties to even). So a sum has Redis'
//! digits on every machine.

use std::cmp::Ordering;

use num_bigint::BigUint;

use super::ApplyError;
use crate::value::Blob;

/// Longest text of a float, in bytes, as in Redis.
const FLOAT_TEXT_BYTES_MAX: usize = 5 * 1024 - 1;

/// Decimals that are printed at most.
const DECIMALS: usize = 17;

/// Bits of the mantissa.
const MANTISSA_BITS: i64 = 64;

/// Exponent of the mantissa's last bit in the smallest numbers, normal and not.
const EXPONENT_MIN: i64 = -16445;

/// Exponent of the mantissa's last bit in the largest numbers.
const EXPONENT_MAX: i64 = 16320;

/// Magnitudes from 10 to this power on are infinite, and those below 10 to minus this power zero, long before they
/// reach it; so exponents are cut here before any power is computed.
const DECIMAL_EXPONENT_MAX: i64 = 5_000;

/// Reads a signed 64-bit integer as Redis does: no plus sign, leading zero, space or "-0".
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    match digits {
        [b'0'] if digits.len() == text.len() => return Some(0),
        [b'1'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit) => {}
        _ => return None,
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Whether `text` is a finite number as [`Change::AddFloat`](super::Change::AddFloat) takes it: decimal or hexadecimal,
/// with or without exponent, as C's `strtold` reads it.
pub fn is_float(text: &[u8]) -> bool {
    matches!(parse_float(text), Some(Float::Finite(_)))
}

/// Adds the float `delta` to `old` (absent: 0); the sum as Redis prints it.
pub(super) fn add_float(old: Option<&[u8]>, delta: &[u8]) -> Result<Blob, ApplyError> {
    let old = parse_float(old.unwrap_or(b"0")).ok_or(ApplyError::NotAFloat)?;
    let delta = parse_float(delta).ok_or(ApplyError::NotAFloat)?;
    let (Float::Finite(old), Float::Finite(delta)) = (old, delta) else { return Err(ApplyError::NotFinite) };
    match old.add(&delta) {
        Float::Finite(sum) => Ok(Blob::from(sum.to_text().as_bytes())),
        Float::Infinite => Err(ApplyError::NotFinite),
    }
}

/// A number of the extended format.
#[derive(Debug, PartialEq)]
enum Float {
    Finite(Extended),
    Infinite,
}

/// `mantissa * 2^exponent`, negative or not.
#[derive(Debug, PartialEq)]
struct Extended {
    negative: bool,
    mantissa: u64,
    exponent: i64,
}

/// `numerator / denominator * 2^exponent`, rounded to the nearest number of the format, ties to even. The denominator
/// is not zero.
fn round(negative: bool, numerator: BigUint, denominator: BigUint, exponent: i64) -> Float {
    let zero = BigUint::ZERO;
    if numerator == zero {
        return Float::Finite(Extended { negative, mantissa: 0, exponent: EXPONENT_MIN });
    }
    // Scaled so that the quotient has one or two bits more than the mantissa: what lies below them only breaks ties.
    let scale = MANTISSA_BITS + 1 - (numerator.bits() as i64 - denominator.bits() as i64);
    let (numerator, denominator) =
        if scale >= 0 { (numerator << scale, denominator) } else { (numerator, denominator << -scale) };
    let quotient = &numerator / &denominator;
    let inexact = &quotient * &denominator != numerator;
    let exponent = exponent - scale;
    let dropped = (quotient.bits() as i64 - MANTISSA_BITS).max(EXPONENT_MIN - exponent);
    let mut exponent = exponent + dropped;
    let mut mantissa = &quotient >> dropped;
    let rest = quotient - (&mantissa << dropped);
    let half = BigUint::from(1u8) << (dropped - 1);
    let up = match rest.cmp(&half) {
        Ordering::Less => false,
        Ordering::Equal => inexact || mantissa.bit(0),
        Ordering::Greater => true,
    };
    if up {
        mantissa += 1u8;
        if mantissa.bits() as i64 > MANTISSA_BITS {
            mantissa >>= 1;
            exponent += 1;
        }
    }
    if exponent > EXPONENT_MAX {
        return Float::Infinite;
    }
    Float::Finite(Extended { negative, mantissa: mantissa.iter_u64_digits().next().unwrap_or(0), exponent })
}

impl Extended {
    fn add(&self, other: &Extended) -> Float {
        let exponent = self.exponent.min(other.exponent);
        let left = BigUint::from(self.mantissa) << (self.exponent - exponent);
        let right = BigUint::from(other.mantissa) << (other.exponent - exponent);
        let one = BigUint::from(1u8);
        if self.negative == other.negative {
            return round(self.negative, left + right, one, exponent);
        }
        match left.cmp(&right) {
            Ordering::Less => round(other.negative, right - left, one, exponent),
            Ordering::Equal => round(false, BigUint::ZERO, one, exponent),
            Ordering::Greater => round(self.negative, left - right, one, exponent),
        }
    }

    /// As `%.17Lf` prints it, without trailing zeros and without the sign of a zero.
    fn to_text(&self) -> String {
        let scaled = BigUint::from(self.mantissa) * BigUint::from(10u8).pow(DECIMALS as u32);
        let units = if self.exponent >= 0 {
            scaled << self.exponent
        } else {
            let shift = -self.exponent;
            let floor = &scaled >> shift;
            let rest = scaled - (&floor << shift);
            let half = BigUint::from(1u8) << (shift - 1);
            let up = rest > half || rest == half && floor.bit(0);
            if up { floor + 1u8 } else { floor }
        };
        let digits = format!("{:0>width$}", units.to_string(), width = DECIMALS + 1);
        let (whole, decimals) = digits.split_at(digits.len() - DECIMALS);
        let text = format!("{whole}.{decimals}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        if self.negative && text != "0" { format!("-{text}") } else { text.to_owned() }
    }
}

/// Reads a float as Redis does, which is as `strtold` does, but for leading space, and for what is too large or too
/// small for the format: those are no floats. `None`: no float.
fn parse_float(text: &[u8]) -> Option<Float> {
    if text.len() > FLOAT_TEXT_BYTES_MAX {
        return None;
    }
    let (negative, magnitude) = match text {
        [b'-', magnitude @ ..] => (true, magnitude),
        [b'+', magnitude @ ..] => (false, magnitude),
        magnitude => (false, magnitude),
    };
    if magnitude.eq_ignore_ascii_case(b"inf") || magnitude.eq_ignore_ascii_case(b"infinity") {
        return Some(Float::Infinite);
    }
    let float = match magnitude {
        [b'0', b'x' | b'X', hexadecimal @ ..] => parse_hexadecimal(negative, hexadecimal)?,
        decimal => parse_decimal(negative, decimal)?,
    };
    matches!(float, Float::Finite(_)).then_some(float)
}

/// The digits of `text` up to its exponent, the number of them after the point, and the exponent.
fn split_number<'a>(text: &'a [u8], radix: u32, marks: &[u8]) -> Option<(Vec<u8>, i64, i64)> {
    let (number, exponent): (&'a [u8], i64) = match text.iter().position(|byte| marks.contains(byte)) {
        Some(at) => (&text[..at], parse_exponent(&text[at + 1..])?),
        None => (text, 0),
    };
    let (whole, decimals) = match number.iter().position(|byte| *byte == b'.') {
        Some(at) => (&number[..at], &number[at + 1..]),
        None => (number, &number[..0]),
    };
    let digits: Option<Vec<u8>> =
        whole.iter().chain(decimals).map(|byte| char::from(*byte).to_digit(radix).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| !digits.is_empty())?;
    Some((digits, decimals.len() as i64, exponent))
}

/// A decimal exponent; one beyond all bounds is cut to where it still is.
fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let magnitude = digits.iter().fold(0i64, |sum, digit| (sum * 10 + i64::from(digit - b'0')).min(1_000_000));
    Some(if negative { -magnitude } else { magnitude })
}

fn parse_decimal(negative: bool, text: &[u8]) -> Option<Float> {
    let (digits, decimals, exponent) = split_number(text, 10, b"eE")?;
    let digits: &[u8] = match digits.iter().position(|digit| *digit != 0) {
        Some(first) => &digits[first..],
        None => return Some(round(negative, BigUint::ZERO, BigUint::from(1u8), 0)),
    };
    let exponent = exponent - decimals;
    if (digits.len() as i64 + exponent).abs() > DECIMAL_EXPONENT_MAX {
        return None;
    }
    let number = BigUint::from_radix_be(digits, 10)?;
    let power = BigUint::from(10u8).pow(exponent.unsigned_abs() as u32);
    let float = if exponent >= 0 {
        round(negative, number * power, BigUint::from(1u8), 0)
    } else {
        round(negative, number, power, 0)
    };
    not_underflown(float)
}

fn parse_hexadecimal(negative: bool, text: &[u8]) -> Option<Float> {
    let (digits, decimals, exponent) = split_number(text, 16, b"pP")?;
    let number = BigUint::from_radix_be(&digits, 16)?;
    if number == BigUint::ZERO {
        return Some(round(negative, number, BigUint::from(1u8), 0));
    }
    let exponent = exponent - 4 * decimals;
    if (number.bits() as i64 + exponent).abs() > 4 * DECIMAL_EXPONENT_MAX {
        return None;
    }
    not_underflown(round(negative, number, BigUint::from(1u8), exponent))
}

/// A number other than zero that the format rounds to zero is none.
fn not_underflown(float: Float) -> Option<Float> {
    if let Float::Finite(Extended { mantissa: 0, .. }) = float { None } else { Some(float) }
}
