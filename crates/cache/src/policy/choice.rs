//! Choosing a policy by text, `s3-fifo:small=0.2,ghost=0.5`, and the table of policies for documents.

use std::fmt;

use super::{POLICIES, Parameter, Policy, PolicyError, Settings, Unit};

/// A policy and the values of its parameters.
#[derive(Clone)]
pub struct Choice {
    /// Which policy.
    pub policy: &'static Policy,
    /// A value for each of its parameters, in their order.
    pub values: Vec<f64>,
}

impl Choice {
    /// Settings for an order with this share of the budget, in `unit`.
    pub fn settings(&self, unit: Unit, capacity: u64) -> Settings {
        Settings { unit, capacity, values: self.values.clone() }
    }
}

impl fmt::Display for Choice {
    /// As [`choose`] reads it; defaults are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.policy.name)?;
        let set =
            self.policy.parameters.iter().zip(&self.values).filter(|(parameter, value)| parameter.default != **value);
        for (index, (parameter, value)) in set.enumerate() {
            write!(f, "{}{}={value}", if index == 0 { ':' } else { ',' }, parameter.name)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Choice({self})")
    }
}

/// Reads `name` or `name:parameter=value,parameter=value`; what is not given has its default.
pub fn choose(text: &str) -> Result<Choice, PolicyError> {
    let (name, settings) = text.split_once(':').unwrap_or((text, ""));
    let policy = POLICIES.iter().find(|policy| policy.name == name.trim()).ok_or_else(|| PolicyError::Unknown {
        name: name.trim().to_string(),
        known: POLICIES.iter().map(|policy| policy.name).collect::<Vec<_>>().join(", "),
    })?;
    let mut values: Vec<f64> = policy.parameters.iter().map(|parameter| parameter.default).collect();
    let mut given = vec![false; values.len()];
    for setting in settings.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
        let (index, value) = set(policy, setting)?;
        if std::mem::replace(&mut given[index], true) {
            return Err(wrong(policy, format!("'{}' is set twice", policy.parameters[index].name)));
        }
        values[index] = value;
    }
    Ok(Choice { policy, values })
}

fn wrong(policy: &Policy, why: String) -> PolicyError {
    PolicyError::Parameter { policy: policy.name, why }
}

/// Reads one `parameter=value`: the parameter's place, and the value.
fn set(policy: &'static Policy, setting: &str) -> Result<(usize, f64), PolicyError> {
    let (name, value) = setting
        .split_once('=')
        .ok_or_else(|| wrong(policy, format!("'{setting}' has no value; write parameter=value")))?;
    let (name, value) = (name.trim(), value.trim());
    let Some(index) = policy.parameters.iter().position(|parameter| parameter.name == name) else {
        let known: Vec<&str> = policy.parameters.iter().map(|parameter| parameter.name).collect();
        let known = if known.is_empty() { "it has none".into() } else { format!("choose of {}", known.join(", ")) };
        return Err(wrong(policy, format!("no parameter '{name}'; {known}")));
    };
    let Parameter { range: (least, most), .. } = policy.parameters[index];
    match value.parse::<f64>() {
        Ok(number) if (least..=most).contains(&number) => Ok((index, number)),
        _ => Err(wrong(policy, format!("{name}={value}: give a number from {least} to {most}"))),
    }
}

/// All policies as a Markdown table, for `docs/policies.md`.
pub fn markdown_table() -> String {
    let mut table =
        String::from("| policy | what it does | hears of hits by | bytes per entry | parameters | source |\n");
    table.push_str("|---|---|---|---|---|---|\n");
    for policy in POLICIES {
        let parameters: Vec<String> = policy
            .parameters
            .iter()
            .map(|parameter| {
                let (least, most) = parameter.range;
                format!("`{}={}` ({least}..{most}): {}", parameter.name, parameter.default, parameter.summary)
            })
            .collect();
        table.push_str(&format!(
            "| `{}` | {} | {:?} | {} | {} | {} |\n",
            policy.name,
            policy.summary,
            policy.hits,
            policy.entry_bytes,
            if parameters.is_empty() { "none".to_string() } else { parameters.join("<br>") },
            policy.source,
        ));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn reads_what_it_writes() {
        for policy in POLICIES {
            let plain = choose(policy.name).expect("its own name");
            assert_eq!(plain.to_string(), policy.name);
            for (index, parameter) in policy.parameters.iter().enumerate() {
                let text = format!("{}: {} = {}", policy.name, parameter.name, parameter.range.1);
                let choice = choose(&text).expect("the end of its range");
                assert_eq!(choice.values[index], parameter.range.1);
                assert_eq!(choose(&choice.to_string()).expect("reads back").values, choice.values);
            }
        }
        assert_eq!(choose("s3-fifo:small=0.2,ghost=0.5").expect("known").to_string(), "s3-fifo:small=0.2,ghost=0.5");
    }

    #[test]
    fn says_what_is_wrong() {
        let error = |text: &str| choose(text).expect_err(text).to_string();
        let unknown = error("lru2");
        assert!(unknown.starts_with("no policy 'lru2'; choose one of lru, "), "{unknown}");
        assert!(POLICIES.iter().all(|policy| unknown.contains(policy.name)), "{unknown}");
        assert_eq!(error("lru:x=1"), "policy lru: no parameter 'x'; it has none");
        assert_eq!(
            error("s3-fifo:smal=1"),
            "policy s3-fifo: no parameter 'smal'; choose of small, ghost, promote, bypass, fill"
        );
        assert_eq!(error("s3-fifo:small"), "policy s3-fifo: 'small' has no value; write parameter=value");
        assert_eq!(error("s3-fifo:small=2"), "policy s3-fifo: small=2: give a number from 0.001 to 0.9");
        assert_eq!(error("s3-fifo:small=NaN"), "policy s3-fifo: small=NaN: give a number from 0.001 to 0.9");
        assert_eq!(error("s3-fifo:small=0.1,small=0.2"), "policy s3-fifo: 'small' is set twice");
    }

    #[test]
    fn records_are_sound() {
        let mut names = HashSet::new();
        for policy in POLICIES {
            assert!(names.insert(policy.name), "{} stands twice", policy.name);
            assert!(policy.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-+".contains(c)));
            for parameter in policy.parameters {
                let (least, most) = parameter.range;
                assert!((least..=most).contains(&parameter.default), "{}:{}", policy.name, parameter.name);
            }
        }
    }

    /// `FOREBAY_UPDATE_DOCS=1 cargo test -p forebay policy` rewrites the table.
    #[test]
    fn the_document_is_fresh() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/policies.md");
        let (begin, end) = ("<!-- policies: generated -->\n", "<!-- /policies -->");
        let document = std::fs::read_to_string(path).expect("docs/policies.md is readable");
        let (head, rest) = document.split_once(begin).expect("the marker where the table begins");
        let (table, tail) = rest.split_once(end).expect("the marker where the table ends");
        if std::env::var_os("FOREBAY_UPDATE_DOCS").is_some() {
            let fresh = format!("{head}{begin}{}{end}{tail}", markdown_table());
            std::fs::write(path, fresh).expect("docs/policies.md is writable");
        } else {
            assert_eq!(table, markdown_table(), "stale: run with FOREBAY_UPDATE_DOCS=1");
        }
    }
}
