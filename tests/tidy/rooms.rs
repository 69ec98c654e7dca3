//! Who may know whom. The tables here are the only ones: the check and docs/architecture.md follow from them.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

use super::tree::{File, Tree};

/// Where the tables stand in docs/architecture.md.
pub const BEGIN: &str = "<!-- rooms: generated -->\n";
pub const END: &str = "<!-- /rooms -->";

/// One room and those that it may use.
struct Room {
    name: &'static str,
    may_use: &'static [&'static str],
}

const fn room(name: &'static str, may_use: &'static [&'static str]) -> Room {
    Room { name, may_use }
}

/// Crates, by folder. A crate begins where the set of dependencies changes, and nowhere else.
const CRATES: &[Room] = &[
    room("memoize", &[]),
    room("cache", &["memoize"]),
    room("forebay", &["cache"]),
    room("protocol", &[]),
    room("client", &["cache", "forebay", "protocol"]),
    room("trace", &["forebay"]),
    room("drivers", &["forebay"]),
    room("server", &["forebay", "drivers", "protocol", "trace"]),
    room("sim", &["forebay", "trace"]),
    room("workload", &["forebay", "drivers", "protocol", "trace"]),
    room("cli", &["client", "forebay", "drivers", "protocol", "server", "sim", "trace", "workload"]),
];

/// Crates whose tests may use more.
const TESTS: &[Room] = &[room("server", &["client", "workload"])];

/// Crates that may use nothing of the library but its plain data, and these modules.
const PLAIN_DATA_ONLY: &[Room] = &[room("trace", &[]), room("client", &["lease", "runtime"])];

/// A crate that other programs are built with, by its modules.
struct Library {
    name: &'static str,
    /// Modules that every other may use.
    plain_data: &'static [&'static str],
    modules: &'static [Room],
}

const LIBRARIES: &[Library] = &[CACHE, FOREBAY];

const CACHE: Library = Library {
    name: "cache",
    plain_data: &["ahead", "hint", "mutation", "sync"],
    modules: &[
        room("graph", &[]),
        room("policy", &["graph"]),
        room("engine", &["policy"]),
        room("local", &["engine", "policy"]),
    ],
};

const FOREBAY: Library = Library {
    name: "forebay",
    plain_data: &["change", "error", "hint", "key", "mutation", "read", "value", "version"],
    modules: FOREBAY_MODULES,
};

/// `graph`, `hint` and `policy` are those of the crate `cache`.
const FOREBAY_MODULES: &[Room] = &[
    room("sync", &[]),
    room("runtime", &[]),
    room("store", &["runtime"]),
    room("tier", &["runtime"]),
    room("cache", &["policy", "sync"]),
    room("lease", &["cache"]),
    room("outage", &["store", "tier", "runtime"]),
    room("txn", &["graph", "cache", "lease", "store", "outage", "runtime", "sync"]),
];

/// The tables as docs/architecture.md shows them.
pub fn markdown() -> String {
    let list = |names: &[&str]| match names {
        [] => "-".to_owned(),
        names => names.join(", "),
    };
    let mut text = String::from("| crate | may use |\n|---|---|\n");
    for room in CRATES {
        let plain = PLAIN_DATA_ONLY.iter().find(|plain| plain.name == room.name);
        let plain = plain.map_or(String::new(), |plain| match plain.may_use {
            [] => " (plain data only)".into(),
            more => format!(" (plain data and {} only)", list(more)),
        });
        let tests = TESTS.iter().find(|tests| tests.name == room.name);
        let tests = tests.map_or(String::new(), |tests| format!(", in tests {} too", list(tests.may_use)));
        text += &format!("| {} | {}{plain}{tests} |\n", room.name, list(room.may_use));
    }
    for Library { name, plain_data, modules } in LIBRARIES {
        text += &format!("\nIn `crates/{name}`, every module may use the plain data: {}.\n\n", list(plain_data));
        text += "| module | may use |\n|---|---|\n";
        for room in *modules {
            text += &format!("| {} | {} |\n", room.name, list(room.may_use));
        }
    }
    text
}

/// Whether the manifests of the crates keep to the table.
pub fn crates(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in &tree.files {
        let Some(name) = file.path.strip_prefix("crates/").and_then(|path| path.strip_suffix("/Cargo.toml")) else {
            continue;
        };
        let Some(room) = CRATES.iter().find(|room| room.name == name) else {
            breaches.push(format!("{}: the crate is not in the table of rooms", file.path));
            continue;
        };
        let in_tests = TESTS.iter().find(|room| room.name == name).map_or(&[][..], |room| room.may_use);
        for (kind, dependency) in super::manifests::dependency_names(file) {
            let other = match dependency.strip_prefix("forebay") {
                Some("") => "forebay",
                Some(rest) => rest.trim_start_matches('-'),
                None => continue,
            };
            let tested = kind == "dev-dependencies" && in_tests.contains(&other);
            if other != name && !room.may_use.contains(&other) && !tested {
                breaches.push(format!("{}: {name} may not use {other}", file.path));
            }
        }
    }
    for (file, plain) in tree.crate_sources().filter_map(|file| Some((file, plain_data_only(file)?))) {
        for target in idents_after(file.tokens(), "forebay") {
            let module = target.chars().next().is_some_and(char::is_lowercase);
            let allowed = FOREBAY.plain_data.iter().chain(plain.may_use);
            if module && !allowed.into_iter().any(|allowed| *allowed == target) {
                breaches.push(format!("{}: {} may only use plain data, not {target}", file.path, plain.name));
            }
        }
    }
    breaches
}

fn plain_data_only(file: &File) -> Option<&'static Room> {
    let name = file.path.split('/').nth(1)?;
    PLAIN_DATA_ONLY.iter().find(|plain| plain.name == name)
}

/// Whether the modules of the libraries keep to their tables.
pub fn modules(tree: &Tree) -> Vec<String> {
    LIBRARIES.iter().flat_map(|library| modules_of(library, tree)).collect()
}

fn modules_of(library: &Library, tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    let is_plain = |module: &String| library.plain_data.contains(&module.as_str());
    for used in uses(library, tree) {
        let Used { file, from, to, item } = &used;
        let Some(room) = library.modules.iter().find(|room| room.name == *from) else {
            if !is_plain(from) {
                breaches.push(format!("{file}: module {from} is not in the table of rooms"));
            } else if !is_plain(to) {
                breaches.push(format!("{file}: {from} is plain data and may not use {to}"));
            }
            continue;
        };
        let allowed = is_plain(to) || room.may_use.contains(&to.as_str());
        if !allowed {
            breaches.push(format!("{file}: {from} may not use {to} ({to}::{item})"));
        }
    }
    breaches
}

/// One use of a module by another.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Used {
    file: String,
    from: String,
    to: String,
    item: String,
}

/// All uses between modules of a library.
fn uses(library: &Library, tree: &Tree) -> BTreeSet<Used> {
    let folder = format!("crates/{}/src/", library.name);
    let lib = format!("{folder}lib.rs");
    let exported = tree.get(&lib).map(exports).unwrap_or_default();
    let mut uses = BTreeSet::new();
    for file in tree.rust().filter(|file| file.path.starts_with(&folder) && file.path != lib) {
        let within = file.module().strip_prefix(folder.as_str()).unwrap_or_default();
        let stack: Vec<String> = within.split('/').map(str::to_owned).collect();
        let from = stack[0].clone();
        let mut paths = Paths { stack, found: Vec::new() };
        paths.visit_file(&file.syntax());
        for path in paths.found {
            let mut path = path.into_iter();
            let Some(mut to) = path.next() else { continue };
            let mut item = path.next().unwrap_or_default();
            // An item that lib.rs hands on belongs to its module.
            if let Some((module, name)) = exported.iter().find(|(_, name)| *name == to) {
                (to, item) = (module.clone(), name.clone());
            }
            if to != from {
                uses.insert(Used { file: file.path.clone(), from: from.clone(), to, item });
            }
        }
    }
    uses
}

/// What lib.rs hands on of its own modules: module and item.
fn exports(lib: &File) -> Vec<(String, String)> {
    let mut paths = Vec::new();
    for item in lib.syntax().items {
        if let syn::Item::Use(item) = item {
            flatten(&item.tree, &mut Vec::new(), &mut paths);
        }
    }
    let pairs = paths.into_iter().filter_map(|path| Some((path.first()?.clone(), path.last()?.clone())));
    pairs.filter(|(module, _)| !module.starts_with("forebay")).collect()
}

/// Collects paths from the root of the crate.
struct Paths {
    /// The module at hand.
    stack: Vec<String>,
    found: Vec<Vec<String>>,
}

impl Paths {
    fn take(&mut self, path: &[String]) {
        let mut base = self.stack.clone();
        let rest = match path.first().map(String::as_str) {
            Some("crate") => return self.found.push(path[1..].to_vec()),
            Some("super") => {
                let ups = path.iter().take_while(|segment| *segment == "super").count();
                base.truncate(base.len().saturating_sub(ups));
                &path[ups..]
            }
            _ => return,
        };
        base.extend(rest.iter().cloned());
        self.found.push(base);
    }
}

fn flatten(tree: &syn::UseTree, prefix: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
    match tree {
        syn::UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, paths);
            prefix.pop();
        }
        syn::UseTree::Group(group) => group.items.iter().for_each(|item| flatten(item, prefix, paths)),
        syn::UseTree::Name(name) if name.ident == "self" => paths.push(prefix.clone()),
        syn::UseTree::Name(name) => paths.push([prefix.as_slice(), &[name.ident.to_string()]].concat()),
        syn::UseTree::Rename(name) => paths.push([prefix.as_slice(), &[name.ident.to_string()]].concat()),
        syn::UseTree::Glob(_) => paths.push([prefix.as_slice(), &["*".to_owned()]].concat()),
    }
}

impl Visit<'_> for Paths {
    fn visit_item_mod(&mut self, item: &syn::ItemMod) {
        self.stack.push(item.ident.to_string());
        syn::visit::visit_item_mod(self, item);
        self.stack.pop();
    }

    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        let mut paths = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut paths);
        paths.iter().for_each(|path| self.take(path));
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.take(&segments);
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &syn::Macro) {
        for target in idents_after(item.tokens.clone(), "crate") {
            self.found.push(vec![target, "in a macro".to_owned()]);
        }
        syn::visit::visit_macro(self, item);
    }
}

/// The names that follow `name::` anywhere in `tokens`.
fn idents_after(tokens: TokenStream, name: &str) -> Vec<String> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => found.extend(idents_after(group.stream(), name)),
            TokenTree::Ident(ident) if ident == name => match tokens.get(at + 1..at + 4) {
                Some([TokenTree::Punct(a), TokenTree::Punct(b), TokenTree::Ident(target)])
                    if a.as_char() == ':' && b.as_char() == ':' =>
                {
                    found.push(target.to_string());
                }
                _ => {}
            },
            _ => {}
        }
    }
    found
}

/// The paths `a::b::c` anywhere in `tokens`, and single names.
pub fn paths_in(tokens: TokenStream, found: &mut impl FnMut(Vec<String>)) {
    let (mut path, mut colons) = (Vec::new(), 0);
    for token in tokens {
        match &token {
            TokenTree::Ident(ident) if colons == 2 => path.push(ident.to_string()),
            TokenTree::Punct(punct) if punct.as_char() == ':' => {
                colons += 1;
                continue;
            }
            other => {
                if !path.is_empty() {
                    found(std::mem::take(&mut path));
                }
                match other {
                    TokenTree::Ident(ident) => path.push(ident.to_string()),
                    TokenTree::Group(group) => paths_in(group.stream(), found),
                    _ => {}
                }
            }
        }
        colons = 0;
    }
    if !path.is_empty() {
        found(path);
    }
}

#[test]
fn a_crate_that_knows_too_much_is_found() {
    let toml = |name: &str| format!("[dependencies]\n{name}.workspace = true\n");
    for (path, dependency, sound) in [
        ("crates/protocol/Cargo.toml", "forebay", false),
        ("crates/sim/Cargo.toml", "forebay-server", false),
        ("crates/server/Cargo.toml", "forebay-protocol", true),
        ("crates/attic/Cargo.toml", "bytes", false),
    ] {
        let tree = Tree::of(&[(path, &toml(dependency))]);
        assert_eq!(crates(&tree).is_empty(), sound, "{path}: {dependency}");
    }
    for (kind, sound) in [("dev-dependencies", true), ("dependencies", false)] {
        let toml = format!("[{kind}]\nforebay-client.workspace = true\n");
        assert_eq!(crates(&Tree::of(&[("crates/server/Cargo.toml", &toml)])).is_empty(), sound, "{kind}");
    }
    for (path, text, count) in [
        ("crates/trace/src/a.rs", "use forebay::Key;\nuse forebay::cache::Cache;", 1),
        ("crates/trace/src/a.rs", "use forebay::lease::Leases;", 1),
        ("crates/client/src/a.rs", "use forebay::lease::Leases;", 0),
        ("crates/client/src/a.rs", "use forebay::txn::Engine;", 1),
    ] {
        assert_eq!(crates(&Tree::of(&[(path, text)])).len(), count, "{path}: {text}");
    }
}

#[test]
fn a_module_that_knows_too_much_is_found() {
    let lib = ("crates/forebay/src/lib.rs", "pub mod txn;\npub use txn::Engine;");
    for (path, text, sound) in [
        ("crates/cache/src/policy/lru.rs", "use crate::engine::Inline;", false),
        ("crates/cache/src/policy/lru.rs", "use crate::{hint::HintSet, graph::Graph};", true),
        ("crates/cache/src/policy/lru.rs", "use crate::{hint::HintSet, local::Cache};", false),
        ("crates/forebay/src/store/mod.rs", "use crate::policy::Order;", false),
        ("crates/forebay/src/cache/mod.rs", "fn f(a: crate::store::Caps) {}", false),
        ("crates/forebay/src/cache/mod.rs", "fn f(a: crate::read::Read) {}", true),
        ("crates/forebay/src/cache/fence.rs", "mod tests { use super::super::super::txn::Engine; }", false),
        ("crates/forebay/src/cache/fence.rs", "use super::super::txn::Engine;", false),
        ("crates/forebay/src/cache/fence.rs", "use super::partition::Word;", true),
        ("crates/forebay/src/cache/fence.rs", "use crate::Engine;", false),
        ("crates/forebay/src/cache/fence.rs", "fn f() { check!(crate::txn::LIMIT) }", false),
        ("crates/forebay/src/key.rs", "use crate::cache::Cache;", false),
        ("crates/forebay/src/key.rs", "use crate::value::Blob;", true),
        ("crates/forebay/src/attic.rs", "use crate::value::Blob;", false),
    ] {
        let breaches = modules(&Tree::of(&[lib, (path, text)]));
        assert_eq!(breaches.is_empty(), sound, "{path}: {text}: {breaches:?}");
    }
}
