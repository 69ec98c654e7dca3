//! What is written to documents that nobody knows while the store is away.

use std::time::Duration;

use forebay::outage::Mode;
use forebay::store::faulty::Faults;

use crate::support::Peer;
use crate::{World, world};

impl World {
    /// The store goes away, and nothing is cached.
    async fn loses_all(&self, peer: &mut Peer) {
        self.shared.engine.cache().clear(|_| true);
        self.set_down(true);
        assert!(peer.say("GET nothing").await.starts_with("-STOREDOWN"));
        self.reaches(Mode::Failed).await;
        assert_eq!(peer.say("CACHE BLIND ON").await, "+OK|");
    }

    async fn is_back(&self) {
        self.set_down(false);
        self.reaches(Mode::Normal).await;
        self.gate.validate();
    }
}

/// What had expired by the time of the write is not there for it: it makes a new document, which does not expire.
#[tokio::test]
async fn what_is_written_to_an_expired_document_stays() {
    let world = world(Faults::default(), |_| ());
    let mut peer = Peer::new(&world.shared);
    peer.check(&[("SET n 40 PX 200", "+OK|"), ("HSET h a 1", ":1|"), ("PEXPIRE h 200", ":1|")]).await;
    peer.check(&[("SET m 40 EX 1000", "+OK|")]).await;
    world.loses_all(&mut peer).await;
    peer.check(&[("HMSET h early 1", "+OK|"), ("INCR m", "$-1|")]).await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    peer.check(&[("INCR n", "$-1|"), ("HMSET h b 2", "+OK|"), ("HGET h b", "$1|2|")]).await;
    world.is_back().await;
    peer.check(&[("GET n", "$1|1|"), ("TTL n", ":-1|"), ("HMGET h a b", "*2|$-1|$1|2|"), ("TTL h", ":-1|")]).await;
    peer.check(&[("GET m", "$2|41|")]).await;
    assert_ne!(peer.say("TTL m").await, ":-1|");
}

/// A script changes several documents: of those that are buffered it knows what they hold.
#[tokio::test]
async fn what_is_buffered_is_seen_beside_what_is_not() {
    let world = world(Faults::default(), |_| ());
    let mut peer = Peer::new(&world.shared);
    peer.check(&[("SET n 40", "+OK|"), ("SET m 1", "+OK|")]).await;
    world.loses_all(&mut peer).await;
    peer.check(&[("SET m 7", "+OK|")]).await;
    world.shared.engine.cache().clear(|_| true);
    let script = peer.say("MULTI\nINCR m\nINCR n\nEXEC").await;
    assert!(script.ends_with("*2|:8|$-1|"), "{script}");
    peer.check(&[("GET m", "$1|8|"), ("DEL m n x", "$-1|"), ("GET m", "$-1|")]).await;
    world.is_back().await;
    peer.check(&[("EXISTS m n x", ":0|")]).await;
}
