//! How much it matters to a client that what it writes is in the store at once.

use forebay::outage::Mode;
use forebay::store::faulty::Faults;

use crate::support::Peer;
use crate::world;

/// So many names of different lanes.
fn names(count: usize) -> Vec<String> {
    let mut lanes = std::collections::HashSet::new();
    let mut all = (0..).map(|number| format!("k{number}"));
    let mut is_new = |name: &String| {
        let hash = forebay::Key::new(0, name.as_bytes()).borrow().hash64();
        lanes.insert(hash % u64::from(forebay::outage::lanes::HASH_LANES))
    };
    std::iter::from_fn(|| all.find(|name| is_new(name))).take(count).collect()
}

/// What matters little is kept while the store is busy with what was kept before; what matters more goes past that.
#[tokio::test]
async fn low_priority_gives_the_store_time_to_recover() {
    let world = world(Faults::default(), |settings| (settings.merge, settings.per_second_max) = (false, 1));
    let mut peer = Peer::new(&world.shared);
    let names = names(6);
    let transaction = |options: &str, name: &str| format!("TXN BEGIN{options}\nSET {name} v\nTXN COMMIT");
    assert_eq!(peer.say("TXN BEGIN PRIORITY urgent").await, "-ERR syntax error|");
    assert_eq!(peer.say("TXN BEGIN PRIORITY").await, "-ERR syntax error|");
    let calm = peer.say(&transaction(" PRIORITY Low TYPE t", &names[0])).await;
    assert!(calm.starts_with("+OK|+OK|+OK "), "{calm}");
    world.set_down(true);
    // They go one a second.
    for ticket in 1..=3 {
        assert_eq!(peer.say(&transaction("", &names[0])).await, format!("+OK|+OK|+BUFFERED {ticket}|"));
    }
    assert_eq!(peer.say(&transaction(" PRIORITY high", &names[1])).await, "+OK|+OK|+BUFFERED 4|");
    world.set_down(false);
    assert!(peer.say("CACHE WAIT 3 600000").await.starts_with("+APPLIED "));
    assert_eq!(world.gate.state().mode, Mode::Recovery);
    assert_eq!(peer.say(&transaction(" PRIORITY low", &names[2])).await, "+OK|+OK|+BUFFERED 5|");
    for (options, name) in [("", &names[3]), (" PRIORITY normal", &names[4]), (" PRIORITY high", &names[5])] {
        let direct = peer.say(&transaction(options, name)).await;
        assert!(direct.starts_with("+OK|+OK|+OK "), "{options}: {direct}");
    }
    // Who wants it in the store or nowhere does not want it kept.
    assert_eq!(peer.say("CACHE STRICT ON").await, "+OK|");
    let direct = peer.say(&transaction(" PRIORITY low", &names[3])).await;
    assert!(direct.starts_with("+OK|+OK|+OK "), "{direct}");
    assert_eq!(world.gate.state().amount.transactions, 2);
    world.gate.validate();
}
