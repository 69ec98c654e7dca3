//! What belongs to which category, and is flagged how in COMMAND, as redis-server itself says.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::process::Forebay;
use crate::common::{Connection, start_redis};
use forebay_protocol::Reply;
use forebay_server::command::PERMISSIONS;

/// Categories, and flags: those that clients and operators decide by.
const COMPARED: &[&str] = &[
    "@read",
    "@write",
    "@admin",
    "@dangerous",
    "@connection",
    "@transaction",
    "@keyspace",
    "@string",
    "@hash",
    "@list",
    "@set",
    "@fast",
    "@slow",
    "readonly",
    "write",
    "admin",
    "fast",
];

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
        let (Some(name), Some(Reply::Array(flags)), Some(Reply::Array(categories))) =
            (text(&fields[0]), fields.get(2), fields.get(6))
        else {
            continue;
        };
        let words = flags.iter().chain(categories).filter_map(text);
        into.insert(name, words.filter(|word| COMPARED.contains(&&**word)).collect());
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
    let forebay = Forebay::start("memory", &[]);
    let [ours, theirs] = [forebay.address, redis.address].map(|address| {
        let Reply::Array(commands) = Connection::new(address).call(&["COMMAND"]) else { panic!("a list") };
        let mut found = BTreeMap::new();
        collect(&commands, &mut found);
        found
    });
    let different = |name: &str| DIFFERENT.iter().any(|(known, _)| *known == name);
    let common: Vec<_> = ours.iter().filter(|(name, _)| theirs.contains_key(*name) && !different(name)).collect();
    let wrong: Vec<_> = common.iter().filter(|(name, words)| *words != &theirs[*name]).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(common.len() > 120, "only {} names are known to both", common.len());
    assert_eq!(ours.len(), PERMISSIONS.list.len(), "COMMAND shows all");
}
