//! Savepoints: what documents were before a command changed them.

use super::Documents;
use crate::change::{Change, Changes};
use crate::store::remakes;
use crate::value::Value;

/// A document as it was at the savepoint.
#[derive(Debug)]
pub(super) struct Before {
    pub(super) index: usize,
    pub(super) turn: usize,
    pub(super) current: Option<Value>,
    pub(super) unseen: bool,
    pub(super) relative: bool,
    /// How many changes there were.
    pub(super) changes: usize,
    /// The changes themselves, if a blind write has taken their place.
    pub(super) replaced: Option<Changes>,
}

impl Documents {
    /// From here on [`Documents::roll_back`] comes back to here.
    pub fn savepoint(&mut self) {
        self.undo = Some(Vec::new());
        self.savepoint += 1;
        self.fresh_before = self.fresh_until.len();
    }

    pub(super) fn remember(&mut self, at: usize) {
        let Some(undo) = &mut self.undo else { return };
        let document = &mut self.list[at];
        if document.saved.0 == self.savepoint {
            return;
        }
        document.saved = (self.savepoint, undo.len());
        let (current, changes, unseen) = (document.current.clone(), document.changes.len(), document.unseen);
        let (turn, relative) = (document.turn, document.relative);
        undo.push(Before { index: at, turn, current, unseen, relative, changes, replaced: None });
    }

    /// A blind write has taken the place of these changes.
    pub(super) fn keep_replaced(&mut self, at: usize, replaced: Changes) {
        let before = self.undo.as_mut().and_then(|undo| undo.get_mut(self.list[at].saved.1));
        if let Some(before) = before.filter(|before| before.replaced.is_none()) {
            before.replaced = Some(replaced);
        }
    }

    /// Undoes all changes since the savepoint.
    pub fn roll_back(&mut self) {
        self.fresh_until.truncate(self.fresh_before);
        for before in self.undo.take().unwrap_or_default() {
            let document = &mut self.list[before.index];
            (document.current, document.unseen, document.turn) = (before.current, before.unseen, before.turn);
            document.relative = before.relative;
            if let Some(replaced) = before.replaced {
                document.changes = replaced;
            }
            document.changes.truncate(before.changes);
            document.changes_bytes = document.changes.iter().map(Change::memory_bytes).sum();
            document.remade = document.changes.iter().any(remakes);
            self.weigh(before.index);
        }
    }
}
