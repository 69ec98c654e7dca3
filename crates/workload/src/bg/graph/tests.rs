use super::*;
use crate::bg::action::ACTIONS;
use crate::bg::data::Scale;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// The lists as plain sets of what was applied, and what is under way.
#[derive(Default)]
struct Naive {
    there: BTreeSet<(Object, u32)>,
    under_way: Vec<Write>,
}

impl Naive {
    /// Whether a write can change something, by what it would do to the sets.
    fn meaningful(&self, write: &Write) -> bool {
        let has = |kind, id, element| self.there.contains(&(Object { kind, id }, element));
        match *write {
            Write::Invite { inviter: a, invitee: b } => {
                a != b && !has(Kind::Friends, a, b) && !has(Kind::Pending, a, b) && !has(Kind::Pending, b, a)
            }
            Write::Accept { inviter, invitee } | Write::Reject { inviter, invitee } => {
                has(Kind::Pending, invitee, inviter)
            }
            Write::Thaw { member, friend } => has(Kind::Friends, member, friend),
            Write::Post { rid, mid, .. } => !has(Kind::Comments, rid, mid),
            Write::Delete { rid, mid, .. } => has(Kind::Comments, rid, mid),
        }
    }

    fn begin(&mut self, write: Write) -> Result<(), String> {
        let touched = |write: &Write| -> BTreeSet<(Object, u32)> {
            write.effects().into_iter().map(|(object, element, _)| (object, element)).collect()
        };
        let alone = self.under_way.iter().all(|other| touched(other).is_disjoint(&touched(&write)));
        match self.meaningful(&write) && alone {
            true => self.under_way.push(write),
            false => return Err(format!("{write:?} changes nothing, or what {:?} change", self.under_way)),
        }
        Ok(())
    }

    fn end(&mut self, write: Write, ended: Ended) -> Result<(), String> {
        for (object, element, added) in write.effects() {
            let changed = match (ended, added) {
                (Ended::Failed, _) => true,
                (Ended::Applied, true) => self.there.insert((object, element)),
                (Ended::Unknown, true) => !self.there.contains(&(object, element)),
                (_, false) => self.there.remove(&(object, element)),
            };
            if !changed {
                return Err(format!("{write:?} changed nothing"));
            }
        }
        Ok(())
    }

    fn elements(&self, object: Object) -> Vec<u32> {
        self.there.iter().filter(|(at, _)| *at == object).map(|(_, element)| *element).collect()
    }
}

fn scale() -> Scale {
    Scale { members: 12, friends: 4, resources: 2, comments: 1, confirmed: 0.5, ..Scale::default() }
}

fn objects() -> Vec<Object> {
    let of_members = |id| [Kind::Friends, Kind::Pending].map(|kind| Object { kind, id });
    let comments = (0..24).map(|id| Object { kind: Kind::Comments, id });
    (0..12).flat_map(of_members).chain(comments).collect()
}

proptest! {
    /// Writes begin and end in any order: each changes something, no two under way concern the same element of a
    /// list, and the lists are what the acknowledged ones make.
    #[test]
    fn is_what_a_naive_model_says(
        steps in prop::collection::vec((5usize..12, 0u32..12, 0u32..12, 0u32..24, 0u8..8), 1..120),
    ) {
        let mut graph = Graph::new(&Data::new(scale()));
        let mut naive = Naive::default();
        for object in objects() {
            naive.there.extend(graph.elements(object).into_iter().map(|element| (object, element)));
        }
        for (action, member, draw, rid, how) in steps {
            if let Some(action) = ACTIONS.get(action) {
                if let Ok(write) = graph.begin(*action, member, draw, rid) {
                    naive.begin(write).map_err(TestCaseError::fail)?;
                }
            } else if !naive.under_way.is_empty() {
                let write = naive.under_way.swap_remove(draw as usize % naive.under_way.len());
                let ended = [Ended::Failed, Ended::Unknown, Ended::Applied][usize::from(how.min(2))];
                graph.end(write, ended);
                naive.end(write, ended).map_err(TestCaseError::fail)?;
            }
            graph.validate().map_err(TestCaseError::fail)?;
            for object in objects() {
                let mut elements = graph.elements(object);
                elements.sort_unstable();
                prop_assert_eq!(elements, naive.elements(object));
            }
        }
    }
}

#[test]
fn is_loaded_with_two_sided_friendships() {
    let data = Data::new(Scale { members: 300, ..scale() });
    let graph = Graph::new(&data);
    graph.validate().expect("sound");
    let links: usize = graph.members.iter().map(|member| member.friends.len() + 2 * member.pending.len()).sum();
    assert_eq!(links, 300 * 4);
    assert_eq!(graph.members.iter().map(|member| member.own.len()).sum::<usize>(), 600);
}

#[test]
fn a_copy_learns_what_another_graph_knows() {
    let data = Data::new(scale());
    let (mut graph, mut copy) = (Graph::new(&data), Graph::new(&data));
    for member in 0..12 {
        for action in &ACTIONS[5..] {
            if let Ok(write) = graph.begin(*action, member, member + 3, member) {
                graph.end(write, Ended::Applied);
            }
        }
    }
    for object in objects() {
        copy.set(&data, object, graph.elements(object));
    }
    copy.validate().expect("sound");
    for object in objects() {
        assert_eq!(copy.elements(object), graph.elements(object));
    }
    // A comment that is gone is not deleted again.
    for member in 0..12 {
        while let Ok(write) = copy.begin(Action::DeleteComment, member, 0, 0) {
            let (object, mid, _) = write.effects()[0];
            assert!(copy.elements(object).contains(&mid));
            copy.end(write, Ended::Applied);
        }
    }
}

#[test]
fn a_doubtful_pair_is_left_alone() {
    let mut graph = Graph::new(&Data::new(Scale { friends: 0, members: 2, ..scale() }));
    let write = graph.begin(Action::InviteFriend, 0, 0, 0).expect("a stranger");
    assert_eq!(graph.begin(Action::InviteFriend, 1, 1, 0), Err(Skipped::Busy));
    graph.end(write, Ended::Unknown);
    assert_eq!(graph.begin(Action::InviteFriend, 0, 0, 0), Err(Skipped::Nothing));
    assert_eq!(graph.begin(Action::AcceptFriend, 1, 0, 0), Err(Skipped::Nothing));
    assert_eq!(graph.doubts().len(), 1);
}
