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

/// A script is buffered as one commit, once, though it runs again without what it can't load; what it needs and can't
/// have is an error, and nothing of it is buffered.
#[cfg(feature = "lua")]
#[tokio::test]
async fn a_script_is_buffered_once() {
    let world = world(Faults::default(), |_| ());
    let mut peer = Peer::new(&world.shared);
    peer.check(&[("SET a 1", "+OK|"), ("SET n 40", "+OK|")]).await;
    world.loses_all(&mut peer).await;
    let script = async |peer: &mut Peer, script: &str| {
        let mut bytes = bytes::BytesMut::new();
        forebay_protocol::encode_command(&mut bytes, &["EVAL", script, "3", "a", "b", "n"]);
        peer.raw(&bytes).await
    };
    let pending = world.gate.state().amount.transactions;
    let writes = "redis.call('SET', KEYS[1], 5) redis.call('SET', KEYS[2], 6) return redis.call('GET', KEYS[1])";
    assert_eq!(script(&mut peer, writes).await, "$1|5|");
    assert_eq!(world.gate.state().amount.transactions, pending + 1);
    peer.check(&[("CACHE BLIND OFF", "+OK|")]).await;
    let needs = script(&mut peer, "redis.call('SET', KEYS[1], 9) return redis.call('INCR', KEYS[3])").await;
    assert!(needs.starts_with("-STOREDOWN"), "{needs}");
    assert_eq!(world.gate.state().amount.transactions, pending + 1);
    world.is_back().await;
    peer.check(&[("GET a", "$1|5|"), ("GET b", "$1|6|"), ("GET n", "$2|40|")]).await;
}
