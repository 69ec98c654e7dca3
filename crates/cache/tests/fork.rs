//! A process that is forked has a copy of the cache, with which it goes on as its parent does with its own. Without a
//! harness, whose threads a child would not have.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use forebay_cache::Cache;

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
}

const KEYS: u64 = 5_000;

/// Runs `child` in a copy of this process and `parent` beside it; whether the child came to its end.
fn forked(child: impl FnOnce(), parent: impl FnOnce()) -> bool {
    // SAFETY: this process has one thread, so the child is a whole copy of it, locks of the allocator included.
    let process = unsafe { fork() };
    assert!(process >= 0, "there is a process left");
    if process == 0 {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
        // SAFETY: it ends the copy, which has nothing that has to be brought to an end.
        unsafe { _exit(i32::from(ended.is_err())) }
    }
    parent();
    let mut status = 0;
    // SAFETY: `process` is a child of this process that nothing else waits for, and `status` is there.
    let ended = unsafe { waitpid(process, &mut status, 0) };
    assert_eq!(ended, process);
    status == 0
}

/// Does all that a program does, and puts in what `mark` says.
fn work(cache: &Cache<u64, u64>, mark: u64) {
    for key in 0..KEYS {
        match key % 5 {
            0 => drop(cache.insert(key, mark)),
            1 => drop(cache.remove(&key)),
            2 => assert!(matches!(cache.get_with(KEYS + key, || mark), Ok(1..=3))),
            3 => drop(cache.insert_tagged(key, mark, &["tag"])),
            _ => drop(cache.get(&key)),
        }
    }
    let bound = cache.capacity();
    assert!(cache.len() <= bound && cache.iter().all(|(_, value)| (1..=3).contains(&value)));
    assert!(cache.invalidate_tag("tag") > 0 && cache.invalidate_tag("tag") == 0);
    assert!(cache.pin(&0) || cache.insert(0, mark));
    cache.insert(7 * KEYS, mark);
    assert_eq!(cache.get(&(7 * KEYS)), Some(mark));
    cache.run_pending();
    (0..2 * KEYS).for_each(|key| _ = cache.insert(10 * KEYS + key, mark));
    assert!(cache.len() <= bound);
}

fn main() {
    static DROPPED: AtomicU64 = AtomicU64::new(0);
    for policy in ["", "lru", "s3-fifo"] {
        let builder = Cache::builder().capacity(KEYS as usize);
        let builder = if policy.is_empty() { builder } else { builder.policy(policy).expect("it is in the table") };
        let cache: Cache<u64, u64> = builder
            .listener(|_: &u64, _: &u64, _| {
                DROPPED.fetch_add(1, Ordering::Relaxed);
            })
            .build();
        (0..KEYS).for_each(|key| _ = cache.insert(key, 1));
        let before = DROPPED.load(Ordering::Relaxed);
        let child = || {
            work(&cache, 2);
            assert!(DROPPED.load(Ordering::Relaxed) > before);
            // A child of a child has a copy as well.
            assert!(forked(|| work(&cache, 1), || work(&cache, 1)));
        };
        assert!(forked(child, || work(&cache, 3)), "the child of a cache by {policy:?} has failed");
        assert!(cache.iter().all(|(_, value)| value != 2), "what the child has put in is the child's");
    }
    println!("fork: parent and child each go on");
}
