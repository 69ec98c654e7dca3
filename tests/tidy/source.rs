//! Rules on source text: what a reader must be able to take in at once, and what must not stand in it.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, LineColumn, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::Visit;

use super::tree::{File, Tree, only_for_tests};

/// No file is longer.
const FILE_LINES_MAX: usize = 800;

/// Files should not be longer.
const FILE_LINES_AIM: usize = 500;

/// Files beyond the aim, with the lines that they may have. May only shrink.
const LONG_FILES: &[(&str, usize)] = &[];

/// Files of others, kept as they came.
const OF_OTHERS: &[&str] = &["crates/server/src/http/assets/uplot/"];

/// No function is longer, from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// No line is longer.
const LINE_COLUMNS_MAX: usize = 120;

/// Where `unsafe` may stand, and nowhere else.
const UNSAFE_ALLOWED: &[&str] = &[
    "crates/cache/src/ahead.rs",
    "crates/cache/src/engine/pages.rs",
    "crates/cache/src/engine/boxed.rs",
    "crates/cache/src/engine/places.rs",
    "crates/cache/src/engine/table.rs",
    "crates/cache/src/engine/tags.rs",
    "crates/cache/tests/allocations.rs",
    "crates/cache/tests/fork.rs",
    "bench/engine/src/memory.rs",
    "bindings/c/",
];

/// Where tokio may be named: everything else runs on any `Runtime`.
const TOKIO_ALLOWED: &[&str] = &[
    "crates/forebay/src/runtime/tokio.rs",
    "crates/server/src/reserved.rs",
    "crates/drivers/",
    "crates/client/src/flights.rs",
    "crates/client/src/ground.rs",
    "crates/client/src/pool.rs",
    "crates/client/src/socket.rs",
    "crates/server/src/listener.rs",
    "crates/server/src/connection.rs",
    "crates/server/src/connection/",
    "crates/server/src/http.rs",
    "crates/server/src/http/",
    "crates/workload/",
    "crates/cli/",
];

/// Calls in library code that may panic, each with the reason why it can't: file, call, number, reason.
const PANICS_ALLOWED: &[(&str, &str, usize, &str)] = &[
    ("crates/cli/src/settings/values.rs", "expect", 1, "the default policy is in the table; a test chooses it"),
    ("crates/cli/src/settings/typed.rs", "expect", 1, "callers name settings of the table by constants"),
    ("crates/cache/src/policy/bare/frame.rs", "expect", 2, "a policy that breaks its contract must not be measured"),
    ("crates/cache/src/policy/gdsf.rs", "expect", 1, "an entry with a position is in the heap: `validate`"),
    ("crates/memoize/src/function.rs", "panic", 1, "in the program that is written: its own constant names no policy"),
    ("crates/workload/src/latency.rs", "expect", 1, "the histogram's bounds are constants in range"),
];

/// Files that are too long, and entries of the list that are no longer needed.
pub fn file_lengths(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in tree.rust() {
        let lines = file.text.lines().count();
        let listed = LONG_FILES.iter().find(|(path, _)| *path == file.path).map(|(_, most)| *most);
        let most = listed.unwrap_or(FILE_LINES_AIM).min(FILE_LINES_MAX);
        if lines > most {
            breaches.push(format!("{}: {lines} lines, at most {most}", file.path));
        } else if listed.is_some() && lines <= FILE_LINES_AIM {
            breaches.push(format!("{}: {lines} lines; strike it out of LONG_FILES", file.path));
        }
    }
    breaches
}

/// Functions that are too long.
pub fn function_lengths(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in tree.rust() {
        let mut functions = Functions::default();
        functions.visit_file(&file.syntax());
        for (name, first, lines) in functions.found {
            if lines > FUNCTION_LINES_MAX {
                breaches.push(format!("{}:{first}: {name} has {lines} lines", file.path));
            }
        }
    }
    breaches
}

/// Lines of source that are too long; a line of a document is as long as its table needs.
pub fn line_lengths(tree: &Tree) -> Vec<String> {
    let long = |file: &File| -> Vec<String> {
        let lines = file.text.lines().enumerate().filter(|(_, line)| line.chars().count() > LINE_COLUMNS_MAX);
        lines.map(|(at, line)| format!("{}:{}: {} columns", file.path, at + 1, line.chars().count())).collect()
    };
    tree.files.iter().filter(|file| is_source(file)).flat_map(long).collect()
}

/// Bytes beyond ASCII in source.
pub fn ascii(tree: &Tree) -> Vec<String> {
    let foreign = |file: &File| -> Vec<String> {
        let lines = file.text.lines().enumerate().filter(|(_, line)| !line.is_ascii());
        lines.map(|(at, _)| format!("{}:{}: not ASCII", file.path, at + 1)).collect()
    };
    tree.files.iter().filter(|file| is_source(file)).flat_map(foreign).collect()
}

fn is_source(file: &File) -> bool {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    let ending = name.rsplit_once('.').map_or(name, |(_, ending)| ending);
    ["rs", "toml", "sh", "py", "js", "mjs", "go", "Makefile", "run"].contains(&ending) && !allowed(file, OF_OTHERS)
}

/// `unsafe`, and leave for it, outside the files that may have it.
pub fn unsafety(tree: &Tree) -> Vec<String> {
    let elsewhere = tree.rust().filter(|file| !allowed(file, UNSAFE_ALLOWED));
    elsewhere.flat_map(|file| places(file, |tokens, at| is_ident(tokens, at, &["unsafe", "unsafe_code"]))).collect()
}

/// Names of tokio outside the files that may have them. `runtime::tokio` is our own module.
pub fn tokio(tree: &Tree) -> Vec<String> {
    let named = |tokens: &[TokenTree], at: usize| {
        let after = |step| is_punct(tokens, at + step, ':');
        let before = at >= 2 && is_punct(tokens, at - 1, ':');
        let used = at >= 1 && is_ident(tokens, at - 1, &["use"]);
        is_ident(tokens, at, &["tokio"]) && !before && (used || (after(1) && after(2)))
    };
    let elsewhere = tree.crate_sources().filter(|file| !allowed(file, TOKIO_ALLOWED));
    elsewhere.flat_map(|file| places(file, named)).collect()
}

/// Macros that stand for work not done.
pub fn unfinished_code(tree: &Tree) -> Vec<String> {
    let macros = ["todo", "unimplemented", "dbg"];
    let called = |tokens: &[TokenTree], at: usize| is_ident(tokens, at, &macros) && is_punct(tokens, at + 1, '!');
    tree.rust().flat_map(|file| places(file, called)).collect()
}

/// Words that stand for work not done, in any file but these rules.
pub fn unfinished_words(tree: &Tree) -> Vec<String> {
    let words = [concat!("TO", "DO"), concat!("FIX", "ME")];
    let mut breaches = Vec::new();
    for file in tree.files.iter().filter(|file| !file.path.starts_with("testdata/")) {
        for (at, line) in file.text.lines().enumerate() {
            let mut parts = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if parts.any(|part| words.contains(&part)) {
                breaches.push(format!("{}:{}: {}", file.path, at + 1, line.trim()));
            }
        }
    }
    breaches
}

/// Calls that may panic in code that is not for tests, beyond the list.
pub fn panics(tree: &Tree) -> Vec<String> {
    let tests = tree.test_modules();
    let for_tests = |file: &File| {
        let module = file.module();
        tests.iter().any(|test| module == test || module.strip_prefix(test).is_some_and(|rest| rest.starts_with('/')))
    };
    let mut breaches = Vec::new();
    let mut listed: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for file in tree.crate_sources().filter(|file| !for_tests(file)) {
        let mut panics = Panics::default();
        panics.visit_file(&file.syntax());
        for (call, line) in panics.found {
            let entry = PANICS_ALLOWED.iter().find(|(path, allowed, ..)| (*path, *allowed) == (&file.path, call));
            match entry {
                Some((path, call, ..)) => *listed.entry((path, call)).or_default() += 1,
                None => breaches.push(format!("{}:{line}: {call}", file.path)),
            }
        }
    }
    if tree.get("Cargo.toml").is_some() {
        for (path, call, count, why) in PANICS_ALLOWED {
            let found = listed.get(&(*path, *call)).copied().unwrap_or_default();
            if found != *count {
                breaches.push(format!("{path}: {found} times {call}, the list says {count} ({why})"));
            }
        }
    }
    breaches
}

fn allowed(file: &File, places: &[&str]) -> bool {
    places.iter().any(|place| file.path == *place || (place.ends_with('/') && file.path.starts_with(place)))
}

fn is_ident(tokens: &[TokenTree], at: usize, names: &[&str]) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Ident(ident)) if names.iter().any(|name| ident == name))
}

fn is_punct(tokens: &[TokenTree], at: usize, sign: char) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

/// Where `found` is true of the tokens at a position, in groups too.
fn places(file: &File, found: impl Fn(&[TokenTree], usize) -> bool) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut streams = vec![file.tokens()];
    while let Some(stream) = streams.pop() {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            if found(&tokens, at) {
                breaches.push(format!("{}:{}: {token}", file.path, token.span().start().line));
            }
            if let TokenTree::Group(group) = token {
                streams.push(group.stream());
            }
        }
    }
    breaches
}

/// All functions with a body: name, first line, lines.
#[derive(Default)]
struct Functions {
    found: Vec<(String, usize, usize)>,
}

impl Functions {
    fn take(&mut self, name: String, start: LineColumn, end: LineColumn) {
        self.found.push((name, start.line, end.line + 1 - start.line));
    }

    fn of(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let end = block.brace_token.span.close().end();
        self.take(signature.ident.to_string(), signature.fn_token.span.start(), end);
    }

    /// Functions in the tokens of a macro: `fn name .. { .. }`.
    fn in_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut open: Option<(String, LineColumn)> = None;
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Ident(ident) if ident == "fn" => {
                    if let Some(TokenTree::Ident(name)) = tokens.get(at + 1) {
                        open = Some((name.to_string(), ident.span().start()));
                    }
                }
                TokenTree::Group(group) => {
                    if group.delimiter() == Delimiter::Brace
                        && let Some((name, start)) = open.take()
                    {
                        self.take(name, start, group.span_close().end());
                    }
                    self.in_tokens(group.stream());
                }
                _ => {}
            }
        }
    }
}

impl Visit<'_> for Functions {
    fn visit_item_fn(&mut self, item: &syn::ItemFn) {
        self.of(&item.sig, &item.block);
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &syn::ImplItemFn) {
        self.of(&item.sig, &item.block);
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.of(&item.sig, block);
        }
        syn::visit::visit_trait_item_fn(self, item);
    }

    fn visit_macro(&mut self, item: &syn::Macro) {
        self.in_tokens(item.tokens.clone());
    }
}

/// Calls that may panic, with their line; items for tests are left out.
#[derive(Default)]
struct Panics {
    found: Vec<(&'static str, usize)>,
}

impl Panics {
    fn in_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            let line = token.span().start().line;
            let method = |name| is_ident(&tokens, at, &[name]) && at > 0 && is_punct(&tokens, at - 1, '.');
            if method("unwrap") {
                self.found.push(("unwrap", line));
            } else if method("expect") {
                self.found.push(("expect", line));
            } else if is_ident(&tokens, at, &["panic"]) && is_punct(&tokens, at + 1, '!') {
                self.found.push(("panic", line));
            }
            if let TokenTree::Group(group) = token {
                self.in_tokens(group.stream());
            }
        }
    }
}

impl Visit<'_> for Panics {
    fn visit_item(&mut self, item: &syn::Item) {
        let attributes = match item {
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Mod(item) => &item.attrs,
            _ => return syn::visit::visit_item(self, item),
        };
        if !only_for_tests(attributes) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &syn::ImplItemFn) {
        if !only_for_tests(&item.attrs) {
            syn::visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_expr_method_call(&mut self, call: &syn::ExprMethodCall) {
        let line = call.method.span().start().line;
        match (call.method.to_string().as_str(), call.args.len()) {
            ("unwrap", 0) => self.found.push(("unwrap", line)),
            ("expect", 1) => self.found.push(("expect", line)),
            _ => {}
        }
        syn::visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, item: &syn::Macro) {
        if item.path.is_ident("panic") {
            self.found.push(("panic", item.path.span().start().line));
        }
        self.in_tokens(item.tokens.clone());
    }
}

#[cfg(test)]
fn one(text: &str) -> Tree {
    Tree::of(&[("crates/x/src/a.rs", text)])
}

#[test]
fn a_long_file_function_or_line_is_found() {
    let lines = |count: usize| "//\n".repeat(count);
    assert!(file_lengths(&one(&lines(FILE_LINES_AIM))).is_empty());
    assert_eq!(file_lengths(&one(&lines(FILE_LINES_AIM + 1))).len(), 1);
    for (listed, most) in LONG_FILES {
        assert_eq!(file_lengths(&Tree::of(&[(*listed, &lines(most + 1))])).len(), 1);
        assert_eq!(file_lengths(&Tree::of(&[(*listed, &lines(FILE_LINES_AIM))])).len(), 1, "the list has to shrink");
    }

    let body = |count: usize| "    g();\n".repeat(count - 2);
    let shapes = ["fn f() {\nBODY}", "impl A { fn f() {\nBODY} }", "m! { fn f(a in 0..1) {\nBODY} }"];
    for shape in shapes {
        let fits = shape.replace("BODY", &body(FUNCTION_LINES_MAX));
        let long = shape.replace("BODY", &body(FUNCTION_LINES_MAX + 1));
        assert_eq!((function_lengths(&one(&fits)).len(), function_lengths(&one(&long)).len()), (0, 1), "{shape}");
    }

    assert!(line_lengths(&one(&"/".repeat(LINE_COLUMNS_MAX))).is_empty());
    assert_eq!(line_lengths(&one(&"/".repeat(LINE_COLUMNS_MAX + 1))).len(), 1);
}

#[test]
fn a_foreign_letter_is_found() {
    assert_eq!(ascii(&one("// \u{2192}")).len(), 1);
    assert!(ascii(&one("// ->")).is_empty());
}

#[test]
fn planted_unsafe_and_tokio_are_found() {
    assert_eq!(unsafety(&one("fn f() { unsafe { g() } }")).len(), 1);
    assert_eq!(unsafety(&one("#![allow(unsafe_code)]")).len(), 1);
    assert!(unsafety(&one("// unsafe\nconst A: &str = \"unsafe\";")).is_empty());
    assert!(unsafety(&Tree::of(&[(UNSAFE_ALLOWED[0], "unsafe fn f() {}")])).is_empty());
    assert_eq!(tokio(&one("use tokio::net;")).len(), 1);
    assert_eq!(tokio(&one("use tokio as t;")).len(), 1);
    assert_eq!(tokio(&one("fn f() { m!(tokio::spawn(g())) }")).len(), 1);
    assert!(tokio(&one("mod tokio;\nuse super::tokio::runtime;")).is_empty());
    assert!(tokio(&Tree::of(&[("crates/server/src/listener.rs", "use tokio::net;")])).is_empty());
}

#[test]
fn planted_unfinished_work_is_found() {
    assert_eq!(unfinished_code(&one("fn f() { todo!() }")).len(), 1);
    assert_eq!(unfinished_code(&one("fn f() { m!(dbg!(1)) }")).len(), 1);
    assert!(unfinished_code(&one("fn todo() {}")).is_empty());
    assert_eq!(unfinished_words(&one(concat!("// TO", "DO: later"))).len(), 1);
    assert_eq!(unfinished_words(&Tree::of(&[("docs/a.md", concat!("FIX", "ME"))])).len(), 1);
    assert!(unfinished_words(&one("// TODOS, a name")).is_empty());
}

#[test]
fn a_planted_panic_is_found() {
    for text in [
        "fn f() { a.unwrap(); }",
        "fn f() { a.expect(\"b\"); }",
        "fn f() { panic!(\"a\") }",
        "fn f() { m!(a.unwrap()) }",
        "#[cfg(not(test))]\nfn f() { a.unwrap(); }",
    ] {
        assert_eq!(panics(&one(text)).len(), 1, "{text}");
    }
    for text in [
        "#[cfg(test)]\nmod tests { fn f() { a.unwrap(); } }",
        "#[test]\nfn f() { a.unwrap(); }",
        "/// `a.unwrap()`\nfn f() { a.unwrap_or(b); }",
    ] {
        assert!(panics(&one(text)).is_empty(), "{text}");
    }
    let declared = ("crates/x/src/lib.rs", "#[cfg(test)]\nmod models;");
    let text = "fn f() { a.unwrap(); }";
    assert!(panics(&Tree::of(&[declared, ("crates/x/src/models.rs", text)])).is_empty());
    assert_eq!(panics(&Tree::of(&[declared, ("crates/x/src/other.rs", text)])).len(), 1);
}
