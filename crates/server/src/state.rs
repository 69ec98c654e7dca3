//! What all sessions of a server share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay::txn::Engine;
use futures_util::task::AtomicWaker;

use crate::command::Table;
use crate::labels::Labels;
use crate::limits::ServerLimits;

/// What a server is made with.
pub struct ServerOptions {
    /// Cache, transactions and store.
    pub engine: Engine,
    /// Limits that hold for this server.
    pub limits: ServerLimits,
    /// Threads that serve, for INFO.
    pub threads: usize,
}

/// What all sessions of a server share.
pub struct Shared {
    /// Cache, transactions and store.
    pub engine: Engine,
    /// The commands by name.
    pub table: Table,
    /// Limits that hold for this server.
    pub limits: ServerLimits,
    /// Connected clients.
    pub clients: Clients,
    /// Names of transaction types and vertices.
    pub labels: Labels,
    /// Figures of the server.
    pub figures: Figures,
    /// Threads that serve.
    pub threads: usize,
    /// Wall clock at the start, ms since the Unix epoch.
    pub started_ms: u64,
    /// Set once, when the server is to stop.
    pub stopping: Stop,
}

/// Figures of a server, counted since its start or since CONFIG RESETSTAT.
#[derive(Default)]
pub struct Figures {
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Connections refused for want of room.
    pub connections_refused: AtomicU64,
    /// Commands run.
    pub commands: AtomicU64,
    /// Requests that ended in an error reply.
    pub errors: AtomicU64,
    /// Interactive transactions open now.
    pub transactions_open: AtomicUsize,
    /// Bytes of replies that wait for clients now.
    pub reply_bytes: AtomicUsize,
    /// Bytes read from clients.
    pub bytes_in: AtomicU64,
    /// Bytes written to clients.
    pub bytes_out: AtomicU64,
}

/// A request to stop, which any number may wait for.
#[derive(Default)]
pub struct Stop {
    stopping: AtomicBool,
    wakers: Mutex<Vec<futures_channel::oneshot::Sender<()>>>,
}

impl Stop {
    /// Asks everyone to stop.
    pub fn set(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        let wakers = std::mem::take(&mut *self.wakers.lock().unwrap_or_else(PoisonError::into_inner));
        for waker in wakers {
            let _ = waker.send(());
        }
    }

    /// Whether it was asked for.
    pub fn is_set(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Done when it is asked for.
    pub async fn wait(&self) {
        let (sender, receiver) = futures_channel::oneshot::channel();
        {
            let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
            if self.is_set() {
                return;
            }
            // Those that no longer wait make room.
            wakers.retain(|waker| !waker.is_canceled());
            wakers.push(sender);
        }
        let _ = receiver.await;
    }
}

/// The connected clients by id.
#[derive(Default)]
pub struct Clients {
    clients: Mutex<BTreeMap<u64, Arc<Client>>>,
    next_id: AtomicU64,
}

/// What others may know of, and do to, a connected client.
pub struct Client {
    /// Its number.
    pub id: u64,
    /// Its address: `127.0.0.1:50000`.
    pub address: String,
    /// The server's address that it connected to.
    pub local_address: String,
    /// When it connected, ms since the Unix epoch.
    pub connected_ms: u64,
    /// When its last batch of requests began, ms since the Unix epoch.
    pub active_ms: AtomicU64,
    /// Its database.
    pub space: AtomicU64,
    /// RESP version.
    pub protocol: AtomicU64,
    /// Commands queued in MULTI, plus one; 0 outside.
    pub multi: AtomicU64,
    /// Keys watched.
    pub watched: AtomicU64,
    /// Whether an interactive transaction is open.
    pub in_txn: AtomicBool,
    /// Names that it gave itself.
    pub names: Mutex<ClientNames>,
    /// Name of its last command.
    pub command: Mutex<&'static str>,
    killed: AtomicBool,
    waker: AtomicWaker,
}

/// Names that a client gave itself.
#[derive(Clone, Debug, Default)]
pub struct ClientNames {
    /// CLIENT SETNAME.
    pub name: String,
    /// CLIENT SETINFO LIB-NAME.
    pub library: String,
    /// CLIENT SETINFO LIB-VER.
    pub library_version: String,
}

impl Client {
    /// What it called itself.
    pub fn names(&self) -> MutexGuard<'_, ClientNames> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has its connection closed once it is between two requests.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::SeqCst);
        self.waker.wake();
    }

    /// Whether it was killed.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }

    /// Done when it is killed. For its own connection only.
    pub async fn killed(&self) {
        std::future::poll_fn(|context| {
            self.waker.register(context.waker());
            match self.is_killed() {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        })
        .await;
    }
}

impl Clients {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a client, unless there are `clients_max`.
    pub fn add(&self, address: String, local_address: String, now_ms: u64, clients_max: usize) -> Option<Arc<Client>> {
        let mut clients = self.lock();
        if clients.len() >= clients_max {
            return None;
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Arc::new(Client {
            id,
            address,
            local_address,
            connected_ms: now_ms,
            active_ms: AtomicU64::new(now_ms),
            space: AtomicU64::new(0),
            protocol: AtomicU64::new(2),
            multi: AtomicU64::new(0),
            watched: AtomicU64::new(0),
            in_txn: AtomicBool::new(false),
            names: Mutex::default(),
            command: Mutex::new(""),
            killed: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        clients.insert(id, client.clone());
        Some(client)
    }

    /// Removes a client that is gone.
    pub fn remove(&self, id: u64) {
        self.lock().remove(&id);
    }

    /// All clients in the order in which they came.
    pub fn all(&self) -> Vec<Arc<Client>> {
        self.lock().values().cloned().collect()
    }

    /// Number of clients.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Shared {
    /// The state of a server that has not served yet.
    pub fn new(options: ServerOptions) -> Shared {
        let started_ms = options.engine.runtime().now_ms();
        Shared {
            engine: options.engine,
            table: Table::default(),
            limits: options.limits,
            clients: Clients::default(),
            labels: Labels::default(),
            figures: Figures::default(),
            threads: options.threads,
            started_ms,
            stopping: Stop::default(),
        }
    }
}
