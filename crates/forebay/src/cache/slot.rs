//! Fetching an entry's memory before it is needed.
//!
//! A look-up follows three references: index, entry, record. In a large cache each is a wait for memory, which is
//! more than half of a cached read's time. One look-up can't be made faster, but those of a pipelined batch do not
//! depend on each other. So the memory of all is asked for first, one reference further in each pass. Then the waits
//! overlap, as in memcached's and Valkey's batched look-ups. It changes nothing but time.
#![allow(unsafe_code)]

use crate::read::record::{Apart, Record};

/// The processor's unit of memory, in bytes.
const LINE_BYTES: usize = 64;

/// Asks for the memory of a record that a hit touches first: a header, a short name and a short value.
#[inline]
pub(super) fn prefetch_record(record: &Record) {
    match record {
        Record::Packed(packed) => prefetch::<3, [u8]>(packed),
        Record::Apart(apart) => prefetch::<1, Apart>(apart),
    }
}

/// Asks for the first lines of `place`, at most `LINES` of them; goes on at once.
#[inline]
pub(super) fn prefetch<const LINES: usize, T: ?Sized>(place: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(place).cast::<i8>();
        for line in 0..size_of_val(place).div_ceil(LINE_BYTES).min(LINES) {
            // Sound: a prefetch reads nothing that the program sees and never faults, whatever the address; this one
            // is within `place` (`wrapping_add` needs no proof of that), and SSE is part of every x86-64.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line * LINE_BYTES)) };
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (place, LINE_BYTES, LINES);
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_size_will_do() {
        super::prefetch::<2, [u8]>(&[]);
        super::prefetch::<2, _>(&0u8);
        super::prefetch::<2, [u8]>(&vec![0; 1000]);
    }
}
