//! One setting, as a record.

use super::form::Form;
use super::forms::Switch;
use super::shares;
use super::values::Settings;

/// A heading under which settings stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Addresses and threads.
    Serving,
    /// Passwords, users and TLS.
    Access,
    /// The store.
    Store,
    /// What happens while the store is away.
    Outage,
    /// Cache and policy.
    Cache,
    /// Logs and traces.
    Watching,
    /// Limits.
    Limits,
}

/// The headings in the order in which they are shown.
pub const GROUPS: [Group; 7] =
    [Group::Serving, Group::Access, Group::Store, Group::Outage, Group::Cache, Group::Watching, Group::Limits];

impl Group {
    /// Its text.
    pub fn heading(self) -> &'static str {
        match self {
            Group::Serving => "Serving",
            Group::Access => "Who may come in",
            Group::Store => "Store",
            Group::Outage => "While the database is down",
            Group::Cache => "Cache",
            Group::Watching => "Logs and traces",
            Group::Limits => "Limits",
        }
    }
}

/// One setting, declared once.
pub struct Setting {
    /// Flag without its dashes, and key in the file.
    pub name: &'static str,
    /// Where it stands in help texts.
    pub group: Group,
    /// What stands for the value in help texts.
    pub value: &'static str,
    /// What it does.
    pub(super) summary: &'static str,
    /// What may be given, if the summary does not say.
    pub(super) choices: fn() -> String,
    /// Reads the text as typed.
    pub(super) read: fn(&mut Settings, &str) -> Result<(), String>,
    /// The text that reads back as the value.
    pub(super) show: fn(&Settings) -> String,
}

impl Setting {
    /// What it does and what may be given.
    pub fn help(&self) -> String {
        match ((self.choices)(), shares::share_of(self.name)) {
            (_, Some(share)) => format!("{}; by default {}", self.summary, share.text()),
            (none, None) if none.is_empty() => self.summary.into(),
            (choices, None) => format!("{}: {choices}", self.summary),
        }
    }

    /// Its default as text.
    pub fn default_text(&self) -> String {
        (self.show)(&Settings::default())
    }

    /// Its value in `settings` as text.
    pub fn show(&self, settings: &Settings) -> String {
        (self.show)(settings)
    }

    /// Whether it is a flag that needs no value.
    pub fn is_switch(&self) -> bool {
        self.value == <Switch as Form<bool>>::VALUE
    }
}
