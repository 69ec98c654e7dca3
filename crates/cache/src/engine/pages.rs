//! Memory for a table, on large pages where the system has them.
//!
//! A table is read at places that have nothing to do with each other. With pages of 4 KiB the processor forgets where a
//! page lies before it is asked for it again. So a large table begins where a page of 2 MiB can, and asks for such.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

/// A page that is large.
const LARGE: usize = 2 << 20;

/// Elements of a fixed count, all made at the start.
pub(super) struct Pages<T> {
    first: NonNull<T>,
    count: usize,
    layout: Layout,
}

/// The memory for a table is not to be had.
pub(super) struct OutOfMemory;

// SAFETY: it owns its elements and gives out shared references to them alone, as a `Box<[T]>` does.
unsafe impl<T: Send> Send for Pages<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Pages<T> {}

impl<T> Pages<T> {
    /// So many elements, each made by `make`.
    pub fn new(count: usize, make: impl Fn() -> T) -> Result<Pages<T>, OutOfMemory> {
        const { assert!(size_of::<T>() > 0) };
        let layout = Layout::array::<T>(count).map_err(|_| OutOfMemory)?;
        let align = if layout.size() >= LARGE { LARGE } else { layout.align() };
        let layout = layout.align_to(align).map_err(|_| OutOfMemory)?;
        if layout.size() == 0 {
            return Ok(Pages { first: NonNull::dangling(), count, layout });
        }
        // SAFETY: the size is not 0.
        let first = NonNull::new(unsafe { alloc(layout) }.cast::<T>()).ok_or(OutOfMemory)?;
        ask_for_large(first.as_ptr().cast(), layout.size());
        // If `make` panics, the memory is freed; elements made until then are forgotten.
        let mut pages = Pages { first, count: 0, layout };
        while pages.count < count {
            // SAFETY: there is room for `count` elements, and this place is below it and not in use yet.
            unsafe { first.as_ptr().add(pages.count).write(make()) };
            pages.count += 1;
        }
        Ok(pages)
    }
}

impl<T> std::ops::Deref for Pages<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `count` elements were made there; there is no mutable reference to them.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl<T> Drop for Pages<T> {
    fn drop(&mut self) {
        // SAFETY: the elements were made, are dropped once, and are not used afterwards.
        unsafe { std::ptr::slice_from_raw_parts_mut(self.first.as_ptr(), self.count).drop_in_place() };
        if self.layout.size() > 0 {
            // SAFETY: this memory was allocated with this layout.
            unsafe { dealloc(self.first.as_ptr().cast(), self.layout) };
        }
    }
}

/// A wish: without large pages, all is as before.
#[cfg(all(target_os = "linux", not(miri)))]
fn ask_for_large(first: *mut u8, bytes: usize) {
    const MADV_HUGEPAGE: i32 = 14;
    unsafe extern "C" {
        fn madvise(first: *mut u8, bytes: usize, advice: i32) -> i32;
    }
    if bytes >= LARGE {
        // SAFETY: whole pages of memory that was just allocated; the advice changes nothing of what is in it.
        let _ = unsafe { madvise(first, bytes / LARGE * LARGE, MADV_HUGEPAGE) };
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn ask_for_large(_: *mut u8, _: usize) {}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn elements_are_made_and_dropped_once() {
        for count in [0, 1, 7, 1000] {
            let made = Rc::new(Cell::new(0));
            let pages = Pages::new(count, || {
                made.set(made.get() + 1);
                made.clone()
            });
            let pages = pages.map_err(|_| "no memory").expect("there is memory for a few");
            assert_eq!((pages.len(), made.get(), Rc::strong_count(&made)), (count, count, count + 1));
            drop(pages);
            assert_eq!(Rc::strong_count(&made), 1);
        }
    }

    #[test]
    fn much_begins_at_a_large_page() {
        let count = if cfg!(miri) { 10 } else { 3 * LARGE / 8 + 1 };
        let pages = Pages::new(count, || 7u64).map_err(|_| "no memory").expect("there are some MiB");
        assert!(pages.iter().all(|&word| word == 7));
        assert!(cfg!(miri) || pages.as_ptr().addr() % LARGE == 0);
    }

    #[test]
    fn what_no_address_can_name_is_refused() {
        assert!(Pages::<u64>::new(usize::MAX, || 0).is_err());
        assert!(Pages::<u64>::new(usize::MAX / 16, || 0).is_err());
    }
}
