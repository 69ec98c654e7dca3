//! Files that are read again while the server runs.

use std::path::Path;

use forebay::cache::{Cache, CacheOptions};
use forebay::policy::Choice;
use forebay_protocol::Reply;

use crate::access::Source;
use crate::graphs::{self, Graphs, ReadSql, Registered, read_types};
use crate::labels::Labels;
use crate::state::Shared;

/// A cache that is there for its policy alone.
const CHECKED_BYTES: usize = 1 << 20;

/// Whether the transaction types of a file or folder can be read by a server that knows none yet.
pub fn check_graphs(path: &Path, sql: Option<ReadSql>, choice: &Choice) -> Result<(), String> {
    let (policy, policy_values) = (choice.policy, choice.values.clone());
    let cache = CacheOptions { budget_bytes: CHECKED_BYTES, partitions: 1, policy, policy_values };
    register((path, sql), &Graphs::default(), (&Labels::default(), false), &Cache::new(&cache)).map(drop)
}

fn register(
    (path, sql): (&Path, Option<ReadSql>),
    graphs: &Graphs,
    (labels, kept): (&Labels, bool),
    cache: &Cache,
) -> Result<Registered, String> {
    let types = read_types(path, sql).map_err(|error| error.to_string())?;
    graphs.register(types, graphs::Source::Operator, (labels, kept), cache).map_err(|refused| match refused {
        Reply::Error(text) => format!("{}: {}", path.display(), String::from_utf8_lossy(&text)),
        _ => format!("{}: refused", path.display()),
    })
}

impl Shared {
    /// Whether a trace is written, which has the numbers of labels.
    pub fn is_traced(&self) -> bool {
        self.recorder.status(self.engine.runtime()).running
    }

    /// Reads transaction types from a file or folder, now and whenever files are read again; in SQL too where that can
    /// be read.
    pub fn read_graphs(&self, path: &Path, sql: Option<ReadSql>) -> Result<Registered, String> {
        let registered = register((path, sql), &self.graphs, (&self.labels, self.is_traced()), self.engine.cache());
        let _ = self.graphs_path.set((path.to_owned(), sql));
        registered
    }

    /// Reads the files again that say who may come in, and those of TLS. What can't be read stays as it is.
    pub async fn reload(&self) {
        let runtime = self.engine.runtime();
        if *self.access.source() != Source::None {
            match self.access.reload(runtime).await {
                Ok(removed) => {
                    for user in &removed {
                        self.labels.forget_user(user.id);
                        self.clients.kill_user(user.id);
                    }
                    tracing::info!(users = self.access.all().len(), "read the users again");
                }
                Err(error) => tracing::error!(%error, "the users stay as they were"),
            }
        }
        if let Some(tls) = self.tls.get()
            && let Err(error) = tls.reload(runtime.now_ms())
        {
            tracing::error!(%error, "serving on with the certificate that was read before");
        }
        if !self.engine.store().caps().owned
            && let Err(why) = self.engine.reload_store().await
        {
            tracing::error!(why, "the mapped tables stay as they were");
        }
        if let Some((path, sql)) = self.graphs_path.get() {
            match self.read_graphs(path, *sql) {
                Ok(Registered { new, replaced, same }) => tracing::info!(new, replaced, same, "read the graphs again"),
                Err(error) => tracing::error!(%error, "the graphs of transaction types stay as they were"),
            }
        }
    }
}
