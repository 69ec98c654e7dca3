//! SmallBank: accounts, savings and checkings, chosen uniformly.

use fastrand::Rng;

use super::draw::weighted;
use super::{Generate, Transaction, TransactionType, Workload, key};

const ACCOUNTS: u64 = 1;
const SAVINGS: u64 = 2;
const CHECKINGS: u64 = 3;

pub(super) static SMALLBANK: Workload = Workload {
    name: "smallbank",
    summary: "six small transactions on uniformly chosen accounts, their savings and checkings",
    scale_unit: "accounts",
    defaults: (1_200_000, 33_333),
    types: |_| types(),
    new: |options| Box::new(SmallBank { rng: Rng::with_seed(options.seed), accounts: options.scale.max(2) }),
};

/// Shares of the types, in their order.
const MIX: [f64; 6] = [15.0, 15.0, 15.0, 25.0, 15.0, 15.0];

fn types() -> Vec<TransactionType> {
    let with = TransactionType::with;
    vec![
        with(
            "Amalgamate",
            &["A1", "A2", "C1", "S1", "C2", "w:wC1", "w:wS1", "w:wC2"],
            &[
                "A1>C1", "A1>S1", "A2>C2", "C1>wC1", "S1>wC1", "C2>wC1", "C1>wS1", "S1>wS1", "C2>wS1", "C1>wC2",
                "S1>wC2", "C2>wC2",
            ],
        ),
        with("Balance", &["A", "C", "S"], &["A>C", "A>S"]),
        with("DepositChecking", &["A", "C", "w:wC"], &["A>C", "C>wC"]),
        with(
            "SendPayment",
            &["A1", "A2", "C1", "C2", "w:wC1", "w:wC2"],
            &["A1>C1", "A2>C2", "C1>wC1", "C2>wC1", "C1>wC2", "C2>wC2"],
        ),
        with("TransactSavings", &["A", "S", "w:wS"], &["A>S", "S>wS"]),
        with("WriteCheck", &["A", "C", "S", "w:wC"], &["A>C", "A>S", "C>wC", "S>wC"]),
    ]
}

struct SmallBank {
    rng: Rng,
    accounts: u64,
}

impl Generate for SmallBank {
    fn next(&mut self, transaction: &mut Transaction) {
        let of_type = weighted(&mut self.rng, &MIX);
        transaction.begin(of_type as u16 + 1);
        let one = self.rng.u64(0..self.accounts);
        let mut other = self.rng.u64(0..self.accounts - 1);
        other += u64::from(other >= one);
        let t = transaction;
        match of_type {
            0 => {
                [(ACCOUNTS, one), (ACCOUNTS, other)]
                    .iter()
                    .zip(1..)
                    .for_each(|(&(t_, row), v)| t.read(0, v, key(t_, row)));
                let rows = [(CHECKINGS, one), (SAVINGS, one), (CHECKINGS, other)];
                rows.iter().zip(3..).for_each(|(&(table, row), v)| t.read(1, v, key(table, row)));
                rows.iter().zip(6..).for_each(|(&(table, row), v)| t.write(2, v, key(table, row)));
            }
            3 => {
                for (v, row) in (1..).zip([one, other]) {
                    t.read(0, v, key(ACCOUNTS, row));
                }
                for (v, row) in (3..).zip([one, other]) {
                    t.read(1, v, key(CHECKINGS, row));
                }
                for (v, row) in (5..).zip([one, other]) {
                    t.write(2, v, key(CHECKINGS, row));
                }
            }
            1 | 5 => {
                t.read(0, 1, key(ACCOUNTS, one));
                t.read(1, 2, key(CHECKINGS, one));
                t.read(1, 3, key(SAVINGS, one));
                if of_type == 5 {
                    t.write(2, 4, key(CHECKINGS, one));
                }
            }
            _ => {
                let table = if of_type == 2 { CHECKINGS } else { SAVINGS };
                t.read(0, 1, key(ACCOUNTS, one));
                t.read(1, 2, key(table, one));
                t.write(2, 3, key(table, one));
            }
        }
    }
}
