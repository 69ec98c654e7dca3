//! What the numbers in a trace mean: hint schemas, hint sets, transaction types, vertices.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bytes::Bytes;

use crate::error::TraceError;

/// Longest name or hint value in bytes.
pub const NAME_BYTES_MAX: usize = 4096;
/// Most hint types in a schema.
pub const HINT_TYPES_MAX: usize = 64;
/// Most bytes that all definitions of a file may take in memory.
pub const DICTIONARY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The definitions of a trace, as far as it was read or written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dictionary {
    schemas: BTreeMap<u32, HintSchema>,
    sets: BTreeMap<u32, HintSetDefinition>,
    types: BTreeMap<u16, Bytes>,
    vertices: BTreeMap<(u16, u16), Bytes>,
    /// Estimate of the memory that the maps take.
    bytes: usize,
}

/// The hint types that a client's hint sets have values for (CLIC, section 2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HintSchema {
    /// The client whose schema it is, 0 where all clients share it.
    pub client: u32,
    /// The schema's name.
    pub name: Bytes,
    /// Names of the hint types, at most [`HINT_TYPES_MAX`].
    pub types: Vec<Bytes>,
}

/// One value per hint type of a schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HintSetDefinition {
    /// Number of the schema.
    pub schema: u32,
    /// The values, in the order of the schema's types; at most [`HINT_TYPES_MAX`].
    pub values: Vec<Bytes>,
}

/// One definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Definition {
    Schema(u32, HintSchema),
    Set(u32, HintSetDefinition),
    Type(u16, Bytes),
    Vertex(u16, u16, Bytes),
}

impl Dictionary {
    /// The hint schema of this number.
    pub fn hint_schema(&self, id: u32) -> Option<&HintSchema> {
        self.schemas.get(&id)
    }

    /// The hint set of this number, as records name it.
    pub fn hint_set(&self, id: u32) -> Option<&HintSetDefinition> {
        self.sets.get(&id)
    }

    /// The name of a transaction type.
    pub fn txn_type(&self, id: u16) -> Option<&Bytes> {
        self.types.get(&id)
    }

    /// The name of a vertex of a transaction type's graph; type 0 is for vertices that all types share.
    pub fn vertex(&self, txn_type: u16, vertex: u16) -> Option<&Bytes> {
        self.vertices.get(&(txn_type, vertex))
    }

    /// All hint schemas by number.
    pub fn hint_schemas(&self) -> impl Iterator<Item = (u32, &HintSchema)> {
        self.schemas.iter().map(|(&id, schema)| (id, schema))
    }

    /// All hint sets by number.
    pub fn hint_sets(&self) -> impl Iterator<Item = (u32, &HintSetDefinition)> {
        self.sets.iter().map(|(&id, set)| (id, set))
    }

    /// Hint sets from number `id` on.
    pub fn hint_sets_from(&self, id: u32) -> impl Iterator<Item = (u32, &HintSetDefinition)> {
        self.sets.range(id..).map(|(&id, set)| (id, set))
    }

    /// All transaction types by number.
    pub fn txn_types(&self) -> impl Iterator<Item = (u16, &Bytes)> {
        self.types.iter().map(|(&id, name)| (id, name))
    }

    /// All vertices by transaction type and number.
    pub fn vertices(&self) -> impl Iterator<Item = ((u16, u16), &Bytes)> {
        self.vertices.iter().map(|(&id, name)| (id, name))
    }

    /// Takes in what a reader of another format knows.
    pub(crate) fn define_schema(&mut self, id: u32, schema: HintSchema) -> Result<bool, TraceError> {
        self.insert(Definition::Schema(id, schema))
    }

    /// Takes in what a reader of another format knows.
    pub(crate) fn define_set(&mut self, id: u32, set: HintSetDefinition) -> Result<bool, TraceError> {
        self.insert(Definition::Set(id, set))
    }

    /// Takes in what a reader of another format knows.
    pub(crate) fn define_type(&mut self, id: u16, name: Bytes) -> Result<bool, TraceError> {
        self.insert(Definition::Type(id, name))
    }

    /// Takes a definition in; false if it was there already, an error if another one has its number or a limit is met.
    pub(crate) fn insert(&mut self, definition: Definition) -> Result<bool, TraceError> {
        let bytes = self.bytes + definition.check()?;
        if bytes > DICTIONARY_BYTES_MAX {
            return Err(limit("dictionary_bytes_max", DICTIONARY_BYTES_MAX, bytes));
        }
        let new = match definition {
            Definition::Schema(id, schema) => put(&mut self.schemas, "hint schema", id, u64::from(id), schema),
            Definition::Set(id, set) => put(&mut self.sets, "hint set", id, u64::from(id), set),
            Definition::Type(id, name) => put(&mut self.types, "transaction type", id, u64::from(id), name),
            Definition::Vertex(txn_type, id, name) => {
                put(&mut self.vertices, "vertex", (txn_type, id), u64::from(id), name)
            }
        }?;
        if new {
            self.bytes = bytes;
        }
        Ok(new)
    }
}

impl Definition {
    /// Bytes that it takes in memory, roughly; an error if a part of it is beyond its limit.
    fn check(&self) -> Result<usize, TraceError> {
        const MAP_BYTES: usize = 64;
        let none: &[Bytes] = &[];
        let (name, list) = match self {
            Definition::Schema(_, schema) => (Some(&schema.name), schema.types.as_slice()),
            Definition::Set(_, set) => (None, set.values.as_slice()),
            Definition::Type(_, name) | Definition::Vertex(_, _, name) => (Some(name), none),
        };
        if list.len() > HINT_TYPES_MAX {
            return Err(limit("hint_types_max", HINT_TYPES_MAX, list.len()));
        }
        let mut bytes = MAP_BYTES;
        for text in name.into_iter().chain(list) {
            if text.len() > NAME_BYTES_MAX {
                return Err(limit("name_bytes_max", NAME_BYTES_MAX, text.len()));
            }
            bytes += text.len() + size_of::<Bytes>();
        }
        Ok(bytes)
    }
}

fn put<K: Ord, V: PartialEq>(
    map: &mut BTreeMap<K, V>,
    what: &'static str,
    key: K,
    id: u64,
    value: V,
) -> Result<bool, TraceError> {
    match map.entry(key) {
        Entry::Vacant(vacant) => {
            vacant.insert(value);
            Ok(true)
        }
        Entry::Occupied(found) if *found.get() == value => Ok(false),
        Entry::Occupied(_) => Err(TraceError::Redefined { what, id }),
    }
}

pub(crate) fn limit(name: &'static str, limit: usize, found: usize) -> TraceError {
    TraceError::Limit { name, limit: limit as u64, found: found as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_meaning() {
        let mut dictionary = Dictionary::default();
        let named = |name: &'static str| Definition::Vertex(3, 9, Bytes::from_static(name.as_bytes()));
        assert!(dictionary.insert(named("fetch cart")).unwrap());
        assert!(!dictionary.insert(named("fetch cart")).unwrap());
        let error = dictionary.insert(named("pay")).unwrap_err();
        assert!(matches!(error, TraceError::Redefined { what: "vertex", id: 9 }), "{error}");
        assert_eq!(dictionary.vertex(3, 9).unwrap(), "fetch cart");
        assert_eq!(dictionary.vertex(0, 9), None);
    }

    #[test]
    fn limits_are_kept() {
        let mut dictionary = Dictionary::default();
        let long = Bytes::from(vec![b'x'; NAME_BYTES_MAX + 1]);
        let error = dictionary.insert(Definition::Type(1, long.clone())).unwrap_err();
        assert!(matches!(error, TraceError::Limit { name: "name_bytes_max", .. }), "{error}");
        let wide = HintSetDefinition { schema: 1, values: vec![Bytes::new(); HINT_TYPES_MAX + 1] };
        let error = dictionary.insert(Definition::Set(1, wide)).unwrap_err();
        assert!(matches!(error, TraceError::Limit { name: "hint_types_max", .. }), "{error}");
        let full = HintSetDefinition { schema: 1, values: vec![long.slice(1..); HINT_TYPES_MAX] };
        let error = (1..).find_map(|id| dictionary.insert(Definition::Set(id, full.clone())).err()).unwrap();
        assert!(matches!(error, TraceError::Limit { name: "dictionary_bytes_max", .. }), "{error}");
        assert!(dictionary.bytes <= DICTIONARY_BYTES_MAX);
    }
}
