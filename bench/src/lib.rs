//! Comparisons with other systems on one machine.
//!
//! * `bin/server.rs`: forebay beside redis-server and memcached, through sockets: requests per CPU second of the
//!   server, and latency in an open loop.
//! * `bin/library.rs`: the library in this process: the embedded store beside redb, commits over a slow disk,
//!   transactions over a distant store.
//! * `bin/entries.rs`: what a cached entry costs in memory, beside redis-server and memcached.
//! * `bin/memory.rs`: resident size under churn.
//! * `bin/figure.rs`: figures of the papers ([`figure`]), by the simulator, or on a PostgreSQL started for it.
//! * `bin/postgres`: forebay in front of PostgreSQL: drains, reads, and writers that go around it.
//!
//! The load generator ([`generator`]) tells how busy it was itself, so that a point that it limits claims nothing.
//! Each program ends with a block of Markdown: when, where, by which command, and the tables.

pub mod figure;
pub mod figures;
pub mod generator;
pub mod open_loop;
pub mod peers;
pub mod program;
pub mod replies;
pub mod report;
pub mod workload;
