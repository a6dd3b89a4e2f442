//! The memory system: where shared words lie, which core has which line, and what it takes to get one.
//!
//! Here lives what has no clock of its own: each request is made at a time that the engine gives.

pub(crate) mod names;
pub(crate) mod counters;
pub(crate) mod directory;
pub(crate) mod controllers;
pub mod arena;
