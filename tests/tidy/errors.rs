//! docs/errors.md has each first word and each limit that a client may be told, and none that it is not.

use std::collections::BTreeSet;

use crate::tree::{File, Tree};

const PAGE: &str = "docs/errors.md";

/// Sources that answer clients.
const ANSWERING: [&str; 3] = ["crates/server/src/", "crates/protocol/src/", "crates/forebay/src/change.rs"];

/// Words before the text of an error.
const BEGINNINGS: [&str; 5] = ["error(\"", "format!(\"", "Err(\"", "String::from(\"", ": &str = \""];

/// First words of other texts: answers, the syntax of a command, and an error that only others send.
const NO_ERRORS: [&str; 11] = [
    "AFTER",
    "APPLIED",
    "BEGIN",
    "BUFFERED",
    "COMMITTED",
    "CONFLICT",
    "DROPPED",
    "LOADING",
    "QUARANTINED",
    "UNKNOWN",
    "WAITING",
];

/// What is not on the page, and what is on the page for nothing.
pub fn on_their_page(tree: &Tree) -> Vec<String> {
    let Some(page) = tree.files.iter().find(|file| file.path == PAGE) else {
        return vec![format!("{PAGE} is not there")];
    };
    let answers = |file: &&File| ANSWERING.iter().any(|room| file.path.starts_with(room));
    let sources = tree.rust().filter(answers).filter(|file| !file.path.contains("/tests"));
    let sources: Vec<&str> = sources.map(without_tests).collect();
    let told: BTreeSet<&str> = sources.iter().flat_map(|text| names(text)).collect();
    let written: BTreeSet<&str> =
        page.text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let missing =
        told.iter().filter(|name| !written.contains(*name)).map(|name| format!("{PAGE} does not have {name}"));
    let is_name = |name: &&&str| !name.contains(' ');
    let others = written.iter().filter(is_name).filter(|name| !told.contains(**name));
    missing.chain(others.map(|name| format!("{PAGE} has {name}, which no error has"))).collect()
}

fn without_tests(file: &File) -> &str {
    file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// First words of errors, and names of limits.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let after =
        move |beginning: &'static str| text.match_indices(beginning).map(move |(at, _)| &text[at + beginning.len()..]);
    let words = BEGINNINGS.into_iter().flat_map(after).filter_map(|rest| {
        let word = rest.split(|c: char| !c.is_ascii_uppercase()).next().unwrap_or_default();
        let ends = rest[word.len()..].starts_with([' ', '"']);
        (ends && word.len() > 2 && !NO_ERRORS.contains(&word)).then_some(word)
    });
    let limits = ["LIMIT ", "limit(\"", "error(\""].into_iter().flat_map(after).filter_map(|rest| {
        let name = rest.split(|c: char| !c.is_ascii_lowercase() && c != '_').next().unwrap_or_default();
        name.ends_with("_max").then_some(name)
    });
    words.chain(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_without_its_line_is_found() {
        let source = r#"Reply::error(format!("LIMIT new_max {most}")); Reply::error("TXNEW it is so")"#;
        let page = "| `LIMIT` | a limit | raise it |\n| `OLDEST` | no error | nothing |\n";
        let tree = Tree::of(&[("crates/server/src/new.rs", source), (PAGE, page)]);
        let expected = ["does not have TXNEW", "does not have new_max", "has OLDEST, which no error has"];
        assert_eq!(on_their_page(&tree), expected.map(|what| format!("{PAGE} {what}")));
    }
}
