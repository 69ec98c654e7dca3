//! The files that the rules look at: all that version control does not ignore, those that are no text as if empty.

use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use syn::visit::Visit;

/// One file.
pub struct File {
    /// From the root of the repository, with `/`.
    pub path: String,
    pub text: String,
}

/// All of them.
pub struct Tree {
    pub files: Vec<File>,
}

/// The root of the repository.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the root of the repository is there")
}

impl Tree {
    /// The tree as it lies on disk.
    pub fn read() -> Tree {
        let root = root();
        let walk = WalkBuilder::new(&root).hidden(false).require_git(false).git_global(false).build();
        let mut files = Vec::new();
        for entry in walk {
            let entry = entry.expect("the tree can be walked");
            let path = entry.path().strip_prefix(&root).expect("it lies below the root").to_string_lossy().into_owned();
            if !entry.path().is_file() || path == ".git" || path.starts_with(".git/") {
                continue;
            }
            // What is no text is none of the rules' business, but links may lead to it.
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            files.push(File { path, text });
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        assert!(files.iter().any(|file| file.path == "Cargo.toml"), "this is the root");
        Tree { files }
    }

    /// A tree of planted files.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let file = |(path, text): &(&str, &str)| File { path: (*path).to_owned(), text: (*text).to_owned() };
        Tree { files: files.iter().map(file).collect() }
    }

    /// All Rust sources, of crates, tests, benchmarks and fuzz targets.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// Sources of crates without their tests.
    pub fn crate_sources(&self) -> impl Iterator<Item = &File> {
        self.rust().filter(|file| file.path.starts_with("crates/") && file.path.contains("/src/"))
    }

    pub fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Files and folders by name.
    pub fn holds(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    }

    /// Modules that exist only for tests: `crates/x/src/y` for `y.rs`, `y/mod.rs` and all below.
    pub fn test_modules(&self) -> Vec<String> {
        self.crate_sources().flat_map(|file| TestModules::of(file).found).collect()
    }
}

impl File {
    /// The file as syntax.
    pub fn syntax(&self) -> syn::File {
        syn::parse_file(&self.text).unwrap_or_else(|error| panic!("{}: {error}", self.path))
    }

    /// The file as tokens, what stands in macros included.
    pub fn tokens(&self) -> proc_macro2::TokenStream {
        self.text.parse().unwrap_or_else(|error| panic!("{}: {error}", self.path))
    }

    /// The path of the module: `crates/x/src/y` for `crates/x/src/y.rs` and `crates/x/src/y/mod.rs`.
    pub fn module(&self) -> &str {
        let path = self.path.strip_suffix(".rs").unwrap_or(&self.path);
        ["/mod", "/lib", "/main"].iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path)
    }
}

/// Whether an item is there for tests only.
pub fn only_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test" || condition == "feature = \"testing\""
        }
        syn::Meta::Path(path) => path.is_ident("test"),
        _ => false,
    })
}

struct TestModules<'a> {
    folder: &'a str,
    found: Vec<String>,
}

impl TestModules<'_> {
    fn of(file: &File) -> TestModules<'_> {
        let mut modules = TestModules { folder: file.module(), found: Vec::new() };
        modules.visit_file(&file.syntax());
        modules
    }
}

impl Visit<'_> for TestModules<'_> {
    fn visit_item_mod(&mut self, item: &syn::ItemMod) {
        if item.content.is_none() && only_for_tests(&item.attrs) {
            self.found.push(format!("{}/{}", self.folder, item.ident));
        }
    }
}

#[test]
fn test_modules_are_found_where_they_are_declared() {
    let tree = Tree::of(&[("crates/x/src/policy/mod.rs", "#[cfg(test)]\nmod models;\nmod lru;")]);
    assert_eq!(tree.test_modules(), ["crates/x/src/policy/models"]);
}
