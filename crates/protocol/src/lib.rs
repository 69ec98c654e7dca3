//! RESP2 and RESP3, the protocol that Redis clients speak: bytes in, frames out. No runtime, no sockets, nothing else
//! of forebay, so that server, tools, tests and fuzzers all use the same code.
//!
//! | module | direction | what it holds |
//! |---|---|---|
//! | [`decoder`] | client -> server | [`Decoder`]: arrays of bulk strings and inline commands, singly or by batch |
//! | [`request`] | client -> server | [`Request`], [`Batch`] and [`Frame`]: what it yields |
//! | [`limits`] | client -> server | [`Limits`] and [`ProtocolError`]: what is refused, and in which words |
//! | `inline` | client -> server | the quoting rules of inline commands, applied in place |
//! | [`reply`] | server -> client | [`Reply`] and its bytes in either [`Protocol`], with Redis' downgrades for RESP2 |
//! | [`double`] | both | how Redis prints a floating point number |
//! | [`client`] | the other side of both | [`encode_command`] and [`ReplyDecoder`], for our own tools and tests |
//! | [`errors`] | server -> client | the error texts that client libraries read, word for word |
//!
//! A socket's bytes go through a [`Decoder`] that belongs to the connection; what it yields are arguments only. Whether
//! the command exists, and how many arguments it takes, is for the caller. A [`ProtocolError`] is final: the caller
//! writes [`ProtocolError::to_reply`] and closes the connection, as Redis does.
//!
//! Where a doc comment says "Redis", it was observed on redis-server 7.0.15 or, where that is said, read in its source.

pub mod client;
pub mod decoder;
pub mod double;
pub mod errors;
mod inline;
mod integer;
pub mod limits;
mod plain;
pub mod reply;
pub mod request;

pub use client::{ReplyDecoder, ReplyError, ReplyLimits, encode_command};
pub use decoder::Decoder;
pub use limits::{Limits, ProtocolError};
pub use reply::{Protocol, Reply};
pub use request::{Batch, Frame, Request, Span};
