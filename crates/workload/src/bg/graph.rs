//! The expected graph: what a generator knows of the network from the writes that it made itself.
//!
//! It is there so that writes change something: only a pending invitation is answered, only a friendship ended. A
//! member does one writing action at a time, and whom it invites or leaves takes part in none (BG's active flags). So
//! two writes never concern one pair, and each has one outcome whatever their order. Where nothing is eligible the
//! write is skipped.
//!
//! A write of unknown outcome leaves a *doubt*: its pair is not written again, and reads of it are not judged.

use std::collections::{HashMap, HashSet};

use super::action::Action;
use super::data::Data;
use super::judge::{Kind, Object, Update};

/// Members looked at for one that can be invited.
const INVITE_TRIES_MAX: u32 = 1000;

/// A writing action that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// `inviter` asks `invitee`.
    Invite {
        /// Who asks.
        inviter: u32,
        /// Who is asked.
        invitee: u32,
    },
    /// `invitee` says yes.
    Accept {
        /// Who has asked.
        inviter: u32,
        /// Who says so.
        invitee: u32,
    },
    /// `invitee` says no.
    Reject {
        /// Who has asked.
        inviter: u32,
        /// Who says so.
        invitee: u32,
    },
    /// `member` leaves `friend`.
    Thaw {
        /// Who leaves.
        member: u32,
        /// Who is left.
        friend: u32,
    },
    /// `author` comments on a resource.
    Post {
        /// Who comments.
        author: u32,
        /// The resource.
        rid: u32,
        /// The comment's number, which no other on the resource has had.
        mid: u32,
    },
    /// `author` takes a comment back.
    Delete {
        /// Who has written it.
        author: u32,
        /// The resource.
        rid: u32,
        /// The comment's number.
        mid: u32,
    },
}

/// How a writing action ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was acknowledged.
    Applied,
    /// It surely had no effect.
    Failed,
    /// Nobody knows.
    Unknown,
}

/// Why a writing action was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// The member, or who it would concern, is in the middle of another one.
    Busy,
    /// There is nothing that it could change.
    Nothing,
}

#[derive(Clone, Debug, Default)]
struct Member {
    active: bool,
    friends: Vec<u32>,
    /// Who waits for an answer, oldest first.
    pending: Vec<u32>,
    /// Its comments: resource and number.
    own: Vec<(u32, u32)>,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    next: u32,
    mids: Vec<u32>,
}

/// The network as it has to be. A copy of it is what reads of a later time are judged by.
#[derive(Clone, Debug)]
pub struct Graph {
    members: Vec<Member>,
    /// Comments of the resources that have been commented since the load.
    threads: HashMap<u32, Thread, foldhash::fast::FixedState>,
    comments: u32,
    doubtful: HashSet<(u32, u32), foldhash::fast::FixedState>,
    doubts: Vec<Update>,
}

impl Write {
    /// What it changes: lists, whose element, and whether it is added.
    pub fn effects(&self) -> Vec<(Object, u32, bool)> {
        let (friends, pending) = (|id| Object { kind: Kind::Friends, id }, |id| Object { kind: Kind::Pending, id });
        let comments = |id| Object { kind: Kind::Comments, id };
        match *self {
            Write::Invite { inviter, invitee } => vec![(pending(invitee), inviter, true)],
            Write::Accept { inviter, invitee } => vec![
                (pending(invitee), inviter, false),
                (friends(invitee), inviter, true),
                (friends(inviter), invitee, true),
            ],
            Write::Reject { inviter, invitee } => vec![(pending(invitee), inviter, false)],
            Write::Thaw { member, friend } => vec![(friends(member), friend, false), (friends(friend), member, false)],
            Write::Post { rid, mid, .. } => vec![(comments(rid), mid, true)],
            Write::Delete { rid, mid, .. } => vec![(comments(rid), mid, false)],
        }
    }

    /// Whose flags it holds: the member that acts, and the one who must not act during that.
    fn members(&self) -> (u32, Option<u32>) {
        match *self {
            Write::Invite { inviter, invitee } => (inviter, Some(invitee)),
            Write::Thaw { member, friend } => (member, Some(friend)),
            // The inviter may act: no action of its own can concern this pair before it is answered.
            Write::Accept { invitee, .. } | Write::Reject { invitee, .. } => (invitee, None),
            Write::Post { author, .. } | Write::Delete { author, .. } => (author, None),
        }
    }
}

impl Graph {
    /// The network as it is loaded.
    pub fn new(data: &Data) -> Graph {
        let scale = data.scale();
        let mut members = vec![Member::default(); scale.members as usize];
        for member in 0..scale.members {
            for (other, confirmed) in data.links(member) {
                match confirmed {
                    true => {
                        members[member as usize].friends.push(other);
                        members[other as usize].friends.push(member);
                    }
                    false => members[other as usize].pending.push(member),
                }
            }
        }
        for rid in 0..scale.members * scale.resources {
            for mid in 0..scale.comments {
                members[data.author_of(rid, mid) as usize].own.push((rid, mid));
            }
        }
        Graph {
            members,
            threads: HashMap::default(),
            comments: scale.comments,
            doubtful: HashSet::default(),
            doubts: Vec::new(),
        }
    }

    /// Takes in what a list holds, as somebody has found it. Of comments that were not there at first nobody here is
    /// the author, so they are never deleted.
    pub fn set(&mut self, data: &Data, object: Object, elements: Vec<u32>) {
        if object.kind != Kind::Comments {
            *self.list(object) = elements;
            return;
        }
        let rid = object.id;
        for mid in (0..self.comments).filter(|mid| !elements.contains(mid)) {
            self.members[data.author_of(rid, mid) as usize].own.retain(|own| *own != (rid, mid));
        }
        let next = elements.iter().max().map_or(self.comments, |mid| self.comments.max(mid + 1));
        if !elements.iter().copied().eq(0..self.comments) {
            self.threads.insert(rid, Thread { next, mids: elements });
        }
    }

    /// What a list has to hold, but for [`Graph::doubts`].
    pub fn elements(&self, object: Object) -> Vec<u32> {
        let member = || self.members.get(object.id as usize);
        match object.kind {
            Kind::Friends => member().map_or_else(Vec::new, |member| member.friends.clone()),
            Kind::Pending => member().map_or_else(Vec::new, |member| member.pending.clone()),
            Kind::Comments => match self.threads.get(&object.id) {
                Some(thread) => thread.mids.clone(),
                None => (0..self.comments).collect(),
            },
        }
    }

    /// A friend of a member, the `draw`-th of them, from the first again after the last.
    pub fn friend(&self, member: u32, draw: u32) -> Option<u32> {
        let friends = &self.members.get(member as usize)?.friends;
        friends.get((draw as usize).checked_rem(friends.len())?).copied()
    }

    /// Writes of unknown outcome, as changes under way since ever.
    pub fn doubts(&self) -> &[Update] {
        &self.doubts
    }

    /// Begins a writing action of `member`. `draw` is another member: the first who is tried for an invitation, whose
    /// draw chooses a comment of one's own; `rid` the resource for a comment.
    pub fn begin(&mut self, action: Action, member: u32, draw: u32, rid: u32) -> Result<Write, Skipped> {
        if self.member(member).active {
            return Err(Skipped::Busy);
        }
        let write = match action {
            Action::InviteFriend => {
                let invitee = self.stranger(member, draw).ok_or(Skipped::Nothing)?;
                Write::Invite { inviter: member, invitee }
            }
            Action::AcceptFriend | Action::RejectFriend => {
                let inviter = *self.member(member).pending.last().ok_or(Skipped::Nothing)?;
                match action {
                    Action::AcceptFriend => Write::Accept { inviter, invitee: member },
                    _ => Write::Reject { inviter, invitee: member },
                }
            }
            Action::ThawFriendship => {
                let friend = *self.member(member).friends.first().ok_or(Skipped::Nothing)?;
                Write::Thaw { member, friend }
            }
            Action::PostComment => {
                let thread = self.thread(rid);
                let mid = thread.next;
                thread.next += 1;
                Write::Post { author: member, rid, mid }
            }
            Action::DeleteComment => {
                let own = &self.member(member).own;
                let at = (draw as usize).checked_rem(own.len()).ok_or(Skipped::Nothing)?;
                let (rid, mid) = own[at];
                Write::Delete { author: member, rid, mid }
            }
            _ => return Err(Skipped::Nothing),
        };
        let (actor, other) = write.members();
        if other.is_some_and(|other| self.member(other).active) {
            return Err(Skipped::Busy);
        }
        self.set_active(actor, other, true);
        Ok(write)
    }

    /// Notes how an action ended that [`Graph::begin`] began.
    pub fn end(&mut self, write: Write, ended: Ended) {
        let (actor, other) = write.members();
        self.set_active(actor, other, false);
        if ended == Ended::Failed {
            return;
        }
        for (object, element, added) in write.effects() {
            let list = self.list(object);
            match added && ended == Ended::Applied {
                true => list.push(element),
                false => list.retain(|there| *there != element),
            }
            if ended == Ended::Unknown {
                self.doubts.push(Update { object, element, added: true, start_ns: 0, end_ns: u64::MAX });
            }
        }
        match write {
            Write::Post { author, rid, mid } if ended == Ended::Applied => {
                self.members[author as usize].own.push((rid, mid));
            }
            Write::Delete { author, rid, mid } => self.members[author as usize].own.retain(|own| *own != (rid, mid)),
            Write::Post { .. } => {}
            Write::Invite { inviter: one, invitee: other }
            | Write::Accept { inviter: one, invitee: other }
            | Write::Reject { inviter: one, invitee: other }
            | Write::Thaw { member: one, friend: other } => {
                if ended == Ended::Unknown {
                    self.doubtful.insert((one.min(other), one.max(other)));
                }
            }
        }
    }

    /// What must hold between actions: friendships have two sides, nobody invites a friend or who waits for its answer,
    /// and no doubtful pair is in a list. A description of what does not.
    pub fn validate(&self) -> Result<(), String> {
        for (id, member) in (0..).zip(&self.members) {
            let mut related = HashSet::new();
            for other in member.friends.iter().chain(&member.pending) {
                if *other == id || !related.insert(*other) || self.doubtful.contains(&(id.min(*other), id.max(*other)))
                {
                    return Err(format!("{id} is related to {other} twice, to itself, or in doubt"));
                }
            }
            for friend in &member.friends {
                if !self.members[*friend as usize].friends.contains(&id) {
                    return Err(format!("{friend} is a friend of {id}, but not the other way round"));
                }
            }
            for inviter in &member.pending {
                let inviter = &self.members[*inviter as usize];
                if inviter.friends.contains(&id) || inviter.pending.contains(&id) {
                    return Err(format!("an invitation waits for {id} that it could not have got"));
                }
            }
        }
        Ok(())
    }

    fn member(&self, member: u32) -> &Member {
        // Members are drawn among those that there are.
        &self.members[member as usize]
    }

    fn set_active(&mut self, actor: u32, other: Option<u32>, active: bool) {
        for member in std::iter::once(actor).chain(other) {
            self.members[member as usize].active = active;
        }
    }

    fn thread(&mut self, rid: u32) -> &mut Thread {
        let comments = self.comments;
        self.threads.entry(rid).or_insert_with(|| Thread { next: comments, mids: (0..comments).collect() })
    }

    fn list(&mut self, object: Object) -> &mut Vec<u32> {
        match object.kind {
            Kind::Friends => &mut self.members[object.id as usize].friends,
            Kind::Pending => &mut self.members[object.id as usize].pending,
            Kind::Comments => &mut self.thread(object.id).mids,
        }
    }

    /// Somebody unrelated to `member`, `from` on.
    fn stranger(&self, member: u32, from: u32) -> Option<u32> {
        let members = self.members.len() as u64;
        let nth = |step: u32| ((u64::from(from) + u64::from(step)) % members) as u32;
        let tries = members.min(u64::from(INVITE_TRIES_MAX)) as u32;
        (0..tries).map(nth).find(|other| *other != member && !self.related(member, *other))
    }

    fn related(&self, one: u32, other: u32) -> bool {
        let (first, second) = (self.member(one), self.member(other));
        first.friends.contains(&other)
            || first.pending.contains(&other)
            || second.pending.contains(&one)
            || self.doubtful.contains(&(one.min(other), one.max(other)))
    }
}

#[cfg(test)]
mod tests;
