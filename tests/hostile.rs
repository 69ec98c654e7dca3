//! Hostile clients.
