//! What belongs to which category, and what is done to a key, as redis-server itself says.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Connection, start_redis};
use forebay_protocol::Reply;
use forebay_server::command::category::PERMISSIONS;

/// Categories that decide what is safe to give away. Redis' `fast` and `slow` are its own.
const COMPARED: &[&str] =
    &["read", "write", "admin", "dangerous", "connection", "transaction", "keyspace", "string", "hash", "list", "set"];

/// Where forebay's differ, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("acl", "of a family only its subcommands count"),
    ("client", "the same"),
    ("config", "the same"),
    ("slowlog", "the same"),
    ("latency", "the same"),
    ("function|flush", "there are no functions, so it writes nothing"),
    ("object", "has no records of its subcommands; all of them read"),
];

fn text(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Reply::Text(text) => Some(text.to_string()),
        Reply::Simple(text) => Some(text.to_string()),
        _ => None,
    }
}

fn collect(commands: &[Reply], into: &mut BTreeMap<String, BTreeSet<String>>) {
    for command in commands {
        let Reply::Array(fields) = command else { continue };
        let (Some(name), Some(Reply::Array(categories))) = (text(&fields[0]), fields.get(6)) else { continue };
        let categories = categories.iter().filter_map(text).map(|name| name.trim_start_matches('@').to_owned());
        into.insert(name, categories.filter(|name| COMPARED.contains(&&**name)).collect());
        if let Some(Reply::Array(subs)) = fields.get(9) {
            collect(subs, into);
        }
    }
}

#[test]
fn categories_are_those_of_redis() {
    let Some(redis) = start_redis() else {
        eprintln!("SKIPPED, NOT TESTED: there is no redis-server");
        return;
    };
    let Reply::Array(commands) = Connection::new(redis.address).call(&["COMMAND"]) else { panic!("a list") };
    let mut theirs = BTreeMap::new();
    collect(&commands, &mut theirs);
    let mut compared = 0;
    for permission in &PERMISSIONS.list {
        let known = theirs.get(&permission.name);
        let Some(known) = known.filter(|_| DIFFERENT.iter().all(|(name, _)| *name != permission.name)) else {
            continue;
        };
        let ours = permission.categories.iter().filter(|name| COMPARED.contains(name));
        let ours: BTreeSet<String> = ours.map(|name| (*name).to_owned()).collect();
        assert_eq!(&ours, known, "{}", permission.name);
        compared += 1;
    }
    assert!(compared > 120, "only {compared} names are known to both");
}
