//! Comparisons with other systems on one machine.
//!
//! `bin/server.rs` sets forebay beside redis-server; `bin/memory.rs` measures resident size. Both start real programs
//! and speak to them through sockets. A figure of speed is requests per CPU second of the server; the load generator
//! ([`generator`]) tells how busy it was itself, so that a point that it limits claims nothing.

pub mod figures;
pub mod generator;
pub mod program;
