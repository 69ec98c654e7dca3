//! Rows of a group that one statement locks, checks, changes and reads back: those of which nothing but that can come.
//! Each is written by one commit of the group, which has read it as it was and checks that; nothing but what the
//! statement says happens to a row of its table. So behind the check all but the changed columns is what was computed,
//! and only those are read back.

use std::collections::{HashMap, HashSet};

use forebay::store::{Commit, Write};
use forebay::value::{Blob, Data, Value};
use forebay::{Key, Read, Version};

use super::mapped::Rows;
use super::sql::array_literal;
use super::statement::{Act, COLUMNS_MAX, Shape, Values, is_text};
use super::texts::Texts;
use crate::sql::mapping::VersionMode;
use crate::sql::table::{Kind, Table, VERSION_COLUMN, quoted};
use crate::sql::text::unhex;

/// The setting that is `on` while triggers are not to note what the session itself writes. What other triggers write
/// then is noted.
pub(in crate::postgres) const OWN: &str = "forebay.own";

/// What a group reads and writes of one document.
#[derive(Default)]
struct Uses {
    writes: usize,
    checks: usize,
    /// The last commit of the group that writes it, and the version for which one checks it.
    writer: Option<usize>,
    check: Option<Check>,
}

/// A check that a document still has the version that was read.
#[derive(Clone, Copy)]
struct Check {
    /// Its place among those of the group.
    place: usize,
    /// The commit that it is of.
    member: usize,
    version: Version,
}

/// A row that is changed if it has this version; the place is that of its check.
pub(super) struct Sure {
    check: usize,
    version: u64,
}

/// The rows of a group that are written by their own statements.
#[derive(Default)]
pub(super) struct Checked {
    runs: Vec<Run>,
    of_shape: HashMap<(usize, Shape), usize>,
    /// The places of the checks that they make.
    checks: HashSet<usize>,
}

/// Rows of one table that are changed in the same way.
pub(super) struct Run {
    pub(super) table: usize,
    pub(super) shape: Shape,
    /// The places of the columns that are read back among the table's fields.
    columns: Vec<usize>,
    rows: Vec<CheckedRow>,
}

struct CheckedRow {
    values: Values,
    /// Its place among the rows that are written.
    place: usize,
    sure: Sure,
}

/// The arrays of [`Run::numbers`].
pub(super) const NUMBERS: usize = 3;

impl Run {
    /// What stands in the columns behind the first of an answer that is no row.
    pub(super) fn nothing(&self) -> String {
        ", NULL".repeat(self.columns.len() + 1)
    }

    /// The values of each column of `k` that differ from row to row, all texts.
    pub(super) fn values(&self) -> Vec<Vec<&str>> {
        let column = |at: usize| self.rows.iter().map(|row| row.values.0[at].as_str()).collect();
        (0..self.rows.first().map_or(0, |row| row.values.0.len())).map(column).collect()
    }

    /// The places of its rows, those of their checks, and the versions that they have to have.
    pub(super) fn numbers(&self) -> [Vec<i64>; NUMBERS] {
        let numbers = |of: &dyn Fn(&CheckedRow) -> u64| self.rows.iter().map(|row| of(row) as i64).collect();
        [numbers(&|row| row.place as u64), numbers(&|row| row.sure.check as u64), numbers(&|row| row.sure.version)]
    }
}

/// The documents of `group` of which it is sure that nothing but its change comes of them, if their check holds.
pub(super) fn sure<'a>(rows: &Rows, group: &'a [Commit]) -> HashMap<&'a Key, Sure> {
    let mut uses: HashMap<&Key, Uses> = HashMap::new();
    let mut place = 0;
    // One commit alone is a message of literals, whose plan costs less.
    for (member, commit) in group.iter().enumerate().filter(|_| group.len() > 1 && !rows.shared) {
        for write in &commit.writes {
            let of = uses.entry(&write.key).or_default();
            of.writes += 1;
            of.writer = (!write.unseen && write.after.is_some()).then_some(member);
        }
        for (key, version) in &commit.checks {
            let of = uses.entry(key).or_default();
            of.checks += 1;
            of.check = Some(Check { place, member, version: *version });
            place += 1;
        }
    }
    let sure = |(key, of): (&'a Key, Uses)| {
        let check = of.check.filter(|check| of.writes == 1 && of.checks == 1 && of.writer == Some(check.member))?;
        // Odd versions are those of absence.
        let there = check.version.sequence.is_multiple_of(2);
        there.then_some((key, Sure { check: check.place, version: check.version.sequence / 2 }))
    };
    uses.into_iter().filter_map(sure).collect()
}

impl Checked {
    /// The tables that they are of.
    pub(super) fn tables(&self) -> impl Iterator<Item = usize> {
        self.runs.iter().map(|run| run.table)
    }

    /// The only run, if there is one.
    pub(super) fn only(&self) -> Option<&Run> {
        match self.runs.as_slice() {
            [run] => Some(run),
            _ => None,
        }
    }

    /// Whether they make the check at this place.
    pub(super) fn checks(&self, place: usize) -> bool {
        self.checks.contains(&place)
    }

    /// Takes the statements that a write comes to, if they are one that finds its row and reads it back; answers the
    /// number of the run that it is in. `place` is the row's among those that are written.
    pub(super) fn take(
        &mut self,
        (number, table): (usize, &Table),
        statements: &mut Vec<(Shape, Values)>,
        (place, sure): (usize, Sure),
    ) -> Option<usize> {
        let [(shape, values)] = statements.as_slice() else { return None };
        let changes = matches!(shape.act, Act::Update | Act::Upsert) && !shape.sets.is_empty();
        if !table.is_sure() || !changes || values.0.len() > COLUMNS_MAX {
            return None;
        }
        let (shape, values) = statements.pop()?;
        let at = match self.runs.last() {
            // As ever, if a group is many writes of one kind.
            Some(last) if last.table == number && last.shape == shape => self.runs.len() - 1,
            _ => *self.of_shape.entry((number, shape.clone())).or_insert_with(|| {
                let columns = table.changed_by(&shape);
                self.runs.push(Run { table: number, shape, columns, rows: Vec::new() });
                self.runs.len() - 1
            }),
        };
        self.checks.insert(sure.check);
        self.runs[at].rows.push(CheckedRow { values, place, sure });
        Some(at)
    }

    /// One statement for each way in which rows are changed. It fails, with the places of their checks, if one of them
    /// has another version. Around them triggers are told that nothing has to be noted: what is changed is what is
    /// answered.
    pub(super) fn statements(&self, tables: &[Table]) -> Result<Vec<String>, String> {
        let mut statements: Vec<String> =
            self.runs.iter().map(|run| tables[run.table].change_checked(run)).collect::<Result<_, _>>()?;
        if self.tables().any(|table| tables[table].mapping.version == VersionMode::Column) {
            let own = |value: &str| format!("SET LOCAL {OWN} = {value}");
            statements.insert(0, own("on"));
            statements.push(own("off"));
        }
        Ok(statements)
    }

    /// What a row that run `run` has changed is, if `write` was computed from what was checked.
    pub(super) fn read(
        &self,
        (run, tables): (usize, &[Table]),
        row: &impl Texts,
        write: &Write,
        incarnation: u64,
    ) -> Option<Read> {
        let (run, computed) = (self.runs.get(run)?, write.after.as_ref()?);
        let Data::Hash(hash) = &computed.data else { return None };
        let version = Version { incarnation, sequence: 2 * row.text(1)?.parse::<u64>().ok()? };
        let mut others: Option<forebay::value::Hash> = None;
        for (at, column) in run.columns.iter().enumerate() {
            let column = &tables[run.table].fields[*column];
            let bytes: Option<Blob> = match row.text(at + 2) {
                Some(text) if column.kind == Kind::Bytes => Some(Blob::from(unhex(text)?)),
                Some(text) if hash.get(&column.field).is_some_and(|there| **there == *text.as_bytes()) => continue,
                text => text.map(|text| Blob::from(text.as_bytes())),
            };
            if bytes.as_ref() != hash.get(&column.field) {
                let others = others.get_or_insert_with(|| hash.clone());
                match bytes {
                    Some(bytes) => drop(others.insert(column.field.clone(), bytes)),
                    None => drop(others.remove(&column.field)),
                }
            }
        }
        let value = match others {
            Some(hash) => Value { data: Data::Hash(hash), expires_at_ms: None },
            None => computed.clone(),
        };
        Some(Read { value: Some(value), version })
    }
}

impl Table {
    /// Whether nothing but what a statement says happens to a row of it, and a row has its version in itself.
    fn is_sure(&self) -> bool {
        self.independent && self.plain && self.mapping.list.is_none() && self.mapping.version != VersionMode::Side
    }

    /// The places of the fields that `shape` sets, but for texts that are what they are given.
    fn changed_by(&self, shape: &Shape) -> Vec<usize> {
        let changed = |at: &usize| {
            let column = &self.fields[*at];
            let name = quoted(&column.name);
            let set = shape.sets.iter().find(|(set, _)| *set == name);
            set.is_some_and(|(_, value)| column.type_name != "text" || !is_text(value))
        };
        (0..self.fields.len()).filter(changed).collect()
    }

    fn change_checked(&self, run: &Run) -> Result<String, String> {
        let texts = run.values().into_iter().map(|column| array_literal(column.into_iter().map(Some)));
        let mut arrays = texts.collect::<Result<Vec<String>, String>>()?;
        for numbers in run.numbers() {
            let texts: Vec<String> = numbers.iter().map(i64::to_string).collect();
            arrays.push(format!("'{{{}}}'::bigint[]", texts.join(",")));
        }
        self.checked_statement(run, ("", ""), &arrays, "")
    }

    /// The statement that changes the rows of `run`, which `arrays` have: the values, the places, those of the checks,
    /// and the versions. Before it other queries may stand, the last of which is named, so that nothing comes before
    /// that, and behind it what else it answers.
    pub(super) fn checked_statement(
        &self,
        run: &Run,
        (before, name): (&str, &str),
        arrays: &[String],
        behind: &str,
    ) -> Result<String, String> {
        let names: String = (0..arrays.len() - NUMBERS).map(|at| format!("v{at}, ")).collect();
        // Rows are locked in the order of their keys.
        let order: Vec<String> =
            self.key.iter().enumerate().map(|(at, column)| format!("v{at}::{}", column.type_name)).collect();
        let same = match self.mapping.version {
            VersionMode::Column => format!("t.{VERSION_COLUMN} = k.version"),
            _ => "t.xmin = k.version::text::xid".to_owned(),
        };
        let returned: Vec<String> = run.columns.iter().map(|at| self.read_column(&self.fields[*at])).collect();
        let returned: String = returned.iter().map(|column| format!(", {column}")).collect();
        let read: String = (0..run.columns.len()).map(|at| format!(", c{at}")).collect();
        let nothing = run.nothing();
        // Who is missing is only looked for if somebody is.
        Ok(format!(
            "WITH {before}k AS MATERIALIZED (SELECT k.* FROM {name}unnest({arrays}) AS k({names}place, checked, \
             version) ORDER BY {order}), u(place, version{read}) AS ({update} AND {same} \
             RETURNING k.place, {version}{returned}) SELECT '=' || place, version{read} FROM u \
             UNION ALL SELECT {overtaken}{nothing} FROM k \
             WHERE (SELECT count(*) FROM u) < (SELECT count(*) FROM k) \
             AND k.place NOT IN (SELECT place FROM u){behind}",
            arrays = arrays.join(", "),
            order = order.join(", "),
            update = self.update_many(&run.shape)?,
            version = self.version(),
            overtaken = self.overtaken_at("string_agg(k.checked::text, ',')"),
        ))
    }
}
