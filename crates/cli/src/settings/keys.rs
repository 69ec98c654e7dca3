//! Which keys that no mapping names are documents: on the command line each as one text, in the file also as a list.

use forebay_drivers::Keys;
use toml::de::DeValue;

use super::form::Form;
use super::map::{Wrong, joined};

/// The word for none.
const OFF: &str = "off";

/// Any number of patterns of keys.
pub struct KeysWord;

impl Form<Vec<Keys>> for KeysWord {
    const VALUE: &'static str = "PATTERN -> documents";

    fn choices() -> String {
        "'session:* -> documents', where * and parts in braces stand for anything; or off".into()
    }

    fn read(text: &str) -> Result<Vec<Keys>, String> {
        match text {
            OFF => Ok(Vec::new()),
            text => text.split(';').map(str::parse).collect(),
        }
    }

    fn show(value: &Vec<Keys>) -> String {
        match value.as_slice() {
            [] => OFF.into(),
            several => joined(&several.iter().map(Keys::to_string).collect::<Vec<_>>()),
        }
    }
}

/// The value of the key `keys` as one text, if it is a list; else what is wrong with it.
pub fn of_value(value: &toml::Spanned<DeValue<'_>>) -> Option<Result<String, Wrong>> {
    let DeValue::Array(items) = value.get_ref() else { return None };
    let text = |item: &toml::Spanned<DeValue<'_>>| match item.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        _ => Err((item.span().start, "a list of keys holds texts, as in [\"session:* -> documents\"]".into())),
    };
    let texts: Result<Vec<String>, Wrong> = items.iter().map(text).collect();
    Some(texts.map(|texts| if texts.is_empty() { OFF.into() } else { joined(&texts) }))
}
