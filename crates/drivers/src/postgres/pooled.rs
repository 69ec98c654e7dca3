//! Whether a pooler in transaction mode (PgBouncer) stands between us and the server: it lends a backend for one
//! transaction at a time. So what a session has made, prepared statements, the database's lock and its name, is another
//! session's the next time.

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, SimpleQueryMessage};

/// Looks after which two connections are taken for what they seem: others that use the pool may hide it for a while.
const LOOKS: usize = 4;

/// What is said of it.
pub(super) const WHY: &str = "a pooler in transaction or statement mode stands before it (one backend serves several \
    sessions), which takes away prepared statements and the database's lock; connect to PostgreSQL itself, or use a \
    pool with pool_mode = session";

/// Whether two open connections share backends, which those of the server itself never do.
pub(super) async fn is_pooled(one: &Client, other: &Client) -> Result<bool, Error> {
    for _ in 0..LOOKS {
        let first = backend(one).await?;
        match other.batch_execute("BEGIN").await {
            // In statement mode a pooler refuses it.
            Err(error) if error.code() == Some(&SqlState::PROTOCOL_VIOLATION) => return Ok(true),
            begun => begun?,
        }
        // Lent to the other, ours is; or we are lent another while it has that.
        let (lent, again) = (backend(other).await?, backend(one).await?);
        other.batch_execute("ROLLBACK").await?;
        if lent == first || again != first {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The process that serves a connection; by a message that leaves no statement behind.
async fn backend(client: &Client) -> Result<Option<String>, Error> {
    let answer = client.simple_query("SELECT pg_backend_pid()").await?;
    Ok(answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }))
}
