//! What `forebay store check` says of a mapped table.

use forebay::store::forms::OnDelete;

use super::mapping::VersionMode;
use super::table::Table;
use super::watching::OutsideBy;

/// What is said of a mapped table; `seen` is how what others write is.
pub(crate) fn of_table(table: &Table, seen: OutsideBy) -> String {
    let read_only = table.fields.iter().filter(|column| column.read_only.is_some()).map(|column| column.name.as_str());
    let read_only: Vec<&str> = read_only.collect();
    let all = read_only.len() == table.fields.len();
    let has_triggers = matches!(table.mapping.version, VersionMode::Column | VersionMode::Side);
    format!(
        "{}: {} fields, read-only: {}; {}; other writers are {}",
        table.mapping,
        table.fields.len(),
        match read_only.is_empty() {
            true => "none".to_owned(),
            false if all => "all".to_owned(),
            false => read_only.join(", "),
        },
        match (table.mapping.on_delete(), &table.mapping.list) {
            (_, Some(_)) => "DEL empties the column",
            (OnDelete::Refuse, _) => "DEL is refused",
            (OnDelete::Row, _) => "DEL deletes the row",
            (OnDelete::Invalidate, _) => "DEL drops the cached copy",
        },
        match seen {
            OutsideBy::Decoding => "seen by decoding",
            OutsideBy::Triggers | OutsideBy::Auto if has_triggers => "seen",
            OutsideBy::Off => "noticed at commit only",
            OutsideBy::Triggers | OutsideBy::Auto => "noticed at commit, and after --unwatched-ms",
        }
    )
}
