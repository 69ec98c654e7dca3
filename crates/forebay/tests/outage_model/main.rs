//! The real core, model-checked. It is the gate with its buffer, its drain, its breakers, and its journal on a disk
//! that forgets what was not synced. All are as they are in the program, before a database that the model decides on.
//!
//! The core runs on a runtime without chance (`machine`): tasks run until each of them waits for something. What they
//! wait for happens when the model says so, one event at a time and in every order. A client begins. A call to the
//! database is answered, or done without an answer, or held up and done later. Records reach the disk, or a timer
//! ends. The database goes and comes, or comes back from a backup. Another program writes to it, an operator decides,
//! power is lost. Where tasks are ready at once, the one that is ready longest goes first, and again the other way
//! round. So every order of what happens *outside* of the core is explored. Of what happens inside between two such
//! events two orders are. Other schedules are for the simulation, which draws them.
//!
//! A state is the sequence of events that leads to it. Nothing in the core is copied: to see what follows from a
//! state, the world is built again and lives through them once more. Two states are equal if all that decides what
//! comes next is (`World::print`). A separate test shows that this leaves nothing out; it explores without merging
//! states.
//!
//! * `machine`: the runtime. `database`: what is behind the gate, two documents. `clients`: what writes to them;
//!   `book`: what is known of them. `world`: all of it, the operator included, and the events.
//! * `judge`: what must hold, in every state (a reader looks in each) and at the end.
//! * `check`: the model for stateright.
//!
//! Counts of states are asserted, so that no change explores less unnoticed. Then each rule is left out
//! (`mutation.rs`), and the model has to find out. `FOREBAY_NIGHTLY=1` adds the larger cases, `FOREBAY_LOG=1` prints
//! a shortest trace for each rule left out.

mod book;
mod check;
mod clients;
mod database;
mod judge;
mod machine;
mod world;

use check::Model;
use clients::Client;
use forebay::mutation::Fault;
use judge::Kind;
use world::{POISON, Setup};

const ONE: Client = Client { name: "one", a: true, b: false, reads_b: false, blind: false, remakes: false };
const TWO: Client = Client { name: "two", ..ONE };
const THREE: Client = Client { name: "three", ..ONE };
const BLIND: Client = Client { name: "blind", blind: true, ..ONE };
const BAD: Client = Client { name: POISON, ..ONE };
/// Writes the list, and has read the hash.
const READS: Client = Client { name: "reads", reads_b: true, ..ONE };
/// Over both documents.
const BOTH: Client = Client { name: "both", b: true, ..ONE };
/// To the hash.
const HASH: Client = Client { name: "hash", a: false, b: true, ..ONE };
/// Refused, whose change to the hash may be read.
const BAD_HASH: Client = Client { b: true, ..BAD };
/// Deletes the hash and makes it again.
const REMAKES: Client = Client { name: "remakes", remakes: true, ..HASH };
const HASH_TOO: Client = Client { name: "hash-too", ..HASH };

/// One outage; every record takes its time to reach the disk.
const TWO_WRITERS: Setup = Setup {
    clients: &[ONE, TWO],
    joined: false,
    rows: false,
    owned: false,
    merge: false,
    bytes_max: 1 << 20,
    workers: 2,
    outages: 1,
    unheard: 0,
    crashes: 0,
    outside: 0,
    backups: 0,
    timeouts: 0,
    swift_disk: false,
};
/// The same, and records reach the disk at once.
const SWIFT: Setup = Setup { swift_disk: true, ..TWO_WRITERS };
/// Room for one buffered write.
const NARROW: Setup = Setup { bytes_max: 2290, ..TWO_WRITERS };

/// A row that is deleted and made again beside others' changes of it.
const REMADE: Setup = Setup { clients: &[HASH, REMAKES, HASH_TOO], rows: true, merge: true, ..SWIFT };

struct Case {
    name: &'static str,
    setup: Setup,
    states: usize,
    terminal: usize,
    /// States in which some write has found no room.
    full: usize,
}

const fn case(name: &'static str, setup: Setup, [states, terminal, full]: [usize; 3]) -> Case {
    Case { name, setup, states, terminal, full }
}

const WRITERS: [Case; 6] = [
    case("2 writers", TWO_WRITERS, [187, 14, 0]),
    case("2 writers, 1 unheard", Setup { unheard: 1, ..TWO_WRITERS }, [1_327, 54, 0]),
    case("2 writers, 1 crash", Setup { crashes: 1, ..TWO_WRITERS }, [984, 87, 0]),
    case("2 writers, 1 unheard, 1 crash, swift", Setup { unheard: 1, crashes: 1, ..SWIFT }, [2_556, 207, 0]),
    case("2 writers, 1 unheard, owned", Setup { unheard: 1, owned: true, ..SWIFT }, [519, 28, 0]),
    case(
        "3 writers, 1 waits too long, swift",
        Setup { clients: &[ONE, TWO, THREE], timeouts: 1, ..SWIFT },
        [765, 138, 0],
    ),
];

const TRANSACTIONS: [Case; 5] = [
    case("over both, and one for each, swift", Setup { clients: &[ONE, BOTH, HASH], ..SWIFT }, [1_341, 190, 0]),
    case("over both, 1 unheard, swift", Setup { clients: &[ONE, BOTH], unheard: 1, ..SWIFT }, [575, 54, 0]),
    case("over both, 1 crash, swift", Setup { clients: &[BOTH, HASH], crashes: 1, ..SWIFT }, [498, 74, 0]),
    case("joined, 1 unheard, swift", Setup { clients: &[ONE, HASH], joined: true, unheard: 1, ..SWIFT }, [269, 20, 0]),
    case("reads what another writes, swift", Setup { clients: &[READS, HASH], ..SWIFT }, [93, 14, 0]),
];

const POISONED: [Case; 5] = [
    case("poison, and one over both, swift", Setup { clients: &[BAD, BOTH], ..SWIFT }, [131, 26, 0]),
    case("poison, and one behind, 1 crash, swift", Setup { clients: &[BAD, ONE], crashes: 1, ..SWIFT }, [686, 115, 0]),
    case(
        "poison, and one that waited too long, 1 crash, swift",
        Setup { clients: &[BAD, ONE], timeouts: 1, crashes: 1, ..SWIFT },
        [902, 158, 0],
    ),
    case("poison, 1 crash", Setup { clients: &[BAD], crashes: 1, ..TWO_WRITERS }, [300, 29, 0]),
    case("poison, owned", Setup { clients: &[BAD, ONE], owned: true, ..TWO_WRITERS }, [533, 42, 0]),
];

const OTHERS: [Case; 12] = [
    case("full, 1 unheard", Setup { unheard: 1, ..NARROW }, [1_043, 44, 144]),
    case(
        "full, 3 writers, 2 wait for room, swift",
        Setup { clients: &[ONE, TWO, THREE], timeouts: 2, swift_disk: true, ..NARROW },
        [957, 186, 312],
    ),
    case("another program writes", Setup { clients: &[HASH, HASH_TOO], outside: 1, ..TWO_WRITERS }, [608, 48, 0]),
    case("another program writes what was read", Setup { clients: &[READS, HASH], outside: 1, ..SWIFT }, [360, 58, 0]),
    case(
        "another program writes what was read, 1 crash",
        Setup { clients: &[READS, HASH], outside: 1, crashes: 1, ..SWIFT },
        [1_990, 256, 0],
    ),
    case(
        "poison is read, another program writes",
        Setup { clients: &[BAD_HASH, READS], outside: 1, ..SWIFT },
        [403, 65, 0],
    ),
    case("merged, swift", Setup { clients: &[ONE, TWO, THREE], merge: true, ..SWIFT }, [525, 78, 0]),
    case("merged, 1 crash, swift", Setup { merge: true, crashes: 1, ..SWIFT }, [496, 73, 0]),
    case("a row is deleted and made again, merged, swift", REMADE, [525, 78, 0]),
    case("blind, 1 crash, swift", Setup { clients: &[ONE, BLIND], crashes: 1, ..SWIFT }, [508, 75, 0]),
    case(
        "blind, 1 unheard, 1 crash, swift",
        Setup { clients: &[BLIND], unheard: 1, crashes: 1, ..SWIFT },
        [244, 20, 0],
    ),
    case("back from a backup", Setup { backups: 1, ..TWO_WRITERS }, [598, 52, 0]),
];

/// With FOREBAY_NIGHTLY=1 alone.
const LARGER: [Case; 10] = [
    case("2 writers, 2 unheard", Setup { unheard: 2, ..TWO_WRITERS }, [4_233, 102, 0]),
    case("2 writers, 1 unheard, 1 crash", Setup { unheard: 1, crashes: 1, ..TWO_WRITERS }, [6_410, 279, 0]),
    case("over both, and one for each", Setup { clients: &[ONE, BOTH, HASH], ..TWO_WRITERS }, [5_179, 230, 0]),
    case(
        "over both, 1 unheard, 1 crash, swift",
        Setup { clients: &[ONE, BOTH], unheard: 1, crashes: 1, ..SWIFT },
        [2_584, 212, 0],
    ),
    case("poison, one behind, one beside, swift", Setup { clients: &[BAD, ONE, HASH], ..SWIFT }, [5_006, 810, 0]),
    case("poison, and one over both", Setup { clients: &[BAD, BOTH], ..TWO_WRITERS }, [533, 42, 0]),
    case("poison, and one behind, 1 crash", Setup { clients: &[BAD, ONE], crashes: 1, ..TWO_WRITERS }, [2_947, 232, 0]),
    case(
        "poison, and one behind, 1 unheard, swift",
        Setup { clients: &[BAD, ONE], unheard: 1, ..SWIFT },
        [1_457, 160, 0],
    ),
    case(
        "3 writers, 1 unheard, 1 waits too long, swift",
        Setup { clients: &[ONE, TWO, THREE], unheard: 1, timeouts: 1, ..SWIFT },
        [8_421, 642, 0],
    ),
    case(
        "over both, and one beside, 1 unheard, 1 crash, swift",
        Setup { clients: &[BOTH, HASH], unheard: 1, crashes: 1, ..SWIFT },
        [2_583, 211, 0],
    ),
];

/// What shows that a rule is left out.
const FAULTS: [(Fault, Setup); 22] = [
    (Fault::RoomForgotten, Setup { clients: &[ONE, TWO, THREE], timeouts: 2, swift_disk: true, ..NARROW }),
    (Fault::MergedUntaken, REMADE),
    (Fault::LearnedUnasked, Setup { clients: &[BLIND], unheard: 1, crashes: 1, ..SWIFT }),
    (Fault::QueueTrimmedWhole, Setup { timeouts: 1, ..SWIFT }),
    (Fault::LaneForgotten, Setup { timeouts: 1, ..SWIFT }),
    (Fault::RestoredUnderNewId, Setup { unheard: 1, crashes: 1, ..SWIFT }),
    (Fault::AppliedNotNoted, Setup { crashes: 1, ..SWIFT }),
    (Fault::AmbiguousUnderNewId, Setup { unheard: 1, ..SWIFT }),
    (Fault::AppliedIdsIgnored, Setup { unheard: 1, ..SWIFT }),
    (Fault::WholeDocumentDrained, Setup { clients: &[HASH], outside: 1, ..SWIFT }),
    (Fault::WritesOvertakeDrain, Setup { owned: true, ..SWIFT }),
    (Fault::ReadsUnmerged, SWIFT),
    (Fault::QueueMergedWhole, Setup { unheard: 1, ..SWIFT }),
    (Fault::AcknowledgedBeforeJournal, Setup { crashes: 1, ..TWO_WRITERS }),
    (Fault::PoisonRetried, Setup { clients: &[BAD, HASH], ..SWIFT }),
    (Fault::DroppedWithoutTombstone, Setup { clients: &[BAD], unheard: 1, ..SWIFT }),
    (Fault::RestoredStoreDrained, Setup { backups: 1, ..SWIFT }),
    (Fault::LanesIgnored, Setup { clients: &[ONE, BOTH, HASH], ..SWIFT }),
    (Fault::DrainedByDocument, Setup { clients: &[ONE, HASH], joined: true, ..SWIFT }),
    (Fault::OutcomeWithoutTombstone, Setup { bytes_max: 100, unheard: 1, ..SWIFT }),
    (Fault::PendingReadsUnchecked, Setup { clients: &[READS, HASH], outside: 1, ..SWIFT }),
    (Fault::IdsTrimmedByAge, Setup { clients: &[ONE, HASH], unheard: 1, ..SWIFT }),
];

/// Steps up to which states are explored without being merged, and with FOREBAY_NIGHTLY=1.
const TREE_STEPS: usize = 7;
const TREE_STEPS_NIGHTLY: usize = 10;

/// The table of the cases in the paper's page.
fn document() -> String {
    let mut text = "| case | states | of which nothing can happen any more |\n|---|---|---|\n".to_owned();
    let groups = [(&WRITERS[..], ""), (&TRANSACTIONS, ""), (&POISONED, ""), (&OTHERS, ""), (&LARGER, " (nightly)")];
    for (cases, when) in groups {
        for Case { name, states, terminal, .. } in cases {
            text.push_str(&format!("| {name}{when} | {} | {} |\n", thousands(*states), thousands(*terminal)));
        }
    }
    text
}

/// A number as documents write it: 1,234.
fn thousands(number: usize) -> String {
    match (number / 1_000, number % 1_000) {
        (0, rest) => rest.to_string(),
        (many, rest) => format!("{},{rest:03}", thousands(many)),
    }
}

/// The page has the counts that are asserted here. FOREBAY_UPDATE_DOCS=1 writes it again.
#[test]
fn the_document_is_fresh() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/papers/tardis.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let (start, end) = ("<!-- model: generated -->\n", "<!-- /model -->");
    let (before, rest) = page.split_once(start).expect("a mark");
    let (table, behind) = rest.split_once(end).expect("a mark at its end");
    if std::env::var_os("FOREBAY_UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{start}{}{end}{behind}", document())).expect("written");
    } else {
        assert_eq!(table, document(), "FOREBAY_UPDATE_DOCS=1 cargo test -p forebay --test outage_model fresh");
    }
}

fn nightly() -> bool {
    std::env::var_os("FOREBAY_NIGHTLY").is_some()
}

fn run(cases: &[Case]) {
    let mut wrong = Vec::new();
    for Case { name, setup, states, terminal, full } in cases {
        let found = Model::new(*setup).explore();
        eprintln!("{name}: {found}");
        assert!(found.wrong.is_empty(), "{name}\n{}", found.traces());
        if (found.states, found.terminal, found.full) != (*states, *terminal, *full) {
            wrong.push(format!("{name}: [{}, {}, {}]", found.states, found.terminal, found.full));
        }
    }
    assert!(wrong.is_empty(), "the counts are {wrong:#?}");
}

#[test]
fn writers() {
    run(&WRITERS);
}

#[test]
fn transactions() {
    run(&TRANSACTIONS);
}

#[test]
fn poison() {
    run(&POISONED);
}

#[test]
fn others() {
    run(&OTHERS);
}

#[test]
fn larger_cases() {
    match nightly() {
        true => run(&LARGER),
        false => eprintln!("skipped without FOREBAY_NIGHTLY=1"),
    }
}

#[test]
fn every_rule_left_out_is_noticed() {
    for (fault, setup) in FAULTS {
        let sound = Model::new(setup);
        let found = sound.clone().without(fault).explore();
        eprintln!("{fault:?}: {found}");
        if std::env::var_os("FOREBAY_LOG").is_some() {
            eprintln!("{}", found.traces());
        }
        assert!(!found.wrong.is_empty(), "the model does not notice {fault:?}");
        assert!(!found.wrong.contains_key(&Kind::Panic), "{fault:?} panics\n{}", found.traces());
        let path = found.trace().expect("a violation has a trace");
        assert_eq!(sound.wrong_behind(path), [], "{fault:?} is not what is wrong");
    }
}

/// What is taken for the same state goes on in the same way: whatever can be reached in a few steps is reached when
/// states are merged.
#[test]
fn merging_states_leaves_nothing_out() {
    let setups = [
        Setup { clients: &[ONE], unheard: 1, crashes: 1, ..TWO_WRITERS },
        Setup { clients: &[ONE, TWO], timeouts: 1, ..SWIFT },
    ];
    let steps_max = if nightly() { TREE_STEPS_NIGHTLY } else { TREE_STEPS };
    for setup in setups {
        let (tree, merged) = (Model::new(setup).unmerged(steps_max).explore(), Model::new(setup).explore());
        eprintln!("{tree}, {} of them different; merged: {merged}", tree.prints.len());
        assert!(tree.prints.is_subset(&merged.prints));
        assert!(tree.states > 2 * tree.prints.len(), "hardly any state is reached twice");
    }
}
