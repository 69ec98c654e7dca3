//! The outage's parts, each against a naive model of itself.

mod alone;
mod answered;
mod beside;
mod buffer;
mod compare;
mod disk_full;
mod forms;
mod gate;
mod merging;
mod room;
mod seen;
mod slow;
mod sync;
#[path = "../naive/table.rs"]
mod table;
mod taken_along;
mod tickets;
mod waiting;
mod write_back;
