//! How an action of a client ended.

use std::time::Duration;

use forebay_protocol::Reply;

use crate::client::{ClientError, Says};

/// Longest text of a failure that is kept.
const TEXT_MAX: usize = 300;

/// How an action ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Done.
    Done,
    /// Done, but what it looked for is not there.
    Missing,
    /// Done, and said to be buffered: the store has it later.
    Buffered,
    /// There was nothing to do; it counts as no action.
    Skipped,
}

/// Why an action failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// By what failures are counted: `STOREDOWN`, `23505`, `lost`.
    pub kind: String,
    /// All that is known, in one line.
    pub text: String,
    /// The connection is of no more use.
    pub lost: bool,
}

impl Failure {
    /// The server refused it; the connection is as good as before. The kind is the text's first word.
    pub fn refused(text: impl Into<String>) -> Failure {
        let text = shortened(text.into());
        let kind = text.split_whitespace().next().unwrap_or("ERR").to_owned();
        Failure { kind, text, lost: false }
    }

    /// A failure of a kind of its own, on a connection that is as good as before.
    pub fn of_kind(kind: impl Into<String>, text: impl Into<String>) -> Failure {
        Failure { kind: kind.into(), text: shortened(text.into()), lost: false }
    }

    /// The connection broke: what was sent may have taken effect.
    pub fn lost(text: impl Into<String>) -> Failure {
        Failure { kind: "lost".into(), text: shortened(text.into()), lost: true }
    }

    /// There was no connection: nothing took effect.
    pub fn unreachable(text: impl Into<String>) -> Failure {
        Failure { kind: "unreachable".into(), text: shortened(text.into()), lost: true }
    }

    /// No reply in time: what was sent may have taken effect.
    pub fn late(time: Duration) -> Failure {
        Failure { kind: "no-reply".into(), text: format!("no reply within {} s", time.as_secs_f64()), lost: true }
    }

    /// The reply, unless it is an error.
    pub fn unless_error(reply: Reply) -> Result<Reply, Failure> {
        match reply.error_text() {
            Some(text) => Err(Failure::refused(text)),
            None => Ok(reply),
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        match error {
            ClientError::Connect { source, .. } => Failure::unreachable(source.to_string()),
            ClientError::Refused { reply, .. } => Failure::refused(reply),
            lost => Failure::lost(lost.to_string()),
        }
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text,
    }
}
