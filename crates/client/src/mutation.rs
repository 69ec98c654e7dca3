//! Faults that tests put back on purpose, one for each rule. Tests are worth their time only while they find each of
//! them: `gate` at the foot of `lib.rs`, and in `tests/client.rs`. Without the feature `testing` no fault is ever on.
//! The compiler then drops what asks.

/// A rule left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Copies are taken for those of one moment whatever their versions.
    MomentsMixed,
    /// Versions of several lives of a server are compared.
    IncarnationsMixed,
    /// A session may show what is older than its last commit.
    FloorIgnored,
    /// A commit that writes does not raise its session's floor.
    OwnCommitForgotten,
    /// A transaction that only reads does not raise it.
    ReadOnlyForgotten,
    /// A bounded transaction may show what is older.
    BoundIgnored,
    /// An answer replaces what is known whenever it comes.
    LateAnswerKept,
    /// A lease counts from the answer.
    LeaseFromAnswer,
    /// The life of a document with an expiry counts from the answer.
    LifeFromAnswer,
    /// Copies of a server's former life serve on.
    LeaseOverIncarnation,
    /// A copy that was found stale serves on.
    StaleServesOn,
    /// Whatever is kept of a key is renewed by a check of another version.
    RenewedUnchecked,
    /// A copy that a request has named, and that has changed, is taken for current as of the answer.
    ChangedTakenForSame,
    /// What was found current by one request, and what was fetched by another, are taken for what was there together.
    ValidatedInParts,
    /// A transaction whose reads were found stale is taken for committed.
    StaleTakenForDone,
    /// A commit whose answer was lost is done again.
    LostCommitRepeated,
    /// All commits have one id.
    IdReused,
    /// A body's error is given back although what it has read was not there at one moment.
    ErrorUnchecked,
    /// A request of before the moment from which copies may be used is waited for.
    FlightOfBefore,
    /// What another one's request has brought is used although it has expired.
    FlightOutlived,
    /// A key that was read twice is what it is the second time.
    ReadTwice,
}

#[cfg(feature = "testing")]
mod switch {
    use std::cell::Cell;

    use super::Fault;

    thread_local! {
        static PUT_BACK: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    /// Whether this thread has `fault` put back.
    pub fn on(fault: Fault) -> bool {
        PUT_BACK.get() == Some(fault)
    }

    /// Puts `fault` back for this thread, or with `None` none.
    pub fn put_back(fault: Option<Fault>) {
        PUT_BACK.set(fault);
    }

    /// Runs each of `gate` in a thread of its fault: the test has to fail. Names those that pass.
    pub fn missed(gate: &[(Fault, fn())]) -> Vec<Fault> {
        let passes = |(fault, test): &&(Fault, fn())| {
            let (fault, test) = (*fault, *test);
            let run = move || {
                put_back(Some(fault));
                test();
            };
            let thread = std::thread::Builder::new().name(format!("{fault:?}")).spawn(run);
            thread.is_ok_and(|thread| thread.join().is_ok())
        };
        gate.iter().filter(passes).map(|(fault, _)| *fault).collect()
    }
}

#[cfg(feature = "testing")]
pub use switch::{missed, on, put_back};

/// No fault is ever on.
#[cfg(not(feature = "testing"))]
#[inline(always)]
pub const fn on(_: Fault) -> bool {
    false
}
