//! The table of `docs/bench-workloads.md`, made from the records.

#![cfg(test)]

use forebay_workload::live::{Record, WORKLOADS};

fn table() -> String {
    let row = |record: &&Record| {
        let Record { name, summary, unit, records, .. } = record;
        format!("| `{name}` | {} | {unit} | {records} |\n", summary.replace('|', "\\|"))
    };
    let rows: String = WORKLOADS.iter().map(row).collect();
    format!("| workload | what it does | `--records` counts | default |\n|---|---|---|---|\n{rows}")
}

/// `FOREBAY_UPDATE_DOCS=1 cargo test -p forebay-cli fresh` rewrites the table.
#[test]
fn the_table_of_live_workloads_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bench-workloads.md");
    let (begin, end) = ("<!-- workloads: generated -->\n", "<!-- /workloads -->");
    let document = std::fs::read_to_string(path).expect("docs/bench-workloads.md is readable");
    let (head, rest) = document.split_once(begin).expect("the marker where the table begins");
    let (old, tail) = rest.split_once(end).expect("the marker where the table ends");
    if std::env::var_os("FOREBAY_UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{head}{begin}{}{end}{tail}", table())).expect("the document is writable");
    } else {
        assert_eq!(old, table(), "stale: run with FOREBAY_UPDATE_DOCS=1");
    }
}
