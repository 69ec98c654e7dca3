//! BG: each action is a transaction, on documents as `forebay bench` keeps them.
//!
//! A trace's generator gets no answers, so every write counts as applied when its transaction ends.

use std::collections::HashMap;

use fastrand::Rng;

use super::{Generate, Options, Transaction, TransactionType, Workload, key};
use crate::bg::action::{ACTIONS, Action};
use crate::bg::choose::{Choose, Step};
use crate::bg::{Data, Ended, Graph, Kind, MIXES, Mix, Object, Scale, Write};

const PROFILES: u64 = 1;
const FRIENDS: u64 = 2;
const PENDING: u64 = 3;
const WALLS: u64 = 4;
const RESOURCES: u64 = 5;
const THREADS: u64 = 6;
const COMMENTS: u64 = 7;

/// Resources of a wall that are shown.
const SHOWN: usize = 5;

macro_rules! workloads {
    ($($mix:literal)*) => {
        [$(Workload {
            name: MIXES[$mix].name,
            summary: MIXES[$mix].summary,
            scale_unit: "members",
            defaults: (1_000_000, 10_000),
            types: |_| types(),
            new: |options| Box::new(Bg::new(&MIXES[$mix], options)),
        }),*]
    };
}

/// One for each mix.
pub(super) static ALL: [Workload; MIXES.len()] = workloads!(0 1 2 3 4 5 6 7 8 9 10 11 12);

/// One type for each action, in their order.
fn types() -> Vec<TransactionType> {
    let of = |action: &Action| {
        let (vertices, edges): (&[&str], &[&str]) = match action {
            Action::ViewProfile => (&["profile", "friends", "wall", "pending"], &[]),
            Action::ListFriends => (&["friends", "profiles"], &["friends>profiles"]),
            Action::ViewFriendRequests => (&["pending", "profiles"], &["pending>profiles"]),
            Action::ViewTopResources => (&["wall", "resources"], &["wall>resources"]),
            Action::ViewComments => (&["thread", "comments"], &["thread>comments"]),
            Action::InviteFriend | Action::RejectFriend => (&["w:pending"], &[]),
            Action::AcceptFriend => (&["w:pending", "w:friends", "w:inviter"], &[]),
            Action::ThawFriendship => (&["w:friends", "w:other"], &[]),
            Action::PostComment | Action::DeleteComment => (&["w:thread", "w:comment"], &[]),
        };
        TransactionType::with(action.name(), vertices, edges)
    };
    ACTIONS.iter().map(of).collect()
}

struct Bg {
    data: Data,
    graph: Graph,
    choose: Choose,
    /// Rows of comments that were not there at first.
    posted: HashMap<(u32, u32), u64, foldhash::fast::FixedState>,
}

impl Bg {
    fn new(mix: &'static Mix, options: &Options) -> Bg {
        // An even number of friends, fewer than members.
        let members = u32::try_from(options.scale).unwrap_or(u32::MAX).max(4);
        let friends = Scale::default().friends.min((members - 1) / 2 * 2);
        let mut rng = Rng::with_seed(options.seed);
        let data = Data::new(Scale { members, friends, seed: rng.u64(..), ..Scale::default() });
        let graph = Graph::new(&data);
        Bg { data, graph, choose: Choose::new(mix, rng.u64(..)), posted: HashMap::default() }
    }

    fn list(&self, kind: Kind, id: u32) -> Vec<u32> {
        self.graph.elements(Object { kind, id })
    }

    fn comment(&mut self, rid: u32, mid: u32) -> u64 {
        let scale = self.data.scale();
        if mid < scale.comments {
            return u64::from(rid) * u64::from(scale.comments) + u64::from(mid);
        }
        let loaded = u64::from(scale.members) * u64::from(scale.resources) * u64::from(scale.comments);
        let next = loaded + self.posted.len() as u64;
        *self.posted.entry((rid, mid)).or_insert(next)
    }

    fn read(&mut self, step: &Step, transaction: &mut Transaction) {
        let Step { owner, rid, .. } = *step;
        let row = u64::from(owner);
        match step.action {
            Action::ViewProfile => {
                transaction.read(0, 1, key(PROFILES, row));
                transaction.read(0, 2, key(FRIENDS, row));
                transaction.read(0, 3, key(WALLS, row));
                if step.member == owner {
                    transaction.read(0, 4, key(PENDING, row));
                }
            }
            Action::ListFriends | Action::ViewFriendRequests => {
                let friends = step.action == Action::ListFriends;
                let (table, kind) = if friends { (FRIENDS, Kind::Friends) } else { (PENDING, Kind::Pending) };
                transaction.read(0, 1, key(table, row));
                for member in self.list(kind, owner) {
                    transaction.read(1, 2, key(PROFILES, u64::from(member)));
                }
            }
            Action::ViewTopResources => {
                transaction.read(0, 1, key(WALLS, row));
                for rid in self.data.wall(owner).iter().rev().take(SHOWN) {
                    transaction.read(1, 2, key(RESOURCES, u64::from(*rid)));
                }
            }
            _ => {
                transaction.read(0, 1, key(THREADS, u64::from(rid)));
                for mid in self.list(Kind::Comments, rid) {
                    let row = self.comment(rid, mid);
                    transaction.read(1, 2, key(COMMENTS, row));
                }
            }
        }
    }

    fn write(&mut self, write: &Write, transaction: &mut Transaction) {
        for (vertex, (object, _, _)) in (1..).zip(write.effects()) {
            let table = match object.kind {
                Kind::Friends => FRIENDS,
                Kind::Pending => PENDING,
                Kind::Comments => THREADS,
            };
            transaction.write(0, vertex, key(table, u64::from(object.id)));
        }
        if let Write::Post { rid, mid, .. } | Write::Delete { rid, mid, .. } = *write {
            let row = self.comment(rid, mid);
            transaction.write(0, 2, key(COMMENTS, row));
        }
    }
}

impl Generate for Bg {
    fn next(&mut self, transaction: &mut Transaction) {
        loop {
            let graph = &self.graph;
            let step = self.choose.next(&self.data, |member, draw| graph.friend(member, draw));
            transaction.begin(step.action.number() as u16 + 1);
            if !step.action.writes() {
                return self.read(&step, transaction);
            }
            // What can change nothing is no transaction.
            if let Ok(write) = self.graph.begin(step.action, step.member, step.draw, step.rid) {
                self.write(&write, transaction);
                return self.graph.end(write, Ended::Applied);
            }
        }
    }
}
