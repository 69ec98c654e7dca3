//! The tables of `docs/configuration.md`, made from the records.

#![cfg(test)]

use super::setting::{GROUPS, Setting};
use super::table::SETTINGS;

fn row(setting: &Setting) -> String {
    let value = setting.value.replace('|', "\\|");
    let or = |names: Vec<String>| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ");
    let (name, variable) = (or(setting.names().map(str::to_owned).collect()), or(setting.variables().collect()));
    let (default, help) = (setting.default_text(), setting.help().replace('|', "\\|"));
    format!("| {name} | {variable} | `{value}` | `{default}` | {help} |\n")
}

fn tables() -> String {
    let mut text = String::new();
    for group in GROUPS {
        text.push_str(&format!("\n## {}\n\n", group.heading()));
        text.push_str("| setting | environment | value | default | what it does |\n|---|---|---|---|---|\n");
        text.extend(SETTINGS.iter().filter(|setting| setting.group == group).map(row));
    }
    text.push('\n');
    text
}

/// `FOREBAY_UPDATE_DOCS=1 cargo test -p forebay-cli document` rewrites the tables.
#[test]
fn the_document_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let (begin, end) = ("<!-- settings: generated -->\n", "<!-- /settings -->");
    let document = std::fs::read_to_string(path).expect("docs/configuration.md is readable");
    let (head, rest) = document.split_once(begin).expect("the marker where the tables begin");
    let (old, tail) = rest.split_once(end).expect("the marker where the tables end");
    if std::env::var_os("FOREBAY_UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{head}{begin}{}{end}{tail}", tables()))
            .expect("docs/configuration.md is writable");
    } else {
        assert_eq!(old, tables(), "stale: run with FOREBAY_UPDATE_DOCS=1");
    }
}
