//! A buffered transaction in a few words: its documents, and the kind and size of what happens to them, never the
//! contents.

use forebay::change::Change;
use forebay::key::Key;
use forebay::outage::{Buffered, Standing, Written};
use forebay::value::Value;
use forebay_protocol::Reply;

use super::{count, number};
use crate::command::family::text;
use crate::outage::size;

/// Documents that are shown of one transaction, and changes of one document.
const SHOWN_DOCUMENTS_MAX: usize = 16;
const SHOWN_CHANGES_MAX: usize = 8;
/// Bytes of a key that are shown.
const SHOWN_KEY_BYTES_MAX: usize = 256;

/// What is shown of a buffered transaction, taken down while the gate's lock is held.
pub(super) struct Brief {
    number: u64,
    buffered_at_ms: u64,
    documents: usize,
    writes: Vec<(String, Vec<String>)>,
}

impl Brief {
    pub(super) fn of(buffered: &Buffered) -> Brief {
        let brief = |written: &Written| (brief_key(&written.key), brief_changes(&written.changes));
        Brief {
            number: buffered.number,
            buffered_at_ms: buffered.buffered_at_ms,
            documents: buffered.writes.len(),
            writes: buffered.writes.iter().take(SHOWN_DOCUMENTS_MAX).map(brief).collect(),
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn shown(self, standing: &Standing, now_ms: u64) -> Reply {
        let (state, reason) = match standing {
            Standing::Waiting => ("waiting", Reply::Nil),
            Standing::Quarantined(why) => ("quarantined", text(why.as_str())),
            Standing::Behind(other) => ("behind", text(format!("it waits for what becomes of {other}"))),
        };
        let list = |changes: Vec<String>| Reply::Array(changes.into_iter().map(text).collect());
        Reply::Map(vec![
            (text("ticket"), count(self.number)),
            (text("state"), text(state)),
            (text("reason"), reason),
            (text("age_ms"), count(now_ms.saturating_sub(self.buffered_at_ms))),
            (text("documents"), number(self.documents)),
            (
                text("writes"),
                Reply::Map(self.writes.into_iter().map(|(key, changes)| (text(key), list(changes))).collect()),
            ),
        ])
    }
}

fn brief_key(key: &Key) -> String {
    let name = key.name();
    match name.len() > SHOWN_KEY_BYTES_MAX {
        false => key.to_string(),
        true => format!(
            "{}.. ({} more bytes)",
            Key::new(key.space(), &name[..SHOWN_KEY_BYTES_MAX]),
            name.len() - SHOWN_KEY_BYTES_MAX
        ),
    }
}

fn brief_changes(changes: &[Change]) -> Vec<String> {
    let mut shown: Vec<String> = changes.iter().take(SHOWN_CHANGES_MAX).map(brief_change).collect();
    if changes.len() > SHOWN_CHANGES_MAX {
        shown.push(format!("and {} more", changes.len() - SHOWN_CHANGES_MAX));
    }
    shown
}

/// Kind and size: what values hold is for those who may read them.
fn brief_change(change: &Change) -> String {
    let put = |value: &Value| format!("put {} {}", value.kind().name(), size(value.size()));
    match change {
        Change::Put(value) => put(value),
        Change::Delete => "delete".to_owned(),
        Change::ExpireAt(at_ms) => format!("expire at {at_ms} ms"),
        Change::Persist => "persist".to_owned(),
        Change::RemoveExpired(by_ms) => format!("remove if expired by {by_ms} ms"),
        Change::AddInteger { field, .. } | Change::AddFloat { field, .. } => match field {
            Some(_) => "add to a field".to_owned(),
            None => "add".to_owned(),
        },
        Change::Append(bytes) => format!("append {}", size(bytes.len())),
        Change::WriteAt { offset, bytes } => format!("write {} at {offset}", size(bytes.len())),
        Change::SetField(_, value) => format!("set a field {}", size(value.len())),
        Change::UnsetField(_) => "unset a field".to_owned(),
        Change::Push(_, element) => format!("push {}", size(element.len())),
        Change::Pop(_) => "pop".to_owned(),
        Change::RemoveEqual { .. } => "remove elements".to_owned(),
        Change::AddMember(_) => "add a member".to_owned(),
        Change::RemoveMember(_) => "remove a member".to_owned(),
    }
}
