//! How large a row may be.

use forebay::change::Change;
use forebay::store::Write;
use forebay::{Data, Key, Value};

use super::table::{Kind, Table};

impl Table {
    /// Why a row of so many bytes can't be read.
    pub(crate) fn too_large(&self, key: &Key, bytes: usize) -> String {
        let (most, name) = (self.row_bytes_max, &self.name);
        format!(
            "{key} has {bytes} bytes in {name}, and row-bytes-max is {most}; raise it, or --memory, which it follows"
        )
    }

    /// Why `write` would make a row too large, as far as that is known.
    pub(crate) fn outgrown(&self, write: &Write) -> Option<String> {
        let value_bytes = |field: &[u8], value: &[u8]| {
            let column = self.fields.iter().find(|column| *column.field == *field);
            value.len() * if column.is_some_and(|column| column.kind == Kind::Bytes) { 2 } else { 1 }
        };
        let of_change = |change: &Change| match change {
            Change::SetField(field, value) => value_bytes(field, value),
            Change::Put(Value { data: Data::Bytes(text), .. }) => text.len(),
            Change::Push(_, element) => element.len(),
            _ => 0,
        };
        let after = write.after.as_ref().filter(|_| !write.unseen);
        let known: usize = match after.map(|value| &value.data) {
            Some(Data::Hash(hash)) => hash.iter().map(|(field, value)| value_bytes(field, value)).sum(),
            Some(Data::List(list)) => list.iter().map(|element| element.len() + 1).sum(),
            _ => 0,
        };
        let bytes = known.max(write.changes.iter().map(of_change).sum());
        (bytes > self.row_bytes_max).then(|| self.too_large(&write.key, bytes))
    }
}
