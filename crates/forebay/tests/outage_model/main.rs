mod check;
mod database;
mod judge;
mod machine;
mod world;

use check::Model;
use forebay::mutation::Fault;
use world::{Client, POISON, Setup};

const A1: Client = Client { name: "one", a: true, b: false, reads_b: false };
const A2: Client = Client { name: "two", a: true, b: false, reads_b: false };
const BOTH: Client = Client { name: "both", a: true, b: true, reads_b: false };
const BAD: Client = Client { name: POISON, a: true, b: false, reads_b: false };
const A3: Client = Client { name: "three", a: true, b: false, reads_b: false };
const B1: Client = Client { name: "hash", a: false, b: true, reads_b: false };
const B2: Client = Client { name: "hash2", a: false, b: true, reads_b: false };
const AREADS: Client = Client { name: "reads", a: true, b: false, reads_b: true };

const BASE: Setup = Setup {
    clients: &[A1, A2],
    joined: false,
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

fn look(name: &str, setup: Setup) {
    if let Ok(want) = std::env::var("CASE") && !name.contains(&want) { return; }
    let began = std::time::Instant::now();
    let found = Model::new(setup).explore();
    eprintln!("{name}: {found} {:?}\n{}", began.elapsed(), found.traces());
}

fn fault(fault: Fault, setup: Setup) {
    if let Ok(want) = std::env::var("CASE") && !format!("{fault:?}").contains(&want) { return; }
    let began = std::time::Instant::now();
    let found = Model::new(setup).without(fault).explore();
    eprintln!("{fault:?}: {found} {:?}\n{}", began.elapsed(), found.traces());
}

const SWIFT: Setup = Setup { swift_disk: true, ..BASE };

#[test]
fn script() {
    use database::Fate::Answered;
    use world::*;
    use Event::*;
    let _on = forebay::mutation::put_back(Some(Fault::AppliedNotNoted));
    let mut world = World::new(Setup { crashes: 1, ..SWIFT });
    for event in [GoesDown, Begin(0), Call(0, Answered), ComesUp, Timer, Call(0, Answered), Begin(1), Call(0, Answered), Crash { written: false }, Restart] {
        eprintln!("{:?}\n{}\n-> {event:?}", world.events(), world.print());
        world.happen(event, machine::Order::First);
    }
    eprintln!("{:?}\n{}\n{:?}", world.events(), world.print(), judge::judge(&world, false));
}

#[test]
fn faults() {
    fault(Fault::QueueTrimmedWhole, Setup { timeouts: 1, ..SWIFT });
    fault(Fault::LaneForgotten, Setup { timeouts: 1, ..SWIFT });
    fault(Fault::LanesIgnored, Setup { clients: &[A1, BOTH, B1], ..SWIFT });
    fault(Fault::WritesOvertakeDrain, Setup { owned: true, ..SWIFT });
    fault(Fault::AppliedNotNoted, Setup { crashes: 1, ..SWIFT });
    fault(Fault::QueueMergedWhole, Setup { unheard: 1, ..SWIFT });
    fault(Fault::DrainedByDocument, Setup { clients: &[A1, B1], joined: true, unheard: 1, ..SWIFT });
}

#[test]
fn probe() {
    look("two, 1 unheard", Setup { unheard: 1, ..BASE });
    look("two, 2 unheard", Setup { unheard: 2, ..BASE });
    look("two, 1 crash", Setup { crashes: 1, ..BASE });
    look("two, 1 unheard, 1 crash", Setup { unheard: 1, crashes: 1, swift_disk: true, ..BASE });
    look("one + both + hash", Setup { clients: &[A1, BOTH, B1], ..BASE });
    look("swift one + both + hash", Setup { clients: &[A1, BOTH, B1], ..SWIFT });
    look("one + both, 1 unheard", Setup { clients: &[A1, BOTH], unheard: 1, swift_disk: true, ..BASE });
    look("poison + one + hash", Setup { clients: &[BAD, A1, B1], swift_disk: true, ..BASE });
    look("poison + both", Setup { clients: &[BAD, BOTH], ..BASE });
    look("poison + both swift", Setup { clients: &[BAD, BOTH], ..SWIFT });
    look("poison crash", Setup { clients: &[BAD, A1], crashes: 1, ..SWIFT });
    look("outside, two hashes", Setup { clients: &[B1, B2], outside: 1, ..BASE });
    look("outside, reads", Setup { clients: &[AREADS, B1], outside: 1, swift_disk: true,  ..BASE });
    look("joined", Setup { clients: &[A1, B1], joined: true, ..BASE });
    look("owned", Setup { clients: &[A1, A2], owned: true, unheard: 1, ..BASE });
    look("owned poison", Setup { clients: &[BAD, A2], owned: true, ..BASE });
    look("merge", Setup { clients: &[A1, A2, A3], merge: true, swift_disk: true, ..BASE });
    look("merge, crash", Setup { clients: &[A1, A2], merge: true, crashes: 1, swift_disk: true, ..BASE });
    look("full", Setup { clients: &[A1, A2], bytes_max: 1000, unheard: 1, ..BASE });
    look("backup", Setup { clients: &[A1, A2], backups: 1, ..BASE });
    look("timeout", Setup { clients: &[A1, A2, A3], timeouts: 1, swift_disk: true, ..BASE });
}
