//! What stands in the parentheses of `#[memoize(..)]`.

use proc_macro2::{Span, TokenStream};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Error, Expr, MetaNameValue, Result, Token};

/// Settings with their values, `capacity` apart.
pub struct Settings {
    pub capacity: Expr,
    pub time_to_live: Option<Expr>,
    pub time_to_idle: Option<Expr>,
    pub policy: Option<Expr>,
}

/// Reads `capacity = 10, policy = "lru"`.
pub fn read(tokens: TokenStream) -> Result<Settings> {
    let (mut capacity, mut time_to_live, mut time_to_idle, mut policy) = (None, None, None, None);
    let list = Punctuated::<MetaNameValue, Token![,]>::parse_terminated.parse2(tokens)?;
    for MetaNameValue { path, value, .. } in list {
        let name = path.get_ident().map(ToString::to_string).unwrap_or_default();
        let place = match name.as_str() {
            "capacity" => &mut capacity,
            "time_to_live" => &mut time_to_live,
            "time_to_idle" => &mut time_to_idle,
            "policy" => &mut policy,
            _ => {
                let known = "no such setting; choose of capacity, time_to_live, time_to_idle and policy";
                return Err(Error::new_spanned(path, known));
            }
        };
        if place.replace(value).is_some() {
            return Err(Error::new_spanned(path, "this is set twice"));
        }
    }
    let missing = || Error::new(Span::call_site(), "say how many answers are kept: #[memoize(capacity = 1000)]");
    Ok(Settings { capacity: capacity.ok_or_else(missing)?, time_to_live, time_to_idle, policy })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        read(text.parse().expect("tokens")).err().expect("it is wrong").to_string()
    }

    #[test]
    fn settings_are_read_or_refused() {
        let settings = read("capacity = 2 * 5, policy = \"lru\",".parse().expect("tokens")).expect("they are right");
        assert!(settings.policy.is_some() && settings.time_to_live.is_none() && settings.time_to_idle.is_none());
        assert_eq!(error(""), "say how many answers are kept: #[memoize(capacity = 1000)]");
        assert_eq!(error("capacity = 1, capacity = 2"), "this is set twice");
        assert!(error("size = 1").starts_with("no such setting; choose of capacity"));
        assert!(!error("capacity").is_empty() && !error("1000").is_empty());
    }
}
