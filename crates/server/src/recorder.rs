//! CACHE TRACE: what clients access, written to a file in forebay's own format (`docs/trace-format.md`).
//!
//! Sessions put accesses into a bounded queue; a task takes them out, many at a time, and writes them where it holds up
//! nobody. When the queue is full, accesses are left out and counted: recording never makes a client wait. About once a
//! second all is handed to the machine, so a killed server loses no more than that.

use std::fs::File;
use std::io::BufWriter;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use forebay::cache::Context;
use forebay::key::KeyRef;
use forebay::runtime::Runtime;
use forebay_trace::fbt::{HintSchema, HintSetDefinition, Writer};
use forebay_trace::{Kind, Record, TraceError, TraceKey};
use futures_channel::oneshot;

use crate::attention::TRACED;
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
    next_txn: AtomicU64,
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
    queue: Vec<Record>,
    queue_bytes: usize,
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

/// One access, or the end of a transaction, before it is a record.
pub struct Event<'a> {
    /// What was done.
    pub kind: Kind,
    /// To which key; `None` for an end.
    pub key: Option<KeyRef<'a>>,
    /// Bytes of key and value, where there is a value.
    pub size: Option<u32>,
}

impl Recorder {
    pub(crate) fn new(directory: Option<PathBuf>) -> Recorder {
        Recorder { directory, state: Mutex::default(), next_txn: AtomicU64::new(1) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a transaction.
    pub fn txn(&self) -> u64 {
        self.next_txn.fetch_add(1, Ordering::Relaxed)
    }

    /// Records `events`, all of them or none, in the name of `context`.
    pub fn add(&self, runtime: &Runtime, context: &Context, events: &[Event<'_>]) {
        let now = runtime.elapsed();
        let mut state = self.lock();
        let Some(running) = &mut state.running else { return };
        let bytes: usize = events.iter().filter_map(|event| event.key).map(|key| key.name.len()).sum();
        let full = running.queue.len() + events.len() > TRACE_QUEUE_RECORDS_MAX
            || running.queue_bytes + bytes > TRACE_QUEUE_BYTES_MAX;
        if full || running.stop.is_some() {
            running.trace.dropped += events.len() as u64;
            return;
        }
        running.queue_bytes += bytes;
        running.trace.records += events.len() as u64;
        let time_us = now.saturating_sub(running.began).as_micros() as u64;
        running.queue.extend(events.iter().map(|event| Record {
            time_us: Some(time_us),
            kind: event.kind,
            key: event.key.map_or(TraceKey::None, |key| TraceKey::Bytes(Bytes::copy_from_slice(key.name))),
            space: event.key.map_or(0, |key| key.space),
            size: event.size,
            cost_us: None,
            client: context.client,
            txn: context.txn,
            txn_type: context.txn_type,
            level: context.level,
            vertex: context.vertex,
            hints: context.hints.0,
        }));
    }

    /// Begins a trace in a new file. With `duration` it ends by itself.
    pub async fn start(shared: &Arc<Shared>, name: &[u8], duration: Option<Duration>) -> Result<(), String> {
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
        shared.attention.set(TRACED, true);
        let task =
            Task { shared: Arc::downgrade(shared), runtime: runtime.clone(), writer, defined: Defined::default() };
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
    fn take(&self, now: Duration) -> (Vec<Record>, bool) {
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
            let Some(shared) = self.shared.upgrade() else { return };
            let (records, last) = shared.recorder.take(now);
            let flush = now.saturating_sub(flushed) >= FLUSH_PAUSE;
            if flush {
                flushed = now;
            }
            let (mut writer, mut defined, labels) = (self.writer, self.defined, shared.clone());
            let written = self.runtime.blocking(move || {
                define(&mut writer, &labels, &mut defined)?;
                for record in &records {
                    match writer.append(record) {
                        // A key too long for a trace; it leaves the trace as it was.
                        Ok(()) | Err(TraceError::Limit { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
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
                Ok(None) => return end(&shared, None),
                Err(error) => {
                    tracing::error!(%error, "the trace ends early");
                    return end(&shared, Some(error.to_string()));
                }
            }
        }
    }
}

fn end(shared: &Shared, error: Option<String>) {
    shared.attention.set(TRACED, false);
    shared.recorder.ended(error);
}

/// Says what numbers mean that the trace does not know yet. Labels are given their numbers before the first access that
/// carries them, so all that the records just taken carry are there.
fn define(writer: &mut Output, shared: &Shared, defined: &mut Defined) -> Result<(), TraceError> {
    let labels = &shared.labels;
    for name in labels.txn_types(defined.types + 1) {
        defined.types += 1;
        writer.define_type(defined.types as u16, Bytes::copy_from_slice(&name))?;
    }
    for name in labels.vertices(defined.vertices + 1) {
        defined.vertices += 1;
        writer.define_vertex(0, defined.vertices as u16, Bytes::copy_from_slice(&name))?;
    }
    let copies = |names: &[Box<[u8]>]| names.iter().map(|name| Bytes::copy_from_slice(name)).collect();
    for schema in labels.hint_schemas(defined.schemas as u32 + 1) {
        defined.schemas += 1;
        let name = Bytes::copy_from_slice(&schema.name);
        writer
            .define_hint_schema(defined.schemas as u32, HintSchema { client: 0, name, types: copies(&schema.types) })?;
    }
    for set in labels.hint_sets(defined.sets as u32 + 1) {
        defined.sets += 1;
        let definition = HintSetDefinition { schema: set.schema, values: copies(&set.values) };
        writer.define_hint_set(defined.sets as u32, definition)?;
    }
    Ok(())
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
