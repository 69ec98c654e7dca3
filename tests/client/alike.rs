//! What a transaction sees of what it wrote is what the server makes of it.
//!
//! Random writes to a few documents, in one transaction each, with reads between them. What is seen before the end is
//! compared with what another client then reads, and with the copies that the commit has left.

use std::time::Duration;

use forebay_client::{Client, End, Error, Leases, Level, Options, Transaction, Value};

use super::common::process::Forebay;
use super::work::seed;

const CASES: usize = 300;
const KEYS: [&str; 4] = ["string", "hash", "list", "set"];

/// Writes something to one of the documents, mostly what fits it.
fn write(tx: &Transaction, random: &mut fastrand::Rng) -> Result<(), Error> {
    let element = random.u8(..6).to_string();
    let end = if random.bool() { End::Left } else { End::Right };
    let key = KEYS[random.usize(..KEYS.len())];
    let fitting = match key {
        "string" => random.u8(..4),
        "hash" => random.u8(4..7),
        "list" => random.u8(7..10),
        _ => random.u8(10..12),
    };
    match if random.u8(..12) == 0 { random.u8(..14) } else { fitting } {
        0 => tx.set(key, &element),
        1 | 2 => tx.add(key, random.i64(-5..5)),
        3 => tx.append(key, &element),
        4 => tx.set_field(key, &element, random.u8(..3).to_string()),
        5 => tx.remove_field(key, &element),
        6 => tx.add_to_field(key, &element, random.i64(-5..5)),
        7 => tx.push(key, end, &element),
        8 => tx.pop(key, end),
        9 => tx.remove_equal(key, random.i64(-2..3), &element),
        10 => tx.add_member(key, &element),
        11 => tx.remove_member(key, &element),
        12 => tx.delete(key),
        _ => tx.set_for(key, &element, Duration::from_secs(1000)),
    }
}

/// One transaction of random writes; what it sees of all documents at its end.
async fn changed(client: &Client, seed: u64) -> Result<Vec<Option<Value>>, Error> {
    let body = async |tx: Transaction| {
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..random.usize(1..6) {
            if random.u8(..3) == 0 {
                tx.read(KEYS[random.usize(..KEYS.len())]).await?;
            }
            write(&tx, &mut random)?;
        }
        tx.read_many(&KEYS).await
    };
    client.transaction(body).await
}

async fn seen(client: &Client) -> Vec<Option<Value>> {
    client.transaction(async |tx: Transaction| tx.read_many(&KEYS).await).await.expect("it reads")
}

#[tokio::test]
async fn own_writes_are_seen_as_the_server_makes_them() {
    let (forebay, seed) = (Forebay::start("memory", &[]), seed());
    let options = Options::new(forebay.address.to_string()).leases(Leases::Endless);
    let client = options.clone().connect().await.expect("it listens");
    let other = options.connect().await.expect("it listens").at(Level::Strict);
    let (mut committed, mut refused) = (0, 0);
    for case in 0..CASES as u64 {
        let before = seen(&other).await;
        match changed(&client, seed + case).await {
            Ok(expected) => {
                committed += 1;
                assert_eq!(seen(&other).await, expected, "case {case}: what the server has made");
                assert_eq!(seen(&client).await, expected, "case {case}: what is kept of it");
            }
            // What does not fit is refused before it is sent, or by the server: either way nothing is done.
            Err(Error::Change { .. } | Error::Refused { .. }) => {
                refused += 1;
                assert_eq!(seen(&other).await, before, "case {case}: it was refused");
                // Else one that holds the wrong thing would for ever.
                let clear = async |tx: Transaction| KEYS.iter().try_for_each(|key| tx.delete(key));
                client.transaction(clear).await.expect("it commits");
            }
            Err(other) => panic!("case {case}: {other}"),
        }
    }
    assert!(committed > CASES / 3 && refused > 5, "{committed} committed, {refused} refused");
    // The copies that commits leave are current: all else is a waste of messages.
    let counted = client.statistics();
    assert!(counted.stale_aborts < 3, "{counted:?}");
    assert!(counted.missed < 100, "{counted:?}");
}
