//! Documents with an expiry. Once one is over, no transaction that begins then shows it, whether its copy was fetched
//! or kept. Clocks drift here, and don't jump.

use std::time::Duration;

use forebay_client::{Error, Transaction};

use crate::tasks::{Fate, Worker, fate};
use crate::world::Common;

/// Documents of that kind.
const DOCUMENTS: u64 = 1;

/// For drift, and for whole ms.
const SLACK: Duration = Duration::from_micros(1100);

/// Writes one, or reads all.
pub async fn step(common: &Common, worker: &mut Worker) {
    if worker.random.u8(..6) > 0 {
        return read(common, worker).await;
    }
    let (name, number) = (worker.random.u64(..DOCUMENTS), common.notes.element());
    let life = Duration::from_millis(worker.random.u64(3..25));
    let body = async |tx: Transaction| tx.set_for(format!("brief:{name}"), number.to_string(), life);
    let answer: Result<(), Error> = worker.client.transaction(body).await;
    if let Fate::Committed = fate(&answer) {
        common.over.lock().unwrap().insert(number, common.world.elapsed() + life + SLACK);
    }
}

async fn read(common: &Common, worker: &mut Worker) {
    let (began, names) = (common.world.elapsed(), (0..DOCUMENTS).map(|name| format!("brief:{name}")));
    let names: Vec<String> = names.collect();
    let body = async |tx: Transaction| {
        let mut numbers = Vec::new();
        for name in &names {
            numbers.extend(tx.get_integer(name).await?);
        }
        Ok::<Vec<i64>, Error>(numbers)
    };
    let answer = worker.client.transaction(body).await;
    let (Fate::Committed, Ok(numbers)) = (fate(&answer), answer) else { return };
    let over = common.over.lock().unwrap();
    for number in numbers {
        let at = over.get(&(number as u64));
        assert!(at.is_none_or(|at| began <= *at), "{number} is shown at {began:?} and was over at {at:?}");
    }
}
