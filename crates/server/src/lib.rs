//! The server: any Redis client in, transactions over cache and store behind.
//!
//! The path of a request, file by file:
//!
//! 1. `listener.rs` accepts a connection, or refuses it with a reason;
//! 2. `connection.rs` reads bytes, has them decoded, writes replies; the only one that knows a socket;
//! 3. `session.rs` is what one client has said so far: database, protocol, MULTI, WATCH, TXN, hints. It looks each
//!    request up in the table of `command/` and runs it: on the documents of a transaction, or on the session itself;
//! 4. `replies.rs` keeps the answers in order while some of them wait for their commits.
//!
//! `state.rs` is what all sessions share: each part of it (`slowlog.rs`, `monitor.rs`, `outage.rs`, ..) in its own
//! file. `metrics.rs` declares what is measured; `http/` serves it, and health.

pub mod access;
pub mod attention;
pub mod clients;
pub mod command;
mod connection;
mod crowd;
pub mod cursors;
pub mod given;
mod glob;
pub mod graphs;
mod http;
pub mod labels;
pub mod leases;
mod limits;
mod listener;
pub mod metrics;
pub mod monitor;
pub mod outage;
pub mod pause;
pub mod recorder;
mod refusals;
mod reload;
mod replies;
mod reserved;
mod room;
#[cfg(feature = "lua")]
pub mod script;
mod session;
pub mod settings;
pub mod shadow;
pub mod slowlog;
mod start;
mod state;
mod stop;
mod strangers;
pub mod tally;
pub mod tls;
pub mod tracking;
mod underway;
pub mod walks;

pub use access::Access;
pub use clients::Client;
#[doc(hidden)]
pub use connection::simulated;
pub use http::Http;
pub use limits::ServerLimits;
pub use listener::Server;
pub use reload::check_graphs;
pub use reserved::{Reserved, ServeError};
pub use session::Session;
pub use start::ServerOptions;
pub use state::Shared;
