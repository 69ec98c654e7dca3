//! Rows of a table with defaults and a computed column, as a driver's statements change them, and commands that change
//! them at random.

use std::collections::BTreeMap;

use forebay::change::{Change, Changes, apply_all};
use forebay::runtime::simulated::SplitMix;
use forebay::store::Form;
use forebay::store::forms::{Computed, Fills, RowForm};
use forebay::{Blob, Value};

/// Beside its key a row has a number, a counter whose default is 7, and a text whose default is x. The table computes
/// twice the number.
const DEFAULTS: [(&str, Option<&str>); 3] = [("number", None), ("counter", Some("7")), ("text", Some("x"))];

pub fn blob(text: &str) -> Blob {
    Blob::from(text.as_bytes())
}

fn number_of(value: &Blob) -> Option<i64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// One row, or none.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    id: Blob,
    columns: Option<BTreeMap<Blob, Option<Blob>>>,
}

impl Row {
    /// The row with this key, which is not there.
    pub fn new(id: &str) -> Row {
        Row { id: blob(id), columns: None }
    }

    pub fn form(&self) -> Form {
        let filled = DEFAULTS.iter().filter(|(_, default)| default.is_some()).map(|(name, _)| blob(name));
        let of = |name: &str| Fills::Columns([blob(name)].into());
        let fills = Fills::Columns(filled.chain([blob("twice")]).collect());
        let (key, computed) =
            ([(blob("id"), self.id.clone())].into(), Computed { columns: of("twice"), from: of("number") });
        Form::Row(RowForm { key, fills, computed, ..RowForm::default() })
    }

    /// A deletion first, then all columns at once.
    pub fn apply(&mut self, changes: &[Change]) -> Result<(), String> {
        if !self.form().takes(changes) {
            return Err(format!("a row does not take {changes:?}"));
        }
        let mut inserts = false;
        // Of each column what it is set to, if it is, and what is added to it.
        let mut sets: BTreeMap<Blob, (Option<Option<Blob>>, i64)> = BTreeMap::new();
        for change in changes {
            match change {
                Change::Delete => (self.columns, inserts, sets) = (None, false, BTreeMap::new()),
                Change::SetField(field, _) if **field == *b"id" => inserts = true,
                Change::SetField(field, value) => {
                    inserts = true;
                    sets.insert(field.clone(), (Some(Some(value.clone())), 0));
                }
                // Of a row that is not there nothing is emptied.
                Change::UnsetField(field) if inserts || self.columns.is_some() => {
                    sets.insert(field.clone(), (Some(None), 0));
                }
                Change::UnsetField(_) => {}
                Change::AddInteger { field: Some(field), delta } => {
                    inserts = true;
                    sets.entry(field.clone()).or_default().1 += delta;
                }
                other => return Err(format!("{other:?}")),
            }
        }
        let is_new = self.columns.is_none() && inserts;
        if is_new {
            let columns = DEFAULTS.iter().map(|(name, default)| (blob(name), default.map(blob)));
            self.columns = Some(columns.collect());
        }
        let Some(columns) = &mut self.columns else { return Ok(()) };
        for (field, (base, added)) in sets {
            // A new row is given what is added, not what is added to a default.
            let base = base.unwrap_or_else(|| columns.get(&field).cloned().flatten().filter(|_| !is_new));
            let value = match added {
                0 => base,
                added => Some(blob(&(base.as_ref().and_then(number_of).unwrap_or(0) + added).to_string())),
            };
            columns.insert(field, value);
        }
        Ok(())
    }

    /// As it is read.
    pub fn read(&self) -> Option<Value> {
        let mut document = None;
        let all = self.columns.as_ref()?;
        let columns = all.iter().filter_map(|(column, value)| Some((column.clone(), value.clone()?)));
        let number = all.get(&blob("number")).and_then(|number| number_of(number.as_ref()?));
        let twice = number.map(|number| (blob("twice"), blob(&(2 * number).to_string())));
        let set = columns.chain(twice).map(|(column, value)| Change::SetField(column, value));
        let changes: Vec<Change> = [Change::SetField(blob("id"), self.id.clone())].into_iter().chain(set).collect();
        apply_all(&mut document, &changes).expect("a hash");
        document
    }

    /// What a transaction makes of one to three commands on the row, of which `known` is known.
    pub fn draw(&self, random: &mut SplitMix, known: Option<&Option<Value>>) -> Changes {
        let mut changes = Changes::new();
        let mut document = known.cloned().flatten();
        for _ in 0..1 + random.below(3) {
            let field = blob(["number", "counter"][random.below(2) as usize]);
            let number = random.below(5) as i64 + 1;
            let change = match random.below(9) {
                0 | 1 => Change::Delete,
                2 | 3 => Change::SetField(field, blob(&number.to_string())),
                4 => Change::SetField(blob("text"), blob("set")),
                5 => Change::UnsetField([field, blob("text")][random.below(2) as usize].clone()),
                6 => Change::SetField(blob("id"), self.id.clone()),
                _ => Change::AddInteger { field: Some(field), delta: number },
            };
            let makes = !matches!(change, Change::Delete | Change::UnsetField(_));
            if makes && document.is_none() {
                changes.push(Change::SetField(blob("id"), self.id.clone()));
            }
            if change == Change::Delete {
                changes.clear();
            }
            changes.push(change);
            document = known.cloned().flatten();
            apply_all(&mut document, &changes).expect("they fit");
        }
        changes
    }
}
