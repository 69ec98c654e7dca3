//! What each new connection asks before it is used. It may have reached another database, an earlier state, or one that
//! is no longer ours ([`Identity`]).

use tokio::sync::Mutex;
use tokio_postgres::{Client, Error, Row};

use super::classify::told;
use super::raise::raise;
use super::sql::GREET;
use crate::sql::identity::{Found, Holder, Identity, Judged};

/// From the answer to [`GREET`].
pub(super) fn found(row: &Row) -> Result<Found, Error> {
    let owner = match row.try_get(1)? {
        Some(owner) => Some(Holder { owner, run: row.try_get(2)?, since: row.try_get(3)?, place: row.try_get(4)? }),
        None => None,
    };
    Ok(Found { incarnation: row.try_get::<_, i64>(0)? as u64, owner, there: row.try_get(5)? })
}

/// Whether this is still ours, asked over `client`; no more is found out, and nothing changed.
pub(super) async fn look(identity: &Identity, client: &Client) -> Result<(), String> {
    let nothing: Vec<Vec<u8>> = Vec::new();
    let row = client.query_one(GREET, &[&nothing]).await.map_err(|error| told(&error))?;
    identity.refuse_others(&found(&row).map_err(|error| told(&error))?)
}

/// One connection at a time finds out that the database is another one.
#[derive(Default)]
pub(super) struct Greeting(Mutex<()>);

impl Greeting {
    /// Whether a connection that `found` this may be used.
    pub(super) async fn recognise(&self, identity: &Identity, client: &Client, found: &Found) -> Result<(), String> {
        let ours = identity.incarnation();
        let judged = identity.judge(found)?;
        if judged == Judged::Same {
            return Ok(());
        }
        let _alone = self.0.lock().await;
        let just_now = || Err("the database was found in an earlier state just now; ask again".to_owned());
        if identity.incarnation() != ours {
            return just_now();
        }
        let raised = match judged {
            Judged::Raised(raised) => raised,
            // Only what was found is replaced: who has come since is not overlooked.
            _ => match raise(identity.own(), client, ours, Some(found.incarnation)).await {
                Ok(Some(raised)) => raised,
                Ok(None) => return just_now(),
                Err(error) => return Err(told(&error)),
            },
        };
        identity.went_back_to(raised);
        Ok(())
    }
}
