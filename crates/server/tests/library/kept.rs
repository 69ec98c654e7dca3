//! What a client keeps, where an answer is late or a message is lost. Its leases have no end here.
//!
//! An answer that comes late takes no place of what is newer: after its own write, a client shows nothing older. What a
//! client was told is stale it does not show again, even if it could not fetch what took its place.

use std::time::Duration;

use forebay::runtime::Runtime;
use forebay::runtime::simulated::SplitMix;
use forebay_client::{Client, Error, Level, Transaction};
use futures_channel::oneshot;

use crate::leased::BOUND;
use crate::tasks::{Fate, fate};

const ROUNDS: u64 = 8;
/// How often a client looks at what it has written.
const LOOKS: u64 = 8;

async fn set(client: &Client, name: &str, text: &str) -> Fate {
    let answer: Result<(), Error> = client.transaction(async |tx: Transaction| tx.set(name, text)).await;
    fate(&answer)
}

/// What is shown, which may be old; `None`: no answer.
async fn shown(client: &Client, name: &str) -> Option<Option<i64>> {
    let client = client.session().at(Level::Bounded(BOUND));
    client.transaction(async |tx: Transaction| tx.get_integer(name).await).await.ok()
}

/// `client` keeps what it reads, `other` writes beside it, and the names that they use are theirs alone.
pub async fn rounds(client: &Client, other: &Client, runtime: &Runtime, random: &mut SplitMix) {
    for _ in 0..ROUNDS {
        let name = format!("kept:{}", random.draw());
        a_late_answer(client, runtime, &name, random).await;
        what_was_found_stale(client, other, &format!("{name}:beside")).await;
    }
}

/// One session reads while another one writes; the answer of the first may come last.
async fn a_late_answer(client: &Client, runtime: &Runtime, name: &str, random: &mut SplitMix) {
    let (sender, read) = oneshot::channel::<()>();
    let (reader, at) = (client.session(), name.to_owned());
    runtime.spawn(async move {
        shown(&reader, &at).await;
        drop(sender);
    });
    runtime.sleep(Duration::from_micros(random.below(600))).await;
    let committed = matches!(set(client, name, "1").await, Fate::Committed);
    for _ in 0..LOOKS {
        let seen = shown(client, name).await;
        assert!(!committed || seen.is_none_or(|seen| seen == Some(1)), "{seen:?} is shown after its own write");
        runtime.sleep(Duration::from_micros(random.below(600))).await;
    }
    let _ = read.await;
}

/// It has a copy that another one's write makes stale, and is told so when it commits.
async fn what_was_found_stale(client: &Client, other: &Client, name: &str) {
    let begun = matches!(set(other, name, "0").await, Fate::Committed);
    if !begun || shown(client, name).await != Some(Some(0)) {
        return;
    }
    set(other, name, "1").await;
    let stale = client.statistics().stale;
    let body = async |tx: Transaction| {
        tx.get_integer(name).await?;
        tx.set(format!("{name}:copy"), "1")
    };
    let _: Result<(), Error> = client.transaction(body).await;
    if client.statistics().stale > stale {
        let seen = shown(client, name).await;
        assert!(seen != Some(Some(0)), "it is shown although it was found stale");
    }
}
