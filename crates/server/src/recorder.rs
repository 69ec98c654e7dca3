//! CACHE TRACE: what clients access, written to a file in forebay's own format (`docs/trace-format.md`).
//!
//! The cache tells of accesses as its policy hears of them ([`Watcher`]), with what it charges for each entry: so a
//! trace holds all that the same cache needs to decide the same again (`forebay sim --like-server`). They go into a
//! bounded queue; a task takes them out, many at a time, and writes them where it holds up no request. When the queue
//! is full, accesses are left out and counted: recording never makes a client wait. About once a second all is handed
//! to the machine, so a killed server loses no more than that.

mod writing;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use forebay::cache::{AccessKind, Accessed, Context, Watcher};
use forebay::hint::{HintMeaning, HintSet};
use forebay::runtime::Runtime;
use forebay::value::Value;
use forebay_trace::{Kind, Record, TraceKey};
use futures_channel::oneshot;

pub use writing::start;

/// Records that wait to be written.
pub const TRACE_QUEUE_RECORDS_MAX: usize = 262_144;

/// Bytes of keys that wait to be written.
pub const TRACE_QUEUE_BYTES_MAX: usize = 64 << 20;

/// The longest name of a trace file, in bytes.
pub const TRACE_NAME_BYTES_MAX: usize = 128;

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
