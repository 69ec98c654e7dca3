//! Hint sets of a trace, as policies are told of them: each with its meaning, before the first request that has it.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay::hint::{HintMeaning, HintSet};
use forebay_trace::dictionary::Dictionary;
use hashbrown::HashMap;

/// What a policy of CLIC's family has learned of a hint set, or of a group of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Priority {
    /// What the set's hints are.
    pub name: String,
    /// What a page with it is worth: read hits for each request that it stays.
    pub priority: f64,
    /// Share of the requests that had it, in percent.
    pub requests_percent: f64,
    /// Share of those whose page was read again, in percent.
    pub read_again_percent: f64,
    /// Requests from one to the next, on average.
    pub after_requests: f64,
}

impl Priority {
    /// Reads a line of what was learned ([`crate::cell::Cell::report`]); `None` for another policy's.
    pub fn read((name, value): &(String, String)) -> Option<Priority> {
        let mut numbers = value.split_whitespace().map(|part| part.split_once('=').unwrap_or_default());
        let mut number = |of: &str| {
            let (_, number) = numbers.next().filter(|(name, _)| *name == of)?;
            number.trim_end_matches('%').parse::<f64>().ok()
        };
        Some(Priority {
            name: name.clone(),
            priority: number("priority")?,
            requests_percent: number("requests")?,
            read_again_percent: number("read_again")?,
            after_requests: number("after")?,
        })
    }
}

/// Which hint types policies get to see; none named: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HintTypes {
    names: Option<Vec<Box<[u8]>>>,
}

impl HintTypes {
    /// All of them.
    pub const ALL: HintTypes = HintTypes { names: None };

    /// Those with these names.
    pub fn only<'a>(names: impl IntoIterator<Item = &'a str>) -> HintTypes {
        HintTypes { names: Some(names.into_iter().map(|name| name.as_bytes().into()).collect()) }
    }

    /// The hint types of a trace, in the order of their names.
    pub fn of(dictionary: Option<&Dictionary>) -> Vec<String> {
        let schemas = dictionary.into_iter().flat_map(Dictionary::hint_schemas);
        let names = schemas.flat_map(|(_, schema)| schema.types.iter().map(|name| name.escape_ascii().to_string()));
        names.collect::<BTreeSet<String>>().into_iter().collect()
    }

    /// The first that is named here and that a trace does not have.
    pub fn missing(&self, dictionary: Option<&Dictionary>) -> Option<String> {
        let known = HintTypes::of(dictionary);
        let names = self.names.iter().flatten().map(|name| name.escape_ascii().to_string());
        names.into_iter().find(|name| !known.contains(name))
    }

    fn take(&self, meaning: HintMeaning) -> HintMeaning {
        let Some(names) = &self.names else { return meaning };
        let HintMeaning { schema, types, values } = meaning;
        let (types, values) = types.into_iter().zip(values).filter(|(name, _)| names.contains(name)).unzip();
        HintMeaning { schema, types, values }
    }
}

/// Hint types as a refusal names them.
pub(crate) fn listed(known: &[String]) -> String {
    match known {
        [] => "it has none".to_owned(),
        known => format!("it has {}", known.join(", ")),
    }
}

/// Numbers of hint sets as policies know them. Sets that are the same in the types that count are one.
pub struct HintSets {
    types: HintTypes,
    /// By the trace's number.
    known: HashMap<u32, HintSet, foldhash::fast::FixedState>,
    /// With [`HintTypes::only`]: numbers by meaning.
    numbers: HashMap<HintMeaning, HintSet, foldhash::fast::FixedState>,
}

impl HintSets {
    /// None met.
    pub fn new(types: HintTypes) -> HintSets {
        HintSets { types, known: HashMap::default(), numbers: HashMap::default() }
    }

    /// The number of a trace's hint set, and its meaning if it is new. A set that the trace does not define is itself.
    pub fn meet(
        &mut self,
        hints: u32,
        dictionary: Option<&Dictionary>,
    ) -> (HintSet, Option<(HintSet, Arc<HintMeaning>)>) {
        if hints == 0 {
            return (HintSet(0), None);
        }
        if let Some(&set) = self.known.get(&hints) {
            return (set, None);
        }
        let Some(meaning) = dictionary.and_then(|dictionary| meaning(dictionary, hints)) else {
            return (HintSet(hints), None);
        };
        let meaning = self.types.take(meaning);
        if self.types == HintTypes::ALL {
            self.known.insert(hints, HintSet(hints));
            return (HintSet(hints), Some((HintSet(hints), Arc::new(meaning))));
        }
        let next = HintSet(self.numbers.len() as u32 + 1);
        let set = *self.numbers.entry(meaning.clone()).or_insert(next);
        self.known.insert(hints, set);
        (set, (set == next).then(|| (set, Arc::new(meaning))))
    }
}

fn meaning(dictionary: &Dictionary, hints: u32) -> Option<HintMeaning> {
    let set = dictionary.hint_set(hints)?;
    let schema = dictionary.hint_schema(set.schema)?;
    let boxed = |texts: &[bytes::Bytes]| texts.iter().map(|text| text.as_ref().into()).collect();
    Some(HintMeaning { schema: set.schema, types: boxed(&schema.types), values: boxed(&set.values) })
}
