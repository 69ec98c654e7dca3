//! Ids that clients give their transactions: TXN BEGIN ID and LEASE CHECK ID.

use forebay::error::Unavailable;
use forebay::outage::TicketState;
use forebay::store::Resolved;
use forebay::txn::TxnError;
use forebay_protocol::Reply;

use crate::command::refused;
use crate::given::{Begun, Ended, Taken};
use crate::session::Session;
use crate::state::Shared;

/// 128 bits in hexadecimal, with the dashes of a UUID or without.
pub fn parse_id(arg: &[u8]) -> Result<u128, Reply> {
    let digits = std::str::from_utf8(arg).unwrap_or_default().replace('-', "");
    let hexadecimal = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let id = u128::from_str_radix(&digits, 16).ok().filter(|_| hexadecimal);
    id.ok_or_else(|| Reply::error("ERR a transaction's id is a UUID, or 32 hexadecimal digits"))
}

/// Takes `id` for a transaction of this client, if none has committed under it before.
pub async fn claim(session: &Session, id: u128) -> Result<Taken, Reply> {
    let (shared, user) = (session.shared.clone(), session.identity.name().clone());
    let runtime = shared.engine.runtime();
    let loaded = shared.given.load(&**shared.engine.store(), runtime.elapsed()).await;
    loop {
        let ended = match shared.given.begin(&user, id, runtime.elapsed()) {
            Begun::New(claim) => match &loaded {
                Ok(()) => return Ok(Taken::New(claim)),
                Err(Unavailable(why)) => return Err(refused(&shared, &TxnError::StoreDown(why.clone()))),
            },
            Begun::Open => return Err(Reply::error("TXCONFLICT the transaction with this id is not over, retry")),
            Begun::Ended(ended) => ended,
        };
        let (told, commit) = match ended {
            Ended::Committed(version) => (format!("COMMITTED {version}"), format!("OK {version}")),
            Ended::Buffered(ticket) => buffered(&shared, ticket),
            Ended::Unknown(unknown) => {
                let resolved = match shared.engine.store().outcome(unknown).await {
                    Ok(Resolved::Applied) => Some(Ended::Committed(unknown.0)),
                    Ok(Resolved::NotApplied) => None,
                    Err(_) => return Err(refused(&shared, &TxnError::Unknown(unknown))),
                };
                shared.given.resolve(&user, id, resolved, runtime.elapsed());
                continue;
            }
        };
        return Ok(Taken::Over { told, commit });
    }
}

/// What is told of a transaction that was buffered, at its begin and at its commit.
fn buffered(shared: &Shared, ticket: u64) -> (String, String) {
    let kept = format!("BUFFERED {ticket}");
    match shared.gate.as_ref().map(|gate| gate.ticket(ticket)) {
        Some(TicketState::Applied(version)) => (format!("COMMITTED {version}"), format!("OK {version}")),
        Some(TicketState::Quarantined(reason)) => (format!("QUARANTINED {reason}"), kept),
        Some(TicketState::Conflict(reason)) => (format!("CONFLICT {reason}"), kept),
        Some(TicketState::Dropped(reason)) => (format!("DROPPED {reason}"), kept),
        Some(TicketState::Pending | TicketState::Over | TicketState::Lost | TicketState::Unknown) | None => {
            (kept.clone(), kept)
        }
    }
}
