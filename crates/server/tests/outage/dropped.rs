//! What an operator gives up.

use std::sync::atomic::Ordering;

use forebay::outage::Mode;
use forebay::store::faulty::Faults;

use crate::support::Peer;
use crate::world;

/// Whoever has read what is given up is done before, and who reads next finds it gone: DROP holds the locks.
#[tokio::test]
async fn nobody_builds_on_what_is_being_given_up() {
    let world = world(Faults::default(), |_| {});
    let (mut peer, mut other) = (Peer::new(&world.shared), Peer::new(&world.shared));
    peer.check(&[("SET poison before", "+OK|")]).await;
    world.set_down(true);
    peer.check(&[("SET poison bad", "+OK|"), ("CACHE OUTCOME", "+BUFFERED 1|")]).await;
    world.store.refuses.store(true, Ordering::SeqCst);
    world.set_down(false);
    assert_eq!(peer.say("CACHE WAIT 1 600000").await, "+QUARANTINED it is poison|");
    world.reaches(Mode::Normal).await;
    assert_eq!(other.say("TXN BEGIN\nGET poison").await, "+OK|$3|bad|");
    let refused = peer.say("CACHE QUARANTINE DROP 1 wrong").await;
    assert!(refused.starts_with("-TXCONFLICT "), "{refused}");
    assert_eq!(peer.say("CACHE WAIT 1 0").await, "+QUARANTINED it is poison|");
    assert_eq!(other.say("TXN ABORT").await, "+OK|");
    peer.check(&[("CACHE QUARANTINE DROP 1 wrong", "+OK|"), ("GET poison", "$6|before|")]).await;
    assert_eq!(peer.say("CACHE WAIT 1 0").await, "+DROPPED wrong|");
    assert_eq!(world.shared.engine.locked_keys(), 0);
    world.gate.validate();
}
