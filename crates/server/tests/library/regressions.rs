//! What runs have found, as short tests.

use std::time::Duration;

use bytes::BytesMut;
use forebay::runtime::simulated::network::{Conditions, Host, Network, Stream, Told};
use forebay::runtime::simulated::{Ended, Simulation, SplitMix};
use forebay_protocol::{Reply, ReplyDecoder, ReplyLimits, encode_command};

use crate::server::{ADDRESS, Kept, Server};

/// Sends one request.
async fn send(stream: &Stream, text: &str) {
    let mut bytes = BytesMut::new();
    encode_command(&mut bytes, &text.split(' ').collect::<Vec<_>>());
    assert_eq!(stream.try_write(&bytes).unwrap(), bytes.len());
}

/// What a new connection is told.
async fn ask(host: &Host, text: &str) -> Reply {
    let stream = host.connect(ADDRESS).await.unwrap();
    send(&stream, text).await;
    reply(&stream).await
}

async fn reply(stream: &Stream) -> Reply {
    let (mut decoder, mut input) = (ReplyDecoder::new(ReplyLimits::default()), BytesMut::new());
    loop {
        if let Some(reply) = decoder.decode(&mut input).unwrap() {
            return reply;
        }
        stream.readable().await;
        let mut bytes = [0; 100];
        let count = stream.try_read(&mut bytes).unwrap();
        input.extend_from_slice(&bytes[..count]);
    }
}

/// Seed 53 of `faults`: half of a commit had come, and its connection was cut without a word to the server. The commit
/// stayed open for ever, since no session ended that had named its id.
#[test]
fn half_of_a_commit_is_over_in_the_end() {
    let simulation = Simulation::new(53);
    let network = Network::new(&simulation, Conditions::default());
    let (on_server, on_client) = (simulation.node(0, 0), simulation.node(0, 0));
    let mut server = Server::new(on_server, &network, Kept::Nothing, SplitMix::new(53));
    let (host, world) = (network.host(&on_client), simulation.runtime());
    let ended = simulation.run(async move {
        server.start();
        let id = "00000000000000000000000000000053";
        let stream = host.connect(ADDRESS).await.unwrap();
        send(&stream, &format!("LEASE CHECK ID {id} k -1-0")).await;
        assert_eq!(reply(&stream).await, Reply::OK);
        network.cut(stream.connection(), [Told::Reset, Told::Nothing]);
        drop(stream);
        let is_open = |reply: &Reply| matches!(reply, Reply::Error(text) if text.starts_with(b"TXCONFLICT"));
        let told = ask(&host, &format!("TXN BEGIN ID {id}")).await;
        assert!(is_open(&told), "{told:?}");
        world.sleep(Duration::from_secs(130)).await;
        assert_eq!(ask(&host, &format!("TXN BEGIN ID {id}")).await, Reply::OK, "none knows of it");
    });
    assert_eq!(ended, Ended::Done);
}
