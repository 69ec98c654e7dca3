//! What a client may send, and how it is told that it sent something else.

use crate::reply::Reply;

/// What one request may ask of us. Beyond a limit the request is refused and the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Arguments of one request, the command's name included.
    pub args_max: u32,
    /// Bytes of one argument. Redis' `proto-max-bulk-len`.
    pub bulk_bytes_max: u32,
    /// Bytes of an inline command, its line end not counted.
    pub inline_bytes_max: u32,
    /// Bytes of one request as it travels. Redis' `client-query-buffer-limit`, which also counts what follows.
    pub request_bytes_max: u32,
    /// False until a client of a server with passwords has authenticated: then 10 arguments of 16 KiB are the most.
    /// A batch is scanned before it runs, so take one request at a time while this is false.
    pub authenticated: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            args_max: 1_048_576,
            bulk_bytes_max: 64 << 20,
            inline_bytes_max: 64 << 10,
            request_bytes_max: 256 << 20,
            authenticated: true,
        }
    }
}

/// Why a client's bytes are not a request. The text is Redis' own; after it the connection is closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The count after `*` is not a number, or is past [`Limits::args_max`].
    #[error("Protocol error: invalid multibulk length")]
    ArrayLength,
    /// More than 10 arguments before authentication.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedArrayLength,
    /// The line after `*` does not end within 64 KiB.
    #[error("Protocol error: too big mbulk count string")]
    ArrayLine,
    /// An argument does not begin with `$`, but with this byte.
    #[error("Protocol error: expected '$', got '{}'", printable(*.0))]
    ExpectedBulk(u8),
    /// The length after `$` is not a number, is negative, or is past [`Limits::bulk_bytes_max`].
    #[error("Protocol error: invalid bulk length")]
    BulkLength,
    /// More than 16 KiB in one argument before authentication.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedBulkLength,
    /// The line after `$` does not end within 64 KiB.
    #[error("Protocol error: too big bulk count string")]
    BulkLine,
    /// The line does not end within [`Limits::inline_bytes_max`].
    #[error("Protocol error: too big inline request")]
    InlineSize,
    /// An inline command has this control byte: it is TLS, or another protocol.
    #[error("Protocol error: control byte 0x{0:02x} in an inline command; is it TLS, or another protocol?")]
    Foreign(u8),
    /// An inline command's quotes do not match.
    #[error("Protocol error: unbalanced quotes in request")]
    Quotes,
    /// The whole request is past [`Limits::request_bytes_max`], here in bytes. Redis closes without a word.
    #[error("request_bytes_max {0}")]
    RequestSize(u32),
}

fn printable(byte: u8) -> char {
    if matches!(byte, b'\r' | b'\n') { ' ' } else { byte as char }
}

impl ProtocolError {
    /// The last reply on the connection.
    pub fn to_reply(&self) -> Reply {
        match self {
            // The byte is echoed as it is, which a `String` could not hold.
            ProtocolError::ExpectedBulk(byte) => {
                let mut text = b"ERR Protocol error: expected '$', got '?'".to_vec();
                let place = text.len() - 2;
                text[place] = *byte;
                Reply::error(text)
            }
            ProtocolError::RequestSize(_) => Reply::error(format!("LIMIT {self}")),
            other => Reply::error(format!("ERR {other}")),
        }
    }
}
