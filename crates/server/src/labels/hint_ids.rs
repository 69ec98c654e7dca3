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

/// All ids: by the user's number, by the schema. A user that is removed and made again has another number.
#[derive(Default)]
pub(super) struct HintIds(Table<u64, Table<u32, Ids>>);

impl HintIds {
    fn of(&self, user: u64, schema: u32) -> Option<&Ids> {
        self.0.get(&user)?.get(&schema)
    }

    /// The hint set that has this id.
    pub(super) fn get(&self, user: u64, schema: u32, id: &[u8]) -> Option<HintSet> {
        self.of(user, schema)?.get(id).copied()
    }

    /// Bytes that this id takes, 0 if it is there; nothing if its user may have no more of the schema.
    pub(super) fn bytes_for(&self, user: u64, schema: u32, id: &[u8]) -> Option<usize> {
        match self.of(user, schema) {
            Some(ids) if ids.contains_key(id) => Some(0),
            Some(ids) if ids.len() >= HINT_IDS_MAX => None,
            Some(_) => Some(id_bytes(id)),
            None if self.0.contains_key(&user) => Some(id_bytes(id) + ID_OVERHEAD_BYTES),
            None => Some(id_bytes(id) + 2 * ID_OVERHEAD_BYTES),
        }
    }

    /// `id` is this set's from now on.
    pub(super) fn put(&mut self, user: u64, schema: u32, id: &[u8], set: HintSet) {
        self.0.entry(user).or_default().entry(schema).or_default().insert(id.into(), set);
    }

    /// The ids of `user` are no more; the bytes that they took.
    pub(super) fn forget(&mut self, user: u64) -> usize {
        let Some(schemas) = self.0.remove(&user) else { return 0 };
        let ids = schemas.values().flat_map(|ids| ids.keys()).map(|id| id_bytes(id)).sum::<usize>();
        ids + (1 + schemas.len()) * ID_OVERHEAD_BYTES
    }
}

fn id_bytes(id: &[u8]) -> usize {
    id.len() + ID_OVERHEAD_BYTES
}
