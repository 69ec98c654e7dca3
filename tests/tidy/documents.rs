//! Rules on documents, and on what no file may name.

use super::tree::{File, Tree};

/// Hosts of package registries: where packages come from is the machine's affair.
const HOSTS: &[&str] = &[
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("registry.npmjs", ".org"),
    concat!("pypi", ".org/simple"),
    concat!("files.pythonhosted", ".org"),
    concat!("proxy.golang", ".org"),
    concat!("sum.golang", ".org"),
    concat!("deb.debian", ".org"),
];

/// Folders of somebody's machine.
const FOLDERS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Documents with generated parts that no test checks. A generated part begins with a line `<!-- name: ..` and is
/// checked by a Rust file that has tests, names the document and knows `FOREBAY_UPDATE_DOCS`.
pub fn generated(tree: &Tree) -> Vec<String> {
    let marked = |file: &&File| outside_fences(&file.text).any(|(_, line)| is_marker(line));
    let mut breaches = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")).filter(marked) {
        let checks = |source: &File| {
            let text = &source.text;
            text.contains(&file.path) && text.contains("FOREBAY_UPDATE_DOCS") && text.contains("#[test]")
        };
        if !tree.rust().any(checks) {
            breaches.push(format!("{}: no test with FOREBAY_UPDATE_DOCS checks its generated part", file.path));
        }
    }
    breaches
}

fn is_marker(line: &str) -> bool {
    let name = line.strip_prefix("<!-- ").and_then(|rest| rest.split_once(':')).map(|(name, _)| name);
    name.is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
}

/// Sources that declare figures of papers, and the page that lists them.
const FIGURES: [&str; 4] = [
    "bench/figures/src/main.rs",
    "bench/src/figure/detox.rs",
    "bench/src/figure/kairos/mod.rs",
    "bench/src/figure/tardis/mod.rs",
];
const FIGURES_PAGE: &str = "docs/papers/figures.md";

/// Figures that the page of figures, which is what `make figure NAME=list` prints, does not have as they are declared;
/// and those that it has without any of them being declared.
pub fn figures(tree: &Tree) -> Vec<String> {
    let Some(page) = tree.get(FIGURES_PAGE) else { return vec![format!("{FIGURES_PAGE} is missing")] };
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        Some((cells.next()?.trim_end_matches('`').to_owned(), cells.next()?.to_owned()))
    };
    let listed: Vec<(String, String)> = page.text.lines().filter_map(row).collect();
    let mut declared = Vec::new();
    for source in FIGURES.iter().filter_map(|path| tree.get(path)) {
        let quoted = |text: &str| text.split('"').nth(1).unwrap_or_default().to_owned();
        for figure in source.text.split("Figure {").skip(1) {
            let [name, summary] = ["name: ", "summary: "].map(|field| figure.split_once(field));
            if let (Some((_, name)), Some((_, summary))) = (name, summary) {
                declared.push((quoted(name), quoted(summary)));
            }
        }
    }
    declared.retain(|(name, _)| name.contains('-'));
    let missing = declared.iter().filter(|figure| !listed.contains(figure));
    let missing = missing.map(|(name, summary)| format!("{FIGURES_PAGE}: no row | `{name}` | {summary} |"));
    // What is measured without being drawn is declared in no table.
    let known = |name: &str| name == "deferred-table-5.5" || declared.iter().any(|(declared, _)| declared == name);
    let unknown = listed.iter().filter(|(name, _)| !known(name));
    missing.chain(unknown.map(|(name, _)| format!("{FIGURES_PAGE}: there is no figure {name}"))).collect()
}

#[test]
fn a_figure_that_is_not_listed_is_found() {
    let page = (FIGURES_PAGE, "| figure | what | needs |\n| `detox-8` | THR | - |\n");
    let of = |source| figures(&Tree::of(&[page, (FIGURES[1], source)]));
    assert!(of("Figure { name: \"detox-8\", summary: \"THR\", make }").is_empty());
    assert_eq!(of("Figure { name: \"detox-8\", summary: \"THR of all\", make }").len(), 1);
    assert_eq!(of("").len(), 1);
}

/// Relative links that lead nowhere.
pub fn links(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (at, line) in outside_fences(&file.text) {
            for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let path = target.split('#').next().unwrap_or_default();
                let outside = path.contains("://") || path.starts_with("mailto:");
                if !path.is_empty() && !outside && !resolves(tree, folder, path) {
                    breaches.push(format!("{}:{at}: {target} leads nowhere", file.path));
                }
            }
        }
    }
    breaches
}

/// Lines with their numbers, without those in code fences.
pub fn outside_fences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((at + 1, line))
    })
}

fn resolves(tree: &Tree, folder: &str, path: &str) -> bool {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return false;
                }
            }
            part => parts.push(part),
        }
    }
    parts.is_empty() || tree.holds(&parts.join("/"))
}

/// Lines that name a folder of some machine, or a package registry's host.
pub fn places(tree: &Tree) -> Vec<String> {
    // The lock file names its registry by design; test data is other people's.
    let ours = |file: &&File| file.path != "Cargo.lock" && !file.path.starts_with("testdata/");
    let mut breaches = Vec::new();
    for file in tree.files.iter().filter(ours) {
        for (at, line) in file.text.lines().enumerate() {
            let host = HOSTS.iter().find(|host| line.contains(**host));
            let folder = FOLDERS.iter().find(|folder| names_folder(line, folder));
            if let Some(place) = host.or(folder) {
                breaches.push(format!("{}:{}: names {place}", file.path, at + 1));
            }
        }
    }
    breaches
}

/// Whether `folder` stands in `line` at the beginning of a path.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-/}*".contains(c))
    })
}

/// Words that no document has: they hide what does something, or when.
const WORDS: &[&str] =
    &["nobody", "somebody", "whoever", "anew", "of its own", "behind it", "carried over", "carries over", "carry over"];

/// Words that no sentence begins with.
const BEGINNINGS: &[&str] = &[". the same ", ": the same ", "| the same "];

/// Places in documents with one of [`WORDS`], or of [`BEGINNINGS`] with a capital letter.
pub fn words(tree: &Tree) -> Vec<String> {
    let files = tree.files.iter().filter(|file| file.path.ends_with(".md") && !file.path.starts_with("testdata/"));
    files.flat_map(|file| words_of(&file.path, &file.text)).collect()
}

/// The same in the text of one file.
pub fn words_of(path: &str, of: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    // In one line, since a phrase may go on in the next: what each line begins at, and its number.
    let (mut text, mut lines) = (String::new(), Vec::new());
    for (at, line) in outside_fences(of) {
        lines.push((text.len(), at));
        text.push_str(line.trim());
        text.push(' ');
    }
    let lower = text.to_ascii_lowercase();
    let words = WORDS.iter().flat_map(|word| alone(&lower, word).map(move |at| (at, *word)));
    let capital = |(at, start): &(usize, &str)| text[*at..at + start.len()].contains('T');
    let begun = BEGINNINGS.iter().flat_map(|start| lower.match_indices(start)).filter(capital);
    for (at, word) in words.chain(begun) {
        let line = lines.iter().rev().find(|(start, _)| *start <= at).map_or(0, |(_, line)| *line);
        breaches.push(format!("{path}:{line}: {word}"));
    }
    breaches
}

/// Where `word` stands in `text` by itself.
fn alone<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '-' || c == '_');
    let found = text.match_indices(word).map(|(at, _)| at);
    found.filter(move |at| !letter(text[..*at].chars().next_back()) && !letter(text[at + word.len()..].chars().next()))
}

#[test]
fn a_word_that_no_document_has_is_found() {
    let found = |text: &str| words(&Tree::of(&[("docs/a.md", text)])).len();
    assert_eq!(found("Nobody writes.\n\nAll is carried\nover, and anew. The same holds there.\n"), 4);
    assert_eq!(found("The renewed one keeps the same order.\n```\nnobody\n```\n"), 0);
}

#[test]
fn a_generated_part_that_nobody_checks_is_found() {
    let document = ("docs/a.md", "# A\n<!-- a: generated -->\n| |\n<!-- /a -->\n");
    let test = "#[test]\nfn fresh() { let path = \"docs/a.md\"; var(\"FOREBAY_UPDATE_DOCS\"); }";
    assert_eq!(generated(&Tree::of(&[document])).len(), 1);
    assert!(generated(&Tree::of(&[document, ("crates/x/tests/a.rs", test)])).is_empty());
    let other = test.replace("docs/a.md", "docs/b.md");
    assert_eq!(generated(&Tree::of(&[document, ("crates/x/tests/a.rs", &other)])).len(), 1);
    assert!(generated(&Tree::of(&[("docs/a.md", "```\n<!-- a: generated -->\n```")])).is_empty());
}

#[test]
fn a_dead_link_is_found() {
    let other = ("docs/b.md", "");
    for (text, sound) in [
        ("[b](b.md)", true),
        ("[b](b.md#part)", true),
        ("[b](../docs/b.md) and [c](c.md)", false),
        ("[b](docs/b.md)", false),
        ("[b](../../b.md)", false),
        ("[b](https://example.org/b.md) [here](#here)", true),
        ("```\n[c](c.md)\n```", true),
    ] {
        assert_eq!(links(&Tree::of(&[("docs/a.md", text), other])).is_empty(), sound, "{text}");
    }
}

#[test]
fn a_named_machine_is_found() {
    for (text, sound) in [
        (concat!("cd /wo", "rk/main"), false),
        (concat!("path = \"/ro", "ot/.cargo\""), false),
        (concat!("https://registry.npmjs", ".org/redis"), false),
        ("see crates/workload/ and ./work/x", true),
        ("https://docs.rs/redb", true),
    ] {
        assert_eq!(places(&Tree::of(&[("a.txt", text)])).is_empty(), sound, "{text}");
    }
}
