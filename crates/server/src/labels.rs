//! Names that clients give to transaction types, vertices and hint sets, and the numbers that policies and traces know
//! them by. Numbers are given out once per server, so each kind has a limit. Those of transaction types and of their
//! steps go on to others when all are given out: any client may name some, and must not use them up for all.
//!
//! **Steps.** Where there is no room for the name of a step, that type forgets its steps that has most of them. So a
//! client that makes up names loses those, and types of a few steps keep theirs. Steps of types with a graph stay.
//! While a trace is written none is forgotten, since the trace has its number. A new name is then no step.
//!
//! **Hint sets.** Their numbers stay, and are no other set's: policies and traces remember them. So what is given out
//! is shared among users (`labels/shares.rs`): each may take as much as it leaves to others. Ids are a user's own, and
//! go with it.

mod hint_ids;
mod shares;
mod steps;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay::cache::Cache;
use forebay::hint::{HintMeaning, HintSet};
use forebay::mutation::{self, Fault};
use forebay_protocol::{Reply, errors};

use hint_ids::{HINT_IDS_MAX, HintIds};
use shares::Shares;
pub use steps::VertexLabel;
use steps::{LABEL_OVERHEAD_BYTES, VertexNames, name_bytes};

/// Transaction types that one server tells apart.
pub const TXN_TYPES_MAX: usize = 4096;

/// Vertices of transaction graphs that one server tells apart.
pub const VERTICES_MAX: usize = 16_384;

/// Longest name of a type, vertex, hint schema or hint value, in bytes.
pub const LABEL_BYTES_MAX: usize = 256;

/// Hint schemas that one server tells apart.
pub const HINT_SCHEMAS_MAX: usize = 1024;

/// Hint types of one schema.
pub const HINT_TYPES_MAX: usize = 64;

/// Hint sets that one server tells apart.
pub const HINT_SETS_MAX: usize = 65_536;

/// Values of one hint type.
pub const HINT_VALUES_MAX: usize = 16_384;

/// Bytes of all schemas and hint sets of one server, if its memory is large: else a share of that.
pub const HINT_BYTES_MAX: usize = 16 << 20;
const HINT_BYTES_MIN: usize = 1 << 20;
const HINT_SHARE: usize = 16;

/// All names of a server.
#[derive(Default)]
pub struct Labels {
    types: Mutex<Names>,
    vertices: Mutex<VertexNames>,
    hints: Mutex<HintNames>,
    /// Hint schemas and sets that were refused because a limit was met.
    hints_refused: AtomicU64,
    /// It makes way for the names.
    cache: Option<Cache>,
}

/// A hint schema: names of the hint types for which its sets have values (CLIC, section 2). Its name is the name space
/// of a client: hint sets of different schemas are different, whatever their values are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Its name.
    pub name: Box<[u8]>,
    /// Names of its hint types.
    pub types: Vec<Box<[u8]>>,
}

/// What a hint set stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HintValues {
    /// Number of its schema, from 1.
    pub schema: u32,
    /// One value per hint type.
    pub values: Vec<Box<[u8]>>,
}

/// Values of one type.
#[derive(Default)]
struct Values {
    known: hashbrown::HashSet<Box<[u8]>, foldhash::quality::RandomState>,
    shares: Shares,
}

#[derive(Default)]
struct HintNames {
    schemas: Vec<Schema>,
    sets: Vec<HintValues>,
    numbers: hashbrown::HashMap<HintValues, u32, foldhash::quality::RandomState>,
    /// By schema and type: its values.
    values: hashbrown::HashMap<(u32, usize), Values, foldhash::quality::RandomState>,
    ids: HintIds,
    schema_shares: Shares,
    set_shares: Shares,
    bytes: Shares,
    /// `None`: [`HINT_BYTES_MAX`].
    bytes_max: Option<usize>,
}

#[derive(Default)]
struct Names {
    names: Vec<Box<[u8]>>,
    /// By the number: when it was asked for last, as the count of what was asked; `None` if it has a graph, and stays.
    used: Vec<Option<u64>>,
    asked: u64,
    numbers: hashbrown::HashMap<Box<[u8]>, u16, foldhash::quality::RandomState>,
}

impl Labels {
    /// None yet; what they take is taken from `cache`.
    pub fn beside(cache: Cache) -> Labels {
        let labels = Labels { cache: Some(cache), ..Labels::default() };
        let share = labels.cache.as_ref().map_or(0, |cache| cache.stats().budget_bytes as usize / HINT_SHARE);
        lock(&labels.hints).bytes_max = Some(share.clamp(HINT_BYTES_MIN, HINT_BYTES_MAX));
        labels
    }

    /// The cache makes way for new names.
    fn lend(&self, bytes: usize) {
        if let Some(cache) = self.cache.as_ref().filter(|_| bytes > 0) {
            cache.lend(bytes);
        }
    }

    /// Names are gone.
    fn give_back(&self, bytes: usize) {
        if let Some(cache) = self.cache.as_ref().filter(|_| bytes > 0) {
            cache.give_back(bytes);
        }
    }

    /// The number of a transaction type that has a graph, from 1. It stays.
    pub fn graphed_type(&self, name: &[u8]) -> Result<u16, Reply> {
        let mut types = lock(&self.types);
        let number = self.number_of(&mut types, name)?.ok_or_else(|| limit("txn_types_max", TXN_TYPES_MAX))?;
        types.used[usize::from(number) - 1] = None;
        lock(&self.vertices).graphed.insert(number);
        Ok(number)
    }

    /// The number of a transaction type, from 1; or 0, for none, where all are given out and have graphs. Else the one
    /// goes that was asked for longest ago, unless `kept` says that none may, because a trace is written.
    pub fn txn_type(&self, name: &[u8], kept: impl FnOnce() -> bool) -> Result<u16, Reply> {
        let mut types = lock(&self.types);
        if let Some(number) = self.number_of(&mut types, name)? {
            return Ok(number);
        }
        let used = types.used.iter().enumerate().filter_map(|(at, used)| Some(((*used)?, at)));
        let oldest = used.min().filter(|_| !kept()).map(|(_, at)| at);
        let Some(at) = oldest else { return Ok(0) };
        let number = at as u16 + 1;
        let before = std::mem::replace(&mut types.names[at], name.into());
        self.lend(name_bytes(name));
        self.give_back(name_bytes(&before));
        types.numbers.remove(&before);
        types.numbers.insert(name.into(), number);
        types.used[at] = Some(types.asked);
        // Its vertices were those of the other.
        self.give_back(lock(&self.vertices).forget(number));
        Ok(number)
    }

    fn number_of(&self, types: &mut Names, name: &[u8]) -> Result<Option<u16>, Reply> {
        let before = types.names.len();
        let number = types.number(name)?;
        self.lend((types.names.len() - before) * name_bytes(name));
        Ok(number)
    }

    /// The number of a vertex of a transaction type, from 1; type 0 is for transactions that name none. It is 0, for no
    /// vertex, where there is no room for the name and `kept` says that none may be forgotten.
    pub fn vertex(&self, txn_type: u16, name: &[u8], kept: impl FnOnce() -> bool) -> Result<u16, Reply> {
        if name.len() > LABEL_BYTES_MAX {
            return Err(limit("label_bytes_max", LABEL_BYTES_MAX));
        }
        let mut vertices = lock(&self.vertices);
        if let Some(number) = vertices.number(txn_type, name) {
            return Ok(number);
        }
        if vertices.list.len() >= VERTICES_MAX {
            let widest = vertices.widest().filter(|_| !mutation::on(Fault::StepsUsedUp));
            let widest = widest.ok_or_else(|| limit("vertices_max", VERTICES_MAX))?;
            if kept() {
                return Ok(0);
            }
            self.give_back(vertices.forget(widest));
        }
        self.lend(name_bytes(name));
        Ok(vertices.add(txn_type, name))
    }

    /// The names of transaction types from number `from` on; the first has number 1.
    pub fn txn_types(&self, from: usize) -> Vec<Box<[u8]>> {
        lock(&self.types).names.iter().skip(from.saturating_sub(1)).cloned().collect()
    }

    /// The vertices that were named behind the first `known`.
    pub fn vertices(&self, known: usize) -> Vec<VertexLabel> {
        lock(&self.vertices).list.iter().skip(known).cloned().collect()
    }

    /// The number of a hint schema, from 1; a new one is of `user`'s share. The same name with other types is refused.
    pub fn hint_schema<'a>(&self, user: u64, name: &[u8], types: impl Iterator<Item = &'a [u8]>) -> Result<u32, Reply> {
        self.counting_refusals(|| self.take_hint_schema(user, name, types))
    }

    fn take_hint_schema<'a>(
        &self,
        user: u64,
        name: &[u8],
        types: impl Iterator<Item = &'a [u8]>,
    ) -> Result<u32, Reply> {
        let types: Vec<Box<[u8]>> = types.map(Box::from).collect();
        if types.len() > HINT_TYPES_MAX {
            return Err(limit("hint_types_max", HINT_TYPES_MAX));
        }
        if types.iter().any(|name| name.len() > LABEL_BYTES_MAX) || name.len() > LABEL_BYTES_MAX {
            return Err(limit("label_bytes_max", LABEL_BYTES_MAX));
        }
        let mut hints = lock(&self.hints);
        if let Some(at) = hints.schemas.iter().position(|schema| *schema.name == *name) {
            if hints.schemas[at].types == types {
                return Ok(at as u32 + 1);
            }
            let known: Vec<String> =
                hints.schemas[at].types.iter().map(|name| name.escape_ascii().to_string()).collect();
            let (name, known) = (name.escape_ascii(), known.join(" "));
            return Err(Reply::error(format!("ERR hint schema '{name}' has types {known}; choose another name")));
        }
        if !hints.schema_shares.has_room(user, 1, HINT_SCHEMAS_MAX) {
            return Err(limit("hint_schemas_max", HINT_SCHEMAS_MAX));
        }
        let bytes = name.len() + types.iter().map(|name| name.len() + LABEL_OVERHEAD_BYTES).sum::<usize>();
        hints.take_bytes(user, bytes)?;
        hints.schema_shares.take(user, 1);
        self.lend(bytes);
        hints.schemas.push(Schema { name: name.into(), types });
        Ok(hints.schemas.len() as u32)
    }

    /// The number of the hint set with these values of a schema's types. The same values give the same number, on every
    /// connection: so what is learned of a set is learned from all who use it. A new one is of `user`'s share.
    pub fn hint_set<'a>(
        &self,
        user: u64,
        schema: u32,
        values: impl Iterator<Item = &'a [u8]>,
    ) -> Result<HintSet, Reply> {
        self.counting_refusals(|| self.take_hint_set(user, schema, values))
    }

    fn take_hint_set<'a>(
        &self,
        user: u64,
        schema: u32,
        values: impl Iterator<Item = &'a [u8]>,
    ) -> Result<HintSet, Reply> {
        let values: Vec<Box<[u8]>> = values.map(Box::from).collect();
        if values.iter().any(|value| value.len() > LABEL_BYTES_MAX) {
            return Err(limit("label_bytes_max", LABEL_BYTES_MAX));
        }
        let mut hints = lock(&self.hints);
        let types =
            schema.checked_sub(1).and_then(|at| hints.schemas.get(at as usize)).map_or(0, |known| known.types.len());
        if values.len() != types {
            let found = values.len();
            return Err(Reply::error(format!("ERR the hint schema has {types} types, but {found} values are given")));
        }
        let values = HintValues { schema, values };
        if let Some(number) = hints.numbers.get(&values) {
            return Ok(HintSet(*number));
        }
        if !hints.set_shares.has_room(user, 1, HINT_SETS_MAX) {
            return Err(limit("hint_sets_max", HINT_SETS_MAX));
        }
        let beyond = |at: usize, value: &[u8]| {
            hints.values.get(&(schema, at)).is_some_and(|values| {
                !values.shares.has_room(user, 1, HINT_VALUES_MAX) && !values.known.contains(value)
            })
        };
        if values.values.iter().enumerate().any(|(at, value)| beyond(at, value)) {
            return Err(limit("hint_values_max", HINT_VALUES_MAX));
        }
        // Kept three times: in the list, in the index, and as values.
        let bytes = 3 * values.values.iter().map(|value| value.len() + LABEL_OVERHEAD_BYTES).sum::<usize>();
        hints.take_bytes(user, bytes)?;
        hints.set_shares.take(user, 1);
        self.lend(bytes);
        for (at, value) in values.values.iter().enumerate() {
            let of_type = hints.values.entry((schema, at)).or_default();
            if of_type.known.insert(value.clone()) {
                of_type.shares.take(user, 1);
            }
        }
        hints.sets.push(values.clone());
        let number = hints.sets.len() as u32;
        hints.numbers.insert(values, number);
        Ok(HintSet(number))
    }

    /// Has `id` name this set of the schema for all connections of `user`, if `is_known` says that there is such a user
    /// still: what it has names is forgotten after it is removed.
    pub fn name_hints(
        &self,
        (user, is_known): (u64, impl FnOnce() -> bool),
        schema: u32,
        id: &[u8],
        set: HintSet,
    ) -> Result<(), Reply> {
        self.counting_refusals(|| {
            if id.len() > LABEL_BYTES_MAX {
                return Err(limit("label_bytes_max", LABEL_BYTES_MAX));
            }
            let mut hints = lock(&self.hints);
            let bytes = hints.ids.bytes_for(user, schema, id).ok_or_else(|| limit("hint_ids_max", HINT_IDS_MAX))?;
            if !is_known() {
                return Err(Reply::error(errors::NOAUTH));
            }
            hints.take_bytes(user, bytes)?;
            self.lend(bytes);
            hints.ids.put(user, schema, id, set);
            Ok(())
        })
    }

    /// The set of the schema that `id` names for `user`.
    pub fn hints_named(&self, user: u64, schema: u32, id: &[u8]) -> Option<HintSet> {
        lock(&self.hints).ids.get(user, schema, id)
    }

    /// The user `user` is no more: its ids go. What it has taken of the numbers stays taken.
    pub fn forget_user(&self, user: u64) {
        let mut hints = lock(&self.hints);
        let bytes = hints.ids.forget(user);
        hints.bytes.give_back(user, bytes);
        let HintNames { schema_shares, set_shares, bytes: byte_shares, values, .. } = &mut *hints;
        let of_values = values.values_mut().map(|values| &mut values.shares);
        [schema_shares, set_shares, byte_shares].into_iter().chain(of_values).for_each(|shares| shares.forget(user));
        self.give_back(bytes);
    }

    /// The hint schemas from number `from` on; the first has number 1.
    pub fn hint_schemas(&self, from: u32) -> Vec<Schema> {
        lock(&self.hints).schemas.iter().skip(from.saturating_sub(1) as usize).cloned().collect()
    }

    /// The hint sets from number `from` on; the first has number 1.
    pub fn hint_sets(&self, from: u32) -> Vec<HintValues> {
        lock(&self.hints).sets.iter().skip(from.saturating_sub(1) as usize).cloned().collect()
    }

    /// What a hint set stands for, as policies are told.
    pub fn hint_meaning(&self, set: HintSet) -> Option<HintMeaning> {
        let hints = lock(&self.hints);
        let HintValues { schema, values } = hints.sets.get(set.0.checked_sub(1)? as usize)?.clone();
        let types = hints.schemas.get(schema.checked_sub(1)? as usize)?.types.clone();
        Some(HintMeaning { schema, types, values })
    }

    /// Hint schemas and sets that were refused because a limit was met.
    pub fn hints_refused(&self) -> u64 {
        self.hints_refused.load(Ordering::Relaxed)
    }

    fn counting_refusals<T>(&self, take: impl FnOnce() -> Result<T, Reply>) -> Result<T, Reply> {
        take().inspect_err(|_| {
            self.hints_refused.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// Numbers of hint schemas and hint sets.
    pub fn hints_len(&self) -> (usize, usize) {
        let hints = lock(&self.hints);
        (hints.schemas.len(), hints.sets.len())
    }
}

impl HintNames {
    fn take_bytes(&mut self, user: u64, bytes: usize) -> Result<(), Reply> {
        let bytes_max = self.bytes_max.unwrap_or(HINT_BYTES_MAX);
        if !self.bytes.has_room(user, bytes, bytes_max) {
            return Err(limit("hint_bytes_max", bytes_max));
        }
        self.bytes.take(user, bytes);
        Ok(())
    }
}

/// The answer where a limit is met.
pub(crate) fn limit(name: &str, most: usize) -> Reply {
    Reply::error(format!("LIMIT {name} {most}"))
}

fn lock<T>(names: &Mutex<T>) -> MutexGuard<'_, T> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Names {
    /// The number of a name, a new one while there are some.
    fn number(&mut self, name: &[u8]) -> Result<Option<u16>, Reply> {
        if name.len() > LABEL_BYTES_MAX {
            return Err(limit("label_bytes_max", LABEL_BYTES_MAX));
        }
        self.asked += 1;
        if let Some(number) = self.numbers.get(name).copied() {
            let used = &mut self.used[usize::from(number) - 1];
            *used = used.map(|_| self.asked);
            return Ok(Some(number));
        }
        if self.names.len() >= TXN_TYPES_MAX {
            return Ok(None);
        }
        self.names.push(name.into());
        self.used.push(Some(self.asked));
        let number = self.names.len() as u16;
        self.numbers.insert(name.into(), number);
        Ok(Some(number))
    }
}

#[cfg(test)]
mod tests;
