//! Ids by which clients name their hint sets.
//!
//! They belong to a user and a schema. One connection of a pool defines them, and all of them use them. Programs that
//! name different schemas, or are different users, do not meet. A connection keeps none, so a crowd of connections
//! takes no more than one.

use forebay::hint::HintSet;

/// Ids of one user and schema.
pub const HINT_IDS_MAX: usize = 4096;

/// What an id costs beside its bytes: its place in the table, and its allocation.
const ID_OVERHEAD_BYTES: usize = 64;

type Table<K, V> = hashbrown::HashMap<K, V, foldhash::quality::RandomState>;

/// Those of one user and schema.
type Ids = Table<Box<[u8]>, HintSet>;

/// All ids: by the user's name, by the schema.
#[derive(Default)]
pub(super) struct HintIds(Table<String, Table<u32, Ids>>);

impl HintIds {
    fn of(&self, user: &str, schema: u32) -> Option<&Ids> {
        self.0.get(user)?.get(&schema)
    }

    /// The hint set that has this id.
    pub(super) fn get(&self, user: &str, schema: u32, id: &[u8]) -> Option<HintSet> {
        self.of(user, schema)?.get(id).copied()
    }

    /// Bytes that this id takes, 0 if it is there; nothing if its user may have no more of the schema.
    pub(super) fn bytes_for(&self, user: &str, schema: u32, id: &[u8]) -> Option<usize> {
        match self.of(user, schema) {
            Some(ids) if ids.contains_key(id) => Some(0),
            Some(ids) if ids.len() >= HINT_IDS_MAX => None,
            Some(_) => Some(id.len() + ID_OVERHEAD_BYTES),
            None => Some(id.len() + user.len() + 3 * ID_OVERHEAD_BYTES),
        }
    }

    /// `id` is this set's from now on.
    pub(super) fn put(&mut self, user: &str, schema: u32, id: &[u8], set: HintSet) {
        self.0.entry_ref(user).or_default().entry(schema).or_default().insert(id.into(), set);
    }
}
