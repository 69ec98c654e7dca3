//! The eleven actions, the sessions made of them, and the mixes of either.

/// What a client does to the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// A member's profile with the numbers of friends and resources, and of invitations if it is one's own.
    ViewProfile,
    /// A member's friends with their profiles.
    ListFriends,
    /// Who waits for one's answer, with their profiles.
    ViewFriendRequests,
    /// The five newest resources on a member's wall.
    ViewTopResources,
    /// The comments on a resource.
    ViewComments,
    /// Invites a member.
    InviteFriend,
    /// Accepts the newest invitation.
    AcceptFriend,
    /// Rejects the newest invitation.
    RejectFriend,
    /// Ends a friendship.
    ThawFriendship,
    /// Posts a comment on a resource.
    PostComment,
    /// Deletes one of one's own comments.
    DeleteComment,
}

use Action::{
    AcceptFriend, DeleteComment, InviteFriend, ListFriends, PostComment, RejectFriend, ThawFriendship, ViewComments,
    ViewFriendRequests, ViewProfile, ViewTopResources,
};

/// All actions, in the order of the shares of a mix.
pub const ACTIONS: [Action; 11] = [
    ViewProfile,
    ListFriends,
    ViewFriendRequests,
    ViewTopResources,
    ViewComments,
    InviteFriend,
    AcceptFriend,
    RejectFriend,
    ThawFriendship,
    PostComment,
    DeleteComment,
];

impl Action {
    /// Its name in reports and traces: `ViewProfile`.
    pub fn name(self) -> &'static str {
        match self {
            ViewProfile => "ViewProfile",
            ListFriends => "ListFriends",
            ViewFriendRequests => "ViewFriendRequests",
            ViewTopResources => "ViewTopResources",
            ViewComments => "ViewComments",
            InviteFriend => "InviteFriend",
            AcceptFriend => "AcceptFriend",
            RejectFriend => "RejectFriend",
            ThawFriendship => "ThawFriendship",
            PostComment => "PostComment",
            DeleteComment => "DeleteComment",
        }
    }

    /// Its place in [`ACTIONS`].
    pub fn number(self) -> usize {
        self as usize
    }

    /// Whether it changes the network.
    pub fn writes(self) -> bool {
        self >= InviteFriend
    }
}

/// Whose turn an action of a session is about: the member's own, or a friend's or stranger's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// The member that the session is of.
    Own,
    /// The other member that it meets.
    Other,
}

use Whom::{Other, Own};

/// Actions that one member takes one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// Its name: `ViewFriendProfile`.
    pub name: &'static str,
    /// The actions.
    pub actions: &'static [(Action, Whom)],
}

/// All sessions, in the order of the shares of a mix of sessions.
pub const SESSIONS: [Session; 8] = [
    Session { name: "ViewSelfProfile", actions: &[(ViewProfile, Own), (ViewTopResources, Own), (ViewComments, Own)] },
    Session {
        name: "ViewFriendProfile",
        actions: &[(ViewProfile, Own), (ViewTopResources, Own), (ListFriends, Own), (ViewProfile, Other)],
    },
    Session { name: "PostComment", actions: &commenting(PostComment) },
    Session { name: "DeleteComment", actions: &commenting(DeleteComment) },
    Session {
        name: "InviteFriend",
        actions: &[
            (ViewProfile, Own),
            (ViewTopResources, Own),
            (ListFriends, Own),
            (InviteFriend, Own),
            (ViewFriendRequests, Own),
        ],
    },
    Session { name: "AcceptFriend", actions: &answering(AcceptFriend) },
    Session { name: "RejectFriend", actions: &answering(RejectFriend) },
    Session {
        name: "ThawFriendship",
        actions: &[
            (ViewProfile, Own),
            (ViewTopResources, Own),
            (ListFriends, Own),
            (ThawFriendship, Own),
            (ListFriends, Own),
        ],
    },
];

const fn commenting(action: Action) -> [(Action, Whom); 7] {
    [
        (ViewProfile, Own),
        (ViewTopResources, Own),
        (ViewProfile, Other),
        (ViewTopResources, Other),
        (ViewComments, Other),
        (action, Other),
        (ViewComments, Other),
    ]
}

const fn answering(action: Action) -> [(Action, Whom); 7] {
    [
        (ViewProfile, Own),
        (ViewTopResources, Own),
        (ListFriends, Own),
        (ViewFriendRequests, Own),
        (action, Own),
        (ListFriends, Own),
        (ViewFriendRequests, Own),
    ]
}

/// What a mix chooses from.
#[derive(Clone, Copy, Debug)]
pub enum Shares {
    /// Single actions, each with its share in percent, as [`ACTIONS`] stand.
    Actions([f64; 11]),
    /// Whole sessions, as [`SESSIONS`] stand.
    Sessions([f64; 8]),
}

/// A mix of actions, or of sessions.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// The name by which users choose it.
    pub name: &'static str,
    /// One line for help texts.
    pub summary: &'static str,
    /// What it chooses from.
    pub shares: Shares,
}

const fn of(name: &'static str, summary: &'static str, reads: [f64; 5], writes: [f64; 4]) -> Mix {
    let ([vp, lf, vfr, vtr, vcr], [invite, accept, reject, thaw]) = (reads, writes);
    let shares = [vp, lf, vfr, vtr, vcr, invite, accept, reject, thaw, 0.0, 0.0];
    Mix { name, summary, shares: Shares::Actions(shares) }
}

/// As many invitations as answers, as many friendships begun as ended: the network stays as large as it is.
const fn steady(percent: f64) -> [f64; 4] {
    [0.4 * percent, 0.2 * percent, 0.2 * percent, 0.2 * percent]
}

/// All mixes, the table from which help texts are made. The first ten are BG's, the next two TARDIS' (100 and 1,000
/// reads for each write).
pub const MIXES: &[Mix] = &[
    of("bg-read-only", "BG without writes", [40.0, 5.0, 5.0, 40.0, 10.0], [0.0; 4]),
    of("bg-very-low", "BG, 0.1 % writes", [40.0, 5.0, 5.0, 40.0, 9.9], [0.02, 0.02, 0.03, 0.03]),
    of("bg-low", "BG, 1 % writes", [40.0, 5.0, 5.0, 40.0, 9.0], [0.2, 0.2, 0.3, 0.3]),
    of("bg-high", "BG, 10 % writes", [35.0, 5.0, 5.0, 35.0, 10.0], [2.0, 2.0, 3.0, 3.0]),
    of("bg-very-low-symmetric", "BG, 0.1 % writes, steady", [40.0, 5.0, 5.0, 40.0, 9.9], steady(0.1)),
    of("bg-low-symmetric", "BG, 1 % writes, steady", [40.0, 5.0, 5.0, 40.0, 9.0], steady(1.0)),
    of("bg-high-symmetric", "BG, 10 % writes, steady", [35.0, 5.0, 5.0, 35.0, 10.0], steady(10.0)),
    of("bg-999-symmetric", "BG, profiles and lists only, 0.1 % writes", [33.3, 33.3, 33.3, 0.0, 0.0], steady(0.1)),
    of("bg-99-symmetric", "BG, profiles and lists only, 1 % writes", [33.0, 33.0, 33.0, 0.0, 0.0], steady(1.0)),
    of("bg-9-symmetric", "BG, profiles and lists only, 10 % writes", [30.0, 30.0, 30.0, 0.0, 0.0], steady(10.0)),
    of("bg-100-1", "BG as TARDIS is measured, 100 reads for each write", [89.0, 5.0, 5.0, 0.0, 0.0], steady(1.0)),
    of("bg-1000-1", "BG as TARDIS is measured, 1,000 reads for each write", [89.9, 5.0, 5.0, 0.0, 0.0], steady(0.1)),
    Mix {
        name: "bg-sessions",
        summary: "BG in whole sessions, all eleven actions, steady",
        // Our own shares; BG's papers vary theirs. Posts equal deletions, invitations equal answers.
        shares: Shares::Sessions([40.0, 40.0, 5.0, 5.0, 4.0, 2.0, 2.0, 2.0]),
    },
];

/// The mix of this name.
pub fn mix(name: &str) -> Option<&'static Mix> {
    MIXES.iter().find(|mix| mix.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_make_a_hundred_and_names_are_unique() {
        for mix in MIXES {
            let sum: f64 = match mix.shares {
                Shares::Actions(shares) => shares.iter().sum(),
                Shares::Sessions(shares) => shares.iter().sum(),
            };
            assert!((sum - 100.0).abs() < 1e-9, "{}: {sum}", mix.name);
            assert_eq!(MIXES.iter().filter(|other| other.name == mix.name).count(), 1);
        }
        assert!(ACTIONS.iter().enumerate().all(|(at, action)| action.number() == at));
        assert_eq!(ACTIONS.iter().filter(|action| action.writes()).count(), 6);
    }
}
