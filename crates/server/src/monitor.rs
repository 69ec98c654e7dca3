//! MONITOR: clients that are shown every request as it comes. Each has a bounded queue; one that does not read fast
//! enough is dropped and logged, and holds no other up.

mod redacted;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use futures_util::task::AtomicWaker;

pub use redacted::{MONITOR_ARG_BYTES_MAX, MONITOR_ARGS_MAX, line, redacted};

use crate::attention::{Attention, MONITORS};
use crate::clients::Client;

/// Monitors at a time.
pub const MONITORS_MAX: usize = 16;

/// Bytes of lines that wait for one monitor.
pub const MONITOR_QUEUE_BYTES_MAX: usize = 1 << 20;

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
    pub fn show(&self, shown: &[u8], attention: &Attention) {
        let mut list = lock(&self.list);
        list.retain(|monitor| {
            let fits = monitor.push(shown);
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
    fn push(&self, shown: &[u8]) -> bool {
        let mut queue = lock(&self.queue);
        if queue.len() + shown.len() > MONITOR_QUEUE_BYTES_MAX {
            return false;
        }
        queue.extend_from_slice(shown);
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
