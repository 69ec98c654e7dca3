//! Forebay's own: HINT and CACHE.

use super::Command;

pub(super) const COMMANDS: &[Command] = &[];
