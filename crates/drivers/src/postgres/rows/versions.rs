//! Where versions of rows are kept: what `forebay store init` has put there, and whether it still is.
//!
//! **Invariant.** A commit that compares versions of rows is made only if what gives them a new version at each write
//! is there, in the very snapshot that is compared ([`Table::overtaken_at`]). A trigger can't go while our statement
//! is on its way, since that takes a lock of the table. So whatever becomes of the triggers while forebay serves, no
//! version of before is taken for that of a row that was written since. Versions that were not kept for a while are
//! replaced by new ones when `store init` makes the triggers again (`install`).

use tokio_postgres::{Client, Error};

use super::sql::quoted_text;
use crate::postgres::classify::UNKEPT;
use crate::postgres::noted;
use crate::sql::mapping::{Mapping, VersionMode};
use crate::sql::table::{Table, VERSION_COLUMN};
use crate::sql::watching::OutsideBy;

/// The trigger that gives a row's column its next version.
const VERSION: &str = "forebay_version";

/// The trigger that notes what is written.
const CHANGE: &str = "forebay_change";

/// What the function has in its text that keeps versions beside the table.
const BESIDE: &str = "INSERT INTO forebay.row_versions";

/// Forebay's triggers: whether each fires, its function, whether that keeps versions beside the table, whether neither
/// of two texts stands in it, and the columns in its text that are not there.
const TRIGGERS: &str = "\
SELECT t.tgname::text, t.tgenabled IN ('O', 'A'), p.oid::regproc::text, position($4 IN p.prosrc) > 0,
    position($2 IN p.prosrc) = 0 AND position($3 IN p.prosrc) = 0,
    ARRAY(SELECT DISTINCT replace(m[1], '\"\"', '\"')
        FROM regexp_matches(p.prosrc, '(?:NEW|OLD)[.]\"((?:[^\"]|\"\")*)\"', 'g') AS m
        WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = $1 AND a.attname = replace(m[1], '\"\"', '\"')
            AND a.attnum > 0 AND NOT a.attisdropped))
FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid = $1 AND t.tgname IN ('forebay_version', 'forebay_change', 'forebay_truncate')
ORDER BY t.tgname";

struct Trigger {
    name: String,
    enabled: bool,
    function: String,
    /// It keeps versions beside the table.
    beside: bool,
    /// It notes another table's changes, or by another key: the table has got another name since, or the mapping
    /// another key, or an older forebay gave one name to two functions.
    strange: bool,
    /// Columns that it reads and that are not there.
    missing: Vec<String>,
}

/// What keeps the versions of a table's rows.
pub(in crate::postgres) struct Keeping {
    /// The table's name.
    name: String,
    column: bool,
    triggers: Vec<Trigger>,
}

impl Keeping {
    /// Looks at the triggers of the table `name`; `columns` are its columns, and `key` those of the mapping.
    pub(super) async fn look_up<'a>(
        client: &Client,
        (oid, name): (u32, &str),
        key: &[String],
        mut columns: impl Iterator<Item = &'a str>,
    ) -> Result<Keeping, Error> {
        let [noted, by_an_older] = noted::notes(name, key);
        let column = columns.any(|column| column == VERSION_COLUMN);
        let rows = client.query(TRIGGERS, &[&oid, &noted, &by_an_older, &BESIDE]).await?;
        let trigger = |row: &tokio_postgres::Row| {
            let (name, mut missing): (String, Vec<String>) = (row.get(0), row.get(5));
            if name == VERSION && !column {
                missing.push(VERSION_COLUMN.into());
            }
            let strange = name != VERSION && row.get(4);
            Trigger { name, enabled: row.get(1), function: row.get(2), beside: row.get(3), strange, missing }
        };
        Ok(Keeping { name: name.to_owned(), column, triggers: rows.iter().map(trigger).collect() })
    }

    fn trigger(&self, name: &str) -> Option<&Trigger> {
        self.triggers.iter().find(|trigger| trigger.name == name)
    }

    fn fires(&self, name: &str) -> Option<&Trigger> {
        self.trigger(name).filter(|trigger| trigger.enabled)
    }

    /// Whether each write gives a row another version of this mode.
    pub(in crate::postgres) fn keeps(&self, mode: VersionMode) -> bool {
        match mode {
            VersionMode::None | VersionMode::Auto => true,
            VersionMode::Column => self.column && self.fires(VERSION).is_some(),
            VersionMode::Side => self.fires(CHANGE).is_some_and(|trigger| trigger.beside && !trigger.strange),
        }
    }

    /// The mode that a mapping has which names none: that by which versions are kept and writes are noted.
    pub(super) fn found(&self) -> VersionMode {
        let noted = self.fires(CHANGE).is_some();
        let modes = [VersionMode::Column, VersionMode::Side];
        modes.into_iter().find(|mode| noted && self.keeps(*mode)).unwrap_or(VersionMode::None)
    }

    /// The mode for which the triggers were made, whether or not they fire.
    pub(in crate::postgres) fn made_for(&self) -> Option<VersionMode> {
        match self.trigger(CHANGE) {
            Some(trigger) if trigger.beside => Some(VersionMode::Side),
            _ => self.trigger(VERSION).map(|_| VersionMode::Column),
        }
    }

    /// Whether the table has the column of versions.
    pub(in crate::postgres) fn has_column(&self) -> bool {
        self.column
    }

    /// Why `mapping` can not be served. `owner` is the table's owner; `may_trigger` says whether our role may make
    /// triggers.
    pub(super) fn problems(&self, mapping: &Mapping, (may_trigger, owner): (bool, &str)) -> Vec<String> {
        let (name, wanted) = (&self.name, mapping.version);
        let failing = |trigger: &Trigger| {
            let (trigger, columns) = (&trigger.name, trigger.missing.join(", "));
            format!(
                "the trigger {trigger} of {name} reads {columns}, a column that is not there, so every write to the \
                 table fails, other programs' too; run `forebay store init` again"
            )
        };
        let failing: Vec<String> = self
            .triggers
            .iter()
            .filter(|trigger| trigger.enabled && !trigger.missing.is_empty())
            .map(failing)
            .collect();
        if !failing.is_empty() || wanted == VersionMode::None {
            return failing;
        }
        let strange = |trigger: &Trigger| {
            let Trigger { name: trigger, function, .. } = trigger;
            format!(
                "the trigger {trigger} of {name} calls {function}, which notes other tables' changes or by another \
                 key, so what others write here is not seen; run `forebay store init` again"
            )
        };
        let strange: Vec<String> = self.triggers.iter().filter(|trigger| trigger.strange).map(strange).collect();
        if !strange.is_empty() && self.fires(CHANGE).is_some() {
            return strange;
        }
        if wanted == VersionMode::Auto || self.keeps(wanted) && self.fires(CHANGE).is_some() {
            return Vec::new();
        }
        let word = wanted.word();
        if let Some(made_for) = self.made_for().filter(|made_for| *made_for != wanted) {
            let made_for = made_for.word();
            return vec![format!(
                "the mapping says version({word}), and {name} keeps its versions by `{made_for}`; say \
                 version({made_for}), or nothing (docs/postgres.md says how to change it)"
            )];
        }
        if let Some(disabled) = self.disabled() {
            return vec![disabled];
        }
        vec![match may_trigger {
            true => format!("{name} keeps no versions yet; run `forebay store init --version {word}`"),
            false => format!(
                "{name} keeps no versions yet; have {owner} run the output of `forebay store init --print --version \
                 {word}`"
            ),
        }]
    }

    /// That triggers are disabled, if some are.
    fn disabled(&self) -> Option<String> {
        let disabled: Vec<&str> =
            self.triggers.iter().filter(|trigger| !trigger.enabled).map(|trigger| trigger.name.as_str()).collect();
        let (name, triggers) = (&self.name, disabled.join(", "));
        (!disabled.is_empty()).then(|| {
            format!(
                "{name} has forebay's triggers disabled ({triggers}), so what others write to it is not seen; run \
                 `forebay store init`, which makes them again, and then start forebay again"
            )
        })
    }

    /// Triggers that are disabled or incomplete. Forebay starts all the same.
    pub(super) fn doubt(&self) -> Option<String> {
        let incomplete = || {
            let there: Vec<&str> = self.triggers.iter().map(|trigger| trigger.name.as_str()).collect();
            let (name, there) = (&self.name, there.join(", "));
            let left = (self.found() == VersionMode::None && !there.is_empty()).then_some(there)?;
            Some(format!(
                "{name} has only some of forebay's triggers ({left}), so what others write to it is not seen; run \
                 `forebay store init`, which makes them again, and then start forebay again"
            ))
        };
        self.disabled().or_else(incomplete)
    }
}

/// What is wrong with the triggers of `tables`, if triggers are what tells of other programs' writes.
pub(in crate::postgres) fn doubts(tables: &[Table], outside: OutsideBy) -> impl Iterator<Item = &String> {
    let first = |(at, table): &(usize, &Table)| !tables[..*at].iter().any(|other| other.oid == table.oid);
    let by_triggers = matches!(outside, OutsideBy::Triggers | OutsideBy::Auto);
    let doubts = tables.iter().enumerate().filter(first).filter_map(|(_, table)| table.doubt.as_ref());
    doubts.filter(move |_| by_triggers)
}

impl Table {
    /// That each write gives a row another version, as a condition; none if that is so without anything of ours.
    fn is_kept(&self) -> Option<String> {
        let trigger = |name: &str, more: &str| {
            format!(
                "EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = {} AND g.tgname = '{name}' \
                 AND g.tgenabled IN ('O', 'A'){more})",
                self.oid
            )
        };
        match self.mapping.version {
            VersionMode::None | VersionMode::Auto => None,
            VersionMode::Column => Some(trigger(VERSION, "")),
            VersionMode::Side => Some(trigger(
                CHANGE,
                &format!(
                    " AND EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.oid = g.tgfoid \
                     AND position('{BESIDE}' IN p.prosrc) > 0)"
                ),
            )),
        }
    }

    /// A call that fails: by the checks at `places`, an expression, unless that is NULL, and in any case if versions
    /// are not kept any more.
    pub(super) fn overtaken_at(&self, places: &str) -> String {
        let places = match self.is_kept() {
            None => places.to_owned(),
            Some(kept) => format!("CASE WHEN {kept} THEN {places} ELSE {} END", self.unkept()),
        };
        format!("forebay.overtaken({places})::text")
    }

    /// That versions are not kept any more, as a condition, with what stands before it.
    pub(super) fn unless_kept(&self, before: &str) -> String {
        self.is_kept().map_or_else(String::new, |kept| format!("{before} NOT {kept}"))
    }

    /// The rows of an answer whose query fails if versions are not kept any more.
    pub(super) fn fails_unless_kept(&self) -> String {
        self.unless_kept(&format!(" UNION ALL SELECT forebay.overtaken({})::text WHERE", self.unkept()))
    }

    /// What stands in place of the places.
    fn unkept(&self) -> String {
        quoted_text(&format!("{UNKEPT}{}", self.name))
    }
}
