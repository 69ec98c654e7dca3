//! What connections that have not authenticated make the server hold. All of it is counted in a separate pool. So
//! however many they are, no client that has authenticated is refused anything for them. Where the pool is full the one
//! that holds most is sent away.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clients::Client;

/// The pool.
#[derive(Default)]
pub struct Strangers {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    clients: HashMap<u64, (usize, Arc<Client>)>,
    /// The same, by bytes.
    by_bytes: BTreeSet<(usize, u64)>,
    bytes: usize,
}

impl State {
    fn set(&mut self, client: &Arc<Client>, bytes: usize) {
        self.forget(client.id);
        if bytes > 0 {
            self.clients.insert(client.id, (bytes, client.clone()));
            self.by_bytes.insert((bytes, client.id));
            self.bytes += bytes;
        }
    }

    fn forget(&mut self, id: u64) {
        if let Some((bytes, _)) = self.clients.remove(&id) {
            self.by_bytes.remove(&(bytes, id));
            self.bytes -= bytes;
        }
    }
}

impl Strangers {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that `client` holds so many bytes; 0 where it is no stranger any more. Those that have to go for it, the
    /// largest first: they are forgotten here, and may include itself.
    #[must_use]
    pub fn hold(&self, client: &Arc<Client>, bytes: usize, bytes_max: usize) -> Vec<Arc<Client>> {
        let mut state = self.lock();
        state.set(client, bytes);
        let mut gone = Vec::new();
        while state.bytes > bytes_max {
            let Some((_, id)) = state.by_bytes.last().copied() else { break };
            gone.extend(state.clients.get(&id).map(|(_, client)| client.clone()));
            state.forget(id);
        }
        gone
    }

    /// What they hold in all.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }
}

/// Whether a name of a command is a line of an HTTP request. A web page can have a browser send one to the loopback
/// address, with commands as its body; so, as in Redis since 3.2.7, nothing after these lines is served. A header's
/// value may follow its colon without a space, and some programs put one before the colon.
pub fn is_of_http(name: &[u8]) -> bool {
    let (start, end) = name.split_at(name.len().min(4));
    let host = start.eq_ignore_ascii_case(b"host") && (end.is_empty() || end.starts_with(b":"));
    host || name.eq_ignore_ascii_case(b"post")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::Clients;

    #[test]
    fn the_largest_goes_first_and_what_is_forgotten_is_given_back() {
        let (clients, strangers) = (Clients::default(), Strangers::default());
        let come = || clients.add(String::new(), String::new(), 0, 100).unwrap();
        let [one, two, three] = [come(), come(), come()];
        let hold = |client: &Arc<Client>, bytes| -> Vec<u64> {
            strangers.hold(client, bytes, 100).iter().map(|client| client.id).collect()
        };
        assert_eq!((hold(&one, 40), hold(&two, 50), hold(&three, 10)), (vec![], vec![], vec![]));
        assert_eq!(hold(&three, 15), [two.id]);
        assert_eq!((strangers.bytes(), hold(&three, 70)), (55, vec![three.id]));
        assert_eq!((hold(&one, 0), strangers.bytes()), (vec![], 0));
    }
}
