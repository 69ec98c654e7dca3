//! CACHE TRACE: what clients access, written to a file in forebay's own format (`docs/trace-format.md`).
//!
//! The cache tells of accesses as its policy hears of them ([`Watcher`]), with what it charges for each entry: so a
//! trace holds all that the same cache needs to decide the same again (`forebay sim --like-server`). They go into a
//! bounded queue; a task takes them out, many at a time, and writes them where it holds up no request. When the queue
//! is full, accesses are left out and counted: recording never makes a client wait. About once a second all is handed
//! to the machine, so a killed server loses no more than that.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::File;
use std::io::BufWriter;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use forebay::cache::{AccessKind, Accessed, Cache, Context, Watcher};
use forebay::hint::{HintMeaning, HintSet};
use forebay::runtime::Runtime;
use forebay::value::{Data, Value};
use forebay_trace::dictionary::{HintSchema, HintSetDefinition};
use forebay_trace::fbt::Writer;
use forebay_trace::words::{RETURNED_WORDS_MAX, words};
use forebay_trace::{Kind, Record, TraceError, TraceKey};
use futures_channel::oneshot;

use crate::state::Shared;

/// Records that wait to be written.
pub const TRACE_QUEUE_RECORDS_MAX: usize = 262_144;

/// Bytes of keys that wait to be written.
pub const TRACE_QUEUE_BYTES_MAX: usize = 64 << 20;

/// The longest name of a trace file, in bytes.
pub const TRACE_NAME_BYTES_MAX: usize = 128;

/// How often the queue is emptied.
const DRAIN_PAUSE: Duration = Duration::from_millis(20);

/// How often what was written is handed to the machine.
const FLUSH_PAUSE: Duration = Duration::from_secs(1);

/// Records traces, one at a time.
pub struct Recorder {
    directory: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: Option<Running>,
    last: Option<Trace>,
}

/// A trace that is being recorded.
struct Running {
    trace: Trace,
    /// When it began, on the runtime's clock.
    began: Duration,
    /// When it ends by itself.
    until: Option<Duration>,
    /// It is to end, and these are to be told.
    stop: Option<Vec<oneshot::Sender<Trace>>>,
    queue: Vec<Entry>,
    queue_bytes: usize,
}

/// What waits to be written.
enum Entry {
    /// With what the access returned, where that is recorded.
    Record(Record, Option<Value>),
    /// From here on so many hint sets are known: a policy may charge for them.
    HintSets(u32),
}

/// Is told by the cache what to record.
struct Tap {
    recorder: Arc<Recorder>,
    /// Whether what reads return is recorded, too.
    returned: bool,
    runtime: Runtime,
}

/// A trace, as CACHE TRACE STATUS shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Its file's name.
    pub name: String,
    /// Records taken into the queue.
    pub records: u64,
    /// Records left out because the queue was full.
    pub dropped: u64,
    /// Why it ended before its time.
    pub error: Option<String>,
}

/// What CACHE TRACE STATUS shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Whether it is being recorded.
    pub running: bool,
    /// The trace that is being recorded, or was last.
    pub trace: Option<Trace>,
    /// Milliseconds since it began, if it runs.
    pub elapsed_ms: u64,
}

impl Recorder {
    pub(crate) fn new(directory: Option<PathBuf>) -> Recorder {
        Recorder { directory, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a record; `make` is told the time since the trace began, in microseconds.
    fn add(&self, runtime: &Runtime, key_bytes: usize, returned: Option<&Value>, make: impl FnOnce(u64) -> Record) {
        let now = runtime.elapsed();
        let mut state = self.lock();
        // What comes after its end is no part of it.
        let Some(running) = state.running.as_mut().filter(|running| running.stop.is_none()) else { return };
        let bytes = key_bytes + returned.map_or(0, Value::size);
        let full =
            running.queue.len() >= TRACE_QUEUE_RECORDS_MAX || running.queue_bytes + bytes > TRACE_QUEUE_BYTES_MAX;
        if full {
            running.trace.dropped += 1;
            return;
        }
        running.queue_bytes += bytes;
        running.trace.records += 1;
        let time_us = now.saturating_sub(running.began).as_micros() as u64;
        running.queue.push(Entry::Record(make(time_us), returned.cloned()));
    }

    fn add_hint_sets(&self, known: u32) {
        if let Some(running) = &mut self.lock().running
            && running.queue.len() < TRACE_QUEUE_RECORDS_MAX
        {
            running.queue.push(Entry::HintSets(known));
        }
    }

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

    /// Ends the trace and waits until its file is whole; `None` if none is being recorded.
    pub async fn stop(&self) -> Option<Trace> {
        let (sender, receiver) = oneshot::channel();
        self.lock().running.as_mut()?.stop.get_or_insert_default().push(sender);
        receiver.await.ok()
    }

    /// How it stands.
    pub fn status(&self, runtime: &Runtime) -> Status {
        let state = self.lock();
        match &state.running {
            Some(running) => Status {
                running: true,
                trace: Some(running.trace.clone()),
                elapsed_ms: runtime.elapsed().saturating_sub(running.began).as_millis() as u64,
            },
            None => Status { running: false, trace: state.last.clone(), elapsed_ms: 0 },
        }
    }

    /// What waits to be written, and whether it is the last.
    fn take(&self, now: Duration) -> (Vec<Entry>, bool) {
        let mut state = self.lock();
        let Some(running) = &mut state.running else { return (Vec::new(), true) };
        running.queue_bytes = 0;
        if running.until.is_some_and(|until| until <= now) {
            running.stop.get_or_insert_default();
        }
        (std::mem::take(&mut running.queue), running.stop.is_some())
    }

    fn ended(&self, error: Option<String>) {
        let mut state = self.lock();
        let Some(running) = state.running.take() else { return };
        let mut trace = running.trace;
        trace.error = error;
        for waiting in running.stop.unwrap_or_default() {
            let _ = waiting.send(trace.clone());
        }
        state.last = Some(trace);
    }
}

/// Only a name, so that nothing outside of the directory can be written.
fn file_name(name: &[u8]) -> Result<String, String> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    match std::str::from_utf8(name) {
        Ok(text) if !name.is_empty() && name[0] != b'.' && name.iter().all(plain) => match name.len() {
            0..=TRACE_NAME_BYTES_MAX => Ok(text.to_owned()),
            _ => Err(format!("LIMIT trace_name_bytes_max {TRACE_NAME_BYTES_MAX}")),
        },
        _ => Err("a trace's name is letters, digits, '.', '_' and '-', not beginning with '.'".into()),
    }
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

/// What a record takes from the request that it is for.
fn record(context: &Context, kind: Kind, time_us: u64) -> Record {
    Record {
        time_us: Some(time_us),
        kind,
        client: context.client,
        txn: context.txn,
        txn_type: context.txn_type,
        level: context.level,
        vertex: context.vertex,
        hints: context.hints.0,
        ..Record::default()
    }
}

impl Watcher for Tap {
    fn accessed(&self, accessed: &Accessed<'_>) {
        let kind = match accessed.kind {
            Some(AccessKind::Read) => Kind::Read,
            Some(AccessKind::Prefetch) => Kind::Prefetch,
            Some(AccessKind::Demote) => Kind::Demote,
            // A write that leaves the document absent.
            Some(AccessKind::Write) if accessed.size.is_none() && accessed.charged.is_some() => Kind::Delete,
            Some(AccessKind::Write) => Kind::Write,
            None => Kind::Delete,
        };
        let (key, context) = (accessed.key, accessed.context);
        let returned = accessed.value.filter(|_| self.returned && kind == Kind::Read);
        self.recorder.add(&self.runtime, key.name.len(), returned, |time_us| Record {
            key: TraceKey::Bytes(Bytes::copy_from_slice(key.name)),
            space: key.space,
            size: accessed.size,
            charged: accessed.charged,
            cost_us: (context.cost_us > 0).then_some(context.cost_us),
            ..record(context, kind, time_us)
        });
    }

    fn ended(&self, context: &Context, committed: bool) {
        let kind = if committed { Kind::Committed } else { Kind::Aborted };
        self.recorder.add(&self.runtime, 0, None, |time_us| record(context, kind, time_us));
    }

    fn hints_defined(&self, set: HintSet, _: &HintMeaning) {
        self.recorder.add_hint_sets(set.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names() {
        for name in ["a", "shop.trace", "x_1-2.fbt"] {
            assert_eq!(file_name(name.as_bytes()), Ok(name.to_owned()));
        }
        for name in ["", ".", "..", ".hidden", "a/b", "a\\b", "/etc/passwd", "a\0b", "a b", "\u{e4}"] {
            assert!(file_name(name.as_bytes()).is_err(), "{name}");
        }
        assert!(file_name(&[b'a'; TRACE_NAME_BYTES_MAX + 1]).unwrap_err().starts_with("LIMIT"));
    }
}
