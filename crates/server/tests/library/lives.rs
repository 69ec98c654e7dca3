//! A server that keeps nothing, or loses its last commits: each of its lives is another incarnation. Two documents are
//! always written together, so they are equal, or both absent, wherever they were there at one moment. Where nothing
//! is kept, a client that has seen a later life is shown no earlier one by transactions that begin then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay::runtime::Runtime;
use forebay::runtime::simulated::SplitMix;
use forebay::runtime::simulated::network::Host;
use forebay_client::{Client, Error, Leases, Transaction};
use futures_channel::oneshot;

use crate::tasks::{Fate, fate};
use crate::world::{Common, connect};

/// Pairs of such documents.
const TWINS: u64 = 4;

/// Transactions of one session.
const STEPS: u64 = 25;

/// What one client has seen.
#[derive(Default)]
struct Seen {
    /// The latest life of which it was shown something.
    life: AtomicU64,
}

/// What was written in a life: the life's number, and one that no other write has.
type Written = Option<(u64, u64)>;

/// One client: its sessions share copies and connections.
pub async fn at_work(common: Arc<Common>, host: Host, number: u32) {
    let client = connect(&common, &host, Leases::Endless).await;
    let seen = Arc::new(Seen::default());
    let mut sessions = Vec::new();
    for session in 0..common.setting.sessions {
        let mut random =
            SplitMix::new(common.setting.seed.wrapping_mul(67).wrapping_add((8 * number + session).into()));
        let client = client.session().at(common.setting.level(&mut random));
        let (sender, receiver) = oneshot::channel::<()>();
        let (common, runtime, seen) = (common.clone(), host.runtime(), seen.clone());
        host.runtime().spawn(async move {
            for _ in 0..STEPS {
                step(&common, &client, (&seen, &runtime), &mut random).await;
                rest(&runtime, &mut random).await;
            }
            drop(sender);
        });
        sessions.push(receiver);
    }
    for session in sessions {
        let _ = session.await;
    }
    common.statistics.lock().unwrap().push(client.statistics());
}

async fn rest(runtime: &Runtime, random: &mut SplitMix) {
    runtime.sleep(Duration::from_micros(random.below(4000))).await;
}

/// Reads both, and now and then writes both.
async fn step(common: &Common, client: &Client, (seen, runtime): (&Seen, &Runtime), random: &mut SplitMix) {
    let (life, latest) = (common.life.load(Ordering::SeqCst), seen.life.load(Ordering::SeqCst));
    let writes = random.below(3) == 0;
    let (own, turned, pair) = ((life, common.notes.element()), random.below(2) == 0, random.below(TWINS));
    // A life may end between the two reads.
    let between = (random.below(4) == 0).then(|| Duration::from_micros(random.below(60_000)));
    let body = async |tx: Transaction| {
        let names = [u64::from(turned), u64::from(!turned)].map(|twin| format!("twin:{pair}:{twin}"));
        let mut twins = Vec::new();
        for name in &names {
            if let (1, Some(between)) = (twins.len(), between) {
                runtime.sleep(between).await;
            }
            twins.push(written(tx.get(name).await?.as_deref()));
        }
        if writes {
            names.iter().try_for_each(|name| tx.set(name, format!("{} {}", own.0, own.1)))?;
        }
        Ok::<Vec<Written>, Error>(twins)
    };
    let answer = client.transaction(body).await;
    // A commit whose life is not certain is of no known life.
    let is_certain = common.life.load(Ordering::SeqCst) == life;
    if let (true, Fate::Committed, true) = (writes, fate(&answer), is_certain) {
        common.certain.lock().unwrap().insert(own.1);
        seen.life.fetch_max(life, Ordering::SeqCst);
    }
    let Ok(twins) = answer else { return };
    assert_eq!(twins[0], twins[1], "half of a commit");
    if let Some((life, number)) = twins[0] {
        let is_certain = common.certain.lock().unwrap().contains(&number);
        assert!(common.setting.keeps || !is_certain || life >= latest, "{life} is shown after {latest}");
        if is_certain {
            seen.life.fetch_max(life, Ordering::SeqCst);
        }
    }
}

fn written(text: Option<&[u8]>) -> Written {
    let text = std::str::from_utf8(text?).expect("UTF-8");
    let (life, number) = text.split_once(' ').expect("two numbers");
    Some((life.parse().expect("a life"), number.parse().expect("a number")))
}
