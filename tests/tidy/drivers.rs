//! A driver is one folder, or one file, and one line: `crates/drivers/src/lib.rs` lists it. No other code names it.
//!
//! `workload` may: it measures databases by themselves, beside forebay in front of them. So may `trace`, which reads
//! their logs.

use proc_macro2::{TokenStream, TokenTree};

use super::tree::{File, Tree};

/// Where drivers are listed.
const LIST: &str = "crates/drivers/src/lib.rs";

/// What measures databases by themselves, and what reads their logs.
const PEERS: [&str; 2] = ["crates/workload/", "crates/trace/"];

/// The modules of the crate of drivers that a cargo feature makes, which are the drivers.
fn names(list: &File) -> Vec<String> {
    let modules = list.syntax().items.into_iter().filter_map(|item| match item {
        syn::Item::Mod(module) => Some(module),
        _ => None,
    });
    let behind_a_feature =
        modules.filter(|module| module.attrs.iter().any(|attribute| attribute.path().is_ident("cfg")));
    behind_a_feature.map(|module| module.ident.to_string()).collect()
}

fn has_ident(tokens: TokenStream, name: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == name,
        TokenTree::Group(group) => has_ident(group.stream(), name),
        _ => false,
    })
}

/// Files beside a driver's that name it. Texts do not count.
pub fn named_elsewhere(tree: &Tree) -> Vec<String> {
    let Some(list) = tree.get(LIST) else { return vec![format!("{LIST} is not there")] };
    let mut breaches = Vec::new();
    let is_peer = |file: &&File| PEERS.iter().any(|peer| file.path.starts_with(peer));
    for name in names(list) {
        let own = [format!("crates/drivers/src/{name}/"), format!("crates/drivers/src/{name}.rs")];
        let others = tree.crate_sources().filter(|file| file.path != LIST && !is_peer(file));
        for file in others.filter(|file| !own.iter().any(|own| file.path.starts_with(own.as_str()))) {
            if has_ident(file.tokens(), &name) {
                breaches.push(format!("{}: only {LIST} may name the driver {name}; use its record", file.path));
            }
        }
    }
    breaches
}

#[test]
fn a_driver_that_is_named_elsewhere_is_found() {
    let list =
        (LIST, "mod driver;\n#[cfg(feature = \"one\")]\npub mod one;\nstatic DRIVERS: &[&Driver] = &[&one::DRIVER];");
    let own = ("crates/drivers/src/one/mod.rs", "fn f() { crate::one::g() }");
    let text = ("crates/cli/src/a.rs", "const HELP: &str = \"one\"; fn f() { driver_of(\"one\") }");
    assert_eq!(named_elsewhere(&Tree::of(&[list, own, text])), Vec::<String>::new(), "two files and their texts");
    let other = ("crates/cli/src/b.rs", "fn f() { forebay_drivers::one::open() }");
    assert_eq!(named_elsewhere(&Tree::of(&[list, own, other])).len(), 1);
    let shared = ("crates/drivers/src/sql/b.rs", "use crate::one::session::Session;");
    assert_eq!(named_elsewhere(&Tree::of(&[list, own, shared])).len(), 1);
}
