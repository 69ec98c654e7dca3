//! What mappings have in common: keys, and rows of one table.

use super::mapping::Mapping;
use super::table::Table;

impl Table {
    /// Where the fields are not named they are those that no list takes.
    fn leave_to(&mut self, list: Option<&String>) {
        if self.mapping.list.is_none() && self.mapping.fields.is_none() {
            self.fields.retain(|column| Some(&column.name) != list);
        }
    }
}

/// Has mappings of one table share its rows: a column is a field of one document only, or a transaction would not see
/// in one what it has written to another. Says whether any do; adds what stands in the way to `wrong`.
pub(crate) fn share(tables: &mut [Table], wrong: &mut Vec<String>) -> bool {
    let mut shared = false;
    for at in 1..tables.len() {
        let (before, behind) = tables.split_at_mut(at);
        let this = &mut behind[0];
        let oid = this.oid;
        for other in before.iter_mut().filter(|other| other.oid == oid) {
            shared = true;
            let mut said = |what: String| wrong.push(format!("--map '{}': {what}", this.mapping));
            if other.mapping.key != this.mapping.key {
                said(format!("'{}' has other key columns of {}; give both the same", other.mapping, this.name));
            }
            if other.mapping.version != this.mapping.version {
                said(format!("'{}' has another version(..) of {}; give both the same", other.mapping, this.name));
            }
            other.leave_to(this.mapping.list.as_ref());
            this.leave_to(other.mapping.list.as_ref());
            let is_key = |name: &String| this.mapping.key.contains(name);
            let names = |table: &Table| table.fields.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
            let twice = names(this).into_iter().filter(|name| !is_key(name) && names(other).contains(name));
            for name in twice {
                let what = format!("{name} is a field of '{}' too; name the others in fields(..)", other.mapping);
                wrong.push(format!("--map '{}': {what}", this.mapping));
            }
        }
    }
    shared
}

/// Mappings of which one can never be asked for: another before it has just its keys.
pub(crate) fn same_keys(mappings: &[Mapping]) -> impl Iterator<Item = String> {
    pairs(mappings).filter(|(before, this)| before.pattern.same_keys(&this.pattern)).map(|(before, this)| {
        format!("--map '{this}': '{before}' has the same keys; begin one of them with another text")
    })
}

/// What is worth knowing of keys that have the form of several mappings: one line each.
pub(crate) fn meeting(mappings: &[Mapping]) -> Vec<String> {
    let meeting = pairs(mappings)
        .filter(|(before, this)| before.pattern.meets(&this.pattern) && !before.pattern.same_keys(&this.pattern));
    let line = |(before, this): (&Mapping, &Mapping)| match before.pattern.has_all_of(&this.pattern) {
        true => format!(
            "no key is ever read by --map '{this}': all have the form of '{before}' before it; give it first, or begin \
             it with another text"
        ),
        false => format!("keys that have the form of both --map '{before}' and '{this}' are read by the first"),
    };
    meeting.map(line).collect()
}

fn pairs(mappings: &[Mapping]) -> impl Iterator<Item = (&Mapping, &Mapping)> {
    mappings.iter().enumerate().flat_map(|(at, this)| mappings[..at].iter().map(move |before| (before, this)))
}
