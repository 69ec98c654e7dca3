//! A trace's file: how it begins, and what of the queue is written into it.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::File;
use std::io::BufWriter;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use forebay::cache::{Cache, Watcher};
use forebay::runtime::Runtime;
use forebay::value::{Data, Value};
use forebay_trace::TraceError;
use forebay_trace::dictionary::{HintSchema, HintSetDefinition};
use forebay_trace::fbt::Writer;
use forebay_trace::words::{RETURNED_WORDS_MAX, words};

use super::{Entry, Running, Tap, Trace, file_name};
use crate::state::Shared;

/// How often the queue is emptied.
const DRAIN_PAUSE: Duration = Duration::from_millis(20);

/// How often what was written is handed to the machine.
const FLUSH_PAUSE: Duration = Duration::from_secs(1);

/// Begins a trace in a new file. With `duration` it ends by itself; with `returned` it says what reads returned, as
/// fingerprints of words.
pub async fn start(
    shared: &Arc<Shared>,
    name: &[u8],
    duration: Option<Duration>,
    returned: bool,
) -> Result<(), String> {
    let recorder = &shared.recorder;
    let Some(directory) = &recorder.directory else {
        return Err("no directory for traces; start the server with --trace-dir".into());
    };
    let name = file_name(name)?;
    let path = directory.join(&name);
    let runtime = shared.engine.runtime().clone();
    if recorder.status(&runtime).running {
        return Err("a trace is being recorded; end it with CACHE TRACE STOP first".into());
    }
    let start_us = runtime.now_ms().saturating_mul(1000);
    let writer = runtime.blocking(move || create(&path, start_us)).await?;
    let began = runtime.elapsed();
    {
        let mut state = recorder.lock();
        if state.running.is_some() {
            return Err("a trace is being recorded; end it with CACHE TRACE STOP first".into());
        }
        state.running = Some(Running {
            trace: Trace { name, ..Trace::default() },
            began,
            until: duration.map(|duration| began + duration),
            stop: None,
            queue: Vec::new(),
            queue_bytes: 0,
        });
    }
    let tap: Arc<dyn Watcher> = Arc::new(Tap { recorder: recorder.clone(), returned, runtime: runtime.clone() });
    shared.engine.cache().watch(tap.clone());
    recorder.add_hint_sets(shared.labels.hints_len().1 as u32);
    let (cache, defined) = (shared.engine.cache().clone(), Defined::default());
    let task = Task { shared: Arc::downgrade(shared), cache, tap, runtime: runtime.clone(), writer, defined };
    runtime.spawn(task.run());
    Ok(())
}

type Output = Writer<BufWriter<File>>;

fn create(path: &Path, start_us: u64) -> Result<Output, String> {
    // It holds the names of keys: its owner's alone.
    let file = File::options().write(true).create_new(true).mode(0o600).open(path);
    let file = file.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => "there is a trace of this name; choose another or remove it".to_owned(),
        _ => format!("can't create the trace: {error}; check the directory of --trace-dir"),
    })?;
    Writer::create(BufWriter::new(file), start_us).map_err(|error| error.to_string())
}

/// How many labels the trace knows already.
#[derive(Clone, Copy, Default)]
struct Defined {
    types: usize,
    vertices: usize,
    schemas: usize,
    sets: usize,
}

struct Task {
    shared: Weak<Shared>,
    cache: Cache,
    tap: Arc<dyn Watcher>,
    runtime: Runtime,
    writer: Output,
    defined: Defined,
}

impl Task {
    async fn run(mut self) {
        let mut flushed = self.runtime.elapsed();
        loop {
            self.runtime.sleep(DRAIN_PAUSE).await;
            let now = self.runtime.elapsed();
            let Some(shared) = self.shared.upgrade() else { return self.cache.unwatch(&self.tap) };
            let (entries, last) = shared.recorder.take(now);
            let flush = now.saturating_sub(flushed) >= FLUSH_PAUSE;
            if flush {
                flushed = now;
            }
            let (mut writer, mut defined, labels) = (self.writer, self.defined, shared.clone());
            let written = self.runtime.blocking(move || {
                write(&mut writer, &labels, &mut defined, entries)?;
                if flush {
                    writer.flush()?;
                }
                match last {
                    false => Ok(Some((writer, defined))),
                    true => writer.finish().map(|_| None),
                }
            });
            let written: Result<_, TraceError> = written.await;
            match written {
                Ok(Some((writer, defined))) => (self.writer, self.defined) = (writer, defined),
                Ok(None) => {
                    self.cache.unwatch(&self.tap);
                    return shared.recorder.ended(None);
                }
                Err(error) => {
                    tracing::error!(%error, "the trace ends early");
                    self.cache.unwatch(&self.tap);
                    return shared.recorder.ended(Some(error.to_string()));
                }
            }
        }
    }
}

/// Writes what has come, and before it what its numbers mean. Labels are given their numbers before the first access
/// that carries them, so all that the entries carry are there.
fn write(writer: &mut Output, shared: &Shared, defined: &mut Defined, entries: Vec<Entry>) -> Result<(), TraceError> {
    let labels = &shared.labels;
    for name in labels.txn_types(defined.types + 1) {
        defined.types += 1;
        writer.define_type(defined.types as u16, Bytes::copy_from_slice(&name))?;
    }
    for (txn_type, number, name) in labels.vertices(defined.vertices) {
        defined.vertices += 1;
        writer.define_vertex(txn_type, number, Bytes::copy_from_slice(&name))?;
    }
    for entry in entries {
        match entry {
            Entry::HintSets(known) => define_hints(writer, shared, defined, known)?,
            Entry::Record(record, returned) => {
                define_hints(writer, shared, defined, record.hints)?;
                match writer.append_with(&record, &returned.map_or(Vec::new(), |value| words_of(&value))) {
                    // A key too long for a trace; it leaves the trace as it was.
                    Ok(()) | Err(TraceError::Limit { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
    Ok(())
}

/// Fingerprints of the first words of a document, each once.
fn words_of(value: &Value) -> Vec<u64> {
    let text = if let Data::Bytes(bytes) = &value.data { bytes.joined() } else { Cow::default() };
    let parts: Box<dyn Iterator<Item = &[u8]>> = match &value.data {
        Data::Bytes(_) => Box::new(std::iter::once(&*text)),
        Data::Hash(hash) => Box::new(hash.iter().flat_map(|(field, value)| [&field[..], &value[..]])),
        Data::List(list) => Box::new(list.iter().map(|element| &element[..])),
        Data::Set(set) => Box::new(set.iter().map(|member| &member[..])),
    };
    let mut met = HashSet::new();
    parts.flat_map(words).filter(|word| met.insert(*word)).take(RETURNED_WORDS_MAX).collect()
}

/// Says what hint sets mean, up to number `known`.
fn define_hints(writer: &mut Output, shared: &Shared, defined: &mut Defined, known: u32) -> Result<(), TraceError> {
    if known as usize <= defined.sets {
        return Ok(());
    }
    let copies = |names: &[Box<[u8]>]| names.iter().map(|name| Bytes::copy_from_slice(name)).collect();
    for schema in shared.labels.hint_schemas(defined.schemas as u32 + 1) {
        defined.schemas += 1;
        let name = Bytes::copy_from_slice(&schema.name);
        let schema = HintSchema { client: 0, name, types: copies(&schema.types) };
        writer.define_hint_schema(defined.schemas as u32, schema)?;
    }
    let news = known as usize - defined.sets;
    for set in shared.labels.hint_sets(defined.sets as u32 + 1).into_iter().take(news) {
        defined.sets += 1;
        let definition = HintSetDefinition { schema: set.schema, values: copies(&set.values) };
        writer.define_hint_set(defined.sets as u32, definition)?;
    }
    Ok(())
}
