//! Keys and values as bytes, for a snapshot.

use std::sync::Arc;
use std::time::Duration;

/// What a snapshot may hold as a key or a value.
///
/// ```
/// use forebay_cache::Portable;
///
/// #[derive(Debug, PartialEq)]
/// struct Price { cents: u64, currency: String }
///
/// impl Portable for Price {
///     fn form() -> String {
///         "price 1".to_string()
///     }
///
///     fn write(&self, to: &mut Vec<u8>) {
///         self.cents.write(to);
///         self.currency.write(to);
///     }
///
///     fn read(from: &mut &[u8]) -> Option<Price> {
///         Some(Price { cents: u64::read(from)?, currency: String::read(from)? })
///     }
/// }
///
/// let price = Price { cents: 250, currency: "CZK".to_string() };
/// let mut bytes = Vec::new();
/// price.write(&mut bytes);
/// assert_eq!(Price::read(&mut &bytes[..]), Some(price));
/// ```
pub trait Portable: Sized {
    /// Names what `write` writes. It changes with that: a snapshot of another form is refused.
    fn form() -> String;

    /// Adds the value's bytes.
    fn write(&self, to: &mut Vec<u8>);

    /// Takes the bytes that `write` added from the front. `None`: they are none that it adds.
    fn read(from: &mut &[u8]) -> Option<Self>;

    /// Adds many in a row; for types that can do that faster than one by one.
    fn write_all(all: &[Self], to: &mut Vec<u8>) {
        all.iter().for_each(|one| one.write(to));
    }

    /// Takes so many in a row.
    fn read_all(count: usize, from: &mut &[u8]) -> Option<Vec<Self>> {
        // No more room than the bytes can be good for.
        let mut all = Vec::with_capacity(count.min(from.len()));
        for _ in 0..count {
            all.push(Self::read(from)?);
        }
        Some(all)
    }
}

/// Adds a number in as few bytes as it needs, seven bits in each.
pub(super) fn put_number(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

pub(super) fn take_number(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = u8::read(from)?;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn put_count(count: usize, to: &mut Vec<u8>) {
    put_number(count as u64, to);
}

fn take_count(from: &mut &[u8]) -> Option<usize> {
    usize::try_from(take_number(from)?).ok()
}

/// Takes so many bytes from the front.
pub(super) fn take_bytes<'b>(count: usize, from: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (taken, rest) = from.split_at_checked(count)?;
    *from = rest;
    Some(taken)
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Portable for $number {
            fn form() -> String {
                stringify!($number).to_string()
            }

            fn write(&self, to: &mut Vec<u8>) {
                to.extend(self.to_le_bytes());
            }

            fn read(from: &mut &[u8]) -> Option<Self> {
                let bytes = take_bytes(size_of::<Self>(), from)?;
                Some(Self::from_le_bytes(bytes.try_into().ok()?))
            }
        }
    )*};
}

numbers!(u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

impl Portable for u8 {
    fn form() -> String {
        "u8".to_string()
    }

    fn write(&self, to: &mut Vec<u8>) {
        to.push(*self);
    }

    fn read(from: &mut &[u8]) -> Option<u8> {
        let (first, rest) = from.split_first()?;
        *from = rest;
        Some(*first)
    }

    fn write_all(all: &[u8], to: &mut Vec<u8>) {
        to.extend_from_slice(all);
    }

    fn read_all(count: usize, from: &mut &[u8]) -> Option<Vec<u8>> {
        take_bytes(count, from).map(<[u8]>::to_vec)
    }
}

/// What is written as something else.
macro_rules! by {
    ($($type:ty, $form:literal, |$this:ident| $to:expr, |$from:ident: $as:ty| $back:expr;)*) => {$(
        impl Portable for $type {
            fn form() -> String {
                $form.to_string()
            }

            fn write(&self, to: &mut Vec<u8>) {
                let $this = self;
                <$as>::write(&$to, to);
            }

            fn read(from: &mut &[u8]) -> Option<Self> {
                let $from = <$as>::read(from)?;
                $back
            }
        }
    )*};
}

by! {
    usize, "usize", |this| *this as u64, |number: u64| usize::try_from(number).ok();
    isize, "isize", |this| *this as i64, |number: i64| isize::try_from(number).ok();
    bool, "bool", |this| u8::from(*this), |byte: u8| (byte < 2).then_some(byte == 1);
    char, "char", |this| u32::from(*this), |number: u32| char::from_u32(number);
    Duration, "duration", |this| (this.as_secs(), this.subsec_nanos()),
        |parts: (u64, u32)| (parts.1 < 1_000_000_000).then(|| Duration::new(parts.0, parts.1));
}

/// Texts of all types.
macro_rules! texts {
    ($($text:ty),*) => {$(
        impl Portable for $text {
            fn form() -> String {
                "text".to_string()
            }

            fn write(&self, to: &mut Vec<u8>) {
                put_count(self.len(), to);
                to.extend_from_slice(self.as_bytes());
            }

            fn read(from: &mut &[u8]) -> Option<Self> {
                let count = take_count(from)?;
                Some(std::str::from_utf8(take_bytes(count, from)?).ok()?.into())
            }
        }
    )*};
}

texts!(String, Box<str>, Arc<str>);

/// Lists of all types.
macro_rules! lists {
    ($($list:ty),*) => {$(
        impl<T: Portable> Portable for $list {
            fn form() -> String {
                format!("[{}]", T::form())
            }

            fn write(&self, to: &mut Vec<u8>) {
                put_count(self.len(), to);
                T::write_all(self, to);
            }

            fn read(from: &mut &[u8]) -> Option<Self> {
                let count = take_count(from)?;
                Some(T::read_all(count, from)?.into())
            }
        }
    )*};
}

lists!(Vec<T>, Box<[T]>, Arc<[T]>);

/// What is another thing and nothing more.
macro_rules! boxes {
    ($($of:ident),*) => {$(
        impl<T: Portable> Portable for $of<T> {
            fn form() -> String {
                T::form()
            }

            fn write(&self, to: &mut Vec<u8>) {
                T::write(self, to);
            }

            fn read(from: &mut &[u8]) -> Option<Self> {
                T::read(from).map($of::new)
            }
        }
    )*};
}

boxes!(Box, Arc);

impl<T: Portable> Portable for Option<T> {
    fn form() -> String {
        format!("option {}", T::form())
    }

    fn write(&self, to: &mut Vec<u8>) {
        self.is_some().write(to);
        self.iter().for_each(|some| some.write(to));
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        if bool::read(from)? { T::read(from).map(Some) } else { Some(None) }
    }
}

impl<T: Portable, const N: usize> Portable for [T; N] {
    fn form() -> String {
        format!("[{}; {N}]", T::form())
    }

    fn write(&self, to: &mut Vec<u8>) {
        T::write_all(self, to);
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        T::read_all(N, from)?.try_into().ok()
    }
}

macro_rules! tuples {
    ($(($($part:ident),*))*) => {$(
        impl<$($part: Portable),*> Portable for ($($part,)*) {
            fn form() -> String {
                let parts: &[String] = &[$($part::form()),*];
                format!("({})", parts.join(", "))
            }

            #[expect(non_snake_case, reason = "a part is named as its type")]
            fn write(&self, _to: &mut Vec<u8>) {
                let ($($part,)*) = self;
                $($part.write(_to);)*
            }

            fn read(_from: &mut &[u8]) -> Option<Self> {
                Some(($($part::read(_from)?,)*))
            }
        }
    )*};
}

tuples! { (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F) }

impl Portable for () {
    fn form() -> String {
        "()".to_string()
    }

    fn write(&self, _: &mut Vec<u8>) {}

    fn read(_: &mut &[u8]) -> Option<()> {
        Some(())
    }

    fn read_all(count: usize, _: &mut &[u8]) -> Option<Vec<()>> {
        Some(vec![(); count])
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn there_and_back<T: Portable + PartialEq + std::fmt::Debug>(value: T) {
        let mut bytes = Vec::new();
        value.write(&mut bytes);
        let mut from = &bytes[..];
        assert_eq!(T::read(&mut from).as_ref(), Some(&value));
        assert!(from.is_empty(), "all of it is taken");
        for cut in 0..bytes.len() {
            assert!(T::read(&mut &bytes[..cut]).is_none_or(|less| less != value), "{cut} of {} bytes", bytes.len());
        }
    }

    type All = (Vec<u8>, String, Option<i64>, [u16; 3], Box<[(bool, char)]>, Arc<Duration>);

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 5 } else { 200 }, ..ProptestConfig::default() })]

        #[test]
        fn what_is_written_is_read(
            bytes: Vec<u8>, text: String, number: Option<i64>, three: [u16; 3], pairs: Vec<(bool, char)>, nanos: u64,
            number_of_any_size in (any::<u64>(), 0..64u32).prop_map(|(number, shift)| number >> shift),
        ) {
            let time = Arc::new(Duration::from_nanos(nanos));
            there_and_back::<All>((bytes, text, number, three, pairs.into(), time));
            let mut bytes = Vec::new();
            put_number(number_of_any_size, &mut bytes);
            prop_assert_eq!(take_number(&mut &bytes[..]), Some(number_of_any_size));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = <All>::read(&mut &bytes[..]);
            let _ = <Vec<Vec<()>>>::form();
            let _ = take_number(&mut &bytes[..]);
        }
    }

    #[test]
    fn forms_tell_types_apart() {
        assert_eq!(<(Vec<u8>, Option<String>)>::form(), "([u8], option text)");
        assert_eq!((<[u8; 4]>::form(), <()>::form(), <(u8,)>::form()), ("[u8; 4]".into(), "()".into(), "(u8)".into()));
        there_and_back((1u128, -1i8, 0.5f32, usize::MAX, isize::MIN, ()));
        assert_eq!(bool::read(&mut &[2u8][..]), None);
        assert_eq!(take_number(&mut &[0xff; 11][..]), None, "more than 64 bits");
    }
}
