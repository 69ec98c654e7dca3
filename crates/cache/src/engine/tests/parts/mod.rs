//! The table for caches that keep their rules to themselves.

#[cfg(not(feature = "loom"))]
mod model;
#[cfg(feature = "loom")]
mod models;
#[cfg(not(feature = "loom"))]
mod threads;
