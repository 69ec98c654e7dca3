//! All interleavings of readers that leave notes and of one that takes them out, with the stale loads that the memory
//! model allows.

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::super::buffers::{Buffers, Full, NOTES_MAX};
use crate::mutation::{Fault, put_back};

#[test]
fn gate() {
    for fault in [Fault::NoteUnpublished, Fault::SharedTakenAlone] {
        put_back(Some(fault));
        let found = std::panic::catch_unwind(|| a_note_comes_out_once([2, 3]));
        put_back(None);
        assert!(found.is_err(), "{fault:?} is not found");
    }
}

/// The first two threads have a buffer to themselves, the others share one.
fn a_note_comes_out_once([first, second]: [usize; 2]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let shared = Arc::new((Buffers::new(1, NOTES_MAX), Mutex::new(Vec::new())));
        let drain = |(buffers, told): &(Buffers<2>, Mutex<Vec<u64>>)| {
            let mut told = told.lock().expect("no panic");
            buffers.drain(|batch| {
                for &[one, two] in batch {
                    assert_eq!(one, two, "the words of a note belong together");
                    told.push(one);
                }
            });
        };
        let left = |number: usize, notes: &'static [u64]| {
            let shared = shared.clone();
            thread::spawn(move || {
                let mut left = Vec::new();
                for &note in notes {
                    if shared.0.push(number, [note; 2]) == Err(Full) {
                        drain(&shared);
                        if shared.0.push(number, [note; 2]) == Err(Full) {
                            continue;
                        }
                    }
                    left.push(note);
                }
                left
            })
        };
        let (one, two) = (left(first, &[1, 2]), left(second, &[11]));
        let mut left = one.join().expect("no panic");
        left.extend(two.join().expect("no panic"));
        drain(&shared);
        let mut told = shared.1.lock().expect("no panic").clone();
        for thread in [0, 10] {
            let of_thread: Vec<u64> = told.iter().copied().filter(|note| note / 10 * 10 == thread).collect();
            assert!(of_thread.is_sorted(), "{told:?}");
        }
        told.sort_unstable();
        left.sort_unstable();
        assert_eq!(told, left);
    });
}

#[test]
fn a_note_comes_out_once_of_a_buffer_of_each_thread() {
    a_note_comes_out_once([0, 1]);
}

#[test]
fn a_note_comes_out_once_of_a_buffer_of_both_threads() {
    a_note_comes_out_once([2, 3]);
}
