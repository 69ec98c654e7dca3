//! All memory is taken at the start: nothing is allocated or freed afterwards.
#![cfg(not(feature = "loom"))]
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use forebay_cache::Inline;

/// The system's allocator; it counts calls of the thread that asks.
struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller keeps to the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller keeps to the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Calls of the allocator while `work` runs.
fn calls(work: impl FnOnce()) -> u64 {
    let before = CALLS.get();
    work();
    CALLS.get() - before
}

#[test]
fn nothing_is_allocated_after_the_start() {
    let cache: Inline<u64, (u64, u64)> = Inline::with_shards(5000, 2).expect("there is memory for 5,000");
    assert!(calls(|| drop(Vec::<u8>::with_capacity(10))) == 2, "calls are counted");
    let requests = if cfg!(miri) { 300 } else { 100_000u64 };
    let work = || {
        for request in 0..requests {
            let key = request.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50;
            match request % 8 {
                0 => drop(cache.remove(key)),
                1 => drop(cache.insert(key, (key, 0))),
                _ => drop(cache.get_or_insert_with(key, || (key, 1))),
            }
        }
        let resized = cache.set_capacity(1000).and_then(|()| cache.set_capacity(5000));
        assert_eq!(resized, Ok(()));
        cache.clear();
    };
    assert_eq!(calls(work), 0);
}
