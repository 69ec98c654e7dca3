//! What we send at servers to see that they are right and how fast they are.
//!
//! * [`bg`]: BG, simple actions of a social network, and which reads of it can not be true;
//! * [`client`]: our own RESP client;
//! * [`generate`]: workloads as traces;
//! * [`replay`]: a trace through a server, measured;
//! * [`checkers`]: workloads that show whether transactions are serializable, one runner, and the judges of what it
//!   saw;
//! * [`live`]: workloads against a running server or database, with figures, a picture and verdicts;
//! * [`popularity`]: how unevenly keys are asked for;
//! * [`shop`]: the small shop of the demo.
//!
//! Without the feature `lab` only the shop, the client and the checkers are there.
//!
//! Everything here speaks RESP over a socket, so that another server can stand where forebay stands.

#[cfg(feature = "lab")]
pub mod bg;
pub mod checkers;
pub mod client;
#[cfg(feature = "lab")]
pub mod generate;
#[cfg(feature = "lab")]
mod latency;
#[cfg(feature = "lab")]
pub mod live;
#[cfg(feature = "lab")]
pub mod popularity;
#[cfg(feature = "lab")]
pub mod replay;
pub mod shop;
#[cfg(feature = "lab")]
mod ycsb;

pub use client::{Client, ClientError};
