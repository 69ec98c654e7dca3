//! All commands and subcommands, family by family.

use std::sync::LazyLock;

use super::category::permissions_of;
use super::{Command, Sub, Table};
use crate::access::permissions::Permissions;

/// All families.
const FAMILIES: &[&[Command]] = &[
    super::connection::COMMANDS,
    super::strings::COMMANDS,
    super::numbers::COMMANDS,
    super::keys::COMMANDS,
    super::expiry::COMMANDS,
    super::hashes::COMMANDS,
    super::lists::COMMANDS,
    super::sets::COMMANDS,
    super::transaction::COMMANDS,
    #[cfg(feature = "lua")]
    super::scripting::COMMANDS,
    super::client::COMMANDS,
    super::tracking::COMMANDS,
    super::catalogue::COMMANDS,
    super::hint::COMMANDS,
    super::lease::COMMANDS,
    super::cache::COMMANDS,
    super::scan::COMMANDS,
    super::server::COMMANDS,
    super::info::COMMANDS,
    super::config::COMMANDS,
    super::slow::COMMANDS,
    super::acl::COMMANDS,
];

/// All commands, family by family.
pub fn all() -> impl Iterator<Item = &'static Command> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

/// The commands by name.
pub fn table() -> Table {
    Table::of(all(), SUBCOMMANDS)
}

/// All commands that have subcommands.
const SUBCOMMANDS: &[(&str, &[Sub])] = &[
    ("client", super::client::SUBS),
    ("command", super::catalogue::SUBS),
    ("config", super::config::SUBS),
    ("slowlog", super::slow::SLOWLOG),
    ("latency", super::slow::LATENCY),
    ("memory", super::server::MEMORY),
    ("debug", super::server::DEBUG),
    ("function", super::server::FUNCTION),
    #[cfg(feature = "lua")]
    ("script", super::scripting::SUBS),
    ("acl", super::acl::SUBS),
    ("hint", super::hint::SUBS),
    ("lease", super::lease::SUBS),
    ("cache", super::cache::SUBS),
];

/// The permissions that there are.
pub static PERMISSIONS: LazyLock<Permissions> = LazyLock::new(|| {
    let table = table();
    Permissions::of(table.all().map(|command| permissions_of(command, table.subcommands(command.name))))
});
