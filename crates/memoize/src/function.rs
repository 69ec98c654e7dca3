//! The function that asks a cache, around the one that computes.
//!
//! The function keeps its name, its attributes and its arguments. Its body becomes a function inside, which is called
//! for what the cache does not hold. A call within the body goes to the outer one.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::visit::Visit;
use syn::{Error, FnArg, Ident, ItemFn, Pat, Result, ReturnType, Signature, Type, TypeImplTrait, TypeReference};

use crate::settings::Settings;

/// An argument: its name, its type in the key, and how it is made the key's.
struct Argument {
    name: Ident,
    owned: TokenStream,
    to_owned: TokenStream,
    again: TokenStream,
}

/// Writes the function, or says why it can't be remembered.
pub fn write(settings: &Settings, function: TokenStream) -> Result<TokenStream> {
    let function: ItemFn = syn::parse2(function)?;
    let answer = check(&function.sig)?;
    let arguments = function.sig.inputs.iter().map(argument).collect::<Result<Vec<Argument>>>()?;
    let ItemFn { attrs, vis, sig, block } = &function;
    let mut inner = sig.clone();
    inner.ident = format_ident!("computed");
    let mut outer = sig.clone();
    for input in &mut outer.inputs {
        // Only the inner one changes it.
        if let FnArg::Typed(typed) = input
            && let Pat::Ident(pattern) = &mut *typed.pat
        {
            pattern.mutability = None;
        }
    }
    let Settings { capacity, time_to_live, time_to_idle, policy } = settings;
    let lives = time_to_live.iter().map(|time| quote!(.time_to_live(#time)));
    let idles = time_to_idle.iter().map(|time| quote!(.time_to_idle(#time)));
    let policy = policy
        .iter()
        .map(|policy| quote!(.policy(#policy).unwrap_or_else(|error| ::core::panic!("#[memoize]: {error}"))));
    let [owned, to_owned, again] = [
        |argument: &Argument| argument.owned.clone(),
        |argument: &Argument| argument.to_owned.clone(),
        |argument: &Argument| argument.again.clone(),
    ]
    .map(|of| arguments.iter().map(of).collect::<Vec<_>>());
    let names = arguments.iter().map(|argument| &argument.name);
    Ok(quote! {
        #(#attrs)*
        #vis #outer {
            #inner #block
            static ANSWERS: ::std::sync::LazyLock<::forebay_cache::Cache<(#(#owned,)*), #answer>> =
                ::std::sync::LazyLock::new(|| {
                    ::forebay_cache::Cache::builder().capacity(#capacity) #(#lives)* #(#idles)* #(#policy)* .build()
                });
            let answer = ANSWERS.get_with((#(#to_owned,)*), || computed(#(#again),*));
            answer.unwrap_or_else(|::forebay_cache::OwnKey| computed(#(#names),*))
        }
    })
}

/// The type of the answer of a function that can be remembered.
fn check(signature: &Signature) -> Result<Type> {
    let Signature { constness, asyncness, unsafety, variadic, generics, output, .. } = signature;
    let no = |what: &dyn quote::ToTokens, why: &str| Err(Error::new_spanned(what, why));
    if let Some(constness) = constness {
        return no(constness, "a const fn has no cache when it is compiled; take `const` away");
    }
    if let Some(asyncness) = asyncness {
        return no(asyncness, "what is computed by a task is remembered with Cache::get_with_async");
    }
    if let Some(unsafety) = unsafety {
        return no(unsafety, "remember a safe function that calls this one");
    }
    if let Some(variadic) = variadic {
        return no(variadic, "arguments without names are no key");
    }
    if !generics.params.is_empty() || generics.where_clause.is_some() {
        return no(generics, "one cache can't hold answers of all types and lifetimes; remember a function for each");
    }
    let ReturnType::Type(_, answer) = output else {
        return no(&signature.ident, "it answers nothing that could be remembered");
    };
    let mut borrowed = Borrowed(None);
    borrowed.visit_type(answer);
    match borrowed.0 {
        Some(error) => Err(error),
        None => Ok((**answer).clone()),
    }
}

/// Finds what an answer must not have.
struct Borrowed(Option<Error>);

impl<'a> Visit<'a> for Borrowed {
    fn visit_type_reference(&mut self, reference: &'a TypeReference) {
        let is_static = reference.lifetime.as_ref().is_some_and(|lifetime| lifetime.ident == "static");
        if !is_static {
            self.0 = Some(Error::new_spanned(reference, "an answer outlives the arguments; return an owned value"));
        }
    }

    fn visit_type_impl_trait(&mut self, hidden: &'a TypeImplTrait) {
        self.0 = Some(Error::new_spanned(hidden, "name the type of the answer, or return it in a box"));
    }
}

fn argument(input: &FnArg) -> Result<Argument> {
    let typed = match input {
        FnArg::Receiver(receiver) => {
            let why =
                "a method has no cache to itself; remember a function without `self`, or use forebay_cache::memoize";
            return Err(Error::new_spanned(receiver, why));
        }
        FnArg::Typed(typed) => typed,
    };
    let Pat::Ident(pattern) = &*typed.pat else {
        return Err(Error::new_spanned(&typed.pat, "give the argument a name, and take it apart in the body"));
    };
    let name = pattern.ident.clone();
    match &*typed.ty {
        Type::ImplTrait(hidden) => Err(Error::new_spanned(hidden, "name the type of the argument")),
        Type::Reference(reference) if reference.mutability.is_some() => {
            Err(Error::new_spanned(reference, "what an argument is changed to is not remembered; return it"))
        }
        Type::Reference(reference) => {
            let of = &reference.elem;
            Ok(Argument {
                owned: quote!(<#of as ::std::borrow::ToOwned>::Owned),
                to_owned: quote!(<#of as ::std::borrow::ToOwned>::to_owned(#name)),
                again: quote!(#name),
                name,
            })
        }
        owned => Ok(Argument {
            owned: quote!(#owned),
            to_owned: quote!(::core::clone::Clone::clone(&#name)),
            again: quote!(::core::clone::Clone::clone(&#name)),
            name,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(function: &str) -> std::result::Result<String, String> {
        let settings = crate::settings::read(quote!(capacity = 10)).expect("they are right");
        let function = function.parse().expect("tokens");
        write(&settings, function).map(|tokens| tokens.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_can_not_be_remembered_says_what_to_do() {
        let refused = [
            ("const fn f() -> u8 { 1 }", "take `const` away"),
            ("async fn f() -> u8 { 1 }", "Cache::get_with_async"),
            ("unsafe fn f() -> u8 { 1 }", "a safe function"),
            ("fn f<T>(a: T) -> u8 { 1 }", "a function for each"),
            ("fn f<'a>(a: &'a str) -> u8 { 1 }", "a function for each"),
            ("fn f() { }", "answers nothing"),
            ("fn f(a: &str) -> &str { a }", "return an owned value"),
            ("fn f(a: &str) -> Option<&str> { a }", "return an owned value"),
            ("fn f() -> impl Clone { 1 }", "name the type of the answer"),
            ("fn f(a: impl Clone) -> u8 { 1 }", "name the type of the argument"),
            ("fn f(&self) -> u8 { 1 }", "without `self`"),
            ("fn f(a: &mut u8) -> u8 { 1 }", "return it"),
            ("fn f((a, b): (u8, u8)) -> u8 { 1 }", "give the argument a name"),
        ];
        for (function, what) in refused {
            assert!(written(function).is_err_and(|error| error.contains(what)), "{function}: {:?}", written(function));
        }
        assert!(written("struct S;").is_err());
    }

    #[test]
    fn what_can_be_remembered_keeps_its_face() {
        let text = written("#[inline] pub(crate) fn f(mut a: u8, b: &[u8]) -> &'static str { a += 1; \"\" }");
        let text = text.expect("it can be");
        assert!(text.starts_with("# [inline] pub (crate) fn f (a : u8 , b : & [u8]) -> & 'static str"), "{text}");
        assert!(text.contains("fn computed (mut a : u8 , b : & [u8])"), "{text}");
    }
}
