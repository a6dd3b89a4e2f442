//! Compaction: chooses which memory in use is moved so that a large block becomes free.
//!
//! The files here choose what to empty and where to move it; `range/` isolates and moves.

pub(crate) mod compaction;
pub(crate) mod emptiest;
pub(crate) mod scanners;
pub(crate) mod progress;
