//! The memory system: where shared words lie, which core has which line, and what it takes to get one.
//!
//! This folder has no clock: each request is made at a time that the engine gives. CPUs, turns and waits belong into
//! `engine`.
//!
//! | file | what for |
//! |---|---|
//! | `arena.rs` | the memory in which lines exist |
//! | `controllers.rs` | memory controllers, one for each node |
//! | `directory.rs` | which core has which line, and what a request for it takes |
//! | `counters.rs`, `names.rs` | transfers counted by word, and the words' names |

pub(crate) mod names;
pub(crate) mod counters;
pub(crate) mod directory;
pub(crate) mod controllers;
pub mod arena;
