//! What a client does next: single actions by their shares, or the actions of sessions one by one.

use fastrand::Rng;

use super::action::{Action, Mix, SESSIONS, Shares, Whom};
use super::data::Data;
use crate::generate::draw::weighted;

/// One action to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What.
    pub action: Action,
    /// Who takes it.
    pub member: u32,
    /// Whose profile, list or wall; one's own for what can only be one's own.
    pub owner: u32,
    /// A resource on the owner's wall, or by the owner where the wall is empty.
    pub rid: u32,
    /// Another member, who is tried first for an invitation.
    pub draw: u32,
    /// Whether a session begins with it (each single action is one).
    pub begins: bool,
}

/// Chooses for one client. Equal seeds and equal friends give equal steps.
pub struct Choose {
    mix: &'static Mix,
    rng: Rng,
    /// The session, how many of its actions are done, and who takes part.
    session: Option<(usize, usize, Step)>,
}

impl Choose {
    /// From this mix.
    pub fn new(mix: &'static Mix, seed: u64) -> Choose {
        Choose { mix, rng: Rng::with_seed(seed), session: None }
    }

    /// The next action. `friend` tells a friend of a member, chosen by a number.
    pub fn next(&mut self, data: &Data, friend: impl FnOnce(u32, u32) -> Option<u32>) -> Step {
        let shares = match &self.mix.shares {
            Shares::Actions(shares) => shares,
            Shares::Sessions(shares) => return self.next_of_session(data, friend, shares),
        };
        let action = super::action::ACTIONS[weighted(&mut self.rng, shares)];
        let member = data.draw(&mut self.rng);
        let other = data.draw(&mut self.rng);
        let own = action.writes() || action == Action::ViewFriendRequests;
        let owner = if own && action != Action::PostComment { member } else { other };
        Step { action, member, owner, rid: self.resource(data, owner), draw: other, begins: true }
    }

    /// Whether a session goes on with the next action.
    pub fn in_session(&self) -> bool {
        self.session.is_some()
    }

    fn next_of_session(&mut self, data: &Data, friend: impl FnOnce(u32, u32) -> Option<u32>, shares: &[f64]) -> Step {
        let (session, done, meets) = match self.session.take() {
            Some(session) => session,
            None => {
                let (member, draw) = (data.draw(&mut self.rng), data.draw(&mut self.rng));
                let other = friend(member, draw).unwrap_or(draw);
                let rid = self.resource(data, other);
                let action = Action::ViewProfile;
                (weighted(&mut self.rng, shares), 0, Step { action, member, owner: other, rid, draw, begins: true })
            }
        };
        let actions = SESSIONS[session].actions;
        let (action, whom) = actions[done];
        if done + 1 < actions.len() {
            self.session = Some((session, done + 1, Step { begins: false, ..meets }));
        }
        match whom {
            Whom::Other => Step { action, ..meets },
            Whom::Own => Step { action, owner: meets.member, rid: self.resource(data, meets.member), ..meets },
        }
    }

    fn resource(&mut self, data: &Data, owner: u32) -> u32 {
        let (wall, scale) = (data.wall(owner), data.scale());
        match self.rng.choice(wall) {
            Some(rid) => *rid,
            None => owner * scale.resources + self.rng.u32(..scale.resources.max(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bg::action::{ACTIONS, MIXES, mix};
    use crate::bg::data::Scale;

    #[test]
    fn actions_have_their_shares() {
        let data = Data::new(Scale::default());
        let mut choose = Choose::new(mix("bg-high").expect("in the table"), 5);
        let mut counts = [0u32; 11];
        for _ in 0..50_000 {
            let step = choose.next(&data, |_, _| None);
            counts[step.action.number()] += 1;
            assert!(step.member < 1000 && step.owner < 1000 && step.rid < 5000 && step.begins);
        }
        for (action, expected) in [(0, 0.35), (1, 0.05), (3, 0.35), (4, 0.10), (5, 0.02), (8, 0.03), (9, 0.0)] {
            let share = f64::from(counts[action]) / 50_000.0;
            assert!((share - expected).abs() < 0.01, "{:?}: {share}", ACTIONS[action]);
        }
    }

    #[test]
    fn sessions_go_from_their_first_action_to_their_last() {
        let data = Data::new(Scale::default());
        let mut choose = Choose::new(mix("bg-sessions").expect("in the table"), 5);
        let mut taken: Vec<Vec<Step>> = Vec::new();
        for _ in 0..20_000 {
            let step = choose.next(&data, |member, _| Some((member + 1) % 1000));
            match step.begins {
                true => taken.push(vec![step]),
                false => taken.last_mut().expect("a session").push(step),
            }
        }
        taken.pop();
        for steps in taken {
            let actions: Vec<Action> = steps.iter().map(|step| step.action).collect();
            let session =
                SESSIONS.iter().find(|session| session.actions.iter().map(|of| of.0).eq(actions.iter().copied()));
            let session = session.unwrap_or_else(|| panic!("no session is {actions:?}"));
            for (step, (_, whom)) in steps.iter().zip(session.actions) {
                assert_eq!(step.member, steps[0].member);
                let owner = if *whom == Whom::Own { step.member } else { (step.member + 1) % 1000 };
                assert_eq!(step.owner, owner, "{}", session.name);
            }
        }
    }

    #[test]
    fn every_mix_can_be_drawn_from() {
        let data = Data::new(Scale { members: 4, friends: 2, resources: 0, ..Scale::default() });
        for mix in MIXES {
            let mut choose = Choose::new(mix, 1);
            assert!((0..100).all(|_| choose.next(&data, |_, _| None).member < 4), "{}", mix.name);
        }
    }
}
