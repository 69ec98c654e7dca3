//! The table of commands for `docs/commands.md`, made from the records.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Command, Effect, Group, Run, table};

impl Group {
    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Group::Connection => "Connection",
            Group::Strings => "Strings",
            Group::Keys => "Keys",
            Group::Hashes => "Hashes",
            Group::Lists => "Lists",
            Group::Sets => "Sets",
            Group::Transactions => "Transactions",
            Group::Scripting => "Scripts",
            Group::PubSub => "Publish and subscribe",
            Group::Cache => "Cache and hints",
            Group::Server => "Server",
        }
    }
}

/// What the command does to the documents of its keys, in a word.
fn effect(command: &Command) -> &'static str {
    match command.run {
        Run::Documents(Effect::Read, _) => "read",
        Run::Documents(Effect::Blind, _) => "blind",
        Run::Documents(Effect::ReadWrite, _) => "read-write",
        Run::Varying(..) => "by options",
        Run::Session(_) | Run::Engine(_) | Run::Cached(..) => "",
    }
}

/// All commands as Markdown, a table for each family.
pub fn markdown_table() -> String {
    let mut groups: BTreeMap<Group, Vec<&Command>> = BTreeMap::new();
    let table = table();
    for command in table.all() {
        groups.entry(command.group).or_default().push(command);
    }
    let mut text = String::new();
    for (group, mut commands) in groups {
        commands.sort_by_key(|command| command.name);
        // Writing to a string does not fail.
        let _ = write!(text, "\n### {}\n\n| Command | Effect | What it does |\n|---|---|---|\n", group.title());
        for command in commands {
            let name = command.name.to_ascii_uppercase();
            let usage = format!("{name} {}", command.syntax.replace('|', "\\|"));
            let _ = writeln!(text, "| `{}` | {} | {} |", usage.trim_end(), effect(command), command.summary);
            for sub in table.subcommands(command.name) {
                let usage = format!("{name} {} {}", sub.name.to_ascii_uppercase(), sub.syntax.replace('|', "\\|"));
                let _ = writeln!(text, "| `{}` |  | {} |", usage.trim_end(), sub.summary.replace('|', "\\|"));
            }
        }
    }
    text.push('\n');
    text
}
