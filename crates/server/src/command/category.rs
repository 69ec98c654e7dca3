//! Categories of commands, from their records, and what may be permitted.

use super::{Command, Effect, Flag, Group, Run, Sub};
use crate::access::permissions::Permission;

/// What a command does to documents as far as its record says; `None` if it works on none.
pub(super) fn effect(command: &Command) -> Option<Effect> {
    match command.run {
        Run::Documents(effect, _) => Some(effect),
        Run::Varying(..) => Some(Effect::ReadWrite),
        Run::Session(_) | Run::Engine(_) | Run::Cached(..) => None,
    }
}

/// What follows from a record's flags.
fn of_flags(flags: &[Flag], categories: &mut Vec<&'static str>) {
    for flag in flags {
        match flag {
            Flag::Reads => categories.push("read"),
            Flag::Writes => categories.push("write"),
            Flag::Admin => categories.extend(["admin", "dangerous"]),
            Flag::Dangerous => categories.push("dangerous"),
            _ => {}
        }
    }
}

fn of_group(command: &Command) -> Option<&'static str> {
    // Not with the connection in the documents, but what a connection may need to begin with, as in Redis.
    if matches!(command.name, "command" | "wait") {
        return Some("connection");
    }
    match command.group {
        Group::Connection => Some("connection"),
        Group::Strings => Some("string"),
        Group::Keys => Some("keyspace"),
        Group::Hashes => Some("hash"),
        Group::Lists => Some("list"),
        Group::Sets => Some("set"),
        Group::Transactions => Some("transaction"),
        Group::Scripting => Some("scripting"),
        Group::PubSub => Some("pubsub"),
        // What looks at a whole key space, or empties it.
        Group::Server if command.is(Flag::Reads) || command.is(Flag::Writes) => Some("keyspace"),
        Group::Cache | Group::Server => None,
    }
}

/// The categories of a command, without `@`.
pub fn categories(command: &Command) -> Vec<&'static str> {
    let mut categories = Vec::new();
    match effect(command) {
        Some(Effect::Read) => categories.push("read"),
        Some(_) => categories.push("write"),
        None => {}
    }
    categories.extend(of_group(command));
    of_flags(command.flags, &mut categories);
    categories.push(if command.is(Flag::Fast) { "fast" } else { "slow" });
    categories
}

/// The categories of a subcommand: those of its family's group and of its own flags.
pub fn sub_categories(command: &Command, sub: &Sub) -> Vec<&'static str> {
    let mut categories: Vec<_> = of_group(command).into_iter().collect();
    of_flags(sub.flags, &mut categories);
    categories.push("slow");
    categories
}

/// What may be permitted of a command: itself, and each of its subcommands.
pub(super) fn permissions_of(command: &Command, subs: &[Sub]) -> Vec<Permission> {
    let open = command.is(Flag::NoAuth);
    let own = Permission { name: command.name.to_owned(), categories: categories(command), open };
    let subs = subs.iter().map(|sub| {
        let name = format!("{}|{}", command.name, sub.name);
        Permission { name, categories: sub_categories(command, sub), open }
    });
    std::iter::once(own).chain(subs).collect()
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use forebay_protocol::{Batch, Decoder, Limits};

    use crate::access::permissions::CATEGORIES;
    use crate::access::rights::Rights;
    use crate::command::{PERMISSIONS, all};

    #[test]
    fn every_permission_is_of_known_categories_and_has_one_name() {
        let mut names: Vec<_> = PERMISSIONS.list.iter().map(|permission| &permission.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "each name once");
        for permission in &PERMISSIONS.list {
            let known = permission.categories.iter().all(|category| CATEGORIES.contains(category));
            assert!(known, "{}", permission.name);
            assert_eq!(permission.name, permission.name.to_ascii_lowercase());
        }
        assert!(all().all(|command| command.name.len() <= super::super::NAME_BYTES_MAX));
    }

    /// What must not be had with `+@all -@dangerous`.
    #[test]
    fn what_is_dangerous_is_so() {
        for name in DANGEROUS.split_ascii_whitespace() {
            let found = PERMISSIONS.list.iter().find(|permission| permission.name == name);
            assert!(found.is_some_and(|permission| permission.categories.contains(&"dangerous")), "{name}");
        }
    }

    const DANGEROUS: &str = "flushall flushdb keys monitor shutdown config|set config|get acl|setuser acl|list \
        client|kill client|list client|pause client|unpause slowlog|get debug|sleep debug|store info cache|reset \
        cache|trace cache|pending cache|quarantine cache|drain";

    /// What a user of a shared server is given: nothing of it reaches other clients or the server itself. As in Redis,
    /// `+@connection` alone would: CLIENT KILL and PAUSE are of it.
    #[test]
    fn reading_and_connecting_without_danger_is_harmless() {
        let rights = |rules: &[&str]| {
            let mut rights = Rights::none(&PERMISSIONS);
            rules.iter().for_each(|rule| rights.apply(rule.as_bytes()).unwrap());
            rights
        };
        let (report, connection) =
            (rights(&["~*", "+@read", "+@connection", "-@dangerous"]), rights(&["+@connection"]));
        let table = crate::command::table();
        let may = |rights: &Rights, name: &str| {
            let mut request = BytesMut::new();
            forebay_protocol::encode_command(&mut request, &name.split('|').collect::<Vec<_>>());
            let mut batch = Batch::default();
            Decoder::new(Limits::default()).decode_batch(&mut request, 1, &mut batch).unwrap();
            let (number, command) = table.find_numbered(batch.frame(0).arg(0)).unwrap();
            rights.check(number, command, batch.frame(0)).is_ok()
        };
        for name in DANGEROUS.split_ascii_whitespace() {
            assert!(!may(&report, name), "{name}");
        }
        for name in ["get", "scan", "ping", "client|setname", "client|id", "auth", "hello"] {
            assert!(may(&report, name), "{name}");
        }
        for name in ["client|kill", "client|pause", "client|unpause", "client|list"] {
            assert!(may(&connection, name), "{name}");
        }
    }
}
