//! What hint sets stand for, as numbers: each value of each hint type is one number, whatever its schema.
//!
//! A hint set is a vector of such numbers. Its first column is the schema, which is the client's name space (CLIC,
//! section 2: each client's hint types are distinct). So two clients share no value. A set without a definition is a
//! separate category.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::hint::HintMeaning;

/// Hint sets that are told apart; the others count as no hints.
pub(super) const SETS_MAX: u32 = 1 << 20;

/// Bytes of values and vectors; sets beyond it are categories of their own, without values.
const BYTES_MAX: usize = 64 << 20;

/// The value of a column that a set does not have.
const NONE: u32 = 0;

/// Numbers below this are for values that no client sends: 0 for a missing column, the others for the owner.
pub(super) const OWN_VALUES: u32 = 16;

/// The schema of sets that nobody defined.
const UNDEFINED: u32 = u32::MAX;

/// What a value or its index entry costs beside its bytes.
const OVERHEAD_BYTES: usize = 64;

/// Hint types with the values that hint sets have.
pub(super) struct Meanings {
    /// By set: where its vector begins in `vectors`, and how long it is.
    sets: Vec<(u32, u16)>,
    vectors: Vec<u32>,
    values: HashMap<(u32, u16, Box<[u8]>), u32, foldhash::fast::FixedState>,
    /// By value: how it reads, `type=value`.
    names: Vec<Box<str>>,
    columns: usize,
    bytes: usize,
}

impl Meanings {
    /// Nothing defined.
    pub fn new() -> Meanings {
        Meanings {
            sets: Vec::new(),
            vectors: Vec::new(),
            values: HashMap::default(),
            names: vec!["none".into(); OWN_VALUES as usize],
            columns: 0,
            bytes: 0,
        }
    }

    /// Defines a set; one that is defined already keeps its meaning.
    pub fn define(&mut self, set: u32, meaning: &HintMeaning) {
        if set >= SETS_MAX || self.is_defined(set) || self.bytes > BYTES_MAX {
            return;
        }
        let schema = self.value(meaning.schema, 0, b"", || format!("schema {}", meaning.schema));
        let begin = self.vectors.len();
        self.vectors.push(schema);
        for (column, (name, value)) in (1..).zip(meaning.types.iter().zip(&meaning.values)) {
            let named = || format!("{}={}", name.escape_ascii(), value.escape_ascii());
            let number = self.value(meaning.schema, column, value, named);
            self.vectors.push(number);
        }
        self.place(set, begin);
    }

    /// What was defined, as if nobody had asked for a set yet and the sets had come in the order of their numbers: what
    /// is learned from then on, and what it costs, does not hang on what was asked for before.
    pub fn only_defined(&self) -> Meanings {
        let mut values = vec![None; self.names.len()];
        for (value, &number) in &self.values {
            values[number as usize] = Some(value);
        }
        let mut defined = Meanings::new();
        for (set, &(begin, columns)) in (0..).zip(&self.sets) {
            let vector = &self.vectors[begin as usize..][..usize::from(columns)];
            let known = |number: &u32| values.get(*number as usize).copied().flatten();
            if known(vector.first().unwrap_or(&NONE)).is_none_or(|(schema, ..)| *schema == UNDEFINED) {
                continue;
            }
            let begin = defined.vectors.len();
            for number in vector {
                let Some((schema, column, value)) = known(number) else { continue };
                let number = defined.value(*schema, *column, value, || self.name(*number).to_owned());
                defined.vectors.push(number);
            }
            defined.place(set, begin);
        }
        defined
    }

    fn place(&mut self, set: u32, begin: usize) {
        let columns = self.vectors.len() - begin;
        if set as usize >= self.sets.len() {
            self.sets.resize(set as usize + 1, (0, 0));
        }
        self.sets[set as usize] = (begin as u32, columns as u16);
        self.columns = self.columns.max(columns);
        self.bytes += size_of::<u32>() * columns + size_of::<(u32, u16)>();
    }

    fn is_defined(&self, set: u32) -> bool {
        self.sets.get(set as usize).is_some_and(|&(_, columns)| columns > 0)
    }

    fn value(&mut self, schema: u32, column: u16, value: &[u8], name: impl FnOnce() -> String) -> u32 {
        let next = self.names.len() as u32;
        match self.values.entry((schema, column, value.into())) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(vacant) => {
                let name = name();
                self.bytes += OVERHEAD_BYTES + value.len() + name.len();
                self.names.push(name.into());
                *vacant.insert(next)
            }
        }
    }

    /// The values of a set, its schema first. A set that nobody defined is defined now, as itself; one beyond the limit
    /// is that of no hints.
    pub fn vector(&mut self, set: u32) -> &[u32] {
        let set = if set < SETS_MAX { set } else { 0 };
        if !self.is_defined(set) {
            let begin = self.vectors.len();
            let undefined = self.value(UNDEFINED, 0, b"", || "undefined".into());
            let name = || if set == 0 { "no hints".into() } else { format!("hint set {set}") };
            let itself = self.value(UNDEFINED, 1, &set.to_be_bytes(), name);
            self.vectors.extend([undefined, itself]);
            self.place(set, begin);
        }
        let (begin, columns) = self.sets[set as usize];
        &self.vectors[begin as usize..][..usize::from(columns)]
    }

    /// One column of a set that was asked for before.
    pub fn column(&self, set: u32, column: usize) -> u32 {
        let Some(&(begin, columns)) = self.sets.get(set as usize) else { return NONE };
        if column < usize::from(columns) { self.vectors[begin as usize + column] } else { NONE }
    }

    /// Numbers of the sets that were asked for or defined are below this.
    pub fn sets_len(&self) -> usize {
        self.sets.len()
    }

    /// Number of columns of the widest set.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Numbers of values are below this.
    pub fn values_len(&self) -> usize {
        self.names.len()
    }

    /// How a value reads.
    pub fn name(&self, value: u32) -> &str {
        self.names.get(value as usize).map_or("?", |name| name)
    }

    /// How a set reads: `table=orders kind=read`.
    pub fn describe(&self, set: u32) -> String {
        match self.sets.get(set as usize) {
            Some(&(begin, columns)) if columns > 0 => {
                let values = &self.vectors[begin as usize..][..usize::from(columns)];
                let names: Vec<&str> = values.iter().skip(1).map(|&value| self.name(value)).collect();
                if names.is_empty() { "no types".into() } else { names.join(" ") }
            }
            _ if set == 0 => "no hints".into(),
            _ => format!("hint set {set}"),
        }
    }

    /// Bytes that they occupy, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn meaning(schema: u32, types: &[&str], values: &[&str]) -> HintMeaning {
        let boxed = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().into()).collect();
        HintMeaning { schema, types: boxed(types), values: boxed(values) }
    }

    #[test]
    fn schemas_share_no_value() {
        let mut meanings = Meanings::new();
        meanings.define(3, &meaning(1, &["table", "op"], &["orders", "read"]));
        meanings.define(4, &meaning(1, &["table", "op"], &["orders", "write"]));
        meanings.define(5, &meaning(2, &["table", "op"], &["orders", "read"]));
        let (one, same, other) =
            (meanings.vector(3).to_vec(), meanings.vector(4).to_vec(), meanings.vector(5).to_vec());
        assert_eq!((one[..2].to_vec(), one.len()), (same[..2].to_vec(), 3));
        assert_ne!(one[2], same[2]);
        assert!(one.iter().all(|value| !other.contains(value)));
        assert_eq!((meanings.describe(3), meanings.columns()), ("table=orders op=read".into(), 3));
    }

    #[test]
    fn a_meaning_stays_and_what_is_undefined_is_itself() {
        let mut meanings = Meanings::new();
        meanings.define(1, &meaning(1, &["t"], &["a"]));
        meanings.define(1, &meaning(1, &["t"], &["b"]));
        assert_eq!(meanings.describe(1), "t=a");
        let (none, seven) = (meanings.vector(0).to_vec(), meanings.vector(7).to_vec());
        assert!(none[0] == seven[0] && none[1] != seven[1]);
        assert_eq!(
            (meanings.vector(7).to_vec(), meanings.column(7, 1), meanings.column(7, 5)),
            (seven.clone(), seven[1], 0)
        );
        assert_eq!((meanings.describe(0), meanings.describe(9)), ("no hints".into(), "hint set 9".into()));
    }

    proptest! {
        /// Clients share no value, whatever their values read; a client's own are one number each in each type, and
        /// what a set meant first is what it means.
        #[test]
        fn name_spaces_are_apart(
            definitions in prop::collection::vec((1u32..30, 1u32..4, prop::collection::vec(0u8..3, 0..4)), 1..60),
        ) {
            let (mut meanings, mut first) = (Meanings::new(), BTreeMap::new());
            for (set, schema, values) in &definitions {
                let texts: Vec<String> = values.iter().map(u8::to_string).collect();
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                meanings.define(*set, &meaning(*schema, &["a", "b", "c"][..texts.len()], &texts));
                first.entry(*set).or_insert((*schema, values.clone()));
            }
            for (set, (schema, values)) in &first {
                let numbers = meanings.vector(*set).to_vec();
                prop_assert_eq!(numbers.len(), 1 + values.len());
                for (other, (other_schema, other_values)) in &first {
                    let others = meanings.vector(*other).to_vec();
                    if schema != other_schema {
                        prop_assert!(numbers.iter().all(|number| !others.contains(number)), "{} and {}", set, other);
                        continue;
                    }
                    for (at, (value, of_other)) in values.iter().zip(other_values).enumerate() {
                        prop_assert_eq!(value == of_other, numbers[at + 1] == others[at + 1]);
                        prop_assert_eq!(numbers[at + 1], meanings.column(*set, at + 1));
                    }
                }
            }
        }
    }

    /// Beyond the limits a set is a category of its own, without values, or counts as no hints.
    #[test]
    fn limits_hold() {
        let mut meanings = Meanings::new();
        let long = "x".repeat(1 << 20);
        for set in 1..200 {
            let value = format!("{set}{long}");
            meanings.define(set, &meaning(1, &["t"], &[&value]));
        }
        // A value is kept twice, and as a name; the last one that is let in may be what exceeds the bound.
        assert!(meanings.bytes() <= BYTES_MAX + (3 << 20), "{}", meanings.bytes());
        assert_eq!(meanings.describe(1).len(), "t=1".len() + long.len());
        assert_eq!(meanings.describe(199), "hint set 199");
        meanings.define(SETS_MAX + 5, &meaning(1, &["t"], &["a"]));
        assert_eq!(meanings.vector(SETS_MAX + 5).to_vec(), meanings.vector(0).to_vec());
        assert!(meanings.sets.len() <= SETS_MAX as usize);
    }
}
