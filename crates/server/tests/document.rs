//! The tables of docs/commands.md are those that the code makes.

use std::path::Path;

const BEGIN: &str = "<!-- commands: made from the records in crates/server/src/command -->\n";
const END: &str = "<!-- commands end -->";

#[test]
fn the_tables_of_commands_are_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let document = std::fs::read_to_string(&path).expect("docs/commands.md is there");
    let (before, rest) = document.split_once(BEGIN).expect("the tables' first marker");
    let (tables, after) = rest.split_once(END).expect("the tables' last marker");
    let fresh = forebay_server::command::markdown_table();
    if std::env::var_os("FOREBAY_UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{fresh}{END}{after}")).expect("docs/commands.md is written");
    } else {
        assert_eq!(tables, fresh, "stale; run FOREBAY_UPDATE_DOCS=1 cargo test -p forebay-server --test document");
    }
}
