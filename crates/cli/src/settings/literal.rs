//! Values as the configuration file has them.

use super::setting::Setting;

impl Setting {
    /// The text of a value as TOML.
    pub fn literal(&self, text: &str) -> String {
        match text.parse::<u64>().is_ok() || self.is_switch() {
            true => text.to_owned(),
            false => quoted(text),
        }
    }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(control))),
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}
