//! The process is killed while what was read waits, on a table with a trigger. What the next start finds is judged as
//! it would have been.

use std::panic::{AssertUnwindSafe, catch_unwind};

use forebay::mutation::{self, Fault};
use forebay::value::Data;

use super::cases::{JOURNAL, LOST, READ, SET_OUT, WRITTEN, commit, land, reads, set_aside, world, writes};
use super::{Answer, HASHES, Kind, Step, Way, key};

/// Changes to it merge.
const LIST: usize = HASHES;

/// The first of a batch is applied, and the answer is lost.
const UNHEARD: Step = Step::Land { which: 0, applied: 1, told: 0, answer: Answer::NONE };

fn read() -> Vec<Step> {
    vec![reads(), commit(), JOURNAL]
}

fn others(kind: Kind) -> Step {
    Step::Others { key: READ, kind, seen: false }
}

/// A document that was there before.
fn was_there() -> Vec<Step> {
    let put = Step::Open { reads: Vec::new(), writes: vec![(READ, Kind::Put)], asks: false };
    vec![put, Step::Commit { which: 0, way: Way::Direct, merge: false }]
}

/// What waits is sent by the next start, and the answer to that is lost.
#[test]
fn what_was_read_before_is_right_where_the_answer_is_lost_behind_the_start() {
    for there in [false, true] {
        let before = if there { was_there() } else { Vec::new() };
        let steps = |more: &[Step]| [before.clone(), writes(READ, Kind::Change), read(), more.to_vec()];
        let lost = [Step::Restart, SET_OUT, UNHEARD];
        assert_eq!(set_aside(&steps(&lost), true), 0, "there before: {there}");
        // The answer may be lost by the end itself.
        assert_eq!(set_aside(&steps(&[SET_OUT, UNHEARD, Step::Restart]), true), 0, "there before: {there}");
        // It is read by a later one.
        let later = [vec![Step::Restart], read(), vec![SET_OUT, UNHEARD]].concat();
        assert_eq!(set_aside(&[before.clone(), writes(READ, Kind::Change), later], true), 0, "there before: {there}");
        // Other programs' writes are found as ever.
        for step in [vec![others(Kind::Change), SET_OUT, UNHEARD], vec![SET_OUT, UNHEARD, others(Kind::Change)]] {
            assert_eq!(set_aside(&steps(&[vec![Step::Restart], step].concat()), true), 1, "there before: {there}");
        }
        let _on = mutation::put_back(Some(Fault::ProvenForgotten));
        assert_eq!(set_aside(&steps(&[SET_OUT, UNHEARD, Step::Restart]), true), 1, "there before: {there}");
    }
}

/// Many change a document, and each is read by another. The process is killed twice, and what was sent last has landed.
/// The store does not have the others, so the start takes them for not sent.
#[test]
fn what_was_not_sent_before_the_end_is_right() {
    let told = Step::Open { reads: vec![READ], writes: vec![(READ, Kind::Change)], asks: false };
    let one = [vec![told, commit(), JOURNAL], read()].concat();
    let many = vec![one; 4].concat();
    let sent = vec![Step::Restart, SET_OUT, land(false), SET_OUT, land(false), SET_OUT, UNHEARD, Step::Restart];
    let steps = [was_there(), many, sent];
    assert_eq!(set_aside(&steps, true), 0);
    // Other programs' writes are found as ever.
    assert_ne!(set_aside(&[steps.concat(), vec![others(Kind::Change)]], true), 0);
    let _on = mutation::put_back(Some(Fault::RestoredTakenForSent));
    assert_ne!(set_aside(&steps, true), 0);
}

/// One that is in the store takes no later change in: that would be applied with it under another id.
#[test]
fn what_has_landed_before_the_end_is_not_taken_for_unsent() {
    let pushed = || {
        let landed = vec![SET_OUT, UNHEARD, Step::Restart];
        let mut world = world(&[writes(LIST, Kind::Unseen), landed], false);
        world.resolve_restored();
        world.open(&[], &[(LIST, Kind::Unseen)], false);
        world.commit(usize::MAX, Way::Buffer, true);
        world.journal(usize::MAX, false);
        world.drain();
        match world.database.get(&key(LIST)).value.map(|value| value.data) {
            Some(Data::List(list)) => list.len(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(pushed(), 2);
    let _on = mutation::put_back(Some(Fault::AppliedTakenForUnsent));
    assert_eq!(pushed(), 3, "it is applied twice");
}

/// What was read is applied, and noted; the reader waits yet.
#[test]
fn what_was_read_is_right_where_it_was_applied_before_the_end() {
    let one = [writes(READ, Kind::Change), read(), vec![SET_OUT, land(false), Step::Restart]];
    let two = [writes(READ, Kind::Change), one.concat()];
    // It was not known when it was written.
    let unseen = [writes(READ, Kind::Unseen), read(), vec![Step::Restart]];
    for (steps, name) in [(&one[..], "one"), (&two, "two"), (&unseen, "unseen")] {
        assert_eq!(set_aside(steps, true), 0, "{name}");
        let _on = mutation::put_back(Some(Fault::SettledUnnoted));
        assert_eq!(set_aside(steps, true), 1, "{name}");
    }
}

/// Others have written, what waits is merged with that, and the answer is lost. A start must not take that for what
/// was read.
#[test]
fn what_went_unchecked_before_the_end_is_not_taken_for_checked() {
    let conflict = Step::Land { which: 0, applied: 1, told: 1, answer: Answer::NONE };
    let sent = vec![others(Kind::Change), SET_OUT, conflict, SET_OUT, UNHEARD, Step::Restart];
    for (more, trigger) in [(vec![], false), (vec![], true), (vec![Step::Restart, SET_OUT, UNHEARD], true)] {
        let steps = [was_there(), writes(READ, Kind::Change), read(), sent.clone(), more];
        assert_eq!(set_aside(&steps, trigger), 1);
        let _on = mutation::put_back(Some(Fault::UncheckedUnnoted));
        let goes = || set_aside(&steps, trigger);
        catch_unwind(AssertUnwindSafe(goes)).expect_err("it is applied to what it was not shown");
    }
}

/// What a client sent itself, unheard, was checked as it says.
#[test]
fn what_was_sent_at_once_is_checked_as_it_was() {
    let open = |kind| Step::Open { reads: Vec::new(), writes: vec![(READ, kind)], asks: false };
    for (kind, expected) in [(Kind::Change, 0), (Kind::Put, 0)] {
        let steps = [vec![open(kind), LOST, JOURNAL], read(), vec![Step::Restart]];
        assert_eq!(set_aside(&steps, true), expected, "{kind:?}");
        let steps = [steps.concat(), vec![others(Kind::Change)]];
        assert_eq!(set_aside(&steps, true), 1, "{kind:?}");
    }
    assert!(!world(&[vec![open(Kind::Change), LOST, JOURNAL], read()], true).disturbed);
}

/// What was shown of it was settled before the end, and the row is not there: it has another version each time that it
/// is asked for. Behind the reader waits one that has read what that makes.
#[test]
fn what_was_deleted_before_the_end_is_what_the_next_was_shown() {
    let go = |reads: Vec<usize>, kind| {
        let open = Step::Open { reads, writes: vec![(READ, kind)], asks: false };
        vec![open, commit(), JOURNAL]
    };
    let crashes = Step::Land { which: 0, applied: 1, told: 1, answer: Answer { crashes: true, ..Answer::NONE } };
    let written = [was_there(), go(vec![], Kind::Delete), go(vec![READ], Kind::Change), go(vec![READ], Kind::Change)];
    let steps = [written.concat(), vec![SET_OUT, crashes]];
    assert_eq!(set_aside(&steps, true), 0);
    // Other programs' writes are found as ever.
    let steps = [steps.concat(), vec![others(Kind::Change)]];
    assert_eq!(set_aside(&steps, true), 1);
}

/// It is on its way unchecked when it is read, and the store says that it does not have it yet. Then others write, and
/// it arrives. A start must not take what it was made to for what was read.
#[test]
fn what_becomes_known_on_the_way_is_not_taken_for_checked() {
    let asks = Step::Open { reads: vec![READ], writes: vec![(WRITTEN, Kind::Change)], asks: true };
    let sent = [was_there(), writes(READ, Kind::Unseen), vec![SET_OUT, asks, commit(), JOURNAL]].concat();
    for notes in [0, 1, 2] {
        let full = Step::Full { notes };
        let steps = [vec![full], sent.clone(), vec![others(Kind::Change), UNHEARD, Step::Restart]];
        assert_eq!(set_aside(&steps, true), 1, "without room for {notes}");
    }
    let _on = mutation::put_back(Some(Fault::KnownAsChecked));
    let goes = || set_aside(&[sent.clone(), vec![others(Kind::Change), UNHEARD, Step::Restart]], true);
    catch_unwind(AssertUnwindSafe(goes)).expect_err("it is applied to what it was not shown");
}
