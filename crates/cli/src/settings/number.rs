//! Settings that are numbers. Each has a range, which the error names. So no number that can be typed overflows a sum
//! or a clock, or asks for more memory than there is.

use super::form::Form;

const UNITS: [(&str, u64); 5] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// A type of whole numbers that a limit may have.
pub trait Whole: Copy + TryFrom<u64> {
    /// The largest.
    const MOST: u64;

    /// As the widest of them.
    fn wide(self) -> u64;
}

macro_rules! whole {
    ($($type:ty),+) => {
        $(impl Whole for $type {
            const MOST: u64 = <$type>::MAX as u64;

            fn wide(self) -> u64 {
                self as u64
            }
        })+
    };
}

whole!(u32, u64, usize);

/// More than a process can address, so that sums of limits never overflow.
const BYTES_MAX: u64 = 1 << 48;

/// A number of bytes: `512KiB`, `256MiB`, `4GiB`, `65536`. Not less than `LEAST`.
pub struct SizeFrom<const LEAST: u64>;

/// Any number of bytes above zero.
pub type Bytes = SizeFrom<1>;

/// With less, no request of an ordinary client passes.
const REQUEST_BYTES_MIN: u64 = 1 << 10;

/// Bytes of a request, or of a part of one.
pub type RequestBytes = SizeFrom<REQUEST_BYTES_MIN>;

impl<T: Whole, const LEAST: u64> Form<T> for SizeFrom<LEAST> {
    const VALUE: &'static str = "SIZE";

    fn read(text: &str) -> Result<T, String> {
        let most = BYTES_MAX.min(T::MOST);
        let wrong = || {
            let such_as = if most < 4 << 30 { "512KiB or 256MiB" } else { "512KiB, 256MiB or 4GiB" };
            format!("give a size from {} to {}, such as {such_as}", size(LEAST), size(most))
        };
        let (digits, unit) =
            UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes))).unwrap_or((text, 1));
        let number: u64 = digits.trim_end().parse().map_err(|_| wrong())?;
        let bytes = number.checked_mul(unit).filter(|bytes| (LEAST..=most).contains(bytes)).ok_or_else(wrong)?;
        T::try_from(bytes).map_err(|_| wrong())
    }

    fn show(value: &T) -> String {
        size(value.wide())
    }
}

fn size(bytes: u64) -> String {
    let whole = UNITS.iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    whole.map_or_else(|| bytes.to_string(), |(name, unit)| format!("{}{name}", bytes / unit))
}

/// A whole number in a range.
pub struct Within<const LEAST: u64, const MOST: u64>;

/// What is only compared with a count may be as much as any machine has.
const COUNT_MAX: u64 = 1_000_000_000;

/// A longer time than a year is a slip of the finger; added to the clock it never overflows.
const MS_MAX: u64 = 365 * 86_400_000;

/// More connections to a database than this, or batches on their way to it, are a slip of the finger.
const AT_A_TIME_MAX: u64 = 1024;

/// More threads than this are a slip of the finger.
pub const THREADS_MAX: usize = 1024;

/// More partitions than this are of no use to any number of threads.
pub const PARTITIONS_MAX: u64 = 65_536;

/// No command with a fixed number of arguments has as many.
const ARGUMENTS_MIN: u64 = 64;

/// A whole number above zero.
pub type Count = Within<1, COUNT_MAX>;
/// A whole number, zero included.
pub type CountOrZero = Within<0, COUNT_MAX>;
/// A time in ms.
pub type Ms = Within<1, MS_MAX>;
/// A time in ms, or none.
pub type MsOrZero = Within<0, MS_MAX>;
/// What a database is given at a time.
pub type AtATime = Within<1, AT_A_TIME_MAX>;
/// Arguments of a request.
pub type Arguments = Within<ARGUMENTS_MIN, COUNT_MAX>;
/// Parts of the cache.
pub type Partitions = Within<1, PARTITIONS_MAX>;

impl<T: Whole, const LEAST: u64, const MOST: u64> Form<T> for Within<LEAST, MOST> {
    const VALUE: &'static str = "N";

    fn read(text: &str) -> Result<T, String> {
        let most = MOST.min(T::MOST);
        let wrong = || format!("give a whole number from {LEAST} to {most}");
        let number: u64 = text.parse().map_err(|_| wrong())?;
        if !(LEAST..=most).contains(&number) {
            return Err(wrong());
        }
        T::try_from(number).map_err(|_| wrong())
    }

    fn show(value: &T) -> String {
        value.wide().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Result<u64, String> {
        Bytes::read(text)
    }

    #[test]
    fn sizes() {
        assert_eq!(bytes("256MiB"), Ok(256 << 20));
        assert_eq!(bytes("4 GiB"), Ok(4 << 30));
        assert_eq!(bytes("512KiB"), Ok(512 << 10));
        assert_eq!(bytes("77B"), Ok(77));
        assert_eq!(bytes("77"), Ok(77));
        for wrong in
            ["", "MiB", "0", "0MiB", "-1", "1.5GiB", "256MB", "99999999999999999999", "18446744073709551615GiB"]
        {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        let most = "give a size from 1B to 4294967295B, such as 512KiB or 256MiB";
        assert_eq!(<Bytes as Form<u32>>::read("4GiB"), Err(most.into()), "more than fits");
        let least = "give a size from 1KiB to 256TiB, such as 512KiB, 256MiB or 4GiB";
        assert_eq!(<RequestBytes as Form<u64>>::read("1B"), Err(least.into()));
        assert_eq!(<RequestBytes as Form<u64>>::read("1KiB"), Ok(1024));
        for shown in ["1GiB", "1025MiB", "1KiB", "1023B"] {
            assert_eq!(bytes(shown).map(|value| Bytes::show(&value)).as_deref(), Ok(shown));
        }
    }

    #[test]
    fn numbers() {
        assert!(<Count as Form<usize>>::read("0").is_err());
        assert_eq!(<CountOrZero as Form<u32>>::read("0"), Ok(0));
        assert!(<CountOrZero as Form<u32>>::read("4294967296").is_err());
        assert_eq!(<Partitions as Form<usize>>::read("65536"), Ok(65_536));
        let why = "give a whole number from 1 to 65536";
        for wrong in ["0", "-1", "65537", "1000000000000000000000", "1e3", ""] {
            assert_eq!(<Partitions as Form<usize>>::read(wrong), Err(why.into()), "{wrong}");
        }
    }
}
