//! Rules on the manifests of the crates.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::tree::{File, Tree};

fn manifests(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files.iter().filter(|file| file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml"))
}

fn parse(file: &File) -> Table {
    file.text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.path))
}

/// All dependencies of a manifest: in which table they stand, and their name. A renamed one counts by its real name.
pub fn dependency_names(file: &File) -> Vec<(&'static str, String)> {
    let manifest = parse(file);
    let mut names = Vec::new();
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let tables = targets.filter_map(Value::as_table).chain([&manifest]);
    for table in tables {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for (name, value) in table.get(kind).and_then(Value::as_table).into_iter().flatten() {
                let real = value.get("package").and_then(Value::as_str).unwrap_or(name);
                names.push((kind, real.to_owned()));
            }
        }
    }
    names
}

/// Crates that do not take the workspace's lints.
pub fn lints(tree: &Tree) -> Vec<String> {
    let shares = |file: &&File| {
        let manifest = parse(file);
        let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        lints.and_then(Value::as_bool) != Some(true)
    };
    manifests(tree).filter(shares).map(|file| format!("{}: [lints] workspace = true is missing", file.path)).collect()
}

/// Dependencies that docs/dependencies.md does not speak of, and those that it speaks of for nothing.
pub fn dependencies(tree: &Tree) -> Vec<String> {
    let Some(document) = tree.get("docs/dependencies.md") else {
        return vec!["docs/dependencies.md is missing".into()];
    };
    // A row of a table that begins with the crate's name.
    let row =
        |line: &str| line.strip_prefix("| `").and_then(|rest| rest.split_once('`')).map(|(name, _)| name.to_owned());
    let documented: BTreeSet<String> = document.text.lines().filter_map(row).collect();
    let names = manifests(tree).flat_map(dependency_names).map(|(_, name)| name);
    let used: BTreeSet<String> = names.filter(|name| !name.starts_with("forebay")).collect();
    let missing = used.difference(&documented).map(|name| format!("docs/dependencies.md: no row for `{name}`"));
    let unused = documented.difference(&used).map(|name| format!("docs/dependencies.md: `{name}` is not used"));
    missing.chain(unused).collect()
}

/// CITATION.cff names the version that the workspace has.
pub fn citation(tree: &Tree) -> Vec<String> {
    let version = |path: &str, line: &str| {
        let text = &tree.get(path)?.text;
        text.lines().find_map(|found| found.strip_prefix(line)).map(|rest| rest.trim_matches('"').to_owned())
    };
    let (cited, built) = (version("CITATION.cff", "version: "), version("Cargo.toml", "version = "));
    let differs = cited.is_none() || cited != built;
    differs.then(|| format!("CITATION.cff: version {cited:?}, Cargo.toml has {built:?}")).into_iter().collect()
}

#[test]
fn a_stale_citation_is_found() {
    let of = |cited| Tree::of(&[("CITATION.cff", cited), ("Cargo.toml", "[workspace.package]\nversion = \"0.2.0\"")]);
    assert!(citation(&of("title: x\nversion: 0.2.0\n")).is_empty());
    assert_eq!(citation(&of("title: x\nversion: 0.1.0\n")).len(), 1);
    assert_eq!(citation(&of("title: x\n")).len(), 1);
}

#[test]
fn a_crate_without_lints_is_found() {
    let path = "crates/x/Cargo.toml";
    assert!(lints(&Tree::of(&[(path, "[lints]\nworkspace = true")])).is_empty());
    assert_eq!(lints(&Tree::of(&[(path, "[package]\nname = \"x\"")])).len(), 1);
    assert_eq!(lints(&Tree::of(&[(path, "[lints.rust]\nunsafe_code = \"allow\"")])).len(), 1);
}

#[test]
fn a_dependency_without_a_reason_is_found() {
    let document = ("docs/dependencies.md", "| `bytes` | why |\n| `zstd` | why |");
    let manifest = |text| Tree::of(&[document, ("crates/x/Cargo.toml", text)]);
    let sound = "[dependencies]\nbytes = \"1\"\n[dev-dependencies]\nzip = { version = \"1\", package = \"zstd\" }";
    assert!(dependencies(&manifest(sound)).is_empty());
    assert_eq!(dependencies(&manifest("[dependencies]\nbytes = \"1\"")), ["docs/dependencies.md: `zstd` is not used"]);
    let more = "[dependencies]\nbytes = \"1\"\nzstd = \"1\"\n[target.'cfg(unix)'.build-dependencies]\ncc = \"1\"";
    assert_eq!(dependencies(&manifest(more)), ["docs/dependencies.md: no row for `cc`"]);
}
