//! Circles of files: which files of a crate use each other's items, one after the other and round again.
//!
//! A file uses those whose items its code names, whatever the path leads through: `super::Lock` is a use of the file in
//! which `Lock` stands, also where the parent hands it on. A parent's `mod` and `pub use` are no uses, and tests don't
//! count. Methods are not followed, but an `impl` names its type.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;

use super::tree::{File, Tree, only_for_tests};

/// Files of each crate that are in circles. A number only falls; the aim is none.
const IN_CIRCLES: &[(&str, usize)] = &[("cache", 4), ("forebay", 66), ("server", 22)];

/// A name that a module knows by `use`.
struct Alias {
    name: String,
    /// What it stands for.
    path: Vec<String>,
    /// It is handed on, and for that alone no use.
    public: bool,
}

/// One file's names, and the paths that its code uses.
#[derive(Default)]
struct Names {
    items: BTreeSet<String>,
    traits: BTreeSet<String>,
    aliases: Vec<Alias>,
    /// What it takes over by `use path::*`.
    globs: Vec<Vec<String>>,
    used: BTreeSet<Vec<String>>,
}

/// The files of one crate by module path.
struct Crate<'a> {
    root: &'a str,
    modules: BTreeMap<String, Names>,
}

/// For each module those that it uses, and the names by which it does.
type Uses<'a> = BTreeMap<&'a str, BTreeMap<String, BTreeSet<String>>>;

/// What a path leads to: a module, or an item of a module.
enum Target {
    Module(String),
    Item(String),
}

impl Crate<'_> {
    fn resolve(&self, module: &str, path: &[String], depth: usize) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        if depth > 16 {
            return None;
        }
        let parent = |module: &str| module.rsplit_once('/').map(|(parent, _)| parent.to_owned());
        match first.as_str() {
            "crate" => self.walk(self.root.to_owned(), rest, depth),
            "self" => self.walk(module.to_owned(), rest, depth),
            "super" if module == self.root => None,
            "super" => match rest.first().map(String::as_str) {
                Some("super") => self.resolve(&parent(module)?, rest, depth),
                _ => self.walk(parent(module)?, rest, depth),
            },
            _ => self.walk(module.to_owned(), path, depth),
        }
    }

    fn walk(&self, module: String, path: &[String], depth: usize) -> Option<Target> {
        let Some((first, rest)) = path.split_first() else { return Some(Target::Module(module)) };
        let child = format!("{module}/{first}");
        if self.modules.contains_key(&child) {
            return self.walk(child, rest, depth);
        }
        let names = self.modules.get(&module)?;
        if names.items.contains(first) {
            return Some(Target::Item(module));
        }
        let by_name = names.aliases.iter().filter(|alias| alias.name == *first);
        let by_name = by_name.map(|alias| [alias.path.as_slice(), rest].concat());
        let by_glob = names.globs.iter().map(|to| [to.as_slice(), path].concat());
        by_name.chain(by_glob).filter(|to| to != path).find_map(|to| self.resolve(&module, &to, depth + 1))
    }

    /// For each module those that its code uses, and by which names.
    fn uses(&self) -> Uses<'_> {
        let mut uses = Uses::new();
        for (module, names) in &self.modules {
            let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            let mut take = |target: String, path: &[String]| {
                if target != *module {
                    used.entry(target).or_default().extend(path.last().cloned());
                }
            };
            for path in &names.used {
                match self.resolve(module, path, 0) {
                    // One word is a variable, a field or a function, whatever module is called so.
                    Some(Target::Module(_)) if path.len() == 1 => {}
                    Some(Target::Module(target) | Target::Item(target)) => take(target, path),
                    None => {}
                }
            }
            // A trait is used by its methods, which nothing here follows.
            for alias in names.aliases.iter().filter(|alias| !alias.public) {
                if let Some(Target::Item(target)) = self.resolve(module, &alias.path, 0)
                    && alias.path.last().is_some_and(|name| self.modules[&target].traits.contains(name))
                {
                    take(target, &alias.path);
                }
            }
            uses.insert(module, used);
        }
        uses
    }
}

/// What a module uses, and what that uses, and so on.
fn reach<'a>(uses: &'a Uses<'_>, from: &'a str) -> BTreeSet<&'a str> {
    let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(at) = left.pop() {
        let next = uses.get(at).into_iter().flat_map(BTreeMap::keys).map(String::as_str);
        left.extend(next.filter(|next| seen.insert(*next)));
    }
    seen
}

/// Groups of modules of which each leads to each, by what they use.
fn circles(uses: &Uses<'_>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = uses.keys().map(|module| (*module, reach(uses, module))).collect();
    let mut found: BTreeSet<Vec<String>> = BTreeSet::new();
    for (module, seen) in &reached {
        let back = seen.iter().filter(|other| reached.get(*other).is_some_and(|there| there.contains(module)));
        let circle: Vec<String> = back.map(|other| (*other).to_owned()).collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

/// The uses within a circle, a line each.
fn told(circle: &[String], uses: &Uses<'_>) -> String {
    let mut text = String::new();
    for from in circle {
        for (to, names) in uses.get(from.as_str()).into_iter().flatten().filter(|(to, _)| circle.contains(to)) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            text += &format!("\n    {from} -> {to}: {}", names.join(", "));
        }
    }
    text
}

/// The circles of a crate.
pub struct Circles {
    /// Files in circles.
    pub files: usize,
    /// Their uses of each other.
    pub text: String,
}

/// The circles of each crate, without the crates that have none.
pub fn by_crate(tree: &Tree) -> BTreeMap<String, Circles> {
    let tests = tree.test_modules();
    let is_test = |module: &str| tests.iter().any(|test| module == test || module.starts_with(&format!("{test}/")));
    let mut crates: BTreeMap<String, BTreeMap<String, Names>> = BTreeMap::new();
    for file in tree.crate_sources().filter(|file| !is_test(file.module())) {
        let name = file.path.split('/').nth(1).unwrap_or_default();
        crates.entry(name.to_owned()).or_default().insert(file.module().to_owned(), Names::of(file));
    }
    let mut found = BTreeMap::new();
    for (name, modules) in crates {
        let root = format!("crates/{name}/src");
        let room = Crate { root: &root, modules };
        let uses = room.uses();
        let circles = circles(&uses);
        let text: Vec<String> = circles.iter().map(|circle| told(circle, &uses)).collect();
        if !circles.is_empty() {
            let files = circles.iter().map(Vec::len).sum();
            found.insert(name, Circles { files, text: text.join("\n").replace(&root, "") });
        }
    }
    found
}

/// Crates with more or fewer files in circles than the table says.
pub fn grown(tree: &Tree) -> Vec<String> {
    let found = by_crate(tree);
    let names: BTreeSet<&str> = found.keys().map(String::as_str).chain(IN_CIRCLES.iter().map(|row| row.0)).collect();
    let mut wrong = Vec::new();
    for name in names {
        let (files, text) = found.get(name).map_or((0, ""), |circles| (circles.files, &circles.text));
        let known = IN_CIRCLES.iter().find(|row| row.0 == name).map_or(0, |row| row.1);
        if files != known {
            wrong.push(format!("crates/{name}: {files} files in circles, and the table says {known}:{text}"));
        }
    }
    wrong
}

impl Names {
    fn of(file: &File) -> Names {
        let mut names = Names::default();
        let syntax = file.syntax();
        for item in &syntax.items {
            names.declare(item);
        }
        names.visit_file(&syntax);
        names
    }

    fn declare(&mut self, item: &syn::Item) {
        let name = match item {
            syn::Item::Const(item) => &item.ident,
            syn::Item::Enum(item) => &item.ident,
            syn::Item::Fn(item) => &item.sig.ident,
            syn::Item::Static(item) => &item.ident,
            syn::Item::Struct(item) => &item.ident,
            syn::Item::Trait(item) => {
                self.traits.insert(item.ident.to_string());
                &item.ident
            }
            syn::Item::TraitAlias(item) => &item.ident,
            syn::Item::Type(item) => &item.ident,
            syn::Item::Union(item) => &item.ident,
            syn::Item::Use(item) => {
                let public = !matches!(item.vis, syn::Visibility::Inherited);
                return self.alias(&item.tree, &mut Vec::new(), public);
            }
            _ => return,
        };
        self.items.insert(name.to_string());
    }

    fn alias(&mut self, tree: &syn::UseTree, path: &mut Vec<String>, public: bool) {
        let mut take = |name: String, path: Vec<String>| self.aliases.push(Alias { name, path, public });
        match tree {
            syn::UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.alias(&step.tree, path, public);
                path.pop();
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.alias(item, path, public)),
            syn::UseTree::Glob(_) => self.globs.push(path.clone()),
            syn::UseTree::Name(name) if name.ident == "self" => {
                take(path.last().cloned().unwrap_or_default(), path.clone());
            }
            syn::UseTree::Name(name) => {
                take(name.ident.to_string(), [path.as_slice(), &[name.ident.to_string()]].concat());
            }
            syn::UseTree::Rename(name) => {
                take(name.rename.to_string(), [path.as_slice(), &[name.ident.to_string()]].concat());
            }
        }
    }
}

impl Visit<'_> for Names {
    fn visit_item(&mut self, item: &syn::Item) {
        let attributes = match item {
            syn::Item::Const(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Struct(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !only_for_tests(attributes) {
            syn::visit::visit_item(self, item);
        }
    }

    /// What is handed on is no use, and neither is a name that nothing here mentions again.
    fn visit_item_use(&mut self, _: &syn::ItemUse) {}

    /// `pub(super)` uses nothing.
    fn visit_visibility(&mut self, _: &syn::Visibility) {}

    fn visit_path(&mut self, path: &syn::Path) {
        self.used.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }

    /// The arguments of a macro, as far as they are paths.
    fn visit_macro(&mut self, item: &syn::Macro) {
        // `pub(super)` in a macro uses nothing either.
        super::rooms::paths_in(item.tokens.clone(), &mut |path| {
            if path.len() > 1 || !["crate", "self", "super"].contains(&path[0].as_str()) {
                self.used.insert(path);
            }
        });
        syn::visit::visit_macro(self, item);
    }
}

#[test]
fn a_circle_of_files_is_found() {
    let parent = ("crates/x/src/lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::B;");
    for (a, b, circle) in [
        ("pub struct A(super::B);", "pub struct B(Box<crate::A>);", true),
        ("pub struct A(super::B);", "pub struct B;", false),
        ("pub struct A;", "pub struct B;\nimpl super::A { fn f(b: B) {} }", false),
        ("pub struct A;\nfn f() { super::b::g() }", "pub struct B;\nfn g() { h!(crate::A) }", true),
        ("use super::b::*;\npub struct A(B);", "use super::a;\npub struct B(Vec<a::A>);", true),
        ("pub struct A(super::B);", "pub struct B;\n#[cfg(test)]\nmod tests { fn f(a: crate::A) {} }", false),
        ("use super::B;\npub struct A;", "pub struct B(Box<crate::A>);", false),
    ] {
        let tree = Tree::of(&[parent, ("crates/x/src/a.rs", a), ("crates/x/src/b.rs", b)]);
        assert_eq!(by_crate(&tree).len(), usize::from(circle), "{a} {b}");
    }
    let parent = ("crates/x/src/lib.rs", "mod a;\npub struct P(a::A);");
    let tree = Tree::of(&[parent, ("crates/x/src/a.rs", "pub struct A(Box<super::P>);")]);
    assert_eq!(by_crate(&tree)["x"].files, 2, "a parent and its child");
    let parent = ("crates/x/src/lib.rs", "mod a;\npub struct P;\nfn f(a: u8) -> u8 { a }");
    let tree = Tree::of(&[parent, ("crates/x/src/a.rs", "pub struct A(super::P);")]);
    assert!(by_crate(&tree).is_empty(), "a variable is called as the child");
}
