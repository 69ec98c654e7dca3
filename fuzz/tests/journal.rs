//! Journals of an outage: valid files that are damaged, and valid frames around any bytes. They open or are refused;
//! what opens can be read, and holds at most what was written.

use forebay::outage::journal::{body_of, file_of};
use forebay::outage::lossy::Lossy;
use forebay::outage::{Description, Journal, JournalOptions, OpenError, Pending, Record};
use forebay::runtime::simulated::Simulation;
use forebay::store::embedded::Durability;
use forebay_fuzz::{Choices, time};

/// Pieces of one input.
const PIECES_MAX: usize = 12;

/// What is pending in a journal of these bytes.
fn pending(bytes: Vec<u8>) -> Result<Vec<Pending>, OpenError> {
    let disk = Lossy::new();
    disk.put("journal", bytes);
    let simulation = Simulation::new(1);
    let description = Description::default();
    let options = JournalOptions { durability: Durability::Always, bytes_max: 1 << 20, description };
    let (journal, found) = Journal::open(simulation.runtime(), disk.handle(), options)?;
    let count = found.pending_count;
    let pending = found.pending.collect::<Result<Vec<_>, _>>().expect("what opens can be read");
    assert_eq!(pending.len() as u64, count);
    assert!(pending.iter().all(|pending| pending.buffered.number < found.next_number));
    drop(journal);
    Ok(pending)
}

#[test]
fn journal() {
    bolero::check!().with_test_time(time()).for_each(|input: &[u8]| {
        let mut choices = Choices(input);
        let mut bodies = Vec::new();
        while choices.any_left() && bodies.len() < PIECES_MAX {
            let kind = choices.byte() % 8;
            let mut body = vec![1, kind];
            body.extend(choices.bytes(300));
            bodies.push(body);
        }
        let mut file = file_of(&bodies.iter().map(Vec::as_slice).collect::<Vec<_>>());
        if let Ok(whole) = pending(file.clone()) {
            for pending in &whole {
                // What was decoded is encoded as it was, or as what it means.
                let body = body_of(&Record::Buffered(pending.buffered.clone()));
                assert_eq!(pending_of(&body), Some(pending.buffered.number));
            }
        }
        let at = choices.word() as usize % file.len();
        file[at] ^= 1 << (choices.byte() % 8);
        let _ = pending(file);
    });
}

/// The number of the one transaction in a journal of `body`.
fn pending_of(body: &[u8]) -> Option<u64> {
    let found = pending(file_of(&[body])).ok()?;
    found.first().map(|pending| pending.buffered.number)
}
