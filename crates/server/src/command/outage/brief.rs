//! A buffered transaction in a few words: its documents, and the kind and size of what happens to them, and of what the
//! store holds in their place; never the contents.

use forebay::change::Change;
use forebay::key::Key;
use forebay::outage::{Buffered, Drift, Meets, Standing, Written};
use forebay::store::ReadError;
use forebay::value::Value;
use forebay_protocol::Reply;

use crate::command::family::text;
use crate::outage::size;

/// Documents that are shown of one transaction, and changes of one document.
pub(super) const SHOWN_DOCUMENTS_MAX: usize = 16;
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
        Reply::Map(self.pairs(standing, now_ms))
    }

    /// The same with what it meets in the store, or why that is not known.
    pub(super) fn shown_with(self, standing: &Standing, now_ms: u64, meets: &Result<Vec<Meets>, ReadError>) -> Reply {
        let mut pairs = self.pairs(standing, now_ms);
        let store = match meets {
            Ok(meets) => Reply::Map(meets.iter().map(|meets| (text(brief_key(&meets.key)), met(meets))).collect()),
            Err(error) => text(error.to_string()),
        };
        pairs.push((text("store"), store));
        Reply::Map(pairs)
    }

    fn pairs(self, standing: &Standing, now_ms: u64) -> Vec<(Reply, Reply)> {
        let (state, reason) = match standing {
            Standing::Waiting => ("waiting", Reply::Nil),
            Standing::Ordered => ("waiting", text("CACHE QUARANTINE APPLY: it is applied by itself")),
            Standing::Quarantined(why) => ("quarantined", text(why.as_str())),
            Standing::Behind(other) => ("behind", text(format!("it waits for what becomes of {other}"))),
        };
        let list = |changes: Vec<String>| Reply::Array(changes.into_iter().map(text).collect());
        vec![
            (text("ticket"), count(self.number)),
            (text("state"), text(state)),
            (text("reason"), reason),
            (text("age_ms"), count(now_ms.saturating_sub(self.buffered_at_ms))),
            (text("documents"), number(self.documents)),
            (
                text("writes"),
                Reply::Map(self.writes.into_iter().map(|(key, changes)| (text(key), list(changes))).collect()),
            ),
        ]
    }
}

/// What the store holds of a document, what it will hold, and whether somebody has changed it.
fn met(meets: &Meets) -> Reply {
    let since = match meets.drift {
        Drift::Nothing => "as it was",
        Drift::Changed => "changed since",
        Drift::ByAnotherOwner => "changed since by another owner",
        Drift::NotByAnotherOwner => "not changed since by another owner",
        Drift::Applied => "this ticket is in it",
        Drift::Unknown => "not known",
    };
    let then =
        meets.then.as_ref().map_or_else(|| "the changes do not fit".to_owned(), |then| brief_value(then.as_ref()));
    Reply::Map(vec![
        (text("now"), text(brief_value(meets.now.as_ref()))),
        (text("then"), text(then)),
        (text("since"), text(since)),
    ])
}

fn brief_value(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| format!("{} {}", value.kind().name(), size(value.size())))
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
    match change {
        Change::Put(value) => format!("put {}", brief_value(Some(value))),
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

pub(super) fn number(value: usize) -> Reply {
    Reply::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}

pub(super) fn count(value: u64) -> Reply {
    Reply::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}
