//! BG: simple actions of a social network (Barahmand and Ghandeharizadeh, CIDR 2013), as TARDIS is measured with it.
//!
//! Members have profiles, friends, invitations that wait for an answer, resources on their walls, and comments on
//! these. What is said of a member changes with the actions. So a generator that knows the actions can tell whether
//! what it reads can be true: BG counts reads that can't, *unpredictable* ones.
//!
//! * [`action`]: the eleven actions, the sessions made of them, and the mixes;
//! * [`data`]: what there is at first, the same from one seed, and how popular each member is;
//! * [`graph`]: what there has to be now; chooses writes that change something;
//! * [`choose`]: what a client does next;
//! * [`judge`]: which reads can't be true, from the log of all reads and updates;
//! * [`soar`]: the search for the highest throughput under a service level agreement.

pub mod action;
pub mod choose;
pub mod data;
pub mod graph;
pub mod judge;
pub mod soar;

pub use action::{Action, MIXES, Mix, mix};
pub use data::{Data, Scale};
pub use graph::{Ended, Graph, Skipped, Write};
pub use judge::{Kind, Object, Read, Seen, Update, Verdict, judge};
