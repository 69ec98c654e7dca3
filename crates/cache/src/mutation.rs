//! Faults that tests put back on purpose, one for each rule: models and tests are worth their time only while they find
//! every one of them. The gates are `gate` in `engine/tests` for the table's protocol, and `local/tests/gate.rs`.
//! Outside of tests no fault is ever on, and the compiler drops what asks.

/// A rule left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A writer leaves the sequence even while it is inside a group.
    SequenceStaysEven,
    /// A writer does not order its odd sequence before what it writes.
    WriterFenceMissing,
    /// A reader does not order what it read before its second look at the sequence.
    ReaderFenceMissing,
    /// A reader does not look at the sequence again.
    SecondLookDropped,
    /// A reader takes an odd sequence for a quiet group.
    OddTakenForQuiet,
    /// A writer does not publish what it wrote when it makes the sequence even.
    LeavesUnpublished,
    /// A group is not told of a key that is placed beyond it.
    PassedNotCounted,
    /// A guard reads before its seat is seen.
    PinFenceMissing,
    /// A collector looks at the seats before what it drops is out of sight.
    LookFenceMissing,
    /// A collector drops before it has seen what the guards have read.
    LookUnordered,
    /// A guard's seat is left before what it read was read.
    SeatLeftUnordered,
    /// A thread's next guard hides that the one before was still reading.
    SeatTakenUnordered,
    /// What is retired is dropped whether there are guards or not.
    DroppedUnderGuard,
    /// What is taken out of sight is retired before it is.
    RetiredInSight,
    /// A name is stored before what it names is whole.
    NamedUnpublished,
    /// A segment's halves are named before the entries are in them.
    HalvesNamedEmpty,
    /// A publication marks nothing.
    PublishedUnmarked,
    /// A publication is over before its last install.
    UnmarkedEarly,
    /// A reader may see an entry's generation before it sees that the entry before has gone.
    GenerationUnordered,
    /// What is said of an entry that has left is taken for the next one of its slot.
    GenerationIgnored,
    /// A reader of several keys does not order its first looks before its second ones.
    #[cfg(all(test, feature = "loom"))]
    LooksUnfenced,
    /// The first word of a note is written before the others are seen.
    NoteUnpublished,
    /// Threads that share a buffer of notes take places as if each had it to itself.
    SharedTakenAlone,
    /// A note that waits stands for the next ones like it although one thread leaves all.
    SampledOfOneThread,
    /// Every address is taken for one that does not fit into a word.
    AddressTooWide,
    /// A pinned entry stays in the order of eviction.
    PinnedInOrder,
    /// An entry that is not pinned any more does not come back into the order.
    UnpinLost,
    /// The tags of a value are noted before those of the value that it replaces are taken away.
    TaggedBeforeUntagged,
    /// An entry that comes in while its shard has others of its tag is not noted.
    InsertedUntagged,
    /// What is loaded while a tag is invalidated is stored.
    LoadOutlivesTag,
    /// A snapshot writes an entry's value under the next key.
    ValueUnderAnother,
    /// A block is taken as it is, whatever its checksum says.
    ChecksumIgnored,
}

#[cfg(test)]
pub(crate) use switch::{on, put_back};

/// No fault is ever on.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn on(_: Fault) -> bool {
    false
}

#[cfg(test)]
mod switch {
    use std::cell::Cell;

    use super::Fault;

    thread_local! {
        static PUT_BACK: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    /// Whether `fault` is put back for this thread.
    pub(crate) fn on(fault: Fault) -> bool {
        PUT_BACK.get() == Some(fault)
    }

    /// Puts `fault` back for this thread, and so for the model that it runs; `None` ends it.
    pub(crate) fn put_back(fault: Option<Fault>) {
        PUT_BACK.set(fault);
    }
}
