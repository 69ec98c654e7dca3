//! Traces out of traces: converted, mixed, with noise among their hints. All write forebay's own format.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Write;

use bytes::Bytes;

use crate::Records;
use crate::chance::{uniform, zipf};
pub use crate::csv_writer::{CsvWritten, to_csv};
use crate::dictionary::{Dictionary, HintSchema, HintSetDefinition};
use crate::error::TraceError;
use crate::fbt::Writer;
use crate::record::Record;

/// Most traces that can be mixed.
pub const MIX_TRACES_MAX: usize = 16;

/// Key spaces that a trace that is mixed may use.
const SPACES_EACH: u8 = (256 / MIX_TRACES_MAX) as u8;

/// Most hint sets that mixing or noise may make.
pub const HINT_SETS_MAX: usize = 1 << 20;

/// Most noise types, and most values of each.
pub const NOISE_TYPES_MAX: usize = 8;
/// See [`NOISE_TYPES_MAX`].
pub const NOISE_DOMAIN_MAX: usize = 10_000;

/// Writes all records with the definitions that they need; their number. A trace that is cut short is written up to
/// its cut. `met` hears of each.
pub fn convert<W: Write>(
    records: &mut Records,
    writer: &mut Writer<W>,
    mut met: impl FnMut(),
) -> Result<u64, TraceError> {
    let mut named = Named::default();
    while let Some(record) = whole(records.next())? {
        if let Some(dictionary) = records.dictionary() {
            named.define(&record, dictionary, writer)?;
        }
        writer.append(&record)?;
        met();
    }
    Ok(writer.records())
}

/// The next record; none also where the trace has no end block.
pub(crate) fn whole(next: Option<Result<Record, TraceError>>) -> Result<Option<Record>, TraceError> {
    match next {
        Some(Err(error)) if error.is_truncated() => Ok(None),
        other => other.transpose(),
    }
}

/// What was defined so far, so that each definition is looked up once.
#[derive(Default)]
struct Named {
    sets: HashMap<u32, ()>,
    types: HashMap<(u16, u16), ()>,
}

impl Named {
    fn define<W: Write>(
        &mut self,
        record: &Record,
        dictionary: &Dictionary,
        writer: &mut Writer<W>,
    ) -> Result<(), TraceError> {
        let new = record.hints != 0 && self.sets.insert(record.hints, ()).is_none();
        if let Some(set) = dictionary.hint_set(record.hints).filter(|_| new) {
            if let Some(schema) = dictionary.hint_schema(set.schema) {
                writer.define_hint_schema(set.schema, schema.clone())?;
            }
            writer.define_hint_set(record.hints, set.clone())?;
        }
        let position = (record.txn_type, record.vertex);
        if position != (0, 0) && self.types.insert(position, ()).is_none() {
            if let Some(name) = dictionary.txn_type(record.txn_type) {
                writer.define_type(record.txn_type, name.clone())?;
            }
            // Vertices of type 0 are those of all types.
            for of_type in [0, record.txn_type] {
                if let Some(name) = dictionary.vertex(of_type, record.vertex) {
                    writer.define_vertex(of_type, record.vertex, name.clone())?;
                }
            }
        }
        Ok(())
    }
}

/// Mixes traces as clients of one cache: one access of each in turn, up to the end of the shortest. Each gets its own
/// keys, clients, transactions and their types, and hint types (CLIC, section 6.4); names of types begin with the
/// trace's number, as in `2.Balance`. Times are left out, because they are not one time.
pub fn mix<W: Write>(traces: &mut [Records], writer: &mut Writer<W>) -> Result<u64, TraceError> {
    limit("mix_traces_max", MIX_TRACES_MAX, traces.len())?;
    let mut mixing = Mixing { traces: traces.len() as u64, ..Mixing::default() };
    loop {
        let mut round = Vec::new();
        for (index, trace) in traces.iter_mut().enumerate() {
            // Ends of transactions go along with the access after them.
            loop {
                let Some(record) = whole(trace.next())? else { return Ok(writer.records()) };
                let last = record.kind.is_access();
                round.push((index, record));
                if last {
                    break;
                }
            }
        }
        for (index, record) in round {
            let record = mixing.rename(index, record, traces[index].dictionary(), writer)?;
            writer.append(&record)?;
        }
    }
}

#[derive(Default)]
struct Mixing {
    traces: u64,
    clients: HashMap<(usize, u32), u32>,
    sets: HashMap<(usize, u32), u32>,
    types: HashMap<(usize, u16), u16>,
    /// By trace, the type's number there and the vertex: only vertices without a type get another number.
    vertices: HashMap<(usize, u16, u16), u16>,
    /// Vertices without a type so far.
    untyped: u16,
}

impl Mixing {
    fn rename<W: Write>(
        &mut self,
        index: usize,
        record: Record,
        dictionary: Option<&Dictionary>,
        writer: &mut Writer<W>,
    ) -> Result<Record, TraceError> {
        if record.space >= SPACES_EACH {
            return Err(TraceError::MixedSpaces { trace: index + 1, limit: SPACES_EACH - 1, found: record.space });
        }
        let next = self.clients.len() as u32 + 1;
        let client = *self.clients.entry((index, record.client)).or_insert(next);
        let hints = match record.hints {
            0 => 0,
            hints => self.hint_set(index, hints, dictionary, writer)?,
        };
        let txn = if record.txn == 0 { 0 } else { record.txn.wrapping_mul(self.traces).wrapping_add(index as u64) };
        let space = index as u8 * SPACES_EACH + record.space;
        let txn_type = match record.txn_type {
            0 => 0,
            of_type => self.txn_type(index, of_type, dictionary, writer)?,
        };
        let vertex = match record.vertex {
            0 => 0,
            vertex => self.vertex(index, (record.txn_type, txn_type), vertex, dictionary, writer)?,
        };
        Ok(Record { time_us: None, space, client, hints, txn, txn_type, vertex, ..record })
    }

    /// A type without a name is named by its number, so that graphs still find it.
    fn txn_type<W: Write>(
        &mut self,
        index: usize,
        of_type: u16,
        dictionary: Option<&Dictionary>,
        writer: &mut Writer<W>,
    ) -> Result<u16, TraceError> {
        let next = self.types.len() + 1;
        let vacant = match self.types.entry((index, of_type)) {
            Entry::Occupied(known) => return Ok(*known.get()),
            Entry::Vacant(vacant) => vacant,
        };
        limit("transaction_types_max", usize::from(u16::MAX), next)?;
        let unnamed = || Bytes::from(of_type.to_string());
        let name = dictionary.and_then(|known| known.txn_type(of_type)).cloned().unwrap_or_else(unnamed);
        writer.define_type(next as u16, prefixed(index, &name))?;
        Ok(*vacant.insert(next as u16))
    }

    /// The vertex's number under the mixed type, and its name there. Without a type, vertices of different traces
    /// would be taken for one.
    fn vertex<W: Write>(
        &mut self,
        index: usize,
        (of_type, mixed_type): (u16, u16),
        vertex: u16,
        dictionary: Option<&Dictionary>,
        writer: &mut Writer<W>,
    ) -> Result<u16, TraceError> {
        let vacant = match self.vertices.entry((index, of_type, vertex)) {
            Entry::Occupied(known) => return Ok(*known.get()),
            Entry::Vacant(vacant) => vacant,
        };
        let named = |of_type| dictionary.and_then(|known| known.vertex(of_type, vertex));
        let name = named(of_type).or_else(|| named(0));
        let (number, name) = if of_type == 0 {
            limit("untyped_vertices_max", usize::from(u16::MAX), usize::from(self.untyped) + 1)?;
            self.untyped += 1;
            (self.untyped, name.map(|name| prefixed(index, name)))
        } else {
            (vertex, name.cloned())
        };
        if let Some(name) = name {
            writer.define_vertex(mixed_type, number, name)?;
        }
        Ok(*vacant.insert(number))
    }

    fn hint_set<W: Write>(
        &mut self,
        index: usize,
        hints: u32,
        dictionary: Option<&Dictionary>,
        writer: &mut Writer<W>,
    ) -> Result<u32, TraceError> {
        let next = self.sets.len() as u32 + 1;
        let vacant = match self.sets.entry((index, hints)) {
            Entry::Occupied(known) => return Ok(*known.get()),
            Entry::Vacant(vacant) => vacant,
        };
        vacant.insert(next);
        limit("hint_sets_max", HINT_SETS_MAX, self.sets.len())?;
        let known = dictionary.and_then(|known| {
            let set = known.hint_set(hints)?;
            Some((set, known.hint_schema(set.schema)?))
        });
        if let Some((set, schema)) = known {
            // Schemas of different traces stay apart, under names that say whose they are.
            let id = set.schema.wrapping_mul(self.traces as u32).wrapping_add(index as u32);
            let types = schema.types.iter().map(|name| prefixed(index, name)).collect();
            writer.define_hint_schema(id, HintSchema { client: 0, name: prefixed(index, &schema.name), types })?;
            writer.define_hint_set(next, HintSetDefinition { schema: id, values: set.values.clone() })?;
        }
        Ok(next)
    }
}

/// The name in a mix of what the trace at this place names so.
fn prefixed(index: usize, name: &[u8]) -> Bytes {
    Bytes::from([format!("{}.", index + 1).as_bytes(), name].concat())
}

/// The name without the number of its trace in a mix, also of mixes of mixes: `Balance` of `2.1.Balance`.
pub fn without_prefix(mut name: &[u8]) -> &[u8] {
    while let Some(at) = name.iter().position(|byte| !byte.is_ascii_digit()).filter(|&at| at > 0 && name[at] == b'.') {
        name = &name[at + 1..];
    }
    name
}

/// Useless hint types, to be put among useful ones (CLIC, section 6.3).
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    /// How many types.
    pub types: usize,
    /// How many values each has.
    pub domain: usize,
    /// Exponent of the Zipf distribution by which values are drawn.
    pub zipf: f64,
    /// Another seed draws other values.
    pub seed: u64,
}

/// Adds noise to the hints of every access.
pub fn add_noise<W: Write>(records: &mut Records, noise: Noise, writer: &mut Writer<W>) -> Result<u64, TraceError> {
    limit("noise_types_max", NOISE_TYPES_MAX, noise.types)?;
    limit("noise_domain_max", NOISE_DOMAIN_MAX, noise.domain)?;
    let cumulated = zipf(noise.domain.max(1), noise.zipf);
    let mut state = noise.seed;
    let mut sets: HashMap<(u32, Vec<usize>), u32> = HashMap::new();
    let mut named = Named::default();
    while let Some(mut record) = whole(records.next())? {
        // Names of types and vertices stay, hint sets are all new.
        if let Some(dictionary) = records.dictionary() {
            named.define(&Record { hints: 0, ..record.clone() }, dictionary, writer)?;
        }
        if record.kind.is_access() {
            let draw = |_| {
                let drawn = uniform(&mut state);
                cumulated.partition_point(|&sum| sum <= drawn).min(cumulated.len() - 1)
            };
            let values: Vec<usize> = (0..noise.types).map(draw).collect();
            let next = sets.len() as u32 + 1;
            let noisy = (record.hints, values);
            let id = match sets.get(&noisy) {
                Some(&id) => id,
                None => {
                    limit("hint_sets_max", HINT_SETS_MAX, sets.len() + 1)?;
                    define_noisy(&noisy, records.dictionary(), next, writer)?;
                    sets.insert(noisy, next);
                    next
                }
            };
            record.hints = id;
        }
        writer.append(&record)?;
    }
    Ok(writer.records())
}

fn define_noisy<W: Write>(
    (hints, noise): &(u32, Vec<usize>),
    dictionary: Option<&Dictionary>,
    id: u32,
    writer: &mut Writer<W>,
) -> Result<(), TraceError> {
    let known = dictionary.and_then(|known| {
        let set = known.hint_set(*hints)?;
        Some((set.schema, set.values.clone(), known.hint_schema(set.schema)?.clone()))
    });
    let (number, mut values, mut schema) = known.unwrap_or_default();
    let text = |prefix: &str, number: usize| Bytes::from(format!("{prefix}{number}"));
    // Noise that is there already keeps its names.
    let own: Vec<Bytes> = (0..)
        .map(|number| text("noise", number))
        .filter(|name| !schema.types.contains(name))
        .take(noise.len())
        .collect();
    schema.types.extend(own);
    values.extend(noise.iter().map(|&value| text("n", value)));
    writer.define_hint_schema(number, schema)?;
    writer.define_hint_set(id, HintSetDefinition { schema: number, values })
}

fn limit(name: &'static str, limit: usize, found: usize) -> Result<(), TraceError> {
    let exceeded = TraceError::Limit { name, limit: limit as u64, found: found as u64 };
    if found > limit { Err(exceeded) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fbt::Reader;
    use crate::record::TraceKey;
    use std::io::Cursor;

    /// A trace of so many accesses with two hint sets.
    fn trace(accesses: u64) -> Records {
        let mut writer = Writer::create(Vec::new(), 0).expect("memory");
        let types = vec![Bytes::from("table"), Bytes::from("kind")];
        let schema = HintSchema { client: 0, name: "db".into(), types };
        writer.define_hint_schema(4, schema).expect("new");
        for id in [8, 9] {
            let values = vec![Bytes::from(format!("t{id}")), Bytes::from("heap")];
            writer.define_hint_set(id, HintSetDefinition { schema: 4, values }).expect("new");
        }
        for key in 0..accesses {
            let record = Record {
                key: TraceKey::Number(key % 3),
                hints: 8 + (key % 2) as u32,
                client: 5,
                txn: key / 2 + 1,
                time_us: Some(key),
                ..Record::default()
            };
            writer.append(&record).expect("memory");
        }
        Box::new(Reader::new(Cursor::new(writer.finish().expect("memory"))).expect("sound"))
    }

    fn read(writer: Writer<Vec<u8>>) -> (Vec<Record>, Dictionary) {
        let mut reader = Reader::new(Cursor::new(writer.finish().expect("memory"))).expect("sound");
        let records = reader.by_ref().map(|record| record.expect("sound")).collect();
        (records, reader.dictionary().clone())
    }

    fn writer() -> Writer<Vec<u8>> {
        Writer::create(Vec::new(), 0).expect("memory")
    }

    #[test]
    fn what_is_converted_is_the_same() {
        let mut writer = writer();
        assert_eq!(convert(&mut trace(9), &mut writer, || ()).expect("sound"), 9);
        let (records, dictionary) = read(writer);
        let mut original = trace(9);
        let expected: Vec<Record> = original.by_ref().map(|record| record.expect("sound")).collect();
        assert_eq!((records, Some(&dictionary)), (expected, original.dictionary()));
        let mut csv = Vec::new();
        let written = to_csv(&mut trace(2), &mut csv).expect("sound");
        assert_eq!((written.requests, written.hint_meanings_left_out, written.names_left_out), (2, true, false));
        assert!(String::from_utf8(csv).expect("text").ends_with("\n0.000001,read,1,,,5,1,0,0,0,9,0,,\n"));
    }

    #[test]
    fn mixed_traces_take_turns_and_share_nothing() {
        let mut writer = writer();
        assert_eq!(mix(&mut [trace(5), trace(3)], &mut writer).expect("sound"), 6);
        let (records, dictionary) = read(writer);
        let spaces: Vec<_> = records.iter().map(|record| (record.space, record.client)).collect();
        assert_eq!(spaces, [(0, 1), (16, 2)].repeat(3));
        let names = |record: &Record| dictionary.hint_schema(dictionary.hint_set(record.hints)?.schema).cloned();
        let types: Vec<_> = records[..2].iter().map(|record| names(record).expect("named").types).collect();
        assert_eq!(types, [["1.table", "1.kind"], ["2.table", "2.kind"]]);
        assert_ne!(records[0].hints, records[1].hints);
        assert_ne!(records[0].txn, records[1].txn);
        let mut many: Vec<Records> = (0..=MIX_TRACES_MAX).map(|_| trace(1)).collect();
        assert!(matches!(mix(&mut many, &mut self::writer()), Err(TraceError::Limit { .. })));
    }

    #[test]
    fn a_mix_is_not_mixed_again_and_the_message_says_what_to_do() {
        let mut mixed = writer();
        mix(&mut [trace(5), trace(3)], &mut mixed).expect("sound");
        let bytes = mixed.finish().expect("memory");
        let again: Records = Box::new(Reader::new(Cursor::new(bytes)).expect("sound"));
        let refused = mix(&mut [trace(4), again], &mut writer()).expect_err("the second has keys in space 16");
        assert_eq!(
            refused.to_string(),
            "trace 2 of those to be mixed has a key in key space 16, and each may use 0 to 15; if it is a mix itself, \
             mix the traces that it was made of, with the others, in one command"
        );
    }

    /// A transaction type and its vertex, and a vertex that no type has.
    fn typed(of_type: u16, name: &'static str, vertices: [&'static str; 2]) -> Records {
        let mut writer = writer();
        if !name.is_empty() {
            writer.define_type(of_type, name.into()).expect("new");
        }
        writer.define_vertex(of_type, 4, vertices[0].into()).expect("new");
        writer.define_vertex(0, 6, vertices[1].into()).expect("new");
        for (txn_type, vertex) in [(of_type, 4), (of_type, 6), (0, 6)] {
            let record = Record { key: TraceKey::Number(1), txn: 1, txn_type, vertex, ..Record::default() };
            writer.append(&record).expect("memory");
        }
        Box::new(Reader::new(Cursor::new(writer.finish().expect("memory"))).expect("sound"))
    }

    #[test]
    fn mixed_types_stay_apart_and_keep_their_names() {
        let mut writer = writer();
        let traces = &mut [typed(3, "Pay", ["a", "b"]), typed(3, "Balance", ["c", "d"]), typed(9, "", ["e", "f"])];
        assert_eq!(mix(traces, &mut writer).expect("sound"), 9);
        let (records, dictionary) = read(writer);
        let places: Vec<_> = records.iter().map(|record| (record.txn_type, record.vertex)).collect();
        assert_eq!(places, [(1, 4), (2, 4), (3, 4), (1, 6), (2, 6), (3, 6), (0, 1), (0, 2), (0, 3)]);
        let types: Vec<_> = dictionary.txn_types().map(|(number, name)| (number, &name[..])).collect();
        assert_eq!(types, [(1, &b"1.Pay"[..]), (2, b"2.Balance"), (3, b"3.9")]);
        let name = |&(of_type, vertex): &(u16, u16)| dictionary.vertex(of_type, vertex).expect("named").clone();
        let named: Vec<_> = places.iter().map(name).collect();
        assert_eq!(named, ["a", "c", "e", "b", "d", "f", "1.b", "2.d", "3.f"]);
        for (name, without) in [("1.Pay", "Pay"), ("2.1.9", "9"), ("Pay", "Pay"), ("v2.x", "v2.x"), (".x", ".x")] {
            assert_eq!(without_prefix(name.as_bytes()), without.as_bytes());
        }
        // Converted, vertices of all types keep their names too.
        let mut writer = self::writer();
        convert(&mut typed(3, "Pay", ["a", "b"]), &mut writer, || ()).expect("sound");
        assert_eq!(read(writer).1.vertex(0, 6).map(|name| &name[..]), Some(&b"b"[..]));
    }

    #[test]
    fn noise_is_zipf_and_repeats() {
        let noisy = |seed| {
            let mut writer = writer();
            let noise = Noise { types: 2, domain: 10, zipf: 1.0, seed };
            add_noise(&mut trace(4000), noise, &mut writer).expect("sound");
            read(writer)
        };
        let (records, dictionary) = noisy(1);
        let values = |record: &Record| dictionary.hint_set(record.hints).expect("defined").values.clone();
        assert_eq!(values(&records[0])[..2], ["t8", "heap"]);
        let first = records.iter().filter(|record| values(record)[2] == "n0").count();
        assert!((1250..1500).contains(&first), "{first} of 4000, expected 1 / H(10) = 34 %");
        assert_eq!(noisy(1).0, records);
        assert_ne!(noisy(2).0, records);
        // More noise has names of its own.
        let mut once = writer();
        let noise = Noise { types: 2, domain: 10, zipf: 1.0, seed: 1 };
        add_noise(&mut trace(3), noise, &mut once).expect("sound");
        let bytes = once.finish().expect("memory");
        let mut again: Records = Box::new(Reader::new(std::io::Cursor::new(bytes)).expect("sound"));
        let mut twice = writer();
        add_noise(&mut again, noise, &mut twice).expect("sound");
        let (records, dictionary) = read(twice);
        let set = dictionary.hint_set(records[0].hints).expect("defined");
        let types = &dictionary.hint_schema(set.schema).expect("defined").types;
        assert_eq!(types[2..], ["noise0", "noise1", "noise2", "noise3"]);
    }
}
