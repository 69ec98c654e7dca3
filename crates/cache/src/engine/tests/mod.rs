//! Tests of the engine as a whole.

#[cfg(not(feature = "loom"))]
pub(crate) mod histories;
#[cfg(not(feature = "loom"))]
mod limits;
#[cfg(not(feature = "loom"))]
mod model;
#[cfg(feature = "loom")]
mod models;
#[cfg(not(feature = "loom"))]
mod naive;
#[cfg(feature = "loom")]
mod notes;
mod parts;
mod pointers;
