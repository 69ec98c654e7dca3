//! MONITOR: clients that are shown every request as it comes. Each has a bounded queue; one that does not read fast
//! enough is dropped and logged, and holds no other up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use forebay::mutation::{self, Fault};
use forebay_protocol::Frame;
use futures_util::task::AtomicWaker;

use crate::attention::{Attention, MONITORS};
use crate::clients::Client;
use crate::command::Command;

/// Monitors at a time.
pub const MONITORS_MAX: usize = 16;

/// Bytes of lines that wait for one monitor.
pub const MONITOR_QUEUE_BYTES_MAX: usize = 1 << 20;

/// Bytes of an argument that a line shows.
pub const MONITOR_ARG_BYTES_MAX: usize = 4096;

/// Arguments that a line shows.
pub const MONITOR_ARGS_MAX: usize = 128;

/// The clients that watch.
#[derive(Default)]
pub struct Monitors {
    list: Mutex<Vec<Arc<Monitor>>>,
}

/// One client that watches.
pub struct Monitor {
    client: Arc<Client>,
    queue: Mutex<BytesMut>,
    waker: AtomicWaker,
    dropped: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Monitors {
    /// Has `client` shown all requests from now on; `None` if there are too many who watch.
    pub fn add(&self, client: Arc<Client>, attention: &Attention) -> Option<Arc<Monitor>> {
        let mut list = lock(&self.list);
        if list.len() >= MONITORS_MAX {
            return None;
        }
        let monitor = Arc::new(Monitor {
            client,
            queue: Mutex::default(),
            waker: AtomicWaker::new(),
            dropped: AtomicBool::new(false),
        });
        list.push(monitor.clone());
        attention.set(MONITORS, true);
        Some(monitor)
    }

    /// Shows `monitor` nothing more.
    pub fn remove(&self, monitor: &Arc<Monitor>, attention: &Attention) {
        let mut list = lock(&self.list);
        list.retain(|other| !Arc::ptr_eq(other, monitor));
        attention.set(MONITORS, !list.is_empty());
    }

    /// Clients that watch now.
    pub fn len(&self) -> usize {
        lock(&self.list).len()
    }

    /// Whether nobody watches.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shows a request to all who watch.
    pub fn show(&self, line: &[u8], attention: &Attention) {
        let mut list = lock(&self.list);
        list.retain(|monitor| {
            let fits = monitor.push(line);
            if !fits {
                let client = monitor.client.id;
                tracing::warn!(
                    client,
                    "closing a monitor that does not read: monitor_queue_bytes_max {MONITOR_QUEUE_BYTES_MAX}"
                );
                monitor.dropped.store(true, Ordering::SeqCst);
                monitor.client.kill();
            }
            fits
        });
        attention.set(MONITORS, !list.is_empty());
    }
}

impl Monitor {
    fn push(&self, line: &[u8]) -> bool {
        let mut queue = lock(&self.queue);
        if queue.len() + line.len() > MONITOR_QUEUE_BYTES_MAX {
            return false;
        }
        queue.extend_from_slice(line);
        drop(queue);
        self.waker.wake();
        true
    }

    /// The lines that wait.
    pub fn take(&self) -> BytesMut {
        std::mem::take(&mut *lock(&self.queue))
    }

    /// Done when lines wait. For its own connection only.
    pub async fn ready(&self) {
        std::future::poll_fn(|context| {
            self.waker.register(context.waker());
            match lock(&self.queue).is_empty() {
                false => std::task::Poll::Ready(()),
                true => std::task::Poll::Pending,
            }
        })
        .await;
    }
}

/// The line that shows a request: `+1700000000.123000 [0 127.0.0.1:50000] "SET" "k" "v"`.
pub fn line(now_ms: u64, space: u8, address: &str, command: &Command, frame: Frame<'_>) -> Vec<u8> {
    let mut line = format!("+{}.{:06} [{space} {address}]", now_ms / 1000, now_ms % 1000 * 1000).into_bytes();
    for (n, arg) in redacted(command, frame).enumerate() {
        if n == MONITOR_ARGS_MAX {
            line.extend_from_slice(format!(" ... ({} more arguments)", frame.len() - n).as_bytes());
            break;
        }
        line.push(b' ');
        quote(&mut line, arg);
    }
    line.extend_from_slice(b"\r\n");
    line
}

/// Where the command begins that a request is about: behind the words of COMMAND GETKEYS, or at 0.
fn asked_about(frame: Frame<'_>) -> usize {
    let is = |n: usize, word: &str| frame.get(n).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    let mut at = 0;
    while is(at, "command") && (is(at + 1, "getkeys") || is(at + 1, "getkeysandflags")) {
        at += 2;
    }
    if mutation::on(Fault::AskedAboutShown) { 0 } else { at }
}

/// The arguments of a request, secrets replaced. They are secret as well where it only asks about a command with them.
pub fn redacted<'a>(command: &Command, frame: Frame<'a>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let begin = asked_about(frame);
    let is = |n: usize, word: &str| frame.get(begin + n).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    let is_of = |word: &str| if begin > 0 { is(0, word) } else { command.name == word };
    let pairs = is_of("config") && is(1, "set");
    let from = match () {
        () if is_of("auth") => Some(1),
        // All behind it: it may be a name, with the option itself further on.
        () if is_of("hello") => {
            frame.args().skip(begin).position(|arg| arg.eq_ignore_ascii_case(b"auth")).map(|at| at + 1)
        }
        // A rule may be a password; DRYRUN may be of one of the others.
        () if is_of("acl") && (is(1, "setuser") || is(1, "dryrun")) => Some(3),
        () => None,
    };
    let from = from.map_or(usize::MAX, |from| begin + from);
    frame.args().enumerate().map(move |(n, arg)| {
        let is_value = pairs && n > begin + 2 && (n - begin) % 2 == 1;
        let secret = n >= from || (is_value && names_a_secret(frame.arg(n - 1)));
        if secret { b"(redacted)".as_slice() } else { arg }
    })
}

/// Redis' settings whose values are secret: `requirepass`, `masterauth`, `tls-key-file-pass` and their kind.
fn names_a_secret(setting: &[u8]) -> bool {
    let setting = setting.to_ascii_lowercase();
    [b"pass", b"auth"].iter().any(|word| setting.windows(word.len()).any(|part| part == *word))
}

/// Appends `arg` in quotes, as Redis does.
fn quote(line: &mut Vec<u8>, arg: &[u8]) {
    line.push(b'"');
    for byte in &arg[..arg.len().min(MONITOR_ARG_BYTES_MAX)] {
        match byte {
            b'\\' | b'"' => line.extend_from_slice(&[b'\\', *byte]),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            7 => line.extend_from_slice(b"\\a"),
            8 => line.extend_from_slice(b"\\b"),
            b' '..=b'~' => line.push(*byte),
            byte => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    line.push(b'"');
    if arg.len() > MONITOR_ARG_BYTES_MAX {
        line.extend_from_slice(format!("... ({} more bytes)", arg.len() - MONITOR_ARG_BYTES_MAX).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Table;
    use forebay_protocol::{Batch, Decoder, Limits};

    #[test]
    fn secrets_are_not_shown() {
        let table = Table::default();
        let plain = [
            ("AUTH SECRET", "AUTH (redacted)"),
            ("auth bob SECRET", "auth (redacted) (redacted)"),
            ("HELLO 3 AUTH bob SECRET SETNAME x", "HELLO 3 AUTH (redacted) (redacted) (redacted) (redacted)"),
            ("HELLO 3 SETNAME x AUTH bob SECRET", "HELLO 3 SETNAME x AUTH (redacted) (redacted)"),
            ("HELLO 3 SETNAME auth AUTH SECRET", "HELLO 3 SETNAME auth (redacted) (redacted)"),
            ("HELLO 3 AUTH x AUTH b SECRET", "HELLO 3 AUTH (redacted) (redacted) (redacted) (redacted)"),
            ("ACL SETUSER bob on >SECRET", "ACL SETUSER bob (redacted) (redacted)"),
            ("ACL DRYRUN bob AUTH SECRET", "ACL DRYRUN bob (redacted) (redacted)"),
            ("CONFIG SET slowlog-max-len 1 RequirePass SECRET", "CONFIG SET slowlog-max-len 1 RequirePass (redacted)"),
            ("CONFIG SET tls-key-file-pass SECRET", "CONFIG SET tls-key-file-pass (redacted)"),
            ("SET auth SECRET", "SET auth SECRET"),
            ("COMMAND GETKEYS SET auth SECRET", "COMMAND GETKEYS SET auth SECRET"),
        ];
        let about = [
            ("COMMAND GETKEYS AUTH bob SECRET", "COMMAND GETKEYS AUTH (redacted) (redacted)"),
            (
                "command getkeysandflags HELLO 3 AUTH b SECRET",
                "command getkeysandflags HELLO 3 AUTH (redacted) (redacted)",
            ),
            (
                "COMMAND GETKEYS CONFIG SET maxmemory 1 requirepass SECRET",
                "COMMAND GETKEYS CONFIG SET maxmemory 1 requirepass (redacted)",
            ),
            (
                "COMMAND GETKEYS COMMAND GETKEYS ACL SETUSER bob >SECRET",
                "COMMAND GETKEYS COMMAND GETKEYS ACL SETUSER bob (redacted)",
            ),
        ];
        let are = |(request, expected): (&str, &str)| {
            let mut batch = Batch::default();
            let mut input = BytesMut::from(format!("{request}\r\n").as_bytes());
            Decoder::new(Limits::default()).decode_batch(&mut input, 1, &mut batch).unwrap();
            let frame = batch.frame(0);
            let parts: Vec<_> = redacted(table.find(frame.arg(0)).unwrap(), frame).collect();
            let shown = String::from_utf8(parts.join(&b' ')).unwrap();
            assert!(shown == expected || mutation::on(Fault::AskedAboutShown), "{shown}");
            shown == expected
        };
        assert!(plain.into_iter().chain(about).all(are));
        let _fault = mutation::put_back(Some(Fault::AskedAboutShown));
        assert!(plain.into_iter().all(are) && !about.into_iter().any(are), "the fault is found");
    }
}
