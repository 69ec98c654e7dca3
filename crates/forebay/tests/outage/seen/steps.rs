//! What happens in a world: clients, the journal, the drain, other programs, operators.

use proptest::prelude::*;

use super::KEYS;

/// What is written to a document.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Adds to what was read, or takes an element if there is one.
    Change,
    /// Replaces what was read.
    Replace,
    /// Replaces it unread.
    Put,
    /// Changes it unread.
    Unseen,
    Delete,
}

/// How a transaction is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Buffer,
    /// At once, if nothing is in its way.
    Direct,
    /// The same, but the store does not answer, and has applied it or not.
    Unanswered {
        applied: bool,
    },
}

/// How the store answers a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answer {
    /// The next is refused.
    pub refuses: bool,
    /// What the documents are of those that it had already can't be read.
    pub unread: bool,
    /// Before the commit at this place, which is in another transaction of the store, others write this document.
    pub between: Option<(usize, usize)>,
    /// The process ends before the journal is told what was applied.
    pub crashes: bool,
    /// Before the answer is heard the store is asked for this document, and what reads it is buffered.
    pub asked: Option<usize>,
}

#[derive(Clone, Debug)]
pub enum Step {
    /// A transaction reads, and decides what to write. Where others may have written the store is `asked` first.
    Open {
        reads: Vec<usize>,
        writes: Vec<(usize, Kind)>,
        asks: bool,
    },
    /// The n-th that is open commits.
    Commit {
        which: usize,
        way: Way,
        merge: bool,
    },
    /// The journal answers for the n-th that it has.
    Journal {
        which: usize,
        fails: bool,
    },
    /// Something sets out.
    SetOut {
        most: usize,
    },
    /// The n-th batch under way lands: so many are applied, and so many of them are told.
    Land {
        which: usize,
        applied: usize,
        told: usize,
        answer: Answer,
    },
    /// The store says what the n-th is compared with, or does not answer.
    Compare {
        which: usize,
        answers: bool,
    },
    /// Another program writes; perhaps it is seen.
    Others {
        key: usize,
        kind: Kind,
        seen: bool,
    },
    /// What the store holds of a document is asked, and told later.
    Ask {
        key: usize,
    },
    Tell {
        which: usize,
    },
    /// The journal has no room for so many notes.
    Full {
        notes: usize,
    },
    SuspectAll,
    Retry {
        which: usize,
    },
    GiveUp {
        which: usize,
    },
    Restart,
}

impl Step {
    /// The transaction that began last commits into the buffer.
    const LAST_COMMITS: Step = Step::Commit { which: usize::MAX, way: Way::Buffer, merge: false };
    /// The journal keeps the one that was committed last.
    const LAST_IS_KEPT: Step = Step::Journal { which: usize::MAX, fails: false };
    /// All of the batch that set out last is applied, and told.
    const ALL_LANDS: Step =
        Step::Land { which: usize::MAX, applied: usize::MAX, told: usize::MAX, answer: Answer::NONE };
}

impl Answer {
    pub const NONE: Answer = Answer { refuses: false, unread: false, between: None, crashes: false, asked: None };
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        4 => Just(Kind::Change),
        1 => Just(Kind::Replace),
        1 => Just(Kind::Put),
        1 => Just(Kind::Unseen),
        1 => Just(Kind::Delete),
    ]
}

fn ways() -> impl Strategy<Value = Way> {
    prop_oneof![
        8 => Just(Way::Buffer),
        2 => Just(Way::Direct),
        1 => any::<bool>().prop_map(|applied| Way::Unanswered { applied }),
    ]
}

fn answers() -> impl Strategy<Value = Answer> {
    let some = prop::bool::weighted(0.15);
    let between = prop::option::weighted(0.2, (1..4usize, 0..KEYS));
    let asked = prop::option::weighted(0.2, 0..KEYS);
    let all = (some, some, between, prop::bool::weighted(0.03), asked);
    all.prop_map(|(refuses, unread, between, crashes, asked)| Answer { refuses, unread, between, crashes, asked })
}

/// Histories over all documents, or over two: their queues are long.
pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop_oneof![steps_of((0..KEYS).collect()), steps_of(vec![0, KEYS - 2])]
}

fn steps_of(keys: Vec<usize>) -> impl Strategy<Value = Vec<Step>> {
    let key = prop::sample::select(keys);
    let reads = prop::collection::btree_set(key.clone(), 0..=2);
    let writes = prop::collection::btree_map(key.clone(), kinds(), 1..=2);
    let open = (reads, writes, any::<bool>()).prop_map(|(reads, writes, asks)| Step::Open {
        // What is read and written is told, unless it is written without a look.
        reads: reads.into_iter().filter(|key| !matches!(writes.get(key), Some(Kind::Put | Kind::Unseen))).collect(),
        writes: writes.into_iter().collect(),
        asks,
    });
    let open = open.boxed();
    let most = 1..5usize;
    // What is wanted in one piece nearly always comes in pieces otherwise.
    let whole = prop_oneof![
        open.clone().prop_map(|open| vec![open, Step::LAST_COMMITS, Step::LAST_IS_KEPT]),
        open.clone().prop_map(|open| vec![open, Step::LAST_COMMITS]),
        most.clone().prop_map(|most| vec![Step::SetOut { most }, Step::ALL_LANDS]),
        Just(vec![Step::SetOut { most: 1 }, Step::ALL_LANDS]),
    ];
    let step = prop_oneof![
        10 => open,
        10 => (0..3usize, ways(), any::<bool>()).prop_map(|(which, way, merge)| Step::Commit { which, way, merge }),
        10 => (0..2usize, prop::bool::weighted(0.1)).prop_map(|(which, fails)| Step::Journal { which, fails }),
        7 => most.prop_map(|most| Step::SetOut { most }),
        7 => (0..3usize, 0..5usize, 0..5usize, answers())
            .prop_map(|(which, applied, told, answer)| Step::Land { which, applied, told, answer }),
        2 => (0..2usize, prop::bool::weighted(0.9)).prop_map(|(which, answers)| Step::Compare { which, answers }),
        2 => (key.clone(), kinds(), any::<bool>()).prop_map(|(key, kind, seen)| Step::Others { key, kind, seen }),
        2 => key.prop_map(|key| Step::Ask { key }),
        2 => (0..2usize).prop_map(|which| Step::Tell { which }),
        1 => (0..3usize).prop_map(|notes| Step::Full { notes }),
        1 => Just(Step::SuspectAll),
        1 => (0..3usize).prop_map(|which| Step::Retry { which }),
        1 => (0..3usize).prop_map(|which| Step::GiveUp { which }),
        1 => Just(Step::Restart),
    ];
    let steps = prop_oneof![step.prop_map(|step| vec![step]), whole];
    prop::collection::vec(steps, 1..40).prop_map(|steps| steps.concat())
}
