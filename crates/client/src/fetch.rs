//! Documents that no copy has: by requests that are on their way, and by one for the rest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use forebay::key::Key;

use crate::copy::Copy;
use crate::error::Error;
use crate::mutation::{Fault, on};
use crate::shared::Shared;

/// The documents of `keys`, by requests that were sent at `since` or later: those of others, and one for the rest. That
/// one names `have` as well, and what is known of those is given back too. Without it they are not looked at.
pub async fn fetch(
    shared: &Shared,
    keys: &[Key],
    have: &[(Key, Arc<Copy>)],
    since: Option<Instant>,
) -> Result<BTreeMap<Key, Arc<Copy>>, Error> {
    let (mut own, others) = shared.flights.join(keys, since, shared.ground().now());
    let mut fetched = BTreeMap::new();
    if !own.requests.is_empty() {
        let asked: Vec<Key> = own.requests.keys().cloned().collect();
        fetched = shared.fetch(&asked, have).await?;
    }
    for (key, sender) in own.end() {
        if let Some(copy) = fetched.get(&key) {
            // It is none's loss if no other one waits.
            let _ = sender.send(copy.clone());
        }
    }
    let mut left = Vec::new();
    for (key, answer) in others {
        match answer.await {
            Ok(copy) if copy.lives(shared.ground().now()) || on(Fault::FlightOutlived) => {
                fetched.insert(key, copy);
            }
            _ => left.push(key),
        }
    }
    if !left.is_empty() {
        fetched.extend(shared.fetch(&left, &[]).await?);
    }
    Ok(fetched)
}
