//! The cache of records.

#[cfg(not(feature = "loom"))]
mod drops;
#[cfg(not(feature = "loom"))]
mod growth;
#[cfg(not(feature = "loom"))]
mod histories;
#[cfg(not(feature = "loom"))]
mod model;
#[cfg(feature = "loom")]
mod models;
#[cfg(not(feature = "loom"))]
mod numbers;
#[cfg(not(feature = "loom"))]
mod policies;

#[cfg(not(feature = "loom"))]
use numbers::{Numbers, Pointers, Present, Put, spread, validate};
