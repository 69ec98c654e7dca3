//! What `CACHE STATE` says.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;

/// Longest wait for a drain on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// An entry.
pub fn entry(client: &mut Connection, name: &str) -> Reply {
    let Reply::Array(pairs) = client.call(&["CACHE", "STATE"]) else { panic!("CACHE STATE is a list in RESP2") };
    let found = pairs.chunks(2).find(|pair| pair[0] == Reply::bulk(name.as_bytes()));
    found.unwrap_or_else(|| panic!("no {name} in {pairs:?}"))[1].clone()
}

/// The mode.
pub fn mode(client: &mut Connection) -> String {
    match entry(client, "mode") {
        Reply::Bulk(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("{other:?}"),
    }
}

/// A number.
pub fn figure(client: &mut Connection, name: &str) -> i64 {
    match entry(client, name) {
        Reply::Integer(number) => number,
        other => panic!("{name}: {other:?}"),
    }
}

/// Waits until the mode is normal and nothing is pending.
pub fn calm(address: SocketAddr) {
    let mut client = Connection::new(address);
    let began = Instant::now();
    while mode(&mut client) != "normal" || figure(&mut client, "pending") > 0 {
        assert!(began.elapsed() < PATIENCE, "{:?}", client.call(&["CACHE", "STATE"]));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// All that a reply says, as one text.
pub fn said(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        Reply::Error(text) => String::from_utf8_lossy(text).into_owned(),
        Reply::Simple(text) => text.to_string(),
        Reply::Array(items) => items.iter().map(said).collect::<Vec<_>>().join(" "),
        other => format!("{other:?}"),
    }
}
