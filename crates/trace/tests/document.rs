//! The table of formats in docs/trace-format.md is the one that the code makes.

use std::path::Path;

const BEGIN: &str = "<!-- formats: made from the table FORMATS of forebay-trace; \
                     FOREBAY_UPDATE_DOCS=1 cargo test -p forebay-trace -->\n";
const END: &str = "<!-- formats end -->";

#[test]
fn the_table_of_formats_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/trace-format.md");
    let document = std::fs::read_to_string(&path).expect("docs/trace-format.md is there");
    let (before, rest) = document.split_once(BEGIN).expect("the table's first marker");
    let (table, after) = rest.split_once(END).expect("the table's last marker");
    let fresh = forebay_trace::formats_markdown();
    if std::env::var_os("FOREBAY_UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{fresh}{END}{after}")).expect("docs/trace-format.md is written");
    } else {
        assert_eq!(table, fresh, "stale; run FOREBAY_UPDATE_DOCS=1 cargo test -p forebay-trace --test document");
    }
}

#[test]
fn names_are_declared_once() {
    let mut names: Vec<_> = forebay_trace::FORMATS.iter().map(|format| format.name).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(count, names.len());
}
