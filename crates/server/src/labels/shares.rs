//! What each user has taken of what is given out for good.
//!
//! **Invariant.** What a user has taken is at most what it leaves free. So one user alone takes half at most, and there
//! is always something left for the next one. What a removed user has taken stays taken.

type Table<K, V> = hashbrown::HashMap<K, V, foldhash::quality::RandomState>;

/// One thing that is given out, with the users that have taken some of it.
#[derive(Default)]
pub(super) struct Shares {
    /// By all, removed users among them.
    taken: usize,
    /// By the user's number.
    users: Table<u64, usize>,
}

impl Shares {
    /// Whether `user` may take `amount` of what there is `most` of.
    pub(super) fn has_room(&self, user: u64, amount: usize, most: usize) -> bool {
        let has = self.users.get(&user).copied().unwrap_or_default();
        let free = most.saturating_sub(self.taken);
        // Nothing more is nothing to refuse.
        amount == 0 || has.saturating_add(amount) <= free.saturating_sub(amount)
    }

    /// It takes it.
    pub(super) fn take(&mut self, user: u64, amount: usize) {
        if amount > 0 {
            self.taken += amount;
            *self.users.entry(user).or_default() += amount;
        }
    }

    /// It gives some of it back.
    pub(super) fn give_back(&mut self, user: u64, amount: usize) {
        self.taken -= amount;
        if let Some(has) = self.users.get_mut(&user) {
            *has -= amount;
        }
    }

    /// What all have taken.
    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// There is no such user any more.
    pub(super) fn forget(&mut self, user: u64) {
        self.users.remove(&user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_takes_is_at_most_what_it_leaves() {
        let (mut shares, most) = (Shares::default(), 1024);
        let mut taken = Vec::new();
        for user in 0..4 {
            let mut count = 0;
            while shares.has_room(user, 1, most) {
                shares.take(user, 1);
                count += 1;
            }
            taken.push(count);
        }
        assert_eq!(taken, [512, 256, 128, 64]);
        // Some is given back: it is shared in the way in which all is.
        shares.give_back(0, 512);
        assert!(shares.has_room(3, 1, most) && shares.has_room(0, 200, most) && !shares.has_room(0, 400, most));
        // A user that goes leaves what it has taken, so that to be made again is of no use.
        shares.forget(1);
        assert!(shares.has_room(1, 288, most) && !shares.has_room(1, 289, most) && shares.has_room(9, 0, 0));
    }
}
