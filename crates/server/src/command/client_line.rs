//! A client as CLIENT LIST shows it.

use std::sync::atomic::Ordering;

use crate::clients::Client;
use crate::state::Shared;

/// What a client is at: a letter for each, in the order of Redis.
fn flags(client: &Client, in_multi: bool) -> String {
    let shown = &client.tracking;
    let all = [
        (shown.subscribed.load(Ordering::Relaxed), 'P'),
        (in_multi, 'x'),
        (shown.redirect.load(Ordering::Relaxed) >= 0, 't'),
        (shown.bereft.load(Ordering::Relaxed), 'R'),
        (shown.broadcast.load(Ordering::Relaxed), 'B'),
    ];
    let flags: String = all.into_iter().filter(|(is, _)| *is).map(|(_, flag)| flag).collect();
    if flags.is_empty() { "N".into() } else { flags }
}

/// One line in Redis' form. What forebay does not count per client is 0.
pub fn client_line(client: &Client, shared: &Shared, now_ms: u64) -> String {
    let names = client.names().clone();
    let multi = client.multi.load(Ordering::Relaxed) as i64 - 1;
    let active_ms = client.active_ms.load(Ordering::Relaxed);
    let in_txn = client.in_txn.load(Ordering::Relaxed);
    let command = shared.table.numbered(client.command.load(Ordering::Relaxed)).map_or("NULL", |command| command.name);
    format!(
        "id={} addr={} laddr={} fd=0 name={} age={} idle={} flags={} db={} sub={} psub=0 ssub=0 multi={multi} watch={} \
         qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd={command} \
         user={} redir={} resp={} lib-name={} lib-ver={} txn={}\n",
        client.id,
        client.address,
        client.local_address,
        names.name,
        now_ms.saturating_sub(client.connected_ms) / 1000,
        now_ms.saturating_sub(active_ms) / 1000,
        flags(client, multi >= 0),
        client.space.load(Ordering::Relaxed),
        u8::from(client.tracking.subscribed.load(Ordering::Relaxed)),
        client.watched.load(Ordering::Relaxed),
        names.user,
        client.tracking.redirect.load(Ordering::Relaxed),
        client.protocol.load(Ordering::Relaxed),
        names.library,
        names.library_version,
        u8::from(in_txn),
    )
}
