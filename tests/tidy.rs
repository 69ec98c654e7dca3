//! The house's rules, enforced. Each rule is a function from the tree of files to the breaches it found. Each has a
//! test that plants a breach and sees it found, because a rule that can find nothing is no rule.
//!
//! * `rooms`: who may know whom, for crates and for the modules of the library; written into docs/architecture.md.
//! * `circles`: files that use each other's items, round and round.
//! * `drivers`: a driver is named in its own folder and in one line, nowhere else.
//! * `source`: lengths, ASCII, `unsafe`, tokio, what must not be left behind, panics.
//! * `manifests`: lints and documented dependencies.
//! * `documents`: generated parts are checked where they are made, links lead somewhere, no machine is named, words are
//!   plain.
//! * `errors`: each error that a client may be told has its line in docs/errors.md.
//! * `sentences`: documents and the heads of modules say one fact in a sentence.

#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/drivers.rs"]
mod drivers;
#[path = "tidy/errors.rs"]
mod errors;
#[path = "tidy/manifests.rs"]
mod manifests;
#[path = "tidy/rooms.rs"]
mod rooms;
#[path = "tidy/sentences.rs"]
mod sentences;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/tree.rs"]
mod tree;

use tree::Tree;

/// Panics with all breaches at once.
fn none(breaches: Vec<String>) {
    assert!(breaches.is_empty(), "{} breaches:\n{}", breaches.len(), breaches.join("\n"));
}

#[test]
fn rooms_know_only_whom_they_may() {
    let tree = Tree::read();
    none(rooms::crates(&tree));
    none(rooms::modules(&tree));
}

#[test]
fn files_are_in_no_new_circle() {
    none(circles::grown(&Tree::read()));
}

#[test]
fn drivers_are_named_once() {
    none(drivers::named_elsewhere(&Tree::read()));
}

/// `FOREBAY_UPDATE_DOCS=1 cargo test -p forebay-cli --test tidy` rewrites the tables in docs/architecture.md.
#[test]
fn the_table_of_rooms_is_fresh() {
    let path = tree::root().join("docs/architecture.md");
    let document = std::fs::read_to_string(&path).expect("docs/architecture.md is there");
    let (head, rest) = document.split_once(rooms::BEGIN).expect("the marker where the tables begin");
    let (old, tail) = rest.split_once(rooms::END).expect("the marker where the tables end");
    let fresh = rooms::markdown();
    if std::env::var_os("FOREBAY_UPDATE_DOCS").is_some() {
        let text = format!("{head}{}{fresh}{}{tail}", rooms::BEGIN, rooms::END);
        std::fs::write(&path, text).expect("docs/architecture.md is written");
    } else {
        assert_eq!(old, fresh, "stale; run FOREBAY_UPDATE_DOCS=1 cargo test -p forebay-cli --test tidy");
    }
}

#[test]
fn errors_stand_on_their_page() {
    none(errors::on_their_page(&Tree::read()));
}

#[test]
fn files_functions_and_lines_are_short() {
    let tree = Tree::read();
    none(source::file_lengths(&tree));
    none(source::function_lengths(&tree));
    none(source::line_lengths(&tree));
}

#[test]
fn source_is_ascii() {
    none(source::ascii(&Tree::read()));
}

#[test]
fn unsafe_and_tokio_stay_where_they_belong() {
    let tree = Tree::read();
    none(source::unsafety(&tree));
    none(source::tokio(&tree));
}

#[test]
fn nothing_unfinished_is_left() {
    let tree = Tree::read();
    none(source::unfinished_code(&tree));
    none(source::unfinished_words(&tree));
}

#[test]
fn library_code_does_not_panic_at_will() {
    none(source::panics(&Tree::read()));
}

#[test]
fn crates_share_lints_and_dependencies_are_documented() {
    let tree = Tree::read();
    none(manifests::lints(&tree));
    none(manifests::dependencies(&tree));
    none(manifests::citation(&tree));
}

#[test]
fn documents_are_sound() {
    let tree = Tree::read();
    none(documents::generated(&tree));
    none(documents::links(&tree));
    none(documents::figures(&tree));
    none(documents::places(&tree));
    none(documents::words(&tree));
}

#[test]
fn sentences_are_short() {
    let tree = Tree::read();
    let most = [sentences::IN_DOCUMENTS_MAX, sentences::IN_HEADS_MAX, sentences::WORDS_IN_HEADS_MAX];
    sentences::at_most("long sentences in documents", &sentences::in_documents(&tree), most[0]);
    sentences::at_most("long sentences in heads of modules", &sentences::in_heads(&tree), most[1]);
    sentences::at_most("words in heads of modules that say too little", &sentences::words_in_heads(&tree), most[2]);
}
