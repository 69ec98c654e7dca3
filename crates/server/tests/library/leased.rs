//! A document under leases of one length. A transaction that may show what is old shows nothing that was replaced more
//! than a lease before it began. A lease counts from before its request was sent. Clocks drift here, and do not jump.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay::runtime::Runtime;
use forebay::runtime::simulated::SplitMix;
use forebay::runtime::simulated::network::Host;
use forebay_client::{Client, Error, Leases, Level, Transaction};

use crate::kept;
use crate::tasks::{Fate, fate};
use crate::world::{Common, connect};

/// No lease is longer.
const LEASE: Duration = Duration::from_millis(4);
/// What a transaction shows may be so old: a lease is over long before.
pub const BOUND: Duration = Duration::from_secs(10);
/// For drift.
const SLACK: Duration = Duration::from_micros(50);
/// Transactions of one session.
const STEPS: u64 = 40;
const NAME: &str = "leased";

/// Numbers that the document held, by each of them.
pub type Held = BTreeMap<u64, Term>;

/// When a number was there.
pub struct Term {
    /// It was certainly written by then.
    written: Duration,
    /// Another one had certainly taken its place by then.
    over: Option<Duration>,
}

/// One client, with one session: of several, one may be given what another one has asked for before it began.
pub async fn at_work(common: Arc<Common>, host: Host, number: u32) {
    let client = connect(&common, &host, Leases::Fixed(LEASE.as_secs_f64())).await;
    let session = client.session().at(Level::Bounded(BOUND));
    let mut random = SplitMix::new(common.setting.seed.wrapping_mul(71).wrapping_add(number.into()));
    for _ in 0..STEPS {
        step(&common, &session, &mut random).await;
        rest(&host.runtime(), &mut random).await;
    }
    let keeper = connect(&common, &host, Leases::Endless).await;
    kept::rounds(&keeper, &client, &host.runtime(), &mut random).await;
    common.statistics.lock().unwrap().extend([client.statistics(), keeper.statistics()]);
}

async fn rest(runtime: &Runtime, random: &mut SplitMix) {
    runtime.sleep(Duration::from_micros(random.below(1500))).await;
}

/// Writes it, or reads it.
async fn step(common: &Common, client: &Client, random: &mut SplitMix) {
    let began = common.world.elapsed();
    if random.below(5) == 0 {
        let number = common.notes.element();
        let body = async |tx: Transaction| tx.set(NAME, number.to_string());
        let answer: Result<(), Error> = client.transaction(body).await;
        if let Fate::Committed = fate(&answer) {
            enter(&mut common.held.lock().unwrap(), number, began, common.world.elapsed());
        }
        return;
    }
    let answer: Result<Option<i64>, Error> =
        client.transaction(async |tx: Transaction| tx.get_integer(NAME).await).await;
    let Ok(Some(number)) = answer else { return };
    let held = common.held.lock().unwrap();
    let over = held.get(&(number as u64)).and_then(|term| term.over);
    let is_fresh = over.is_none_or(|over| began <= over + LEASE + SLACK);
    assert!(is_fresh, "{number} is shown at {began:?} and was over at {over:?}");
}

/// `number` was written from `began` to `ended`: all that was written before has gone.
fn enter(held: &mut Held, number: u64, began: Duration, ended: Duration) {
    for term in held.values_mut().filter(|term| term.written <= began) {
        term.over = Some(term.over.unwrap_or(ended).min(ended));
    }
    held.insert(number, Term { written: ended, over: None });
}
