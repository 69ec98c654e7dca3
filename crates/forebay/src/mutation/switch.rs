//! Which fault is put back, by thread.

use std::cell::Cell;

use super::Fault;

thread_local! {
    static PUT_BACK: Cell<Option<Fault>> = const { Cell::new(None) };
    static MEANWHILE: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
    static LOCKED: Cell<u64> = const { Cell::new(0) };
    static OTHERS: Cell<Option<Box<dyn Fn()>>> = const { Cell::new(None) };
}

/// Whether `fault` is put back for this thread.
pub fn on(fault: Fault) -> bool {
    PUT_BACK.get() == Some(fault)
}

/// Puts `fault` back for this thread, and so for the simulation that it runs, until the answer is dropped.
pub fn put_back(fault: Option<Fault>) -> PutBack {
    PutBack(PUT_BACK.replace(fault))
}

/// Has `work` done when this thread next comes between two steps whose order matters ([`meanwhile`]), once.
pub fn do_meanwhile(work: impl FnOnce() + 'static) {
    MEANWHILE.set(Some(Box::new(work)));
}

/// Stands between two steps whose order matters: what a test wants to happen there happens now.
pub fn meanwhile() {
    if let Some(work) = MEANWHILE.take() {
        work();
    }
}

/// This thread takes the lock of a partition, or tries to.
pub fn locked() {
    LOCKED.set(LOCKED.get() + 1);
}

/// How often it did, ever.
pub fn times_locked() -> u64 {
    LOCKED.get()
}

/// Has `work` done whenever this thread comes to a place where other threads could come between; `None`: no more.
pub fn interleave_with(work: Option<Box<dyn Fn()>>) {
    OTHERS.set(work);
}

/// Other threads may come in between here: where there is one thread only, as in a simulation, its other tasks do.
/// No lock is held.
pub fn interleave() {
    // Taken out while it is at work: it does not come in between itself.
    if let Some(work) = OTHERS.take() {
        work();
        OTHERS.set(Some(work));
    }
}

/// Ends a fault; the one before it, if there was one, is on again.
#[must_use]
pub struct PutBack(Option<Fault>);

impl Drop for PutBack {
    fn drop(&mut self) {
        PUT_BACK.set(self.0);
    }
}
