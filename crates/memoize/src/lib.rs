//! `#[memoize]`: a function that remembers its answers in a cache.
//!
//! Programs use it through `forebay-cache` with its feature `memoize`. `settings.rs` reads what stands in the
//! parentheses, and `function.rs` writes a function that asks a static cache around the one that computes.

mod function;
mod settings;

use proc_macro::TokenStream;

/// See `forebay_cache::memoize`, where its examples are.
#[proc_macro_attribute]
pub fn memoize(settings: TokenStream, function: TokenStream) -> TokenStream {
    let written = settings::read(settings.into()).and_then(|settings| function::write(&settings, function.into()));
    written.unwrap_or_else(syn::Error::into_compile_error).into()
}
