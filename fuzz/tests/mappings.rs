//! The texts of `--map`. Each is an error, or a mapping that is shown as a text of equal meaning, and whose keys and
//! rows are each other's.

use std::str::FromStr;

use forebay_drivers::Mapping;
use forebay_fuzz::{Choices, text, time};

const WORDS: &[&str] = &[
    "user:{id} -> users(id)",
    "m:{a}:{b} -> s.m(a, b)",
    "\n",
    "user:",
    "m:1:2",
    "{a}",
    "{b}!",
    ":",
    " -> ",
    "t",
    "(a",
    "(a, b)",
    "(\"a\"\"b\")",
    ")",
    ".",
    ",",
    ";",
    "\"",
    " fields",
    " readonly",
    " version",
    "(column)",
    "(side)",
    ".l as list",
];

/// The first line is a mapping, the others are names of documents or, between commas, values of key columns.
fn look(text: &str) {
    let (mapping, names) = text.split_once('\n').unwrap_or((text, ""));
    let Ok(mapping) = Mapping::from_str(mapping) else { return };
    let shown = mapping.to_string();
    let again = Mapping::from_str(&shown).unwrap_or_else(|why| panic!("'{shown}' is shown, and refused: {why}"));
    assert_eq!(again, mapping, "shown as '{shown}'");
    for line in names.split('\n') {
        if let Some(values) = mapping.split_name(line) {
            assert_eq!(mapping.join_name(&values).as_deref(), Some(line), "{shown}: of {values:?}");
        }
        let values: Vec<&str> = line.split(',').collect();
        if let Some(name) = mapping.join_name(&values) {
            assert_eq!(mapping.split_name(&name), Some(values), "{shown}: {name}");
        }
    }
}

#[test]
fn mappings() {
    bolero::check!().with_test_time(time()).for_each(|input: &[u8]| {
        look(&String::from_utf8_lossy(&text(&mut Choices(input), WORDS)));
    });
}
