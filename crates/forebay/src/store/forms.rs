//! What the forms of documents take. A generic document takes every change; a document that is a record of another
//! program's table takes what its statements can say. A driver refuses by this, and so does every store that stands
//! in for one in a test. The outage's merge asks it before it joins. What the merge makes of changes that were
//! acknowledged is a list that no client has sent, and that no store may refuse.
//!
//! **Invariant.** A merge never turns a deletion and an insertion into an update. Behind a deletion a row is a new
//! one: columns that no command set have their defaults, those outside the mapping too. Nor does it forget that a row
//! was made. An element that comes to a list makes its row, which stays when the list is emptied, and may be seen as
//! other documents.
//!
//! **Invariant.** What the store fills of a new row by itself is not computed here, be it a constant. Such a row is not
//! known before the store has made it. Nor is a row known whose columns the store computes from what is written.

use std::sync::Arc;

use crate::change::{Change, End, compact, compact_fields, join_unseen};
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::store::Commit;
use crate::value::{Blob, Data, Value};

/// What a document is in its store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// A document of its own.
    #[default]
    Document,
    /// A row of a table: a hash of its columns.
    Row(RowForm),
    /// One column of a row: an array.
    List {
        /// The store fills it by itself in a new row if it is not given.
        filled: bool,
    },
}

/// What comes of a command that deletes a document which is a row: for whoever uses a cache it means to forget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDelete {
    /// It is refused.
    #[default]
    Refuse,
    /// The row is deleted.
    Row,
    /// The copy leaves the cache, and the row stays.
    Invalidate,
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowForm {
    /// The columns of its key with their values: a row has them from the start, and keeps them.
    pub key: Arc<[(Blob, Blob)]>,
    /// What a command that deletes comes to.
    pub on_delete: OnDelete,
    /// The columns that the store fills by itself when it makes the row and they are not given.
    pub fills: Fills,
    /// The columns that it computes at each write.
    pub computed: Computed,
}

/// Columns of a document that its store computes from others at each write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Computed {
    /// These.
    pub columns: Fills,
    /// From these, of which none is of the key.
    pub from: Fills,
}

/// Columns of a document that its store fills by itself in a new row: by a default, or since it computes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fills {
    /// These.
    Columns(Arc<[Blob]>),
    /// It may fill any: nothing is known of the table.
    Any,
}

impl Default for Fills {
    fn default() -> Fills {
        Fills::Columns(Arc::default())
    }
}

impl Fills {
    /// Whether there is nothing that the store fills.
    pub fn is_empty(&self) -> bool {
        matches!(self, Fills::Columns(columns) if columns.is_empty())
    }

    /// Whether the store may fill `field`.
    pub fn may_be(&self, field: &[u8]) -> bool {
        match self {
            Fills::Columns(columns) => columns.iter().any(|column| **column == *field),
            Fills::Any => true,
        }
    }

    /// Whether the store may have more of a row than `row`, which was computed where there was none.
    pub fn are_missed(&self, row: Option<&Value>) -> bool {
        match (row.map(|row| &row.data), self) {
            (None, _) => false,
            (Some(Data::Hash(row)), Fills::Columns(columns)) => columns.iter().any(|column| row.get(column).is_none()),
            (Some(_), fills) => !fills.is_empty(),
        }
    }

    /// Those that are not given by `changes`.
    fn left_by(&self, changes: &[Change]) -> Fills {
        let given = from_made(changes);
        let is_given = |column: &Blob| given.iter().any(|change| field_of(change) == Some(column));
        match self {
            Fills::Columns(columns) if columns.iter().any(is_given) => {
                Fills::Columns(columns.iter().filter(|column| !is_given(column)).cloned().collect())
            }
            fills => fills.clone(),
        }
    }
}

impl Form {
    /// Whether it is a column of a row.
    pub fn is_list(&self) -> bool {
        matches!(self, Form::List { .. })
    }

    /// Whether a document of this form takes `changes`, as far as their kinds say: names and values are for the store.
    pub fn takes(&self, changes: &[Change]) -> bool {
        changes.iter().all(|change| self.takes_one(change))
    }

    fn takes_one(&self, change: &Change) -> bool {
        let expires = |value: &Value| value.expires_at_ms.is_some();
        match self {
            Form::Document => true,
            Form::Row(_) => match change {
                Change::Delete | Change::SetField(..) | Change::UnsetField(_) => true,
                Change::AddInteger { field, .. } | Change::AddFloat { field, .. } => field.is_some(),
                // The text of a row, which sets the fields that it names.
                Change::Put(value) => matches!(value.data, Data::Bytes(_)) && !expires(value),
                _ => false,
            },
            Form::List { .. } => match change {
                Change::Delete | Change::Push(..) | Change::Pop(_) | Change::RemoveEqual { .. } => true,
                Change::Put(value) => matches!(value.data, Data::List(_)) && !expires(value),
                _ => false,
            },
        }
    }

    /// What comes of a command that deletes a document of this form.
    pub fn on_delete(&self) -> OnDelete {
        match self {
            Form::Row(row) => row.on_delete,
            // The column is emptied.
            Form::Document | Form::List { .. } => OnDelete::Row,
        }
    }

    /// Whether the document behind `changes` does not depend on the one before.
    pub fn stands_alone(&self, changes: &[Change]) -> bool {
        match changes.first() {
            Some(Change::Delete) => true,
            Some(Change::Put(_)) => !matches!(self, Form::Row(_)),
            _ => false,
        }
    }

    /// `old`, and `new` behind it, of two transactions, as the changes of one; none if one can't stand for both.
    /// `there`: the row is surely there before `old`. Fields are gathered of at most `fields_max` changes.
    pub fn join(&self, old: Vec<Change>, new: Vec<Change>, there: bool, fields_max: usize) -> Option<Vec<Change>> {
        let compacted = |all: Vec<Change>| if all.len() <= fields_max { compact_fields(all) } else { compact(all) };
        let unmade = self.is_list() && !mutation::on(Fault::EmptiedListUnmade);
        let came = if unmade { comes(&old).cloned() } else { None };
        let joined = match self {
            _ if self.stands_alone(&new) => new,
            Form::Row(row) if !mutation::on(Fault::MergedUntaken) => {
                let text = |change: &Change| matches!(change, Change::Put(_));
                if old.iter().chain(&new).any(text) || row.meets_default(&old, &new, there) {
                    return None;
                }
                let mut all = old;
                all.extend(new);
                let behind = all.len() - behind_deletion(&all).len();
                let changed = compacted(all.split_off(behind));
                all.pop().into_iter().chain(changed).collect()
            }
            _ => compacted(join_unseen(old, new)),
        };
        let joined = match came {
            // What came is left out only where nothing remains of the list, whatever it was.
            Some(element) if comes(&joined).is_none() => made_and_emptied(element),
            _ => joined,
        };
        (self.takes(&joined) || mutation::on(Fault::MergedUntaken)).then_some(joined)
    }
}

impl RowForm {
    /// What the store fills by itself if `changes` make the row; none if they make none, or leave nothing to it. Also
    /// whether they say that the row is made. A transaction that has seen a row does not say so.
    pub fn left_to_store(&self, changes: &[Change]) -> Option<(Fills, bool)> {
        let last = behind_deletion(changes);
        if self.fills.is_empty() || !last.iter().any(|change| !matches!(change, Change::UnsetField(_))) {
            return None;
        }
        let whole = last.iter().any(|change| matches!(change, Change::Put(_)));
        let left = self.fills.left_by(last);
        (!left.is_empty()).then(|| (left, whole || self.makes(last)))
    }

    /// Whether `changes` add to a column that the store fills, in a row that they have not deleted before.
    pub fn adds_to_filled(&self, changes: &[Change]) -> bool {
        let adds = |change: &Change| match change {
            Change::AddInteger { field: Some(field), .. } | Change::AddFloat { field: Some(field), .. } => {
                self.fills.may_be(field)
            }
            _ => false,
        };
        behind_deletion(changes).len() == changes.len() && changes.iter().any(adds)
    }

    /// What the store computes by `changes` of a row that is there.
    pub fn recomputed_by(&self, changes: &[Change]) -> Fills {
        let from = |field: &Blob| self.computed.from.may_be(field) && !self.is_of_key(field);
        let touches = |change: &Change| matches!(change, Change::Put(_)) || field_of(change).is_some_and(from);
        let makes = changes.contains(&Change::Delete);
        if self.computed.columns.is_empty() || makes || !changes.iter().any(touches) {
            return Fills::default();
        }
        self.computed.columns.clone()
    }

    fn is_of_key(&self, field: &Blob) -> bool {
        self.key.iter().any(|(column, _)| column == field)
    }

    /// The changes that say that there is a row.
    pub fn is_there(&self) -> impl Iterator<Item = Change> + '_ {
        self.key.iter().map(|(column, value)| Change::SetField(column.clone(), value.clone()))
    }

    /// Whether `changes` make the row where there is none.
    fn makes(&self, changes: &[Change]) -> bool {
        changes.iter().any(|change| matches!(change, Change::SetField(field, _) if self.is_of_key(field)))
    }

    /// Whether there is surely a row behind `changes`.
    pub fn leaves(&self, changes: &[Change]) -> bool {
        self.makes(behind_deletion(changes))
    }

    /// Whether a column may get its default by `old` or `new`, and the other one changes it: one statement for both
    /// would not see the default. `there`: there is surely a row before `old`.
    fn meets_default(&self, old: &[Change], new: &[Change], there: bool) -> bool {
        let last = behind_deletion(old);
        let deletes = last.len() < old.len();
        if there && !deletes {
            return false;
        }
        let adds = |change: &&Change| matches!(change, Change::AddInteger { .. } | Change::AddFloat { .. });
        let unset = |change: &Change| matches!(change, Change::UnsetField(_));
        let set = |field: &Blob| from_made(last).iter().any(|change| field_of(change) == Some(field));
        match self.makes(last) {
            true => new.iter().filter(adds).filter_map(field_of).any(|field| !set(field)),
            false => self.makes(new) && last.iter().any(unset),
        }
    }
}

/// Those of `changes` that are behind the last deletion.
fn behind_deletion(changes: &[Change]) -> &[Change] {
    let at = changes.iter().rposition(|change| *change == Change::Delete).map_or(0, |at| at + 1);
    &changes[at..]
}

/// Those of `changes` that find a row: what stands before them empties fields where there may be none.
fn from_made(changes: &[Change]) -> &[Change] {
    let at = changes.iter().position(|change| !matches!(change, Change::UnsetField(_)));
    &changes[at.unwrap_or(changes.len())..]
}

/// What a deletion behind `changes` of a list comes to in one transaction, if an element comes by them: that has made
/// the row, which stays.
pub fn emptied(changes: &[Change]) -> Option<Vec<Change>> {
    comes(changes).filter(|_| !mutation::on(Fault::EmptiedListUnmade)).cloned().map(made_and_emptied)
}

/// Whether `changes` of a list make its row where there is none.
pub fn makes_row(changes: &[Change]) -> bool {
    comes(changes).is_some()
}

/// An element that comes to a list by `changes`.
fn comes(changes: &[Change]) -> Option<&Blob> {
    changes.iter().rev().find_map(|change| match change {
        Change::Push(_, element) => Some(element),
        Change::Put(Value { data: Data::List(list), .. }) => list.iter().next(),
        _ => None,
    })
}

/// The changes of a list that make its row, and leave nothing in it. Not a pop: a client was told what that took.
fn made_and_emptied(element: Blob) -> Vec<Change> {
    let push = Change::Push(End::Right, element.clone());
    vec![Change::Delete, push, Change::RemoveEqual { count: 0, element }]
}

fn field_of(change: &Change) -> Option<&Blob> {
    match change {
        Change::SetField(field, _) | Change::UnsetField(field) => Some(field),
        Change::AddInteger { field, .. } | Change::AddFloat { field, .. } => field.as_ref(),
        _ => None,
    }
}

/// The first key of `commit` whose document does not take its changes, each in the form that `form` says.
pub fn untaken(commit: &Commit, form: impl Fn(&Key) -> Form) -> Option<&Key> {
    commit.writes.iter().find(|write| !form(&write.key).takes(&write.changes)).map(|write| &write.key)
}
