//! Epinions: reviews of items by users, and trust between users. Nine types, all flat.
//!
//! Who wrote a review is drawn as OLTP-Bench's loader does, with which the paper measured. Few users write most, and
//! no user writes two of one item. So most users have few reviews, and their pages are small groups.

use fastrand::Rng;

use super::draw::{Zipf, weighted};
use super::{Generate, Options, Transaction, TransactionType, Workload, key};

const USERS: u64 = 1;
const ITEMS: u64 = 2;
const REVIEWS: u64 = 3;
const TRUST: u64 = 4;

/// Reviews that a page shows.
const SHOWN: usize = 10;

pub(super) static EPINIONS: Workload = Workload {
    name: "epinions",
    summary: "nine flat transactions on items, users, their reviews and whom they trust",
    scale_unit: "thousands of items; users are twice as many",
    defaults: (400_000, 10),
    types: |_| NAMES.map(TransactionType::flat).to_vec(),
    new: |options| Box::new(Epinions::new(options)),
};

const NAMES: [&str; 9] = [
    "GetReviewItemById",
    "GetReviewsByUser",
    "GetItemReviews",
    "GetItemReviewsByTrustedUser",
    "GetAverageRatingByTrustedUser",
    "UpdateUserName",
    "UpdateItemTitle",
    "UpdateReviewRating",
    "UpdateTrustRating",
];

/// How much more the busiest users review: Zipf's exponent, as in OLTP-Bench's loader.
const REVIEWER_EXPONENT: f64 = 0.99;

/// Shares of the types, in their order.
const MIX: [f64; 9] = [10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 20.0];

struct Epinions {
    rng: Rng,
    /// Numbers of an item's reviews.
    of_item: Vec<Vec<u32>>,
    /// Numbers of a user's reviews.
    of_user: Vec<Vec<u32>>,
    /// The first trust row of each user, and their number.
    trust: Vec<(u32, u32)>,
    reviews: u32,
    trust_rows: u32,
}

impl Epinions {
    fn new(options: &Options) -> Epinions {
        let mut rng = Rng::with_seed(options.seed);
        let scale = options.scale.clamp(1, 10_000);
        let (items, users) = (1000 * scale, 2000 * scale);
        let (reviews_of, trust_of) = (Zipf::new(500 * scale, 1.8), Zipf::new(200 * scale, 1.95));
        let (reviewer, mut reviewed) = (Zipf::new(users, REVIEWER_EXPONENT), vec![u64::MAX; users as usize]);
        let (mut of_user, mut reviews) = (vec![Vec::new(); users as usize], 0);
        let mut item = |item| {
            // No more than 500 * scale, so there are users enough.
            let count = reviews_of.draw(&mut rng) as u32 + 1;
            let of_item: Vec<u32> = (reviews..reviews + count).collect();
            for &review in &of_item {
                let user = loop {
                    let user = reviewer.draw(&mut rng) as usize;
                    if std::mem::replace(&mut reviewed[user], item) != item {
                        break user;
                    }
                };
                of_user[user].push(review);
            }
            reviews += count;
            of_item
        };
        let of_item = (0..items).map(&mut item).collect();
        let mut trust_rows = 0;
        let mut user = |_| {
            let count = trust_of.draw(&mut rng) as u32;
            trust_rows += count;
            (trust_rows - count, count)
        };
        let trust = (0..users).map(&mut user).collect();
        Epinions { rng, of_item, of_user, trust, reviews, trust_rows }
    }
}

impl Generate for Epinions {
    fn next(&mut self, transaction: &mut Transaction) {
        let of_type = weighted(&mut self.rng, &MIX);
        transaction.begin(of_type as u16 + 1);
        let (item, user) = (self.rng.usize(0..self.of_item.len()), self.rng.usize(0..self.of_user.len()));
        let mut reviews = |list: &[u32], most: usize| {
            list.iter().take(most).for_each(|&review| transaction.read(0, 0, key(REVIEWS, u64::from(review))));
        };
        match of_type {
            0 => {
                reviews(&self.of_item[item], SHOWN);
                transaction.read(0, 0, key(ITEMS, item as u64));
            }
            1 => {
                reviews(&self.of_user[user], SHOWN);
                transaction.read(0, 0, key(USERS, user as u64));
            }
            2 => reviews(&self.of_item[item], usize::MAX),
            3 | 4 => {
                reviews(&self.of_item[item], usize::MAX);
                let (first, count) = self.trust[user];
                (first..first + count).for_each(|row| transaction.read(0, 0, key(TRUST, u64::from(row))));
            }
            5 => transaction.write(0, 0, key(USERS, user as u64)),
            6 => transaction.write(0, 0, key(ITEMS, item as u64)),
            7 => transaction.write(0, 0, key(REVIEWS, u64::from(self.rng.u32(0..self.reviews.max(1))))),
            _ => transaction.write(0, 0, key(TRUST, u64::from(self.rng.u32(0..self.trust_rows.max(1))))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn few_users_write_most_reviews_and_none_two_of_one_item() {
        let epinions = Epinions::new(&Options { transactions: 0, scale: 2, seed: 3 });
        let mut counts: Vec<usize> = epinions.of_user.iter().map(Vec::len).collect();
        counts.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
        let all = epinions.reviews as usize;
        assert_eq!(counts.iter().sum::<usize>(), all);
        // Of 4,000 users by Zipf 0.99 a hundredth writes half of the reviews of short lists, of long ones one each.
        let busiest: usize = counts[..40].iter().sum();
        assert!(busiest > all / 8, "{busiest} of {all}");
        let item_of: HashMap<u32, usize> = (0..)
            .zip(&epinions.of_item)
            .flat_map(|(item, list)| list.iter().map(move |&review| (review, item)))
            .collect();
        for of_user in &epinions.of_user {
            let mut items: Vec<usize> = of_user.iter().map(|review| item_of[review]).collect();
            items.dedup();
            assert_eq!(items.len(), of_user.len(), "no user reviews an item twice");
        }
    }
}
