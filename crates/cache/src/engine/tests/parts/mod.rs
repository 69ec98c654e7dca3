//! The table for caches that keep their rules to themselves.

#[cfg(not(feature = "loom"))]
mod model;
#[cfg(feature = "loom")]
mod models;
#[cfg(feature = "loom")]
mod publications;
#[cfg(not(feature = "loom"))]
mod threads;
