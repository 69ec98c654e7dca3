//! What lies in the table itself: keys and values of one or two words each.
//!
//! A reader may meet a slot while it is written. So a slot is atomic words, read one by one with relaxed loads, and the
//! sequence of its group says afterwards whether they belong together (`table.rs`). A type says how it becomes words by
//! arithmetic alone: there are no padding bytes to read, and no bits that are not a value of the type are made into
//! one before that is known.

use crate::sync::{AtomicU64, Ordering};

/// A key or value that lies in the table itself. Keys are equal if their words are: for `f64` that means by bits.
///
/// A newtype is stored like what it wraps:
///
/// ```
/// use forebay_cache::{Inline, Plain};
///
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// struct Spin(i32, i32);
///
/// impl Plain for Spin {
///     type Words = [u64; 1];
///     fn into_words(self) -> [u64; 1] {
///         (self.0, self.1).into_words()
///     }
///     fn from_words(words: [u64; 1]) -> Spin {
///         let (a, b) = Plain::from_words(words);
///         Spin(a, b)
///     }
/// }
///
/// let cache: Inline<Spin, f64> = Inline::new(100)?;
/// cache.insert(Spin(1, -1), 0.5);
/// assert_eq!(cache.get(Spin(1, -1)), Some(0.5));
/// # Ok::<(), forebay_cache::TooLarge>(())
/// ```
pub trait Plain: Copy {
    /// `[u64; 1]` or `[u64; 2]`.
    type Words: Words;

    /// The value as words.
    fn into_words(self) -> Self::Words;

    /// The value whose words these are. It may be asked of words that no value has, and answers anything then.
    fn from_words(words: Self::Words) -> Self;
}

/// One or two words. No type outside of this crate is any.
pub trait Words: Copy + Eq + sealed::Words {}

impl Words for [u64; 1] {}
impl Words for [u64; 2] {}

pub(super) mod sealed {
    use crate::sync::AtomicU64;

    /// How words are kept and hashed.
    pub trait Words {
        /// As many atomic words.
        type Cells: super::Cells<Words = Self> + Send + Sync;

        /// Gives the words to `hasher`.
        fn hash(self, hasher: &mut impl std::hash::Hasher);
    }

    impl Words for [u64; 1] {
        type Cells = [AtomicU64; 1];

        #[inline(always)]
        fn hash(self, hasher: &mut impl std::hash::Hasher) {
            hasher.write_u64(self[0]);
        }
    }

    impl Words for [u64; 2] {
        type Cells = [AtomicU64; 2];

        #[inline(always)]
        fn hash(self, hasher: &mut impl std::hash::Hasher) {
            hasher.write_u64(self[0]);
            hasher.write_u64(self[1]);
        }
    }
}

/// Words that readers may meet while they are written.
pub trait Cells {
    /// What they hold.
    type Words;

    /// All zero.
    fn zero() -> Self;

    /// Word by word; they may not belong together.
    fn load(&self) -> Self::Words;

    /// Word by word.
    fn store(&self, words: Self::Words);
}

impl Cells for [AtomicU64; 1] {
    type Words = [u64; 1];

    fn zero() -> Self {
        [AtomicU64::new(0)]
    }

    #[inline(always)]
    fn load(&self) -> [u64; 1] {
        [self[0].load(Ordering::Relaxed)]
    }

    #[inline(always)]
    fn store(&self, words: [u64; 1]) {
        self[0].store(words[0], Ordering::Relaxed);
    }
}

impl Cells for [AtomicU64; 2] {
    type Words = [u64; 2];

    fn zero() -> Self {
        [AtomicU64::new(0), AtomicU64::new(0)]
    }

    #[inline(always)]
    fn load(&self) -> [u64; 2] {
        [self[0].load(Ordering::Relaxed), self[1].load(Ordering::Relaxed)]
    }

    #[inline(always)]
    fn store(&self, words: [u64; 2]) {
        self[0].store(words[0], Ordering::Relaxed);
        self[1].store(words[1], Ordering::Relaxed);
    }
}

/// A key and its value in the table.
#[repr(C)]
pub(super) struct Slot<K: Plain, V: Plain> {
    pub key: <K::Words as sealed::Words>::Cells,
    pub value: <V::Words as sealed::Words>::Cells,
}

impl<K: Plain, V: Plain> Slot<K, V> {
    pub fn new() -> Slot<K, V> {
        Slot { key: Cells::zero(), value: Cells::zero() }
    }
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Plain for $type {
            type Words = [u64; 1];

            #[inline(always)]
            fn into_words(self) -> [u64; 1] {
                [self as u64]
            }

            #[inline(always)]
            fn from_words(words: [u64; 1]) -> $type {
                words[0] as $type
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

macro_rules! wide {
    ($type:ty, $words:ty, |$value:ident| $into:expr, |$from:ident| $back:expr) => {
        impl Plain for $type {
            type Words = $words;

            #[inline(always)]
            fn into_words(self) -> $words {
                let $value = self;
                $into
            }

            #[inline(always)]
            fn from_words($from: $words) -> $type {
                $back
            }
        }
    };
}

wide!((), [u64; 1], |_value| [0], |_words| ());
wide!(bool, [u64; 1], |value| [u64::from(value)], |words| words[0] != 0);
wide!(char, [u64; 1], |value| [u64::from(value)], |words| char::from_u32(words[0] as u32).unwrap_or_default());
wide!(f32, [u64; 1], |value| [u64::from(value.to_bits())], |words| f32::from_bits(words[0] as u32));
wide!(f64, [u64; 1], |value| [value.to_bits()], |words| f64::from_bits(words[0]));
wide!((u32, u32), [u64; 1], |pair| [u64::from(pair.0) << 32 | u64::from(pair.1)], |words| {
    ((words[0] >> 32) as u32, words[0] as u32)
});
wide!((i32, i32), [u64; 1], |pair| (pair.0 as u32, pair.1 as u32).into_words(), |words| {
    let (a, b) = <(u32, u32)>::from_words(words);
    (a as i32, b as i32)
});
wide!([u8; 8], [u64; 1], |bytes| [u64::from_le_bytes(bytes)], |words| words[0].to_le_bytes());
wide!([u64; 2], [u64; 2], |pair| pair, |words| words);
wide!((u64, u64), [u64; 2], |pair| [pair.0, pair.1], |words| (words[0], words[1]));
wide!(u128, [u64; 2], |value| [value as u64, (value >> 64) as u64], |words| {
    u128::from(words[0]) | u128::from(words[1]) << 64
});
wide!(i128, [u64; 2], |value| (value as u128).into_words(), |words| u128::from_words(words) as i128);
wide!([u8; 16], [u64; 2], |bytes| u128::from_le_bytes(bytes).into_words(), |words| {
    u128::from_words(words).to_le_bytes()
});

#[cfg(test)]
mod tests {
    use super::Plain;

    fn back<T: Plain + PartialEq + std::fmt::Debug>(values: &[T]) {
        for value in values {
            assert_eq!(T::from_words(value.into_words()), *value);
        }
    }

    #[test]
    fn values_come_back() {
        back(&[0u8, 255]);
        back(&[i8::MIN, -1, i8::MAX]);
        back(&[i64::MIN, -1, i64::MAX]);
        back(&[usize::MAX]);
        back(&[()]);
        back(&[true, false]);
        back(&['a', char::MAX]);
        back(&[f32::MIN, 0.5]);
        back(&[f64::INFINITY, -0.0, 1e-300]);
        back(&[(1u32, u32::MAX), (u32::MAX, 0)]);
        back(&[(-1i32, 1), (1, -1), (i32::MIN, i32::MAX)]);
        back(&[[1u8, 2, 3, 4, 5, 6, 7, 8]]);
        back(&[[u64::MAX, 1]]);
        back(&[(1u64, u64::MAX)]);
        back(&[u128::MAX, 1 << 64]);
        back(&[i128::MIN, -1]);
        back(&[[7u8; 16]]);
    }
}
