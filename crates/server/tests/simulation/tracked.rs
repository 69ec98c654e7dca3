//! A client that tracks what it has read (CLIENT TRACKING), and asks now and then whether there is something to be
//! told. What it keeps then is as new as all that anyone was shown before it asked.

use std::collections::BTreeMap;

use forebay_protocol::Reply;

use crate::book::{broken, expect};
use crate::client::{Client, shown};
use crate::connection::request;

/// Reads and looks of one run.
const LOOKS: u64 = 5;

/// Tracks for a while.
pub async fn tracked(client: &mut Client) {
    let broadcast = client.chance(3);
    let mode = if broadcast { " BCAST" } else { "" };
    let on = client.connection.ask(&[request("HELLO 3"), request(&format!("CLIENT TRACKING ON{mode}"))]).await;
    expect(on[1] == Reply::OK, "errors", || format!("CLIENT TRACKING ON got {on:?}"));
    let mut kept: BTreeMap<String, i64> = BTreeMap::new();
    client.connection.pushes.clear();
    for _ in 0..LOOKS {
        let name = if client.chance(2) { "pair0" } else { client.counter() };
        let reply = client.ask(&[request(&format!("GET {name}"))]).await.remove(0);
        // What it is told behind the reply is of a later change.
        if let Some(number) = shown(&reply) {
            kept.insert(name.to_owned(), number);
        }
        forget(client, &mut kept);
        client.pause(1500).await;
        let lossy = client.book.pages().lossy;
        let floors = client.book.pages().floors.clone();
        client.connection.ask(&[request("PING")]).await;
        forget(client, &mut kept);
        for (name, number) in kept.iter().filter(|_| !lossy) {
            let floor = floors.get(name).copied().unwrap_or_default();
            expect(*number >= floor, "tracking", || {
                format!("{name} is kept as {number}, and {floor} was shown before that was asked for")
            });
        }
    }
    client.connection.ask(&[request("CLIENT TRACKING OFF"), request("HELLO 2")]).await;
}

/// Gives up what it was told of.
fn forget(client: &mut Client, kept: &mut BTreeMap<String, i64>) {
    for push in std::mem::take(&mut client.connection.pushes) {
        let Reply::Push(parts) = &push else { continue };
        match parts.as_slice() {
            [_, Reply::Array(names)] => names.iter().for_each(|name| match name {
                Reply::Bulk(name) => drop(kept.remove(&*String::from_utf8_lossy(name))),
                other => broken("errors", format!("{other:?} is no name")),
            }),
            [_, Reply::Nil | Reply::NilArray] => kept.clear(),
            _ => broken("errors", format!("{push:?}")),
        }
        client.book.pages().marks.told += 1;
    }
}
