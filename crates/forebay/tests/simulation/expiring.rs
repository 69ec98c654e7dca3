//! Documents that would expire. One that was written again without an expiry stays, whatever the reaper had seen
//! before. That one has expired is a change to a client that watches it.

use std::time::Duration;

use forebay::cache::Context;
use forebay::runtime::simulated::SplitMix;
use forebay::txn::{Ahead, Documents, Engine, Executed, Mode, Plan};
use forebay::{Change, Key, Value};

use crate::book::{broken, expect};
use crate::client::lock;

/// Longest time until one of them expires, in ms.
const EXPIRES_MS_MAX: u64 = 5;

/// The document of one client, which nobody else writes.
pub fn own(client: u64) -> Key {
    Key::new(0, format!("own{client}").as_bytes())
}

fn plan(key: &Key, mode: Mode) -> Plan {
    Plan { locks: vec![lock(key.clone(), mode, mode == Mode::Shared)], ..Plan::default() }
}

/// Puts `key` and waits until it is published; whether it is.
async fn put(engine: &Engine, key: &Key, expires_at_ms: Option<u64>) -> bool {
    let plan = plan(key, Mode::Exclusive);
    let mut ahead = Ahead::default();
    let put = engine.execute(&plan, Context::default(), &mut ahead, |documents| {
        let value = Value { expires_at_ms, ..Value::bytes(*b"x") };
        let changed = documents.change(key.borrow(), Change::Put(value));
        changed.unwrap_or_else(|error| broken("values", error.to_string()));
        Ok::<_, ()>(())
    });
    match put.await {
        Ok(Executed::Done((), committing)) => committing.wait().await.is_ok(),
        _ => false,
    }
}

fn there(documents: &Documents, key: &Key) -> bool {
    documents.value(key.borrow()).unwrap_or_else(|error| broken("values", error.to_string())).is_some()
}

/// Whether `key` is there; `None` if nobody can say.
async fn is_there(engine: &Engine, key: &Key) -> Option<bool> {
    if let Some(documents) = engine.read_published(&[key.borrow()], &Context::default()) {
        return Some(there(&documents, key));
    }
    let plan = plan(key, Mode::Shared);
    let mut ahead = Ahead::default();
    let read = engine.execute(&plan, Context::default(), &mut ahead, |d| Ok::<_, bool>(there(d, key)));
    let Ok(Executed::Done(there, committing)) = read.await else { return None };
    committing.wait().await.ok().map(|_| there)
}

/// An expiry that is taken back while the reaper is at work.
pub async fn lasting(engine: &Engine, mut random: SplitMix, key: Key) {
    let (runtime, incarnation) = (engine.runtime().clone(), engine.store().incarnation());
    let expires_at_ms = runtime.now_ms() + 1 + random.below(EXPIRES_MS_MAX);
    if !put(engine, &key, Some(expires_at_ms)).await {
        return;
    }
    runtime.sleep(Duration::from_millis(expires_at_ms.saturating_sub(runtime.now_ms()))).await;
    let (reaped, told) = futures_channel::oneshot::channel();
    let reaper = engine.clone();
    runtime.spawn(async move {
        reaper.reap().await;
        let _ = reaped.send(());
    });
    runtime.sleep(Duration::from_micros(random.below(1000))).await;
    let stays = put(engine, &key, None).await;
    let _ = told.await;
    let seen = is_there(engine, &key).await;
    // What a store has lost with its file is another matter.
    if stays && engine.store().incarnation() == incarnation {
        expect(seen != Some(false), "nothing acknowledged lost", || format!("{key} was reaped, and does not expire"));
    }
}

/// WATCH, then a look, then EXEC: it runs only if it finds what the look has shown.
pub async fn watched(engine: &Engine, mut random: SplitMix, key: Key) {
    let runtime = engine.runtime().clone();
    let expires_at_ms = runtime.now_ms() + 1 + random.below(EXPIRES_MS_MAX);
    if !put(engine, &key, Some(expires_at_ms)).await {
        return;
    }
    let context = Context::default();
    let Ok((watched, committing)) = engine.watch(std::slice::from_ref(&key), context, None).await else { return };
    if committing.wait().await.is_err() {
        return;
    }
    let Some(shown) = is_there(engine, &key).await else { return };
    runtime.sleep(Duration::from_micros(random.below(1000 * EXPIRES_MS_MAX))).await;
    let plan = Plan { watched, ..plan(&key, Mode::Shared) };
    let mut ahead = Ahead::default();
    let found = engine.execute(&plan, context, &mut ahead, |d| Ok::<_, bool>(there(d, &key)));
    if let Ok(Executed::Done(found, _)) = found.await {
        // It may have expired between WATCH and the look.
        expect(found || !shown, "watch", || format!("{key} is gone, and EXEC ran all the same"));
    }
}
