//! What a user may be permitted: categories of commands, and a number for each command and each subcommand.

use forebay_protocol::Frame;

use crate::command::Command;

/// All categories of Redis, as ACL CAT shows them: also those of which there are no commands here, since rules that
/// were written for Redis name them.
pub const CATEGORIES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// One thing that a user may be permitted: a command, or a subcommand.
#[derive(Debug, PartialEq, Eq)]
pub struct Permission {
    /// `get`, `config|get`.
    pub name: String,
    /// Its categories.
    pub categories: Vec<&'static str>,
    /// Whether everybody has it.
    pub open: bool,
}

/// All permissions, each command's own followed by those of its subcommands; and by a command's number in the table
/// where its permissions begin.
#[derive(Debug, PartialEq, Eq)]
pub struct Permissions {
    /// In the order of the table.
    pub list: Vec<Permission>,
    starts: Vec<usize>,
}

impl Permissions {
    /// Those of all commands: of each its own, and those of its subcommands.
    pub fn of(commands: impl Iterator<Item = Vec<Permission>>) -> Permissions {
        let (mut list, mut starts) = (Vec::new(), vec![0]);
        for command in commands {
            list.extend(command);
            starts.push(list.len());
        }
        Permissions { list, starts }
    }

    /// The permission of a command as a whole, by its number in the table.
    pub fn of_whole(&self, number: usize) -> usize {
        self.starts[number]
    }

    /// The numbers of the permissions of one of which a request has need. `number` is its command's in the table. One
    /// number, unless it is for a family's help: that tells what anyone knows. None for a subcommand that there is not:
    /// as in Redis every user is told so.
    pub fn needed(&self, number: usize, command: &Command, frame: Frame<'_>) -> Option<std::ops::Range<usize>> {
        let (start, end) = (self.starts[number], self.starts[number + 1]);
        match frame.get(1).filter(|_| end - start > 1) {
            None => Some(start..end),
            Some(name) if name.eq_ignore_ascii_case(b"help") => Some(start..end),
            Some(name) => {
                let of =
                    |at: &usize| self.list[*at].name.as_bytes()[command.name.len() + 1..].eq_ignore_ascii_case(name);
                (start + 1..end).find(of).map(|at| at..at + 1)
            }
        }
    }
}
