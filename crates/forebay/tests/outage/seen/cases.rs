//! What was found once, each as small as it can be.

use std::panic::{AssertUnwindSafe, catch_unwind};

use forebay::mutation::{self, Fault};
use forebay::outage::Standing;
use forebay::outage::pending::Merged;

use super::{Answer, Kind, Step, Way, World, key, run};

pub(super) const READ: usize = 0;
pub(super) const WRITTEN: usize = 2;
const LIST: usize = super::HASHES;

/// A transaction that writes a document, in the journal.
pub(super) fn writes(document: usize, kind: Kind) -> Vec<Step> {
    let open = Step::Open { reads: Vec::new(), writes: vec![(document, kind)], asks: false };
    vec![open, commit(), Step::Journal { which: 0, fails: false }]
}

pub(super) fn reads() -> Step {
    Step::Open { reads: vec![READ], writes: vec![(WRITTEN, Kind::Change)], asks: false }
}

pub(super) fn commit() -> Step {
    Step::Commit { which: 0, way: Way::Buffer, merge: false }
}

pub(super) const JOURNAL: Step = Step::Journal { which: 0, fails: false };
pub(super) const SET_OUT: Step = Step::SetOut { most: 1 };

pub(super) fn land(refuses: bool) -> Step {
    let count = if refuses { 0 } else { 1 };
    let answer = Answer { refuses, ..Answer::default() };
    Step::Land { which: 0, applied: count, told: count, answer }
}

pub(super) fn world(steps: &[Vec<Step>], trigger: bool) -> World {
    let mut world = World::new(trigger, true);
    steps.iter().flatten().for_each(|step| world.step(step));
    world
}

#[test]
fn unchecked_one_is_applied_to_what_others_have_changed() {
    let others = Step::Others { key: READ, kind: Kind::Replace, seen: false };
    let steps = [writes(READ, Kind::Change), vec![reads(), commit(), JOURNAL, others]].concat();
    run(&steps, false, true);
    let _on = mutation::put_back(Some(Fault::PendingReadsUnchecked));
    catch_unwind(AssertUnwindSafe(|| run(&steps, false, true))).expect_err("it is applied to what it was not shown");
}

/// What was read and is written for that is not merged with what others have written since.
#[test]
fn what_is_told_and_written_is_not_written_over_another() {
    let open = Step::Open { reads: vec![READ], writes: vec![(READ, Kind::Change)], asks: false };
    let others = Step::Others { key: READ, kind: Kind::Replace, seen: false };
    let steps = [open, commit(), JOURNAL, others];
    let mut world = world(&[steps.to_vec(), vec![SET_OUT, land(false)]], false);
    assert_eq!(world.buffer.quarantine_list().len(), 1);
    world.drain();
    let _on = mutation::put_back(Some(Fault::ToldMerged));
    catch_unwind(AssertUnwindSafe(|| run(&steps, false, true))).expect_err("it is applied to what it was not shown");
}

/// What is on its way to the journal was computed with what is shown, and the store has made just that.
#[test]
fn what_is_on_its_way_stays_known_where_the_store_makes_what_was_computed() {
    for kind in [Kind::Change, Kind::Replace] {
        let next = Step::Open { reads: Vec::new(), writes: vec![(READ, kind)], asks: false };
        let world = world(&[writes(READ, Kind::Change), vec![SET_OUT, next, commit(), land(false), JOURNAL]], false);
        assert!(matches!(world.buffer.merged(&key(READ)), Merged::Known(_)), "{kind:?}");
    }
}

/// Replaced, it is what is shown, whatever the store has made of what was before.
#[test]
fn what_is_shown_is_not_refused() {
    let next = Step::Open { reads: Vec::new(), writes: vec![(READ, Kind::Put)], asks: false };
    let others = Step::Others { key: READ, kind: Kind::Unseen, seen: true };
    let on_its_way = vec![others, SET_OUT, land(false), next, commit(), SET_OUT, land(false), JOURNAL];
    world(&[writes(READ, Kind::Change), on_its_way, vec![reads(), commit()]], false).drain();
}

/// It can't be in the store under the version that it was shown under: its transaction is run again, not set aside.
#[test]
fn what_the_store_made_otherwise_is_refused_before_it_is_kept() {
    let steps = [writes(READ, Kind::Change), vec![reads(), SET_OUT, land(false), commit()]];
    let mut world = world(&steps, true);
    assert!(world.writing.is_empty(), "it is refused");
    world.drain();
}

#[test]
fn what_a_trigger_adds_to_what_is_put_is_nobodys_change() {
    let mut world = world(&[writes(READ, Kind::Put), vec![reads(), commit(), JOURNAL]], true);
    world.drain();
}

/// What it was shown is in the store, with what the store itself has made of it: nobody has to give it up.
#[test]
fn one_that_is_tried_again_has_read_what_it_had_read() {
    let refused = vec![SET_OUT, land(false), SET_OUT, land(true)];
    let mut world = world(&[writes(READ, Kind::Change), vec![reads(), commit(), JOURNAL], refused], true);
    let number = world.buffer.quarantine_list()[0].0;
    world.retry(0);
    world.set_out(1);
    assert_eq!(world.buffer.standing(number), Some(Standing::Waiting));
    world.land(0, 1, 1, Answer::default());
    assert!(world.buffer.is_empty());
}

/// What others wrote is merged with the first of two that went together; nobody knows what comes of the second, which
/// came back. What has read it without that is not applied, though it commits later.
#[test]
fn what_nobody_knows_is_built_on_nothing() {
    let set_out = Step::SetOut { most: 2 };
    let others = Step::Others { key: READ, kind: Kind::Change, seen: false };
    let in_part = vec![reads(), set_out, others, land(false), commit(), JOURNAL];
    world(&[writes(READ, Kind::Unseen), writes(READ, Kind::Change), in_part], false).drain();
}

/// What a trigger makes of it is nobody's change, also where the store has to be asked whether it has it.
#[test]
fn one_whose_answer_was_lost_is_read_on_a_table_with_a_trigger() {
    for applied in [true, false] {
        let lost = Step::Commit { which: 0, way: Way::Unanswered { applied }, merge: false };
        let open = Step::Open { reads: Vec::new(), writes: vec![(READ, Kind::Change)], asks: false };
        let mut world = world(&[vec![open, lost, JOURNAL, reads(), commit(), JOURNAL]], true);
        assert!(!world.disturbed);
        world.drain();
    }
}

/// Likewise where it was on its way.
#[test]
fn one_that_is_on_its_way_is_read_on_a_table_with_a_trigger() {
    for told in [0, 1] {
        let lands = Step::Land { which: 0, applied: 1, told, answer: Answer::default() };
        let read = vec![SET_OUT, reads(), commit(), JOURNAL, lands];
        let mut world = world(&[writes(READ, Kind::Change), read], true);
        assert!(!world.disturbed);
        world.drain();
    }
}

/// What was read before a restart was computed from what the journal says.
#[test]
fn one_is_read_before_a_restart_on_a_table_with_a_trigger() {
    let next = writes(READ, Kind::Change);
    let read = vec![SET_OUT, land(false), reads(), commit(), JOURNAL, Step::Restart];
    let mut world = world(&[writes(READ, Kind::Change), next, read], true);
    assert!(!world.disturbed);
    world.drain();
}

/// It has landed, and others of ours behind it: a restart does not find that others have overtaken it.
#[test]
fn one_that_has_landed_is_not_overtaken_by_those_behind_it() {
    let behind = writes(READ, Kind::Change);
    let mut world = world(&[writes(READ, Kind::Change), vec![reads(), commit(), JOURNAL], behind], false);
    let (journal, txns) = (world.journal.clone(), world.txns.clone());
    for _ in 0..3 {
        world.set_out(1);
        world.land(0, 1, 1, Answer::default());
    }
    assert!(world.buffer.is_empty(), "all of it has landed");
    // Of which the journal was not told in time.
    (world.journal, world.txns) = (journal, txns);
    world.restart();
    world.drain();
}

/// Where the store can't say what they are now, those that have read them are told to run again, or it is asked.
#[test]
fn what_is_not_told_is_asked_for() {
    let lost = Step::Land { which: 0, applied: 1, told: 0, answer: Answer::default() };
    let untold = Step::Land { which: 0, applied: 1, told: 1, answer: Answer { unread: true, ..Answer::default() } };
    for steps in [vec![reads(), commit(), JOURNAL, SET_OUT, untold.clone()], vec![reads(), SET_OUT, untold, commit()]] {
        let mut world = world(&[writes(READ, Kind::Change), vec![SET_OUT, lost.clone()], steps], false);
        assert!(!world.disturbed);
        world.drain();
    }
}

/// One that is set aside has read what others of ours write behind it: these do not go together with what it has read.
#[test]
fn one_that_is_set_aside_is_overtaken_by_what_goes_past_it() {
    let open = Step::Open { reads: vec![0], writes: vec![(1, Kind::Change)], asks: false };
    let read = [writes(1, Kind::Change), writes(0, Kind::Change), vec![open, commit(), JOURNAL]];
    let refused = vec![SET_OUT, land(true)];
    let past = [writes(0, Kind::Change), vec![Step::SetOut { most: 2 }]].concat();
    world(&[read.concat(), refused, past], false).drain();
}

/// Both had been applied, each by a transaction of its own, and others wrote in between: that the store says the same
/// version of both when it is asked does not mean that nothing came between.
#[test]
fn two_that_were_told_together_were_not_applied_together() {
    let set_out = Step::SetOut { most: 3 };
    let lands = |applied, told| Step::Land { which: 0, applied, told, answer: Answer::default() };
    let others = Step::Others { key: READ, kind: Kind::Change, seen: false };
    let change = || writes(READ, Kind::Change);
    let lost = vec![set_out.clone(), lands(1, 0), others, set_out.clone(), lands(2, 0)];
    let read = vec![reads(), set_out, lands(2, 2), commit(), JOURNAL];
    world(&[change(), change(), change(), lost, read], false).drain();
}

/// It writes more than a mask of what was checked has room for.
#[test]
fn one_of_many_documents_is_read_on_a_table_with_a_trigger() {
    let others = (super::KEYS..super::KEYS + 64).map(|key| (key, Kind::Change));
    let writes = others.chain([(READ, Kind::Change)]).collect();
    let many = Step::Open { reads: Vec::new(), writes, asks: false };
    world(&[vec![many, commit(), JOURNAL, reads(), commit(), JOURNAL]], true).drain();
}

/// Two went together and their answer was lost. A request for the document between what is told of the one and of the
/// other finds what was told, not that others may have come between.
#[test]
fn one_that_is_asked_for_between_two_is_nobodys_change() {
    let lands = |applied, told| Step::Land { which: 0, applied, told, answer: Answer::default() };
    let set_out = Step::SetOut { most: 2 };
    let lost = vec![set_out, lands(2, 0), reads(), commit(), JOURNAL, SET_OUT, lands(1, 1)];
    let asked = writes(READ, Kind::Change);
    let mut world = world(&[writes(READ, Kind::Change), writes(READ, Kind::Unseen), lost, asked], true);
    assert!(!world.disturbed);
    world.drain();
}

/// What is on its way to the journal was computed with what has become wrong since; that what came then is as it was
/// said to be does not make it right.
#[test]
fn what_was_computed_with_what_was_wrong_is_not_shown() {
    let others = Step::Others { key: READ, kind: Kind::Change, seen: false };
    let change = || writes(READ, Kind::Change);
    let next = Step::Open { reads: Vec::new(), writes: vec![(READ, Kind::Change)], asks: false };
    let carried = [SET_OUT, land(false), SET_OUT, land(false), SET_OUT, land(false)].to_vec();
    let on_its_way = [vec![next, commit(), others], carried, vec![JOURNAL]].concat();
    world(&[change(), change(), on_its_way, vec![reads(), commit(), JOURNAL]], false).drain();
}

/// What is before one that the store has already is not told together with what is behind it.
#[test]
fn one_that_the_store_has_parts_what_was_written() {
    let lost = Step::Land { which: 0, applied: 1, told: 0, answer: Answer::default() };
    let open = |reads: &[usize], written| {
        let (reads, writes) = (reads.to_vec(), vec![(written, Kind::Change)]);
        vec![Step::Open { reads, writes, asks: false }, commit()]
    };
    let other = [open(&[], 0), vec![Step::Journal { which: 1, fails: false }, SET_OUT, lost, JOURNAL]].concat();
    let behind = [open(&[1], WRITTEN), vec![JOURNAL], open(&[WRITTEN], 0), vec![JOURNAL]].concat();
    let mut world = world(&[open(&[], WRITTEN), other, behind], true);
    assert!(!world.disturbed);
    world.drain();
}

/// One took what others have changed since, and is to be set aside; others make it as it was again. What is shown
/// behind it was computed from what was there between.
fn taken_and_given_back() -> Vec<Vec<Step>> {
    let take = || Step::Open { reads: Vec::new(), writes: vec![(LIST, Kind::Change)], asks: false };
    let others = || Step::Others { key: LIST, kind: Kind::Change, seen: false };
    let first = vec![SET_OUT, take(), commit(), others(), JOURNAL, land(false)];
    vec![writes(LIST, Kind::Unseen), first, vec![take(), others(), commit(), JOURNAL]]
}

#[test]
fn what_is_as_it_was_read_again_is_not_what_was_between() {
    world(&taken_and_given_back(), false).drain();
}

/// Likewise where the answer is lost, and the store says later that it has it.
#[test]
fn what_was_as_it_was_read_again_and_has_landed_is_not_what_was_between() {
    let again = vec![SET_OUT, Step::Retry { which: 0 }, SET_OUT, Step::Compare { which: 0, answers: true }, SET_OUT];
    let lost = vec![Step::Land { which: 0, applied: 1, told: 0, answer: Answer::default() }];
    world(&[taken_and_given_back(), vec![again, lost]].concat(), false).drain();
}

/// The second was sent with the first, and not checked then; the answers of both are lost, and later that of the second
/// alone. Nobody else has written.
#[test]
fn one_whose_answers_were_lost_twice_is_read_on_a_table_with_a_trigger() {
    let lost = || Step::Land { which: 0, applied: 1, told: 0, answer: Answer::default() };
    let change = || writes(WRITTEN, Kind::Change);
    let open = Step::Open { reads: vec![WRITTEN], writes: vec![(READ, Kind::Change)], asks: false };
    let twice = vec![Step::SetOut { most: 2 }, lost(), SET_OUT, land(false), SET_OUT, lost()];
    let mut world = world(&[change(), change(), vec![open, commit(), JOURNAL], twice], true);
    assert!(!world.disturbed);
    world.drain();
}

/// Applies what it can, on a table with a trigger; how many are set aside, though nobody else wrote.
fn set_aside_behind(kinds: &[Kind]) -> usize {
    let mut steps = Vec::new();
    for (at, kind) in kinds.iter().enumerate() {
        let way = if at == 0 { Way::Unanswered { applied: true } } else { Way::Buffer };
        let open = Step::Open { reads: Vec::new(), writes: vec![(READ, *kind)], asks: true };
        steps.extend([open, Step::Commit { which: 0, way, merge: false }, JOURNAL]);
    }
    let mut world = world(&[steps, vec![reads(), commit(), JOURNAL]], true);
    for _ in 0..=kinds.len() {
        world.set_out(1);
        world.compare(0, true);
        world.land(0, 1, 1, Answer::default());
    }
    world.buffer.quarantine_list().len()
}

/// The store is asked for it when it has applied what is on its way, and before that is heard.
#[test]
fn what_is_asked_for_before_the_answer_is_heard_is_right() {
    for before in 0..3 {
        let asked = Answer { asked: Some(READ), ..Answer::NONE };
        let lands = Step::Land { which: 0, applied: 1, told: 1, answer: asked };
        let put = Step::Open { reads: Vec::new(), writes: vec![(READ, Kind::Put)], asks: false };
        let there = vec![put, Step::Commit { which: 0, way: Way::Direct, merge: false }];
        let waits = (0..=before).map(|_| writes(READ, Kind::Change)).collect::<Vec<_>>().concat();
        let steps = [there, waits, vec![reads(), commit(), JOURNAL, SET_OUT, lands]];
        assert_eq!(set_aside(&steps, true), 0, "before {before} others");
        let others = Step::Others { key: READ, kind: Kind::Change, seen: false };
        assert!(set_aside(&[steps.concat(), vec![others]], true) > 0, "before {before} others");
        let _on = mutation::put_back(Some(Fault::AskedOnTheWayDoubted));
        assert!(set_aside(&steps, true) > 0, "before {before} others");
    }
}

/// Another program changes a document once. Who was shown it before is set aside, and who reads it afterwards is not,
/// though changes of before wait still.
#[test]
fn one_change_of_others_sets_none_aside_that_has_seen_it() {
    let there = vec![
        Step::Open { reads: Vec::new(), writes: vec![(READ, Kind::Put)], asks: false },
        Step::Commit { which: 0, way: Way::Direct, merge: false },
    ];
    let change = || writes(READ, Kind::Change);
    let reader = |written| {
        let open = Step::Open { reads: vec![READ], writes: vec![(written, Kind::Change)], asks: true };
        vec![open, commit(), JOURNAL]
    };
    let others = vec![Step::Others { key: READ, kind: Kind::Change, seen: false }];
    // The first is found to be changed, and merged.
    let merged = vec![SET_OUT, land(false), SET_OUT, land(false)];
    let steps = [there, change(), reader(WRITTEN), change(), change(), others, merged, reader(1), change()];
    assert_eq!(set_aside(&steps, true), 1);
    let _on = mutation::put_back(Some(Fault::OvertakenForgets));
    assert_eq!(set_aside(&steps, true), 2);
}

/// A known limit (docs/guarantees.md): the answer to a change was lost, and another was made unseen behind it. What the
/// trigger made of the two can't be told from what others did, so their reader is set aside. One that was made to a
/// document that was known is told apart.
#[test]
fn what_was_changed_unseen_behind_a_lost_answer_may_set_its_reader_aside() {
    assert_eq!(set_aside_behind(&[Kind::Unseen]), 0);
    assert_eq!(set_aside_behind(&[Kind::Unseen, Kind::Unseen]), 1);
    assert_eq!(set_aside_behind(&[Kind::Change, Kind::Unseen]), 0);
    assert_eq!(set_aside_behind(&[Kind::Change, Kind::Change]), 0);
}

pub(super) const LOST: Step = Step::Commit { which: 0, way: Way::Unanswered { applied: true }, merge: false };

pub(super) fn set_aside(steps: &[Vec<Step>], trigger: bool) -> usize {
    set_aside_of(&mut world(steps, trigger))
}

/// Applies what it can, one by one; how many are set aside, for what others did or for nothing.
fn set_aside_of(world: &mut World) -> usize {
    world.disturbed = true;
    for _ in 0..20 {
        world.set_out(1);
        world.compare(0, true);
        world.land(0, 1, 1, Answer::default());
    }
    world.buffer.quarantine_list().len()
}

/// A document is deleted, the answer is lost, and `others` do something; then it is made again and read.
fn deleted_and_made_again(others: &[Kind]) -> Vec<Vec<Step>> {
    let put = Step::Open { reads: Vec::new(), writes: vec![(READ, Kind::Put)], asks: false };
    let at_once = Step::Commit { which: 0, way: Way::Direct, merge: false };
    let delete = Step::Open { reads: vec![READ], writes: vec![(READ, Kind::Delete)], asks: false };
    let others = others.iter().map(|kind| Step::Others { key: READ, kind: *kind, seen: false });
    let made_again = [writes(READ, Kind::Change), vec![reads(), commit(), JOURNAL], others.collect()].concat();
    vec![vec![put, at_once, delete, LOST, JOURNAL], made_again]
}

/// Nothing is left of which the store could tell who deleted it.
#[test]
fn one_that_was_deleted_and_made_again_is_read_on_a_table_with_a_trigger() {
    assert_eq!(set_aside(&deleted_and_made_again(&[]), true), 0);
    {
        let _on = mutation::put_back(Some(Fault::DeletionDoubted));
        assert_eq!(set_aside(&deleted_and_made_again(&[]), true), 1);
    }
    // What others have deleted again is not there either.
    assert_eq!(set_aside(&deleted_and_made_again(&[Kind::Put, Kind::Delete]), true), 0);
    for trigger in [false, true] {
        assert_eq!(set_aside(&deleted_and_made_again(&[Kind::Put]), trigger), 1);
    }
}

/// The first of two may be in the store already, which is asked about that one alone: the second does not go with it.
#[test]
fn one_behind_a_lost_answer_is_read_while_it_is_on_its_way() {
    for first in [Kind::Change, Kind::Put, Kind::Delete] {
        let open = Step::Open { reads: Vec::new(), writes: vec![(READ, first)], asks: false };
        let read = vec![Step::SetOut { most: 2 }, reads(), commit(), JOURNAL];
        let steps = [vec![open, LOST, JOURNAL], writes(READ, Kind::Change), read];
        let on_its_way = || {
            let mut world = world(&steps, true);
            world.land(0, 2, 2, Answer::default());
            set_aside_of(&mut world)
        };
        assert_eq!(on_its_way(), 0, "{first:?}");
        let _on = mutation::put_back(Some(Fault::SentBehindSent));
        assert_eq!(on_its_way(), 1, "{first:?}");
    }
}

/// Each time it is asked for a row that is not there the store has another version of it.
#[test]
fn one_that_was_not_there_is_read_again_on_a_table_with_a_trigger() {
    let read = [writes(READ, Kind::Change), vec![reads(), commit(), JOURNAL]].concat();
    let again = vec![Step::SuspectAll, Step::Ask { key: READ }, Step::Tell { which: 0 }];
    for steps in [vec![], vec![SET_OUT], vec![Step::SetOut { most: 2 }]] {
        let steps = [read.clone(), steps, again.clone()];
        let on_its_way = || {
            let mut world = world(&steps, true);
            world.land(0, 1, 1, Answer::default());
            set_aside_of(&mut world)
        };
        assert_eq!(on_its_way(), 0);
        let _on = mutation::put_back(Some(Fault::RereadDoubted));
        assert_eq!(on_its_way(), 1);
    }
}

/// Nothing was shown of a row that was deleted before a restart: when it is read while it is made again, what is on its
/// way is made to nothing, too.
#[test]
fn one_that_is_made_again_behind_a_restart_is_read_on_a_table_with_a_trigger() {
    let deleted = [writes(READ, Kind::Delete), writes(READ, Kind::Change), vec![Step::Restart, SET_OUT, land(false)]];
    let behind = [writes(READ, Kind::Unseen), vec![SET_OUT, reads(), commit(), JOURNAL]].concat();
    let mut world = world(&[deleted.concat(), behind], true);
    assert!(!world.disturbed);
    world.drain();
}

/// One that takes another's place is made to what that one was made to, and the journal says so: after a restart a
/// trigger's doing to it is no other program's.
#[test]
fn one_that_took_anothers_place_before_a_restart_is_read_on_a_table_with_a_trigger() {
    // Not of the table whose documents are one lane: there nothing takes another's place.
    const MERGED: usize = WRITTEN;
    let merges = Step::Commit { which: 0, way: Way::Buffer, merge: true };
    let change = Step::Open { reads: Vec::new(), writes: vec![(MERGED, Kind::Change)], asks: false };
    let waits = || writes(MERGED, Kind::Change);
    let stored = [waits(), waits(), vec![SET_OUT, land(false)]].concat();
    let read = Step::Open { reads: vec![MERGED], writes: vec![(READ, Kind::Change)], asks: false };
    let steps = [stored, vec![change, merges, JOURNAL, Step::Restart, read, commit(), JOURNAL]];
    let behind_a_restart = || {
        let mut world = world(&steps, true);
        assert!(!world.disturbed);
        world.drain();
    };
    behind_a_restart();
    let _on = mutation::put_back(Some(Fault::MergedOnNothing));
    catch_unwind(AssertUnwindSafe(behind_a_restart)).expect_err("the reader is set aside");
}
