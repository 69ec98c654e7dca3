//! Standard input as a trace: to its end, or until Ctrl-C says that it is enough, as of a log that is still written.

use std::fs::File;
use std::io::{Cursor, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use forebay_sim::lab::Progress;
use forebay_trace::{Records, STANDARD_INPUT, TraceError, TraceOptions, fbt, tools};

use crate::error::CommandError;
use crate::say;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// Chunks that wait for their reader.
const CHUNKS_MAX: usize = 16;

/// Most bytes without a line's end that are held back.
const HELD_BYTES_MAX: usize = 1 << 20;

/// The exit code of what Ctrl-C ends.
const INTERRUPTED: i32 = 130;

/// What comes next.
enum Next {
    Bytes(Vec<u8>),
    Failed(std::io::Error),
    End,
    /// Ctrl-C.
    Enough,
}

/// What comes on standard input, up to the last whole line if Ctrl-C ends it.
struct Bytes {
    next: Receiver<Next>,
    enough: Arc<AtomicBool>,
    /// What is given out.
    ready: Cursor<Vec<u8>>,
    /// What follows the last line's end.
    held: Vec<u8>,
    over: bool,
}

impl Bytes {
    /// Puts what comes next into `ready`; nothing there means the end.
    fn take(&mut self) -> std::io::Result<()> {
        self.ready = Cursor::default();
        while self.ready.get_ref().is_empty() && !self.over {
            match self.next.recv() {
                _ if self.enough.load(Ordering::Relaxed) => self.over = true,
                Ok(Next::Bytes(bytes)) => {
                    self.held.extend(bytes);
                    let line_end = self.held.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
                    let whole = if self.held.len() > HELD_BYTES_MAX { self.held.len() } else { line_end };
                    let rest = self.held.split_off(whole);
                    self.ready = Cursor::new(std::mem::replace(&mut self.held, rest));
                }
                Ok(Next::Failed(error)) => return Err(error),
                Ok(Next::End) => {
                    self.over = true;
                    self.ready = Cursor::new(std::mem::take(&mut self.held));
                }
                Ok(Next::Enough) | Err(_) => self.over = true,
            }
        }
        Ok(())
    }
}

impl Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.ready.position() as usize == self.ready.get_ref().len() {
            self.take()?;
        }
        self.ready.read(buffer)
    }
}

/// Reads standard input from now on, in a thread that a Ctrl-C does not wait for.
fn bytes() -> Bytes {
    let (sender, next) = sync_channel(CHUNKS_MAX);
    let enough = Arc::new(AtomicBool::new(false));
    watch(sender.clone(), enough.clone());
    thread::spawn(move || {
        let mut stdin = std::io::stdin();
        loop {
            let mut chunk = vec![0; CHUNK_BYTES];
            let read = match stdin.read(&mut chunk) {
                Ok(0) => Next::End,
                Ok(count) => {
                    chunk.truncate(count);
                    Next::Bytes(chunk)
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Next::Failed(error),
            };
            let last = !matches!(read, Next::Bytes(_));
            if sender.send(read).is_err() || last {
                break;
            }
        }
    });
    Bytes { next, enough, ready: Cursor::default(), held: Vec::new(), over: false }
}

/// The first Ctrl-C ends the input, the second the program. Where signals can't be had, the first does.
fn watch(sender: SyncSender<Next>, enough: Arc<AtomicBool>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return };
    thread::spawn(move || {
        runtime.block_on(async {
            if tokio::signal::ctrl_c().await.is_err() {
                return;
            }
            enough.store(true, Ordering::Relaxed);
            say::note("forebay: no more of standard input is read; another Ctrl-C ends forebay");
            // If it has no room, its reader is awake.
            let _ = sender.try_send(Next::Enough);
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(INTERRUPTED);
            }
        });
    });
}

/// Whether a trace is what comes on standard input.
pub fn is(trace: &Path) -> bool {
    trace == Path::new(STANDARD_INPUT)
}

/// The trace that comes on standard input.
pub fn open(options: &TraceOptions) -> Result<Records, TraceError> {
    forebay_trace::open_bytes(Box::new(bytes()), Path::new(STANDARD_INPUT), options)
}

/// A trace that came on standard input, kept so that it can be read more than once.
pub struct Kept {
    /// A file without a name, which is gone with the program however that ends.
    file: File,
    /// Malformed records that were passed over.
    pub skipped: u64,
}

impl Kept {
    /// Reads all that comes, and says what has to be known of that.
    pub fn read(options: &TraceOptions, progress: &dyn Progress) -> Result<Kept, CommandError> {
        let failed = |error: TraceError| CommandError::Failed(format!("{STANDARD_INPUT}: {error}"));
        let full = |error: std::io::Error| {
            let folder = std::env::temp_dir();
            CommandError::Failed(format!("{}: no file can be made there: {error}; set TMPDIR", folder.display()))
        };
        let file = tempfile::tempfile().map_err(full)?;
        progress.begin("reading -", None);
        let mut records = open(options).map_err(failed)?;
        let mut writer = fbt::Writer::create(file.try_clone().map_err(full)?, 0).map_err(failed)?;
        tools::convert(&mut records, &mut writer, || progress.advance(1)).map_err(failed)?;
        writer.finish().map_err(failed)?;
        progress.end();
        say::warnings(Path::new(STANDARD_INPUT), &records.warnings());
        say::skipped(records.skipped(), records.first_skipped());
        Ok(Kept { file, skipped: records.skipped() })
    }

    /// Where it can be read while this is there.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}
