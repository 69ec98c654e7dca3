//! Long sentences, and words that hide what does something. Each count has a limit, which is what was counted when it
//! was last lowered. It is never raised.

use crate::documents;
use crate::tree::{File, Tree};

/// A sentence has at most so many words.
const WORDS_MAX: usize = 25;

/// Longer ones that documents may still have.
pub const IN_DOCUMENTS_MAX: usize = 0;

/// Longer ones that the heads of modules may still have.
pub const IN_HEADS_MAX: usize = 148;

/// Places in the heads of modules that may still have one of the words that no document has.
pub const WORDS_IN_HEADS_MAX: usize = 46;

/// Fails with all of `found`, if they are more than `most`.
pub fn at_most(what: &str, found: &[String], most: usize) {
    let count = found.len();
    assert!(count <= most, "{count} {what}, {most} may be left; shorten what you wrote:\n{}", found.join("\n"));
}

/// Long sentences of documents.
pub fn in_documents(tree: &Tree) -> Vec<String> {
    let files = tree.files.iter().filter(|file| file.path.ends_with(".md") && !file.path.starts_with("testdata/"));
    files.flat_map(|file| long(&file.path, documents::outside_fences(&file.text))).collect()
}

/// Long sentences of the heads of modules.
pub fn in_heads(tree: &Tree) -> Vec<String> {
    heads(tree).flat_map(|(file, head)| long(&file.path, documents::outside_fences(&head))).collect()
}

/// Words in the heads of modules that no document has.
pub fn words_in_heads(tree: &Tree) -> Vec<String> {
    heads(tree).flat_map(|(file, head)| documents::words_of(&file.path, &head)).collect()
}

/// What stands at the heads of modules; each line where it stands.
fn heads(tree: &Tree) -> impl Iterator<Item = (&File, String)> {
    let head = |line: &str| line.trim_start().strip_prefix("//!").unwrap_or_default().to_owned() + "\n";
    tree.rust().map(move |file| (file, file.text.lines().map(head).collect()))
}

/// The long sentences of a text: where they stand, and how they begin.
fn long<'a>(path: &str, lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<String> {
    let (mut found, mut paragraph, mut begins) = (Vec::new(), String::new(), 0);
    let mut end = |paragraph: &mut String, begins: usize| {
        for sentence in sentences(&std::mem::take(paragraph)) {
            let count = sentence.split_whitespace().count();
            let start: String = sentence.chars().take(50).collect();
            found.extend((count > WORDS_MAX).then(|| format!("{path}:{begins}: {count} words: {start}")));
        }
    };
    for (at, line) in lines {
        let line = line.trim();
        let item = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).or_else(|| numbered(line));
        let is_text = !line.is_empty() && !line.starts_with(['#', '|', '<']);
        if !is_text || item.is_some() || paragraph.is_empty() {
            end(&mut paragraph, begins);
            begins = at;
        }
        if is_text {
            paragraph.push_str(item.unwrap_or(line));
            paragraph.push(' ');
        }
    }
    end(&mut paragraph, begins);
    found
}

/// What stands behind the number of an item.
fn numbered(line: &str) -> Option<&str> {
    let (number, item) = line.split_once(". ")?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(item)
}

/// The sentences of a paragraph: one ends with a mark that a capital letter or markup follows.
fn sentences(paragraph: &str) -> Vec<&str> {
    let (mut found, mut start) = (Vec::new(), 0);
    for (at, _) in paragraph.match_indices(' ') {
        let before = paragraph[..at].trim_end_matches(['"', '\'', ')', '*', '`']);
        let next = paragraph[at + 1..].chars().next();
        let ends = before.ends_with(['.', '!', '?', ':']);
        if ends && next.is_none_or(|next| next.is_ascii_uppercase() || "`*\"([".contains(next)) {
            found.push(&paragraph[start..at]);
            start = at + 1;
        }
    }
    found.push(&paragraph[start..]);
    found
}

#[test]
fn a_long_sentence_is_found() {
    let words = |count: usize| vec!["word"; count].join(" ");
    let found = |text: &str| {
        let head: String = text.lines().map(|line| format!("//! {line}\n")).collect();
        let both = [in_documents(&Tree::of(&[("docs/a.md", text)])), in_heads(&Tree::of(&[("a.rs", &head)]))];
        assert_eq!(both[0].len(), both[1].len(), "{both:?}");
        both[0].len()
    };
    assert_eq!(found(&words(26)), 1);
    assert_eq!(found(&format!("{}\n{}", words(13), words(13))), 1);
    assert_eq!(found(&format!("{}. {}", words(25), words(2))), 1, "no capital letter follows");
    assert_eq!(found(&format!("{}. W{}\n\n- {}\n1. {}", words(25), words(25), words(25), words(20))), 0);
    assert_eq!(found(&format!("```\n{}\n```\n| {} |", words(30), words(30))), 0);
}

#[test]
fn a_word_in_a_head_is_found() {
    let found = |text: &str| words_in_heads(&Tree::of(&[("a.rs", text)])).len();
    assert_eq!(found(concat!("//! No", "body\n//! reads what is carried\n//! over.\nfn f() {}\n")), 2);
    assert_eq!(found(concat!("// no", "body\n/// no", "body\n")), 0);
}
