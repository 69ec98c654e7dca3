//! The connected clients, as others know them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::task::AtomicWaker;

use crate::limits::ServerLimits;
use crate::tracking::{Push, Pushes};

/// The connected clients by id.
#[derive(Default)]
pub struct Clients {
    list: Mutex<List>,
    next_id: AtomicU64,
    /// How many there are: each read of a request looks.
    count: AtomicUsize,
}

#[derive(Default)]
struct List {
    clients: BTreeMap<u64, Arc<Client>>,
    /// Those that have to authenticate and have sent no request yet: the first to go where there is no room.
    silent: BTreeSet<u64>,
    /// Those that have sent one and have not authenticated: the next.
    strangers: BTreeSet<u64>,
}

impl List {
    /// Which stranger has to make room for another client: the oldest that has sent no request, else the oldest whose
    /// password is not under check. So a client finds a place, and keeps it until as many others have come.
    fn displaced(&self) -> Option<Arc<Client>> {
        let silent = self.silent.first().and_then(|id| self.clients.get(id));
        let strangers = self.strangers.iter().filter_map(|id| self.clients.get(id));
        let mut idle = strangers.filter(|client| !client.checked.load(Ordering::SeqCst));
        silent.or_else(|| idle.next()).cloned()
    }

    fn remove(&mut self, id: u64) {
        self.clients.remove(&id);
        self.silent.remove(&id);
        self.strangers.remove(&id);
    }
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
    /// The id of its user.
    pub user: AtomicU64,
    /// Names that it gave itself, and its user's.
    pub names: Mutex<ClientNames>,
    /// Number of its last command in the table.
    pub command: AtomicUsize,
    /// What CLIENT LIST says of its tracking.
    pub tracking: TrackingShown,
    /// Its password waits for its check, or is checked.
    pub checked: AtomicBool,
    /// It has to authenticate, as far as is known.
    stranger: AtomicBool,
    /// It is a stranger and has sent no request.
    silent: AtomicBool,
    killed: AtomicBool,
    /// It sends no more.
    ended: AtomicBool,
    /// What it is to be told of keys that it has read.
    pub pushes: Pushes,
    waker: AtomicWaker,
}

/// What CLIENT LIST says of a client's tracking, and of the channel on which clients of RESP2 are told.
#[derive(Debug)]
pub struct TrackingShown {
    /// Who is told in its place: a client's id, or 0; -1 if it does not track.
    pub redirect: AtomicI64,
    /// That client is gone.
    pub bereft: AtomicBool,
    /// Changes are told by prefixes.
    pub broadcast: AtomicBool,
    /// It listens on the channel.
    pub subscribed: AtomicBool,
}

impl Default for TrackingShown {
    fn default() -> TrackingShown {
        let (bereft, broadcast, subscribed) = Default::default();
        TrackingShown { redirect: AtomicI64::new(-1), bereft, broadcast, subscribed }
    }
}

/// Names that a client gave itself, and its user's.
#[derive(Clone, Debug, Default)]
pub struct ClientNames {
    /// Its user.
    pub user: Arc<str>,
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

    /// Has its connection closed. A request of it that waits is given up; a commit on its way goes on.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::SeqCst);
        self.waker.wake();
    }

    /// Has it told of changed keys, soon.
    pub fn tell(&self, push: Push) {
        self.pushes.add(push);
        self.waker.wake();
    }

    /// Whether it has to authenticate and has sent no request yet.
    pub fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    /// Whether it was killed.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }

    /// Its connection has seen the end of what it sends.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    /// Whether it sends no more: it may have gone, or only waits for what it has asked.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
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
    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a client, unless there are `clients_max`.
    pub fn add(&self, address: String, local_address: String, now_ms: u64, clients_max: usize) -> Option<Arc<Client>> {
        let mut list = self.lock();
        (list.clients.len() < clients_max).then(|| self.enter(&mut list, address, local_address, now_ms))
    }

    /// Adds a client that has yet to authenticate if `stranger`. Where there are `clients_max`, another stranger is
    /// sent away for it (`List::displaced`). The client, and the one that went for it; `None` where none can go.
    pub fn admit(
        &self,
        address: String,
        local_address: String,
        now_ms: u64,
        stranger: bool,
        limits: &ServerLimits,
    ) -> Option<(Arc<Client>, Option<Arc<Client>>)> {
        let mut list = self.lock();
        let mut displaced = None;
        if list.clients.len() >= limits.clients_max {
            let other = list.displaced()?;
            // Its place is free now; its connection ends as soon as it notices.
            list.remove(other.id);
            other.kill();
            displaced = Some(other);
        }
        let client = self.enter(&mut list, address, local_address, now_ms);
        if stranger {
            client.stranger.store(true, Ordering::Relaxed);
            client.silent.store(true, Ordering::Relaxed);
            list.silent.insert(client.id);
        }
        Some((client, displaced))
    }

    /// A stranger has sent a request.
    pub fn heard(&self, client: &Client) {
        if client.silent.swap(false, Ordering::Relaxed) {
            let mut list = self.lock();
            if list.silent.remove(&client.id) {
                list.strangers.insert(client.id);
            }
        }
    }

    /// A client has authenticated, or does not have to.
    pub fn known(&self, client: &Client) {
        if client.stranger.swap(false, Ordering::Relaxed) {
            client.silent.store(false, Ordering::Relaxed);
            let mut list = self.lock();
            list.silent.remove(&client.id);
            list.strangers.remove(&client.id);
        }
    }

    fn enter(&self, list: &mut List, address: String, local_address: String, now_ms: u64) -> Arc<Client> {
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
            user: AtomicU64::new(0),
            names: Mutex::default(),
            command: AtomicUsize::new(usize::MAX),
            checked: AtomicBool::new(false),
            stranger: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            killed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            pushes: Pushes::default(),
            tracking: TrackingShown::default(),
            waker: AtomicWaker::new(),
        });
        list.clients.insert(id, client.clone());
        self.count.store(list.clients.len(), Ordering::Relaxed);
        client
    }

    /// Sends all clients away who are this user.
    pub fn kill_user(&self, user: u64) {
        for client in self.all().iter().filter(|client| client.user.load(Ordering::SeqCst) == user) {
            client.kill();
        }
    }

    /// Removes a client that is gone.
    pub fn remove(&self, id: u64) {
        let mut list = self.lock();
        list.remove(id);
        self.count.store(list.clients.len(), Ordering::Relaxed);
    }

    /// The client with this id.
    pub fn find(&self, id: u64) -> Option<Arc<Client>> {
        self.lock().clients.get(&id).cloned()
    }

    /// All clients in the order in which they came.
    pub fn all(&self) -> Vec<Arc<Client>> {
        self.lock().clients.values().cloned().collect()
    }

    /// Number of clients.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(clients: &Clients, now_ms: u64, stranger: bool) -> Option<(Arc<Client>, Option<u64>)> {
        let limits = ServerLimits { clients_max: 4, handshake_ms_max: 100, ..ServerLimits::default() };
        let admitted = clients.admit(String::new(), String::new(), now_ms, stranger, &limits);
        admitted.map(|(client, displaced)| {
            assert!(displaced.iter().all(|other| other.is_killed()) && clients.len() <= 4);
            (client, displaced.map(|other| other.id))
        })
    }

    #[test]
    fn the_oldest_who_says_nothing_goes_first() {
        let clients = Clients::default();
        let come = |now_ms, stranger| admit(&clients, now_ms, stranger).unwrap();
        let [(one, _), (two, _), (_, _), (four, _)] = [come(0, true), come(1, true), come(2, false), come(3, true)];
        clients.heard(&one);
        assert!(!one.is_silent() && two.is_silent());
        // 2 before 4; 3 is no stranger.
        let (five, displaced) = come(4, true);
        assert_eq!(displaced, Some(2));
        clients.known(&five);
        let (six, displaced) = come(5, true);
        assert_eq!(displaced, Some(4));
        clients.heard(&six);
        // All have said something: 1 is the oldest, unless its password is under check.
        one.checked.store(true, Ordering::SeqCst);
        six.checked.store(true, Ordering::SeqCst);
        assert!(admit(&clients, 99, true).is_none());
        one.checked.store(false, Ordering::SeqCst);
        assert_eq!(come(99, false).1, Some(1));
        six.checked.store(false, Ordering::SeqCst);
        assert_eq!(come(105, false).1, Some(6));
        assert!(admit(&clients, 1000, false).is_none(), "nobody is a stranger any more");
        clients.heard(&four);
        clients.remove(one.id);
        assert_eq!(clients.len(), 4);
        let list = clients.lock();
        assert!(list.silent.is_empty() && list.strangers.is_empty());
    }
}
