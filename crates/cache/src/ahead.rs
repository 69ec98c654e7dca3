//! Memory that is going to be needed is asked for ahead of need.
#![allow(unsafe_code)]

/// Asks for the line of memory in which `place` begins; goes on at once.
#[inline(always)]
pub(crate) fn prefetch<T>(place: &T) {
    prefetch_at(std::ptr::from_ref(place).cast());
}

/// The same of an address, whatever is there.
#[inline(always)]
pub(crate) fn prefetch_at(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program sees and never faults; SSE is part of every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
