//! The simulator: real traces over the same policy code as the live cache, without a server.
//!
//! * [`lab`]: many policies at many sizes over one trace: what `forebay sim` shows. [`catalog`] knows its keys,
//!   [`hints`] what its hint sets stand for. [`contender`] names a policy, [`cell`] is one at one size, [`machine`]
//!   its cache. [`offline`] has those that know the future. [`levels`] follows transactions, [`ahead`] fetches what
//!   they will ask for. [`optimum`] is the best that any policy could do on small instances.
//! * [`row`] is what came out, one policy at one size. [`results`] has all rows of a trace, and the least memory for
//!   a goal. [`latency`] is what hits are worth in time, [`figures`] a table, CSV and JSON.
//! * [`verdict`] says what to buy by them.
//! * [`report`]: the same results as a page of charts; [`draw`] draws them, and other figures.
//! * [`inference`]: graphs of transaction types, proposed from a recorded trace.
//! * [`bare`]: a policy alone over `(key hash, size)` requests; what the reference hit counts are checked with.
//! * [`like_server`]: a recorded trace through the server's own cache, partitions and charges included.
//! * [`replay`]: a trace through the live cache, with its keys, values and fills; what a server's hit ratio is compared
//!   with.

pub mod ahead;
pub mod bare;
pub mod catalog;
pub mod cell;
pub mod contender;
pub mod draw;
pub mod figures;
mod graphs;
pub mod hints;
pub mod inference;
pub mod lab;
mod lab_error;
pub mod latency;
pub mod levels;
pub mod like_server;
pub mod machine;
pub mod offline;
pub mod optimum;
pub mod replay;
pub mod report;
pub mod results;
pub mod row;
mod shown;
mod size;
pub mod verdict;
